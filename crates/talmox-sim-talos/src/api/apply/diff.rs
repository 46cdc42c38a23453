//! What differs between two texts, line by line, as `diff -u` shows it.

use std::fmt::Write as _;

/// Lines around a change.
const CONTEXT: usize = 3;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Edit {
    Keep,
    Remove,
    Add,
}

/// A line: what becomes of it, and its text.
type Line<'a> = (Edit, &'a str);

/// Empty, if nothing differs.
pub(super) fn unified(before: &str, after: &str) -> String {
    let lines = edits(&before.lines().collect::<Vec<_>>(), &after.lines().collect::<Vec<_>>());
    let mut out = String::new();
    let mut at = 0;
    while let Some(change) = (at..lines.len()).find(|index| lines[*index].0 != Edit::Keep) {
        let first = change.saturating_sub(CONTEXT).max(at);
        let last = end_of_hunk(&lines, change);
        if out.is_empty() {
            out.push_str("--- a\n+++ b\n");
        }
        hunk(&lines, first, last, &mut out);
        at = last;
    }
    out
}

/// Changes with few lines between them are shown together.
fn end_of_hunk(lines: &[Line<'_>], change: usize) -> usize {
    let mut last = change;
    for (index, (edit, _)) in lines.iter().enumerate().skip(change) {
        if *edit != Edit::Keep {
            last = index;
        } else if index - last > 2 * CONTEXT {
            break;
        }
    }
    (last + 1 + CONTEXT).min(lines.len())
}

fn hunk(lines: &[Line<'_>], first: usize, last: usize, out: &mut String) {
    let count = |range: &[Line<'_>], not: Edit| range.iter().filter(|(edit, _)| *edit != not).count();
    let start = |not: Edit| {
        let before = count(&lines[..first], not);
        let size = count(&lines[first..last], not);
        (if size == 0 { before } else { before + 1 }, size)
    };
    let range =
        |(start, size): (usize, usize)| if size == 1 { start.to_string() } else { format!("{start},{size}") };
    // Writing into a text cannot fail.
    let _ = writeln!(out, "@@ -{} +{} @@", range(start(Edit::Add)), range(start(Edit::Remove)));
    for (edit, text) in &lines[first..last] {
        let sign = match edit {
            Edit::Keep => ' ',
            Edit::Remove => '-',
            Edit::Add => '+',
        };
        let _ = writeln!(out, "{sign}{text}");
    }
}

/// The shortest way from one to the other; removals come first.
fn edits<'a>(before: &[&'a str], after: &[&'a str]) -> Vec<Line<'a>> {
    let same_start = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (head, before, after) = (&before[..same_start], &before[same_start..], &after[same_start..]);
    let width = after.len() + 1;
    // How many lines the rests have in common.
    let mut common = vec![0_u32; (before.len() + 1) * width];
    for i in (0..before.len()).rev() {
        for j in (0..after.len()).rev() {
            common[i * width + j] = if before[i] == after[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let mut lines: Vec<Line<'a>> = head.iter().map(|line| (Edit::Keep, *line)).collect();
    let (mut i, mut j) = (0, 0);
    while i < before.len() || j < after.len() {
        if i < before.len() && j < after.len() && before[i] == after[j] {
            lines.push((Edit::Keep, before[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == after.len()
            || i < before.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]
        {
            lines.push((Edit::Remove, before[i]));
            i += 1;
        } else {
            lines.push((Edit::Add, after[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_differs() {
        assert_eq!(unified("a\nb\n", "a\nb\n"), "");
    }

    #[test]
    fn a_text_out_of_nothing() {
        assert_eq!(unified("", "a\nb\n"), "--- a\n+++ b\n@@ -0,0 +1,2 @@\n+a\n+b\n");
    }

    #[test]
    fn changes_far_apart_have_hunks_of_their_own() {
        let before = "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n";
        let after = "x\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";
        let expected =
            "--- a\n+++ b\n@@ -1,4 +1,4 @@\n-0\n+x\n 1\n 2\n 3\n@@ -9,4 +9,3 @@\n 8\n 9\n 10\n-11\n";
        assert_eq!(unified(before, after), expected);
    }

    #[test]
    fn changes_close_to_each_other_share_one() {
        let shown = unified("a\n1\n2\n3\n4\n5\n6\nb\n", "x\n1\n2\n3\n4\n5\n6\ny\n");
        assert_eq!(shown.matches("@@ -").count(), 1, "{shown}");
    }
}
