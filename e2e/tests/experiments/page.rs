//! The page of experiments in a real browser: e2e/browser/disturb.mjs drives Chromium against the real command.

use super::{experiment, killed, several};
use crate::browser::{missing, run_script};
use surefoot_e2e::command::surefoot;
use surefoot_e2e::machine::{Need, turn};
use surefoot_testkit::not_run::not_run;

#[test]
fn the_page_shows_experiments_in_a_browser() {
    const TEST: &str = "the_page_shows_experiments_in_a_browser";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    if let Some(why) = missing() {
        return not_run(TEST, &why);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    experiment(&file("journals"), "").expect_code(0);
    several(folder.path(), &file("journals"));
    killed(&file("journals"));
    let mut predictions = String::new();
    for nodes in ["2", "16", "128"] {
        let words = "disturb predict --pattern barrier --iterations 200 --noise freeze:length=2ms,period=100ms,phase=random --json";
        let predicted = surefoot(words).arg("--nodes").arg(nodes).run();
        predicted.expect_code(0);
        predictions += &predicted.stdout;
    }
    std::fs::write(file("predictions.jsonl"), predictions).unwrap();
    let watch = surefoot("watch --port 0 --no-history --run-directory").arg(file("run"));
    let watch = watch.arg("--experiments").arg(file("journals"));
    let watch = watch.arg("--disturb-prediction").arg(file("predictions.jsonl"));
    run_script("disturb.mjs", watch.start(), "live", folder.path());
}
