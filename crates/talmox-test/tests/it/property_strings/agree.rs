//! The judgement over one value.

use talmox_pve::property::{Slot, SlotKind};

use crate::property_strings::client;
use crate::property_strings::server::Server;

/// What both sides made of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    BothTake,
    BothRefuse,
    /// The server refuses what the client passes on.
    ServerIsStricter,
}

/// Reasons by which a server refuses what the client rightly lets pass: options it does not know, and bounds, words and
/// dependencies it leaves to the server.
const STRICTER: [&str; 12] = [
    "property is not defined in schema",
    "does not have a value in the enumeration",
    "value does not match the regex pattern",
    "value must have a m",
    "missing property required by",
    "characters long",
    "value must be an integer between",
    "invalid urlencoded string",
    "is not defined (missing 'custom-' prefix?)",
    "VM-specific CPU flags must be a subset of",
    "no storage ID specified (and no default storage)",
    "unable to parse startup options",
];

/// Options with a number the client passes on unseen.
const UNSEEN: [&str; 2] = [".iops", ".mbps"];

fn is_stricter(reason: &str) -> bool {
    STRICTER.iter().any(|part| reason.contains(part))
        || (reason.contains("type check") && UNSEEN.iter().any(|option| reason.contains(option)))
}

/// Values the server prints itself; everything else it keeps as it was sent.
fn is_printed(key: &str, shown: &str) -> bool {
    key == "tags"
        || (key == "boot" && shown.starts_with("order="))
        || Slot::parse(key).is_ok_and(|slot| slot.holds_volume() || slot.kind() == SlotKind::Net)
}

/// Judges a value for a key. `server` is as before afterwards.
pub(crate) fn judge(server: &Server, key: &str, value: &str) -> Result<Verdict, String> {
    let ours = client::print(key, value).unwrap();
    let theirs = server.clone().set(key, value);
    match (ours, theirs) {
        (Ok(printed), Ok(shown)) => {
            both_take(server, key, value, &printed, &shown).map(|()| Verdict::BothTake)
        }
        (Err(_), Err(_)) => Ok(Verdict::BothRefuse),
        (Err(error), Ok(shown)) => Err(format!("only the client refuses: {error}; shown as {shown}")),
        (Ok(printed), Err(reason)) if is_stricter(&reason) => {
            is_stable(key, value, &printed).map(|()| Verdict::ServerIsStricter)
        }
        (Ok(_), Err(reason)) => Err(format!("only the server refuses: {reason}")),
    }
}

/// Reading what the client printed gives what it printed from.
fn is_stable(key: &str, value: &str, printed: &str) -> Result<(), String> {
    match client::print(key, printed).unwrap() {
        Ok(again) if again == printed && client::same(key, value, printed) => Ok(()),
        again => Err(format!("the client prints {printed}, and of that {again:?}")),
    }
}

fn both_take(server: &Server, key: &str, value: &str, printed: &str, shown: &str) -> Result<(), String> {
    is_stable(key, value, printed)?;
    let again = server.clone().set_after(key, value, shown);
    if again.as_deref() != Ok(shown) {
        return Err(format!("the server shows {shown}, and of that {again:?}"));
    }
    let expected = client::completed(key, printed, shown);
    let ours = client::print(key, shown).unwrap().map_err(|error| format!("shown as {shown}: {error}"))?;
    if !client::same(key, &expected, shown) {
        return Err(format!("shown as {shown}, which means something else than {expected}"));
    }
    if !is_printed(key, shown) {
        return if shown == value { Ok(()) } else { Err(format!("not kept as it was: {shown}")) };
    }
    // The client spells addresses, rates, trunks and the size of an empty drive in one way; the server keeps them.
    if ours != shown && !only_spelling(&ours, shown) {
        return Err(format!("the server prints {shown}, the client {ours}"));
    }
    let sent = server.clone().set(key, printed).map_err(|error| format!("{printed} is refused: {error}"))?;
    if client::completed(key, &sent, shown) == client::completed(key, shown, shown) {
        Ok(())
    } else {
        Err(format!("{printed} is shown as {sent}, {value} as {shown}"))
    }
}

/// Whether two forms have the same options in the same order, apart from letter case and the spelling of numbers.
fn only_spelling(one: &str, other: &str) -> bool {
    let free = ["rate", "trunks", "size"];
    let options = |text: &str| -> Vec<(String, String)> {
        let split = |part: &str| {
            part.split_once('=').map_or((part.to_owned(), String::new()), |(key, value)| {
                let number = value.parse::<u64>().map(|number| number.to_string());
                let value = number.unwrap_or_else(|_| value.to_ascii_uppercase());
                (key.to_owned(), if free.contains(&key) { String::new() } else { value })
            })
        };
        text.split(',').map(split).collect()
    };
    options(one) == options(other)
}
