//! The canonical text of a schematic: the bytes its id is the hash of.
//!
//! The Image Factory hashes what its YAML library prints, so everything here follows that library to the byte: four
//! blanks of indentation, dashes four deeper than their key, no wrapping, text resembling another type in double quotes,
//! other special text in single ones, several lines as a block. The cases in `tests/canonical.rs` were checked against
//! the library itself.

mod json;
mod order;
pub(crate) mod resolve;
mod scalar;

/// A value to be printed.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Text(String),
    List(Vec<Value>),
    /// Printed in this order.
    Map(Vec<(String, Value)>),
}

impl Value {
    /// Puts the keys of this map into the order free-form maps are printed in: numbers inside keys count as numbers.
    pub(crate) fn sorted(mut entries: Vec<(String, Self)>) -> Self {
        entries.sort_by(|(a, _), (b, _)| order::compare(a, b));
        Self::Map(entries)
    }
}

const INDENT: usize = 4;

/// What a value stands in.
#[derive(Clone, Copy)]
enum Inside {
    Map,
    List,
}

/// Prints a document: a map that is never empty.
pub(crate) fn print(document: &[(String, Value)]) -> String {
    let mut writer = Writer { out: String::new(), at_start: true };
    writer.map(document, 0, false);
    writer.break_line();
    writer.out
}

/// Prints a document on one line, as JSON.
pub(crate) fn print_json(document: &[(String, Value)]) -> String {
    let mut out = String::new();
    json::print_map(document, &mut out);
    out
}

struct Writer {
    out: String,
    /// Whether nothing stands on the current line yet.
    at_start: bool,
}

impl Writer {
    fn break_line(&mut self) {
        if !self.at_start {
            self.out.push('\n');
        }
        self.at_start = true;
    }

    fn begin_line(&mut self, indent: usize) {
        self.break_line();
        self.out.extend(std::iter::repeat_n(' ', indent));
        self.at_start = false;
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.at_start = false;
    }

    /// The first entry of a map inside a list stands on the line of its dash.
    fn map(&mut self, entries: &[(String, Value)], indent: usize, on_line: bool) {
        for (index, (key, value)) in entries.iter().enumerate() {
            if index > 0 || !on_line {
                self.begin_line(indent);
            }
            self.at_start = scalar::print(key, indent, &mut self.out);
            self.put(":");
            self.value(value, indent, Inside::Map);
        }
    }

    fn list(&mut self, items: &[Value], indent: usize, on_line: bool) {
        for (index, item) in items.iter().enumerate() {
            if index > 0 || !on_line {
                self.begin_line(indent);
            }
            self.put("-");
            self.value(item, indent, Inside::List);
        }
    }

    fn value(&mut self, value: &Value, indent: usize, inside: Inside) {
        let (deeper, on_line) = match inside {
            Inside::Map => (INDENT * (indent / INDENT + 1), false),
            Inside::List => (indent + 2, true),
        };
        match value {
            Value::Map(entries) if !entries.is_empty() => {
                self.put(if on_line { " " } else { "" });
                self.map(entries, deeper, on_line);
            }
            Value::List(items) if !items.is_empty() => {
                self.put(if on_line { " " } else { "" });
                self.list(items, deeper, on_line);
            }
            Value::Text(text) => {
                self.put(" ");
                self.at_start = scalar::print(text, deeper, &mut self.out);
            }
            Value::Map(_) => self.put(" {}"),
            Value::List(_) => self.put(" []"),
            Value::Null => self.put(" null"),
            Value::Bool(value) => self.put(if *value { " true" } else { " false" }),
            Value::Integer(value) => self.put(&format!(" {value}")),
            Value::Float(value) => self.put(&format!(" {}", float(*value))),
        }
    }
}

/// The shortest digits that mean the same number; an exponent of two digits from a million on and below a ten
/// thousandth.
fn float(value: f64) -> String {
    if value.is_nan() {
        return ".nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { ".inf" } else { "-.inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}
