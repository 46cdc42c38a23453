//! The order of keys in free-form maps: by letters, with numbers inside keys compared as numbers. Keys are ASCII: see `parse`.

use std::cmp::Ordering;

pub(super) fn compare(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = a.iter().zip(&b).position(|(a, b)| a != b) else {
        return a.len().cmp(&b.len());
    };
    let (left, right) = (a[at], b[at]);
    match (left.is_ascii_alphabetic(), right.is_ascii_alphabetic()) {
        (true, true) => left.cmp(&right),
        (false, false) => numbers(&a, &b, at).then(left.cmp(&right)),
        (letter, _) => {
            // A letter comes after other characters, but a number that goes on is larger than one that ends.
            let after_digit = at > 0 && a[at - 1].is_ascii_digit();
            if letter == after_digit { Ordering::Less } else { Ordering::Greater }
        }
    }
}

/// Compares the numbers that begin where two keys differ, and of equal ones the shorter notation first.
fn numbers(a: &[char], b: &[char], at: usize) -> Ordering {
    // A zero inside a number counts: it is not a leading one if digits other than zero stand before it.
    let inside = (a[at] == '0' || b[at] == '0')
        && a[..at].iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0');
    let number = |key: &[char]| {
        let digits = key[at..].iter().take_while(|c| c.is_ascii_digit());
        digits.fold((i64::from(inside), 0_usize), |(value, length), digit| {
            let digit = i64::from(u32::from(*digit)) - i64::from(u32::from('0'));
            (value.wrapping_mul(10).wrapping_add(digit), length + 1)
        })
    };
    number(a).cmp(&number(b))
}
