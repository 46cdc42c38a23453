//! Containers around bytes, without compressing them: valid for every reader, and small enough for a simulator.

/// A gzip file of stored blocks.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut pieces = bytes.chunks(0xffff).peekable();
    if bytes.is_empty() {
        out.extend([1, 0, 0, 0xff, 0xff]);
    }
    while let Some(piece) = pieces.next() {
        out.push(u8::from(pieces.peek().is_none()));
        let length = u16::try_from(piece.len()).unwrap_or(u16::MAX);
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(piece);
    }
    out.extend(crc32(bytes).to_le_bytes());
    out.extend(u32::try_from(bytes.len() & 0xffff_ffff).unwrap_or_default().to_le_bytes());
    out
}

/// A Zstandard frame of raw blocks.
pub(super) fn zstd(bytes: &[u8]) -> Vec<u8> {
    // Magic number; one segment, its size in eight bytes, no checksum.
    let mut out = vec![0x28, 0xb5, 0x2f, 0xfd, 0b1110_0000];
    out.extend((bytes.len() as u64).to_le_bytes());
    let mut pieces = bytes.chunks(0x1_ffff).peekable();
    if bytes.is_empty() {
        out.extend([1, 0, 0]);
    }
    while let Some(piece) = pieces.next() {
        let header = u32::try_from(piece.len()).unwrap_or_default() << 3 | u32::from(pieces.peek().is_none());
        out.extend(&header.to_le_bytes()[..3]);
        out.extend(piece);
    }
    out
}

/// An xz file of uncompressed chunks, checked by CRC32.
pub(super) fn xz(bytes: &[u8]) -> Vec<u8> {
    const FLAGS: [u8; 2] = [0, 1];
    let mut out = vec![0xfd, b'7', b'z', b'X', b'Z', 0];
    out.extend(FLAGS);
    out.extend(crc32(&FLAGS).to_le_bytes());
    // One block: LZMA2 with a dictionary of 4 MiB.
    let start = out.len();
    let header = [2, 0, 0x21, 1, 0x16, 0, 0, 0];
    out.extend(header);
    out.extend(crc32(&header).to_le_bytes());
    for (index, piece) in bytes.chunks(0x1_0000).enumerate() {
        out.push(if index == 0 { 1 } else { 2 });
        out.extend(u16::try_from(piece.len() - 1).unwrap_or(u16::MAX).to_be_bytes());
        out.extend(piece);
    }
    out.push(0);
    let unpadded = out.len() - start + 4;
    out.resize(out.len().next_multiple_of(4), 0);
    out.extend(crc32(bytes).to_le_bytes());
    // The index: one record.
    let start = out.len();
    out.push(0);
    out.push(1);
    variable(unpadded, &mut out);
    variable(bytes.len(), &mut out);
    out.resize(out.len().next_multiple_of(4), 0);
    let sum = crc32(&out[start..]);
    out.extend(sum.to_le_bytes());
    let backward = u32::try_from((out.len() - start) / 4 - 1).unwrap_or_default();
    let mut footer = backward.to_le_bytes().to_vec();
    footer.extend(FLAGS);
    out.extend(crc32(&footer).to_le_bytes());
    out.extend(footer);
    out.extend(b"YZ");
    out
}

/// Seven bits at a time, the lowest first.
fn variable(mut value: usize, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or_default());
}

/// A tar archive of one file.
pub(super) fn tar(name: &str, bytes: &[u8]) -> Vec<u8> {
    let mut header = vec![0_u8; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", bytes.len()));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut out = header;
    out.extend(bytes);
    out.resize(out.len().next_multiple_of(512) + 1024, 0);
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xedb8_8320 & (sum & 1).wrapping_neg()))
    })
}
