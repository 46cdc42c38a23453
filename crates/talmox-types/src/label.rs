//! Kubernetes labels and annotations.

/// Whether a text can be the key of a label, annotation or taint: `name` or `prefix/name`.
pub fn is_label_key(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let prefix_valid = prefix
        .is_none_or(|prefix| crate::is_dns_name(prefix) && !prefix.bytes().any(|b| b.is_ascii_uppercase()));
    prefix_valid && !name.is_empty() && is_label_value(name)
}

/// Whether a text can be the value of a label or taint. Empty is fine.
pub fn is_label_value(text: &str) -> bool {
    let edge = |byte: Option<u8>| byte.is_none_or(|b| b.is_ascii_alphanumeric());
    text.len() <= 63
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && edge(text.bytes().next())
        && edge(text.bytes().last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values() {
        for good in
            ["a", "node.kubernetes.io/exclude-from-external-load-balancers", "nvidia.com/gpu", "A_b.c"]
        {
            assert!(is_label_key(good), "{good}");
        }
        for bad in ["", "bad key!", "a/b/c", "/a", "a/", "-a", "Upper.io/x", "a..b/c"] {
            assert!(!is_label_key(bad), "{bad}");
        }
        assert!(is_label_value("") && is_label_value("a100"));
        assert!(!is_label_value("v v v") && !is_label_value("-x") && !is_label_value(&"x".repeat(64)));
    }
}
