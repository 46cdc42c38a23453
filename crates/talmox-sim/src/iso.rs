//! Reads the root folder of an ISO 9660 file system, as Linux mounts it: Rock Ridge names if there are any, else those of
//! Joliet, else the plain ones in lower case.

use std::collections::BTreeMap;

const BLOCK: usize = 2048;
/// Descriptors begin here.
const FIRST: usize = 16;
const PRIMARY: u8 = 1;
const SUPPLEMENTARY: u8 = 2;
const END: u8 = 255;
/// Flags of an entry.
const DIRECTORY: u8 = 2;
/// Escape sequences that say that a supplementary descriptor is Joliet's.
const JOLIET: [&[u8]; 3] = [b"%/@", b"%/C", b"%/E"];

/// A volume.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    pub(crate) label: String,
    /// Those of the root folder, by name.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

/// The volume in these bytes; none if it is not there or not whole.
pub(crate) fn read(bytes: &[u8]) -> Option<Volume> {
    let mut primary = None;
    let mut joliet = None;
    for number in FIRST.. {
        let descriptor = block(bytes, number)?;
        if &descriptor[1..6] != b"CD001" {
            return None;
        }
        match descriptor[0] {
            PRIMARY => primary = primary.or(Some(descriptor)),
            SUPPLEMENTARY if JOLIET.iter().any(|sequence| descriptor[88..].starts_with(sequence)) => {
                joliet = joliet.or(Some(descriptor));
            }
            END => break,
            _ => {}
        }
    }
    let primary = primary?;
    let label = String::from_utf8_lossy(&primary[40..72]).trim_end().to_owned();
    let entries = folder(bytes, primary)?;
    let rock_ridge = entries.iter().any(|entry| entry.alternative.is_some());
    let (entries, unicode) = match joliet.filter(|_| !rock_ridge) {
        Some(joliet) => (folder(bytes, joliet)?, true),
        None => (entries, false),
    };
    let files = entries.into_iter().filter(|entry| !entry.is_folder).map(|entry| {
        let name = entry.name(unicode);
        let end = entry.begin.checked_add(entry.size)?;
        Some((name, bytes.get(entry.begin..end)?.to_vec()))
    });
    Some(Volume { label, files: files.collect::<Option<_>>()? })
}

struct Entry<'b> {
    begin: usize,
    size: usize,
    is_folder: bool,
    identifier: &'b [u8],
    /// The name that Rock Ridge gives it.
    alternative: Option<String>,
}

impl Entry<'_> {
    fn name(&self, unicode: bool) -> String {
        if let Some(name) = &self.alternative {
            return name.clone();
        }
        let plain = if unicode {
            let units = self
                .identifier
                .chunks(2)
                .map(|pair| pair.iter().fold(0_u16, |unit, byte| unit << 8 | u16::from(*byte)));
            char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
        } else {
            String::from_utf8_lossy(self.identifier).to_lowercase()
        };
        let plain = plain.split_once(';').map_or(plain.as_str(), |(name, _)| name);
        plain.trim_end_matches('.').to_owned()
    }
}

fn block(bytes: &[u8], number: usize) -> Option<&[u8]> {
    bytes.get(number.checked_mul(BLOCK)?..)?.get(..BLOCK)
}

/// The entries of a descriptor's root folder, without itself and the one above.
fn folder<'b>(bytes: &'b [u8], descriptor: &'b [u8]) -> Option<Vec<Entry<'b>>> {
    let root = entry(descriptor.get(156..190)?)?;
    let end = root.begin.checked_add(root.size)?;
    let mut rest = bytes.get(root.begin..end)?;
    let mut entries = Vec::new();
    while let Some(&length) = rest.first() {
        if length == 0 {
            // Entries do not cross blocks; what is left of one is empty.
            let skipped = (rest.len() - 1) % BLOCK + 1;
            rest = &rest[skipped..];
            continue;
        }
        let (own, others) = rest.split_at_checked(usize::from(length))?;
        let found = entry(own)?;
        if !matches!(found.identifier, [0 | 1]) {
            entries.push(found);
        }
        rest = others;
    }
    Some(entries)
}

fn entry(bytes: &[u8]) -> Option<Entry<'_>> {
    let number = |at: usize| {
        let field = bytes.get(at..at + 4)?;
        usize::try_from(field.iter().rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte))).ok()
    };
    let length = usize::from(*bytes.get(32)?);
    let identifier = bytes.get(33..33 + length)?;
    // Names of even length are followed by a byte of nothing.
    let more = bytes.get((33 + length).next_multiple_of(2)..).unwrap_or_default();
    Some(Entry {
        begin: number(2)?.checked_mul(BLOCK)?,
        size: number(10)?,
        is_folder: bytes.get(25)? & DIRECTORY != 0,
        identifier,
        alternative: rock_ridge_name(more),
    })
}

/// The pieces of a name among the extensions of an entry.
fn rock_ridge_name(mut rest: &[u8]) -> Option<String> {
    let mut name: Option<Vec<u8>> = None;
    while let [one, two, length, _, ..] = rest {
        let (field, others) = rest.split_at_checked(usize::from(*length)).filter(|_| *length >= 4)?;
        if [*one, *two] == *b"NM" {
            name.get_or_insert_default().extend(field.get(5..).unwrap_or_default());
        }
        rest = others;
    }
    name.map(|name| String::from_utf8_lossy(&name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct File {
        plain: &'static [u8],
        joliet: &'static str,
        rock_ridge: Option<&'static str>,
        content: &'static [u8],
    }

    const USER_DATA: File = File {
        plain: b"USER_DAT.;1",
        joliet: "user-data",
        rock_ridge: Some("user-data"),
        content: b"version: v1alpha1\n",
    };

    fn entry_of(name: &[u8], block: usize, size: usize, flags: u8, extensions: &[u8]) -> Vec<u8> {
        let mut entry = vec![0_u8; (33 + name.len()).next_multiple_of(2)];
        entry[2..6].copy_from_slice(&u32::try_from(block).unwrap().to_le_bytes());
        entry[10..14].copy_from_slice(&u32::try_from(size).unwrap().to_le_bytes());
        entry[25] = flags;
        entry[32] = u8::try_from(name.len()).unwrap();
        entry[33..33 + name.len()].copy_from_slice(name);
        entry.extend(extensions);
        entry[0] = u8::try_from(entry.len()).unwrap();
        entry
    }

    fn volume(files: &[File], joliet: bool) -> Vec<u8> {
        let mut image = vec![0_u8; (22 + files.len()) * BLOCK];
        let mut put = |block: usize, bytes: &[u8]| {
            image[block * BLOCK..block * BLOCK + bytes.len()].copy_from_slice(bytes);
        };
        for (number, kind, root) in [(16, PRIMARY, 20), (17, SUPPLEMENTARY, 21), (18, END, 0)] {
            let mut descriptor = vec![0_u8; BLOCK];
            descriptor[0] = kind;
            descriptor[1..6].copy_from_slice(b"CD001");
            descriptor[40..72].copy_from_slice(format!("{:<32}", "cidata").as_bytes());
            if kind == SUPPLEMENTARY && joliet {
                descriptor[88..91].copy_from_slice(b"%/E");
            }
            descriptor[156..190].copy_from_slice(&entry_of(b"\0", root, BLOCK, DIRECTORY, b""));
            put(number, &descriptor);
        }
        let mut folders = [Vec::new(), Vec::new()];
        for folder in &mut folders {
            folder.extend(entry_of(b"\0", 20, BLOCK, DIRECTORY, b""));
            folder.extend(entry_of(b"\x01", 20, BLOCK, DIRECTORY, b""));
        }
        for (index, file) in files.iter().enumerate() {
            let (block, size) = (22 + index, file.content.len());
            let extensions = file.rock_ridge.map(|name| {
                let length = u8::try_from(name.len() + 5).unwrap();
                [&[b'P', b'X', 4, 1, b'N', b'M', length, 1, 0][..], name.as_bytes()].concat()
            });
            folders[0].extend(entry_of(file.plain, block, size, 0, &extensions.unwrap_or_default()));
            let wide: Vec<u8> = file.joliet.encode_utf16().flat_map(u16::to_be_bytes).collect();
            folders[1].extend(entry_of(&wide, block, size, 0, b""));
            put(block, file.content);
        }
        put(20, &folders[0]);
        put(21, &folders[1]);
        image
    }

    fn names(image: &[u8]) -> Vec<String> {
        read(image).unwrap().files.into_keys().collect()
    }

    #[test]
    fn names_are_those_linux_shows() {
        let image = volume(&[USER_DATA], true);
        let found = read(&image).unwrap();
        assert_eq!(found.label, "cidata");
        assert_eq!(found.files["user-data"], USER_DATA.content);
        let other =
            || File { rock_ridge: None, joliet: "network-config", plain: b"NETWORK_.;1", ..USER_DATA };
        assert_eq!(names(&volume(&[other()], true)), ["network-config"]);
        assert_eq!(names(&volume(&[other()], false)), ["network_"], "a plain name cannot hold a hyphen");
        let both = File { rock_ridge: Some("a"), joliet: "b", ..USER_DATA };
        assert_eq!(names(&volume(&[both], true)), ["a"]);
    }

    #[test]
    fn what_is_not_whole_is_no_volume() {
        let image = volume(&[USER_DATA], true);
        assert_eq!(read(&image[..22 * BLOCK]), None, "the file is missing");
        assert_eq!(read(&image[..18 * BLOCK]), None, "the list of descriptors does not end");
        assert_eq!(read(b"CD001"), None);
        for cut in 0..image.len() {
            if cut % 97 == 0 {
                let _ = read(&image[..cut]);
            }
        }
    }
}
