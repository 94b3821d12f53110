use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// A file of the page, part of this program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asset {
    /// Where it is served.
    pub(crate) path: &'static str,
    media_type: &'static str,
    body: &'static [u8],
}

macro_rules! script {
    ($name:literal) => {
        Asset {
            path: concat!("/", $name),
            media_type: "text/javascript; charset=utf-8",
            body: include_bytes!(concat!("../../../../ui/dist/", $name)),
        }
    };
}

/// The built page. `ui/dist` is checked in, so that no Node is needed to build this crate.
pub(crate) const ASSETS: [Asset; 10] = [
    Asset { path: "/", media_type: "text/html; charset=utf-8", body: include_bytes!("../../../../ui/dist/index.html") },
    Asset {
        path: "/app.css",
        media_type: "text/css; charset=utf-8",
        body: include_bytes!("../../../../ui/dist/app.css"),
    },
    script!("app.js"),
    script!("parts.js"),
    // The views of the rooms, each fetched when it is first shown.
    script!("stall.js"),
    script!("memory.js"),
    script!("checkpoint.js"),
    script!("nic.js"),
    script!("disturb.js"),
    script!("remedy.js"),
];

/// The page of `surefoot remedy serve`, which shares looks and words with the other.
pub(crate) const CASES: [Asset; 4] = [
    Asset { path: "/", media_type: "text/html; charset=utf-8", body: include_bytes!("../../../../ui/dist/cases.html") },
    ASSETS[1],
    script!("cases.js"),
    script!("parts.js"),
];

/// Serves a file. A browser asks each time whether it changed, because a new release has the same names.
pub(crate) fn serve(asset: &Asset, headers: &HeaderMap) -> Response {
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
    fn every_file_of_the_built_page_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ui/dist");
        let mut built: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        let name = |of: &[Asset], page: &str| -> Vec<String> {
            of.iter()
                .map(|asset| if asset.path == "/" { page.to_owned() } else { asset.path[1..].to_owned() })
                .collect()
        };
        let mut served = [name(&ASSETS, "index.html"), name(&CASES, "cases.html")].concat();
        built.sort();
        served.sort();
        served.dedup();
        assert_eq!(built, served);
    }

    #[test]
    fn the_tag_follows_the_content() {
        assert_eq!(entity_tag(b""), "\"cbf29ce484222325-0\"");
        assert_eq!(entity_tag(b"a"), "\"af63dc4c8601ec8c-1\"", "the published value of FNV-1a for 'a'");
        assert_ne!(entity_tag(b"ab"), entity_tag(b"ba"));
    }
}
