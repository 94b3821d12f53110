//! Files of a page that are part of the program.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// A file of the page, part of this program.
#[derive(Debug, Clone, Copy)]
pub struct Asset {
    /// Where it is served.
    pub path: &'static str,
    media_type: &'static str,
    body: &'static [u8],
}

impl Asset {
    /// A file with its media type and its content.
    pub const fn new(path: &'static str, media_type: &'static str, body: &'static [u8]) -> Self {
        Asset { path, media_type, body }
    }
}

/// Serves a file. A browser asks each time whether it changed, because a new release has the same names.
pub fn serve(asset: &Asset, headers: &HeaderMap) -> Response {
    let tag = entity_tag(asset.body);
    let known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|value| value.trim() == "*" || value.trim().trim_start_matches("W/") == tag);
    let mut response = match known {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => asset.body.into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// FNV-1a with 64 bits, and the length: enough to tell one build of a file from the next.
fn entity_tag(body: &[u8]) -> String {
    let hash = body
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("\"{hash:016x}-{:x}\"", body.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_follows_the_content() {
        assert_eq!(entity_tag(b""), "\"cbf29ce484222325-0\"");
        assert_eq!(entity_tag(b"a"), "\"af63dc4c8601ec8c-1\"", "the published value of FNV-1a for 'a'");
        assert_ne!(entity_tag(b"ab"), entity_tag(b"ba"));
    }
}
