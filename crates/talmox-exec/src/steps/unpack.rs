//! Images that only exist compressed: fetched, checked and unpacked into a file of this machine.
//!
//! ```text
//!  URL ──chunks──▶ checksum of what travels ──channel──▶ unpacking, on a thread of its own ──▶ temporary file
//! ```
//!
//! Proxmox unpacks nothing on its way to `import`, and no xz anywhere. The file is readable by its owner only and goes
//! when it is dropped, whatever happens. A few KiB can unpack to more than any disk holds: [`Bounds`] ends that early.

use std::cell::Cell;
use std::io::{self, Read, Write as _};
use std::path::Path;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures_util::StreamExt as _;
use sha2::digest::DynDigest;
use talmox_types::desired::{Compression, Image};
use talmox_types::{Checksum, ChecksumAlgorithm};
use tempfile::{NamedTempFile, TempPath};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::image::TRANSFER_LIMIT;
use crate::images::{Arriving, ImageError, ImageFault};
use crate::work::{Result, Work};
use crate::{Event, StepError};

/// Chunks between the network and the thread that unpacks: a few, so that neither waits for the other all the time.
const CHUNKS_AHEAD: usize = 16;
/// How much is unpacked at a time.
const BLOCK: usize = 256 * 1024;
/// KiB that unpacking xz may take: four times what its highest level needs. A file can ask for gigabytes.
const XZ_MEMORY: u32 = 256 * 1024;
/// GiB an image may always unpack to, whatever disks are described: there are templates without nodes.
const ALWAYS_ALLOWED: u64 = 64;
/// How many times as large as what travels an image may be. Talos' are 10 times as large; blocks of zeros reach 1 000 with gz,
/// 7 000 with xz and 32 000 with zst.
const MOST_RATIO: u64 = 500;
/// Bytes that are not counted for the ratio: a small image may be nearly empty.
const WITHOUT_RATIO: u64 = 64 << 20;
/// How often it is told how far it is.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// What an image may be at most without its compression.
#[derive(Clone, Copy)]
struct Bounds {
    bytes: u64,
    ratio: u64,
    without_ratio: u64,
}

impl Bounds {
    /// For disks of these sizes, in GiB. No VM could have a larger image.
    fn for_disks(sizes: impl Iterator<Item = u32>) -> Self {
        let gib = sizes.map(u64::from).max().unwrap_or(0).max(ALWAYS_ALLOWED);
        Self { bytes: gib << 30, ratio: MOST_RATIO, without_ratio: WITHOUT_RATIO }
    }

    /// The error says which bound is passed. `packed` is what came of the compressed image, `length` what it unpacked to.
    fn check(&self, packed: u64, length: u64) -> io::Result<()> {
        let Self { bytes, ratio, without_ratio } = *self;
        let words = if length > bytes {
            format!("it unpacks to more than {} GiB, the largest disk it could be for", bytes >> 30)
        } else if length > without_ratio.saturating_add(packed.saturating_mul(ratio)) {
            format!(
                "{packed} bytes unpack to more than {length}: no image is {ratio} times as large unpacked"
            )
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::FileTooLarge, words))
    }
}

/// An image as it is without compression.
pub(super) struct Unpacked {
    path: TempPath,
    pub(super) length: u64,
    /// Of the unpacked bytes, so that Proxmox can tell whether all of them arrived.
    pub(super) checksum: Checksum,
}

impl Unpacked {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Fetches an image and unpacks it while it comes. `whither` says what for: `local on pve1`.
pub(super) async fn unpack(
    work: &Work<'_>,
    image: &Image,
    compression: Compression,
    whither: &str,
) -> Result<Unpacked> {
    let fetching = || format!("fetch {} for {whither}", image.url);
    let failed = |source| StepError::Image { doing: fetching(), source };
    let arriving = work.run.images.open(&image.url).await.map_err(failed)?;
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    let bounds = Bounds::for_disks(work.run.desired.nodes.iter().map(|node| node.vm.disk_size));
    let unpacking =
        tokio::task::spawn_blocking(move || unpack_all(Chunks::new(receiver), compression, bounds));
    let arrived = pass_on(work, image, arriving, sender).await;
    let unpacked = unpacking.await.unwrap_or_else(|error| Err(io::Error::other(error)));
    // What broke on the way broke the unpacking too.
    let travelled = arrived.map_err(failed)?;
    let doing = || format!("unpack {} ({}) for {whither}", image.url, word(compression));
    let unpacked = unpacked.map_err(|source| StepError::Unpack { doing: doing(), source });
    match (&image.checksum, travelled) {
        (Some(expected), Travelled::Whole(got)) if got != expected.value() => {
            Err(StepError::OtherBytes { doing: fetching(), expected: expected.clone(), got })
        }
        _ => unpacked,
    }
}

/// What came.
enum Travelled {
    /// Everything, and what it hashes to with the algorithm of the image's checksum.
    Whole(String),
    /// A part: the other end gave up, and says why.
    Part,
}

/// Takes what comes, counts and hashes it, and hands it on.
async fn pass_on(
    work: &Work<'_>,
    image: &Image,
    arriving: Arriving,
    sender: mpsc::Sender<Bytes>,
) -> std::result::Result<Travelled, ImageError> {
    let Arriving { length, mut chunks } = arriving;
    let algorithm = image.checksum.as_ref().map_or(ChecksumAlgorithm::Sha256, Checksum::algorithm);
    let mut hasher = hasher(algorithm);
    let mut report = Report::new(work, image, length);
    let mut came = 0_u64;
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?;
        came += chunk.len() as u64;
        hasher.update(&chunk);
        report.tell(came);
        if sender.send(chunk).await.is_err() {
            return Ok(Travelled::Part);
        }
    }
    if let Some(length) = length.filter(|length| *length != came) {
        return Err(ImageError {
            url: image.url.clone(),
            words: format!("it broke off after {came} of {length} bytes"),
            kind: ImageFault::BrokeOff,
        });
    }
    Ok(Travelled::Whole(hex(&hasher.finalize())))
}

/// Says how far it is, now and then.
struct Report<'w, 'a> {
    work: &'w Work<'a>,
    name: String,
    length: Option<u64>,
    start: Instant,
    last: Instant,
}

impl<'w, 'a> Report<'w, 'a> {
    fn new(work: &'w Work<'a>, image: &Image, length: Option<u64>) -> Self {
        let start = Instant::now();
        Self { work, name: format!("{} to arrive", image.url), length, start, last: start }
    }

    fn tell(&mut self, came: u64) {
        if self.last.elapsed() < REPORT_EVERY {
            return;
        }
        self.last = Instant::now();
        let detail = match self.length {
            Some(length) => format!("{} of {} MiB", came >> 20, length >> 20),
            None => format!("{} MiB", came >> 20),
        };
        self.work.event(Event::Waiting {
            step: self.work.planned,
            name: &self.name,
            detail: &detail,
            elapsed: self.start.elapsed(),
            limit: TRANSFER_LIMIT,
        });
    }
}

/// Chunks as a reader, for code that waits by blocking its thread. That nothing more comes is the end.
struct Chunks {
    receiver: mpsc::Receiver<Bytes>,
    rest: Bytes,
}

impl Chunks {
    fn new(receiver: mpsc::Receiver<Bytes>) -> Self {
        Self { receiver, rest: Bytes::new() }
    }
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.rest.is_empty() {
            match self.receiver.blocking_recv() {
                Some(chunk) => self.rest = chunk,
                None => return Ok(0),
            }
        }
        let taken = self.rest.len().min(buffer.len());
        self.rest.copy_to_slice(&mut buffer[..taken]);
        Ok(taken)
    }
}

fn word(compression: Compression) -> &'static str {
    match compression {
        Compression::Xz => "xz",
        Compression::Gz => "gz",
        Compression::Zst => "zst",
    }
}

/// A reader that counts what is read.
struct Counted<'c, R> {
    reader: R,
    count: &'c Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.count.set(self.count.get() + read as u64);
        Ok(read)
    }
}

fn unpack_all(packed: Chunks, compression: Compression, bounds: Bounds) -> io::Result<Unpacked> {
    let count = Cell::new(0);
    let mut packed = Counted { reader: packed, count: &count };
    let check = |length| bounds.check(count.get(), length);
    let unpacked = match compression {
        Compression::Gz => store(flate2::read::MultiGzDecoder::new(&mut packed), check),
        Compression::Xz => store(lzma_rust2::XzReader::new_mem_limit(&mut packed, true, XZ_MEMORY), check),
        Compression::Zst => {
            let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
            store(ruzstd::decoding::StreamingDecoder::new(&mut packed).map_err(invalid)?, check)
        }
    }?;
    // What follows the image belongs to the bytes that travel, and to their checksum.
    io::copy(&mut packed, &mut io::sink())?;
    Ok(unpacked)
}

/// Writes everything into a file nobody else may read. `check` is asked about every length before that much is written.
fn store(mut image: impl Read, check: impl Fn(u64) -> io::Result<()>) -> io::Result<Unpacked> {
    let mut file = NamedTempFile::with_prefix("talmox-")?;
    let mut hasher = hasher(ChecksumAlgorithm::Sha256);
    let (mut block, mut length) = (vec![0; BLOCK], 0_u64);
    loop {
        let count = match image.read(&mut block) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        length += count as u64;
        check(length)?;
        hasher.update(&block[..count]);
        file.write_all(&block[..count])?;
    }
    file.flush()?;
    let checksum =
        Checksum::new(ChecksumAlgorithm::Sha256, &hex(&hasher.finalize())).map_err(io::Error::other)?;
    Ok(Unpacked { path: file.into_temp_path(), length, checksum })
}

fn hasher(algorithm: ChecksumAlgorithm) -> Box<dyn DynDigest + Send> {
    match algorithm {
        ChecksumAlgorithm::Md5 => Box::new(md5::Md5::default()),
        ChecksumAlgorithm::Sha1 => Box::new(sha1::Sha1::default()),
        ChecksumAlgorithm::Sha224 => Box::new(sha2::Sha224::default()),
        ChecksumAlgorithm::Sha256 => Box::new(sha2::Sha256::default()),
        ChecksumAlgorithm::Sha384 => Box::new(sha2::Sha384::default()),
        ChecksumAlgorithm::Sha512 => Box::new(sha2::Sha512::default()),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    const USUAL: Bounds = Bounds { bytes: 64 << 30, ratio: MOST_RATIO, without_ratio: WITHOUT_RATIO };
    const MIB: usize = 1 << 20;

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let options = lzma_rust2::XzOptions::with_preset(1);
        let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    /// A frame of blocks that are one byte, repeated 128 Ki times each.
    fn zst(blocks: usize) -> Vec<u8> {
        const REPEATED: u32 = 1;
        let block = |last: bool| {
            let header = (128 * 1024) << 3 | REPEATED << 1 | u32::from(last);
            [&header.to_le_bytes()[..3], &[0]].concat()
        };
        // No checksum and no length; a window of 1 MiB.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 10 << 3];
        frame.extend((0..blocks).flat_map(|number| block(number + 1 == blocks)));
        frame
    }

    fn chunks(bytes: &[u8]) -> Chunks {
        let (sender, receiver) = mpsc::channel(bytes.len() + 1);
        for chunk in bytes.chunks(7) {
            sender.try_send(Bytes::copy_from_slice(chunk)).unwrap();
        }
        Chunks::new(receiver)
    }

    #[test]
    fn an_unpacked_image_is_its_owners_and_goes() {
        let image = b"an image".repeat(10_000);
        let unpacked = unpack_all(chunks(&packed(&image)), Compression::Gz, USUAL).unwrap();
        let path = unpacked.path().to_owned();
        assert_eq!((unpacked.length, std::fs::metadata(&path).unwrap().len()), (80_000, 80_000));
        assert_eq!(unpacked.checksum.value(), hex(&<sha2::Sha256 as sha2::Digest>::digest(&image)));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
        drop(unpacked);
        assert!(!path.exists());
    }

    #[test]
    fn several_parts_are_one_image_and_a_part_is_none() {
        let whole = [packed(b"one "), packed(b"two")].concat();
        assert_eq!(unpack_all(chunks(&whole), Compression::Gz, USUAL).unwrap().length, 7);
        for cut in [0, 5, whole.len() - 3] {
            assert!(unpack_all(chunks(&whole[..cut]), Compression::Gz, USUAL).is_err(), "{cut}");
        }
        assert!(unpack_all(chunks(b"plain"), Compression::Xz, USUAL).is_err());
        assert!(unpack_all(chunks(b"plain"), Compression::Zst, USUAL).is_err());
    }

    #[test]
    fn a_bomb_of_every_kind_ends_at_its_ratio_and_at_its_length() {
        let zeros = vec![0; 8 * MIB];
        let bombs =
            [(packed(&zeros), Compression::Gz), (xz(&zeros), Compression::Xz), (zst(64), Compression::Zst)];
        for (bomb, compression) in bombs {
            let name = word(compression);
            let whole = unpack_all(chunks(&bomb), compression, USUAL).unwrap();
            assert_eq!(whole.length, zeros.len() as u64, "{name}");
            let refused = |bounds| {
                let error = unpack_all(chunks(&bomb), compression, bounds).map(|_| ()).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{name}: {error}");
                error.to_string()
            };
            let ratio = refused(Bounds { ratio: 20, without_ratio: 1 << 20, ..USUAL });
            assert!(ratio.ends_with("no image is 20 times as large unpacked"), "{name}: {ratio}");
            let length = refused(Bounds { bytes: 7 << 20, ..USUAL });
            assert!(length.starts_with("it unpacks to more than"), "{name}: {length}");
        }
    }

    #[test]
    fn nothing_beyond_a_bound_is_written() {
        // 32 GiB in a MiB: without the bound this would fill the folder of temporary files.
        let bomb = zst(256 * 1024);
        let bounds = Bounds { without_ratio: 4 << 20, ..USUAL };
        let error = unpack_all(chunks(&bomb), Compression::Zst, bounds).map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge, "{error}");
        let written: u64 =
            error.to_string().split(' ').find_map(|word| word.strip_suffix(':')?.parse().ok()).unwrap();
        assert!(written < 8 << 20, "{error}");
    }

    #[test]
    fn an_image_may_be_as_large_as_the_largest_disk() {
        assert_eq!(Bounds::for_disks([].into_iter()).bytes, 64 << 30);
        assert_eq!(Bounds::for_disks([10, 20].into_iter()).bytes, 64 << 30);
        assert_eq!(Bounds::for_disks([10, 200].into_iter()).bytes, 200 << 30);
        let bounds = Bounds::for_disks([100].into_iter());
        assert!(bounds.check(10 << 30, 100 << 30).is_ok());
        let error = bounds.check(10 << 30, (100 << 30) + 1).unwrap_err().to_string();
        assert_eq!(error, "it unpacks to more than 100 GiB, the largest disk it could be for");
    }
}
