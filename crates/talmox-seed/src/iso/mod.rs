//! An ISO 9660 image with one folder, written in one go.
//!
//! ```text
//! sector  0 …  15  empty (for boot loaders)
//!        16        primary volume descriptor ── root folder with Rock Ridge names
//!        17        supplementary descriptor  ── root folder with Joliet names
//!        18        terminator
//!        19 … 22   path tables: primary and Joliet, little and big endian each
//!        23, 24    the two root folders
//!        25 …      the files, each from the beginning of a sector, in both folders
//! ```
//!
//! Times are left out: the format has a way to say "not specified", and the same files then make the same image.

mod descriptor;
mod folder;
mod numbers;

use secrecy::SecretSlice;
use zeroize::Zeroizing;

use descriptor::Volume;
use numbers::Sectors;

/// Everything is counted in these.
const SECTOR: usize = 2048;

const PRIMARY: u32 = 16;
const PRIMARY_TABLES: u32 = 19;
const JOLIET_TABLES: u32 = 21;
const PRIMARY_FOLDER: u32 = 23;
const JOLIET_FOLDER: u32 = 24;
const FIRST_FILE: u32 = 25;

/// A file of the image. They are given in the order of their names.
pub(crate) struct File<'a> {
    /// As Rock Ridge and Joliet have it.
    pub(crate) name: &'a str,
    /// As a reader sees it that knows neither: at most eight capital letters, digits and underscores.
    pub(crate) short: &'a str,
    pub(crate) bytes: &'a [u8],
}

/// A file and where it lies.
struct Placed<'a> {
    file: &'a File<'a>,
    sector: u32,
}

pub(crate) fn write(label: &str, files: &[File<'_>]) -> SecretSlice<u8> {
    let placed = place(files);
    let end = placed.last().map_or(FIRST_FILE, |last| last.sector + sectors(last.file.bytes.len()));
    let mut image = Zeroizing::new(vec![0_u8; end as usize * SECTOR]);
    let sectors_of = Sectors::of(&mut image);
    fill(sectors_of, label, end, &placed);
    // A vector that is exactly full becomes a secret without leaving a copy behind.
    SecretSlice::from(std::mem::take(&mut *image))
}

fn place<'a>(files: &'a [File<'a>]) -> Vec<Placed<'a>> {
    let mut next = FIRST_FILE;
    let mut placed = Vec::with_capacity(files.len());
    for file in files {
        placed.push(Placed { file, sector: next });
        next += sectors(file.bytes.len());
    }
    placed
}

fn fill(mut image: Sectors<'_>, label: &str, end: u32, placed: &[Placed<'_>]) {
    let primary =
        Volume { kind: descriptor::Kind::Primary, label, tables: PRIMARY_TABLES, folder: PRIMARY_FOLDER };
    let joliet =
        Volume { kind: descriptor::Kind::Joliet, label, tables: JOLIET_TABLES, folder: JOLIET_FOLDER };
    for (volume, sector) in [(&primary, PRIMARY), (&joliet, PRIMARY + 1)] {
        image.put(sector, &volume.descriptor(end));
        for (offset, table) in (0..).zip(volume.path_tables()) {
            image.put(volume.tables + offset, &table);
        }
    }
    image.put(PRIMARY + 2, &descriptor::TERMINATOR);
    image.put(PRIMARY_FOLDER, &folder::rock_ridge(PRIMARY_FOLDER, placed));
    image.put(JOLIET_FOLDER, &folder::joliet(JOLIET_FOLDER, placed));
    for one in placed {
        image.put(one.sector, one.file.bytes);
    }
}

/// How many sectors so many bytes take. An empty file takes none.
fn sectors(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(SECTOR)).unwrap_or(u32::MAX)
}
