//! Streams of bytes: logs, files, archives.

use std::io::Read as _;
use std::time::Duration;

use flate2::read::GzDecoder;
use futures_util::StreamExt as _;
use talmox_proto::common::{ContainerDriver, Data};
use talmox_proto::machine::machine_service as calls;
use talmox_proto::machine::{DmesgRequest, ListRequest, LogsRequest, ReadRequest};
use talmox_proto::{Message, Method};

use super::wrapped::failure;
use crate::client::LARGEST;
use crate::{Client, Code, Error};

impl Client {
    /// Every byte of a stream that ends.
    pub(crate) async fn collect<Request: Message>(
        &self,
        method: Method<Request, Data>,
        request: Request,
        deadline: Duration,
    ) -> Result<Vec<u8>, Error> {
        let mut stream = self.bounded_stream(method, request, deadline).await?;
        let mut all = Vec::new();
        while let Some(piece) = stream.next().await {
            let piece = piece?;
            if let Some(status) = piece.metadata.as_ref().and_then(failure) {
                return Err(self.error(method.name(), status));
            }
            all.extend_from_slice(&piece.bytes);
        }
        Ok(all)
    }

    pub async fn read_file(&self, path: &str) -> Result<Vec<u8>, Error> {
        let request = ReadRequest { path: path.to_owned() };
        self.collect(calls::READ, request, self.deadlines().quick).await
    }

    /// What tells one boot from another.
    pub async fn boot_id(&self) -> Result<String, Error> {
        let bytes = self.read_file("/proc/sys/kernel/random/boot_id").await?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Names below a folder; none if it is not there.
    pub async fn list_folder(&self, path: &str) -> Result<Option<Vec<String>>, Error> {
        let request = ListRequest { root: path.to_owned(), ..ListRequest::default() };
        // A server may fail a call before its first reply as well as instead of it.
        let mut stream = match self.bounded_stream(calls::LIST, request, self.deadlines().quick).await {
            Err(error) if is_missing(&error) => return Ok(None),
            other => other?,
        };
        let mut names = Vec::new();
        while let Some(entry) = stream.next().await {
            match entry {
                Ok(entry) if entry.error.is_empty() => names.push(entry.relative_name),
                Ok(_) => {}
                // There is no code of its own for a path that is missing.
                Err(error) if is_missing(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(names))
    }

    /// The last lines of a service's log.
    pub async fn logs(&self, service: &str, lines: u16) -> Result<String, Error> {
        let request = LogsRequest {
            namespace: "system".to_owned(),
            id: service.to_owned(),
            driver: ContainerDriver::Containerd.into(),
            follow: false,
            tail_lines: i32::from(lines),
        };
        let bytes = self.collect(calls::LOGS, request, self.deadlines().quick).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The kernel's log so far.
    pub async fn kernel_log(&self) -> Result<String, Error> {
        let request = DmesgRequest { follow: false, tail: false };
        let bytes = self.collect(calls::DMESG, request, self.deadlines().quick).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn is_missing(error: &Error) -> bool {
    error.status().is_some_and(|status| {
        status.code == Code::NotFound
            || (status.code == Code::Unknown && status.message.contains("no such file or directory"))
    })
}

/// The content of the first regular file of a tar.gz. Talos' archive has neither padding nor an end.
pub(super) fn first_file(archive: &[u8]) -> Option<Vec<u8>> {
    const BLOCK: usize = 512;
    let mut tar = Vec::new();
    GzDecoder::new(archive).take(LARGEST as u64).read_to_end(&mut tar).ok()?;
    let mut rest = tar.as_slice();
    loop {
        let head = rest.get(..BLOCK)?;
        let digits = head.get(124..136)?;
        let digits = std::str::from_utf8(digits).ok()?.trim_matches(['\0', ' ']);
        let size = usize::from_str_radix(digits, 8).ok()?;
        if matches!(head.get(156)?, b'0' | 0) {
            return rest.get(BLOCK..BLOCK + size).map(<[u8]>::to_vec);
        }
        rest = rest.get(BLOCK + size.next_multiple_of(BLOCK)..)?;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn packed(kind: u8, content: &[u8]) -> Vec<u8> {
        let mut head = vec![0; 512];
        head[..10].copy_from_slice(b"kubeconfig");
        head[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        head[156] = kind;
        head.extend_from_slice(content);
        head
    }

    fn zipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn an_archive_without_an_end_is_read() {
        assert_eq!(first_file(&zipped(&packed(b'0', b"apiVersion: v1\n"))).unwrap(), b"apiVersion: v1\n");
        let mut two = packed(b'5', b"");
        two.extend(packed(0, b"x"));
        assert_eq!(first_file(&zipped(&two)).unwrap(), b"x");
    }

    #[test]
    fn what_is_no_archive_gives_nothing() {
        assert_eq!(first_file(b"text"), None);
        assert_eq!(first_file(&zipped(b"short")), None);
        let mut cut = packed(b'0', b"0123456789");
        cut.truncate(515);
        assert_eq!(first_file(&zipped(&cut)), None);
    }
}
