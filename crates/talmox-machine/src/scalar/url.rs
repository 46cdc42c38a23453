//! URLs in parts, because that is how Talos merges them.

/// The parts of a URL as they are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Url {
    pub scheme: String,
    pub user: Option<String>,
    pub host: Option<String>,
    pub path: String,
    pub query: Option<String>,
    pub fragment: String,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Self {
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned())),
            None => (rest, None),
        };
        let (scheme, rest) = match rest.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
            _ => (String::new(), rest),
        };
        let (authority, path) = match rest.strip_prefix("//") {
            Some(rest) => {
                let end = rest.find('/').unwrap_or(rest.len());
                (Some(&rest[..end]), &rest[end..])
            }
            None => (None, rest),
        };
        let (user, host) = match authority.map(|authority| authority.rsplit_once('@').ok_or(authority)) {
            Some(Ok((user, host))) => (Some(user.to_owned()), Some(host.to_owned())),
            Some(Err(host)) => (None, Some(host.to_owned())),
            None => (None, None),
        };
        Self { scheme, user, host, path: path.to_owned(), query, fragment: fragment.to_owned() }
    }

    /// What a patch says takes the place of what is there, part by part; parts it does not have stay.
    pub(crate) fn merge(&mut self, other: Self) {
        let Self { scheme, user, host, path, query, fragment } = other;
        let take = |slot: &mut String, new: String| {
            if !new.is_empty() {
                *slot = new;
            }
        };
        take(&mut self.scheme, scheme);
        take(&mut self.path, path);
        take(&mut self.fragment, fragment);
        self.user = user.or_else(|| self.user.take());
        self.host = host.filter(|host| !host.is_empty()).or_else(|| self.host.take());
        self.query = query.filter(|query| !query.is_empty()).or_else(|| self.query.take());
    }

    /// Host name or address, without brackets and port.
    pub(crate) fn host_name(&self) -> &str {
        let host = self.host.as_deref().unwrap_or_default();
        match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.rsplit_once(':').map_or(host, |(name, _)| name),
        }
    }

    /// The port as written, if there is one.
    pub(crate) fn port(&self) -> Option<&str> {
        let host = self.host.as_deref().unwrap_or_default();
        let after_bracket = host.rsplit_once(']').map_or(host, |(_, rest)| rest);
        after_bracket.rsplit_once(':').map(|(_, port)| port)
    }
}

impl std::fmt::Display for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if let Some(host) = &self.host {
            f.write_str("//")?;
            if let Some(user) = &self.user {
                write!(f, "{user}@")?;
            }
            f.write_str(host)?;
        }
        f.write_str(&self.path)?;
        if let Some(query) = &self.query {
            write!(f, "?{query}")?;
        }
        if self.fragment.is_empty() { Ok(()) } else { write!(f, "#{}", self.fragment) }
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
}

/// Whether Talos could read it: no control characters or blanks in the host, a port of digits, whole escapes.
pub(crate) fn is_url(text: &str) -> bool {
    let url = Url::parse(text);
    let host = url.host.as_deref().unwrap_or_default();
    let port_holds = url.port().is_none_or(|port| port.bytes().all(|b| b.is_ascii_digit()));
    let brackets_hold = !host.starts_with('[') || host.contains(']');
    let no_scheme = text.starts_with(':');
    let escapes_hold = escapes_hold(&url.path) && escapes_hold(&url.fragment);
    !no_scheme
        && !text.chars().any(|c| c.is_ascii_control())
        && !host.contains([' ', '<', '>', '"'])
        && port_holds
        && brackets_hold
        && escapes_hold
}

fn escapes_hold(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|rest| rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(left: &str, right: &str) -> String {
        let mut url = Url::parse(left);
        url.merge(Url::parse(right));
        url.to_string()
    }

    #[test]
    fn a_url_is_printed_as_it_was_written() {
        for text in [
            "https://10.0.0.1:6443",
            "https://[fd00::1]:6443/",
            "tcp://user:pw@host:1/path?x=1#y",
            "https://siderolink.api/join?jointoken=secret&user=alice",
            "",
        ] {
            assert_eq!(Url::parse(text).to_string(), text);
        }
    }

    #[test]
    fn a_patch_keeps_the_parts_it_does_not_have() {
        assert_eq!(merged("https://127.0.0.1:6643/", "https://10.0.0.1"), "https://10.0.0.1/");
        assert_eq!(merged("https://a:1/x?q=1", "http://b:2/y"), "http://b:2/y?q=1");
    }

    #[test]
    fn host_and_port_are_found_behind_brackets() {
        let url = Url::parse("https://[fd00::1]:6443");
        assert_eq!((url.host_name(), url.port()), ("fd00::1", Some("6443")));
        let url = Url::parse("https://base");
        assert_eq!((url.host_name(), url.port()), ("base", None));
    }

    #[test]
    fn what_cannot_be_a_url_is_refused() {
        assert!(is_url("https://x:6443/a%20b"));
        for text in ["https://x:port", "https://[::1", "://x", "https://x/%zz", "https://a b"] {
            assert!(!is_url(text), "{text}");
        }
    }
}
