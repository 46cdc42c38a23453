//! What a VM boots from.

use crate::property::macros::property_text;
use crate::property::{Grammar, PropertyError, PropertyString, Slot};

/// `boot`: devices in order, or the letters of old.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Boot {
    /// Devices in the order they are tried. Empty when the last one was removed, which Proxmox shows as a blank.
    Order(Vec<Slot>),
    /// `c` disk, `d` CD, `n` network, `a` floppy; `bootdisk` says which disk.
    Legacy(String),
}

impl Boot {
    const GRAMMAR: Grammar = Grammar::new("a boot order").default_key("legacy");

    pub fn parse(text: &str) -> Result<Self, PropertyError> {
        let mut options = PropertyString::parse(text, &Self::GRAMMAR)?;
        let problem = |problem: String| PropertyError::new(Self::GRAMMAR.what, text, problem);
        let parsed = match (options.remove("order"), options.remove("legacy")) {
            (_, Some(letters)) if !is_legacy(&letters) => {
                return Err(problem(format!(
                    "`{letters}` is neither order=DEVICE;DEVICE nor letters of acdn"
                )));
            }
            // Proxmox takes both and looks at the order alone.
            (Some(order), _) => Self::Order(read_order(&order).map_err(problem)?),
            (None, Some(letters)) => Self::Legacy(letters),
            (None, None) => Self::Order(Vec::new()),
        };
        match options.into_options().into_keys().next() {
            None => Ok(parsed),
            Some(key) => Err(problem(format!("{key} is not known"))),
        }
    }

    fn print(&self) -> String {
        match self {
            Self::Order(devices) if devices.is_empty() => String::new(),
            Self::Order(devices) => {
                let names: Vec<_> = devices.iter().map(ToString::to_string).collect();
                format!("order={}", names.join(";"))
            }
            Self::Legacy(letters) => letters.clone(),
        }
    }
}

fn read_order(text: &str) -> Result<Vec<Slot>, String> {
    let separators = |c: char| c == ';' || c.is_whitespace();
    let names = text.split(separators).filter(|name| !name.is_empty());
    names.map(|name| Slot::parse(name).map_err(|error| error.to_string())).collect()
}

fn is_legacy(letters: &str) -> bool {
    (1..=4).contains(&letters.len()) && letters.bytes().all(|b| b"acdn".contains(&b))
}

property_text!(Boot, Boot::print);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_and_the_blank() {
        for text in ["order=scsi0;ide2;net0", "cdn", "order=scsi9"] {
            assert_eq!(Boot::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Boot::parse("legacy=cdn").unwrap(), Boot::Legacy("cdn".to_owned()));
        assert_eq!(Boot::parse(" ").unwrap(), Boot::Order(Vec::new()));
        assert_eq!(Boot::parse("cdn,order=scsi0").unwrap(), Boot::parse("order=scsi0").unwrap());
        for bad in ["order=foo", "xyz", "xyz,order=scsi0", "order=scsi0,x=1"] {
            assert!(Boot::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn order_matters_here() {
        assert_ne!(Boot::parse("order=scsi0;net0").unwrap(), Boot::parse("order=net0;scsi0").unwrap());
    }
}
