//! One worked example for each command, at the top of its help.

use clap::Command;

/// The commands with what follows their name.
const EXAMPLES: &[(&str, &str)] = &[
    ("checkpoint drain", "training --memory /dev/shm/surefoot-1000"),
    ("checkpoint drive", "/mnt/ssd"),
    ("checkpoint list", "/dev/shm/surefoot-1000 /mnt/ssd/checkpoints"),
    ("checkpoint plan", "--size 64GiB --drive /mnt/ssd"),
    ("checkpoint protect", "dataset.tar"),
    ("checkpoint remove", "training --in /dev/shm/surefoot-1000"),
    ("checkpoint repair", "dataset.tar"),
    ("checkpoint restore", "--job training --to restored /mnt/ssd/checkpoints"),
    ("checkpoint scrub", "/mnt/ssd/checkpoints"),
    ("checkpoint settings", "/dev/shm/surefoot-1000"),
    ("checkpoint simulate", "--json"),
    ("checkpoint verify", "/dev/shm/surefoot-1000 /mnt/ssd/checkpoints"),
    ("config check", ""),
    ("config defaults", ""),
    ("config show", "--changed"),
    ("demo", ""),
    ("disturb drift", "--reference rtc --duration 60s"),
    ("disturb length", "--length 1ms"),
    ("disturb predict", "--pattern allreduce --nodes 4096 --noise freeze:length=105ms,period=1s"),
    ("disturb report", "result.jsonl --html report.html"),
    ("disturb run", "--disturbance freeze:length=2ms,period=50ms,cores=1 --workload './solver small.in'"),
    ("disturb workloads", ""),
    ("ecc coverage", "--json"),
    ("ecc verilog", "--directory ecc"),
    ("fleet top", "--service web --room memory"),
    ("history", "--from 'yesterday 03:00' --to 'yesterday 03:30'"),
    ("memory cleared", "DIMM_C1 --reason 'cosmic ray, no error for a month' --yes"),
    ("memory cost", "--last 7d"),
    ("memory doctor", ""),
    ("memory import", "/var/log/mcelog /var/lib/rasdaemon/ras-mc_event.db --host n17"),
    ("memory owner", "0x2f4a31000"),
    ("memory page-offline", "/var/lib/rasdaemon/ras-mc_event.db"),
    ("memory repaired", "DIMM_C1 --reason 'post-package repair at boot' --yes"),
    ("memory replaced", "DIMM_C1 --reason 'ticket 4711' --yes"),
    ("memory simulate", "--json"),
    ("memory status", "--event-log"),
    ("memory tune", "--errors poisson:10/s --detect-within 1h --threshold-rate 1/s"),
    ("memory watch", "--duration 1h"),
    ("nic campaign", "--json"),
    ("nic campaign blocks", ""),
    ("nic campaign report", "campaign.jsonl"),
    ("nic health", "--interface eth0"),
    ("nic inject", "--json"),
    ("nic run", "--json"),
    ("remedy agent", "--server https://controller:7078 --once"),
    ("remedy approve", "17 --reason 'spare module is in the rack'"),
    ("remedy cancel", "17 --reason 'false alarm'"),
    ("remedy cases", ""),
    ("remedy check run", ""),
    ("remedy pause", "17 --reason 'maintenance of rack 4'"),
    ("remedy release", "n17 --reason 'mainboard exchanged'"),
    ("remedy replaced", "17 --reason 'serial 03A10009'"),
    ("remedy resume", "17"),
    ("remedy serve", "--policy policy.toml --store sqlite:cases.db"),
    ("remedy show", "17"),
    ("remedy simulate", "--policy policy.toml --hosts 100000 --days 365"),
    ("remedy tested-good", "17 --reason 'RMA 4711: no fault found'"),
    ("remedy trail", ""),
    ("stall audit", "--cpu 1-3"),
    ("stall probe", "--cpu 1 --duration 10s"),
    ("stall record", "--duration 60s --output before.surefoot"),
    ("stall replay", "before.surefoot"),
    ("stall report", "--duration 10s"),
    ("stall who", "--cpu 1 --duration 5s"),
    ("status", ""),
    ("watch", "--who 1-3"),
    ("why", "--unit postgresql --duration 10s"),
];

/// The command with its examples.
pub fn add_to(command: Command) -> Command {
    EXAMPLES.iter().fold(command, |command, (name, words)| {
        let path: Vec<&str> = name.split(' ').collect();
        add(command, &path, format!("Example: surefoot {name} {words}").trim_end())
    })
}

fn add(command: Command, path: &[&str], example: &str) -> Command {
    match path {
        [] => command.before_help(example.to_owned()),
        [name, below @ ..] if command.find_subcommand(name).is_some() => {
            command.mut_subcommand(*name, |command| add(command, below, example))
        }
        _ => command,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::args::Arguments;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    fn leaves(command: &Command, above: &str, found: &mut BTreeSet<String>) {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
            let name = format!("{above} {}", below.get_name()).trim_start().to_owned();
            // `nic campaign` does something of its own, too.
            if below.get_subcommands().next().is_none() || !below.is_subcommand_required_set() {
                found.insert(name.clone());
            }
            leaves(below, &name, found);
        }
    }

    /// The words of a shell's line: quotes hold together.
    fn words(line: &str) -> Vec<String> {
        let quoted = line.split('\'').enumerate();
        let parts = quoted.flat_map(|(at, part)| match at % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect::<Vec<_>>(),
            _ => vec![part.to_owned()],
        });
        parts.collect()
    }

    #[test]
    fn every_command_has_an_example_that_it_takes() {
        let mut found = BTreeSet::new();
        leaves(&Arguments::command(), "", &mut found);
        let named: BTreeSet<String> = EXAMPLES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(found, named);
        for (name, rest) in EXAMPLES {
            let line = words(&format!("surefoot {name} {rest}"));
            let parsed = Arguments::command().try_get_matches_from(&line);
            assert!(parsed.is_ok(), "{name} {rest}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn help_begins_with_the_example() {
        let mut command = add_to(Arguments::command());
        let report = command.find_subcommand_mut("stall").unwrap().find_subcommand_mut("report").unwrap();
        for help in [report.render_help(), report.render_long_help()] {
            assert!(help.to_string().starts_with("Example: surefoot stall report --duration 10s\n"), "{help}");
        }
    }
}
