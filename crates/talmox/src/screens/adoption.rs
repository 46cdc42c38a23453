//! What adoption would do, before it does it.

use talmox_adopt::{Adoption, FileChange, Proposal, Refused};
use talmox_config::without_secrets;

use super::plan_text::{RED, YELLOW};
use super::text::{listed, plural, safe};
use crate::printer::{BOLD, DIM, GREEN};

/// Lines around a change that are shown with it.
const CONTEXT: usize = 2;

/// Everything: who, what is written, what follows, who not and why.
pub(crate) fn adoption_text(proposal: &Proposal, all: bool) -> String {
    let Proposal { adoptions, refused, already, unmatched, files } = proposal;
    let mut text = String::new();
    for adoption in adoptions {
        text.push_str(&tell(adoption));
    }
    for one in already {
        text.push_str(&format!("  {DIM}={DIM:#}   {}  VM {} is this node's already\n", one.node, one.vmid));
    }
    for one in refused {
        text.push_str(&refusal(one));
    }
    if all && !unmatched.is_empty() {
        let names: Vec<String> = unmatched.iter().map(ToString::to_string).collect();
        text.push_str(&format!("  {DIM}–{DIM:#}   no VM was found for {}\n", listed(&names)));
    }
    for file in files {
        text.push('\n');
        text.push_str(&difference(file));
    }
    text.push('\n');
    text.push_str(&sum(proposal));
    text
}

/// What is asked.
pub(crate) fn question(proposal: &Proposal) -> String {
    let vms = plural(proposal.adoptions.len(), "VM");
    match proposal.files.as_slice() {
        [] => format!("Mark {vms}? [y/N] "),
        files => {
            let names: Vec<String> = files.iter().map(|file| safe(&file.name)).collect();
            format!("Write {} and mark {vms}? [y/N] ", listed(&names))
        }
    }
}

pub(super) fn tell(adoption: &Adoption) -> String {
    let matched: Vec<String> = adoption.matched.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "  {GREEN}+{GREEN:#}   {BOLD}{}{BOLD:#}  VM {} on {}, by {}\n",
        adoption.node,
        adoption.vmid,
        adoption.host,
        safe(&matched.join(" and "))
    );
    let mut line = |words: &str| text.push_str(&format!("      {words}\n"));
    if let Some(serial) = &adoption.serial {
        line(&format!("{YELLOW}!{YELLOW:#} its SMBIOS serial {} gives way to talmox's", safe(serial)));
    }
    if !adoption.pending.is_empty() {
        line(&format!(
            "{DIM}described as it will be after its restart: {}{DIM:#}",
            listed(&adoption.pending)
        ));
    }
    for follows in &adoption.follows {
        line(&format!("the next apply, while it runs: {}", safe(follows)));
    }
    for left in &adoption.left_alone {
        line(&format!("{DIM}{}{DIM:#}", safe(left)));
    }
    text
}

pub(super) fn refusal(refused: &Refused) -> String {
    let Refused { node, vmid, problem, hints } = refused;
    let who = match (node, vmid) {
        (Some(node), Some(vmid)) => format!("{node}  VM {vmid}: "),
        (Some(node), None) => format!("{node}  "),
        (None, Some(vmid)) => format!("VM {vmid}: "),
        (None, None) => String::new(),
    };
    let mut text = format!("  {RED}✗{RED:#}   {who}{}\n", safe(problem));
    for hint in hints {
        text.push_str(&format!("      {DIM}{}{DIM:#}\n", safe(hint)));
    }
    text
}

fn sum(proposal: &Proposal) -> String {
    let Proposal { adoptions, refused, .. } = proposal;
    let refused = match refused.len() {
        0 => String::new(),
        number => format!(" {RED}{number} refused.{RED:#}"),
    };
    if adoptions.is_empty() {
        return format!("{BOLD}Nothing to adopt.{BOLD:#}{refused}\n");
    }
    let live = adoptions.iter().filter(|adoption| !adoption.follows.is_empty()).count();
    let after = match live {
        0 => "the next plan is empty".to_owned(),
        live => format!("the next plan changes {} while it runs", plural(live, "VM")),
    };
    format!(
        "{BOLD}Adopt:{BOLD:#} {}. Proven: {after}, and no restart is needed.{refused}\n",
        plural(adoptions.len(), "VM")
    )
}

/// Lines that go and come, with some around them.
fn difference(file: &FileChange) -> String {
    // A line beside a change may hold what nobody should see.
    let (before, after) = (without_secrets(&file.before), without_secrets(&file.after));
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let edits = compare(&old, &new);
    let mut text = format!("{BOLD}{}{BOLD:#}\n", safe(&file.name));
    let near = |index: usize| {
        let from = index.saturating_sub(CONTEXT);
        let to = (index + CONTEXT + 1).min(edits.len());
        edits[from..to].iter().any(|edit| !matches!(edit, Edit::Same(_)))
    };
    let mut gap = false;
    for (index, edit) in edits.iter().enumerate() {
        if !near(index) {
            gap = true;
            continue;
        }
        if std::mem::take(&mut gap) {
            text.push_str(&format!("{DIM}  …{DIM:#}\n"));
        }
        text.push_str(&match edit {
            Edit::Same(line) => format!("    {}\n", safe_line(line)),
            Edit::Gone(line) => format!("  {RED}- {}{RED:#}\n", safe_line(line)),
            Edit::New(line) => format!("  {GREEN}+ {}{GREEN:#}\n", safe_line(line)),
        });
    }
    text
}

/// Blanks at the beginning are the meaning of YAML: only what a terminal would obey is taken out.
fn safe_line(line: &str) -> String {
    line.chars()
        .map(|c| if talmox_types::is_hidden(c) { '·' } else { c })
        .collect::<String>()
        .trim_end_matches('·')
        .to_owned()
}

enum Edit<'t> {
    Same(&'t str),
    Gone(&'t str),
    New(&'t str),
}

/// Edits set and add single lines, so where two texts part they soon meet again: at the nearest pair of equal lines.
fn compare<'t>(old: &[&'t str], new: &[&'t str]) -> Vec<Edit<'t>> {
    let (mut left, mut right) = (0, 0);
    let mut edits = Vec::new();
    while left < old.len() || right < new.len() {
        if left < old.len() && right < new.len() && old[left] == new[right] {
            edits.push(Edit::Same(old[left]));
            (left, right) = (left + 1, right + 1);
            continue;
        }
        let (skip, add) = meeting(&old[left..], &new[right..]);
        edits.extend(old[left..left + skip].iter().map(|line| Edit::Gone(line)));
        edits.extend(new[right..right + add].iter().map(|line| Edit::New(line)));
        (left, right) = (left + skip, right + add);
    }
    edits
}

/// How many lines of each to leave out until they are equal again.
fn meeting(old: &[&str], new: &[&str]) -> (usize, usize) {
    for distance in 1..=old.len() + new.len() {
        for skip in 0..=distance.min(old.len()) {
            let add = distance - skip;
            let both_end = skip == old.len() && add == new.len();
            let meet = matches!((old.get(skip), new.get(add)), (Some(one), Some(other)) if one == other);
            if add <= new.len() && (meet || both_end) {
                return (skip, add);
            }
        }
    }
    (old.len(), new.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_change_are_shown() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let after = "a\nb\nc\nX\nd\ne\nf\ng\nH\n";
        let file =
            FileChange { name: "n.yaml".into(), path: None, before: before.into(), after: after.into() };
        let text = anstream::adapter::strip_str(&difference(&file)).to_string();
        assert_eq!(text, "n.yaml\n  …\n    b\n    c\n  + X\n    d\n    e\n    f\n    g\n  - h\n  + H\n");
    }
}
