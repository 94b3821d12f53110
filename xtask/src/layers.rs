//! Who may use whom: the one place where the layers of the workspace are written down, and the check that keeps them. Those of
//! modules within a crate are in `storeys`.
//!
//! Build dependencies count as normal ones. Development dependencies may reach other libraries freely, and of ours
//! what the layer may use anyway, `testkit` and `random`.

use crate::rust_text;
use crate::storeys;
use crate::workspace::{Checked, Package, Workspace};
use std::path::Path;

/// What a crate may use of ours, and what it must keep away from.
struct Layer {
    /// The folder, from the root of the workspace.
    folder: &'static str,
    /// Folder names of the crates that it may use.
    uses: &'static [&'static str],
    /// Libraries of other authors.
    externals: Externals,
    /// What its sources must not say, outside tests.
    silent_on: &'static [Words],
}

enum Externals {
    /// These and no others.
    Only(&'static [&'static str]),
    /// All but those of these groups.
    AllBut(&'static [&'static [&'static str]]),
}

/// Words that a source must not contain, and why.
struct Words {
    any_of: &'static [&'static str],
    why: &'static str,
}

/// Asynchronous runtimes and what only makes sense inside one.
const ASYNC: &[&str] = &[
    "async-std",
    "axum",
    "futures",
    "futures-util",
    "hyper",
    "hyper-util",
    "reqwest",
    "smol",
    "tokio",
    "tokio-stream",
    "tokio-util",
    "tower",
];
/// What belongs to a command, not to a library.
const COMMAND: &[&str] = &["anyhow", "clap"];
/// Databases.
const DATABASE: &[&str] = &["postgres", "rusqlite", "sqlx", "tokio-postgres"];
/// The system-call and kernel interfaces.
const SYSTEM: &[&str] = &["libbpf-rs", "libbpf-sys", "libc", "nix", "rustix"];

const PRINTING: Words = Words {
    any_of: &["print!(", "println!(", "eprint!(", "eprintln!(", "process::exit("],
    why: "printing and exit codes belong to cli",
};
const ASYNC_CODE: Words =
    Words { any_of: &["async fn", "async move", ".await"], why: "async belongs to http, controller, daemon and store" };
const WORLD: Words = Words {
    any_of: &["std::env", "std::fs", "std::net", "std::process", "std::thread", "Instant::now", "SystemTime::now"],
    why: "this crate has no I/O, clock or thread",
};

const SERVING: Words =
    Words { any_of: &["axum", "StatusCode", "Uri"], why: "a room answers with plain data; the daemon serves it" };

/// The one folder where what a viewer may see is taken out of `Seen`: there an answer leaves the server.
const OPENED_IN: &str = "crates/daemon/src/http";
/// How it is taken out.
const OPENING: &str = ".into_answer()";

/// Each of these goes by a name and follows links, so that whoever owns the directory chooses the file.
const BY_NAME: Words = Words {
    any_of: &["fs::write(", "fs::chown(", "File::create("],
    why: "it follows links that another user may have put there; create anew, open with O_NOFOLLOW, change by descriptor",
};

/// `str::parse` takes `+0`, and `inf` and `nan` for floating point.
const NUMBERS: Words = Words {
    any_of: &[
        "parse::<u8>",
        "parse::<u16>",
        "parse::<u32>",
        "parse::<u64>",
        "parse::<usize>",
        "parse::<i32>",
        "parse::<i64>",
        "parse::<f64>",
        "parse().ok()",
        "from_str_radix",
    ],
    why: "a number in a text of others is read by surefoot_model::Digits, which takes digits alone; for another type name it: parse::<Step>()",
};

/// For what is told the time by its caller.
const CLOCK: Words =
    Words { any_of: &["Instant::now", "SystemTime::now", "clock_gettime"], why: "this crate is told the time" };

const LIBRARY: Externals = Externals::AllBut(&[ASYNC, COMMAND, DATABASE]);
const QUIET: &[Words] = &[PRINTING, ASYNC_CODE, BY_NAME];
/// For the readers of what the kernel, firmware and other programs write.
const READERS: &[Words] = &[PRINTING, ASYNC_CODE, BY_NAME, NUMBERS];
const PURE: &[Words] = &[PRINTING, ASYNC_CODE, WORLD];
const FEATURES: &[&str] = &["foreign", "model", "hostfs", "sys", "probes", "random"];

/// The table. A crate without a row is a fault, so that a new one is placed before it is used.
const LAYERS: &[Layer] = &[
    Layer {
        folder: "crates/model",
        uses: &[],
        externals: Externals::Only(&["schemars", "serde", "strsim"]),
        silent_on: PURE,
    },
    Layer { folder: "crates/random", uses: &[], externals: Externals::Only(&["rand_xoshiro"]), silent_on: PURE },
    Layer {
        folder: "crates/ecc",
        uses: &["random"],
        externals: Externals::AllBut(&[ASYNC, COMMAND, DATABASE, SYSTEM]),
        silent_on: PURE,
    },
    // System calls that open files and the words of their errors, and nothing else of the system's; libraries that applications link use it, too.
    Layer { folder: "crates/foreign", uses: &[], externals: Externals::Only(&["libc"]), silent_on: QUIET },
    // Journals, of which the libraries that applications link write one, too.
    Layer {
        folder: "crates/journal",
        uses: &["foreign", "model"],
        externals: Externals::Only(&["libc", "serde", "serde_json"]),
        silent_on: QUIET,
    },
    // Reads. Of the two that meet the kernel it is the lower one: a system call that acts mostly reads a file first, and no reader acts.
    Layer { folder: "crates/hostfs", uses: &["foreign", "model"], externals: LIBRARY, silent_on: READERS },
    Layer { folder: "crates/sys", uses: &["foreign", "hostfs", "model"], externals: LIBRARY, silent_on: READERS },
    // Services of others: HTTP with TLS. Apart from `sys`, so that only those who ask wait for it to be built.
    Layer {
        folder: "crates/outside",
        uses: &["foreign", "model", "hostfs", "sys"],
        externals: LIBRARY,
        silent_on: READERS,
    },
    // What can be set of a watch. It changes nothing, and knows none of those who use the values.
    Layer {
        folder: "crates/settings",
        uses: &["foreign", "model"],
        externals: Externals::Only(&["thiserror", "toml"]),
        silent_on: READERS,
    },
    Layer { folder: "crates/probes", uses: &["foreign", "model"], externals: LIBRARY, silent_on: QUIET },
    // What reports of raisers say: of `hostfs` it has lists of cores.
    Layer { folder: "crates/who", uses: &["hostfs", "model"], externals: Externals::Only(&[]), silent_on: PURE },
    Layer { folder: "crates/inloop", uses: &["foreign"], externals: Externals::Only(&["libc"]), silent_on: QUIET },
    // Of ours also `inloop`, whose rings hold the gaps that polling threads note themselves; it uses nothing of ours.
    Layer {
        folder: "crates/stall",
        uses: &["foreign", "model", "hostfs", "sys", "probes", "inloop", "who"],
        externals: LIBRARY,
        silent_on: READERS,
    },
    Layer {
        folder: "crates/memory",
        uses: &["foreign", "journal", "model", "hostfs", "sys", "outside", "probes", "random"],
        externals: LIBRARY,
        silent_on: READERS,
    },
    Layer {
        folder: "crates/interfaces",
        uses: &["foreign", "journal", "model", "hostfs", "sys"],
        externals: LIBRARY,
        silent_on: READERS,
    },
    Layer { folder: "crates/disturb", uses: FEATURES, externals: LIBRARY, silent_on: READERS },
    // Bytes and their files. Which tier they are in, and when they were written, is for others to know.
    Layer {
        folder: "crates/heal",
        uses: &["ecc", "foreign"],
        externals: LIBRARY,
        silent_on: &[PRINTING, ASYNC_CODE, BY_NAME, CLOCK],
    },
    // Decisions alone: whoever calls it brings what it knows.
    Layer { folder: "crates/placement", uses: &["model"], externals: Externals::Only(&[]), silent_on: PURE },
    Layer {
        folder: "crates/checkpoint",
        uses: &["ecc", "foreign", "heal", "journal", "model", "placement", "random"],
        externals: LIBRARY,
        silent_on: QUIET,
    },
    // Of ours also `hostfs` and `sys`, whose clock, task states and packet sockets it needs where it runs beside a real clock.
    Layer { folder: "crates/nic", uses: &["model", "hostfs", "sys", "random"], externals: LIBRARY, silent_on: QUIET },
    // Of ours also `sys`, which runs programs with limits, and `outside`, in `act` alone (decision 0014).
    Layer {
        folder: "crates/remedy",
        uses: &["foreign", "model", "hostfs", "sys", "outside", "random"],
        externals: LIBRARY,
        silent_on: QUIET,
    },
    Layer {
        folder: "crates/store",
        uses: &["foreign", "model"],
        externals: Externals::AllBut(&[COMMAND, &["axum", "hyper", "hyper-util"]]),
        silent_on: &[PRINTING, BY_NAME],
    },
    // What two servers share. It knows no room and no case.
    Layer {
        folder: "crates/http",
        uses: &["foreign", "hostfs", "sys", "model"],
        externals: Externals::AllBut(&[COMMAND, DATABASE]),
        silent_on: &[PRINTING, BY_NAME],
    },
    // The fleet's side of remedies, and the agents'. It watches nothing.
    Layer {
        folder: "crates/controller",
        uses: &["foreign", "http", "journal", "model", "hostfs", "outside", "remedy", "store"],
        externals: Externals::AllBut(&[COMMAND]),
        silent_on: &[PRINTING, BY_NAME],
    },
    // What is known, found and said of a host. Of ours also the features whose words it has. Who looks at a machine or serves a page is elsewhere.
    Layer {
        folder: "crates/rooms",
        uses: &["model", "settings", "memory", "nic", "who"],
        externals: Externals::Only(&["ring", "schemars", "serde", "serde_json", "thiserror", "time"]),
        silent_on: &[PRINTING, ASYNC_CODE, WORLD, SERVING],
    },
    Layer {
        folder: "crates/daemon",
        uses: &[
            "foreign",
            "http",
            "journal",
            "model",
            "hostfs",
            "sys",
            "outside",
            "probes",
            "stall",
            "who",
            "memory",
            "interfaces",
            "disturb",
            "ecc",
            "checkpoint",
            "nic",
            "remedy",
            "rooms",
            "settings",
            "store",
        ],
        externals: Externals::AllBut(&[COMMAND]),
        silent_on: &[PRINTING, BY_NAME],
    },
    // What a program in a terminal prints, of any feature. Of ours also `store`, which opens the files that options name.
    Layer {
        folder: "crates/console",
        uses: &["model", "hostfs", "sys", "store"],
        externals: Externals::AllBut(&[ASYNC, DATABASE, &["clap"]]),
        silent_on: &[ASYNC_CODE, BY_NAME],
    },
    // The live screen. Of ours also `store`, from whose history it shows moments of the past.
    Layer {
        folder: "crates/terminal",
        uses: &["console", "hostfs", "sys", "model", "store"],
        externals: Externals::Only(&["ratatui-core", "unicode-width"]),
        silent_on: QUIET,
    },
    // Experiments that are kept. Of ours also the store of recordings, and the rooms, whose state the page of HTML shows.
    Layer {
        folder: "crates/experiment",
        uses: &["foreign", "journal", "model", "hostfs", "disturb", "store", "console", "random", "rooms"],
        externals: Externals::AllBut(&[ASYNC, DATABASE, &["clap"]]),
        silent_on: QUIET,
    },
    Layer {
        folder: "crates/cli",
        uses: &[
            "random",
            "console",
            "experiment",
            "foreign",
            "journal",
            "model",
            "hostfs",
            "sys",
            "outside",
            "probes",
            "stall",
            "who",
            "memory",
            "interfaces",
            "disturb",
            "ecc",
            "heal",
            "checkpoint",
            "nic",
            "remedy",
            "rooms",
            "settings",
            "store",
            "terminal",
            "controller",
            "daemon",
        ],
        externals: Externals::AllBut(&[ASYNC, DATABASE]),
        silent_on: &[ASYNC_CODE, BY_NAME],
    },
    // What other languages link: it hands on the libraries, and holds no MPI, whose binary interface is not ours.
    Layer { folder: "bindings/c", uses: &["checkpoint"], externals: LIBRARY, silent_on: QUIET },
    Layer { folder: "bindings/nic-c", uses: &["nic", "hostfs"], externals: LIBRARY, silent_on: QUIET },
    Layer {
        folder: "crates/testkit",
        uses: &["model", "hostfs", "sys", "outside", "random"],
        externals: LIBRARY,
        silent_on: &[],
    },
    // Of the sources of `nic`, which it copies, the dependencies.
    Layer { folder: "crates/nic-mutants", uses: &["hostfs", "sys"], externals: LIBRARY, silent_on: &[] },
    Layer { folder: "e2e", uses: TOOLS, externals: Externals::AllBut(&[ASYNC]), silent_on: &[] },
    Layer { folder: "bench", uses: TOOLS, externals: Externals::AllBut(&[ASYNC]), silent_on: &[] },
    Layer { folder: "fuzz", uses: TOOLS, externals: Externals::AllBut(&[ASYNC]), silent_on: &[] },
    Layer { folder: "xtask", uses: &[], externals: Externals::Only(&["serde_json"]), silent_on: &[] },
];

/// What the end-to-end tests and the benchmarks may use: everything, and nobody may use them.
const TOOLS: &[&str] = &[
    "random",
    "console",
    "foreign",
    "journal",
    "model",
    "hostfs",
    "sys",
    "outside",
    "probes",
    "inloop",
    "stall",
    "who",
    "memory",
    "interfaces",
    "disturb",
    "ecc",
    "heal",
    "checkpoint",
    "nic",
    "remedy",
    "rooms",
    "store",
    "http",
    "controller",
    "daemon",
    "testkit",
];

/// Crates that are used where no kernel program can be loaded: they reach libbpf through no other crate, either.
const WITHOUT_PROBES: &[&str] = &["who", "rooms"];
const LIBBPF: &[&str] = &["libbpf-rs", "libbpf-sys"];

/// Checks the manifests and sources of the workspace against the table.
pub fn check(workspace: &Workspace) -> Result<Checked, String> {
    let members = workspace.members()?;
    let mut faults = faults_in_manifests(&members, &workspace.root);
    faults.extend(faults_in_reach(&members));
    let Some(files) = workspace.files() else {
        return Ok(Checked::NotRun("this is not a git checkout, and the sources are listed by git".into()));
    };
    for file in &files {
        if let Some(text) = source_layer(file).and_then(|_| workspace.text(file)) {
            faults.extend(faults_in_source(file, &text));
            faults.extend(storeys::faults_in(file, &text));
        }
    }
    Ok(Checked::from_faults(
        faults,
        format!("{} crates keep their layers, and their modules their storeys", members.len()),
    ))
}

fn layer_of(folder: &Path) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| Path::new(layer.folder) == folder)
}

fn faults_in_manifests(members: &[Package], root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    for member in members {
        let folder = member.folder.strip_prefix(root).unwrap_or(&member.folder);
        let Some(layer) = layer_of(folder) else {
            faults.push(format!("{} has no row in the table of xtask/src/layers.rs", folder.display()));
            continue;
        };
        let short = layer.folder.rsplit('/').next().unwrap_or(layer.folder);
        if member.name != format!("surefoot-{short}") {
            faults
                .push(format!("the package in {} must be called surefoot-{short}, not {}", layer.folder, member.name));
        }
        for dependency in &member.dependencies {
            let name = &dependency.name;
            let allowed = match name.strip_prefix("surefoot-") {
                Some(ours) => {
                    layer.uses.contains(&ours) || (dependency.development && ["testkit", "random"].contains(&ours))
                }
                None => dependency.development || layer.externals.allow(name),
            };
            if !allowed {
                let kind = if dependency.development { " even in its tests" } else { "" };
                faults.push(format!("{} must not use {name}{kind}", layer.folder));
            }
        }
    }
    faults
}

fn faults_in_reach(members: &[Package]) -> Vec<String> {
    let chains = WITHOUT_PROBES.iter().filter_map(|short| chain_to(LIBBPF, &format!("surefoot-{short}"), members));
    chains.map(|chain| format!("{} must not reach libbpf: {}", chain[0], chain.join(" uses "))).collect()
}

/// A chain of dependencies, those of tests aside, from a package to one of these.
fn chain_to(ends: &[&str], from: &str, members: &[Package]) -> Option<Vec<String>> {
    if ends.contains(&from) {
        return Some(vec![from.to_owned()]);
    }
    let package = members.iter().find(|member| member.name == from)?;
    let mut used = package.dependencies.iter().filter(|dependency| !dependency.development);
    let mut rest = used.find_map(|dependency| chain_to(ends, &dependency.name, members))?;
    rest.insert(0, from.to_owned());
    Some(rest)
}

impl Externals {
    fn allow(&self, name: &str) -> bool {
        match self {
            Externals::Only(names) => names.contains(&name),
            Externals::AllBut(groups) => !groups.iter().any(|group| group.contains(&name)),
        }
    }
}

/// Modules that are compiled for tests only.
pub const TEST_FILES: &[&str] = &["schema.rs", "tests.rs"];

/// The layer of a shipped source file; not of tests, examples and build scripts.
fn source_layer(file: &Path) -> Option<&'static Layer> {
    let name = file.file_name()?.to_str()?;
    if file.extension()? != "rs" || TEST_FILES.contains(&name) || name.ends_with("_tests.rs") {
        return None;
    }
    LAYERS.iter().find(|layer| file.starts_with(Path::new(layer.folder).join("src")))
}

fn faults_in_source(file: &Path, text: &str) -> Vec<String> {
    let Some(layer) = source_layer(file) else { return Vec::new() };
    let mut faults = Vec::new();
    let code = rust_text::code_only(&rust_text::without_tests(text));
    for (number, line) in code.lines().enumerate() {
        if line.contains(OPENING) && !file.starts_with(OPENED_IN) {
            faults.push(format!("{}:{}: '{OPENING}' belongs to {OPENED_IN}", file.display(), number + 1));
        }
        for words in layer.silent_on {
            if let Some(word) = words.any_of.iter().find(|word| contains_word(line, word)) {
                faults.push(format!("{}:{}: '{word}': {}", file.display(), number + 1, words.why));
            }
        }
    }
    faults
}

/// Whether the line has the words where no longer name ends in them.
fn contains_word(line: &str, words: &str) -> bool {
    line.match_indices(words).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::packages_in;

    fn faults(folder: &str, name: &str, dependencies: &[(&str, Option<&str>)]) -> Vec<String> {
        let dependencies: Vec<_> =
            dependencies.iter().map(|(name, kind)| serde_json::json!({ "name": name, "kind": kind })).collect();
        let metadata = serde_json::json!({ "packages": [{
            "name": name, "version": "0.1.0", "license": "MIT",
            "manifest_path": format!("/src/{folder}/Cargo.toml"), "dependencies": dependencies,
        }]});
        faults_in_manifests(&packages_in(&metadata.to_string()).unwrap(), Path::new("/src"))
    }

    #[test]
    fn a_crate_within_its_layer_has_no_fault() {
        let found = faults(
            "crates/stall",
            "surefoot-stall",
            &[("surefoot-model", None), ("libc", None), ("surefoot-testkit", Some("dev")), ("tokio", Some("dev"))],
        );
        assert_eq!(found, Vec::<String>::new());
        assert!(faults("e2e", "surefoot-e2e", &[("surefoot-testkit", None)]).is_empty());
        assert!(faults("crates/daemon", "surefoot-daemon", &[("tokio", None), ("surefoot-store", None)]).is_empty());
    }

    #[test]
    fn a_feature_crate_must_not_use_the_store_or_another_feature() {
        let found = faults("crates/stall", "surefoot-stall", &[("surefoot-store", None), ("surefoot-memory", None)]);
        assert_eq!(found, ["crates/stall must not use surefoot-store", "crates/stall must not use surefoot-memory"]);
        let found = faults("crates/hostfs", "surefoot-hostfs", &[("surefoot-probes", Some("dev"))]);
        assert_eq!(found, ["crates/hostfs must not use surefoot-probes even in its tests"]);
        // `sys` reads through `hostfs`, and no reader acts.
        assert!(faults("crates/sys", "surefoot-sys", &[("surefoot-hostfs", None)]).is_empty());
        let found = faults("crates/hostfs", "surefoot-hostfs", &[("surefoot-sys", Some("dev"))]);
        assert_eq!(found, ["crates/hostfs must not use surefoot-sys even in its tests"]);
    }

    #[test]
    fn a_room_reads_nothing_serves_nothing_and_opens_no_filtered_answer() {
        let of = |folder: &str, line: &str| faults_in_source(&Path::new(folder).join("nic/state.rs"), line).len();
        for line in
            ["std::fs::read(path)", "let now = Instant::now();", "fn of(uri: &Uri)", "println!()", "seen.into_answer()"]
        {
            assert_eq!(of("crates/rooms/src", line), 1, "{line}");
        }
        assert_eq!(of("crates/rooms/src", "let now_ns = moment.now_ns;"), 0);
        let opening = "seen.into_answer()";
        assert_eq!((of("crates/daemon/src/rooms", opening), of("crates/daemon/src/http", opening)), (1, 0));
        for user in ["surefoot-hostfs", "surefoot-http", "surefoot-daemon", "axum"] {
            assert_eq!(faults("crates/rooms", "surefoot-rooms", &[(user, None)]).len(), 1, "{user}");
        }
        assert!(faults("crates/rooms", "surefoot-rooms", &[("surefoot-memory", None)]).is_empty());
    }

    #[test]
    fn rooms_reach_no_kernel_program_through_another_crate() {
        let package = |name: &str, used: &[(&str, bool)]| Package {
            name: format!("surefoot-{name}"),
            version: String::new(),
            licence: None,
            folder: "".into(),
            dependencies: used
                .iter()
                .map(|&(name, development)| crate::workspace::Dependency { name: name.into(), development })
                .collect(),
        };
        let through = |memory: (&str, bool)| {
            let probes = package("probes", &[("libbpf-rs", false)]);
            let rooms = package("rooms", &[("surefoot-model", false), ("surefoot-memory", false)]);
            faults_in_reach(&[rooms, package("memory", &[memory]), package("who", &[]), probes])
        };
        let found = through(("surefoot-probes", false));
        assert_eq!(
            found,
            [
                "surefoot-rooms must not reach libbpf: surefoot-rooms uses surefoot-memory uses surefoot-probes uses libbpf-rs"
            ]
        );
        assert_eq!(through(("surefoot-probes", true)), [""; 0], "a dependency of tests");
        assert_eq!(through(("surefoot-hostfs", false)), [""; 0]);
    }

    #[test]
    fn nobody_may_use_the_command_and_testkit_is_for_tests() {
        assert_eq!(faults("crates/daemon", "surefoot-daemon", &[("surefoot-cli", None)]).len(), 1);
        assert_eq!(faults("e2e", "surefoot-e2e", &[("surefoot-cli", None)]).len(), 1);
        assert_eq!(faults("crates/cli", "surefoot-cli", &[("surefoot-testkit", None)]).len(), 1);
        assert_eq!(faults("crates/cli", "surefoot-cli", &[("surefoot-testkit", Some("build"))]).len(), 1);
    }

    #[test]
    fn async_stays_in_daemon_and_store_and_the_model_stays_plain() {
        for (folder, name) in [("crates/stall", "surefoot-stall"), ("crates/cli", "surefoot-cli")] {
            assert_eq!(faults(folder, name, &[("tokio", None)]), [format!("{folder} must not use tokio")]);
        }
        assert_eq!(faults("crates/model", "surefoot-model", &[("serde", None), ("libc", None)]).len(), 1);
        assert_eq!(faults("crates/store", "surefoot-store", &[("anyhow", None)]).len(), 1);
    }

    #[test]
    fn what_follows_links_is_a_fault_but_in_tests() {
        let said = |file: &str, text: &str| faults_in_source(Path::new(file), text).len();
        for text in ["std::fs::write(path, x)?;", "    fs::chown(&path, None, None)?;", "File::create(path)?;"] {
            assert_eq!(said("crates/cli/src/ecc.rs", text), 1, "{text}");
            assert_eq!(said("crates/cli/src/ecc/tests.rs", text), 0);
            assert_eq!(said("crates/cli/src/drive_tests.rs", text), 0);
        }
        assert_eq!(said("crates/heal/src/sidecar/dress.rs", "unix::fs::fchown(new, owner, group);"), 0);
    }

    #[test]
    fn a_crate_without_a_row_or_with_a_strange_name_is_a_fault() {
        assert!(faults("crates/helpers", "surefoot-helpers", &[])[0].contains("has no row"));
        assert!(faults("crates/model", "model", &[])[0].contains("must be called surefoot-model"));
    }

    #[test]
    fn sources_keep_quiet_where_they_must() {
        let source = "//! println!(\nfn a() {\n    println!(\"hello\");\n}\n#[cfg(test)]\nmod tests { fn b() { println!(); } }\n";
        let found = faults_in_source(Path::new("crates/stall/src/lib.rs"), source);
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("crates/stall/src/lib.rs:3: "), "{found:?}");
        assert!(faults_in_source(Path::new("crates/cli/src/main.rs"), source).is_empty());
        assert_eq!(faults_in_source(Path::new("crates/model/src/a.rs"), "let now = Instant::now();").len(), 1);
        assert_eq!(
            faults_in_source(Path::new("crates/heal/src/a.rs"), "stamp.unwrap_or_else(SystemTime::now)").len(),
            1
        );
        assert!(faults_in_source(Path::new("crates/model/build.rs"), "println!()").is_empty());
        for number in ["word.parse::<u64>()", "word.trim().parse().ok()", "u8::from_str_radix(word, 16)"] {
            assert_eq!(faults_in_source(Path::new("crates/memory/src/a.rs"), number).len(), 1, "{number}");
        }
        assert!(faults_in_source(Path::new("crates/memory/src/a.rs"), "word.parse::<Step>()").is_empty());
    }
}
