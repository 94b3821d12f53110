//! The commands of docs/guide/nic-run.md and nic-campaigns.md that run in virtual time: what they print is what stands there,
//! because the same seed gives the same bytes. Another control program changes both.
#![allow(clippy::unwrap_used)]

use super::guide::{is_shown, page, shown};
use std::process::Command;

#[test]
fn the_pages_show_what_the_commands_print() {
    for (name, begin, least) in [
        ("nic-run.md", "nic run --messages 2000", 1),
        ("nic-campaigns.md", "nic inject --fault", 1),
        ("nic-campaigns.md", "nic campaign --preset send-chunk --sample", 1),
    ] {
        let shown = shown(&page(name), |command| command.starts_with(begin));
        assert!(shown.len() >= least, "{name}: {begin}: {shown:?}");
        for (command, lines) in shown {
            let output = Command::new(env!("CARGO_BIN_EXE_surefoot")).args(&command).output().unwrap();
            let text = String::from_utf8(output.stdout).unwrap();
            let printed: Vec<String> = text.trim_end().lines().map(str::to_owned).collect();
            let errors = String::from_utf8_lossy(&output.stderr);
            is_shown(&lines, &printed).unwrap_or_else(|why| panic!("{name}: {command:?}: {why}; {errors}\n{text}"));
        }
    }
}
