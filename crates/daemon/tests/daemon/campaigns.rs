//! Fault campaigns over HTTP: their tables, the faults of one, and a movie; a file that grows; many who ask at once.

use crate::client::{address, get, get_json};
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use surefoot_daemon::rooms::nic::campaign::{CampaignFile, Options};
use surefoot_daemon::{Config, Server, rooms};
use surefoot_nic::campaign::golden::Golden;
use surefoot_nic::campaign::trial::Lab;
use surefoot_nic::campaign::whole::FaultNumber;
use surefoot_nic::campaign::{Experiment, Preset};
use surefoot_nic::firmware::{Build, Firmware};
use surefoot_rooms::nic::campaign::lines::FaultLine;

/// Lines of the preset of the DMA registers, as `surefoot nic campaign` writes them.
fn lines(count: u64) -> Vec<String> {
    let experiment = Experiment::preset(Preset::DmaRegisters);
    let digest = experiment.digest();
    let golden = Golden::run(&experiment, 1).unwrap();
    let faults = experiment.faults(golden.firmware(), golden.window(), Some(count), 1).unwrap();
    let mut lab = Lab::new(golden);
    let line = |(number, fault)| {
        let line =
            FaultLine::of(&lab.record(fault).unwrap(), Some(FaultNumber { number, of: count, experiment: digest }));
        serde_json::to_string(&line).unwrap() + "\n"
    };
    (1..).zip(&faults).map(line).collect()
}

#[test]
fn a_campaign_is_shown_while_it_runs_and_each_of_its_faults_step_by_step() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("dma.jsonl");
    let mut file = File::create(&path).unwrap();
    let lines = lines(12);
    file.write_all(lines[..5].concat().as_bytes()).unwrap();
    let files = vec![Arc::new(CampaignFile::open(&path).unwrap())];
    let campaigns = Options { files, experiments: Vec::new() };
    let rooms = rooms::Options { campaigns, ..rooms::Options::default() };
    let server = Server::start(Config { rooms, ..Config::default() }).unwrap();
    let at = address(&server);

    let first = get_json(at, "/api/v1/nic/campaign");
    assert_eq!((&first["tables"][0]["fault_count"], &first["list"]), (&5.into(), &serde_json::Value::Null));
    assert_eq!(first["tables"][0]["missing"], serde_json::json!([{ "from": 6, "to": 12 }]));
    file.write_all((lines[5..].concat() + "{\"to").as_bytes()).unwrap();
    let whole = get_json(at, "/api/v1/nic/campaign?table=dma-registers:detecting:1&limit=200");
    let table = &whole["tables"][0];
    assert_eq!((&table["fault_count"], &table["campaign_fault_count"]), (&12.into(), &12.into()));
    assert_eq!((&table["missing_count"], table["missing"].as_array().unwrap().len()), (&0.into(), 0));
    assert_eq!(whole["files"][0]["bad_count"], 0, "a line that is being written is none yet");
    let sum: u64 =
        whole["tables"][0]["outcomes"].as_array().unwrap().iter().map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!(sum, 12);
    let faults = whole["list"]["faults"].as_array().unwrap();
    assert_eq!(faults.len(), 12);

    for fault in &faults[..3] {
        let id = fault["id"].as_str().unwrap();
        let movie = get_json(at, &format!("/api/v1/nic/movie?fault={id}"));
        for word in ["id", "outcome", "standard", "detected_by", "detection_ns"] {
            assert_eq!(movie["fault"][word], fault[word], "the replay of {id} says of {word} what the campaign said");
        }
        assert_eq!(movie["scenes"].as_array().unwrap().last().unwrap()["scene"], "ended");
    }
    assert_eq!(get(at, "/api/v1/nic/movie?fault=nothing").status, 400);
    assert_eq!(get(at, "/api/v1/nic/campaign?table=dma-registers:tolerant:1").status, 404);
    server.stop();
}

#[test]
fn of_many_who_ask_for_movies_each_is_answered_or_told_to_wait() {
    let server = Server::start(Config::default()).unwrap();
    let at = address(&server);
    let firmware = Firmware::built(Build::Tolerant);
    let chunk = firmware.function("send_chunk_normal_low").unwrap().address;
    let ask = |bit: u32| {
        std::thread::spawn(move || {
            let fault = format!("send-chunk:tolerant:1:code:{chunk:#x}:{bit}@120000");
            let answer = get(at, &format!("/api/v1/nic/movie?fault={fault}"));
            (answer.status, answer.text().to_owned())
        })
    };
    let asked: Vec<_> = (0..8).map(ask).collect();
    // The server's own thread goes on.
    assert_eq!(get_json(at, "/api/v1/overview")["mode"], "live");
    let answers: Vec<(u16, String)> = asked.into_iter().map(|one| one.join().unwrap()).collect();
    for (status, text) in &answers {
        assert!(*status == 200 || (*status == 503 && text.contains("again")), "{status}: {text}");
    }
    assert!(answers.iter().any(|(status, _)| *status == 200), "{answers:?}");
    server.stop();
}
