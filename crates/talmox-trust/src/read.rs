//! Grants from text. Whatever is not understood is an error: half a grant must not pass for a whole one.

use std::collections::{BTreeMap, BTreeSet};

use talmox_types::Fingerprint;
use talmox_yaml::{Entry, FaultKind, Node, NodeKind};

use crate::grant::{Access, Certificate, Credential, Grant, Program, Receiver};
use crate::origin::Origin;

/// What is wrong with a text of grants.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct Malformed {
    pub line: usize,
    pub reason: String,
}

/// What is wrong, and the byte where it stands.
struct Wrong {
    at: u32,
    reason: String,
}

fn wrong<T>(node: &Node, reason: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { at: node.span.start, reason: reason.into() })
}

/// A list of grants, as `TALMOX_TRUST` and `--trust` take it; a single grant needs no dash.
pub fn read_list(text: &str) -> Result<Vec<Grant>, Malformed> {
    let Some(root) = root(text)? else { return Ok(Vec::new()) };
    grants(&root).map_err(|wrong| placed(text, wrong))
}

/// Lists of grants by folder, as `trust.yaml` has them.
pub fn read_by_folder(text: &str) -> Result<BTreeMap<String, Vec<Grant>>, Malformed> {
    let Some(root) = root(text)? else { return Ok(BTreeMap::new()) };
    folders(&root).map_err(|wrong| placed(text, wrong))
}

fn root(text: &str) -> Result<Option<Node>, Malformed> {
    let mut parsed = talmox_yaml::parse(text);
    if let Some(fault) = parsed.faults.first() {
        return Err(Malformed { line: line_of(text, fault.span.start), reason: not_yaml(&fault.kind) });
    }
    if parsed.documents.len() > 1 {
        return Err(Malformed { line: 1, reason: "grants are one YAML document".to_owned() });
    }
    Ok(parsed.documents.pop().filter(|root| !root.is_null()))
}

fn not_yaml(kind: &FaultKind) -> String {
    match kind {
        FaultKind::Syntax(words) => format!("this is no YAML: {words}"),
        FaultKind::Tab => "YAML is indented with blanks, not with tabs".to_owned(),
        FaultKind::DuplicateKey { key, .. } => format!("{key} stands here twice"),
        FaultKind::UnknownAlias(_) | FaultKind::AliasKnot | FaultKind::Limit(_) | FaultKind::ComplexKey => {
            "grants are plain lists and mappings".to_owned()
        }
    }
}

fn placed(text: &str, wrong: Wrong) -> Malformed {
    Malformed { line: line_of(text, wrong.at), reason: wrong.reason }
}

fn line_of(text: &str, at: u32) -> usize {
    let before = text.as_bytes().get(..at as usize).unwrap_or_default();
    before.split(|byte| *byte == b'\n').count()
}

fn folders(root: &Node) -> Result<BTreeMap<String, Vec<Grant>>, Wrong> {
    let mut folders = BTreeMap::new();
    for entry in entries(root, "a mapping of folders to their grants")? {
        let folder = text(&entry.key)?;
        if folders.insert(folder.to_owned(), grants(&entry.value)?).is_some() {
            return wrong(&entry.key, format!("the folder {folder} stands here twice"));
        }
    }
    Ok(folders)
}

fn grants(node: &Node) -> Result<Vec<Grant>, Wrong> {
    match &node.kind {
        NodeKind::Sequence(items) => items.iter().map(grant).collect(),
        NodeKind::Mapping(_) => Ok(vec![grant(node)?]),
        NodeKind::Scalar(_) if node.is_null() => Ok(Vec::new()),
        NodeKind::Scalar(_) => wrong(node, "grants are a list of mappings"),
    }
}

const KINDS: &str = "a grant is one of program, credential, variable, folder, host and recipient";

fn grant(node: &Node) -> Result<Grant, Wrong> {
    let mut fields = Fields::of(node)?;
    let Some(first) = fields.first() else { return wrong(node, KINDS) };
    let grant = match first.as_str() {
        "program" => Grant::Program(Program {
            argv: texts(fields.need("program")?)?,
            path: text(fields.need("path")?)?.to_owned(),
            files: fields.take("files").map(digests).transpose()?.unwrap_or_default(),
            variables: fields
                .take("variables")
                .map(texts)
                .transpose()?
                .unwrap_or_default()
                .into_iter()
                .collect(),
        }),
        "credential" => Grant::Credential(Credential {
            secret: text(fields.need("credential")?)?.to_owned(),
            endpoints: origins(fields.need("endpoint")?)?,
            certificate: certificate(fields.need("certificate")?)?,
        }),
        "variable" => Grant::Variable(text(fields.need("variable")?)?.to_owned()),
        "folder" => {
            let path = fields.need("folder")?;
            let access = fields.need("access")?;
            let access = match text(access)? {
                "read" => Access::Read,
                "write" => Access::Write,
                _ => return wrong(access, "access is read or write"),
            };
            let folder = text(path)?;
            if !folder.starts_with('/') {
                return wrong(path, "a folder is granted by its absolute path");
            }
            Grant::Folder { path: folder.to_owned(), access }
        }
        "host" => {
            let host = fields.need("host")?;
            match Origin::of_url(text(host)?) {
                Ok(origin) => Grant::Host(origin),
                Err(invalid) => return wrong(host, invalid.to_string()),
            }
        }
        "recipient" => {
            let receiver = text(fields.need("recipient")?)?;
            Grant::Recipient(match receiver.strip_prefix(Receiver::STORAGE) {
                Some(storage) => Receiver::SeedStorage(storage.to_owned()),
                None => Receiver::Age(receiver.to_owned()),
            })
        }
        _ => return wrong(node, KINDS),
    };
    fields.nothing_left()?;
    Ok(grant)
}

fn certificate(node: &Node) -> Result<Certificate, Wrong> {
    const FORMS: &str =
        "certificate is system, unchecked, a list of fingerprints or {ca_file: FILE, sha256: SHA256}";
    match &node.kind {
        NodeKind::Scalar(scalar) => match scalar.text.as_str() {
            "system" => Ok(Certificate::System),
            "unchecked" => Ok(Certificate::Unchecked),
            _ => Ok(Certificate::Fingerprints(BTreeSet::from([fingerprint(node)?]))),
        },
        NodeKind::Sequence(items) if !items.is_empty() => {
            Ok(Certificate::Fingerprints(items.iter().map(fingerprint).collect::<Result<_, _>>()?))
        }
        NodeKind::Mapping(_) => {
            let mut fields = Fields::of(node)?;
            let file = text(fields.need("ca_file")?)?.to_owned();
            let digest = digest(fields.need("sha256")?)?;
            fields.nothing_left()?;
            Ok(Certificate::Authority { file, digest })
        }
        NodeKind::Sequence(_) => wrong(node, FORMS),
    }
}

fn fingerprint(node: &Node) -> Result<Fingerprint, Wrong> {
    Fingerprint::parse(text(node)?).or_else(|invalid| wrong(node, invalid.to_string()))
}

fn digest(node: &Node) -> Result<String, Wrong> {
    let digest = text(node)?.to_ascii_lowercase();
    let fits = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    if fits { Ok(digest) } else { wrong(node, "a SHA-256 has 64 hexadecimal digits") }
}

fn digests(node: &Node) -> Result<BTreeMap<String, String>, Wrong> {
    let entries = entries(node, "files are a mapping of paths to their SHA-256")?;
    entries.iter().map(|entry| Ok((text(&entry.key)?.to_owned(), digest(&entry.value)?))).collect()
}

fn origins(node: &Node) -> Result<BTreeSet<Origin>, Wrong> {
    let origin =
        |node: &Node| Origin::of_api(text(node)?).or_else(|invalid| wrong(node, invalid.to_string()));
    match &node.kind {
        NodeKind::Sequence(items) => items.iter().map(origin).collect(),
        NodeKind::Scalar(_) | NodeKind::Mapping(_) => Ok(BTreeSet::from([origin(node)?])),
    }
}

fn texts(node: &Node) -> Result<Vec<String>, Wrong> {
    match &node.kind {
        NodeKind::Sequence(items) => items.iter().map(|item| text(item).map(str::to_owned)).collect(),
        NodeKind::Scalar(_) | NodeKind::Mapping(_) => wrong(node, "a list of texts is wanted"),
    }
}

fn text(node: &Node) -> Result<&str, Wrong> {
    match node.as_scalar() {
        Some(scalar) if !scalar.text.is_empty() => Ok(&scalar.text),
        Some(_) => wrong(node, "a value is missing"),
        None => wrong(node, "a text is wanted"),
    }
}

fn entries<'n>(node: &'n Node, what: &str) -> Result<&'n [Entry], Wrong> {
    match &node.kind {
        NodeKind::Mapping(entries) => Ok(entries),
        NodeKind::Scalar(_) | NodeKind::Sequence(_) => wrong(node, what),
    }
}

/// The keys of one grant, taken one by one.
struct Fields<'n> {
    of: &'n Node,
    left: Vec<(&'n str, &'n Entry)>,
}

impl<'n> Fields<'n> {
    fn of(node: &'n Node) -> Result<Self, Wrong> {
        let mut left: Vec<(&str, &Entry)> = Vec::new();
        for entry in entries(node, KINDS)? {
            let key = text(&entry.key)?;
            if left.iter().any(|(known, _)| *known == key) {
                return wrong(&entry.key, format!("{key} stands here twice"));
            }
            left.push((key, entry));
        }
        Ok(Self { of: node, left })
    }

    /// The key that names the kind: the first one.
    fn first(&self) -> Option<String> {
        self.left.first().map(|(key, _)| (*key).to_owned())
    }

    fn take(&mut self, key: &str) -> Option<&'n Node> {
        let at = self.left.iter().position(|(known, _)| *known == key)?;
        Some(&self.left.remove(at).1.value)
    }

    fn need(&mut self, key: &str) -> Result<&'n Node, Wrong> {
        self.take(key).map_or_else(|| wrong(self.of, format!("{key} is missing")), Ok)
    }

    fn nothing_left(&self) -> Result<(), Wrong> {
        match self.left.first() {
            Some((key, entry)) => wrong(&entry.key, format!("{key} is not known here")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
