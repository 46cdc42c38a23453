//! `.sops.yaml`: which recipients a new file gets, and what of it is encrypted.

use regex_lite::Regex;
use talmox_yaml::{Node, NodeKind};

use crate::age::Recipient;
use crate::sops::{Rule, Selection};

/// The rules of a `.sops.yaml`.
#[derive(Clone, Debug)]
pub struct CreationRules {
    rules: Vec<CreationRule>,
}

#[derive(Clone, Debug)]
struct CreationRule {
    path: Option<Regex>,
    /// Public keys of age as written.
    age: Vec<String>,
    /// Other kinds of keys it asks for.
    others: Vec<String>,
    groups: usize,
    selection: Selection,
    mac_only_encrypted: bool,
}

/// Why a `.sops.yaml` gives no rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    #[error(".sops.yaml is no YAML")]
    Yaml,
    #[error(".sops.yaml: creation_rules[{rule}].{key}: {message}")]
    Rule { rule: usize, key: String, message: String },
    #[error(".sops.yaml has no rule for {0}")]
    NoMatch(String),
    #[error(".sops.yaml asks for {} for {file}, and only age can be written here", .kinds.join(", "))]
    OtherKinds { file: String, kinds: Vec<String> },
    #[error(".sops.yaml names no age recipient for {0}")]
    NoRecipient(String),
}

const OTHER_KINDS: [&str; 6] = ["kms", "pgp", "gcp_kms", "hckms", "azure_keyvault", "hc_vault_transit_uri"];
const GROUP_KINDS: [&str; 6] = ["kms", "pgp", "gcp_kms", "hckms", "azure_keyvault", "hc_vault"];

impl CreationRules {
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        let parsed = talmox_yaml::parse(text);
        if !parsed.faults.is_empty() {
            return Err(RulesError::Yaml);
        }
        let rules = parsed.documents.first().and_then(|root| get(root, "creation_rules"));
        let rules = match rules.map(|node| &node.kind) {
            Some(NodeKind::Sequence(items)) => {
                items.iter().enumerate().map(|(at, item)| read(at, item)).collect()
            }
            Some(NodeKind::Mapping(_) | NodeKind::Scalar(_)) | None => Ok(Vec::new()),
        };
        Ok(Self { rules: rules? })
    }

    /// Whether it says anything of new files.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule of a file, whose path is relative to the `.sops.yaml`: the first that fits.
    pub fn choose(&self, path: &str) -> Result<Rule, RulesError> {
        let fits = |rule: &&CreationRule| rule.path.as_ref().is_none_or(|pattern| pattern.is_match(path));
        let rule = self.rules.iter().find(fits).ok_or_else(|| RulesError::NoMatch(path.to_owned()))?;
        let mut kinds = rule.others.clone();
        if rule.groups > 1 {
            kinds.push("several key groups".to_owned());
        }
        let mut recipients: Vec<Recipient> = Vec::new();
        for text in &rule.age {
            match text.parse::<Recipient>() {
                Ok(recipient) if recipients.contains(&recipient) => {}
                Ok(recipient) => recipients.push(recipient),
                Err(error) => kinds.push(error.to_string()),
            }
        }
        if !kinds.is_empty() {
            return Err(RulesError::OtherKinds { file: path.to_owned(), kinds });
        }
        if recipients.is_empty() {
            return Err(RulesError::NoRecipient(path.to_owned()));
        }
        let (selection, mac_only_encrypted) = (rule.selection.clone(), rule.mac_only_encrypted);
        Ok(Rule { recipients, selection, mac_only_encrypted })
    }
}

fn get<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    let NodeKind::Mapping(entries) = &node.kind else { return None };
    let entry =
        entries.iter().find(|entry| entry.key.as_scalar().is_some_and(|scalar| scalar.text == key))?;
    (!entry.value.is_null()).then_some(&entry.value)
}

fn text<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    get(node, key)
        .and_then(Node::as_scalar)
        .map(|scalar| scalar.text.as_str())
        .filter(|text| !text.is_empty())
}

/// A list, or a text with commas.
fn list(node: Option<&Node>) -> Vec<String> {
    let texts: Vec<&str> = match node.map(|node| &node.kind) {
        Some(NodeKind::Sequence(items)) => {
            items.iter().filter_map(Node::as_scalar).map(|scalar| scalar.text.as_str()).collect()
        }
        Some(NodeKind::Scalar(scalar)) => vec![scalar.text.as_str()],
        Some(NodeKind::Mapping(_)) | None => Vec::new(),
    };
    let parts = texts.into_iter().flat_map(|text| text.split(','));
    parts.map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

fn is_given(node: &Node, key: &str) -> bool {
    get(node, key).is_some_and(|value| match &value.kind {
        NodeKind::Sequence(items) => !items.is_empty(),
        NodeKind::Mapping(entries) => !entries.is_empty(),
        NodeKind::Scalar(scalar) => !scalar.text.is_empty(),
    })
}

fn read(rule: usize, node: &Node) -> Result<CreationRule, RulesError> {
    let wrong = |key: &str, message: String| RulesError::Rule { rule, key: key.to_owned(), message };
    let path = text(node, "path_regex")
        .map(|pattern| Regex::new(pattern).map_err(|error| wrong("path_regex", error.to_string())))
        .transpose()?;
    let mut selection = None;
    for name in Selection::NAMES {
        let Some(pattern) = text(node, name) else { continue };
        if selection.is_some() {
            return Err(wrong(name, "a rule has one of these, and this one has several".to_owned()));
        }
        selection = Selection::of(name, pattern).map_err(|error| wrong(name, error.to_string()))?;
    }
    let groups = match get(node, "key_groups").map(|node| &node.kind) {
        Some(NodeKind::Sequence(groups)) => groups.as_slice(),
        Some(NodeKind::Mapping(_) | NodeKind::Scalar(_)) | None => &[],
    };
    let (mut age, mut others) = (Vec::new(), Vec::new());
    if groups.is_empty() {
        age = list(get(node, "age"));
        others.extend(OTHER_KINDS.into_iter().filter(|kind| is_given(node, kind)).map(str::to_owned));
    } else {
        for group in groups {
            gather(group, &mut age, &mut others);
        }
    }
    Ok(CreationRule {
        path,
        age,
        others,
        groups: groups.len(),
        selection: selection.unwrap_or_default(),
        mac_only_encrypted: text(node, "mac_only_encrypted") == Some("true"),
    })
}

/// The keys of a group and of those it takes in.
fn gather(group: &Node, age: &mut Vec<String>, others: &mut Vec<String>) {
    if let Some(NodeKind::Sequence(merged)) = get(group, "merge").map(|node| &node.kind) {
        for group in merged {
            gather(group, age, others);
        }
    }
    age.extend(list(get(group, "age")));
    others.extend(GROUP_KINDS.into_iter().filter(|kind| is_given(group, kind)).map(str::to_owned));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SystemRandom;
    use crate::age::Identity;

    fn recipient() -> String {
        Identity::generate(&mut SystemRandom).unwrap().recipient().to_string()
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let (a, b, c) = (recipient(), recipient(), recipient());
        let text = format!(
            "keys: [&me {a}]\ncreation_rules:\n  - path_regex: talos/.*\\.sops\\.ya?ml$\n    encrypted_regex: ^(secret|key)$\n    \
             mac_only_encrypted: true\n    age: '{b}, {c},'\n  - key_groups:\n      - age: [*me, {a}]\n"
        );
        let rules = CreationRules::parse(&text).unwrap();
        let rule = rules.choose("talos/secrets.sops.yaml").unwrap();
        assert_eq!(rule.recipients.iter().map(ToString::to_string).collect::<Vec<_>>(), [b, c]);
        assert!(rule.mac_only_encrypted && matches!(rule.selection, Selection::EncryptedRegex(_)));
        let rule = rules.choose("secrets.sops.yaml").unwrap();
        assert_eq!(rule.recipients.iter().map(ToString::to_string).collect::<Vec<_>>(), [a]);
        assert!(matches!(rule.selection, Selection::UnencryptedSuffix(suffix) if suffix == "_unencrypted"));
    }

    #[test]
    fn what_cannot_be_written_is_told() {
        let a = recipient();
        let of = |text: &str| CreationRules::parse(text).unwrap().choose("x.yaml").map(|_| ()).unwrap_err();
        assert!(matches!(of("creation_rules:\n- path_regex: ^z\n"), RulesError::NoMatch(_)));
        assert!(matches!(of("creation_rules:\n- age: ''\n"), RulesError::NoRecipient(_)));
        let both = format!("creation_rules:\n- age: {a}\n  pgp: ABC\n");
        assert!(matches!(of(&both), RulesError::OtherKinds { kinds, .. } if kinds == ["pgp"]));
        let groups = format!("creation_rules:\n- key_groups:\n  - age: [{a}]\n  - pgp: [ABC]\n");
        assert!(matches!(of(&groups), RulesError::OtherKinds { .. }));
        let two = "creation_rules:\n- encrypted_regex: a\n  unencrypted_regex: b\n";
        assert!(matches!(CreationRules::parse(two), Err(RulesError::Rule { rule: 0, .. })));
        assert!(CreationRules::parse("stores: {}\n").unwrap().is_empty());
    }
}
