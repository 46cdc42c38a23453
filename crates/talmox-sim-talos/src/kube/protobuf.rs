//! Objects in the other form clients may send: `k8s\0`, then a message of Kubernetes' own protocol buffers. Clients made from
//! `client-go` write what they know in it. The kinds here are those that programs for Talos write; others are refused, as an
//! API server refuses what it cannot read.

use serde_json::{Map, Value, json};

const MAGIC: &[u8] = b"k8s\0";
pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Fields of a message with a length of their own, by number: numbers are nothing anybody looks for here.
type Fields<'a> = Vec<(u64, &'a [u8])>;

/// The object in JSON. None: it is no such message, or of a kind that is not known.
pub(super) fn object(body: &[u8]) -> Option<Value> {
    let unknown = fields(body.strip_prefix(MAGIC)?)?;
    let kind = fields(bytes(&unknown, 1)?)?;
    let (api_version, kind) = (text(&kind, 1)?, text(&kind, 2)?);
    let raw = fields(bytes(&unknown, 2)?)?;
    let mut object = match (api_version.as_str(), kind.as_str()) {
        ("v1", "ConfigMap") => config_map(&raw)?,
        ("v1", "Namespace") => json!({}),
        _ => return None,
    };
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object["metadata"] = metadata(&fields(bytes(&raw, 1).unwrap_or_default())?)?;
    Some(object)
}

fn config_map(raw: &Fields<'_>) -> Option<Value> {
    let data = texts(raw, 2)?;
    // What is not text would be kept as base64; nobody sends it.
    if bytes(raw, 3).is_some() {
        return None;
    }
    Some(if data.is_empty() { json!({}) } else { json!({ "data": data }) })
}

fn metadata(raw: &Fields<'_>) -> Option<Value> {
    let mut metadata = Map::new();
    for (number, name) in
        [(1, "name"), (2, "generateName"), (3, "namespace"), (5, "uid"), (6, "resourceVersion")]
    {
        if let Some(value) = bytes(raw, number).filter(|value| !value.is_empty()) {
            metadata.insert(name.to_owned(), String::from_utf8(value.to_vec()).ok()?.into());
        }
    }
    for (number, name) in [(11, "labels"), (12, "annotations")] {
        let all = texts(raw, number)?;
        if !all.is_empty() {
            metadata.insert(name.to_owned(), Value::Object(all));
        }
    }
    Some(Value::Object(metadata))
}

/// A mapping of texts: one message for each entry.
fn texts(raw: &Fields<'_>, number: u64) -> Option<Map<String, Value>> {
    raw.iter()
        .filter(|(own, _)| *own == number)
        .map(|(_, entry)| {
            let entry = fields(entry)?;
            Some((text(&entry, 1).unwrap_or_default(), text(&entry, 2).unwrap_or_default().into()))
        })
        .collect()
}

fn bytes<'a>(raw: &Fields<'a>, number: u64) -> Option<&'a [u8]> {
    raw.iter().find(|(own, _)| *own == number).map(|(_, value)| *value)
}

fn text(raw: &Fields<'_>, number: u64) -> Option<String> {
    String::from_utf8(bytes(raw, number)?.to_vec()).ok()
}

fn fields(mut rest: &[u8]) -> Option<Fields<'_>> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let key = varint(&mut rest)?;
        match key & 7 {
            0 => {
                varint(&mut rest)?;
            }
            1 => {
                take(&mut rest, 8)?;
            }
            2 => {
                let length = varint(&mut rest)?;
                found.push((key >> 3, take(&mut rest, length)?));
            }
            5 => {
                take(&mut rest, 4)?;
            }
            _ => return None,
        }
    }
    Some(found)
}

fn take<'a>(rest: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = left;
    Some(taken)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (first, left) = rest.split_first()?;
        *rest = left;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, value: &[u8]) -> Vec<u8> {
        let length = u8::try_from(value.len()).unwrap();
        [&[number << 3 | 2, length], value].concat()
    }

    /// As `client-go` writes it.
    fn sent(kind: &str) -> Vec<u8> {
        let metadata = [field(1, b"list"), field(2, b""), field(3, b"kube-system"), vec![0x38, 0]].concat();
        let entry = [field(1, b"a_b"), field(2, b"")].concat();
        let raw = [field(1, &metadata), field(2, &entry)].concat();
        let what = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [MAGIC, &field(1, &what), &field(2, &raw), &field(3, b""), &field(4, b"")].concat()
    }

    #[test]
    fn a_config_map_is_read() {
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": { "a_b": "" },
            "metadata": { "name": "list", "namespace": "kube-system" },
        });
        assert_eq!(object(&sent("ConfigMap")), Some(expected));
    }

    #[test]
    fn what_is_not_known_or_cut_short_is_refused() {
        assert_eq!(object(&sent("Deployment")), None);
        let whole = sent("ConfigMap");
        let cut = &whole[..whole.len() - 20];
        assert_eq!(object(cut), None);
        assert_eq!(object(b"{}"), None);
    }
}
