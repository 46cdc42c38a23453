//! The line inside each image that says what it is: whoever gets hold of the bytes can read it off, however they came.

use crate::contents::TalosImage;

const BEGINNING: &[u8] = b"simulated Talos v";
/// Where the line lies in a disk, in a disk as qcow2, and on a CD.
pub(super) const IN_DISK: usize = 512;
pub(super) const IN_QCOW2: usize = 5 * (64 << 10) + IN_DISK;
pub(super) const ON_CD: usize = 21 * 2048;

/// `simulated Talos v1.13.9, schematic ID, nocloud-amd64.raw`
pub(super) fn line(id: &str, version: &str, name: &str) -> String {
    format!("simulated Talos {version}, schematic {id}, {name}\n")
}

/// What the line in these bytes says, if there is one.
pub(crate) fn find(bytes: &[u8]) -> Option<TalosImage> {
    let at = [IN_DISK, IN_QCOW2, ON_CD].into_iter();
    let mut found = at.filter_map(|at| bytes.get(at..).filter(|rest| rest.starts_with(BEGINNING)));
    let rest = found.next()?;
    let line = rest.split(|byte| *byte == b'\n').next()?;
    parse(std::str::from_utf8(line).ok()?)
}

fn parse(line: &str) -> Option<TalosImage> {
    let mut parts = line.strip_prefix("simulated Talos v")?.split(", ");
    let version = parts.next()?.to_owned();
    let schematic = parts.next()?.strip_prefix("schematic ")?.to_owned();
    let name = parts.next()?;
    let (target, format) = name.rsplit_once('.')?;
    let target = target.strip_suffix("-secureboot").unwrap_or(target);
    let platform = target.strip_suffix("-amd64").or_else(|| target.strip_suffix("-arm64"))?.to_owned();
    Some(TalosImage { version, schematic, platform, iso: format == "iso" })
}

#[cfg(test)]
mod tests {
    use super::super::make_bytes;
    use super::*;

    #[test]
    fn every_image_says_what_it_is() {
        for (name, iso) in [
            ("nocloud-amd64.raw", false),
            ("nocloud-amd64.qcow2", false),
            ("nocloud-arm64-secureboot.vhd", false),
            ("nocloud-amd64.iso", true),
        ] {
            let bytes = make_bytes("abc", "v1.13.9", name).unwrap();
            let expected = TalosImage {
                version: "1.13.9".into(),
                schematic: "abc".into(),
                platform: "nocloud".into(),
                iso,
            };
            assert_eq!(find(&bytes), Some(expected), "{name}");
        }
        let packed = make_bytes("abc", "v1.13.9", "metal-amd64.raw.xz").unwrap();
        assert_eq!(find(&packed), None, "nobody boots what is packed");
    }
}
