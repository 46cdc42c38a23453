//! One value, or one for each IP family.

use std::fmt;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Cidr;

/// Something that belongs to an IP family.
pub trait HasFamily {
    fn is_ipv4(&self) -> bool;
}

impl HasFamily for IpAddr {
    fn is_ipv4(&self) -> bool {
        IpAddr::is_ipv4(self)
    }
}

impl HasFamily for Cidr {
    fn is_ipv4(&self) -> bool {
        Cidr::is_ipv4(self)
    }
}

/// One value, or two of different IP families in the order they were written (the first is the primary one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FamilyPair<T> {
    primary: T,
    secondary: Option<T>,
}

impl<T: HasFamily + Copy + fmt::Display> fmt::Display for FamilyPair<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.primary)?;
        self.secondary.map_or(Ok(()), |secondary| write!(f, ", {secondary}"))
    }
}

impl<T: HasFamily + Copy> FamilyPair<T> {
    pub fn one(value: T) -> Self {
        Self { primary: value, secondary: None }
    }

    /// A pair, unless both are of one family.
    pub fn two(primary: T, secondary: T) -> Option<Self> {
        (primary.is_ipv4() != secondary.is_ipv4()).then_some(Self { primary, secondary: Some(secondary) })
    }

    pub fn primary(&self) -> T {
        self.primary
    }

    pub fn iter(&self) -> impl Iterator<Item = T> + use<T> {
        std::iter::once(self.primary).chain(self.secondary)
    }

    pub fn ipv4(&self) -> Option<T> {
        self.iter().find(HasFamily::is_ipv4)
    }

    pub fn ipv6(&self) -> Option<T> {
        self.iter().find(|value| !value.is_ipv4())
    }

    /// The member of the same family as something else.
    pub fn of_family(&self, like: &impl HasFamily) -> Option<T> {
        self.iter().find(|value| value.is_ipv4() == like.is_ipv4())
    }
}
