//! Changing the configuration of a machine that runs, as somebody did whose bytes were not kept.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::ExposeSecret as _;
use talmox_machine::pki::KeyKind;
use talmox_machine::secrets::Authority;
use talmox_machine::{Map, Source, SystemRandom, Time, Value, print, read_values};

use super::sent::Change;

/// An authority in the making: certificate and key in base64, and the certificate's bytes.
#[derive(Clone)]
pub(super) struct NewAuthority {
    certificate: String,
    key: String,
    pub(super) der: Vec<u8>,
}

impl NewAuthority {
    pub(super) fn draw(section: &str, now: i64) -> anyhow::Result<Self> {
        let (name, kind) = if section == "machine" {
            ("talos", KeyKind::Ed25519)
        } else {
            ("kubernetes", KeyKind::EcdsaP256)
        };
        let times = (Time::from_unix(now), Time::from_unix(now + 315_360_000));
        let authority = Authority::generate(name, kind, times, &mut SystemRandom)?;
        let pem = authority.certificate.pem();
        let body: String = pem.lines().filter(|line| !line.starts_with("-----")).collect();
        Ok(Self {
            certificate: STANDARD.encode(pem),
            key: STANDARD.encode(authority.key.pem().expose_secret()),
            der: STANDARD.decode(body)?,
        })
    }
}

/// A configuration with one change in it.
pub(super) fn changed(
    text: &str,
    change: &Change,
    authority: Option<&NewAuthority>,
) -> anyhow::Result<String> {
    let mut documents = read_values(Source { name: "config", text })?;
    let first = documents.iter_mut().find(|one| one.at(&["machine"]).is_some());
    if let Some(first) = first.and_then(Value::as_map_mut) {
        match change {
            Change::Image(path, image) => set(first, path, Value::text(image.clone())),
            Change::Argument(path, argument) => {
                let (key, value) = argument.split_once('=').unwrap_or((argument, "0"));
                set(first, &[path.as_slice(), &[key]].concat(), Value::text(value));
            }
            Change::Authority { section, step } => {
                if let (Some(authority), Some(section)) = (authority, section_of(first, section)) {
                    rotate(section, *step, authority);
                }
            }
            Change::Back => {}
        }
    }
    let texts: Vec<String> = documents.iter().map(print).collect();
    Ok(texts.join("---\n"))
}

fn section_of<'a>(map: &'a mut Map, name: &str) -> Option<&'a mut Map> {
    map.get_mut(name)?.as_map_mut()
}

fn set(map: &mut Map, path: &[&str], value: Value) {
    match path {
        [] => {}
        [key] => map.set(*key, value),
        [key, rest @ ..] => {
            if map.get(key).and_then(Value::as_map).is_none() {
                map.set(*key, Value::Map(Map::new()));
            }
            if let Some(inner) = section_of(map, key) {
                set(inner, rest, value);
            }
        }
    }
}

/// The steps of `talosctl rotate-ca`. Whoever has no key of the old authority gets none of the new one.
fn rotate(section: &mut Map, step: usize, new: &NewAuthority) {
    let entry = |certificate: &str| Value::Map(Map::new().with("crt", certificate));
    let accepted = section.get("acceptedCAs").and_then(Value::as_list).unwrap_or_default();
    let mut accepted: Vec<Value> = accepted.to_vec();
    let own = |key: &str| section.get("ca").and_then(|ca| ca.at(&[key])).and_then(Value::as_text);
    let (old, has_key) =
        (own("crt").unwrap_or_default().to_owned(), own("key").is_some_and(|key| !key.is_empty()));
    let without = |accepted: &mut Vec<Value>, certificate: &str| {
        accepted.retain(|one| one.at(&["crt"]).and_then(Value::as_text) != Some(certificate));
    };
    match step {
        0 => accepted.push(entry(&new.certificate)),
        1 => {
            without(&mut accepted, &new.certificate);
            accepted.push(entry(&old));
            let key = if has_key { new.key.as_str() } else { "" };
            section.set("ca", Map::new().with("crt", new.certificate.as_str()).with("key", key));
        }
        // The old one is the last that was accepted.
        _ => drop(accepted.pop()),
    }
    if accepted.is_empty() {
        section.remove("acceptedCAs");
    } else {
        section.set("acceptedCAs", Value::List(accepted));
    }
}
