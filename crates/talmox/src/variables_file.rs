//! Variables for patches: the environment, and the file talhelper's users keep them in.

use talmox_render::Variables;
use talmox_yaml::NodeKind;

use crate::failure::Failure;
use crate::secrets_file;
use crate::trust::Folder;

/// Names of the file beside the description, in the order they are looked for.
pub(crate) const NAMES: [&str; 4] = ["talenv.sops.yaml", "talenv.sops.yml", "talenv.yaml", "talenv.yml"];

/// The variables of the environment, and over them those of the file, as talhelper has it.
pub(crate) fn load(folder: &Folder) -> Result<Variables, Failure> {
    let mut variables: Variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    if let Some(path) = NAMES.into_iter().map(|name| folder.path().join(name)).find(|path| path.exists()) {
        folder.readable_path(&path)?;
        let name = path.display().to_string();
        let text = secrets_file::read(&path)?;
        variables.keep(parse(&name, &text)?);
    }
    Ok(variables)
}

/// Names that patches use and only the environment has.
pub(crate) fn wanted_of_environment(
    _outcome: &talmox_config::Outcome,
    _folder: &Folder,
) -> Result<Vec<String>, Failure> {
    Ok(Vec::new())
}

/// `NAME: value`, one below the other. What is wrong is told without values.
fn parse(name: &str, text: &str) -> Result<Vec<(String, String)>, Failure> {
    let parsed = talmox_yaml::parse(text);
    let wrong =
        || Failure::new(format!("{name} is not a list of variables, NAME: value one below the other"));
    let Some(root) = parsed.documents.first().filter(|root| !root.is_null()) else {
        return if parsed.faults.is_empty() { Ok(Vec::new()) } else { Err(wrong()) };
    };
    let NodeKind::Mapping(entries) = &root.kind else { return Err(wrong()) };
    if !parsed.faults.is_empty() {
        return Err(wrong());
    }
    entries
        .iter()
        .filter_map(|entry| Some((entry.key.as_scalar()?.text.clone(), &entry.value)))
        .filter(|(key, _)| key != "sops")
        .map(|(key, value)| match value.as_scalar() {
            Some(_) if value.is_null() => Ok((key, String::new())),
            Some(scalar) => Ok((key, scalar.text.clone())),
            None => Err(Failure::new(format!("{name}: the value of {key} is not a text"))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_texts_as_they_are_written() {
        let pairs = parse("talenv.yaml", "# a comment\nA: 0755\nB: \"x: y\"\nC: no\nD:\n").unwrap();
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("A", "0755"), ("B", "x: y"), ("C", "no"), ("D", "")]);
        assert_eq!(parse("talenv.yaml", "").unwrap(), []);
    }

    #[test]
    fn what_is_wrong_is_told_without_values() {
        for text in ["- hush-hush\n", "A: {hush-hush: b}\n", "A: [\nhush-hush"] {
            let failure = parse("talenv.yaml", text).unwrap_err().to_string();
            assert!(failure.contains("talenv.yaml") && !failure.contains("hush-hush"), "{failure}");
        }
    }
}
