//! The page of the watch.

use surefoot_http::page::Asset;

macro_rules! script {
    ($name:literal) => {
        Asset::new(
            concat!("/", $name),
            "text/javascript; charset=utf-8",
            include_bytes!(concat!("../../../../ui/dist/", $name)),
        )
    };
}

/// The built page. `ui/dist` is checked in, so that no Node is needed to build this crate.
pub(crate) const ASSETS: [Asset; 10] = [
    Asset::new("/", "text/html; charset=utf-8", include_bytes!("../../../../ui/dist/index.html")),
    Asset::new("/app.css", "text/css; charset=utf-8", include_bytes!("../../../../ui/dist/app.css")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_built_page_is_served() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ui/dist");
        let mut built: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        // The files of this name are those of the page of cases, another server's.
        built.retain(|name| !name.starts_with("cases."));
        let name = |asset: &Asset| if asset.path == "/" { "index.html" } else { &asset.path[1..] };
        let mut served: Vec<&str> = ASSETS.iter().map(name).collect();
        built.sort();
        served.sort_unstable();
        assert_eq!(built, served);
    }
}
