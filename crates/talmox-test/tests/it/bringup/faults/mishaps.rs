//! What can go wrong with a call.

use talmox_sim_talos::{CallFault, Code};

/// Whose API is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    Talos,
    Kubernetes,
}

impl Layer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Talos => "Talos",
            Self::Kubernetes => "Kubernetes",
        }
    }
}

/// A fault under a name for tables.
#[derive(Clone, Debug)]
pub(crate) struct Mishap {
    pub(crate) name: String,
    pub(crate) fault: CallFault,
}

impl Mishap {
    fn new(name: &str, fault: CallFault) -> Self {
        Self { name: name.to_owned(), fault }
    }
}

/// Every fault that is tried at single calls.
pub(crate) fn once(layer: Layer) -> Vec<Mishap> {
    let common = [
        ("refused connection", CallFault::Refuse),
        ("broken connection", CallFault::Break),
        ("lost reply", CallFault::LoseReply),
        ("hang", CallFault::Hang),
        ("hang after success", CallFault::HangAfter),
        ("slow", CallFault::Slow { by: 3_000 }),
        ("too slow", CallFault::Slow { by: 100_000 }),
    ];
    let common = common.into_iter().map(|(name, fault)| Mishap::new(name, fault));
    common.chain(answers(layer)).collect()
}

/// Those that are also tried at every call of a kind, for as long as the run lasts.
pub(crate) fn lasting(layer: Layer) -> Vec<Mishap> {
    let silent = [
        ("refused each time", CallFault::Refuse),
        ("lost reply each time", CallFault::LoseReply),
        ("hang each time", CallFault::Hang),
    ];
    let answers: &[(&str, u16)] = match layer {
        Layer::Talos => &[
            ("Unavailable each time", 14),
            ("PermissionDenied each time", 7),
            ("Internal each time", 13),
            ("FailedPrecondition each time", 9),
        ],
        Layer::Kubernetes => &[("401 each time", 401), ("403 each time", 403), ("500 each time", 500)],
    };
    let answers = answers.iter().map(|(name, code)| Mishap::new(name, answer(*code, false)));
    silent.into_iter().map(|(name, fault)| Mishap::new(name, fault)).chain(answers).collect()
}

/// Nothing of what nodes say here may make a difference but the code.
fn answer(code: u16, happens: bool) -> CallFault {
    CallFault::Answer { code, message: "something is wrong".to_owned(), happens }
}

fn answers(layer: Layer) -> Vec<Mishap> {
    match layer {
        Layer::Talos => {
            let every = (1..=16).map(|code| (code, format!("{:?}", Code::from_number(code)), false));
            let after =
                [13, 14, 4].map(|code| (code, format!("{:?} after success", Code::from_number(code)), true));
            let all = every.chain(after);
            all.map(|(code, name, happens)| Mishap { name, fault: answer(code.into(), happens) }).collect()
        }
        Layer::Kubernetes => {
            let every = [400, 401, 403, 404, 409, 422, 429, 500, 503, 504]
                .map(|code| (code, code.to_string(), false));
            let after = [500, 504].map(|code| (code, format!("{code} after success"), true));
            let all = every.into_iter().chain(after);
            all.map(|(code, name, happens)| Mishap { name, fault: answer(code, happens) }).collect()
        }
    }
}

/// The kinds there are. A new one fails to compile here until it is named, and then the test below until it is tried.
const KINDS: [&str; 7] = ["refuse", "break", "lose reply", "hang", "hang after success", "slow", "answer"];

fn kind(fault: &CallFault) -> &'static str {
    match fault {
        CallFault::Refuse => "refuse",
        CallFault::Break => "break",
        CallFault::LoseReply => "lose reply",
        CallFault::Hang => "hang",
        CallFault::HangAfter => "hang after success",
        CallFault::Slow { .. } => "slow",
        CallFault::Answer { .. } => "answer",
    }
}

#[test]
fn every_kind_of_call_fault_is_tried() {
    for layer in [Layer::Talos, Layer::Kubernetes] {
        let tried: std::collections::BTreeSet<&str> =
            once(layer).iter().map(|one| kind(&one.fault)).collect();
        assert_eq!(tried, KINDS.into());
    }
}
