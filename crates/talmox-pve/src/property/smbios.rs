//! What the guest reads as its hardware's identity.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::property::macros::property_text;
use crate::property::{Grammar, PropertyError, PropertyString, PropertyValue};

/// `smbios1`, with its texts decoded.
///
/// Proxmox takes only letters of the base64 alphabet, so every text is printed encoded with `base64=1`; a value that
/// was given plain means the same and compares equal.
#[derive(Clone, Debug, Default)]
pub struct Smbios {
    pub uuid: Option<String>,
    pub manufacturer: Option<String>,
    pub product: Option<String>,
    pub version: Option<String>,
    pub serial: Option<String>,
    pub sku: Option<String>,
    pub family: Option<String>,
    /// Options this crate does not know, as they were given.
    pub other: BTreeMap<String, String>,
}

impl Smbios {
    const GRAMMAR: Grammar = Grammar::new("an SMBIOS identity");

    pub fn parse(text: &str) -> Result<Self, PropertyError> {
        let options = PropertyString::parse(text, &Self::GRAMMAR)?;
        Self::from_options(options).map_err(|problem| PropertyError::new(Self::GRAMMAR.what, text, problem))
    }

    fn from_options(mut options: PropertyString) -> Result<Self, String> {
        let encoded = options.remove("base64").map_or(Ok(false), |text| bool::read(&text))?;
        if encoded {
            let given = || TEXTS.iter().filter_map(|key| Some((*key, options.get(key)?)));
            if let Some((key, value)) = given().find(|(_, value)| !is_base64_alphabet(value)) {
                return Err(format!("{key}: `{value}` is not base64"));
            }
            // Proxmox looks at the alphabet alone, so a VM may hold what encodes nothing; then all of it stays as it is.
            if given().any(|(_, value)| decode(value).is_none()) {
                options.insert("base64", "1");
                return Ok(Self {
                    uuid: options.remove("uuid"),
                    other: options.into_options(),
                    ..Self::default()
                });
            }
        }
        let mut text = |key: &str| {
            let value = options.remove(key)?;
            if encoded { decode(&value) } else { Some(value) }
        };
        Ok(Self {
            manufacturer: text("manufacturer"),
            product: text("product"),
            version: text("version"),
            serial: text("serial"),
            sku: text("sku"),
            family: text("family"),
            uuid: options.remove("uuid"),
            other: options.into_options(),
        })
    }

    /// The texts there are. An empty one has no encoding Proxmox would take, and means the same as none.
    fn texts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let Self { uuid: _, manufacturer, product, version, serial, sku, family, other: _ } = self;
        let texts = [
            ("manufacturer", manufacturer),
            ("product", product),
            ("version", version),
            ("serial", serial),
            ("sku", sku),
            ("family", family),
        ];
        texts
            .into_iter()
            .filter_map(|(key, text)| Some((key, text.as_deref().filter(|text| !text.is_empty())?)))
    }

    fn print(&self) -> String {
        let mut options = PropertyString::from(self.other.clone());
        for (key, text) in self.texts() {
            options.insert(key, STANDARD.encode(text));
            options.insert("base64", "1");
        }
        if let Some(uuid) = &self.uuid {
            options.insert("uuid", uuid.to_ascii_lowercase());
        }
        options.print(&Self::GRAMMAR)
    }
}

/// Equal in meaning: the case of the uuid and empty texts do not matter.
impl PartialEq for Smbios {
    fn eq(&self, other: &Self) -> bool {
        let uuid = |smbios: &Self| smbios.uuid.as_deref().map(str::to_ascii_lowercase);
        uuid(self) == uuid(other) && self.texts().eq(other.texts()) && self.other == other.other
    }
}

impl Eq for Smbios {}

const TEXTS: [&str; 6] = ["manufacturer", "product", "version", "serial", "sku", "family"];

fn decode(value: &str) -> Option<String> {
    STANDARD.decode(value).ok().and_then(|bytes| String::from_utf8(bytes).ok())
}

fn is_base64_alphabet(value: &str) -> bool {
    let rest = value.trim_end_matches('=');
    value.len() - rest.len() <= 2
        && !rest.is_empty()
        && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"+/".contains(&b))
}

property_text!(Smbios, Smbios::print);

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "00b91e88-323e-484a-9dcd-82d6c72d692c";

    #[test]
    fn texts_are_encoded_and_decoded() {
        let smbios = Smbios {
            uuid: Some(UUID.to_owned()),
            serial: Some("h=cp-1;i=2001".to_owned()),
            ..Smbios::default()
        };
        let text = format!("base64=1,serial=aD1jcC0xO2k9MjAwMQ==,uuid={UUID}");
        assert_eq!(smbios.to_string(), text);
        assert_eq!(Smbios::parse(&text).unwrap(), smbios);
    }

    #[test]
    fn plain_and_encoded_are_the_same() {
        let plain = Smbios::parse(&format!("uuid={},product=KVM", UUID.to_uppercase())).unwrap();
        assert_eq!(plain, Smbios::parse(&format!("product=S1ZN,base64=on,uuid={UUID}")).unwrap());
        assert!(Smbios::parse("base64=1,serial=?").is_err());
        for raw in ["base64=1,product=KVM", "base64=1,serial=/w==,uuid=00b91e88-323e-484a-9dcd-82d6c72d692c"]
        {
            assert_eq!(Smbios::parse(raw).unwrap().to_string(), raw, "what encodes no text survives");
        }
        let empty = Smbios { serial: Some(String::new()), ..Smbios::default() };
        assert_eq!(empty, Smbios::default());
    }
}
