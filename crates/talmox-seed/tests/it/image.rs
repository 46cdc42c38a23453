//! What is on the image, read by a reader of the test's own, by `isoinfo` and by Linux.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use secrecy::ExposeSecret as _;
use talmox_seed::{LABEL, META_DATA, NETWORK_CONFIG, Seed, USER_DATA};

fn image(user_data: &str, meta_data: &str, network_config: &str) -> Vec<u8> {
    let seed = Seed::new(user_data.to_owned().into(), meta_data.to_owned(), network_config.to_owned());
    seed.unwrap().image().expose_secret().to_vec()
}

const SECTOR: usize = 2048;

/// A view of the files: names with contents, as one of the two descriptors leads to them.
struct View {
    label: String,
    files: Vec<(String, Vec<u8>)>,
}

/// Both views, in the order of their descriptors: Rock Ridge, Joliet.
fn read(image: &[u8]) -> Vec<View> {
    let descriptors = image.chunks(SECTOR).skip(16).take_while(|sector| sector[0] != 255);
    descriptors.map(|descriptor| view(image, descriptor)).collect()
}

fn view(image: &[u8], descriptor: &[u8]) -> View {
    assert_eq!(&descriptor[1..7], b"CD001\x01");
    let wide = descriptor[0] == 2;
    assert_eq!(number(&descriptor[80..88]) as usize * SECTOR, image.len(), "the volume is the whole image");
    let root = record(&descriptor[156..190]);
    let little = &image[le(&descriptor[140..144]) as usize * SECTOR..];
    assert_eq!((le(&little[2..6]) as usize, little[0]), (root.start / SECTOR, 1), "the path table");
    let big = u32::from_be_bytes(descriptor[148..152].try_into().unwrap()) as usize * SECTOR;
    assert_eq!(u32::from_be_bytes(image[big + 2..big + 6].try_into().unwrap()) as usize, root.start / SECTOR);
    let folder = &image[root.start..root.start + root.length];
    let mut files = Vec::new();
    let mut rest = folder;
    while rest[0] != 0 {
        let (this, others) = rest.split_at(usize::from(rest[0]));
        let found = record(this);
        if found.name.len() > 1 {
            let name = if wide { wide_text(&found.name) } else { rock_ridge_name(this) };
            let contents = image[found.start..found.start + found.length].to_vec();
            files.push((name, contents));
        } else {
            assert_eq!(found.start, root.start, "the root and what is above it are the same");
        }
        rest = others;
    }
    let label = &descriptor[40..72];
    let label = if wide { wide_text(label) } else { String::from_utf8(label.to_vec()).unwrap() };
    View { label: label.trim_end().to_owned(), files }
}

struct Record {
    start: usize,
    length: usize,
    name: Vec<u8>,
}

fn record(bytes: &[u8]) -> Record {
    Record {
        start: number(&bytes[2..10]) as usize * SECTOR,
        length: number(&bytes[10..18]) as usize,
        name: bytes[33..33 + usize::from(bytes[32])].to_vec(),
    }
}

/// A number that is there twice, and must be the same.
fn number(bytes: &[u8]) -> u32 {
    let big = u32::from_be_bytes(bytes[4..8].try_into().unwrap());
    assert_eq!(le(&bytes[..4]), big);
    big
}

fn le(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(bytes.try_into().unwrap())
}

fn wide_text(bytes: &[u8]) -> String {
    let units: Vec<u16> = bytes.chunks(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    String::from_utf16(&units).unwrap()
}

fn rock_ridge_name(record: &[u8]) -> String {
    let name_end = 33 + usize::from(record[32]);
    let mut entries = &record[name_end + name_end % 2..];
    while entries.len() > 4 {
        let (entry, others) = entries.split_at(usize::from(entries[2]));
        if &entry[..2] == b"NM" {
            return String::from_utf8(entry[5..].to_vec()).unwrap();
        }
        entries = others;
    }
    panic!("a file without a name");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_name_and_byte_comes_back_in_both_views(
        user_data in "[a-z].{0,5000}",
        meta_data in ".{0,300}",
        network_config in "v.{0,3000}",
    ) {
        let views = read(&image(&user_data, &meta_data, &network_config));
        prop_assert_eq!(views.len(), 2);
        let wanted = vec![
            (META_DATA.to_owned(), meta_data.into_bytes()),
            (NETWORK_CONFIG.to_owned(), network_config.into_bytes()),
            (USER_DATA.to_owned(), user_data.into_bytes()),
        ];
        for view in views {
            prop_assert_eq!(view.label, LABEL);
            prop_assert_eq!(&view.files, &wanted);
        }
    }
}

/// Sizes at the edges of sectors.
#[test]
fn files_of_exactly_a_sector_are_whole() {
    for size in [SECTOR - 1, SECTOR, SECTOR + 1, 2 * SECTOR] {
        let text = "x".repeat(size);
        let image = image(&text, &text, &text);
        assert_eq!(image.len() % SECTOR, 0);
        for view in read(&image) {
            assert!(view.files.iter().all(|(_, contents)| contents == text.as_bytes()));
        }
    }
}

const USER: &str = "version: v1alpha1\nmachine: {}\n";
const META: &str = "instance-id: \"i\"\n";
const NETWORK: &str = "version: 2\n";

fn sample() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("seed.iso"), image(USER, META, NETWORK)).unwrap();
    folder
}

/// Whether there is a program to ask; only CI insists on it.
#[expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a program only CI insists on")]
fn isoinfo(arguments: &[&str], image: &Path) -> Option<String> {
    let output = Command::new("isoinfo").args(arguments).arg("-i").arg(image).output();
    let strict = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(output.is_ok() || !strict, "no isoinfo (apt-get install genisoimage)");
    let Ok(output) = output else {
        println!("skipped: no isoinfo");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

#[test]
fn isoinfo_reads_label_names_and_contents() {
    let folder = sample();
    let image = folder.path().join("seed.iso");
    let Some(descriptor) = isoinfo(&["-d"], &image) else { return };
    assert!(descriptor.contains("Volume id: cidata\n"), "{descriptor}");
    assert!(descriptor.contains("Joliet with UCS level 3 found"), "{descriptor}");
    assert!(descriptor.contains("Rock Ridge signatures version 1 found"), "{descriptor}");
    for view in ["-R", "-J"] {
        let names = isoinfo(&["-f", view], &image).unwrap();
        assert_eq!(names, "/meta-data\n/network-config\n/user-data\n", "{view}");
        for (name, contents) in [(USER_DATA, USER), (META_DATA, META), (NETWORK_CONFIG, NETWORK)] {
            assert_eq!(isoinfo(&[view, "-x", &format!("/{name}")], &image).unwrap(), contents, "{view}");
        }
    }
    let modes = isoinfo(&["-R", "-l"], &image).unwrap();
    assert_eq!(modes.matches("-r--------").count(), 3, "{modes}");
}

/// Linux itself, where this process may mount.
#[test]
#[expect(clippy::disallowed_methods, reason = "files of a mounted image, not of a description")]
fn linux_mounts_it_and_shows_names_in_lower_case() {
    let folder = sample();
    let place = folder.path().join("mounted");
    std::fs::create_dir(&place).unwrap();
    let mount = Command::new("mount")
        .args(["-t", "iso9660", "-o", "loop,ro"])
        .arg(folder.path().join("seed.iso"))
        .arg(&place)
        .output();
    if !mount.is_ok_and(|output| output.status.success()) {
        println!("skipped: not allowed to mount");
        return;
    }
    let read = |name: &str| std::fs::read_to_string(place.join(name));
    let found = [read(USER_DATA), read(META_DATA), read(NETWORK_CONFIG)];
    assert!(Command::new("umount").arg(&place).status().unwrap().success());
    assert_eq!(found.map(Result::unwrap), [USER, META, NETWORK]);
}
