//! The coverage table: known cells, shards that merge to the same bytes, and refusals.

use serde_json::Value;
use std::path::{Path, PathBuf};
use surefoot_e2e::command::{Surefoot, surefoot};
use surefoot_e2e::machine::{Need, turn};

fn coverage(options: &str) -> Surefoot {
    surefoot("ecc coverage").words(options)
}

fn stdout(command: Surefoot) -> String {
    let finished = command.run();
    finished.expect_code(0);
    finished.stdout
}

fn cells(options: &str) -> Vec<Value> {
    coverage(options).arg("--json").run().expect_code(0).json()
}

#[test]
fn cells_of_the_table_are_those_of_the_closed_forms() {
    let Some(_turn) = turn("cells_of_the_table_are_those_of_the_closed_forms", Need::Nothing) else { return };
    let known = [
        ("rs36_32", "pin", 48.0 / 255.0),
        ("rs36_32", "bit+bit", 0.5),
        ("rs36_32", "bit+pin", 6.0 / 255.0),
        ("rs19_16", "chip", 1.0),
        ("rs19_16", "bit+word", 0.75),
        ("rs19_16", "pin+pin", 1890.0 / 255.0 / 255.0),
        ("rs18_16", "word", 0.0),
        ("chipkill", "chip", 1.0),
        ("secded", "bit+bit", 0.875),
    ];
    for (code, fault, corrected) in known {
        for cell in cells(&format!("--code {code} --fault {fault} --convention physical --method exact,closed-form")) {
            for key in ["code", "fault", "convention", "method", "corrected", "detected", "silent", "ci95"] {
                assert!(cell.get(key).is_some(), "{key} in {cell}");
            }
            let share = |key: &str| cell[key].as_f64().unwrap();
            assert!((share("corrected") - corrected).abs() < 1e-12, "{cell}");
            assert!((share("corrected") + share("detected") + share("silent") - 1.0).abs() < 1e-9, "{cell}");
            assert!(cell["ci95"].is_null());
        }
    }
    // Where the conventions differ, the paper's cell says why.
    let both = cells("--code rs19_16 --fault bit+bit --method exact");
    assert!(both[0]["why"].as_str().unwrap().contains("one codeword"), "{both:?}");
    assert!(both[1].get("why").is_none());
}

#[test]
fn intervals_of_trials_contain_the_known_share() {
    let Some(_turn) = turn("intervals_of_trials_contain_the_known_share", Need::Nothing) else { return };
    let cells =
        cells("--code rs19_16 --fault pin+pin --convention physical --method monte-carlo --trials 50000 --seed 7");
    let interval = &cells[0]["ci95"]["corrected"];
    let share = 1890.0 / 255.0 / 255.0;
    assert!(interval[0].as_f64().unwrap() < share && share < interval[1].as_f64().unwrap(), "{cells:?}");
    // No event in 50,000 is no proof of none.
    assert!(cells[0]["ci95"]["silent"][1].as_f64().unwrap() > 7e-5);
}

const RUN: &str = "--code rs36_32,secded,shards --fault pin,bit+bit,word+pin,bit+line --trials 5000";

#[test]
fn the_same_seed_gives_the_same_bytes_and_shards_merge_to_them() {
    let Some(_turn) = turn("the_same_seed_gives_the_same_bytes_and_shards_merge_to_them", Need::Nothing) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let files = shards(folder.path(), RUN, 3);
    // In no particular order.
    let merge = |format: &str| {
        stdout(surefoot("ecc coverage --merge").arg(&files[2]).arg(&files[0]).arg(&files[1]).words(format))
    };
    for format in ["--json", "--csv", ""] {
        let whole = stdout(coverage(RUN).words(format));
        assert_eq!(whole, stdout(coverage(RUN).words(format)));
        assert_eq!(whole, merge(format), "{format}");
        assert_ne!(whole, stdout(coverage(RUN).words(format).words("--seed 2")));
    }
    // A cell's numbers do not depend on what else is asked for.
    let whole = stdout(coverage(RUN).arg("--json"));
    let alone = stdout(coverage("--code secded --fault word+pin --trials 5000 --json"));
    assert!(alone.lines().count() >= 4 && alone.lines().all(|line| whole.contains(line)));
}

/// The files of a run in parts.
fn shards(folder: &Path, run: &str, of: u32) -> Vec<PathBuf> {
    let write = |number: u32| {
        let path = folder.join(format!("{number}.jsonl"));
        std::fs::write(&path, stdout(coverage(run).arg("--shard").arg(format!("{number}/{of}")))).unwrap();
        path
    };
    (1..=of).map(write).collect()
}

#[test]
fn shards_that_do_not_belong_together_are_refused() {
    let Some(_turn) = turn("shards_that_do_not_belong_together_are_refused", Need::Nothing) else { return };
    let run = "--code secded --fault bit --trials 100";
    let folder = tempfile::tempdir().unwrap();
    let files = shards(folder.path(), run, 2);
    let other = tempfile::tempdir().unwrap();
    let others = shards(other.path(), &format!("{run} --seed 9"), 2);
    let refuses = |files: &[&Path], words: &[&str]| {
        let command = files.iter().fold(surefoot("ecc coverage --merge"), |command, file| command.arg(file));
        command.run().expect_refusal(2, words);
    };
    refuses(&[&files[0]], &["1 of 2", "missing", "2"]);
    refuses(&[&files[0], &files[0]], &["1.jsonl", "already"]);
    refuses(&[&files[0], &others[1]], &["another run", "seed"]);
    refuses(&[&folder.path().join("none")], &["none", "No such file"]);
    let text = std::fs::read_to_string(&files[1]).unwrap();
    let damaged = folder.path().join("damaged");
    for (content, words) in [
        (String::new(), &["header"][..]),
        (text[..text.len() - 20].to_owned(), &["line"][..]),
        (text.lines().next().unwrap().to_owned() + "\n", &["missing"][..]),
        (text.replace("\"version\":1", "\"version\":2"), &["version 2"][..]),
        (text.replace("\"secded\"", "\"moon\""), &["'moon'"][..]),
        (text.replace("corrected_count\":50", "corrected_count\":51"), &["counts"][..]),
        (text.clone() + "{}\n", &["more lines"][..]),
    ] {
        assert_ne!(content, text);
        std::fs::write(&damaged, content).unwrap();
        refuses(&[&files[0], &damaged], words);
    }
}

#[test]
fn options_that_mean_nothing_are_refused() {
    let Some(_turn) = turn("options_that_mean_nothing_are_refused", Need::Nothing) else { return };
    for (options, words) in [
        ("--code moon", &["--code", "'moon'", "rs36_32"][..]),
        ("--fault bit+moon", &["--fault", "'moon'", "chip"][..]),
        ("--convention moon", &["--convention", "physical"][..]),
        ("--method moon", &["--method", "monte-carlo"][..]),
        ("--code secded --fault page", &["--fault page", "none of the chosen codes"][..]),
        ("--code secded --convention spread", &["--convention", "contiguous"][..]),
        ("--trials 0", &["--trials"][..]),
        ("--trials 1000000000001", &["--trials"][..]),
        ("--seed x", &["--seed"][..]),
        ("--shard 3/2", &["--shard", "1 to 2"][..]),
        ("--shard 1", &["--shard", "1/4"][..]),
        ("--shard 1/2 --method exact", &["--shard", "--method"][..]),
        ("--shard 1/2 --json", &["--shard", "--json"][..]),
        ("--json --csv", &["--json", "--csv"][..]),
        ("--merge a --seed 3", &["--merge", "--seed"][..]),
        ("--code secded --fault bit --trials 10 --chart /nowhere/at/all.svg", &["--chart", "/nowhere/at/all.svg"][..]),
    ] {
        coverage(options).run().expect_refusal(2, words);
    }
}

#[test]
fn the_table_fits_and_the_chart_is_a_picture() {
    let Some(_turn) = turn("the_table_fits_and_the_chart_is_a_picture", Need::Nothing) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("chart.svg");
    let options = "--code rs36_32,rs19_16,shards --fault pin,bit+pin,column+column,line --trials 1000 --chart";
    let table = stdout(coverage(options).arg(&path));
    assert!(table.lines().all(|line| line.chars().count() <= 110), "{table}");
    for words in ["18.82%", "RS(36,32)", "differ: pin", "Printed in Table 4", "seed 1"] {
        assert!(table.contains(words), "{words} in\n{table}");
    }
    let chart = std::fs::read_to_string(path).unwrap();
    assert!(chart.starts_with("<svg xmlns") && chart.ends_with("</svg>\n"));
    assert!(chart.contains("prefers-color-scheme:dark") && chart.contains("RS(36,32) pin physical: corrected 18.82%"));
    for tag in ["g", "text", "title", "style", "svg"] {
        let count = |text: &str| chart.matches(text).count();
        assert_eq!(count(&format!("<{tag} ")) + count(&format!("<{tag}>")), count(&format!("</{tag}>")), "{tag}");
    }
}
