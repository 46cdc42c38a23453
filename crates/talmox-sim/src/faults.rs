//! What goes wrong, and when: a plan that any shell can follow.
//!
//! Rules are asked in the order they were added; the first that is due decides. A rule counts the calls it matches, so
//! "the third POST to a clone" and "the 17th call of all" are said the same way.

/// A mishap of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The call is carried out, and the connection breaks before a byte of the reply.
    LoseReply,
    /// The call is not carried out, and nothing is ever answered.
    Hang,
    /// The call is carried out, and the connection breaks after so many bytes of the reply's body.
    CutBody { after: usize },
    /// The call is carried out and answered; then the connection is closed without a word.
    CloseIdle,
    /// The worker the call starts dies so many simulated milliseconds later and cleans nothing up: a VM it had locked
    /// stays locked.
    KillWorker { after: u64 },
    /// The contacted host goes down before it looks at the call.
    HostDown,
}

/// Which calls a rule is about; what is not said matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    method: Option<String>,
    path: Option<String>,
    host: Option<String>,
}

impl Calls {
    /// Every call.
    pub fn any() -> Self {
        Self::default()
    }

    /// Calls of a method, and of a path without `/api2/json`; `*` in the path stands for any text.
    pub fn to(method: &str, path: &str) -> Self {
        Self { method: Some(method.to_owned()), path: Some(path.to_owned()), host: None }
    }

    /// Only those that contact this host.
    #[must_use]
    pub fn via(mut self, host: &str) -> Self {
        self.host = Some(host.to_owned());
        self
    }

    fn matches(&self, host: &str, method: &str, path: &str) -> bool {
        let path = path.strip_prefix("/api2/json").unwrap_or(path);
        self.method.as_ref().is_none_or(|wanted| wanted == method)
            && self.host.as_ref().is_none_or(|wanted| wanted == host)
            && self.path.as_ref().is_none_or(|pattern| matches_pattern(pattern, path))
    }
}

/// Whether a text fits a pattern in which `*` stands for any text.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(between) = last.replace(part) {
            let Some(at) = rest.find(between) else { return false };
            rest = &rest[at + between.len()..];
        }
    }
    last.map_or(rest.is_empty(), |end| rest.ends_with(end))
}

#[derive(Clone, Debug)]
struct Rule<F> {
    calls: Calls,
    /// The first matching call that goes wrong, from 1, and how many do.
    from: u64,
    times: u64,
    seen: u64,
    fault: F,
}

/// What shall go wrong. A shell may have faults of its own.
#[derive(Clone, Debug)]
pub struct FaultPlan<F = Fault> {
    rules: Vec<Rule<F>>,
}

impl<F> Default for FaultPlan<F> {
    fn default() -> Self {
        Self { rules: Vec::new() }
    }
}

impl<F: Clone> FaultPlan<F> {
    /// The n-th matching call from now on, counted from 1, goes wrong.
    pub fn at(&mut self, nth: u64, calls: Calls, fault: F) {
        self.rules.push(Rule { calls, from: nth.max(1), times: 1, seen: 0, fault });
    }

    /// The next matching call goes wrong.
    pub fn next(&mut self, calls: Calls, fault: F) {
        self.at(1, calls, fault);
    }

    /// Every matching call goes wrong until [`FaultPlan::clear`].
    pub fn always(&mut self, calls: Calls, fault: F) {
        self.rules.push(Rule { calls, from: 1, times: u64::MAX, seen: 0, fault });
    }

    /// Nothing goes wrong any more.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// Whether every single fault has happened.
    pub fn is_spent(&self) -> bool {
        self.rules.is_empty()
    }

    /// What goes wrong with this call. Every rule counts it, one of them decides.
    pub fn take(&mut self, host: &str, method: &str, path: &str) -> Option<F> {
        let mut due = None;
        for rule in self.rules.iter_mut().filter(|rule| rule.calls.matches(host, method, path)) {
            rule.seen += 1;
            if rule.seen >= rule.from && rule.times > 0 && due.is_none() {
                rule.times -= 1;
                due = Some(rule.fault.clone());
            }
        }
        self.rules.retain(|rule| rule.times > 0);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_paths() {
        for (pattern, path, fits) in [
            ("/version", "/version", true),
            ("/version", "/versions", false),
            ("/nodes/*/qemu", "/nodes/pve1/qemu", true),
            ("/nodes/*/qemu", "/nodes/pve1/qemu/100", false),
            ("/nodes/*/qemu/*/clone", "/nodes/pve1/qemu/100/clone", true),
            ("*/clone", "/nodes/pve1/qemu/100/clone", true),
            ("/nodes*", "/nodes", true),
            ("*", "/", true),
            ("/a*a", "/a", false),
        ] {
            assert_eq!(matches_pattern(pattern, path), fits, "{pattern} {path}");
        }
    }

    #[test]
    fn a_rule_counts_only_what_it_matches() {
        let mut plan = FaultPlan::default();
        plan.at(2, Calls::to("POST", "/nodes/*/qemu"), Fault::LoseReply);
        plan.at(3, Calls::any().via("pve2"), Fault::Hang);
        let (post, get) = (("POST", "/api2/json/nodes/pve1/qemu"), ("GET", "/api2/json/version"));
        let mut take = |host: &str, (method, path): (&str, &str)| plan.take(host, method, path);
        let taken: Vec<Option<Fault>> =
            [get, post, get, post, post].into_iter().map(|call| take("pve1", call)).collect();
        assert_eq!(taken, [None, None, None, Some(Fault::LoseReply), None]);
        assert_eq!([(); 4].map(|()| take("pve2", get)), [None, None, Some(Fault::Hang), None]);
        assert!(plan.is_spent());
    }

    #[test]
    fn two_rules_for_one_call_happen_one_after_the_other() {
        let mut plan = FaultPlan::default();
        plan.next(Calls::any(), Fault::Hang);
        plan.next(Calls::any(), Fault::LoseReply);
        assert_eq!(plan.take("pve1", "GET", "/version"), Some(Fault::Hang));
        assert_eq!(plan.take("pve1", "GET", "/version"), Some(Fault::LoseReply));
    }
}
