//! What goes wrong, and when: a plan that any shell can follow.
//!
//! Rules are asked in the order they were added; the first that is due decides. A rule counts the calls it matches, so
//! "the third POST to a clone" and "the 17th call of all" are said the same way.

use crate::random::Random;

/// A mishap of one call. Times are simulated milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The host answers with this status and these words. Whether it does what was asked all the same is in `happens`.
    Answer { status: u16, text: String, happens: bool },
    /// The call is carried out, and the connection breaks before a byte of the reply.
    LoseReply,
    /// The call is not carried out, and nothing is ever answered.
    Hang,
    /// The call is carried out and answered so much later.
    Slow { by: u64 },
    /// The call is carried out, and the connection breaks after so many bytes of the reply's body.
    CutBody { after: usize },
    /// The call is carried out and answered; then the connection is closed without a word.
    CloseIdle,
    /// The worker the call starts dies so much later and cleans nothing up: a VM it had locked stays locked.
    KillWorker { after: u64 },
    /// The worker the call starts fails so much later with these words, and cleans up behind itself.
    FailWorker { after: u64, text: String },
    /// The contacted host goes down before it looks at the call.
    HostDown,
    /// A host loses power so long after the call: the one the call is about unless another is named. It boots again
    /// `back` later, if it does.
    LoseHost { host: Option<String>, after: u64, back: Option<u64> },
    /// The clocks of all hosts jump, ahead or back, before the call is looked at.
    JumpClock { by: i64 },
    /// Every privileged worker of the host the call is about is busy with something else for so long.
    BusyHost { lasts: u64 },
    /// A backup of the VM the call is about begins before the call is looked at, and locks it for so long.
    Backup { lasts: u64 },
    /// A disk of the VM the call is about takes no more writes before the call is looked at: QEMU halts the guest until it
    /// is told to go on.
    DiskError,
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
        Self::any().by(method).at(path)
    }

    /// Only those of this method.
    #[must_use]
    pub fn by(mut self, method: &str) -> Self {
        self.method = Some(method.to_owned());
        self
    }

    /// Only those of such paths.
    #[must_use]
    pub fn at(mut self, path: &str) -> Self {
        self.path = Some(path.to_owned());
        self
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

/// Which of the matching calls go wrong.
#[derive(Clone, Debug)]
pub struct When {
    /// The first of them, from 1, and how many from there on.
    from: u64,
    times: u64,
    /// Each only with this probability.
    chance: Option<(f64, Random)>,
}

impl When {
    /// The n-th, counted from 1, and no other.
    pub fn nth(nth: u64) -> Self {
        Self { from: nth.max(1), times: 1, chance: None }
    }

    /// Every one.
    pub fn always() -> Self {
        Self { times: u64::MAX, ..Self::nth(1) }
    }

    /// At most so many.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    /// Each with this probability, from 0 to 1; the same seed decides the same way.
    #[must_use]
    pub fn with_chance(mut self, chance: f64, seed: u64) -> Self {
        self.chance = Some((chance, Random::new(seed)));
        self
    }

    fn decides(&mut self) -> bool {
        let Some((chance, random)) = &mut self.chance else { return true };
        // The upper 32 bits are a fraction of one.
        let drawn = u32::try_from(random.next() >> 32).unwrap_or(u32::MAX);
        f64::from(drawn) / f64::from(u32::MAX) < *chance
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
    when: When,
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
    /// Adds a rule, behind those there are.
    pub fn add(&mut self, calls: Calls, when: When, fault: F) {
        self.rules.push(Rule { calls, when, seen: 0, fault });
    }

    /// The n-th matching call from now on, counted from 1, goes wrong.
    pub fn at(&mut self, nth: u64, calls: Calls, fault: F) {
        self.add(calls, When::nth(nth), fault);
    }

    /// The next matching call goes wrong.
    pub fn next(&mut self, calls: Calls, fault: F) {
        self.at(1, calls, fault);
    }

    /// Every matching call goes wrong until [`FaultPlan::clear`].
    pub fn always(&mut self, calls: Calls, fault: F) {
        self.add(calls, When::always(), fault);
    }

    /// Adds the rules of another plan, behind those there are.
    pub fn append(&mut self, other: Self) {
        self.rules.extend(other.rules);
    }

    /// The same plan in a shell's own faults.
    pub fn map<G>(self, change: impl Fn(F) -> G) -> FaultPlan<G> {
        let rules = self.rules.into_iter().map(|Rule { calls, when, seen, fault }| Rule {
            calls,
            when,
            seen,
            fault: change(fault),
        });
        FaultPlan { rules: rules.collect() }
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Nothing goes wrong any more.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
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
            if rule.seen >= rule.when.from && rule.when.times > 0 && rule.when.decides() && due.is_none() {
                rule.when.times -= 1;
                due = Some(rule.fault.clone());
            }
        }
        self.rules.retain(|rule| rule.when.times > 0);
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
    fn a_rate_is_kept_and_the_same_seed_repeats_it() {
        let taken = |seed: u64| -> Vec<bool> {
            let mut plan = FaultPlan::default();
            plan.add(Calls::any(), When::always().with_chance(0.2, seed), Fault::Hang);
            (0..1000).map(|_| plan.take("pve1", "GET", "/version").is_some()).collect()
        };
        let hits = taken(7).iter().filter(|hit| **hit).count();
        assert!((150..=250).contains(&hits), "{hits}");
        assert_eq!(taken(7), taken(7));
        assert_ne!(taken(7), taken(8));
    }

    #[test]
    fn a_rule_may_hold_for_a_few_calls() {
        let mut plan = FaultPlan::default();
        plan.add(Calls::any().by("GET"), When::nth(2).times(2), Fault::Hang);
        let hits: Vec<bool> = (0..5).map(|_| plan.take("pve1", "GET", "/x").is_some()).collect();
        assert_eq!(hits, [false, true, true, false, false]);
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
