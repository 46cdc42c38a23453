//! Functions and operators, by what they take and give.

use super::objects::Object;
use super::types::{Bindings, Type};

/// A type as tables write it. `A` and `B` are any type, the same one wherever they stand in a line.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Duration,
    Timestamp,
    Dyn,
    A,
    B,
    ListA,
    MapAB,
    OptionalA,
    OptionalB,
    OptionalListA,
    OptionalMapAB,
    TypeA,
    ListText,
    ListOptionalA,
    OptionalUint,
    /// By class of processes.
    MapIntDouble,
    MapDynDouble,
    Nested(&'static Object),
    ListObject(&'static Object),
}

use Shape::{
    A, B, Bool, Bytes, Double, Duration, Dyn, Int, ListA, ListOptionalA, MapAB, MapDynDouble, OptionalA,
    OptionalB, OptionalListA, OptionalMapAB, Text, Timestamp, TypeA, Uint,
};

/// The types `A` and `B` are in one line.
pub(super) struct Open(Type, Type);

impl Open {
    pub(super) fn new(bindings: &mut Bindings) -> Self {
        Self(bindings.open(), bindings.open())
    }
}

impl Shape {
    /// The type of a shape without `A` and `B`.
    pub(super) fn plain(self) -> Type {
        self.with(&Open(Type::Dyn, Type::Dyn))
    }

    fn with(self, open: &Open) -> Type {
        let (a, b) = (|| open.0.clone(), || open.1.clone());
        match self {
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            Self::Text => Type::Text,
            Self::Bytes => Type::Bytes,
            Self::Duration => Type::Duration,
            Self::Timestamp => Type::Timestamp,
            Self::Dyn => Type::Dyn,
            Self::A => a(),
            Self::B => b(),
            Self::ListA => Type::list(a()),
            Self::MapAB => Type::map(a(), b()),
            Self::OptionalA => Type::optional(a()),
            Self::OptionalB => Type::optional(b()),
            Self::OptionalListA => Type::optional(Type::list(a())),
            Self::OptionalMapAB => Type::optional(Type::map(a(), b())),
            Self::TypeA => Type::Type(Box::new(a())),
            Self::ListText => Type::list(Type::Text),
            Self::ListOptionalA => Type::list(Type::optional(a())),
            Self::OptionalUint => Type::optional(Type::Uint),
            Self::MapIntDouble => Type::map(Type::Int, Type::Double),
            Self::MapDynDouble => Type::map(Type::Dyn, Type::Double),
            Self::Nested(object) => Type::Object(object),
            Self::ListObject(object) => Type::list(Type::Object(object)),
        }
    }
}

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// `f(a)`, and operators.
    Plain,
    /// `a.f()`.
    Member,
}

use Call::{Member, Plain};

/// What a line of functions belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    Standard,
    Glob,
    Mac,
    Optional,
    Classes,
}

type Line = (&'static str, Call, &'static [Shape], Shape);

/// Kinds of values that have an order, each among itself alone.
const ORDERED: [Shape; 8] = [Bool, Int, Uint, Double, Text, Bytes, Timestamp, Duration];

const STANDARD: &[Line] = &[
    ("?:", Plain, &[Bool, A, A], A),
    ("!", Plain, &[Bool], Bool),
    ("==", Plain, &[A, A], Bool),
    ("!=", Plain, &[A, A], Bool),
    ("+", Plain, &[Bytes, Bytes], Bytes),
    ("+", Plain, &[Double, Double], Double),
    ("+", Plain, &[Duration, Duration], Duration),
    ("+", Plain, &[Duration, Timestamp], Timestamp),
    ("+", Plain, &[Timestamp, Duration], Timestamp),
    ("+", Plain, &[Int, Int], Int),
    ("+", Plain, &[ListA, ListA], ListA),
    ("+", Plain, &[Text, Text], Text),
    ("+", Plain, &[Uint, Uint], Uint),
    ("-", Plain, &[Double, Double], Double),
    ("-", Plain, &[Duration, Duration], Duration),
    ("-", Plain, &[Int, Int], Int),
    ("-", Plain, &[Timestamp, Duration], Timestamp),
    ("-", Plain, &[Timestamp, Timestamp], Duration),
    ("-", Plain, &[Uint, Uint], Uint),
    ("-", Plain, &[Double], Double),
    ("-", Plain, &[Int], Int),
    ("*", Plain, &[Double, Double], Double),
    ("*", Plain, &[Int, Int], Int),
    ("*", Plain, &[Uint, Uint], Uint),
    ("/", Plain, &[Double, Double], Double),
    ("/", Plain, &[Int, Int], Int),
    ("/", Plain, &[Uint, Uint], Uint),
    ("%", Plain, &[Int, Int], Int),
    ("%", Plain, &[Uint, Uint], Uint),
    ("[]", Plain, &[ListA, Int], A),
    ("[]", Plain, &[MapAB, A], B),
    ("in", Plain, &[A, ListA], Bool),
    ("in", Plain, &[A, MapAB], Bool),
    ("size", Plain, &[Bytes], Int),
    ("size", Member, &[Bytes], Int),
    ("size", Plain, &[ListA], Int),
    ("size", Member, &[ListA], Int),
    ("size", Plain, &[MapAB], Int),
    ("size", Member, &[MapAB], Int),
    ("size", Plain, &[Text], Int),
    ("size", Member, &[Text], Int),
    ("type", Plain, &[A], TypeA),
    ("bool", Plain, &[Bool], Bool),
    ("bool", Plain, &[Text], Bool),
    ("bytes", Plain, &[Bytes], Bytes),
    ("bytes", Plain, &[Text], Bytes),
    ("double", Plain, &[Double], Double),
    ("double", Plain, &[Int], Double),
    ("double", Plain, &[Text], Double),
    ("double", Plain, &[Uint], Double),
    ("duration", Plain, &[Duration], Duration),
    ("duration", Plain, &[Int], Duration),
    ("duration", Plain, &[Text], Duration),
    ("dyn", Plain, &[A], Dyn),
    ("int", Plain, &[Int], Int),
    ("int", Plain, &[Double], Int),
    ("int", Plain, &[Duration], Int),
    ("int", Plain, &[Text], Int),
    ("int", Plain, &[Timestamp], Int),
    ("int", Plain, &[Uint], Int),
    ("string", Plain, &[Text], Text),
    ("string", Plain, &[Bool], Text),
    ("string", Plain, &[Bytes], Text),
    ("string", Plain, &[Double], Text),
    ("string", Plain, &[Duration], Text),
    ("string", Plain, &[Int], Text),
    ("string", Plain, &[Timestamp], Text),
    ("string", Plain, &[Uint], Text),
    ("timestamp", Plain, &[Timestamp], Timestamp),
    ("timestamp", Plain, &[Int], Timestamp),
    ("timestamp", Plain, &[Text], Timestamp),
    ("uint", Plain, &[Uint], Uint),
    ("uint", Plain, &[Double], Uint),
    ("uint", Plain, &[Int], Uint),
    ("uint", Plain, &[Text], Uint),
    ("contains", Member, &[Text, Text], Bool),
    ("endsWith", Member, &[Text, Text], Bool),
    ("startsWith", Member, &[Text, Text], Bool),
    ("matches", Plain, &[Text, Text], Bool),
    ("matches", Member, &[Text, Text], Bool),
    ("getHours", Member, &[Duration], Int),
    ("getMinutes", Member, &[Duration], Int),
    ("getSeconds", Member, &[Duration], Int),
    ("getMilliseconds", Member, &[Duration], Int),
];

/// Parts of a moment, with or without a time zone.
const PARTS_OF_A_MOMENT: [&str; 10] = [
    "getFullYear",
    "getMonth",
    "getDayOfYear",
    "getDayOfMonth",
    "getDate",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
];

const GLOB: &[Line] = &[("glob", Plain, &[Text, Text], Bool)];
const MAC: &[Line] = &[("mac", Plain, &[Bytes], Text)];
const CLASSES: &[Line] = &[("multiply_qos_vectors", Plain, &[MapDynDouble, MapDynDouble], Double)];
const OPTIONAL: &[Line] = &[
    ("optional.of", Plain, &[A], OptionalA),
    ("optional.ofNonZeroValue", Plain, &[A], OptionalA),
    ("optional.none", Plain, &[], OptionalA),
    ("optional.unwrap", Plain, &[ListOptionalA], ListA),
    ("unwrapOpt", Member, &[ListOptionalA], ListA),
    ("value", Member, &[OptionalA], A),
    ("hasValue", Member, &[OptionalA], Bool),
    ("or", Member, &[OptionalA, OptionalA], OptionalA),
    ("orValue", Member, &[OptionalA, A], A),
    ("first", Member, &[ListA], OptionalA),
    ("last", Member, &[ListA], OptionalA),
    ("[]", Plain, &[OptionalListA, Int], OptionalA),
    ("[]", Plain, &[OptionalMapAB, A], OptionalB),
    ("[?]", Plain, &[ListA, Int], OptionalA),
    ("[?]", Plain, &[OptionalListA, Int], OptionalA),
    ("[?]", Plain, &[MapAB, A], OptionalB),
    ("[?]", Plain, &[OptionalMapAB, A], OptionalB),
];

impl Library {
    const fn lines(self) -> &'static [Line] {
        match self {
            Self::Standard => STANDARD,
            Self::Glob => GLOB,
            Self::Mac => MAC,
            Self::Optional => OPTIONAL,
            Self::Classes => CLASSES,
        }
    }
}

/// What a call gives: the one type of every line that fits, or `dyn` where they differ. Nothing if none fits.
pub(super) fn result(
    bindings: &mut Bindings,
    libraries: &[Library],
    name: &str,
    call: Call,
    given: &[Type],
) -> Option<Type> {
    let mut found: Option<Type> = None;
    let mut consider = |takes: &[Shape], gives: Shape| {
        let open = Open::new(bindings);
        let wanted: Vec<Type> = takes.iter().map(|shape| shape.with(&open)).collect();
        if !bindings.all_fit(given, &wanted) {
            return;
        }
        let gives = bindings.resolved(&gives.with(&open));
        found = Some(match found.take() {
            None => gives,
            Some(before) if before == gives => before,
            Some(_) => Type::Dyn,
        });
    };
    for library in libraries {
        for (_, _, takes, gives) in library.lines().iter().filter(|line| line.0 == name && line.1 == call) {
            consider(takes, *gives);
        }
    }
    if ["<", "<=", ">", ">="].contains(&name) {
        ORDERED.iter().for_each(|shape| consider(&[*shape, *shape], Bool));
    }
    if call == Member && PARTS_OF_A_MOMENT.contains(&name) {
        consider(&[Timestamp], Int);
        consider(&[Timestamp, Text], Int);
    }
    found
}
