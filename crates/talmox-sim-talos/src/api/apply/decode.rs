//! Reads a configuration, and says in Talos' words what keeps it from being one.

use talmox_machine::validate::Mode;
use talmox_machine::{Config, Map, Source, Value};
use talmox_types::Contract;
use talmox_yaml::{FaultKind, Node, NodeKind, Span};

/// Where documents begin and what they call themselves.
struct Header {
    line: usize,
    /// `v1alpha1/HostnameConfig/`; `/v1alpha1/` for the one with `machine` and `cluster`.
    id: String,
    kind: Option<String>,
}

pub(super) fn decode(text: &str, talos: Contract) -> Result<Config, String> {
    let parsed = talmox_yaml::parse(text);
    if let Some(fault) =
        parsed.faults.iter().find(|fault| !matches!(fault.kind, FaultKind::DuplicateKey { .. }))
    {
        return Err(format!("decode error: yaml: {}", syntax(text, &fault.kind, fault.span, talos)));
    }
    if let Some(fault) = parsed.faults.first() {
        let line = line_of(text, fault.span);
        let FaultKind::DuplicateKey { key, first } = &fault.kind else { return Err(String::new()) };
        let words = format!("mapping key {key:?} already defined at line {}", line_of(text, *first));
        return Err(construct("/v1alpha1/", 1, line, &words, talos));
    }
    let documents: Vec<&Node> = parsed.documents.iter().filter(|node| !node.is_null()).collect();
    let mut headers: Vec<Header> = Vec::new();
    for document in &documents {
        let header = header(text, document)?;
        if headers.iter().any(|other| other.id == header.id) {
            return Err(format!("duplicate document {} is not allowed (line {})", header.id, header.line));
        }
        headers.push(header);
    }
    if documents.is_empty() {
        return Err("config not found".to_owned());
    }
    read(text, &headers, talos)
}

fn read(text: &str, headers: &[Header], talos: Contract) -> Result<Config, String> {
    let source = Source { name: "config", text };
    let config = match Config::parse(source) {
        Ok(config) => config,
        Err(faults) => return Err(undecodable(text, headers, &faults.0, talos)),
    };
    // Documents and fields of later versions are unknown as any other.
    let strange = config.validate(Mode::Cloud, talos);
    let strange: Vec<_> =
        strange.iter().filter(|problem| problem.message.contains("does not know")).collect();
    if let Some(problem) = strange.iter().find(|problem| problem.path.is_empty()) {
        let header = headers
            .iter()
            .find(|header| problem.document.starts_with(header.kind.as_deref().unwrap_or("\0")));
        return Err(header.map_or_else(String::new, not_registered));
    }
    let paths: Vec<&str> = strange.iter().map(|problem| problem.path.as_str()).collect();
    match headers.first() {
        Some(header) if !paths.is_empty() => Err(unknown_keys(text, header, &paths)),
        _ => endpoint(text, headers, &config, talos).map_or(Ok(config), Err),
    }
}

/// An address with a port and without a scheme is no URL.
fn endpoint(text: &str, headers: &[Header], config: &Config, talos: Contract) -> Option<String> {
    let endpoint = config.at(&["cluster", "controlPlane", "endpoint"])?.as_text()?;
    let schemeless = !endpoint.starts_with(|c: char| c.is_ascii_alphabetic());
    let colon = endpoint.split('/').next().is_some_and(|first| first.contains(':'));
    if !schemeless || !colon {
        return None;
    }
    let line =
        text.lines().position(|line| line.trim() == format!("endpoint: {endpoint}")).map_or(1, |at| at + 1);
    let words = format!("parse {endpoint:?}: first path segment in URL cannot contain colon");
    let header = headers.iter().find(|header| header.kind.is_none())?;
    Some(construct(&header.id, header.line, line, &words, talos))
}

fn undecodable(text: &str, headers: &[Header], faults: &[talmox_machine::Fault], talos: Contract) -> String {
    let Some(fault) = faults.first() else { return String::new() };
    let Some(header) =
        headers.iter().rev().find(|header| header.line <= fault.place.line).or(headers.first())
    else {
        return fault.message.clone();
    };
    if fault.message.contains("no document of kind") {
        return not_registered(header);
    }
    let unknown: Vec<&str> = faults
        .iter()
        .filter(|fault| fault.message.starts_with("Talos has no such field"))
        .map(|fault| fault.place.path.as_str())
        .collect();
    if !unknown.is_empty() {
        return unknown_keys(text, header, &unknown);
    }
    let words = format!("cannot construct {} ({})", fault.place.path, fault.message);
    construct(&header.id, header.line, fault.place.line, &words, talos)
}

fn not_registered(header: &Header) -> String {
    let Header { id, line, kind } = header;
    let kind = kind.as_deref().unwrap_or_default();
    let version = id.split('/').next().unwrap_or_default();
    format!("error decoding document {id} (line {line}): {kind:?} {version:?}: not registered")
}

/// The YAML library became another one with 1.13.
fn construct(id: &str, begins: usize, line: usize, words: &str, talos: Contract) -> String {
    let verb = if talos.minor >= 13 { "construct" } else { "unmarshal" };
    let kind = if id == "/v1alpha1/" { "v1alpha1.Config" } else { id };
    format!(
        "error decoding document {id} (line {begins}): error decoding  to *{kind}: yaml: {verb} errors:\n  line {line}: {words}"
    )
}

/// Keys nobody knows, as the document has them.
fn unknown_keys(text: &str, header: &Header, paths: &[&str]) -> String {
    let mut tree = Map::new();
    for path in paths {
        if let Some(value) = found(text, path) {
            put(&mut tree, &path.split('.').collect::<Vec<_>>(), value);
        }
    }
    let tree = talmox_machine::print(&Value::Map(tree));
    format!(
        "error decoding document {} (line {}): unknown keys found during decoding:\n{tree}",
        header.id, header.line
    )
}

fn found(text: &str, path: &str) -> Option<Value> {
    let documents = talmox_machine::read_values(Source { name: "config", text }).ok()?;
    let keys: Vec<&str> = path.split('.').collect();
    documents.iter().find_map(|document| document.at(&keys).cloned())
}

fn put(tree: &mut Map, keys: &[&str], value: Value) {
    let Some((first, rest)) = keys.split_first() else { return };
    if rest.is_empty() {
        tree.set(*first, value);
        return;
    }
    let mut inner = tree.get(first).and_then(Value::as_map).cloned().unwrap_or_default();
    put(&mut inner, rest, value);
    tree.set(*first, Value::Map(inner));
}

fn header(text: &str, node: &Node) -> Result<Header, String> {
    let line = line_of(text, node.span);
    let NodeKind::Mapping(entries) = &node.kind else {
        return Err(format!("expected a YAML document at line {line}"));
    };
    let scalar = |name: &str| {
        let entry = entries.iter().find(|entry| entry.key.as_scalar().is_some_and(|key| key.text == name))?;
        entry.value.as_scalar().map(|scalar| scalar.text.clone())
    };
    let has =
        |name: &str| entries.iter().any(|entry| entry.key.as_scalar().is_some_and(|key| key.text == name));
    match scalar("kind") {
        Some(kind) => {
            let [version, name] = ["apiVersion", "name"].map(|name| scalar(name).unwrap_or_default());
            Ok(Header { line, id: format!("{version}/{kind}/{name}"), kind: Some(kind) })
        }
        None if ["machine", "cluster", "version", "debug", "persist"].iter().any(|name| has(name)) => {
            Ok(Header { line, id: "/v1alpha1/".to_owned(), kind: None })
        }
        None => Err(format!("error decoding document /v1alpha1/ (line {line}): missing kind")),
    }
}

fn line_of(text: &str, span: Span) -> usize {
    let start = (span.start as usize).min(text.len());
    text.as_bytes()[..start].split(|byte| *byte == b'\n').count()
}

/// What the YAML library says. It names the place where it began to read what it could not, for some of what there is.
fn syntax(text: &str, kind: &FaultKind, span: Span, talos: Contract) -> String {
    let line = line_of(text, span);
    let newer = talos.minor >= 13;
    match kind {
        FaultKind::Tab if newer => {
            format!(
                "while scanning for the next token at line {line}: found character that cannot start any token"
            )
        }
        FaultKind::Tab => format!("line {line}: found character that cannot start any token"),
        FaultKind::Syntax(_) => match open_bracket(text) {
            Some((line, column, bracket)) => {
                let (what, close) = if bracket == '[' { ("sequence", "]") } else { ("mapping", "}") };
                let words = format!("did not find expected ',' or '{close}'");
                if newer {
                    format!(
                        "while parsing a flow {what} at <unknown position>: line {line}, column {column}: {words}"
                    )
                } else {
                    format!("line {line}: {words}")
                }
            }
            None => format!("line {line}: could not find expected ':'"),
        },
        FaultKind::DuplicateKey { .. }
        | FaultKind::UnknownAlias(_)
        | FaultKind::AliasKnot
        | FaultKind::Limit(_)
        | FaultKind::ComplexKey => format!("line {line}: {kind:?}"),
    }
}

/// The last bracket that is not closed: its line, and the column the library gives for what follows it.
fn open_bracket(text: &str) -> Option<(usize, usize, char)> {
    let mut open = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for c in line.chars() {
            match c {
                '[' | '{' => open.push((index + 1, line, c)),
                ']' | '}' => {
                    open.pop();
                }
                _ => {}
            }
        }
    }
    let (line, words, bracket) = open.pop()?;
    // It counts from the next line's first token.
    let next = text.lines().nth(line).unwrap_or(words);
    let column = next.find(':').unwrap_or(0) + 1;
    Some((line, column, bracket))
}
