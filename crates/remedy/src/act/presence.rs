//! Which remedies this host can do or have done: the rows of `surefoot status`.

use surefoot_model::{Capability, CapabilityState};
use surefoot_sys::program;

/// A remedy, and the programs that it is done by.
struct Means {
    id: &'static str,
    name: &'static str,
    /// What Surefoot does without a program of others.
    built_in: &'static [&'static str],
    /// Each with what it is for and its package.
    programs: &'static [(&'static str, &'static str, &'static str)],
}

const MEANS: [Means; 4] = [
    Means {
        id: "remedy.drain",
        name: "hosts taken out of service and given back",
        built_in: &["Kubernetes"],
        programs: &[("scontrol", "Slurm", "slurm-client")],
    },
    Means {
        id: "remedy.bmc",
        name: "firmware settings, restarts and the event log of a host's BMC",
        built_in: &["Redfish"],
        programs: &[("ipmitool", "IPMI", "ipmitool")],
    },
    Means {
        id: "remedy.stress",
        name: "memory tried under load before and after a repair",
        built_in: &[],
        programs: &[("stressapptest", "stressapptest", "stressapptest")],
    },
    Means {
        id: "remedy.mail",
        name: "repair tickets by e-mail",
        built_in: &[],
        programs: &[("sendmail", "the host's own mail", "a mail server that brings sendmail, such as postfix")],
    },
];

/// The rows. Nothing is started: whether a scheduler or a BMC answers is told when it is asked.
pub fn capabilities() -> Vec<Capability> {
    MEANS.iter().map(|means| row(means, |name| program::find(name).is_some())).collect()
}

fn row(means: &Means, is_there: impl Fn(&str) -> bool) -> Capability {
    let (there, missing): (Vec<_>, Vec<_>) = means.programs.iter().partition(|(name, ..)| is_there(name));
    let has_none = there.is_empty() && means.built_in.is_empty();
    let state = match (has_none, missing.is_empty()) {
        (_, true) => CapabilityState::Works,
        (false, false) => CapabilityState::Reduced,
        (true, false) => CapabilityState::Unsupported,
    };
    let by =
        |(name, what, _): &&(&str, &str, &str)| if name == what { (*name).into() } else { format!("{what} ({name})") };
    let words = |of: &[&(&str, &str, &str)]| of.iter().map(by).collect::<Vec<String>>();
    let built_in = means.built_in.iter().map(|name| (*name).to_owned());
    let mut reason = built_in.chain(words(&there)).collect::<Vec<String>>().join(", ");
    if !has_none {
        reason.push_str(" (there, not tried)");
    }
    if !missing.is_empty() {
        let gap = if reason.is_empty() { "" } else { "; " };
        reason.push_str(&format!("{gap}not installed: {}", words(&missing).join(", ")));
    }
    let packages: Vec<&str> = missing.iter().map(|(.., package)| *package).collect();
    let remedy = if packages.is_empty() { String::new() } else { format!("install {}", packages.join(", ")) };
    Capability { id: means.id.into(), name: means.name.into(), state, reason, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let drain = |there: &'static [&str]| row(&MEANS[0], |name| there.contains(&name));
        let all = drain(&["scontrol"]);
        assert_eq!(
            (all.state, all.reason.as_str()),
            (CapabilityState::Works, "Kubernetes, Slurm (scontrol) (there, not tried)")
        );
        assert_eq!(all.remedy, "");
        let one = drain(&[]);
        assert_eq!(one.state, CapabilityState::Reduced);
        assert_eq!(one.reason, "Kubernetes (there, not tried); not installed: Slurm (scontrol)");
        assert_eq!(one.remedy, "install slurm-client");
        let none = row(&MEANS[2], |_| false);
        assert_eq!((none.state, none.reason.as_str()), (CapabilityState::Unsupported, "not installed: stressapptest"));
    }
}
