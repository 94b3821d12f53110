//! `surefoot nic campaign` and `inject`: files that go on where they ended, shards that are the whole, what is refused.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn nic(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_surefoot")).arg("nic").args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn campaign(output: &Path, more: &[&str]) -> Output {
    let output = output.to_str().unwrap();
    let usual = ["campaign", "--preset", "send-chunk", "--sample", "12", "--seed", "5", "--output", output];
    nic(&[&usual, more].concat())
}

#[test]
fn shards_are_the_whole_and_a_torn_file_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let done = campaign(&at("whole"), &["--json"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let whole = fs::read_to_string(at("whole")).unwrap();
    assert_eq!(whole.lines().count(), 12);
    let mut joined = String::new();
    for part in ["1/3", "2/3", "3/3"] {
        let path = at(&part.replace('/', "-"));
        assert_eq!(campaign(&path, &["--shard", part]).status.code(), Some(0));
        joined += &fs::read_to_string(path).unwrap();
    }
    assert_eq!(joined, whole, "the shards one after the other");
    // Stopped in the middle of the fifth line.
    let fifth = whole.match_indices('\n').nth(4).unwrap().0;
    fs::write(at("torn"), &whole[..fifth - 20]).unwrap();
    assert_eq!(campaign(&at("torn"), &[]).status.code(), Some(0));
    assert_eq!(fs::read_to_string(at("torn")).unwrap(), whole);
    // A second start finds nothing to do, and says the same.
    let again = campaign(&at("whole"), &["--json"]);
    assert_eq!((fs::read_to_string(at("whole")).unwrap(), text(&again.stdout)), (whole.clone(), text(&done.stdout)));
    let paths: Vec<String> = ["1-3", "2-3", "3-3", "whole"].map(|name| at(name).to_str().unwrap().to_owned()).into();
    let report: Vec<&str> =
        ["campaign", "report", "--json"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    let report = text(&nic(&report).stdout);
    assert_eq!(report.lines().last(), text(&done.stdout).lines().last(), "the same table");
    let table: serde_json::Value = serde_json::from_str(report.lines().last().unwrap()).unwrap();
    assert_eq!((table["type"].as_str(), table["fault_count"].as_u64()), (Some("table"), Some(12)));
    let counts: u64 = table["outcomes"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!(counts, 12);
    // And each fault can be replayed, with the same words for it at the end, but for its number, which only a campaign gives.
    let line = whole.lines().find(|line| line.contains("\"hang\"")).unwrap();
    let fault: serde_json::Value = serde_json::from_str(line).unwrap();
    let movie = nic(&["inject", "--json", "--fault", fault["id"].as_str().unwrap()]);
    assert_eq!(movie.status.code(), Some(0), "{}", text(&movie.stderr));
    let movie = text(&movie.stdout);
    let mut replayed: serde_json::Value = serde_json::from_str(movie.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&replayed["number"], &replayed["campaign_fault_count"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    for of_campaign in ["number", "campaign_fault_count", "experiment_crc"] {
        replayed[of_campaign] = fault[of_campaign].clone();
    }
    assert_eq!(replayed, fault);
    assert!(movie.contains("\"scene\":\"struck\"") && movie.contains("\"scene\":\"diverged\""), "{movie}");
}

#[test]
fn a_report_says_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    assert_eq!(campaign(&at("whole"), &[]).status.code(), Some(0));
    let lines: Vec<String> =
        fs::read_to_string(at("whole")).unwrap().split_inclusive('\n').map(str::to_owned).collect();
    // What the report of a file with only these lines says: its exit code, standard output as text, and its table.
    let report = |kept: &[usize]| {
        fs::write(at("part"), kept.iter().map(|&number| lines[number - 1].as_str()).collect::<String>()).unwrap();
        let report = |more: &[&str]| nic(&[&["campaign", "report", at("part").to_str().unwrap()], more].concat());
        let (said, json) = (report(&[]), report(&["--json"]));
        assert_eq!(said.status.code(), json.status.code());
        let table: serde_json::Value = serde_json::from_str(text(&json.stdout).lines().last().unwrap()).unwrap();
        (said.status.code(), text(&said.stdout), text(&said.stderr), table)
    };
    let (code, said, _, table) = report(&(1..=12).collect::<Vec<_>>());
    assert_eq!((code, &table["missing_count"], &table["campaign_fault_count"]), (Some(0), &0.into(), &12.into()));
    assert!(said.contains(": 12 faults, ") && !said.contains("Incomplete"), "{said}");
    // Without the second of three shards, and without the last line.
    let (code, said, error, table) = report(&[1, 2, 3, 4, 9, 10, 11]);
    assert_eq!((code, &table["missing_count"]), (Some(2), &5.into()));
    assert_eq!(table["missing"], serde_json::json!([{ "from": 5, "to": 8 }, { "from": 12, "to": 12 }]));
    assert!(
        said.contains(": 7 faults of 12, ") && said.contains("5 faults are not here: numbers 5 to 8, 12\n"),
        "{said}"
    );
    assert!(error.contains("5 faults are missing") && error.contains("all shards"), "{error}");
    // A shard of another sample is no part of it.
    let other = nic(&["campaign", "--preset", "send-chunk", "--sample", "9", "--seed", "5", "--json"]);
    let other = text(&other.stdout);
    let id = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].clone();
    let here = fs::read_to_string(at("part")).unwrap();
    let is_of_both = |line: &&str| here.lines().any(|one| id(one) == id(line));
    let faults = || other.lines().filter(|line| line.contains("\"fault\""));
    // The same fault has another number there; another fault is one of another number of faults.
    for (line, why) in [
        (faults().find(is_of_both), "the files are of another sample"),
        (faults().find(|line| !is_of_both(line)), "one of 9 faults, those before are of 12"),
    ] {
        fs::write(at("other"), line.unwrap().to_owned() + "\n").unwrap();
        let mixed = nic(&["campaign", "report", at("part").to_str().unwrap(), at("other").to_str().unwrap()]);
        let said = text(&mixed.stderr);
        assert!(mixed.status.code() == Some(2) && said.contains(why), "{said}");
    }
}

#[test]
fn what_cannot_be_is_refused_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("other"), "{\"type\":\"fault\"}\n").unwrap();
    fs::write(at("empty"), "").unwrap();
    fs::write(at("odd.json"), "{\"name\":\"odd\",\"target\":\"code\",\"speed\":3}").unwrap();
    fs::write(at("none.json"), "{\"name\":\"none\",\"target\":{\"function\":\"fly\"}}").unwrap();
    assert_eq!(campaign(Path::new(&at("mine")), &[]).status.code(), Some(0));
    let preset = ["campaign", "--preset", "send-chunk", "--sample", "3"];
    let with = |more: &[&str]| [&preset[..], more].concat().into_iter().map(str::to_owned).collect::<Vec<_>>();
    for (arguments, why) in [
        (vec!["campaign".to_owned()], "no experiment: name one"),
        (with(&["--output", &at("other")]), "is not of a campaign"),
        (with(&["--output", &at("mine")]), "is of another campaign"),
        (with(&["--output", "/dev/full"]), "is not a regular file"),
        (with(&["--shard", "4/3"]), "the parts are 1 to 3"),
        (["campaign", "--preset", "code", "--sample", "0"].map(str::to_owned).into(), "0 is not in 1..=20000000"),
        (["campaign", "--experiment", &at("odd.json")].map(str::to_owned).into(), "unknown field `speed`"),
        (["campaign", "--experiment", &at("none.json")].map(str::to_owned).into(), "no function 'fly'"),
        (["campaign", "report", &at("empty")].map(str::to_owned).into(), "have no fault in them"),
        (["campaign", "report", &at("other")].map(str::to_owned).into(), "line 1 of"),
        (with(&["--program", &at("empty")]), "it is no ELF file"),
        (with(&["--program", "/bin/true"]), "it is not for rv32"),
        (with(&["--program", "/dev/zero"]), "it is not a regular file"),
        (
            ["inject", "--fault", "code:plain:1:code:0x10:3@99999999999"].map(str::to_owned).into(),
            "in the whole run; name one below",
        ),
        (["inject", "--fault", "hello"].map(str::to_owned).into(), "is no fault"),
        (["campaign", "--preset", "code", "--sample", "20000001"].map(str::to_owned).into(), "is not in 1..=20000000"),
        (["inject"].map(str::to_owned).into(), "nothing to inject"),
        (["inject", "--run", "/tmp", "--json"].map(str::to_owned).into(), "--json: a run"),
        (
            ["inject", "--fault", "code:plain:1:code:0x10:3@70000", "--node", "1"].map(str::to_owned).into(),
            "--node: it is of a run",
        ),
        (
            ["inject", "--fault", "send-chunk:plain:1:code:0x10:3@70000"].map(str::to_owned).into(),
            "not in send_chunk_normal_low",
        ),
        (["inject", "--fault", "own:plain:1:code:0x10:3@70000"].map(str::to_owned).into(), "is no preset"),
        (["inject", "--fault", "code:plain:1:code:0x200000:3@70000"].map(str::to_owned).into(), "no bit 3 at 0x200000"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let refused = nic(&arguments);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}

#[test]
fn a_control_program_of_ones_own_is_hit_like_the_one_that_comes_with_surefoot() {
    let sample = ["campaign", "--preset", "send-chunk", "--sample", "6", "--json"];
    let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../firmware/ncp/built/detecting.elf");
    let run = |more: &[&str]| {
        let out = nic(&[&sample[..], more].concat());
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        text(&out.stdout)
    };
    let usual = run(&[]);
    assert_eq!(run(&["--program", built]), usual, "it is the same one");
    // With another one, no file goes on with what belongs to this one.
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other.elf");
    let mut bytes = fs::read(built).unwrap();
    // The last byte of the first segment: a constant that nobody reads here, or padding.
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let header = word(28);
    let last = word(header + 4) + word(header + 16) - 1;
    bytes[last] ^= 1;
    fs::write(&other, &bytes).unwrap();
    let digest = |text: &str| {
        text.lines()
            .find(|line| line.contains("experiment_crc"))
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["experiment_crc"].as_u64())
    };
    assert_ne!(digest(&run(&["--program", other.to_str().unwrap()])), digest(&usual));
}

#[test]
fn blocks_end_with_their_sum() {
    let blocks = text(&nic(&["campaign", "blocks", "--preset", "send-chunk", "--json"]).stdout);
    let lines: Vec<serde_json::Value> = blocks.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let sum = lines.last().unwrap();
    let count = |of: &str| lines.iter().filter(|line| line["type"] == "block" && line[of] == true).count() as u64;
    assert_eq!((sum["type"].as_str(), sum["used_count"].as_u64()), (Some("blocks"), Some(count("used"))));
    assert!(count("used") > 100);
}
