//! What keeps the pages of other sites out, and what every answer says to browsers.

use crate::ApiError;
use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::response::Response;
use percent_encoding::percent_decode_str;

/// What every answer says: nothing is loaded from elsewhere, framed, sniffed or told to others.
pub const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Adds [`HEADERS`] to an answer.
pub fn dress(response: &mut Response) {
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
}

/// Whether the request was made to this machine by one of its own names.
pub fn is_local(uri: &Uri, headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let one_local_host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().is_ok_and(is_local_name),
        _ => false,
    };
    // A request line may name the host as well, and then that one counts.
    one_local_host && uri.authority().is_none_or(|authority| is_local_name(authority.as_str()))
}

fn is_local_name(text: &str) -> bool {
    // An authority may hold a user name, which no browser sends in `Host`.
    let Ok(authority) = text.parse::<Authority>() else { return false };
    let host = authority.host();
    !text.contains('@') && (host.eq_ignore_ascii_case("localhost") || host == "127.0.0.1" || host == "[::1]")
}

/// Refuses an address whose escapes are no text: the router and the query's reader put a replacement character in their place, so that
/// another value than the one that was sent would be looked for.
///
/// # Errors
/// Where it is, as an answer.
pub fn readable(uri: &Uri) -> Result<(), ApiError> {
    let is_text = |part: &str| percent_decode_str(part).decode_utf8().is_ok();
    let wrong = if !is_text(uri.path()) {
        "path"
    } else if !uri.query().is_none_or(|query| query.split(['&', '=']).all(is_text)) {
        "query"
    } else {
        return Ok(());
    };
    Err(ApiError::bad_request(format!(
        "the percent-encoded bytes of the {wrong} are not UTF-8; encode the text as UTF-8"
    )))
}

/// Whether a browser says that the page of another origin sent this. A link to the page itself is
/// welcome from anywhere; data, events and metrics are not for other pages, not even to load them unseen.
pub fn is_of_another_site(request: &Request) -> bool {
    let from = request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes);
    let foreign = from.is_some_and(|from| from != b"same-origin" && from != b"none");
    foreign && request.uri().path() != "/"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn escapes_that_are_no_text_are_refused_wherever_they_are() {
        let of = |uri: &str| readable(&uri.parse().unwrap()).is_ok();
        for uri in
            ["/", "/a?b=c&d", "/%C3%A9?x=%e2%82%ac", "/a?share=50%", "/a?x=%2", "/a?x=%zz", "/?%00", "/a?x=%25ff"]
        {
            assert!(of(uri), "{uri}");
        }
        // A character whose bytes lie in two values is none in either.
        for uri in
            ["/%ff", "/a%C3/b", "/a?x=%FF", "/a?%ff=1", "/a?x=%c3&y=%a9", "/a?x=%C0%80", "/?x=%ED%A0%80", "/a?x=+%80"]
        {
            assert!(!of(uri), "{uri}");
        }
    }

    #[test]
    fn only_the_names_of_this_machine_are_local() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:7171", "[::1]", "[::1]:7171"] {
            assert!(is_local_name(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "127.0.0.2",
            "user@localhost",
            "localhost@evil.example",
            "::1",
            "[::2]",
            "localhost:80:80",
            "localhost/",
            "0.0.0.0",
        ] {
            assert!(!is_local_name(host), "{host}");
        }
    }
}
