//! The page of memory errors in a real browser: e2e/browser/memory.mjs drives Chromium against the real command, which looks at a
//! recorded host.

use super::recorded::host;
use crate::browser::{missing, run_script};
use surefoot_e2e::command::surefoot;
use surefoot_e2e::machine::{Need, turn};
use surefoot_testkit::not_run::not_run;

#[test]
fn the_page_shows_memory_errors_in_a_browser() {
    const TEST: &str = "the_page_shows_memory_errors_in_a_browser";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    if let Some(why) = missing() {
        return not_run(TEST, &why);
    }
    let (tree, folder) = (host(), tempfile::tempdir().unwrap());
    let watch = surefoot("watch --port 0 --no-history --run-directory").arg(folder.path());
    run_script("memory.mjs", watch.arg("--host-root").arg(tree.path()).start(), "live", folder.path());
}
