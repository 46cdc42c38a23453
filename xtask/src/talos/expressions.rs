//! Expressions with one word made another: what we say of them, and what Talos' own library says.

use talmox_machine::sample::Sampler;

/// A field that holds an expression: the release that brought it, its document, and expressions it takes.
struct Place {
    since: u16,
    /// What stands before and after the expression.
    document: (&'static str, &'static str),
    valid: &'static [&'static str],
    /// What may take the place of a word besides [`WORDS`].
    words: &'static [&'static str],
}

const PLACES: [Place; 6] = [
    Place {
        since: 11,
        document: (
            "kind: UserVolumeConfig\nname: drawn\nprovisioning:\n  maxSize: 5GiB\n  diskSelector:\n    match: ",
            "",
        ),
        valid: &[
            "!system_disk && disk.transport == \"nvme\"",
            "disk.size > 10u * GiB && disk.size < 1u * TB",
            "glob(\"00:*\", disk.serial) || disk.model in [\"a\", r\"b\", \"c\"]",
            "disk.symlinks.exists(link, link.startsWith(\"/dev/disk\")) ? true : disk.rotational",
            "has(disk.wwid) && size(disk.serial) > 3 && disk.symlinks[0] != \"x\"",
            "disk.symlinks.filter(l, l.endsWith(\"x\")).size() == 1 || {\"a\": 1}[\"a\"] == 1",
            "disk.symlinks.map(l, l + \"/\").all(l, l.contains(\"a\")) && !disk.cdrom",
            "type(disk.size) == uint && string(disk.size).matches(\"^1\") && dyn(disk.model) == disk.size",
            "[] == disk.secondary_disks || {} == {\"a\": true} || disk.symlinks + [] == [disk.uuid]",
            "double(disk.size) / 2.0 > 1e9 && int(disk.sector_size) % 512 == 0 && -1 < 2 && disk != null",
            "duration(\"1h\") > duration(\"1m\") && timestamp(\"2020-01-01T00:00:00Z\").getFullYear() > 2000",
            "(disk.readonly ? disk.bus_path : disk.dev_path) < \"z\" && disk.symlinks.exists_one(s, s == \"\")",
        ],
        words: &[
            "disk",
            "system_disk",
            "size",
            "serial",
            "symlinks",
            "rotational",
            "GiB",
            "firmware_version",
            "glob",
        ],
    },
    Place {
        since: 11,
        document: ("kind: ExistingVolumeConfig\nname: drawn\ndiscovery:\n  volumeSelector:\n    match: ", ""),
        valid: &[
            "volume.partition_label == \"MY\" && disk.serial == \"x\"",
            "volume.size >= 1u * GB && volume.partition_index == 1u",
            "volume.name in [\"ext4\", \"xfs\"] && volume.block_size * 2u > 512u",
        ],
        words: &["volume", "disk", "size", "label", "name", "block_size", "system_disk", "volume_id", "glob"],
    },
    Place {
        since: 14,
        document: (
            "kind: LVMVolumeGroupConfig\nname: drawn\nprovisioning:\n  volumeSelector:\n    match: ",
            "",
        ),
        valid: &[
            "volume_id == \"r-data\" && !system_disk",
            "glob(\"r-*\", volume_id) && disk.size > 5u * TiB && volume.offset == 0u",
        ],
        words: &["volume", "disk", "volume_id", "system_disk", "size", "offset"],
    },
    Place {
        since: 12,
        document: ("kind: LinkAliasConfig\nname: net0\nselector:\n  match: ", ""),
        valid: &[
            "glob(\"00:*\", mac(link.hardware_addr)) && link.link_state",
            "link.driver == \"e1000\" && link.speed_megabits > 1000 && link.mtu == 1500u",
            "mac(link.permanent_addr) == \"00:1a:2b:3c:4d:5e\" || link.alt_names.exists(n, n == \"x\")",
            "link.vlan.vid == 5u || link.bond_master.use_carrier || link.bridge_master.stp.enabled",
            "link.wireguard.peers.all(p, p.endpoint != \"\" && p.allowed_ips[0].prefix_length > 8)",
        ],
        words: &[
            "link",
            "driver",
            "mtu",
            "vlan",
            "vid",
            "mac",
            "hardware_addr",
            "veth",
            "vrf_master",
            "kind",
        ],
    },
    Place {
        since: 12,
        document: ("kind: OOMConfig\ntriggerExpression: ", ""),
        valid: &[
            "memory_full_avg10 > 12.0 && time_since_trigger > duration(\"500ms\")",
            "multiply_qos_vectors(d_qos_memory_full_total, {System: 8.0, Podruntime: 4.0}) > 3000.0",
            "qos_memory_current[Besteffort] > 1.0 && d_memory_some_avg60 + 0.5 < 1e3",
            "optional.of(1).hasValue() && [?optional.of(2)].size() == 1",
        ],
        words: &[
            "memory_full_avg10",
            "qos_memory_max",
            "System",
            "time_since_trigger",
            "optional",
            "GiB",
            "of",
        ],
    },
    Place {
        since: 12,
        document: ("kind: OOMConfig\ncgroupRankingExpression: ", ""),
        valid: &[
            "memory_max.hasValue() ? 0.0 : {Besteffort: 1.0, Burstable: 0.5}[class] * double(memory_current.orValue(0u))",
            "path.startsWith(\"/kube\") ? double(memory_peak.orValue(0u) - 1u * MiB) : -1.0",
            "memory_current.optMap(m, double(m) * 2.0).orValue(0.0)",
        ],
        words: &["memory_max", "memory_peak", "path", "class", "orValue", "value", "Burstable", "MiB"],
    },
];

/// What words are replaced by anywhere.
const WORDS: [&str; 40] = [
    "1", "1u", "1.0", "\"x\"", "b\"x\"", "true", "null", "[]", "{}", "[1]", "==", "!=", "<", ">=", "+", "-",
    "*", "/", "%", "in", "&&", "||", "!", "(", ")", "[", "]", ".", "?", ":", ",", "size", "int", "uint",
    "string", "double", "dyn", "type", "exists", "nothing",
];

/// The words of an expression, each with the blanks after it.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = if first == '"' {
            rest[1..].find('"').map_or(rest.len(), |end| end + 2)
        } else if is_word(first) {
            // A point belongs to a number, and to nothing else.
            let number = first.is_ascii_digit();
            rest.find(|c: char| !(is_word(c) || number && c == '.')).unwrap_or(rest.len())
        } else {
            let two = ["==", "!=", "<=", ">=", "&&", "||"].iter().any(|sign| rest.starts_with(sign));
            if two { 2 } else { first.len_utf8() }
        };
        let blanks = rest[length..].len() - rest[length..].trim_start().len();
        words.push(rest[..length + blanks].to_owned());
        rest = &rest[length + blanks..];
    }
    words
}

/// A document with a drawn expression, and what it is.
pub(super) fn draw(sampler: &mut Sampler, minor: u16) -> (String, String) {
    let known: Vec<&Place> = PLACES.iter().filter(|place| place.since <= minor).collect();
    let place = known[sampler.below(known.len())];
    let mut words = words(sampler.one_of(place.valid));
    // One is left as it is now and then: what is valid must be taken.
    for _ in 0..sampler.below(3) {
        let at = sampler.below(words.len());
        let another = match sampler.below(3) {
            0 => sampler.one_of(place.words).to_owned(),
            1 => words[sampler.below(words.len())].clone(),
            _ => sampler.one_of(&WORDS).to_owned(),
        };
        match sampler.below(6) {
            0 => {
                words.remove(at);
            }
            1 => words.insert(at, format!("{another} ")),
            _ => words[at] = format!("{another} "),
        }
        if words.is_empty() {
            break;
        }
    }
    let expression = words.concat();
    let (before, after) = place.document;
    // A text of YAML in single quotes takes everything but these.
    let quoted = expression.replace('\'', "''");
    let kind = before.lines().next().unwrap_or_default().trim_start_matches("kind: ");
    (format!("{before}'{quoted}'\n{after}"), format!("{kind}: {expression}"))
}
