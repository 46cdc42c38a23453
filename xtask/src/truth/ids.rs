//! Values the server makes up: recorded ones are bound to the simulator's as they appear.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex_lite::Regex;

const TOKENS: &str = concat!(
    r"UPID:[A-Za-z0-9\-]+:[0-9A-F]{8}:[0-9A-F]{8,9}:[0-9A-F]{8}:[^:\s/]+:[^:\s/]*:[^:\s/]+:",
    r"|(?:[0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}",
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    r"|\b[0-9a-f]{40}\b",
    r"|ctime=\d+",
    r"|pveupload-[0-9a-f]{32}",
    r"|\.conf\.tmp\.\d+",
);
static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(TOKENS).ok());

#[derive(Debug, Default)]
pub(crate) struct Ids {
    bound: BTreeMap<String, String>,
    owners: BTreeMap<String, String>,
}

/// Cuts a text into the parts between made-up values and those values.
fn cut(text: &str) -> (Vec<&str>, Vec<&str>) {
    let mut plain = Vec::new();
    let mut made_up = Vec::new();
    let mut at = 0;
    for found in PATTERN.as_ref().into_iter().flat_map(|pattern| pattern.find_iter(text)) {
        plain.push(&text[at..found.start()]);
        made_up.push(found.as_str());
        at = found.end();
    }
    plain.push(&text[at..]);
    (plain, made_up)
}

impl Ids {
    /// Are the texts the same but for made-up values, each of which always stands for the same other one?
    pub(crate) fn same(&mut self, recorded: &str, simulated: &str) -> bool {
        let (plain, made_up) = cut(recorded);
        let (other_plain, other_made_up) = cut(simulated);
        if plain != other_plain || made_up.len() != other_made_up.len() {
            return false;
        }
        made_up.iter().zip(other_made_up).all(|(recorded, simulated)| self.bind(recorded, simulated))
    }

    fn bind(&mut self, recorded: &str, simulated: &str) -> bool {
        if recorded.starts_with("ctime=")
            || recorded.starts_with("pveupload-")
            || recorded.starts_with(".conf.tmp.")
        {
            return true;
        }
        if recorded.starts_with("UPID:") && kept_parts(recorded) != kept_parts(simulated) {
            return false;
        }
        if let Some(known) = self.bound.get(recorded) {
            return known == simulated;
        }
        // A digest may come back with the old content; every other value is made up once.
        let is_digest = recorded.len() == 40 && !recorded.contains(':');
        let taken = self.owners.get(simulated).is_some_and(|owner| owner != recorded);
        if taken && !is_digest {
            return false;
        }
        self.force(recorded, simulated);
        true
    }

    pub(crate) fn force(&mut self, recorded: &str, simulated: &str) {
        self.bound.insert(recorded.to_owned(), simulated.to_owned());
        self.owners.insert(simulated.to_owned(), recorded.to_owned());
    }

    /// Puts the simulator's values in the place of recorded ones.
    pub(crate) fn translate(&self, text: &str) -> String {
        let (plain, made_up) = cut(text);
        let mut out = String::new();
        for (index, part) in plain.iter().enumerate() {
            out.push_str(part);
            if let Some(value) = made_up.get(index) {
                out.push_str(self.bound.get(*value).map_or(*value, String::as_str));
            }
        }
        out
    }

    pub(crate) fn knows(&self, recorded: &str) -> bool {
        self.bound.contains_key(recorded)
    }

    pub(crate) fn get(&self, recorded: &str) -> Option<&str> {
        self.bound.get(recorded).map(String::as_str)
    }
}

/// Host, type, id and owner of a UPID; the rest is time and chance.
fn kept_parts(upid: &str) -> Vec<&str> {
    let parts: Vec<&str> = upid.split(':').collect();
    parts.iter().enumerate().filter(|(index, _)| !(2..=4).contains(index)).map(|(_, part)| *part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_values_are_bound_both_ways() {
        let mut ids = Ids::default();
        assert!(ids.same("virtio=BC:24:11:00:00:01,bridge=a", "virtio=BC:24:11:FF:00:02,bridge=a"));
        assert!(!ids.same("virtio=BC:24:11:00:00:01,bridge=a", "virtio=BC:24:11:FF:00:03,bridge=a"));
        assert!(!ids.same("virtio=BC:24:11:00:00:09,bridge=a", "virtio=BC:24:11:FF:00:02,bridge=a"));
        assert!(!ids.same("virtio,bridge=a", "virtio,bridge=b"));
    }

    #[test]
    fn upids_keep_host_type_id_and_owner() {
        let mut ids = Ids::default();
        let upid =
            |pid: &str, kind: &str| format!("UPID:pve1:{pid}:00027BF7:6AF96AED:{kind}:901:root@pam!full:");
        assert!(!ids.same(&upid("000000EE", "qmcreate"), &upid("000000EF", "qmstart")));
        assert!(ids.same(&upid("000000EE", "qmcreate"), &upid("000000EF", "qmcreate")));
        assert_eq!(
            ids.translate(&format!("x/{}/status", upid("000000EE", "qmcreate"))),
            format!("x/{}/status", upid("000000EF", "qmcreate"))
        );
    }
}
