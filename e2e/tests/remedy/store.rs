//! The store of the controller: one that is not there, one that is deleted under it, and one whose disk is full.

use super::server::{Server, folder, until};
use std::fs;
use surefoot_e2e::command::surefoot;
use surefoot_e2e::disk::TinyDisk;
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};
use surefoot_testkit::not_run::not_run;

const POLICY: &str = "[[policy]]\nsteps = [\"drain\", \"return\"]\n";

fn board(host: &str) -> String {
    format!("{{\"host\":\"{host}\",\"findings\":[]}}")
}

#[test]
fn a_mistyped_store_is_no_empty_one() {
    let Some(_turn) = turn("remedy::store::a_mistyped_store_is_no_empty_one", Need::Nothing) else { return };
    let folder = folder();
    let store = format!("sqlite:{}", folder.path().join("typo.db").display());
    for words in
        ["cases", "cases --json", "show 1", "trail", "approve 1", "pause", "resume 1", "cancel 1", "release n1"]
    {
        let finished = surefoot(&format!("remedy {words} --store")).arg(&store).run();
        finished.expect_refusal(2, &["no store at", &store, "no such file"]);
        assert_eq!(finished.stdout, "", "{words}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a client makes no store");
}

#[test]
fn a_store_that_is_deleted_under_the_controller_is_told_of_and_saved() {
    const TEST: &str = "remedy::store::a_store_that_is_deleted_under_the_controller_is_told_of_and_saved";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    let folder = folder();
    let server = Server::start(folder.path(), POLICY);
    assert_eq!(http::post(&server.address(), "/api/v1/findings", &board("n1")).status, 200);
    for name in ["cases.db", "cases.db-wal", "cases.db-shm"] {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    until("the log says so", || server.running.stderr().contains("cases.db was deleted or moved away"));
    let told = server.running.stderr();
    assert!(told.contains("is saved in") && told.contains("are refused (503)"), "{told}");
    assert_eq!(http::post(&server.address(), "/api/v1/findings", &board("n2")).status, 503);
    let address = format!("http://{}", server.address());
    let asked = surefoot("remedy cases --server").arg(&address).run();
    asked.expect_refusal(2, &["was deleted or moved away", "is saved in"]);
    assert!(!folder.path().join("cases.db").exists(), "no empty store is made in its place");
}

#[test]
fn a_full_disk_under_the_store_is_told_of_until_it_has_room() {
    const TEST: &str = "remedy::store::a_full_disk_under_the_store_is_told_of_until_it_has_room";
    let Some(_turn) = turn(TEST, Need::Root) else { return };
    let disk = match TinyDisk::mount(1 << 20) {
        Ok(disk) => disk,
        Err(why) => return not_run(TEST, &format!("no tmpfs can be mounted here: {why}")),
    };
    let server = Server::start(disk.path(), POLICY);
    let filler = disk.fill(0);
    // The log of the store may have pages to spare, so that some reports still pass.
    let number = std::cell::Cell::new(0);
    until("a report is refused", || {
        number.set(number.get() + 1);
        http::post(&server.address(), "/api/v1/findings", &board(&format!("n{}", number.get()))).status == 503
    });
    until("the log says so", || server.running.stderr().contains("database or disk is full"));
    fs::remove_file(filler).unwrap();
    until("the store takes reports again", || server.running.stderr().contains("the store takes reports again"));
    assert_eq!(http::post(&server.address(), "/api/v1/findings", &board("last")).status, 200);
    assert!(http::get(&server.address(), "/metrics").body.contains("surefoot_remedy_store_up 1"));
}
