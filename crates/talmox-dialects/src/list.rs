//! Lists, and what people write instead of one.

use talmox_config::read::{At, Reading, Shape, Value};
use talmox_config::{Code, Problem};
use talmox_yaml::{Node, NodeKind};

/// A list of `MIN` to `MAX` elements. One element without a dash is taken for a list of one: documentation shows it that way
/// where a schema would refuse it.
#[derive(Clone, Debug)]
pub struct Listed<T, const MIN: usize, const MAX: usize>(pub Vec<At<T>>);

impl<T, const MIN: usize, const MAX: usize> Listed<T, MIN, MAX> {
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|at| &at.value)
    }
}

impl<T: Value, const MIN: usize, const MAX: usize> Value for Listed<T, MIN, MAX> {
    fn read(node: &Node, reading: &mut Reading<'_>) -> Option<Self> {
        let location = reading.location(node);
        let NodeKind::Sequence(items) = &node.kind else {
            let value = T::read(node, reading)?;
            let write = match node.kind {
                NodeKind::Scalar(_) => format!("write [{}]", value.show()),
                NodeKind::Mapping(_) | NodeKind::Sequence(_) => "put a dash before it".to_owned(),
            };
            reading.report(
                Problem::warning(Code::WrongType, "a list belongs here; this is taken for a list of one")
                    .at(location, "no list")
                    .hint(format!("Kubernetes refuses it like this: {write}")),
            );
            return Some(Self(vec![At { value, location, key: "" }]));
        };
        if !(MIN..=MAX).contains(&items.len()) {
            let problem = if items.len() < MIN {
                Problem::error(Code::OutOfRange, "the list is empty").at(location, "nothing in it")
            } else {
                let count = items.len();
                Problem::error(Code::OutOfRange, format!("{count} elements are too many"))
                    .at(location, format!("{count} elements"))
            };
            reading.report(problem.hint(match (MIN, MAX) {
                (0, most) => format!("at most {most}"),
                (least, usize::MAX) => format!("at least {least}"),
                (least, most) => format!("from {least} to {most}"),
            }));
            return None;
        }
        Vec::read(node, reading).map(Self)
    }

    fn shape() -> Shape {
        Shape::List(Box::new(T::shape()))
    }

    fn show(&self) -> String {
        self.0.show()
    }
}
