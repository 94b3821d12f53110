//! `surefoot-bench checkpoint`: the paper's microbenchmark with real ranks, small; what cannot run here; tiers.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use surefoot_e2e::command::{PATIENCE, Surefoot, benchmark, benchmarks};
use surefoot_e2e::machine::{Need, has_program, turn};
use surefoot_testkit::not_run::not_run;

/// Where the tiers of a run are, and its files.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        for tier in ["memory", "ssd"] {
            std::fs::create_dir(home.path().join(tier)).unwrap();
        }
        Place(home)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().join(below)
    }

    fn paper(&self, words: &str) -> Surefoot {
        let run = benchmark("checkpoint --paper").words(words);
        run.arg("--memory")
            .arg(self.path("memory"))
            .arg("--durable")
            .arg(self.path("ssd"))
            .arg("--library")
            .arg(library())
    }

    fn is_as_before(&self) -> bool {
        ["memory", "ssd"].iter().all(|tier| std::fs::read_dir(self.path(tier)).unwrap().next().is_none())
    }
}

/// The library that programs link, of this tree.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // Whoever names the command has built all of the tree, and the library then lies beside this test. Another
        // build, with other features, would write over it while the tests of the bindings load it.
        let beside = std::env::current_exe().unwrap().with_file_name("libsurefoot.so");
        if std::env::var_os("SUREFOOT_BIN").is_some() && beside.is_file() {
            return beside;
        }
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--package", "surefoot-c", "--message-format=json"])
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
            .output()
            .expect("cargo builds the library");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let said = String::from_utf8_lossy(&built.stdout);
        let messages = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let files = messages.flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
        let found =
            files.filter_map(|file| file.as_str().map(PathBuf::from)).find(|file| file.ends_with("libsurefoot.so"));
        found.expect("cargo says where the library is")
    })
}

fn has_mpi(test: &str) -> bool {
    let missing = ["mpicc", "mpirun"].into_iter().find(|program| !has_program(program));
    if let Some(program) = missing {
        not_run(test, &format!("there is no {program}; install Open MPI (libopenmpi-dev, openmpi-bin)"));
    }
    missing.is_none()
}

/// The rows of a CSV file, each with its columns by name.
fn rows(text: &str) -> Vec<Vec<(String, String)>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), names.len(), "{line}");
        names.iter().zip(cells).map(|(name, cell)| ((*name).to_owned(), cell.to_owned())).collect()
    };
    lines.map(row).collect()
}

fn cell<'a>(row: &'a [(String, String)], name: &str) -> &'a str {
    &row.iter().find(|(known, _)| known == name).unwrap().1
}

fn number(row: &[(String, String)], name: &str) -> f64 {
    cell(row, name).parse().unwrap_or_else(|error| panic!("{name} of {row:?}: {error}"))
}

const POLICIES: [&str; 8] =
    ["never", "memory", "durable", "paper-every:10", "paper-performance", "surefoot", "surefoot-when-due", "plain"];

#[test]
fn the_paper_s_microbenchmark_runs_and_adds_up() {
    let test = "the_paper_s_microbenchmark_runs_and_adds_up";
    let Some(_turn) = turn(test, Need::Nothing) else { return };
    if !has_mpi(test) {
        return;
    }
    let place = Place::new();
    let (csv, svg) = (place.path("runs.csv"), place.path("figures.svg"));
    let finished = place
        .paper("--ranks 2 --iterations 4 --sizes-mb 20,10 --scale 1/100 --ssd-mb-s 2 --json")
        .arg(format!("--policies={}", POLICIES.join(",")))
        .arg("--csv")
        .arg(&csv)
        .arg("--svg")
        .arg(&svg)
        .run();
    finished.expect_code(0);
    assert!(place.is_as_before(), "what was made in the tiers is gone");

    let rows = rows(&std::fs::read_to_string(&csv).unwrap());
    assert_eq!(rows.len(), POLICIES.len() * 2);
    for row in &rows {
        adds_up(row);
    }
    let lines = finished.json_lines();
    let figure = |policy: &str, name: &str| {
        let is_it = |line: &&Value| {
            line["figure"] == name
                && line["policy"] == policy
                && line["size_bytes"].is_null()
                && line["type"] == "figure"
        };
        let found: Vec<&Value> = lines.iter().filter(is_it).collect();
        assert_eq!(found.len(), 1, "{policy} {name}");
        found[0].clone()
    };
    assert_eq!(figure("memory", "ssd_share")["median"], 0.0);
    assert_eq!(figure("durable", "ssd_share")["median"], 100.0);
    assert!(figure("never", "interval_s")["median"].is_null() && figure("plain", "drive_years")["median"].is_null());
    assert!(figure("surefoot", "durable_age_s")["median"].as_f64().unwrap() > 0.0);
    // The model of the SSD alone needs nothing that was measured: 80 MB and 160 MB at 2 MB/s after 5 s of work.
    let modelled = figure("durable", "slowdown")["model"].as_f64().unwrap();
    assert!((modelled - (1.0 + (40.0 + 80.0) / 2.0 / 5.0)).abs() < 1e-9, "{modelled}");
    let checks: Vec<&Value> = lines.iter().filter(|line| line["type"] == "check").collect();
    let cap = checks.iter().find(|check| check["at_most"] == 2.0).unwrap();
    assert_eq!(cap["is_met"], true, "{cap}");
    let picture = std::fs::read_to_string(&svg).unwrap();
    assert!(picture.starts_with("<svg ") && POLICIES.iter().all(|policy| picture.contains(&format!(">{policy}<"))));
}

/// Holds a run to its own bytes and counts, and to the time that so many bytes take at the capped speed at least.
fn adds_up(row: &[(String, String)]) {
    const SCALE: f64 = 0.01;
    const ITERATIONS: f64 = 4.0;
    // So low that no disk and no busy machine is slower.
    const SSD_BYTES_PER_S: f64 = 2e6;
    let node_bytes = number(row, "node_bytes");
    assert_eq!(node_bytes, 8.0 * number(row, "size_bytes"));
    let run_s = number(row, "slowdown") * ITERATIONS * 5.0 * SCALE;
    let on_ssd = number(row, "ssd_share") * ITERATIONS;
    let ssd_bytes = number(row, "ssd_bytes_per_s") * run_s;
    assert!((ssd_bytes - on_ssd * node_bytes * SCALE).abs() <= 1e-6 * ssd_bytes, "{row:?}");
    assert_eq!(number(row, "failed_count"), 0.0, "{row:?}");
    let (expected, skipped) = match cell(row, "policy") {
        "never" => (Some(0.0), 1.0),
        "durable" => (Some(4.0), 0.0),
        "memory" | "plain" | "paper-every:10" => (Some(0.0), 0.0),
        "surefoot-when-due" => (None, number(row, "skipped_share")),
        _ => (None, 0.0),
    };
    assert!(expected.is_none_or(|expected| expected == on_ssd), "{row:?}");
    assert_eq!(number(row, "skipped_share"), skipped, "{row:?}");
    if cell(row, "policy") == "durable" {
        let least_s = ITERATIONS * (5.0 * SCALE + node_bytes * SCALE / SSD_BYTES_PER_S);
        assert!(run_s >= least_s, "{run_s} s for what takes {least_s} s: {row:?}");
        let years = number(row, "drive_years");
        assert!((years * number(row, "ssd_bytes_per_s") * 31_557_600.0 / 14.6e15 - 1.0).abs() < 1e-9, "{row:?}");
    }
}

#[test]
fn tables_say_how_many_rounds_and_what_was_not_run() {
    let test = "tables_say_how_many_rounds_and_what_was_not_run";
    let Some(_turn) = turn(test, Need::Nothing) else { return };
    if !has_mpi(test) {
        return;
    }
    let place = Place::new();
    let finished = place
        .paper("--ranks 2 --iterations 2 --sizes-mb 10 --scale 1/100 --rounds 2 --policies plain,surefoot,paper")
        .run();
    finished.expect_code(0);
    let text = &finished.stdout;
    assert!(text.contains("Medians of 2 rounds") && text.contains("surefoot / plain writes"), "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("plain ")).count(), 8, "{text}");
    let limited = text.lines().filter(|line| line.starts_with("paper ")).count();
    assert!(limited == 8 || text.contains("Not run: paper: memory of limited size"), "{text}");
    assert!(place.is_as_before());
}

#[test]
fn an_interrupted_bench_leaves_nothing_behind() {
    let test = "an_interrupted_bench_leaves_nothing_behind";
    let Some(_turn) = turn(test, Need::Nothing) else { return };
    if !has_mpi(test) {
        return;
    }
    let place = Place::new();
    let running = place.paper("--ranks 2 --iterations 1000 --sizes-mb 10 --scale 1/50 --policies surefoot").start();
    let until = Instant::now() + PATIENCE;
    let is_under_way = || walk(&place.path("memory")).iter().any(|path| path.ends_with("slot-0.image"));
    while !is_under_way() {
        assert!(Instant::now() < until, "no checkpoint came: {}", running.stderr());
        std::thread::sleep(Duration::from_millis(20));
    }
    running.ask_to_end();
    let finished = running.finish();
    finished.expect_code(2);
    assert!(finished.stderr.contains("ended by a signal") && finished.stdout.is_empty(), "{finished:#?}");
    assert!(place.is_as_before());
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn without_mpi_it_says_what_is_missing() {
    let place = Place::new();
    let run = |path: &Path| {
        let mut command = Command::new(benchmarks());
        command.args(["checkpoint", "--paper", "--memory"]).arg(place.path("memory")).env("PATH", path);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = run(&place.path("memory"));
    assert_eq!(code, Some(3), "{said}");
    assert!(said.starts_with("surefoot-bench: unsupported: there is no mpirun; install Open MPI"), "{said}");
    // With a launcher and no compiler.
    let folder = place.path("programs");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink("/bin/true", folder.join("mpirun")).unwrap();
    let (code, said) = run(&folder);
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("unsupported: there is no mpicc"), "{said}");
    assert!(place.is_as_before());
}

#[test]
fn impossible_benches_are_refused_by_name() {
    let bench = |words: &str| benchmark("checkpoint").words(words).run();
    bench("").expect_code(2);
    bench("--paper /tmp").expect_refusal(2, &["--paper", "--memory and --durable"]);
    bench("--paper --size 1MB").expect_refusal(2, &["--paper", "--sizes-mb"]);
    bench("--ranks 2 /tmp").expect_code(2);
    for (words, said) in [
        ("--paper --scale 2", ["--scale", "1/50"]),
        ("--paper --scale 1/0", ["--scale", "1/50"]),
        ("--paper --ranks 0", ["--ranks", "0"]),
        ("--paper --ranks 65", ["--ranks", "65"]),
        ("--paper --iterations 0", ["--iterations", "0"]),
        ("--paper --sizes-mb 0", ["--sizes-mb", "0"]),
        ("--paper --policies moon", ["'moon'", "surefoot-when-due"]),
        ("--paper --svg /nowhere/x", ["--svg", "/nowhere/x"]),
        ("--size 1TB /tmp", ["--size", "64.0 GB"]),
        ("/nowhere", ["/nowhere", "No such file"]),
    ] {
        bench(words).expect_refusal(2, &said);
    }
    if has_mpi("impossible_benches_are_refused_by_name") {
        bench("--paper --library /nowhere/x.so").expect_refusal(2, &["--library", "/nowhere/x.so"]);
        let place = Place::new();
        place.paper("--scale 1 --sizes-mb 100000000").run().expect_refusal(2, &["--memory", "smaller --scale"]);
        let no_library = place.path("x.so");
        std::fs::write(&no_library, "no library").unwrap();
        let finished = benchmark("checkpoint --paper --library").arg(&no_library).run();
        finished.expect_refusal(3, &["unsupported", "cannot be linked"]);
    }
}

#[test]
fn the_tiers_of_a_directory_are_measured() {
    let Some(_turn) = turn("the_tiers_of_a_directory_are_measured", Need::Nothing) else { return };
    let place = Place::new();
    let finished = benchmark("checkpoint --size 2MB --rounds 3 --json").arg(place.path("ssd")).run();
    finished.expect_code(0);
    let lines = finished.json_lines();
    let of = |measure: &str| lines.iter().find(|line| line["measure"] == measure).cloned();
    let checkpoint = of("checkpoint").unwrap();
    assert_eq!((&checkpoint["round_count"], &checkpoint["size_bytes"]), (&3.into(), &2_000_000.into()));
    let ratio = checkpoint["median_s"].as_f64().unwrap()
        / of(checkpoint["against"].as_str().unwrap()).unwrap()["median_s"].as_f64().unwrap();
    assert!((checkpoint["ratio"].as_f64().unwrap() - ratio).abs() < 1e-9);
    assert!(of("restart").is_some() && place.is_as_before());
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        let text = benchmark("checkpoint --size 2MB --rounds 1").arg(memory).run().stdout;
        assert!(text.contains("(memory, on tmpfs)") && text.contains("For plan: --memory-bytes-per-s"), "{text}");
    }
}
