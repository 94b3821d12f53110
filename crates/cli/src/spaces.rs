//! What no command does in namespaces where it would take one thing for another. docs/guide/namespaces.md has each command.

use crate::args::Command;
use surefoot_hostfs::namespaces::{Kind, Namespace, Namespaces};
use surefoot_hostfs::privilege::effective_user;
use surefoot_hostfs::{Root, Unsupported};
use surefoot_sys::peer;

/// Refuses where a number in /proc is another process than the same number to the kernel's calls, and where files of everybody would
/// look like this user's own. `status` tells of it instead, and `demo` shows nothing of the machine.
///
/// # Errors
/// [`Unsupported`], with what helps.
pub fn check(command: &Command) -> Result<(), Unsupported> {
    match command {
        Command::Status(_)
        | Command::Demo(_)
        | Command::Config { .. }
        | Command::ReadNames
        | Command::LookApart
        | Command::GuardWorkload
        | Command::Generate(_) => Ok(()),
        _ => refusal(Namespaces::of_this_process(), effective_user() == peer::unknown_user(&Root::host())),
    }
}

fn refusal(namespaces: &Namespaces, is_unknown_user: bool) -> Result<(), Unsupported> {
    if matches!(namespaces.place(Kind::Pid), Namespace::Other(_)) && !namespaces.proc_is_ours() {
        let why = "unsupported: this process is in a PID namespace, and /proc shows the numbers of another one; mount a /proc of \
                   this namespace (unshare --mount-proc), or start Surefoot in the PID namespace of the host (--pid=host)";
        return Err(Unsupported::new(why, ""));
    }
    if matches!(namespaces.place(Kind::User), Namespace::Other(_)) && is_unknown_user {
        let why = "unsupported: this process runs as the user (65534) as whom this user namespace shows all users that it does not \
                   know, so their files would look like its own; run Surefoot as another user of the namespace (unshare --map-root-user)";
        return Err(Unsupported::new(why, ""));
    }
    Ok(())
}

/// Refuses to do what a controller orders where that would reach a part of the host only: a restart ends what is in a PID namespace,
/// and root of a user namespace may do none of it.
///
/// # Errors
/// [`Unsupported`], with what helps.
pub fn check_orders(namespaces: &Namespaces) -> Result<(), Unsupported> {
    for (kind, remedy) in [
        (Kind::Pid, "run the agent in the PID namespace of the host (--pid=host, hostPID: true)"),
        (Kind::User, "run the agent outside the user namespace"),
    ] {
        let place = namespaces.place(kind);
        if place != Namespace::Initial {
            let kind = kind.label();
            let why = format!(
                "unsupported: --orders: the {kind} namespace of this process is {place}, and orders are for the host; {remedy}, or leave \
                 out --orders to tell findings alone"
            );
            return Err(Unsupported::new(why, remedy));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Arguments;
    use clap::CommandFactory;
    use std::collections::BTreeSet;
    use surefoot_testkit::HostTree;

    const PID: u64 = 4_026_531_836;
    const USER: u64 = 4_026_531_837;
    const OTHER: u64 = 4_026_532_300;

    const GUIDE: &str = include_str!("../../../docs/guide/namespaces.md");

    /// The first words of the rows of the guide's table of commands.
    fn told() -> BTreeSet<String> {
        let rows = GUIDE.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        rows.map(|(name, _)| name.to_owned()).collect()
    }

    fn commands(command: &clap::Command, before: &str, all: &mut BTreeSet<String>) {
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = format!("{before}{}", command.get_name());
            commands(command, &format!("{name} "), all);
            // What only has commands below it does nothing by itself.
            if !command.is_subcommand_required_set() {
                all.insert(name);
            }
        }
    }

    #[test]
    fn the_guide_says_of_each_command_what_it_does_in_namespaces() {
        let mut all = BTreeSet::new();
        commands(&Arguments::command(), "", &mut all);
        assert!(all.len() > 40, "{all:?}");
        assert_eq!(
            told(),
            all,
            "docs/guide/namespaces.md has a row for each command; e2e/tests/namespaces.rs runs each"
        );
    }

    #[test]
    fn a_proc_of_others_and_the_user_of_everybody_are_refused() {
        let found = |numbers: &str, pid: u64, user: u64| {
            let tree = HostTree::new()
                .file("proc/self/status", format!("NSpid:\t{numbers}\n"))
                .link("proc/self/ns/pid", format!("pid:[{pid}]"))
                .link("proc/self/ns/user", format!("user:[{user}]"));
            Namespaces::read(&Root::at(tree.path()))
        };
        for (numbers, pid, user, is_unknown_user, word) in [
            ("7", PID, USER, true, ""),
            ("7", OTHER, USER, false, ""),
            ("7", OTHER, OTHER, false, ""),
            ("812\t7", OTHER, USER, false, "/proc shows the numbers of another one"),
            ("7", PID, OTHER, true, "as whom this user namespace shows"),
        ] {
            let refused = refusal(&found(numbers, pid, user), is_unknown_user).err();
            assert_eq!(refused.is_some(), !word.is_empty(), "{numbers} {pid} {user}: {refused:?}");
            assert!(refused.is_none_or(|missing| missing.why.contains(word)), "{numbers} {pid} {user}");
        }
    }

    #[test]
    fn orders_are_done_on_the_host_alone() {
        let found = |pid: u64, user: u64| {
            let tree = HostTree::new()
                .file("proc/self/status", "NSpid:\t7\n")
                .link("proc/self/ns/pid", format!("pid:[{pid}]"))
                .link("proc/self/ns/user", format!("user:[{user}]"));
            check_orders(&Namespaces::read(&Root::at(tree.path())))
        };
        assert!(found(PID, USER).is_ok());
        assert!(found(OTHER, USER).is_err_and(|missing| missing.why.contains("PID namespace")));
        assert!(found(PID, OTHER).is_err_and(|missing| missing.why.contains("user namespace")));
        let unknown = check_orders(&Namespaces::read(&Root::at(HostTree::new().path())));
        assert!(unknown.is_err_and(|missing| missing.why.contains("unknown")));
    }
}
