//! Folders: records of files (ECMA-119, 9.1), and what Rock Ridge adds to them (RRIP 1.09 by way of SUSP 1.10).

use super::numbers::{both_16, both_32, utf16};
use super::{Placed, SECTOR};

/// The names of a folder itself and of the one above.
pub(super) const CURRENT: &[u8] = &[0];
const PARENT: &[u8] = &[1];

const IS_FOLDER: u8 = 2;

/// `r-x------` and `r--------`, with the bits that say what it is.
const FOLDER_MODE: u32 = 0o040_500;
const FILE_MODE: u32 = 0o100_400;

/// The root folder of a reader that knows Rock Ridge.
pub(super) fn rock_ridge(folder: u32, files: &[Placed<'_>]) -> Vec<u8> {
    let mut announced = vec![b'S', b'P', 7, 1, 0xBE, 0xEF, 0];
    announced.extend(mode(FOLDER_MODE, 2));
    announced.extend(extension());
    let mut records = root_record(folder, CURRENT, &announced);
    records.extend(root_record(folder, PARENT, &mode(FOLDER_MODE, 2)));
    for one in files {
        let mut system_use = mode(FILE_MODE, 1);
        system_use.extend(name(one.file.name));
        let short = format!("{}.;1", one.file.short);
        records.extend(file_record(one, short.as_bytes(), &system_use));
    }
    records
}

/// The root folder of a reader that knows Joliet.
pub(super) fn joliet(folder: u32, files: &[Placed<'_>]) -> Vec<u8> {
    let mut records = root_record(folder, CURRENT, &[]);
    records.extend(root_record(folder, PARENT, &[]));
    for one in files {
        records.extend(file_record(one, &utf16(one.file.name), &[]));
    }
    records
}

/// The root folder, as the descriptor and the folder itself name it.
pub(super) fn root_record(folder: u32, name: &[u8], system_use: &[u8]) -> Vec<u8> {
    record(folder, SECTOR, IS_FOLDER, name, system_use)
}

fn file_record(placed: &Placed<'_>, name: &[u8], system_use: &[u8]) -> Vec<u8> {
    record(placed.sector, placed.file.bytes.len(), 0, name, system_use)
}

fn record(sector: u32, length: usize, flags: u8, name: &[u8], system_use: &[u8]) -> Vec<u8> {
    // No extended attributes; the length of the whole record is known in the end.
    let mut record = vec![0, 0];
    record.extend_from_slice(&both_32(sector));
    record.extend_from_slice(&both_32(u32::try_from(length).unwrap_or(u32::MAX)));
    // Seven bytes of time that say nothing, flags, and no interleaving.
    record.extend_from_slice(&[0; 7]);
    record.extend_from_slice(&[flags, 0, 0]);
    record.extend_from_slice(&both_16(1));
    record.push(length_of(name));
    record.extend_from_slice(name);
    pad(&mut record);
    record.extend_from_slice(system_use);
    pad(&mut record);
    record[0] = length_of(&record);
    record
}

/// Records and names end at even places.
fn pad(record: &mut Vec<u8>) {
    if record.len() % 2 == 1 {
        record.push(0);
    }
}

fn length_of(bytes: &[u8]) -> u8 {
    u8::try_from(bytes.len()).unwrap_or(u8::MAX)
}

/// Who may do what: `PX`. User and group are 0.
fn mode(mode: u32, links: u32) -> Vec<u8> {
    let mut entry = vec![b'P', b'X', 36, 1];
    for number in [mode, links, 0, 0] {
        entry.extend_from_slice(&both_32(number));
    }
    entry
}

/// The name Linux shows: `NM`.
fn name(text: &str) -> Vec<u8> {
    let mut entry = vec![b'N', b'M', 5 + length_of(text.as_bytes()), 1, 0];
    entry.extend_from_slice(text.as_bytes());
    entry
}

/// What the other entries are to be read by: `ER`.
fn extension() -> Vec<u8> {
    const IDENTIFIER: &[u8] = b"RRIP_1991A";
    let mut entry = vec![b'E', b'R', 8 + length_of(IDENTIFIER), 1, length_of(IDENTIFIER), 0, 0, 1];
    entry.extend_from_slice(IDENTIFIER);
    entry
}
