//! The web page: building it anew, and the commands that check it.

use crate::workspace::{Workspace, output};
use std::process::{Command, ExitCode};

/// The oldest Node that builds the page.
const NODE_MAJOR_MIN: u32 = 20;

/// Why the page can be neither built nor checked here, if so.
pub fn missing(workspace: &Workspace) -> Option<String> {
    if !workspace.root.join("ui/package.json").is_file() {
        return Some("there is no ui/package.json".into());
    }
    let Ok(version) = output(Command::new("node").arg("--version")) else {
        return Some(format!("node {NODE_MAJOR_MIN} or newer is not installed"));
    };
    let major = version.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    if major.is_none_or(|major| major < NODE_MAJOR_MIN) {
        return Some(format!("node {} is older than {NODE_MAJOR_MIN}", version.trim()));
    }
    if output(Command::new("npm").arg("--version")).is_err() {
        return Some("npm is not installed".into());
    }
    None
}

/// An npm command in the folder of the page.
pub fn npm(workspace: &Workspace, arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.current_dir(workspace.root.join("ui")).args(arguments);
    command
}

/// Builds the page into `ui/dist`, where the daemon embeds it from.
pub fn build(workspace: &Workspace) -> ExitCode {
    if let Some(why) = missing(workspace) {
        eprintln!("the page cannot be built: {why}; `make setup` installs what the distribution has");
        return ExitCode::from(3);
    }
    for arguments in [&["ci", "--no-fund", "--no-audit"][..], &["run", "build"]] {
        match npm(workspace, arguments).status() {
            Ok(status) if status.success() => {}
            Ok(status) => {
                eprintln!("npm {} failed ({status}); its messages are above", arguments.join(" "));
                return ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("npm cannot be started: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
