//! Finding and reading the files of a description.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::problem::{Code, Problem};
use crate::source::{SourceId, Sources};

/// The largest file that is read. Ten thousand nodes fit several times; a disk image named by mistake does not.
pub const MAX_FILE_SIZE: u64 = 16 * 1024 * 1024;

/// The defaults talmox brings along, in the language of the files themselves.
const BUILT_IN: &str = include_str!("built_in.yaml");

/// The texts of a description, and what went wrong in getting them.
#[derive(Debug)]
pub struct Files {
    pub sources: Sources,
    pub cluster: Option<SourceId>,
    pub nodes: Option<SourceId>,
    /// Whether the nodes only lie beside a file that may have its own.
    pub nodes_are_optional: bool,
    pub problems: Vec<Problem>,
}

impl Files {
    fn new() -> Self {
        let mut sources = Sources::default();
        sources.add("built in".to_owned(), BUILT_IN.to_owned(), None);
        Self { sources, cluster: None, nodes: None, nodes_are_optional: false, problems: Vec::new() }
    }

    /// Texts that are already there: `cluster.yaml` and, if it is separate, `nodes.yaml`.
    pub fn from_texts(cluster: &str, nodes: Option<&str>) -> Self {
        let mut files = Self::new();
        files.cluster = Some(files.sources.add("cluster.yaml".to_owned(), cluster.to_owned(), None));
        files.nodes = nodes.map(|text| files.sources.add("nodes.yaml".to_owned(), text.to_owned(), None));
        files
    }

    /// Bytes that may not even be text, as a file might hold them.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut files = Self::new();
        files.cluster = match to_text("cluster.yaml", bytes.to_vec()) {
            Ok(text) => Some(files.sources.add("cluster.yaml".to_owned(), text, None)),
            Err(problem) => {
                files.problems.push(*problem);
                None
            }
        };
        files
    }

    fn add_file(&mut self, path: &Path) -> Option<SourceId> {
        add_file(&mut self.sources, path).map_err(|problem| self.problems.push(*problem)).ok()
    }
}

/// Reads a text file, whatever it says.
pub fn add_file(sources: &mut Sources, path: &Path) -> Result<SourceId, Box<Problem>> {
    let name = display_name(path);
    let text = to_text(&name, read_bounded(path, &name)?)?;
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    Ok(sources.add(name, text, Some(folder)))
}

/// Finds and reads the description in a folder, or in a file and the `nodes.yaml` beside it.
pub fn load(path: &Path) -> Files {
    let mut files = Files::new();
    if path.is_dir() {
        match first_that_exists(path, ["cluster.yaml", "cluster.yml"]) {
            Some(cluster) => files.cluster = files.add_file(&cluster),
            None => files.problems.push(no_cluster_file(path)),
        }
        files.nodes =
            first_that_exists(path, ["nodes.yaml", "nodes.yml"]).and_then(|nodes| files.add_file(&nodes));
        return files;
    }
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml")) {
        files.problems.push(toml_refused(path));
        return files;
    }
    files.cluster = files.add_file(path);
    let beside = path.parent().unwrap_or(Path::new(""));
    let nodes =
        first_that_exists(beside, ["nodes.yaml", "nodes.yml"]).filter(|nodes| nodes.as_path() != path);
    files.nodes = nodes.and_then(|nodes| files.add_file(&nodes));
    files.nodes_are_optional = path.file_stem().is_none_or(|name| name != "cluster");
    files
}

fn first_that_exists<const N: usize>(folder: &Path, names: [&str; N]) -> Option<PathBuf> {
    names.into_iter().map(|name| folder.join(name)).find(|path| path.exists())
}

/// As the user would write it: without a leading `./`.
fn display_name(path: &Path) -> String {
    path.strip_prefix(".").unwrap_or(path).display().to_string()
}

fn read_bounded(path: &Path, name: &str) -> Result<Vec<u8>, Box<Problem>> {
    let unreadable = |error: &io::Error| Box::new(unreadable(error, name));
    // Looked at before it is opened: opening a pipe would wait for somebody to write to it.
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(&error))?;
    if !metadata.is_file() {
        let problem = Problem::error(Code::FileUnreadable, format!("{name} is not a regular file"))
            .in_file(name, 1, 1)
            .hint("pipes and devices are not read; write the description to a file first");
        return Err(Box::new(problem));
    }
    let file = File::open(path).map_err(|error| unreadable(&error))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE_SIZE + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if bytes.len() as u64 > MAX_FILE_SIZE {
        let limit = MAX_FILE_SIZE / 1024 / 1024;
        let problem = Problem::error(Code::FileTooLarge, format!("{name} is larger than {limit} MiB"))
            .in_file(name, 1, 1)
            .hint("a description of ten thousand nodes has about 2 MiB; is this the right file?");
        return Err(Box::new(problem));
    }
    Ok(bytes)
}

fn unreadable(error: &io::Error, name: &str) -> Problem {
    if error.kind() == io::ErrorKind::NotFound {
        return Problem::error(Code::FileMissing, format!("there is no file {name}"))
            .in_file(name, 1, 1)
            .hint("name a file or a folder with -f, or write one with talmox init");
    }
    Problem::error(Code::FileUnreadable, format!("could not read {name}: {error}")).in_file(name, 1, 1)
}

fn to_text(name: &str, bytes: Vec<u8>) -> Result<String, Box<Problem>> {
    let utf16 = bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]);
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
        let line = valid.matches('\n').count() + 1;
        let column = valid.rsplit('\n').next().map_or(0, |start| start.chars().count()) + 1;
        let encoding = if utf16 { "it looks like UTF-16" } else { "it may be Latin-1, or not a text at all" };
        let problem = Problem::error(Code::NotText, format!("{name} is not UTF-8 text"))
            .in_file(name, line, column)
            .hint(format!("{encoding}; save it as UTF-8"));
        Box::new(problem)
    })?;
    // A byte order mark says nothing in UTF-8; some editors write one.
    Ok(text.strip_prefix('\u{feff}').map_or_else(|| text.clone(), str::to_owned))
}

fn no_cluster_file(folder: &Path) -> Problem {
    let toml = folder.join("cluster.toml");
    if toml.exists() {
        return toml_refused(&toml);
    }
    let name = match display_name(folder) {
        empty if empty.is_empty() => "the current folder".to_owned(),
        other => other,
    };
    let problem = Problem::error(Code::FileMissing, format!("there is no cluster.yaml in {name}")).in_file(
        display_name(&folder.join("cluster.yaml")),
        1,
        1,
    );
    problem.hint("talmox init writes one; talmox validate -f examples/homelab reads an example")
}

fn toml_refused(path: &Path) -> Problem {
    let name = display_name(path);
    Problem::error(Code::FileFormat, format!("{name}: descriptions are YAML, TOML is not read"))
        .in_file(name, 1, 1)
        .hint(
            "newer cluster-template releases keep their settings in cluster.toml, whose layout has no place for VMs; \
             write cluster.yaml with talmox init and carry the values over",
        )
}
