//! The page of cases, which shares looks and words with that of the watch.

use surefoot_http::page::Asset;

/// The built page. `ui/dist` is checked in, so that no Node is needed to build this crate.
pub(super) const ASSETS: [Asset; 4] = [
    Asset::new("/", "text/html; charset=utf-8", include_bytes!("../../../ui/dist/cases.html")),
    Asset::new("/app.css", "text/css; charset=utf-8", include_bytes!("../../../ui/dist/app.css")),
    Asset::new("/cases.js", "text/javascript; charset=utf-8", include_bytes!("../../../ui/dist/cases.js")),
    Asset::new("/parts.js", "text/javascript; charset=utf-8", include_bytes!("../../../ui/dist/parts.js")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_page_loads_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ui/dist");
        let page = std::fs::read_to_string(format!("{folder}/cases.html")).unwrap();
        let script = std::fs::read_to_string(format!("{folder}/cases.js")).unwrap();
        let mut files: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        files.retain(|name| {
            let named = [format!("/{name}\""), format!("./{name}\"")];
            named.iter().any(|named| page.contains(named) || script.contains(named))
        });
        let mut served: Vec<&str> = ASSETS[1..].iter().map(|asset| &asset.path[1..]).collect();
        files.sort();
        served.sort_unstable();
        assert_eq!(files, served);
    }
}
