//! Where schema and simulator differ for a reason.

use super::generate::Case;
use super::oracle::Errors;
use super::schema::Endpoint;
use super::send::Verdict;

struct Reason {
    why: &'static str,
    holds: fn(&Endpoint, &Case, &Errors, &Verdict) -> bool,
}

const TABLE: &[Reason] = &[];

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
