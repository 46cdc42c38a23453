//! A data key from the parts of its key groups: Shamir's scheme over bytes, as SOPS splits keys.

use zeroize::Zeroizing;

/// The secret of parts, each with its coordinate as the last byte. None if they do not belong together.
pub(super) fn combine(parts: &[Zeroizing<Vec<u8>>]) -> Option<Zeroizing<Vec<u8>>> {
    let length = parts.first()?.len();
    let coordinates: Vec<u8> = parts.iter().filter_map(|part| part.last().copied()).collect();
    let distinct =
        coordinates.iter().enumerate().all(|(index, x)| *x != 0 && !coordinates[..index].contains(x));
    if parts.len() < 2 || length < 2 || !distinct || parts.iter().any(|part| part.len() != length) {
        return None;
    }
    let secret = (0..length - 1).map(|at| at_zero(&coordinates, parts.iter().map(|part| part[at])));
    Some(Zeroizing::new(secret.collect()))
}

/// Lagrange's polynomial through the points, at zero. Adding and subtracting are the same.
fn at_zero(coordinates: &[u8], values: impl Iterator<Item = u8>) -> u8 {
    values.enumerate().fold(0, |sum, (i, value)| {
        let weight = coordinates
            .iter()
            .enumerate()
            .filter(|(j, _)| *j != i)
            .fold(1, |weight, (_, x)| multiply(weight, multiply(*x, inverse(x ^ coordinates[i]))));
        sum ^ multiply(value, weight)
    })
}

/// In the field of AES.
fn multiply(mut a: u8, mut b: u8) -> u8 {
    let mut product = 0;
    while b != 0 {
        if b & 1 == 1 {
            product ^= a;
        }
        let carry = a & 0x80 != 0;
        a <<= 1;
        if carry {
            a ^= 0x1b;
        }
        b >>= 1;
    }
    product
}

/// The 254th power.
fn inverse(a: u8) -> u8 {
    (0..254).fold(1, |power, _| multiply(power, a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_a_line_meet_at_the_secret() {
        // f(x) = 0x2a + 7x for one byte, 0 + 200x for the other.
        let point = |x: u8| Zeroizing::new(vec![0x2a ^ multiply(7, x), multiply(200, x), x]);
        assert_eq!(*combine(&[point(1), point(2)]).unwrap(), vec![0x2a, 0]);
        assert_eq!(*combine(&[point(3), point(1)]).unwrap(), vec![0x2a, 0]);
        assert!(combine(&[point(1), point(1)]).is_none());
        assert!(combine(&[point(1)]).is_none());
    }
}
