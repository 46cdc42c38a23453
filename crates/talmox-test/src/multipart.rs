//! An upload's body, read as strictly as the server reads it: parts in order, the file last, and the first header of each
//! part says what it is.

use std::collections::BTreeMap;

use talmox_sim::{Body, FileFacts};

/// A body that is no upload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed upload: {0}")]
pub struct MalformedUpload(String);

fn malformed<T>(reason: impl Into<String>) -> Result<T, MalformedUpload> {
    Err(MalformedUpload(reason.into()))
}

/// Reads the bytes of a `multipart/form-data` body.
pub fn parse_upload(content_type: &str, bytes: &[u8]) -> Result<Body, MalformedUpload> {
    let Some(boundary) = content_type.strip_prefix("multipart/form-data; boundary=") else {
        return malformed(format!("the content type is {content_type}"));
    };
    let opening = format!("--{boundary}\r\n");
    let Some(mut rest) = bytes.strip_prefix(opening.as_bytes()) else {
        return malformed("it does not begin with the boundary");
    };
    let mut fields = BTreeMap::new();
    loop {
        let (disposition, content) = split_part(rest)?;
        if let Some(filename) = disposition.filename {
            if disposition.name != "filename" {
                return malformed(format!("the file is in part {}", disposition.name));
            }
            let closing = format!("\r\n--{boundary}--\r\n");
            let Some(file) = content.strip_suffix(closing.as_bytes()) else {
                return malformed("the file is not followed by the last boundary");
            };
            return Ok(Body::Upload { fields, filename, file: FileFacts::of_bytes(file) });
        }
        let separator = format!("\r\n--{boundary}\r\n");
        let Some(end) = find(content, separator.as_bytes()) else {
            return malformed(format!("nothing follows part {}", disposition.name));
        };
        fields.insert(disposition.name, String::from_utf8_lossy(&content[..end]).into_owned());
        rest = &content[end + separator.len()..];
    }
}

struct Disposition {
    name: String,
    filename: Option<String>,
}

/// The first header of a part and what comes after its headers.
fn split_part(part: &[u8]) -> Result<(Disposition, &[u8]), MalformedUpload> {
    let Some(end) = find(part, b"\r\n\r\n") else { return malformed("a part has no end of headers") };
    let headers = String::from_utf8_lossy(&part[..end]).into_owned();
    let first = headers.lines().next().unwrap_or_default();
    let Some(values) = first.strip_prefix("Content-Disposition: form-data; ") else {
        return malformed(format!("a part begins with the header {first}"));
    };
    let quoted = |key: &str| {
        let value = values.split("; ").find_map(|value| value.strip_prefix(key)?.strip_prefix("=\""));
        value.and_then(|value| value.strip_suffix('"')).map(str::to_owned)
    };
    let Some(name) = quoted("name") else { return malformed("a part has no name") };
    Ok((Disposition { name, filename: quoted("filename") }, &part[end + 4..]))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=B";

    fn part(header: &str, content: &str) -> String {
        format!("--B\r\nContent-Disposition: form-data; {header}\r\n\r\n{content}\r\n")
    }

    #[test]
    fn fields_come_first_and_the_file_last() {
        let text = part("name=\"content\"", "iso") + &part("name=\"filename\"; filename=\"a.iso\"", "x\r\ny");
        let body = parse_upload(TYPE, (text + "--B--\r\n").as_bytes()).unwrap();
        let Body::Upload { fields, filename, file } = body else { panic!("no upload") };
        assert_eq!(fields, BTreeMap::from([("content".to_owned(), "iso".to_owned())]));
        assert_eq!((filename.as_str(), file.size), ("a.iso", 4));
    }

    #[test]
    fn anything_else_is_refused() {
        let file = part("name=\"filename\"; filename=\"a.iso\"", "x");
        for (text, reason) in [
            (String::new(), "it does not begin with the boundary"),
            (part("name=\"content\"", "iso"), "nothing follows part content"),
            (
                file.clone() + &part("name=\"content\"", "iso"),
                "the file is not followed by the last boundary",
            ),
            (file.replace("\"filename\"", "\"file\"") + "--B--\r\n", "the file is in part file"),
            ("--B\r\nContent-Type: x\r\n\r\n".to_owned(), "a part begins with the header Content-Type: x"),
        ] {
            assert_eq!(parse_upload(TYPE, text.as_bytes()).unwrap_err(), MalformedUpload(reason.to_owned()));
        }
        assert!(parse_upload("multipart/mixed", b"").is_err());
    }
}
