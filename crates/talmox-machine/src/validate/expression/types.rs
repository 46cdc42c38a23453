//! Types of CEL, and which of them may stand for another.
//!
//! CEL lets a type be open: an empty list is one of anything, and what is `dyn` fits everywhere. A function that takes two of
//! a kind finds out which kind from the first, and makes it wider if the second is `dyn`.

use super::objects::Object;

/// The type of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Null,
    Duration,
    Timestamp,
    /// Anything; only running it would tell.
    Dyn,
    Object(&'static Object),
    List(Box<Type>),
    Map(Box<(Type, Type)>),
    Optional(Box<Type>),
    /// What `type()` gives.
    Meta(Box<Type>),
    /// Not known yet, or never.
    Open(usize),
}

impl Type {
    pub(super) fn list(of: Self) -> Self {
        Self::List(Box::new(of))
    }

    pub(super) fn map(key: Self, value: Self) -> Self {
        Self::Map(Box::new((key, value)))
    }

    pub(super) fn optional(of: Self) -> Self {
        Self::Optional(Box::new(of))
    }

    /// Whether it is made of more types than this. Macros can double one with every call.
    pub(super) fn is_larger_than(&self, most: usize) -> bool {
        self.count(most) > most
    }

    /// How many types it is made of; stops soon after `most`.
    fn count(&self, most: usize) -> usize {
        1 + match self {
            _ if most == 0 => 0,
            Self::List(of) | Self::Optional(of) | Self::Meta(of) => of.count(most - 1),
            Self::Map(of) => {
                let keys = of.0.count(most - 1);
                keys + of.1.count((most - 1).saturating_sub(keys))
            }
            Self::Bool
            | Self::Int
            | Self::Uint
            | Self::Double
            | Self::Text
            | Self::Bytes
            | Self::Null
            | Self::Duration
            | Self::Timestamp
            | Self::Dyn
            | Self::Object(_)
            | Self::Open(_) => 0,
        }
    }

    fn may_be_null(&self) -> bool {
        matches!(
            self,
            Self::Null | Self::Object(_) | Self::Optional(_) | Self::Duration | Self::Timestamp | Self::Dyn
        )
    }

    /// Whether it is the same as another, or says less.
    fn is_as_general_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn | Self::Open(_), _) | (Self::Meta(_), Self::Meta(_)) => true,
            (_, Self::Dyn | Self::Open(_)) => false,
            (Self::List(one), Self::List(other)) | (Self::Optional(one), Self::Optional(other)) => {
                one.is_as_general_as(other)
            }
            (Self::Map(one), Self::Map(other)) => {
                one.0.is_as_general_as(&other.0) && one.1.is_as_general_as(&other.1)
            }
            _ => self == other,
        }
    }
}

/// What open types turned out to be.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    bound: Vec<Option<Type>>,
    /// What was bound since the last question began, each with what it was before: undone if the answer is no. A copy of
    /// all bindings for each question would make long expressions quadratic.
    changed: Vec<(usize, Option<Type>)>,
}

impl Bindings {
    pub(super) fn open(&mut self) -> Type {
        self.bound.push(None);
        Type::Open(self.bound.len() - 1)
    }

    /// Whether all of them fit; nothing is bound if they do not.
    pub(super) fn all_fit(&mut self, given: &[Type], wanted: &[Type]) -> bool {
        self.changed.clear();
        let fit = given.len() == wanted.len()
            && given.iter().zip(wanted).all(|(given, wanted)| self.fits(given, wanted));
        if !fit {
            while let Some((open, before)) = self.changed.pop() {
                self.bound[open] = before;
            }
        }
        fit
    }

    fn set(&mut self, open: usize, to: Type) {
        let before = self.bound[open].replace(to);
        self.changed.push((open, before));
    }

    fn fits(&mut self, given: &Type, wanted: &Type) -> bool {
        if let Type::Open(open) = wanted {
            let (fits, was_bound) = self.bind(*open, given);
            if fits || was_bound {
                return fits;
            }
        }
        match (given, wanted) {
            (Type::Open(open), _) => self.bind(*open, wanted).0,
            (Type::Dyn, _) | (_, Type::Dyn) | (Type::Meta(_), Type::Meta(_)) => true,
            (Type::Null, other) | (other, Type::Null) => other.may_be_null(),
            (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
                self.fits(one, other)
            }
            (Type::Map(one), Type::Map(other)) => self.fits(&one.0, &other.0) && self.fits(&one.1, &other.1),
            _ => given == wanted,
        }
    }

    /// Whether a type may stand for an open one, and whether that was bound before.
    fn bind(&mut self, open: usize, to: &Type) -> (bool, bool) {
        if *to == Type::Open(open) {
            return (true, true);
        }
        if let Some(bound) = self.bound[open].clone() {
            if *to == bound {
                return (true, true);
            }
            if !self.fits(to, &bound) {
                return (false, true);
            }
            let wider = if to.is_as_general_as(&bound) { to.clone() } else { bound };
            if !self.mentions(open, &wider) {
                self.set(open, wider);
            }
            return (true, true);
        }
        let free = !self.mentions(open, to);
        if free {
            self.set(open, to.clone());
        }
        (free, false)
    }

    /// Whether an open type occurs in another: it cannot be a part of itself.
    fn mentions(&self, open: usize, inside: &Type) -> bool {
        match inside {
            Type::Open(other) if *other == open => true,
            Type::Open(other) => self.bound[*other].as_ref().is_some_and(|bound| self.mentions(open, bound)),
            Type::List(of) | Type::Optional(of) | Type::Meta(of) => self.mentions(open, of),
            Type::Map(of) => self.mentions(open, &of.0) || self.mentions(open, &of.1),
            Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Text
            | Type::Bytes
            | Type::Null
            | Type::Duration
            | Type::Timestamp
            | Type::Dyn
            | Type::Object(_) => false,
        }
    }

    /// The type with everything in it that is known by now.
    pub(super) fn resolved(&self, of: &Type) -> Type {
        match of {
            Type::Open(open) => {
                self.bound[*open].as_ref().map_or_else(|| of.clone(), |bound| self.resolved(bound))
            }
            Type::List(inner) => Type::list(self.resolved(inner)),
            Type::Optional(inner) => Type::optional(self.resolved(inner)),
            Type::Meta(inner) => Type::Meta(Box::new(self.resolved(inner))),
            Type::Map(inner) => Type::map(self.resolved(&inner.0), self.resolved(&inner.1)),
            Type::Bool
            | Type::Int
            | Type::Uint
            | Type::Double
            | Type::Text
            | Type::Bytes
            | Type::Null
            | Type::Duration
            | Type::Timestamp
            | Type::Dyn
            | Type::Object(_) => of.clone(),
        }
    }

    /// The type two items of one list have in common.
    pub(super) fn joined(&mut self, one: Option<Type>, other: Type) -> Type {
        let Some(one) = one else { return other };
        if !self.all_fit(std::slice::from_ref(&one), std::slice::from_ref(&other)) {
            return Type::Dyn;
        }
        if one.is_as_general_as(&other) { one } else { other }
    }
}
