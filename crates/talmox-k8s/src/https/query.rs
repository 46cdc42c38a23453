//! Paths and queries as they go over the wire.

/// The request's target; everything but what names are made of is encoded.
pub(super) fn target(path: &str, query: &[(String, String)]) -> String {
    let mut target = encode(path, b"-._~/:@+");
    for (index, (key, value)) in query.iter().enumerate() {
        target.push(if index == 0 { '?' } else { '&' });
        target.push_str(&encode(key, b"-._~"));
        target.push('=');
        target.push_str(&encode(value, b"-._~"));
    }
    target
}

fn encode(text: &str, free: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || free.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_survive() {
        let query = [("labelSelector".to_owned(), "k8s-app in (a,b),x!=1".to_owned())];
        let expected = "/api/v1/pods?labelSelector=k8s-app%20in%20%28a%2Cb%29%2Cx%21%3D1";
        assert_eq!(target("/api/v1/pods", &query), expected);
        assert_eq!(target("/a/system:x/b c", &[]), "/a/system:x/b%20c");
    }
}
