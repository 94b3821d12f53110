//! The licence of every package that ends in the binary or in the page.
//!
//! `deny.toml` holds the same list for those who have cargo-deny; a test keeps both equal.

use crate::spdx;
use crate::workspace::{Checked, Package, Workspace};
use serde_json::Value;

/// Licences that ask for no more than their notice to be kept.
const PERMISSIVE: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Licences of programs that only build the page; nothing of them is shipped.
const BUILD_TOOLS: &[&str] = &["BlueOak-1.0.0", "CC-BY-4.0", "MPL-2.0", "PSF-2.0", "Python-2.0"];

/// The packages of the page whose code is shipped inside it.
const SHIPPED_IN_PAGE: &[&str] = &["preact", "@preact/signals", "@preact/signals-core", "uplot"];

/// Checks the Rust packages of this platform and those of the page.
pub fn check(workspace: &Workspace) -> Result<Checked, String> {
    let packages = workspace.packages()?;
    let mut faults = faults_in_packages(&packages);
    let mut count = packages.len();
    if let Some(lock) = workspace.text("ui/package-lock.json".as_ref()) {
        let (page_count, page_faults) = faults_in_page(&lock)?;
        count += page_count;
        faults.extend(page_faults);
    }
    Ok(Checked::from_faults(faults, format!("{count} packages are under permissive licences")))
}

fn fault(name: &str, licence: Option<&str>, lists: &[&[&str]]) -> Option<String> {
    let Some(licence) = licence else { return Some(format!("{name} declares no licence")) };
    let allowed = |name: &str| lists.iter().any(|list| list.contains(&name));
    match spdx::permitted(licence, &allowed) {
        Ok(true) => None,
        Ok(false) => Some(format!("{name} is under '{licence}', which is not permissive")),
        Err(why) => Some(format!("{name}: {why}")),
    }
}

fn faults_in_packages(packages: &[Package]) -> Vec<String> {
    let each = packages.iter();
    each.filter_map(|package| {
        fault(&format!("{} {}", package.name, package.version), package.licence.as_deref(), &[PERMISSIVE])
    })
    .collect()
}

/// How many packages the page's lock file names, and the faults among them.
fn faults_in_page(lock: &str) -> Result<(usize, Vec<String>), String> {
    let value: Value = serde_json::from_str(lock).map_err(|error| format!("ui/package-lock.json: {error}"))?;
    let packages = value["packages"].as_object().ok_or("ui/package-lock.json lists no packages")?;
    let mut faults = Vec::new();
    for (path, package) in packages {
        // The path of a nested package ends in its name all the same.
        let name = path.rsplit("node_modules/").next().unwrap_or(path);
        let shipped = SHIPPED_IN_PAGE.contains(&name) || package["dev"].as_bool() != Some(true);
        let lists: &[&[&str]] = if shipped { &[PERMISSIVE] } else { &[PERMISSIVE, BUILD_TOOLS] };
        let name = if name.is_empty() { "the page" } else { name };
        faults.extend(fault(name, package["license"].as_str(), lists));
    }
    Ok((packages.len(), faults))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn package(licence: Option<&str>) -> Package {
        Package {
            name: "some".into(),
            version: "1.0.0".into(),
            licence: licence.map(str::to_owned),
            folder: PathBuf::new(),
            dependencies: Vec::new(),
        }
    }

    #[test]
    fn a_copyleft_or_undeclared_licence_is_a_fault() {
        let packages = [Some("MIT OR Apache-2.0"), Some("GPL-3.0-only"), None, Some("MPL-2.0"), Some("MIT AND")];
        let faults = faults_in_packages(&packages.map(package));
        assert_eq!(faults.len(), 4, "{faults:?}");
        assert_eq!(faults[0], "some 1.0.0 is under 'GPL-3.0-only', which is not permissive");
        assert_eq!(faults[1], "some 1.0.0 declares no licence");
    }

    #[test]
    fn the_page_ships_permissive_code_only_and_its_tools_may_be_more() {
        let lock =
            |name: &str| format!(r#"{{"packages": {{"node_modules/{name}": {{"dev": true, "license": "MPL-2.0"}}}}}}"#);
        assert_eq!(faults_in_page(&lock("vite")).unwrap(), (1, vec![]));
        assert_eq!(faults_in_page(&lock("x/node_modules/uplot")).unwrap().1.len(), 1);
        assert_eq!(faults_in_page(r#"{"packages": {"node_modules/x": {"license": "MPL-2.0"}}}"#).unwrap().1.len(), 1);
        assert!(faults_in_page("{").is_err());
    }

    #[test]
    fn cargo_deny_is_told_the_same() {
        let deny = include_str!("../../deny.toml");
        let list = deny.split("allow = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap();
        let names: Vec<&str> = list.split(',').map(|name| name.trim().trim_matches('"')).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        assert_eq!(names, PERMISSIVE);
    }
}
