//! Fault campaigns in a real browser: e2e/browser/nic.mjs drives Chromium against the real command, which shows a campaign that
//! was made by it.

use crate::browser::{missing, run_script};
use surefoot_e2e::command::surefoot;
use surefoot_e2e::machine::{Need, turn};
use surefoot_testkit::not_run::not_run;

#[test]
fn the_page_shows_fault_campaigns_in_a_browser() {
    const TEST: &str = "the_page_shows_fault_campaigns_in_a_browser";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    if let Some(why) = missing() {
        return not_run(TEST, &why);
    }
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    for build in ["detecting", "tolerant"] {
        let words = format!("nic campaign --preset send-chunk --sample 120 --build {build} --output");
        surefoot(&words).arg(file(build)).run().expect_code(0);
    }
    std::fs::write(file("bad"), "{}\n<img src=x onerror=alert(1)>\n").unwrap();
    let mut watch = surefoot("watch --port 0 --no-history --run-directory").arg(folder.path());
    for name in ["detecting", "tolerant", "bad"] {
        watch = watch.arg("--nic-campaign").arg(file(name));
    }
    run_script("nic.mjs", watch.start(), "live", folder.path());
}
