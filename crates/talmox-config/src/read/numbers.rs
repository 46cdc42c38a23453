//! Whole numbers, and the ways YAML lets people write one they did not mean.

use talmox_yaml::{Node, PlainMeaning, Scalar, Style};

use super::{Reading, Shape, Value};
use crate::problem::{Code, Problem};

/// A whole number in a range, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Int<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Int<MIN, MAX> {
    /// The number as the type its place in the model has; every range used fits its type.
    pub fn to<T: TryFrom<i64>>(self) -> T {
        match T::try_from(self.0) {
            Ok(number) => number,
            Err(_) => unreachable!("{} is within {MIN} and {MAX}, which fit", self.0),
        }
    }
}

impl<const MIN: i64, const MAX: i64> Value for Int<MIN, MAX> {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let Some(scalar) = node.as_scalar() else {
            reading.wrong_type(node, "a number");
            return None;
        };
        in_range(number(node, scalar, reading)?, node, MIN, MAX, reading).map(Self)
    }

    fn shape() -> Shape {
        Shape::Integer { min: MIN, max: MAX }
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// The number a scalar means, or a report of why it means none.
fn number(node: &Node, scalar: &Scalar, reading: &mut Reading<'_>) -> Option<i64> {
    let text = scalar.text.as_str();
    let location = reading.location(node);
    let problem = match scalar.meaning() {
        PlainMeaning::Integer(number) => return Some(number),
        PlainMeaning::OldOctal => {
            let decimal = text.trim_start_matches(['-', '+']).trim_start_matches('0');
            let decimal = if decimal.is_empty() { "0" } else { decimal };
            Problem::error(Code::YamlTrap, format!("{text} is a different number to different YAML readers"))
                .at(location, "octal in YAML 1.1, decimal in 1.2")
                .hint(format!("write {decimal}, without leading zeros"))
        }
        PlainMeaning::OldUnderscore => Problem::error(
            Code::YamlTrap,
            format!("{text} is a number to some YAML readers and text to others"),
        )
        .at(location, "underscores are not part of numbers in YAML 1.2")
        .hint(format!("write {}", text.replace('_', ""))),
        PlainMeaning::OtherBase => {
            Problem::error(Code::YamlTrap, "numbers are written in decimal here").at(location, text)
        }
        PlainMeaning::Float => {
            Problem::error(Code::WrongType, format!("expected a whole number, found {text}"))
                .at(location, "not a whole number")
        }
        PlainMeaning::Bool(_)
        | PlainMeaning::OldBool(_)
        | PlainMeaning::OldSexagesimal
        | PlainMeaning::Null
        | PlainMeaning::Text => {
            let digits = text.trim_start_matches(['-', '+']);
            if scalar.style == Style::Plain
                && !digits.is_empty()
                && digits.bytes().all(|b| b.is_ascii_digit())
            {
                reading.report(
                    Problem::error(Code::OutOfRange, "the number is out of range")
                        .at(location, "far too large"),
                );
                return None;
            }
            let quoted = scalar.style == Style::Quoted && text.parse::<i64>().is_ok();
            let problem = Problem::error(Code::WrongType, "expected a number, found text")
                .at(location, if quoted { "text, because of the quotes" } else { "text" });
            match number_with_unit(text) {
                _ if quoted => problem.hint(format!("write {text} without quotes")),
                Some(hint) => problem.hint(hint),
                None => problem,
            }
        }
    };
    reading.report(problem);
    None
}

/// What somebody who wrote `8GiB` or `100 GB` probably meant.
fn number_with_unit(text: &str) -> Option<String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: i64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim().to_ascii_lowercase();
    let plain = "write the number alone; memory is in MiB, disks are in GiB";
    match unit.as_str() {
        "g" | "gb" | "gi" | "gib" => {
            Some(format!("{plain}: {number} for a disk, {} for memory", number.saturating_mul(1024)))
        }
        "m" | "mb" | "mi" | "mib" => Some(format!("{plain}: {number}")),
        _ => None,
    }
}

fn in_range(number: i64, node: &Node, min: i64, max: i64, reading: &mut Reading<'_>) -> Option<i64> {
    if (min..=max).contains(&number) {
        return Some(number);
    }
    let location = reading.location(node);
    let label = if number < min { format!("at least {min}") } else { format!("at most {max}") };
    reading.report(
        Problem::error(Code::OutOfRange, format!("{number} is out of range"))
            .at(location, label)
            .hint(format!("a number from {min} to {max}")),
    );
    None
}

/// A VLAN tag. The cluster template writes it in quotes and leaves it empty for none, so both are fine here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag(pub Option<u16>);

const MAX_VLAN: i64 = 4094;

impl Value for VlanTag {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let Some(scalar) = node.as_scalar() else {
            reading.wrong_type(node, "a VLAN tag");
            return None;
        };
        if scalar.style == Style::Quoted && scalar.text.is_empty() {
            return Some(Self(None));
        }
        let quoted = (scalar.style == Style::Quoted).then(|| scalar.text.parse().ok()).flatten();
        let tag = match quoted {
            Some(tag) => tag,
            None => number(node, scalar, reading)?,
        };
        let tag = in_range(tag, node, 1, MAX_VLAN, reading)?;
        Some(Self(u16::try_from(tag).ok()))
    }

    fn shape() -> Shape {
        Shape::Either(vec![
            Shape::Integer { min: 1, max: MAX_VLAN },
            Shape::Text { what: "the same in quotes, or \"\" for none", pattern: Some("^[0-9]*$") },
        ])
    }

    fn show(&self) -> String {
        self.0.map_or_else(|| "none".to_owned(), |tag| tag.to_string())
    }
}
