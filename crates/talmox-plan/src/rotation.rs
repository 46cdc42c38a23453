//! How far a cluster is when one of its authorities is replaced, for people.

use talmox_types::{Phase, Realm};

/// How far machines are: `the authority of Talos is being replaced: 2 of 4 machines sign with the new one`. Of those that do
/// not answer nobody knows.
pub fn standing(realm: Realm, phases: &[Phase], silent: usize) -> String {
    let have = |phase: Phase| phases.iter().filter(|has| **has >= phase).count();
    let words = [
        (Phase::Alone, "know the new one only"),
        (Phase::Issuing, "sign with the new one"),
        (Phase::Accepted, "accept the new one"),
    ];
    let far = words.into_iter().find(|(phase, _)| have(*phase) > 0).map_or_else(
        || "no machine knows the new one yet".to_owned(),
        |(phase, does)| format!("{} of {} machines {does}", have(phase), phases.len() + silent),
    );
    let unknown = match silent {
        0 => String::new(),
        1 => ", 1 does not answer".to_owned(),
        many => format!(", {many} do not answer"),
    };
    format!("the authority of {} is being replaced: {far}{unknown}", realm.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_phase_that_is_under_way_is_told() {
        use Phase::{Accepted, Alone, Before, Issuing};
        let told = |phases: &[Phase]| {
            standing(Realm::Talos, phases, 0).split_off("the authority of Talos is being replaced: ".len())
        };
        assert_eq!(told(&[Before; 3]), "no machine knows the new one yet");
        assert_eq!(told(&[Accepted, Before, Before]), "1 of 3 machines accept the new one");
        assert_eq!(told(&[Accepted, Issuing, Issuing]), "2 of 3 machines sign with the new one");
        assert_eq!(told(&[Alone; 3]), "3 of 3 machines know the new one only");
        let away = standing(Realm::Talos, &[Issuing, Accepted], 1);
        assert!(away.ends_with(": 1 of 3 machines sign with the new one, 1 does not answer"), "{away}");
    }
}
