//! How messages name an address.

use surefoot_model::{clipped, one_line};

/// The longest text of an address in a message, characters.
const SHOWN_MAX: usize = 120;

/// Scheme, host, port, and the first part of a path that goes on. Everything else can be a secret: user and password, the last part of
/// the path (the address of a webhook holds its token there) and the query.
pub fn shown(address: &str) -> String {
    let (scheme, rest) = match address.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), address),
    };
    let (authority, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if rest.contains('@') {
        // A password may hold the same signs: where it ends cannot be told.
        return one_line(&format!("{scheme}..."));
    }
    let host = authority.rsplit('@').next().unwrap_or_default();
    let path = &rest[..rest.find(['?', '#']).unwrap_or(rest.len())];
    let end = path.trim_end_matches('/').get(1..).and_then(|path| path.find('/'));
    let first = end.map_or(if path == "/" { path } else { "" }, |end| &path[..end + 1]);
    let has_more = first.len() < rest.trim_end_matches('/').len();
    let text = format!("{scheme}{host}{first}{}", if has_more { "/..." } else { "" });
    clipped(&text, SHOWN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_without_what_can_be_secret() {
        for (address, said) in [
            ("https://bmc17.example:8443", "https://bmc17.example:8443"),
            ("https://bmc17.example/", "https://bmc17.example/"),
            ("https://hooks.example/services/T0/B0/SECRET", "https://hooks.example/services/..."),
            ("https://alerts.example/prefix/", "https://alerts.example/..."),
            ("https://topics.example/SECRET", "https://topics.example/..."),
            ("https://admin:SECRET@bmc17", "https://bmc17"),
            ("https://admin:SEC/RET@bmc17", "https://..."),
            ("https://admin:SEC?RET@bmc17", "https://..."),
            ("https://h/p?token=SECRET", "https://h/..."),
            ("https://h?token=SECRET", "https://h/..."),
            ("https://h#SECRET", "https://h/..."),
            ("admin:SECRET@bmc17", "bmc17"),
            ("ipmi://u:SECRET@[fe80::1]:623", "ipmi://[fe80::1]:623"),
            ("postgres://u:SECRET@h:5432/d", "postgres://h:5432/..."),
            ("https:/u:SECRET@h", "..."),
            ("", ""),
        ] {
            assert_eq!(shown(address), said, "{address}");
        }
        assert_eq!(shown("http://a\nb").lines().count(), 1);
        assert!(shown(&"x".repeat(10_000)).len() <= SHOWN_MAX);
    }
}
