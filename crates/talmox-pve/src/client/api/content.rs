//! Files that come onto a storage: by upload or by URL.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use talmox_types::{Checksum, HostName, StorageId};
use tokio::time::Instant;

use crate::client::call::Call;
use crate::client::encode::path;
use crate::client::{Body, Client, Error, FileContent, Method, Params, Progress, Upid, Waiting, scalar};

/// How often an upload says how far it is.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// What a file is to Proxmox. Snippets are missing on purpose: no call writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageKind {
    Iso,
    /// A disk image (`qcow2`, `raw`, `vmdk`) or `ova` that a new disk is made from.
    Import,
}

impl ImageKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Iso => "iso",
            Self::Import => "import",
        }
    }
}

fn checksum_params(checksum: Option<&Checksum>) -> Params {
    let Some(checksum) = checksum else { return Params::new() };
    Params::new().with("checksum-algorithm", checksum.algorithm().word()).with("checksum", checksum.value())
}

/// A file the host fetches itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download {
    pub url: String,
    pub kind: ImageKind,
    pub filename: String,
    /// Of the bytes as they travel, before any decompression.
    pub checksum: Option<Checksum>,
    /// `gz`, `lzo`, `zst` or `bz2`, and only for an ISO.
    pub compression: Option<String>,
    pub verify_certificates: bool,
}

/// A file we send.
#[derive(Clone)]
pub struct Upload {
    pub kind: ImageKind,
    pub filename: String,
    pub content: FileContent,
    pub checksum: Option<Checksum>,
    /// How long sending may take.
    pub timeout: Duration,
}

/// What a URL leads to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct UrlMetadata {
    #[serde(default, deserialize_with = "scalar::optional")]
    pub filename: Option<String>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub size: Option<u64>,
    #[serde(default, deserialize_with = "scalar::optional")]
    pub mimetype: Option<String>,
}

impl Client {
    /// Has the host fetch a file. With a checksum an existing file that matches is success; without one an existing
    /// file makes the task fail.
    pub async fn download_url(
        &self,
        node: &HostName,
        storage: &StorageId,
        download: &Download,
    ) -> Result<Upid, Error> {
        let params = Params::new()
            .with("content", download.kind.as_str())
            .with("filename", &download.filename)
            .with("url", &download.url)
            .with_some("compression", download.compression.as_ref())
            .with_flag("verify-certificates", download.verify_certificates);
        let checksum = checksum_params(download.checksum.as_ref());
        let params = params.iter().chain(checksum.iter()).collect();
        self.post(&path(&[&"nodes", node, &"storage", storage, &"download-url"]), params).await
    }

    /// What the host sees at a URL, without fetching it.
    pub async fn url_metadata(&self, node: &HostName, url: &str) -> Result<UrlMetadata, Error> {
        self.get(&path(&[&"nodes", node, &"query-url-metadata"]), Params::new().with("url", url)).await
    }

    /// Sends a file. One of the same name is overwritten.
    pub async fn upload(
        &self,
        node: &HostName,
        storage: &StorageId,
        upload: &Upload,
        progress: &dyn Progress,
    ) -> Result<Upid, Error> {
        let sent = Arc::new(AtomicU64::new(0));
        let call = self.upload_call(node, storage, upload, Arc::clone(&sent));
        let name = format!("upload of {} to {storage}", upload.filename);
        let start = Instant::now();
        let mut sending = std::pin::pin!(self.call(&call));
        loop {
            if let Ok(done) = tokio::time::timeout(REPORT_EVERY, &mut sending).await {
                return done;
            }
            let detail =
                format!("{} of {} MiB", sent.load(Ordering::Relaxed) >> 20, upload.content.length() >> 20);
            let elapsed = start.elapsed();
            progress.report(&Waiting { name: &name, elapsed, limit: upload.timeout, detail: &detail });
        }
    }

    fn upload_call(
        &self,
        node: &HostName,
        storage: &StorageId,
        upload: &Upload,
        sent: Arc<AtomicU64>,
    ) -> Call {
        let boundary = format!("talmox-{:016x}{:016x}", self.entropy().next(), self.entropy().next());
        let fields = Params::new().with("content", upload.kind.as_str());
        let checksum = checksum_params(upload.checksum.as_ref());
        let fields: Params = fields.iter().chain(checksum.iter()).collect();
        let mut call =
            Call::new(Method::Post, path(&[&"nodes", node, &"storage", storage, &"upload"]), Params::new());
        call.timeout = Some(upload.timeout);
        call.body = Some(Body::Multipart {
            head: Bytes::from(multipart_head(&boundary, &fields, &upload.filename)),
            file: upload.content.clone(),
            tail: Bytes::from(format!("\r\n--{boundary}--\r\n")),
            boundary,
            sent,
        });
        call
    }
}

/// The fields and the beginning of the file's part. Proxmox reads the parts in order and wants the file last, with
/// `Content-Disposition` as its first header.
fn multipart_head(boundary: &str, fields: &Params, filename: &str) -> String {
    let mut head = String::new();
    for (name, value) in fields.iter() {
        // Writing to a string cannot fail.
        let _ = write!(
            head,
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n"
        );
    }
    // Proxmox itself turns everything unusual into `_`; quotes and line ends must not even reach its header.
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let filename: String = filename.chars().map(safe).collect();
    let _ = write!(
        head,
        "--{boundary}\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"{filename}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_comes_last() {
        let fields = Params::new().with("content", "iso");
        assert_eq!(
            multipart_head("B", &fields, "se\"ed.iso"),
            "--B\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\niso\r\n\
             --B\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"se_ed.iso\"\r\n\
             Content-Type: application/octet-stream\r\n\r\n"
        );
    }
}
