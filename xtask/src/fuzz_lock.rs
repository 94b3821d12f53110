//! The lock of `fuzz/coverage`, a workspace of its own, which nobody builds day by day: it must know every package that the
//! fuzzer is built from, or `make fuzz` cannot begin.

use crate::workspace::Workspace;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const LOCK: &str = "fuzz/coverage/Cargo.lock";

/// What the manifests of its packages ask for and the lock does not have.
pub fn faults(workspace: &Workspace, files: &[PathBuf]) -> Vec<String> {
    let Some(lock) = workspace.text(Path::new(LOCK)) else { return vec![format!("{LOCK}: it cannot be read")] };
    let locked = own_packages(&lock);
    let manifests = files.iter().filter(|file| file.ends_with("Cargo.toml")).filter_map(|file| workspace.text(file));
    let mut faults = Vec::new();
    for manifest in manifests {
        let Some((name, known)) = name(&manifest).and_then(|name| locked.get_key_value(name)) else { continue };
        for missing in dependencies(&manifest).difference(known) {
            faults.push(format!(
                "{LOCK}: {name} depends on {missing}, which this does not say: `make fuzz` cannot begin; run \
                 `cargo metadata --manifest-path fuzz/coverage/Cargo.toml`"
            ));
        }
    }
    faults
}

/// The packages of a lock that come from no registry, each with the names of those that it depends on.
fn own_packages(lock: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut own = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1).filter(|package| !package.contains("\nsource = ")) {
        let Some(name) = name(package) else { continue };
        let listed = package.split_once("dependencies = [").map_or("", |(_, list)| list);
        // Where there are two of a name, its version follows.
        let names = listed.lines().filter_map(|line| line.trim().strip_prefix('"')?.split(['"', ' ']).next());
        own.insert(name.to_owned(), names.map(str::to_owned).collect());
    }
    own
}

fn name(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'))
}

/// What a package is built from, by its manifest; what a feature may leave out aside.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let mut is_list = false;
    let mut names = BTreeSet::new();
    for line in manifest.lines() {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end().trim_end_matches(']');
            is_list = section.ends_with("dependencies")
                && !section.ends_with("dev-dependencies")
                && section != "workspace.dependencies";
        } else if is_list
            && line.starts_with(|first: char| first.is_ascii_alphabetic())
            && !line.contains("optional = true")
        {
            names.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_manifest_names_what_its_package_is_built_from() {
        let manifest = "[package]\nname = \"one\"\n\n[dependencies]\nserde.workspace = true\nlibc = \"0.2\"\n# a word\n\
                        rare = { version = \"1\", optional = true }\n[target.'cfg(unix)'.dependencies]\nnix.workspace = true\n\
                        [dev-dependencies]\ntempfile.workspace = true\n[workspace.dependencies]\nother = \"1\"\n";
        assert_eq!(dependencies(manifest), set(&["libc", "nix", "serde"]));
        assert_eq!(name(manifest), Some("one"));
    }

    #[test]
    fn a_lock_tells_its_own_packages_from_those_of_a_registry() {
        let lock = "version = 4\n\n[[package]]\nname = \"one\"\nversion = \"0.1.0\"\ndependencies = [\n \"libc\",\n \"syn 2.0.1\",\n]\n\n\
                    [[package]]\nname = \"libc\"\nversion = \"0.2.1\"\nsource = \"registry+x\"\n\n[[package]]\nname = \"two\"\n";
        let own = own_packages(lock);
        assert_eq!(own.keys().collect::<Vec<_>>(), ["one", "two"]);
        assert_eq!((&own["one"], &own["two"]), (&set(&["libc", "syn"]), &set(&[])));
    }
}
