//! The developer's commands behind `make`: checks, tests, the page, the benchmarks.
//!
//! `cargo xtask help` lists them. Each check is also a step of `cargo xtask test`, which ends with one line
//! `N passed, N failed, N skipped` and exit code 0 only if nothing failed. Nothing here is shipped.

mod counts;
mod fuzz;
mod fuzz_lock;
mod header;
mod judge;
mod layers;
mod licences;
mod links;
mod openings;
mod page;
mod patterns;
mod producers;
mod rooms;
mod rust_text;
mod spdx;
mod storeys;
mod suite;
mod tidy;
mod words;
mod workspace;

use std::process::ExitCode;
use workspace::Workspace;

const HELP: &str = "\
cargo xtask COMMAND

  test      every check and every test; ends with N passed, N failed, N skipped
  lint      the checks alone, without running tests
  layers    who may use whom among the crates, and among the modules of some
  licences  the licence of every dependency
  tidy      the house rules that a text search can check
  links     the links between the documents
  producers every variant of every event is made somewhere outside of model and tests
  words     phrases that mark a translated sentence, in texts that people read
  rooms     which files a new room touches outside its own folders
  header    make the C header of the checkpoints anew from its sources
  ui        build the web page anew into ui/dist
  guest     the tests that boot another kernel in QEMU, alone
  kubernetes the tests with a real Kubernetes API server, alone
  prometheus the tests with real Prometheus servers, alone
  soak      10,000 seeded runs of checkpoints that are killed and go bad, of the engine of remedies with faults, and all planted faults of the interface
  fuzz      what strangers write, with coverage: [--sanitize] [--keep] [SECONDS] [TARGET...], a table of executions
  oracle    the ledger against time lines rebuilt from the kernel's own trace, a table per load; as root, some 3 minutes
  bench     measure side by side with other tools (make bench)
  help      this list
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = arguments.first().map_or("help", String::as_str);
    if !matches!(command, "bench" | "fuzz") && arguments.len() > 1 {
        eprintln!("cargo xtask {command} takes no options, and was given '{}'", arguments[1]);
        return ExitCode::from(2);
    }
    let workspace = Workspace::here();
    match command {
        "test" => suite::test(&workspace),
        "lint" => suite::lint(&workspace),
        "layers" => suite::one(&workspace, "layers", layers::check),
        "licences" => suite::one(&workspace, "licences", licences::check),
        "tidy" => suite::one(&workspace, "tidy", tidy::check),
        "links" => suite::one(&workspace, "links", links::check),
        "producers" => suite::one(&workspace, "producers", producers::check),
        "words" => suite::one(&workspace, "words", words::check),
        "rooms" => suite::one(&workspace, "rooms", rooms::check),
        "header" => header::write(&workspace),
        "ui" => page::build(&workspace),
        "guest" => suite::guest(&workspace),
        "kubernetes" => suite::kubernetes(&workspace),
        "prometheus" => suite::prometheus(&workspace),
        "soak" => suite::soak(&workspace),
        "fuzz" => fuzz::run(&workspace, &arguments[1..]),
        "oracle" => suite::oracle(&workspace),
        "bench" => suite::bench(&workspace, &arguments[1..]),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("cargo xtask has no command '{command}'\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}
