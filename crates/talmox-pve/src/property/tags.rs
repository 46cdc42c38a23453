//! Tags of a guest.

use std::collections::BTreeSet;

use talmox_types::Tag;

use crate::property::PropertyError;
use crate::property::macros::property_text;

/// A set of tags. Proxmox sorts them and makes them lower case unless the data centre says otherwise, so neither
/// order nor case tells two sets apart.
#[derive(Clone, Debug, Default)]
pub struct Tags(Vec<Tag>);

impl Tags {
    /// Reads tags separated by `;`, `,` or blanks; a blank text is no tag at all.
    pub fn parse(text: &str) -> Result<Self, PropertyError> {
        let separators = |c: char| c == ';' || c == ',' || c.is_whitespace();
        let words = text.split(separators).filter(|word| !word.is_empty());
        let tag = |word| {
            Tag::parse(word).map_err(|error| PropertyError::new("a list of tags", text, error.to_string()))
        };
        words.map(tag).collect()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Tag> {
        self.0.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, tag: &Tag) -> bool {
        self.0.iter().any(|mine| mine.as_str().eq_ignore_ascii_case(tag.as_str()))
    }

    /// The tags in the spelling they were given. To be sent: a data centre with case-sensitive tags must not lose
    /// the spelling of tags somebody else set.
    pub fn as_written(&self) -> String {
        self.0.iter().map(Tag::as_str).collect::<Vec<_>>().join(";")
    }

    fn folded(&self) -> BTreeSet<String> {
        self.0.iter().map(|tag| tag.as_str().to_ascii_lowercase()).collect()
    }

    /// As Proxmox shows them by default: lower case, sorted, once each.
    fn print(&self) -> String {
        self.folded().into_iter().collect::<Vec<_>>().join(";")
    }
}

impl FromIterator<Tag> for Tags {
    fn from_iter<I: IntoIterator<Item = Tag>>(tags: I) -> Self {
        let set: BTreeSet<(String, Tag)> =
            tags.into_iter().map(|tag| (tag.as_str().to_ascii_lowercase(), tag)).collect();
        Self(set.into_iter().map(|(_, tag)| tag).collect())
    }
}

impl PartialEq for Tags {
    fn eq(&self, other: &Self) -> bool {
        self.folded() == other.folded()
    }
}

impl Eq for Tags {}

property_text!(Tags, Tags::print);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_case_and_order_do_not_matter() {
        let tags = Tags::parse("talos;Cluster-A").unwrap();
        assert_eq!(tags, Tags::parse("cluster-a, talos talos").unwrap());
        assert_eq!(tags.to_string(), "cluster-a;talos");
        assert_eq!(tags.as_written(), "Cluster-A;talos");
        assert!(Tags::parse(" ").unwrap().is_empty());
        assert!(Tags::parse("-x").is_err());
        assert!(tags.contains(&Tag::parse("TALOS").unwrap()));
    }
}
