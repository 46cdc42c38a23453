//! Where schema and simulator differ for a reason.

use super::generate::Case;
use super::oracle::Errors;
use super::schema::Endpoint;
use super::send::Verdict;

struct Reason {
    why: &'static str,
    holds: fn(&Endpoint, &Case, &Errors, &Verdict) -> bool,
}

const TABLE: &[Reason] = &[Reason {
    why: "the schema takes any text for a CPU model and its flags; the recorded server knows its models (02-parameter-validation)",
    holds: |_, case, expected, verdict| {
        let told = ["Built-in cputype '", "Custom cputype '", "VM-specific CPU flags must be a subset of"];
        let Verdict::Refused(errors) = verdict else { return false };
        let reason = errors.get("cpu").and_then(|reason| reason.strip_prefix("invalid format - "));
        expected.is_empty()
            && errors.len() == 1
            && case.params.contains_key("cpu")
            && reason.is_some_and(|reason| told.iter().any(|words| reason.starts_with(words)))
    },
}];

pub(crate) fn reasons() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|reason| reason.why)
}

/// The reason of a difference, if there is one.
pub(crate) fn why(
    endpoint: &Endpoint,
    case: &Case,
    expected: &Errors,
    verdict: &Verdict,
) -> Option<&'static str> {
    TABLE.iter().find(|reason| (reason.holds)(endpoint, case, expected, verdict)).map(|reason| reason.why)
}
