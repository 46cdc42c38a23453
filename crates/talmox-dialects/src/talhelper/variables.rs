//! `${NAME}` and `${NAME:-default}` in texts.

/// The text with its variables replaced, or the name of one that is not set. An empty one is not set, as for talhelper.
pub(super) fn substitute(text: &str, value: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { break };
        replaced.push_str(&rest[..start]);
        let inside = &rest[start + 2..start + length];
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (inside, None),
        };
        let found = value(name).filter(|text| !text.is_empty()).or(default);
        replaced.push_str(&found.ok_or_else(|| name.to_owned())?);
        rest = &rest[start + length + 1..];
    }
    replaced.push_str(rest);
    Ok(replaced)
}

/// Whether a text has variables in it.
pub(super) fn has_variables(text: &str) -> bool {
    text.contains("${")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_and_missing_ones_are_named() {
        let value = |name: &str| match name {
            "A" => Some("one".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        assert_eq!(substitute("x-${A}-${A}", &value), Ok("x-one-one".to_owned()));
        assert_eq!(substitute("${B:-two} $A ${", &value), Ok("two $A ${".to_owned()));
        assert_eq!(substitute("${EMPTY}", &value), Err("EMPTY".to_owned()));
        assert_eq!(substitute("a${B}", &value), Err("B".to_owned()));
    }
}
