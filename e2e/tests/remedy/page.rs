//! The page of cases in a real browser: e2e/browser/cases.mjs walks one case from the alert to the host's return, beside a real
//! `surefoot remedy serve`.

use super::server::{Server, executable, folder};
use crate::browser::{missing, run_script_at};
use surefoot_e2e::machine::{Need, turn};
use surefoot_testkit::not_run::not_run;

#[test]
fn one_case_goes_from_alert_to_return_in_a_browser() {
    const TEST: &str = "one_case_goes_from_alert_to_return_in_a_browser";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    if let Some(why) = missing() {
        return not_run(TEST, &why);
    }
    let folder = folder();
    let hook = executable(folder.path(), "repair", "echo 'seen: row 0x1234 repaired'");
    let policy = format!(
        "[[policy]]\nservice = \"web\"\nmatch = {{ room = \"memory\", severity = \"critical\" }}\n\
         steps = [\"recheck\", \"drain\", \"run:{0}\", \"return\"]\napprove = [\"run:{0}\"]\nhosts_at_once = 1\nverify = \"none\"\n\
         [[service]]\nname = \"web\"\nsize = 4\n",
        hook.display()
    );
    let Server { running, port } = Server::start(folder.path(), &policy);
    run_script_at("cases.mjs", &port, running, "cases", folder.path());
    assert!(folder.path().join("cases-390.png").is_file());
}
