//! A host vanishes in the middle of a case, in debug settings: its agent is killed, and nothing of it is heard. The case stays
//! open and says what it waits for; when the agent is back it goes on where it was, and the settings and the host are restored.

use super::agent::{agent, checks, serve};
use super::road::{ADAPTER, setting};
use super::server::{folder, until};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;
use surefoot_e2e::command::surefoot;
use surefoot_e2e::machine::{Need, turn};
use surefoot_sys::program;
use surefoot_testkit::not_run::not_run;
use surefoot_testkit::redfish::Controller;

fn policy(controller: &Controller, folder: &Path) -> String {
    format!(
        "[[policy]]\nservice = \"web\"\nmatch = {{ fault = \"remedy/check-fans\" }}\n\
         steps = [\"drain\", \"debug:maker\", \"stress:1s\", \"restore:debug:maker\", \"return\"]\napprove = [\"stress:1s\"]\n\
         [[service]]\nname = \"web\"\nsize = 4\n[stress]\nmebibytes = 16\n\
         [[bmc]]\nhost = \"n1\"\nurl = \"{}\"\n[reboot]\nsettle = \"1s\"\nlimit = \"5m\"\n[debug]\nadapters = \"{}\"\n",
        controller.url(),
        folder.display()
    )
}

#[test]
fn a_host_that_vanishes_in_debug_settings_is_waited_for() {
    const TEST: &str = "remedy::vanishing::a_host_that_vanishes_in_debug_settings_is_waited_for";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    if program::find("stressapptest").is_none() {
        return not_run(TEST, "stressapptest is not installed");
    }
    if let Some(why) = Controller::unsupported() {
        return not_run(TEST, &why);
    }
    let controller = Controller::start().unwrap();
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("maker.toml"), ADAPTER).unwrap();
    fs::write(folder.join("policy.toml"), policy(&controller, folder)).unwrap();
    let before = setting(&controller, "ProcTurboMode");
    let words = format!("--orders --period 500ms --checks {}", checks(folder));
    let server = serve(folder);
    let first = agent(folder, &words);
    let case = server.until_any(Duration::from_secs(60));
    assert_eq!((case["host"].as_str(), case["id"].as_u64()), (Some("n1"), Some(1)), "{case}");
    let story = server.until(1, "needs_approval");
    assert_eq!(
        (&story["case"]["is_drained"], setting(&controller, "ProcTurboMode")),
        (&false.into(), "FirmwareFirst".into())
    );

    first.signal("KILL");
    drop(first);
    surefoot("remedy approve 1 --server").arg(format!("http://{}", server.address())).run().expect_code(0);
    until("the case says what it waits for", || server.story(1)["case"]["waits_for"] == "the agent of n1");
    // The list says so too, and nothing is given back or given up meanwhile.
    let cases = server.cases();
    let waiting = |name: &str| cases[0][name].as_str().unwrap_or_default().to_owned();
    assert_eq!(cases.len(), 1, "{cases:#?}");
    assert_eq!(["state", "step", "waits_for"].map(waiting), ["running", "stress:1s", "the agent of n1"], "{cases:#?}");
    let story = server.story(1);
    assert_eq!(
        (&story["case"]["is_drained"], setting(&controller, "ProcTurboMode")),
        (&false.into(), "FirmwareFirst".into())
    );

    let second = agent(folder, &words);
    let story = server.until(1, "returned");
    for step in story["case"]["steps"].as_array().unwrap() {
        // No scheduler is named, so that there is nothing to drain.
        let state = if matches!(step["step"].as_str(), Some("drain" | "return")) { "skipped" } else { "done" };
        assert_eq!((&step["state"], &step["attempt_count"]), (&state.into(), &1.into()), "{story:#}");
    }
    assert_eq!((&story["case"]["is_drained"], setting(&controller, "ProcTurboMode")), (&false.into(), before));
    assert_eq!(story["case"]["waits_for"].as_str().unwrap_or_default(), "", "{story:#}");
    let orders: Value = serde_json::from_str(&fs::read_to_string(folder.join("state/orders.json")).unwrap()).unwrap();
    assert_eq!((orders.as_object().unwrap().len(), server.cases().len()), (1, 1), "{orders:#}");
    second.ask_to_end();
    second.finish().expect_code(0);
}
