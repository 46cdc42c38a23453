//! `sourceImage`: where an image comes from, what it is, and what it must hash to.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};
use talmox_config::file::WebUrl;
use talmox_config::read::{At, Reading, Text, Value as _, block};
use talmox_config::{Code, Problem};
use talmox_types::desired::{Compression, Image};
use talmox_types::{Checksum, ChecksumAlgorithm};

use super::values::{ChecksumType, ImageName};

block! {
    /// Where the image of a template comes from.
    pub struct SourceImage as "sourceImage" {
        /// Its address.
        url: WebUrl = "url",
        /// What it is called; the extension says what it is.
        image_name: ImageName = "imageName",
        /// What it must hash to.
        checksum: Text = "checksum",
        /// How that was computed.
        checksum_type: ChecksumType = "checksumType",
    }
}

/// What a file is, by what its name ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Qcow2,
    Raw,
    Vmdk,
}

impl Format {
    /// What Proxmox wants such a file to be called.
    fn extension(self) -> &'static str {
        match self {
            Self::Qcow2 => "qcow2",
            Self::Raw => "raw",
            Self::Vmdk => "vmdk",
        }
    }
}

/// What the end of a name gives away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ending {
    format: Told,
    compression: Option<Packing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Is(Format),
    /// `.img`: cloud images are qcow2 under that name, those for memory cards raw.
    Img,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Known(Compression),
    /// One that nobody here can unpack.
    Other,
}

impl Ending {
    fn of(name: &str) -> Self {
        let lower = name.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        let packings = [
            (".xz", Packing::Known(Compression::Xz)),
            (".gz", Packing::Known(Compression::Gz)),
            (".zst", Packing::Known(Compression::Zst)),
            (".bz2", Packing::Other),
            (".lzo", Packing::Other),
            (".zip", Packing::Other),
        ];
        let packed = packings.iter().find_map(|(end, packing)| Some((lower.strip_suffix(end)?, *packing)));
        let (rest, compression) = packed.map_or((lower.as_str(), None), |(rest, how)| (rest, Some(how)));
        let format = match rest.rsplit_once('.').map(|(_, end)| end) {
            Some("qcow2") => Told::Is(Format::Qcow2),
            Some("raw") => Told::Is(Format::Raw),
            Some("vmdk") => Told::Is(Format::Vmdk),
            Some("img") => Told::Img,
            Some(_) | None => Told::Nothing,
        };
        Self { format, compression }
    }
}

/// The image, and the name its file gets on a storage; none after having reported why.
pub(super) fn read(source: &At<SourceImage>, template: &str, reading: &mut Reading<'_>) -> Option<Image> {
    let SourceImage { url, image_name, checksum, checksum_type, broken } = &source.value;
    let checksum = match checksum {
        // Of a type nobody knows, nobody knows what it looks like.
        Some(_) if broken.contains(&"checksumType") => None,
        Some(text) => Some(read_checksum(text, checksum_type.as_ref(), url.as_ref(), reading)),
        None => {
            nothing_to_check(checksum_type.as_ref(), reading);
            None
        }
    };
    if url.is_none() && !broken.contains(&"url") {
        reading.report(
            Problem::error(Code::MissingKey, "sourceImage needs url")
                .at(source.location, "no url")
                .hint("url: https://cloud-images.ubuntu.com/noble/current/noble-server-cloudimg-amd64.img"),
        );
    }
    let url = url.as_ref()?;
    let (format, compression) = what_it_is(url, image_name.as_ref(), reading)?;
    let checksum = match checksum {
        Some(read) => Some(read?),
        None => None,
    };
    if !broken.is_empty() {
        return None;
    }
    let address = url.value.0.to_string();
    let hash = hash(&address, checksum.as_ref());
    let file = format!("talmox-{template}-{hash}.{}", format.extension());
    Some(Image { url: address, file, checksum, compression, schematic: None })
}

/// Another address or checksum means another file.
fn hash(url: &str, checksum: Option<&Checksum>) -> String {
    let checksum = checksum.map(ToString::to_string).unwrap_or_default();
    let digest = Sha256::digest(format!("{url}\n{checksum}"));
    digest.iter().take(6).fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What the file is and how it is packed: the name that was chosen for it first, then its address.
fn what_it_is(
    url: &At<WebUrl>,
    name: Option<&At<ImageName>>,
    reading: &mut Reading<'_>,
) -> Option<(Format, Option<Compression>)> {
    let address = Ending::of(url.value.0.path());
    let named = name.map(|name| Ending::of(&name.value.0));
    let compression = match address.compression {
        Some(Packing::Other) => {
            reading.report(
                Problem::error(Code::InvalidValue, "this image is packed in a way nothing here unpacks")
                    .at(url.location, "packed")
                    .hint("xz, gz and zst are unpacked; better is an image that is not packed at all"),
            );
            return None;
        }
        Some(Packing::Known(compression)) => Some(compression),
        None => None,
    };
    let told = match named.map(|ending| ending.format) {
        Some(Told::Is(format)) => Told::Is(format),
        Some(Told::Img) if address.format == Told::Nothing => Told::Img,
        Some(Told::Img | Told::Nothing) | None => address.format,
    };
    let format = match told {
        Told::Is(format) => format,
        Told::Img => {
            assumed(url, name, reading);
            Format::Qcow2
        }
        Told::Nothing => {
            let at = name.map_or(url.location, |name| name.location);
            reading.report(
                Problem::error(Code::InvalidValue, "nothing says what kind of image this is")
                    .at(at, "no .qcow2, .raw, .img or .vmdk at its end")
                    .hint("imageName: NAME.qcow2, or NAME.raw"),
            );
            return None;
        }
    };
    if let (Told::Is(there), Some(name)) = (address.format, name)
        && there != format
    {
        let (there, format) = (there.extension(), format.extension());
        reading.report(
            Problem::error(Code::InvalidValue, format!("imageName says {format}, and the image is {there}"))
                .at(name.location, format!("ends with .{format}"))
                .related(url.location, format!("ends with .{there}"))
                .hint(format!("Proxmox looks into the file and refuses it: imageName: NAME.{there}")),
        );
        return None;
    }
    Some((format, compression))
}

/// If it is not what is assumed, Proxmox refuses it; a qcow2 image taken for a raw one would make a disk nothing boots from.
fn assumed(url: &At<WebUrl>, name: Option<&At<ImageName>>, reading: &mut Reading<'_>) {
    let at = name.map_or(url.location, |name| name.location);
    reading.report(
        Problem::note(Code::InvalidValue, ".img is taken for qcow2, as cloud images are")
            .at(at, "may be qcow2 or raw")
            .hint("imageName: NAME.raw if it is a raw image"),
    );
}

fn nothing_to_check(kind: Option<&At<ChecksumType>>, reading: &mut Reading<'_>) {
    if let Some(kind) = kind {
        reading.report(
            Problem::warning(Code::MissingKey, "checksumType without a checksum checks nothing")
                .at(kind.location, "no checksum beside it")
                .hint("add checksum, or leave both out"),
        );
    }
}

/// The checksum; `Some(None)` of the caller is one that is there and no good.
fn read_checksum(
    text: &At<Text>,
    kind: Option<&At<ChecksumType>>,
    url: Option<&At<WebUrl>>,
    reading: &mut Reading<'_>,
) -> Option<Checksum> {
    let value = text.value.0.as_str();
    let by_length = ChecksumAlgorithm::ALL.into_iter().find(|algorithm| algorithm.digits() == value.len());
    let algorithm =
        kind.map(|kind| ChecksumAlgorithm::of_word(&kind.value.show())).map_or(by_length, |said| said);
    if let Some(checksum) = algorithm.and_then(|algorithm| Checksum::new(algorithm, value).ok()) {
        return Some(checksum);
    }
    let wanted = algorithm.unwrap_or(ChecksumAlgorithm::Sha256);
    let (word, digits) = (wanted.word(), wanted.digits());
    let is_hex = value.bytes().all(|b| b.is_ascii_hexdigit());
    let (message, label) = if value.starts_with('<') || value.ends_with('>') {
        (format!("{value} is a placeholder: put the checksum of the image here"), "still to be filled in")
    } else if is_hex {
        let found = value.len();
        (format!("a {word} checksum has {digits} digits, this has {found}"), "not as long as its type")
    } else {
        ("a checksum is made of hexadecimal digits".to_owned(), "not hexadecimal")
    };
    let mut problem = Problem::error(Code::InvalidValue, message).at(text.location, label);
    if let Some(kind) = kind {
        problem = problem.related(kind.location, format!("{digits} digits"));
    }
    let other = by_length.filter(|other| is_hex && *other != wanted);
    reading.report(problem.hint(match (other, url) {
        (Some(other), _) => format!("checksumType: {} has that length", other.word()),
        (None, Some(url)) => format!(
            "the {digits} digits the publisher lists, or those of: curl -sL {} | {word}sum; without checksum and checksumType \
             only the server's certificate protects the download",
            url.value.0
        ),
        (None, None) => format!("{digits} hexadecimal digits"),
    }));
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_give_away_what_a_file_is() {
        let told = |name: &str| {
            let Ending { format, compression } = Ending::of(name);
            (format, compression)
        };
        assert_eq!(told("a/noble.QCOW2"), (Told::Is(Format::Qcow2), None));
        assert_eq!(told("x.raw.xz"), (Told::Is(Format::Raw), Some(Packing::Known(Compression::Xz))));
        assert_eq!(told("x.img.bz2"), (Told::Img, Some(Packing::Other)));
        assert_eq!(told("v1.2/qcow2"), (Told::Nothing, None));
    }

    #[test]
    fn another_address_or_checksum_is_another_file() {
        let sum = Checksum::parse("md5:d41d8cd98f00b204e9800998ecf8427e").unwrap();
        let names = [hash("https://a/x", None), hash("https://a/y", None), hash("https://a/x", Some(&sum))];
        assert!(names.iter().all(|name| name.len() == 12));
        assert!(names[0] != names[1] && names[0] != names[2] && names[1] != names[2]);
    }
}
