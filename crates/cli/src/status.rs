//! `surefoot status`.

use crate::args::StatusOptions;
use crate::rooms;
use crate::stall::lines::{self, RunningWatch};
use std::io::Write;
use surefoot_console::exit::Outcome;
use surefoot_console::lost_time as text;
use surefoot_console::output;
use surefoot_daemon::running::{self, Runs};
use surefoot_hostfs::Root;
use surefoot_hostfs::privilege::Seccomp;

pub fn run(options: &StatusOptions) -> anyhow::Result<Outcome> {
    let root = Root::host();
    let capabilities = rooms::capabilities(&root);
    let watch = match running::runs(&options.run_directory, &root) {
        None => None,
        Some(Runs::Elsewhere) => {
            surefoot_console::tell!(
                "surefoot: the watch of {} runs in another PID namespace; its privileges cannot be seen from here",
                options.run_directory.display()
            );
            None
        }
        Some(Runs::Unknown(why)) => {
            surefoot_console::tell!("surefoot: whether a watch runs is not known: {why}");
            None
        }
        Some(Runs::Here { pid, standing, unanswered }) => {
            if let Some(why) = unanswered {
                let directory = options.run_directory.display();
                surefoot_console::tell!(
                    "surefoot: a watch of {directory} is there but does not answer (process {pid}): {why}"
                );
            }
            Some(RunningWatch {
                pid,
                uid: standing.uid,
                capabilities: standing.capabilities.names(),
                no_new_privileges: standing.no_new_privileges,
                seccomp: match standing.seccomp {
                    Seccomp::None => "none",
                    Seccomp::Strict => "strict",
                    Seccomp::Filter => "filter",
                },
                unit: standing.unit,
            })
        }
    };
    let mut out = surefoot_console::people::stdout();
    if options.json {
        output::stream(&mut out, "status")?;
        lines::capabilities(&mut out, &capabilities)?;
        watch.iter().try_for_each(|watch| lines::running_watch(&mut out, watch))?;
    } else {
        out.write_all(text::capabilities(&capabilities).as_bytes())?;
        out.write_all(running_watch(watch.as_ref()).as_bytes())?;
    }
    Ok(Outcome::Done)
}

/// The user, privileges and limits of a running watch.
fn running_watch(watch: Option<&RunningWatch>) -> String {
    let Some(watch) = watch else { return String::new() };
    let uid = watch.uid.map_or("of an unknown user".to_owned(), |uid| format!("of user {uid}"));
    let unit = watch.unit.as_ref().map_or(String::new(), |unit| format!(", in {unit}"));
    let capabilities = match watch.capabilities.as_slice() {
        [] => "none".to_owned(),
        some => some.join(" "),
    };
    let gains = if watch.no_new_privileges { "cannot gain more" } else { "programs that it starts may gain more" };
    let calls = if watch.seccomp == "none" { "not limited" } else { "limited" };
    format!(
        "\nA watch runs: process {}, {uid}{unit}\n  capabilities: {capabilities}\n  {gains} (no_new_privs); system calls {calls} \
         (seccomp)\n",
        watch.pid
    )
}
