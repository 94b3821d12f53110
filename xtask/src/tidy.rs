//! The house rules that a text search can check, each a row of a list here.

use crate::workspace::{Checked, Workspace};
use crate::{fuzz_lock, judge, openings, rust_text};
use std::path::Path;

/// Texts that no file of the repository may contain, and why.
///
/// A path counts only where it begins: after a letter it is a part of a longer one. The pieces are joined by the
/// compiler, so that this list does not find itself.
const FORBIDDEN_TEXTS: &[(&str, &str)] = &[
    (concat!("/ro", "ot/"), "a home folder of one machine; write ~ or a placeholder"),
    (concat!("/ho", "me/"), "a home folder of one machine; write ~ or a placeholder"),
    (concat!("/Us", "ers/"), "a home folder of one machine; write ~ or a placeholder"),
    (concat!("/wo", "rk/"), "a folder of one machine"),
    (concat!(":/", "/10."), "an address inside one network"),
    (concat!(":/", "/192.168."), "an address inside one network"),
    (concat!("<<<<", "<<< "), "a merge that was not finished"),
    (concat!(">>>>", ">>> "), "a merge that was not finished"),
    (concat!("PRIVATE", " KEY-----"), "a key"),
];

/// What only some files may say: (files whose name ends in this, what a line contains, what it must begin with then).
///
/// Packages come from the public registries; a mirror that one machine uses must not get into a lock file.
const REGISTRIES: &[(&str, &str, &str)] = &[
    ("Cargo.lock", "source = \"", "source = \"registry+https://github.com/rust-lang/crates.io-index\""),
    ("package-lock.json", "\"resolved\": \"", "\"resolved\": \"https://registry.npmjs.org/"),
    (".npmrc", "registry=", "# the registry is the user's choice"),
    (".cargo/config.toml", "registr", "# the registry is the user's choice"),
    (".cargo/config.toml", "[source", "# the registry is the user's choice"),
];

/// Words that code must not contain, comments included, and why.
const FORBIDDEN_WORDS: &[(&str, &str)] = &[
    (concat!("to", "do!"), "finish it, or leave it out"),
    (concat!("unimple", "mented!"), "finish it, or leave it out"),
    (concat!("TO", "DO"), "finish it, or leave it out"),
    (concat!("FIX", "ME"), "fix it"),
];

/// Factors of well-known generators of random numbers, without underscores and in lower case; the last two of linear congruential ones.
const GENERATORS: &[&str] = &[
    concat!("bf58476d", "1ce4e5b9"),
    concat!("94d049bb", "133111eb"),
    concat!("2545f491", "4f6cdd1d"),
    concat!("5851f42d", "4c957f2d"),
    concat!("63641362238", "46793005"),
    concat!("166", "4525"),
];

/// The folders whose code may be `unsafe`; every other library crate forbids it to itself.
const UNSAFE_FOLDERS: &[&str] = &[
    "bindings",
    "crates/checkpoint",
    "crates/ecc",
    "crates/foreign",
    "crates/heal",
    "crates/hostfs",
    "crates/inloop",
    "crates/nic",
    // It copies the sources of the one before.
    "crates/nic-mutants",
    "crates/probes",
    "crates/sys",
];

/// Names of modules that say nothing about what is in them.
const EMPTY_NAMES: &[&str] = &["common", "helpers", "misc", "util", "utils"];

/// The longest file, in lines; tests and generated files aside.
const LINES_MAX: usize = 800;

/// Kinds of files that people write as code.
const CODE: &[&str] = &["c", "css", "h", "js", "mjs", "rs", "sh", "ts", "tsx"];

/// Generated files: built by a command, checked for being current elsewhere.
const GENERATED: &[&str] = &["ui/dist", "ui/src/types.ts", "Cargo.lock", "ui/package-lock.json"];

/// Checks every file of the checkout.
pub fn check(workspace: &Workspace) -> Result<Checked, String> {
    let Some(files) = workspace.files() else {
        return Ok(Checked::NotRun("this is not a git checkout, and the files are listed by git".into()));
    };
    let mut faults = Vec::new();
    for file in &files {
        if let Some(text) = workspace.text(file) {
            faults.extend(faults_in(file, &text));
        }
    }
    faults.extend(fuzz_lock::faults(workspace, &files));
    faults.extend(openings::gone(&files));
    faults.extend(judge::faults(workspace, &files));
    Ok(Checked::from_faults(faults, format!("{} files keep the house rules", files.len())))
}

fn faults_in(file: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let at = format!("{}:{}", file.display(), number + 1);
        for (forbidden, why) in FORBIDDEN_TEXTS {
            if begins_in(line, forbidden) {
                faults.push(format!("{at}: '{forbidden}': {why}"));
            }
        }
        for (name, contains, begins) in REGISTRIES {
            if file.ends_with(name) && line.contains(contains) && !line.trim_start().starts_with(begins) {
                faults.push(format!("{at}: names a package registry of one machine"));
            }
        }
    }
    if !GENERATED.iter().any(|generated| file.starts_with(generated)) && has_extension(file, CODE) {
        faults.extend(faults_in_code(file, text));
    }
    faults
}

fn has_extension(file: &Path, extensions: &[&str]) -> bool {
    file.extension().and_then(|extension| extension.to_str()).is_some_and(|extension| extensions.contains(&extension))
}

/// Whether the line has this text, and where it is a path or a word: where no longer path or word leads to it.
fn begins_in(line: &str, text: &str) -> bool {
    let inside_another = |before: &str| before.ends_with(|c: char| c.is_alphanumeric() || "_-.~}$".contains(c));
    let stands_alone = text.starts_with(|c: char| c == '/' || c.is_alphabetic());
    line.match_indices(text).any(|(at, _)| !stands_alone || !inside_another(&line[..at]))
}

fn faults_in_code(file: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let name = file.display();
    for (number, line) in text.lines().enumerate() {
        for (word, why) in FORBIDDEN_WORDS {
            if begins_in(line, word) {
                faults.push(format!("{name}:{}: '{word}': {why}", number + 1));
            }
        }
    }
    let is_rust = has_extension(file, &["rs"]);
    let is_test = file.components().any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "test" | "e2e")));
    let lines = if is_rust { rust_text::without_tests(text).lines().count() } else { text.lines().count() };
    if !is_test && lines > LINES_MAX {
        faults.push(format!("{name}: {lines} lines; over {LINES_MAX} it is more than one thing"));
    }
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let folder = file.parent().and_then(Path::file_name).and_then(|folder| folder.to_str()).unwrap_or_default();
    if EMPTY_NAMES.contains(&stem) || (stem == "mod" && EMPTY_NAMES.contains(&folder)) {
        faults.push(format!("{name}: name the file after what is in it"));
    }
    if is_rust {
        let is_generator = |line: &str| {
            let plain = line.replace('_', "").to_lowercase();
            GENERATORS.iter().any(|factor| plain.contains(factor))
        };
        if let Some(at) = text.lines().position(is_generator) {
            faults.push(format!("{name}:{}: a generator of random numbers; take that of crates/random", at + 1));
        }
        faults.extend(faults_in_safety(file, text));
        faults.extend(openings::faults(file, text));
    }
    faults
}

fn faults_in_safety(file: &Path, text: &str) -> Vec<String> {
    if UNSAFE_FOLDERS.iter().any(|folder| file.starts_with(folder)) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let code = rust_text::code_only(text);
    for (number, line) in code.lines().enumerate() {
        let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
        if words.into_iter().any(|word| word == "unsafe") {
            faults.push(format!("{}:{}: unsafe code belongs to sys, hostfs or probes", file.display(), number + 1));
        }
    }
    let is_crate_root = file.starts_with("crates") && file.ends_with("src/lib.rs");
    if is_crate_root && !code.contains("#![forbid(unsafe_code)]") {
        faults.push(format!("{}: lacks #![forbid(unsafe_code)]", file.display()));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(file: &str, text: &str) -> Vec<String> {
        faults_in(Path::new(file), text)
    }

    #[test]
    fn paths_of_one_machine_are_found_where_they_begin() {
        let home = concat!("/ro", "ot/");
        assert_eq!(faults("docs/a.md", &format!("see {home}x")).len(), 1);
        assert_eq!(faults("docs/a.md", &format!("\n({home}x)"))[0].split(": ").next(), Some("docs/a.md:2"));
        assert_eq!(faults("docs/a.md", &format!("$fixture{home}x and a{home}")).len(), 0);
        assert_eq!(faults("fixtures/proc.txt", concat!("/ho", "me/somebody/bin")).len(), 1);
        assert_eq!(faults("a.md", concat!("http:/", "/192.168.1.1/")).len(), 1);
    }

    #[test]
    fn lock_files_name_the_public_registries_only() {
        let line = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        assert_eq!(faults("Cargo.lock", line), Vec::<String>::new());
        assert_eq!(faults("Cargo.lock", "source = \"registry+https://mirror.example/index\"").len(), 1);
        assert_eq!(faults("ui/package-lock.json", "  \"resolved\": \"https://mirror.example/x.tgz\"").len(), 1);
        assert_eq!(faults("ui/.npmrc", "registry=https://mirror.example/").len(), 1);
        assert_eq!(faults("ui/.npmrc", "omit-lockfile-registry-resolved=true").len(), 0);
        assert_eq!(faults(".cargo/config.toml", "[source.crates-io]").len(), 1);
    }

    #[test]
    fn unfinished_code_is_found() {
        assert_eq!(faults("xtask/src/a.rs", concat!("to", "do!()")).len(), 1);
        assert_eq!(faults("ui/src/a.ts", concat!("// TO", "DO later")).len(), 1);
        assert_eq!(faults("docs/a.md", concat!("TO", "DO")).len(), 0);
    }

    #[test]
    fn a_second_generator_of_random_numbers_is_found() {
        let code = concat!("z = (z ^ (z >> 30)).wrapping_mul(0xbf58_47", "6D_1ce4_e5b9);");
        assert_eq!(faults("crates/stall/tests/a.rs", code).len(), 1);
        assert_eq!(faults("crates/stall/tests/a.rs", "z.wrapping_mul(0x9e37_79b9_7f4a_7c15)").len(), 0);
        for factor in [concat!("6_364_136_223", "_846_793_005"), concat!("1_66", "4_525")] {
            assert_eq!(faults("e2e/tests/a.rs", &format!("s = s.wrapping_mul({factor});")).len(), 1, "{factor}");
        }
    }

    #[test]
    fn unsafe_code_stays_where_it_may_be() {
        let code = "#![forbid(unsafe_code)]\n// unsafe\nlet a = \"unsafe\";\n";
        assert_eq!(faults("crates/stall/src/lib.rs", code), Vec::<String>::new());
        assert_eq!(faults("crates/stall/src/collect.rs", "unsafe { f() }").len(), 1);
        assert_eq!(faults("crates/hostfs/src/lib.rs", "unsafe { f() }").len(), 0);
        assert_eq!(faults("crates/stall/src/lib.rs", "//! #![forbid(unsafe_code)]\n").len(), 1);
    }

    #[test]
    fn long_files_and_empty_names_are_found() {
        assert_eq!(faults("xtask/src/a.rs", &"a\n".repeat(LINES_MAX)).len(), 0);
        assert_eq!(faults("xtask/src/a.rs", &"a\n".repeat(LINES_MAX + 1)).len(), 1);
        assert_eq!(faults("crates/stall/tests/a.rs", &"a\n".repeat(LINES_MAX + 1)).len(), 0);
        assert_eq!(faults("ui/dist/app.js", &"a\n".repeat(LINES_MAX + 1)).len(), 0);
        assert_eq!(faults("crates/stall/src/util.rs", "").len(), 1);
        assert_eq!(faults("crates/stall/tests/common/mod.rs", "").len(), 1);
    }
}
