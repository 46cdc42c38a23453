//! The name that was probably meant.

/// The known name closest to a wrong one, if any comes close. Of names with a slash only the last part is compared: what
/// stands before it is nearly always right, and would make everything alike.
pub fn closest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wrong = base(wrong).to_ascii_lowercase();
    let allowed = (wrong.chars().count() / 3).clamp(1, 4);
    known
        .into_iter()
        .filter_map(|name| {
            let candidate = base(name).to_ascii_lowercase();
            let distance = strsim::damerau_levenshtein(&wrong, &candidate);
            (distance <= allowed || all_words_in(&wrong, &candidate)).then_some((distance, name))
        })
        .min()
        .map(|(_, name)| name)
}

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// `qemu-agent` for `qemu-guest-agent`: a word was left out.
fn all_words_in(wrong: &str, candidate: &str) -> bool {
    wrong.contains('-') && wrong.split('-').all(|word| candidate.split('-').any(|other| other == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_and_missing_words_are_recognised() {
        let known =
            ["siderolabs/qemu-guest-agent", "siderolabs/iscsi-tools", "siderolabs/util-linux-tools", "other"];
        for (wrong, meant) in [
            ("siderolabs/qemu-guest-agnet", Some("siderolabs/qemu-guest-agent")),
            ("qemu-guest-agent", Some("siderolabs/qemu-guest-agent")),
            ("siderolabs/qemu-agent", Some("siderolabs/qemu-guest-agent")),
            ("Siderolabs/ISCSI-tool", Some("siderolabs/iscsi-tools")),
            ("siderolabs/zfs", None),
        ] {
            assert_eq!(closest(wrong, known), meant, "{wrong}");
        }
    }
}
