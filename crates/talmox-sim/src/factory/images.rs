//! Small files that are what they say: programs that read such images accept them. They boot nothing.

use super::identity::{IN_DISK, ON_CD};

/// The size a guest sees of a qcow2 image: that of the real one.
const VIRTUAL: u64 = 1246 << 20;
const CLUSTER: usize = 64 << 10;
const SECTOR: usize = 512;
const RAW: usize = 1 << 20;
const BLOCK: usize = 2048;

/// A disk: a master boot record with one partition, and a line that says what this is.
pub(super) fn raw(identity: &str) -> Vec<u8> {
    let mut disk = vec![0_u8; RAW];
    disk[..CLUSTER].copy_from_slice(&first_cluster(identity));
    disk
}

fn first_cluster(identity: &str) -> Vec<u8> {
    let mut cluster = vec![0_u8; CLUSTER];
    // One partition over the rest of the disk, protective: a partition table of the other kind would follow.
    cluster[446..462].copy_from_slice(&[0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff, 1, 0, 0, 0, 0xff, 0x07, 0, 0]);
    cluster[510..512].copy_from_slice(&[0x55, 0xaa]);
    let text = &identity.as_bytes()[..identity.len().min(SECTOR)];
    cluster[IN_DISK..IN_DISK + text.len()].copy_from_slice(text);
    cluster
}

/// The same disk as a qcow2 image: header, reference counts, both tables, one cluster of data.
pub(super) fn qcow2(identity: &str) -> Vec<u8> {
    let place = |cluster: usize| (cluster * CLUSTER) as u64;
    let mut image = vec![0_u8; 6 * CLUSTER];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"QFI\xfb");
    put(4, &3_u32.to_be_bytes());
    put(20, &16_u32.to_be_bytes());
    put(24, &VIRTUAL.to_be_bytes());
    let tables = u32::try_from(VIRTUAL.div_ceil((CLUSTER * CLUSTER / 8) as u64)).unwrap_or_default();
    put(36, &tables.to_be_bytes());
    put(40, &place(3).to_be_bytes());
    put(48, &place(1).to_be_bytes());
    put(56, &1_u32.to_be_bytes());
    // Reference counts of sixteen bits, and a header of 104 bytes.
    put(96, &4_u32.to_be_bytes());
    put(100, &104_u32.to_be_bytes());
    put(CLUSTER, &place(2).to_be_bytes());
    for cluster in 0..6 {
        put(2 * CLUSTER + 2 * cluster, &1_u16.to_be_bytes());
    }
    // The highest bit says that nobody else uses the cluster.
    put(3 * CLUSTER, &(place(4) | 1 << 63).to_be_bytes());
    put(4 * CLUSTER, &(place(5) | 1 << 63).to_be_bytes());
    put(5 * CLUSTER, &first_cluster(identity));
    image
}

/// The same disk as a fixed VHD: the bytes, and a footer.
pub(super) fn vhd(identity: &str) -> Vec<u8> {
    let mut disk = raw(identity);
    let size = (disk.len() as u64).to_be_bytes();
    let mut footer = [0_u8; SECTOR];
    let mut put = |at: usize, bytes: &[u8]| footer[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"conectix");
    put(8, &[0, 0, 0, 2, 0, 1, 0, 0]);
    put(16, &[0xff; 8]);
    put(28, b"tmox");
    put(40, &size);
    put(48, &size);
    // 30 cylinders, 4 heads, 17 sectors: as much as fits below the size.
    put(56, &[0, 30, 4, 17]);
    put(60, &[0, 0, 0, 2]);
    put(68, b"talmox-simulated");
    let sum = !footer.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    footer[64..68].copy_from_slice(&sum.to_be_bytes());
    disk.extend(footer);
    disk
}

/// An ISO 9660 file system with one file, labelled as Talos labels its own: `TALOS_V1_13_9`.
pub(super) fn iso(identity: &str, version: &str) -> Vec<u8> {
    let label: String = format!("TALOS_{version}")
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .take(32)
        .collect();
    let (tables, root, file) = (18_u32, 20_u32, 21_u32);
    let blocks = 22 + 128;
    let mut image = vec![0_u8; blocks * BLOCK];
    let mut descriptor = vec![0_u8; BLOCK];
    descriptor[0] = 1;
    descriptor[1..7].copy_from_slice(b"CD001\x01");
    fill(&mut descriptor, 8..40, "");
    fill(&mut descriptor, 40..72, &label);
    both(&mut descriptor, 80, u32::try_from(blocks).unwrap_or_default());
    for at in [120, 124] {
        both_short(&mut descriptor, at, 1);
    }
    both_short(&mut descriptor, 128, u16::try_from(BLOCK).unwrap_or_default());
    both(&mut descriptor, 132, 10);
    descriptor[140..144].copy_from_slice(&tables.to_le_bytes());
    descriptor[148..152].copy_from_slice(&(tables + 1).to_be_bytes());
    descriptor[156..190].copy_from_slice(&entry(b"\0", root, BLOCK, true));
    fill(&mut descriptor, 190..813, "");
    for at in [813, 830, 847, 864] {
        // Seventeen bytes of time: never.
        descriptor[at..at + 16].fill(b'0');
    }
    descriptor[881] = 1;
    image[16 * BLOCK..17 * BLOCK].copy_from_slice(&descriptor);
    image[17 * BLOCK..17 * BLOCK + 7].copy_from_slice(b"\xffCD001\x01");
    let mut table = vec![1, 0];
    table.extend(root.to_le_bytes());
    table.extend([1, 0, 0, 0]);
    image[18 * BLOCK..18 * BLOCK + 10].copy_from_slice(&table);
    let mut table = vec![1, 0];
    table.extend(root.to_be_bytes());
    table.extend([0, 1, 0, 0]);
    image[19 * BLOCK..19 * BLOCK + 10].copy_from_slice(&table);
    let entries = [
        entry(b"\0", root, BLOCK, true),
        entry(b"\x01", root, BLOCK, true),
        entry(b"TALOS.TXT;1", file, identity.len(), false),
    ]
    .concat();
    image[20 * BLOCK..20 * BLOCK + entries.len()].copy_from_slice(&entries);
    let text = &identity.as_bytes()[..identity.len().min(BLOCK)];
    image[ON_CD..ON_CD + text.len()].copy_from_slice(text);
    image
}

fn fill(descriptor: &mut [u8], range: std::ops::Range<usize>, text: &str) {
    let field = &mut descriptor[range];
    field.fill(b' ');
    field[..text.len()].copy_from_slice(text.as_bytes());
}

/// A number in both orders of bytes.
fn both(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    bytes[at + 4..at + 8].copy_from_slice(&value.to_be_bytes());
}

fn both_short(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    bytes[at + 2..at + 4].copy_from_slice(&value.to_be_bytes());
}

/// An entry of a directory.
fn entry(name: &[u8], block: u32, size: usize, directory: bool) -> Vec<u8> {
    let length = (33 + name.len()).next_multiple_of(2);
    let mut entry = vec![0_u8; length];
    entry[0] = u8::try_from(length).unwrap_or_default();
    both(&mut entry, 2, block);
    both(&mut entry, 10, u32::try_from(size).unwrap_or_default());
    // 2026-01-01, in Greenwich.
    entry[18..25].copy_from_slice(&[126, 1, 1, 0, 0, 0, 0]);
    entry[25] = if directory { 2 } else { 0 };
    both_short(&mut entry, 28, 1);
    entry[32] = u8::try_from(name.len()).unwrap_or_default();
    entry[33..33 + name.len()].copy_from_slice(name);
    entry
}
