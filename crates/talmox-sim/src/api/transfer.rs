//! Files on their way to a storage: uploads and downloads.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Call;
use crate::contents::Content;
use crate::factory;
use crate::files::FileFacts;
use crate::jobs::Work;
use crate::release::Change;
use crate::reply::{Answer, ApiError};
use crate::storage::{Storage, Volume, split_volid};
use crate::tasks::Job;
use crate::world::World;

/// A file name as the server stores it: no path, odd characters replaced.
fn plain_name(text: &str) -> String {
    let last = text.rsplit(['/', '\\']).next().unwrap_or_default();
    last.chars().map(|c| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' }).collect()
}

/// `plain_tar` if a template may be a bare archive.
fn check_extension(content: &str, name: &str, plain_tar: bool) -> Result<(), ApiError> {
    let lower = name.to_lowercase();
    let ends = |list: &[&str]| {
        list.iter().any(|extension| lower.ends_with(extension) && lower.len() > extension.len())
    };
    let (good, reason) = match content {
        "iso" => (ends(&[".iso", ".img"]), "wrong file extension"),
        "vztmpl" => {
            let packed = ends(&[".tar.gz", ".tar.xz", ".tar.zst", ".tar.bz2"]);
            (packed || plain_tar && ends(&[".tar"]), "wrong file extension")
        }
        _ => (
            [".ova", ".qcow2", ".raw", ".vmdk"].iter().any(|extension| name.ends_with(extension)),
            "invalid filename or wrong extension",
        ),
    };
    if good { Ok(()) } else { Err(ApiError::parameter("filename", reason)) }
}

fn target_volid(storage: &str, content: &str, name: &str) -> String {
    format!("{storage}:{content}/{name}")
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Upload {
    volid: String,
    temporary: String,
    checksum: Option<(String, String)>,
    file: FileFacts,
}

fn checksum_of(call: &Call) -> Option<(String, String)> {
    let algorithm = call.args.get("checksum-algorithm")?.to_owned();
    Some((algorithm, call.args.get("checksum")?.to_lowercase()))
}

/// A storage that holds files; the words are the same for uploads and downloads.
fn file_storage<'w>(world: &'w World, id: &str, node: &str) -> Result<&'w Storage, ApiError> {
    let storage = world.storage_on(id, node).map_err(ApiError::Plain)?;
    if storage.holds_files() {
        return Ok(storage);
    }
    let kind = &storage.kind;
    Err(ApiError::plain(format!("can't upload to storage type '{kind}', not a file based storage!")))
}

pub(crate) fn upload(world: &mut World, call: &Call) -> Answer {
    let (id, content) = (call.args.text("storage").to_owned(), call.args.text("content").to_owned());
    let storage = file_storage(world, &id, &call.node)?;
    if !storage.content.contains(&content) {
        return Err(ApiError::plain(format!("storage '{id}' does not support '{content}' content")));
    }
    let name = plain_name(call.args.text("filename"));
    check_extension(&content, &name, world.has(Change::FormatsOfBlocks))?;
    // A body that is no upload brings parameters, but no file.
    let file = call.file.clone().ok_or_else(|| ApiError::plain("missing temporary file name"))?;
    let job = Upload {
        volid: target_volid(&id, &content, &name),
        temporary: format!("/var/tmp/pveupload-{}", world.random.hex(32)),
        checksum: checksum_of(call),
        file,
    };
    Ok(Value::from(world.spawn(&call.node, "imgcopy", "", &call.caller, Work::Upload(job))))
}

impl Upload {
    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        world.log(job, format!("starting file import from: {}", self.temporary));
        if let Some((algorithm, wanted)) = &self.checksum {
            if let Err(mismatch) = self.file.verify(algorithm, wanted) {
                world.log(job, "calculating checksum...");
                return Err(mismatch);
            }
            world.log(job, "calculating checksum...OK, checksum verified");
        }
        self.probe(world, job)?;
        let path = world.path_of(&self.volid);
        let size = self.file.size;
        for line in [
            format!("target node: {}", job.node),
            format!("target file: {path}"),
            format!("file size is: {size}"),
            format!("command: cp -- {} {path}", self.temporary),
        ] {
            world.log(job, line);
        }
        let storage = split_volid(&self.volid).map_or("", |(storage, _)| storage);
        if !world.has_room(&job.node, storage, size) {
            return Err(format!("import failed: cp: error writing '{path}': No space left on device"));
        }
        Ok(world.timing.small + size / world.timing.copy_rate)
    }

    /// Images to import are opened by the tool that will read them.
    fn probe(&self, world: &mut World, job: &Job) -> Result<(), String> {
        let name = world.name_of(&self.volid)?;
        let lies = name.content == "import"
            && name.format != "raw"
            && self.file.format.as_ref() != Some(&name.format);
        if !lies || name.format == "ova" {
            return Ok(());
        }
        let (temporary, format) = (&self.temporary, &name.format);
        world.log(
            job,
            format!(
                "command '/usr/bin/qemu-img info '--output=json' {temporary} -f {format}' failed: exit code 1"
            ),
        );
        Err(format!("qemu-img: Could not open '{temporary}': Image is not in {format} format"))
    }

    pub(crate) fn finish(&mut self, world: &mut World, job: &Job) {
        world.log(job, "finished file import successfully");
        world.add_file(&job.node, &self.volid, self.file.clone());
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Download {
    url: String,
    volid: String,
    compression: Option<String>,
    checksum: Option<(String, String)>,
    got: Option<FileFacts>,
}

pub(crate) fn download(world: &mut World, call: &Call) -> Answer {
    let (id, content) = (call.args.text("storage").to_owned(), call.args.text("content").to_owned());
    let storage = file_storage(world, &id, &call.node)?;
    if !storage.content.contains(&content) {
        return Err(ApiError::plain(format!(
            "storage '{id}' is not configured for content-type '{content}'"
        )));
    }
    let name = plain_name(call.args.text("filename"));
    check_extension(&content, &name, world.has(Change::FormatsOfBlocks))?;
    let job = Download {
        url: call.args.text("url").to_owned(),
        volid: target_volid(&id, &content, &name),
        compression: call.args.get("compression").map(str::to_owned),
        checksum: checksum_of(call),
        got: None,
    };
    Ok(Value::from(world.spawn(&call.node, "download", &name, &call.caller, Work::Download(job))))
}

/// What a web server has under a URL.
enum Fetched {
    File(FileFacts),
    /// A file that lies elsewhere and begins later, as a factory's do.
    Late {
        file: FileFacts,
        location: Option<String>,
        delay: u64,
    },
    Missing(&'static str),
    /// It breaks off: bytes that came, and bytes there are.
    Cut {
        came: u64,
        size: u64,
    },
    Refused(String),
}

fn host_of(url: &str) -> &str {
    url.split_once("://").map_or("", |(_, rest)| rest).split('/').next().unwrap_or_default()
}

fn fetch(world: &World, url: &str) -> Fetched {
    if let Some(fetched) = world.factory.as_ref().and_then(|factory| factory.fetch(url)) {
        return from_factory(fetched, url);
    }
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let Some(site) = world.sites.get(host) else { return Fetched::Refused(host.to_owned()) };
    let name = path.split('?').next().unwrap_or_default();
    site.files.get(name).map_or(Fetched::Missing("404 File not found"), |file| Fetched::File(file.clone()))
}

fn from_factory(fetched: factory::Fetched, url: &str) -> Fetched {
    match fetched {
        factory::Fetched::File { file, location, delay } => Fetched::Late { file, location, delay },
        factory::Fetched::Cut { came, size } => Fetched::Cut { came, size },
        factory::Fetched::Dead => Fetched::Refused(host_of(url).to_owned()),
        factory::Fetched::Refused { status: 400 } => Fetched::Missing("400 Bad Request"),
        factory::Fetched::Refused { status: 402 } => Fetched::Missing("402 Payment Required"),
        factory::Fetched::Refused { .. } => Fetched::Missing("404 Not Found"),
    }
}

impl Download {
    pub(crate) fn enter(&mut self, world: &mut World, job: &Job) -> Result<u64, String> {
        let name = world.name_of(&self.volid)?;
        if let Some(compression) = &self.compression {
            if name.content != "iso" {
                return Err(format!("decompression not supported for {}", name.content));
            }
            if !matches!(compression.as_str(), "gz" | "lzo" | "zst" | "bz2") {
                return Err("no decompression method found".into());
            }
        }
        let path = world.path_of(&self.volid);
        world.log(job, format!("downloading {} to {path}", self.url));
        if let Some(existing) = world.volume(&job.node, &self.volid).cloned() {
            return self.compare_existing(world, job, &existing, &path);
        }
        let (file, delay) = self.fetch(world, job, &path)?;
        let storage = split_volid(&self.volid).map_or("", |(storage, _)| storage);
        if !world.has_room(&job.node, storage, file.size) {
            world.log(job, format!("Cannot write to '{path}.tmp' (No space left on device)."));
            return Err("download failed: exit code 3".into());
        }
        self.got = Some(file);
        Ok(world.timing.small + delay)
    }

    fn compare_existing(
        &self,
        world: &mut World,
        job: &Job,
        existing: &Volume,
        path: &str,
    ) -> Result<u64, String> {
        let Some((algorithm, wanted)) = &self.checksum else {
            return Err(format!("refusing to override existing file '{path}'"));
        };
        let got =
            existing.file.as_ref().and_then(|file| file.digests.get(algorithm)).cloned().unwrap_or_default();
        if got != *wanted {
            world.log(job, "calculating checksum of existing file...");
            return Err(format!("checksum mismatch: got '{got}' != expect '{wanted}', aborting"));
        }
        world.log(
            job,
            "calculating checksum of existing file...OK, got correct file already, no need to download",
        );
        Ok(world.timing.fork)
    }

    /// The file, and how much later it comes.
    fn fetch(&self, world: &mut World, job: &Job, path: &str) -> Result<(FileFacts, u64), String> {
        let host = host_of(&self.url).to_owned();
        let fetched = fetch(world, &self.url);
        if let Fetched::Refused(host) = fetched {
            return Err(format!("download failed: Connecting to {host}... failed: Connection refused."));
        }
        world.log(job, format!("Connecting to {host}... connected."));
        let answered = |world: &mut World, what: &str| {
            world.log(job, format!("HTTP request sent, awaiting response... {what}"));
        };
        let (file, delay) = match fetched {
            Fetched::Refused(_) => (FileFacts::default(), 0),
            Fetched::Missing(what) => {
                answered(world, what);
                return Err("download failed: exit code 8".into());
            }
            Fetched::Cut { came, size } => {
                answered(world, "200 OK");
                world.log(
                    job,
                    format!("Read error at byte {came}/{size} (Connection reset by peer). Giving up."),
                );
                return Err("download failed: exit code 4".into());
            }
            Fetched::File(file) => (file, 0),
            Fetched::Late { file, location, delay } => {
                if let Some(location) = location {
                    answered(world, "302 Found");
                    world.log(job, format!("Location: {location} [following]"));
                }
                (file, delay)
            }
        };
        answered(world, "200 OK");
        if let Some((algorithm, wanted)) = &self.checksum {
            world.log(job, "calculating checksum...");
            file.verify(algorithm, wanted)?;
        }
        let name = world.name_of(&self.volid)?;
        let lies =
            name.content == "import" && name.format != "raw" && file.format.as_ref() != Some(&name.format);
        if lies && name.format != "ova" {
            return Err(format!("failed to verify file: Image is not in {} format", name.format));
        }
        let mut file = file;
        if self.compression.is_some() {
            world.log(job, format!("decompressing {path}"));
            let inside = world.factory.as_ref().and_then(|factory| factory.inside(&self.url));
            file.content = inside.map_or(Content::Other, Content::Talos);
        }
        world.log(job, format!("download of '{}' to '{path}' finished", self.url));
        Ok((file, delay))
    }

    pub(crate) fn finish(&mut self, world: &mut World, job: &Job) {
        if let Some(file) = self.got.take() {
            world.add_file(&job.node, &self.volid, file);
        }
    }
}

pub(crate) fn url_metadata(world: &World, call: &Call) -> Answer {
    let url = call.args.text("url");
    match fetch(world, url) {
        Fetched::File(file) | Fetched::Late { file, .. } => {
            let name = url.rsplit('/').next().unwrap_or_default();
            let mimetype = file.mimetype.unwrap_or_else(|| "application/octet-stream".into());
            Ok(json!({"filename": name, "size": file.size, "mimetype": mimetype}))
        }
        // A HEAD brings no body that could break off.
        Fetched::Cut { size, .. } => {
            let name = url.rsplit('/').next().unwrap_or_default();
            Ok(json!({"filename": name, "size": size, "mimetype": "application/octet-stream"}))
        }
        Fetched::Missing(what) => Err(ApiError::plain(format!("invalid server response: '{what}'"))),
        Fetched::Refused(host) => Err(ApiError::plain(format!(
            "invalid server response: '500 Can't connect to {host} (Connection refused)'"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_extensions_are_checked_by_content() {
        assert_eq!(plain_name("/a/b c.iso"), "b_c.iso");
        assert!(
            check_extension("iso", "x.ISO", true).is_ok() && check_extension("iso", "x.txt", true).is_err()
        );
        assert!(
            check_extension("import", "x.qcow2", true).is_ok()
                && check_extension("import", "x.img", true).is_err()
        );
        assert!(
            check_extension("import", "x.raw.xz", true).is_err()
                && check_extension("iso", "x", true).is_err()
        );
    }
}
