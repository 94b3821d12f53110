//! The steps that a policy may name.

use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;
use surefoot_model::nearest;

/// The longest stress that a policy may ask for.
const STRESS_MAX: Duration = Duration::from_secs(7 * 86_400);
/// The longest name of a network interface: the kernel's IFNAMSIZ without its end.
const INTERFACE_BYTES_MAX: usize = 15;
/// Every step as it is written.
const FORMS: [&str; 17] = [
    "recheck",
    "drain",
    "return",
    "restart:UNIT",
    "reset-interface[:NAME]",
    "offline-page",
    "tune-reporting:TIME",
    "firmware:NAME=VALUE",
    "reboot",
    "stress:TIME",
    "debug:ADAPTER",
    "collect:ADAPTER",
    "soft-repair:ADAPTER",
    "hard-repair:ADAPTER",
    "run:PATH",
    "ticket:NAME",
    "restore:STEP",
];
/// The longest name of a unit, interface, setting or ticket system, and the longest path of a hook.
const WORD_BYTES_MAX: usize = 255;

/// One step of a policy, as its words say: `drain`, `stress:1h`, `run:/usr/lib/surefoot/hooks/repair`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Step {
    /// `recheck`: asks whether the fault still holds; where it does not, the case is cleared before anything is changed.
    #[default]
    Recheck,
    /// `drain`: takes the host out of service, by the service's scheduler.
    Drain,
    /// `return`: brings it back.
    Return,
    /// `restart:UNIT`: restarts a unit of systemd on the host.
    Restart(String),
    /// `reset-interface:NAME`, or `reset-interface` for the one that the alert is about.
    ResetInterface(String),
    /// `offline-page`: offlines the pages of the errors since the case began: soft, or hard where bits were lost.
    OfflinePage,
    /// `tune-reporting:SECONDS`: sets the interval of polling for corrected errors.
    TuneReporting(Duration),
    /// `firmware:NAME=VALUE`: sets an attribute of the firmware through Redfish.
    Firmware {
        /// The attribute.
        name: String,
        /// Its value.
        value: String,
    },
    /// `reboot`: restarts the host, and waits until it is back.
    Reboot,
    /// `stress:TIME`: runs stressapptest for so long.
    Stress(Duration),
    /// `debug:ADAPTER`: switches to the hybrid debug mode, with the settings of this vendor's adapter, until `restore:debug:ADAPTER`.
    Debug(String),
    /// `collect:ADAPTER`: gathers the rows of the errors that were told since.
    Collect(String),
    /// `soft-repair:ADAPTER`: repairs these rows until the next loss of power, as far as there are spare ones.
    SoftRepair(String),
    /// `hard-repair:ADAPTER`: the same for good; somebody always has to approve it.
    HardRepair(String),
    /// `run:PATH`: runs an executable, a hook: reimaging, an upgrade of the firmware, a repair.
    Run(String),
    /// `ticket:NAME`: files a ticket with the system of this name.
    Ticket(String),
    /// `restore:STEP`: takes back what an earlier `firmware`, `tune-reporting` or `debug` step changed, by what that step remembered.
    /// The engine adds it to a case that ends early; a policy may name it too.
    Restore(Box<Step>),
}

impl Step {
    /// Whether the step does something to its host, and so waits for the limits of its policy.
    pub fn touches_host(&self) -> bool {
        !matches!(self, Step::Recheck | Step::Ticket(_) | Step::Collect(_))
    }

    /// Whether the step may mend what is wrong with its host: what is verified before the host returns, and what an alert that fires again
    /// has come back after. Taking a host out and back, stress, the debug mode and what takes settings back mend nothing.
    pub fn repairs(&self) -> bool {
        let mends_nothing =
            matches!(self, Step::Drain | Step::Return | Step::Stress(_) | Step::Debug(_) | Step::Restore(_));
        self.touches_host() && !mends_nothing
    }

    /// Whether the step looks whether a repair has helped.
    pub fn verifies(&self) -> bool {
        matches!(self, Step::Recheck | Step::Stress(_))
    }

    /// Whether what the host works at is stopped or disturbed while the step is done.
    pub fn interrupts_work(&self) -> bool {
        matches!(self, Step::Reboot | Step::Stress(_) | Step::Debug(_) | Step::SoftRepair(_) | Step::HardRepair(_))
    }

    /// Whether the step may stop or damage what runs on its host: after a drain it is begun only on a host that is still empty.
    pub fn needs_empty_host(&self) -> bool {
        match self {
            Step::Restore(step) => matches!(**step, Step::Debug(_)),
            Step::Drain | Step::Return | Step::TuneReporting(_) => false,
            step => step.touches_host(),
        }
    }

    /// Whether the step leaves settings behind that [`Step::Restore`] can take back.
    pub fn has_way_back(&self) -> bool {
        matches!(self, Step::Firmware { .. } | Step::TuneReporting(_) | Step::Debug(_))
    }

    /// Whether nothing can take the step back, so that a person approves it whatever the policy says.
    pub fn is_for_good(&self) -> bool {
        matches!(self, Step::HardRepair(_))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Recheck => f.write_str("recheck"),
            Step::Drain => f.write_str("drain"),
            Step::Return => f.write_str("return"),
            Step::Restart(unit) => write!(f, "restart:{unit}"),
            Step::ResetInterface(name) if name.is_empty() => f.write_str("reset-interface"),
            Step::ResetInterface(name) => write!(f, "reset-interface:{name}"),
            Step::OfflinePage => f.write_str("offline-page"),
            Step::TuneReporting(interval) => write!(f, "tune-reporting:{}s", interval.as_secs()),
            Step::Firmware { name, value } => write!(f, "firmware:{name}={value}"),
            Step::Reboot => f.write_str("reboot"),
            Step::Stress(time) => write!(f, "stress:{}s", time.as_secs()),
            Step::Debug(adapter) => write!(f, "debug:{adapter}"),
            Step::Collect(adapter) => write!(f, "collect:{adapter}"),
            Step::SoftRepair(adapter) => write!(f, "soft-repair:{adapter}"),
            Step::HardRepair(adapter) => write!(f, "hard-repair:{adapter}"),
            Step::Run(path) => write!(f, "run:{path}"),
            Step::Ticket(name) => write!(f, "ticket:{name}"),
            Step::Restore(step) => write!(f, "restore:{step}"),
        }
    }
}

impl From<Step> for String {
    fn from(step: Step) -> String {
        step.to_string()
    }
}

impl TryFrom<String> for Step {
    type Error = Error;

    fn try_from(text: String) -> Result<Step> {
        text.parse()
    }
}

impl FromStr for Step {
    type Err = Error;

    fn from_str(text: &str) -> Result<Step> {
        let shown = || surefoot_model::clipped(text, 80);
        let wrong = |why: &str| Error::Step { text: shown(), why: why.to_owned() };
        let (verb, about) = text.split_once(':').map_or((text, None), |(verb, about)| (verb, Some(about)));
        let word = |what: &str| {
            let about =
                about.filter(|about| !about.is_empty()).ok_or_else(|| wrong(&format!("{verb}:{what} names none")))?;
            let is_plain =
                about.len() <= WORD_BYTES_MAX && !about.starts_with('-') && !about.chars().any(char::is_control);
            if is_plain {
                Ok(about.to_owned())
            } else {
                Err(wrong("its name is too long, begins with '-' or holds a control character"))
            }
        };
        let bare = |step: Step| if about.is_none() { Ok(step) } else { Err(wrong("it takes nothing after its name")) };
        match verb {
            "recheck" => bare(Step::Recheck),
            "drain" => bare(Step::Drain),
            "return" => bare(Step::Return),
            "restart" => match word("UNIT")? {
                unit if unit.bytes().all(|byte| byte.is_ascii_alphanumeric() || b":_.@-\\".contains(&byte)) => {
                    Ok(Step::Restart(unit))
                }
                _ => Err(wrong("a unit's name has letters, digits and :_.@-\\ alone, such as nginx.service")),
            },
            "reset-interface" if about.is_none() => Ok(Step::ResetInterface(String::new())),
            "reset-interface" => match word("NAME")? {
                name if name.len() <= INTERFACE_BYTES_MAX && !name.contains(['/', ' ']) => {
                    Ok(Step::ResetInterface(name))
                }
                _ => Err(wrong("an interface's name has up to 15 letters, without '/' and spaces, such as eth0")),
            },
            "offline-page" => bare(Step::OfflinePage),
            "tune-reporting" => Ok(Step::TuneReporting(time(&word("TIME")?).map_err(|why| wrong(&why))?)),
            "firmware" => {
                let setting = word("NAME=VALUE")?;
                let (name, value) = setting.split_once('=').ok_or_else(|| wrong("it is firmware:NAME=VALUE"))?;
                Ok(Step::Firmware { name: name.to_owned(), value: value.to_owned() })
            }
            "reboot" => bare(Step::Reboot),
            "stress" => match time(&word("TIME")?).map_err(|why| wrong(&why))? {
                time if time <= STRESS_MAX => Ok(Step::Stress(time)),
                _ => Err(wrong("a stress lasts 7 days at most")),
            },
            "debug" => Ok(Step::Debug(word("ADAPTER")?)),
            "collect" => Ok(Step::Collect(word("ADAPTER")?)),
            "soft-repair" => Ok(Step::SoftRepair(word("ADAPTER")?)),
            "hard-repair" => Ok(Step::HardRepair(word("ADAPTER")?)),
            "run" => match word("PATH")? {
                path if path.starts_with('/') && !path.split('/').any(|part| part == "..") => Ok(Step::Run(path)),
                _ => Err(wrong("the path of a hook is absolute and goes up nowhere")),
            },
            "ticket" => Ok(Step::Ticket(word("NAME")?)),
            "restore" => match word("STEP")?.parse::<Step>()? {
                step if step.has_way_back() => Ok(Step::Restore(Box::new(step))),
                _ => Err(wrong("only firmware, tune-reporting and debug can be taken back")),
            },
            _ => {
                let meant = nearest(verb, FORMS.map(verb_of))
                    .map_or_else(String::new, |verb| format!("did you mean '{verb}'? "));
                Err(wrong(&format!("{meant}there are {}", FORMS.join(", "))))
            }
        }
    }
}

/// What stands before the colon of a step's form.
fn verb_of(form: &'static str) -> &'static str {
    form.split([':', '[']).next().unwrap_or(form)
}

/// A time such as `90s`, `15m`, `24h` or `7d`.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn time(text: &str) -> std::result::Result<Duration, String> {
    let wrong = || format!("'{text}' is no time: it is a whole number with s, m, h or d, such as 90s or 24h");
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(wrong()),
    };
    let digits = &text[..text.len() - unit.len_utf8()];
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let count: u64 = digits.parse().ok().filter(|_| is_number).ok_or_else(wrong)?;
    match count.checked_mul(seconds).filter(|seconds| *seconds <= 10 * 366 * 86_400) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => Err(format!("'{text}' is longer than ten years")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_step_is_read_as_it_is_written() {
        for text in [
            "recheck",
            "drain",
            "return",
            "restart:nginx.service",
            "reset-interface",
            "reset-interface:eth0",
            "offline-page",
            "tune-reporting:35s",
            "firmware:CeThreshold=1",
            "reboot",
            "stress:3600s",
            "debug:generic",
            "collect:generic",
            "soft-repair:generic",
            "hard-repair:generic",
            "restore:debug:generic",
            "run:/usr/lib/surefoot/hooks/repair",
            "ticket:desk",
            "restore:firmware:CeThreshold=1",
        ] {
            assert_eq!(text.parse::<Step>().unwrap().to_string(), text);
        }
        assert_eq!("stress:1h".parse::<Step>().unwrap(), Step::Stress(Duration::from_secs(3_600)));
    }

    #[test]
    fn what_is_no_step_is_refused_with_what_would_be_one() {
        for (text, part) in [
            ("reboot:now", "takes nothing"),
            ("run:repair", "absolute"),
            ("run:/a/../b", "goes up nowhere"),
            ("stress:1", "is no time"),
            ("stress:8d", "7 days"),
            ("stress:99999999999999999999s", "is no time"),
            ("restart:", "names none"),
            ("restart:-f", "begins with '-'"),
            ("firmware:A", "NAME=VALUE"),
            ("restore:reboot", "can be taken back"),
            ("dance", "there are recheck"),
            ("retrun", "did you mean 'return'? there are recheck, drain"),
            ("Drain", "did you mean 'drain'?"),
            ("restart:;rm -rf /", "such as nginx.service"),
            ("reset-interface:eth0/../x", "such as eth0"),
        ] {
            let error = text.parse::<Step>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
