//! The values of settings that nobody said, in the words in which they would be said.

use crate::config::{AfterCompletion, Config, SETTINGS};
use crate::controller::{Policy, Priority, Surefoot, YEAR_S};
use crate::tier::DurableOptions;

/// What a rank says of a tier or of a setting that it does not have.
pub(crate) const NOT_SET: &str = "-";

/// The policy with all its numbers, as [`to_be_equal`] calls it.
pub(crate) const WHOLE_POLICY: &str = "the whole policy";

/// The settings of a policy.
pub(crate) const OF_POLICY: [&str; 5] = ["policy", "memory_mtbf_s", "durable_mtbf_s", "staleness_max_s", "priority"];

/// Settings that may differ between ranks: they are a host's own, and nothing that ranks do together depends on them. Any
/// other setting has to be the same on all.
const OF_A_HOST: [&str; 12] = [
    "memory.threads",
    "memory.ahead_bytes",
    "durable.queue_depth",
    "durable.limit_bytes_per_s",
    "shared.queue_depth",
    "shared.limit_bytes_per_s",
    "endurance.rated_bytes",
    "endurance.written_bytes",
    "endurance.remaining_years",
    "endurance.wa_factor",
    "health_file",
    "drive_file",
];

/// What all ranks of a job must have alike, by name: the job, and every setting but [`OF_A_HOST`]. Of the directories that each
/// node has for itself, whether there is one.
pub(crate) fn to_be_equal(config: &Config) -> Vec<(&'static str, String)> {
    let mut all = vec![("job", config.job.clone())];
    let settings = SETTINGS.iter().map(|(name, _)| *name).filter(|name| !OF_A_HOST.contains(name));
    all.extend(settings.map(|name| {
        let value = of(config, name).unwrap_or_else(|| NOT_SET.to_owned());
        let value = match (name, value.as_str()) {
            ("memory" | "durable" | "shared", "none") => NOT_SET.to_owned(),
            ("memory" | "durable", _) => "set".to_owned(),
            _ => value,
        };
        (name, value)
    }));
    // Programs may set more of a policy than the settings say.
    all.push((WHOLE_POLICY, format!("{:?}", config.policy)));
    all
}

/// What a setting is; `None` where a job has nothing of the kind.
pub(super) fn of(config: &Config, name: &str) -> Option<String> {
    let none = || "none".to_owned();
    let path = |path: &std::path::Path| path.display().to_string();
    Some(match name {
        "memory" => config.memory.as_ref().map_or_else(none, |memory| path(&memory.directory)),
        "memory.slots" => config.memory.as_ref()?.slots.to_string(),
        "memory.protection" => config.memory.as_ref()?.protection.label().to_owned(),
        "memory.threads" => config.memory.as_ref()?.threads.map_or_else(|| "auto".to_owned(), |n| n.to_string()),
        "memory.ahead_bytes" => {
            config.memory.as_ref()?.ahead_bytes_max.map_or_else(|| "auto".to_owned(), |n| n.to_string())
        }
        "partner" => if config.partner { "yes" } else { "no" }.to_owned(),
        "parity" => config.parity.map_or_else(none, |parity| format!("{}+{}", parity.data, parity.parity)),
        "durable" => config.durable.as_ref().map_or_else(none, |durable| path(&durable.directory)),
        "shared" => config.shared.as_ref().map_or_else(none, |shared| path(&shared.directory)),
        "shared.staleness_max_s" => plain(config.shared.as_ref()?.rule.staleness_max_s),
        "shared.every" => config.shared.as_ref()?.rule.every.map_or_else(none, |every| every.to_string()),
        "after_completion" => match config.after_completion {
            AfterCompletion::Anew => "anew",
            AfterCompletion::Continue => "continue",
        }
        .to_owned(),
        "sigterm" => if config.sigterm { "checkpoint" } else { "leave" }.to_owned(),
        "policy" => config.policy.word(),
        "health_file" => path(&config.health_file),
        "drive_file" => config.drive_file.as_deref().map_or_else(none, path),
        _ => match name.split_once('.') {
            Some(("durable", part)) => of_target(&config.durable.as_ref()?.options, part)?,
            Some(("shared", part)) => of_target(&config.shared.as_ref()?.options, part)?,
            Some(("endurance", part)) => {
                let said = &config.durable.as_ref()?.endurance;
                let number = match part {
                    "rated_bytes" => said.rated_bytes,
                    "written_bytes" => said.written_bytes,
                    "remaining_years" => said.remaining_s.map(|remaining_s| remaining_s / YEAR_S),
                    _ => said.amplification_factor,
                };
                number.map_or_else(|| "as the drive says".to_owned(), plain)
            }
            _ => match &config.policy {
                Policy::Surefoot(surefoot) => of_policy(surefoot, name)?,
                _ => return None,
            },
        },
    })
}

fn of_target(options: &DurableOptions, part: &str) -> Option<String> {
    Some(match part {
        "keep" => options.keep.to_string(),
        "queue_depth" => options.queue_depth.to_string(),
        "protection" => options.protection.label().to_owned(),
        "allow_memory" => if options.allow_memory { "yes" } else { "no" }.to_owned(),
        "limit_bytes_per_s" => options.limit_bytes_per_s.map_or_else(|| "no limit".to_owned(), |n| n.to_string()),
        _ => return None,
    })
}

fn of_policy(policy: &Surefoot, name: &str) -> Option<String> {
    Some(match name {
        "memory_mtbf_s" => plain(1.0 / policy.soft_failures_per_s),
        "durable_mtbf_s" => plain(1.0 / policy.hard_failures_per_s),
        "staleness_max_s" => plain(policy.staleness_max_s),
        "priority" => match policy.priority {
            Priority::Staleness => "staleness",
            Priority::Endurance => "endurance",
        }
        .to_owned(),
        _ => return None,
    })
}

/// Without the last digits, which a quotient of a quotient gets wrong.
fn plain(number: f64) -> String {
    format!("{}", (number * 1e6).round() / 1e6)
}
