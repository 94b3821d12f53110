//! A baseboard controller that speaks IPMI 2.0 over the network, through `ipmitool`: it restarts a host whose controller has no Redfish.
//!
//! IPMI does not tell when a machine was restarted last, so that nobody could say whether a restart was asked for before a controller died.
//! The restart is therefore two steps that can be seen, each remembered: the machine is switched off, and once it is off it is switched on.
//! Either may be asked for again.

use super::reboot::Times;
use super::redfish::Refused;
use super::shown::{cut, last_words, remarked};
use super::{Order, Outcome, PriorAttempt, machine};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use surefoot_model::{Observed, RestartProof};
use surefoot_outside::address::shown;
use surefoot_sys::program;

/// How long one answer of a controller may take: ipmitool asks again after a second, and gives up after some more.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a machine that restarts is looked at.
const LOOK_AGAIN_NS: u64 = 10_000_000_000;
/// How ipmitool says that a controller does not know a command.
const UNKNOWN_COMMAND: &str = "rsp=0xc1";
/// The port of IPMI.
const PORT: u16 = 623;

/// A controller, and who asks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ipmi {
    /// Its address, such as `ipmi://bmc17.example` or `ipmi://192.0.2.17:623`.
    pub url: String,
    /// The user's name.
    pub user: String,
    /// The file with the password, so that it stands in no list of processes.
    pub password_file: PathBuf,
    /// How long one answer may take.
    pub patience: Duration,
    /// The controller's system GUID, where a person looked it up: then it may be another than the UUID that SMBIOS has.
    pub system: Option<String>,
}

/// What a restart remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Memo {
    /// What is being done.
    part: Part,
    /// When that was asked for first, seconds of the wall clock; 0 for not yet.
    asked_s: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    Off,
    On,
}

impl Memo {
    fn goes_on(self, detail: &str, again_in_ns: u64) -> Outcome {
        let memo = serde_json::to_string(&self).unwrap_or_default();
        Outcome::GoesOn { detail: detail.to_owned(), memo, again_in_ns }
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Ipmi {
    /// A controller at this address.
    ///
    /// # Errors
    /// What is wrong with the address; `{host}` in it stands for a name.
    pub fn new(url: &str, user: &str, password_file: PathBuf) -> Result<Ipmi, String> {
        place(&url.replace("{host}", "host"))?;
        Ok(Ipmi { url: url.to_owned(), user: user.to_owned(), password_file, patience: PATIENCE, system: None })
    }

    /// Asks for something, in ipmitool's words.
    fn ask(&self, words: &[&str], stop: &AtomicBool) -> Result<String, Refused> {
        let why = match self.told(words, stop)? {
            Ok(said) => return Ok(said),
            // A wrong password and a controller that is restarting look alike.
            Err(why) => why,
        };
        Err(Refused { why: format!("{}: {why}", shown(&self.url)), is_passing: true })
    }

    /// Tells the controller something: what it says, or why it does not do that.
    fn told(&self, words: &[&str], stop: &AtomicBool) -> Result<Result<String, String>, Refused> {
        let refused = |why: String, is_passing| Refused { why: format!("{}: {why}", shown(&self.url)), is_passing };
        let (host, port) = place(&self.url).map_err(|why| Refused { why, is_passing: false })?;
        let path = program::find("ipmitool").ok_or_else(|| {
            refused("unsupported: it is asked through ipmitool, which is not installed".into(), false)
        })?;
        let mut command = Command::new(path);
        command.env_clear().env("LC_ALL", "C").current_dir("/");
        command.args(["-I", "lanplus", "-C", "3", "-R", "2", "-N", "2", "-H", &host, "-p", &port.to_string()]);
        command.args(["-U", &self.user]).arg("-f").arg(&self.password_file).args(words);
        match program::run(command, b"", self.patience, stop) {
            Ok(ended) if ended.code == 0 => Ok(Ok(String::from_utf8_lossy(&ended.output).into_owned())),
            Ok(ended) => Ok(Err(format!("ipmitool {}: {}", words.join(" "), last_words(&ended.complaint)))),
            Err(broken) => Err(refused(format!("ipmitool {}: {broken}", words.join(" ")), true)),
        }
    }

    /// Whether the machine has power.
    fn is_on(&self, stop: &AtomicBool) -> Result<bool, Refused> {
        let said = self.ask(&["chassis", "power", "status"], stop)?;
        match said.trim() {
            "Chassis Power is on" => Ok(true),
            "Chassis Power is off" => Ok(false),
            _ => {
                let why =
                    format!("{}: its power is neither on nor off: {}", shown(&self.url), last_words(said.as_bytes()));
                Err(Refused { why, is_passing: true })
            }
        }
    }

    /// Refuses where the controller's system GUID is another machine's than the host's agent reports; what to say where that is not known.
    fn doubt(&self, order: &Order, stop: &AtomicBool) -> Result<String, Refused> {
        let Some(reported) = order.machine.as_ref() else { return Ok(String::new()) };
        // The command of IPMI 2.0, 22.14, without any reading of its bytes.
        let guid = match self.told(&["raw", "0x06", "0x37"], stop)? {
            Ok(said) => said.split_whitespace().collect::<String>(),
            // What this controller does not know it never tells. Anything else may be another answer the next time.
            Err(why) if why.contains(UNKNOWN_COMMAND) => return Ok(order.doubt("its controller tells no system GUID")),
            Err(why) => return Err(Refused { why: format!("{}: {why}", shown(&self.url)), is_passing: true }),
        };
        let is_looked_up = self.system.as_deref().is_some_and(|own| is_same_guid(own, &guid));
        match machine::has_uuid(reported, &guid) {
            Some(true) => Ok(String::new()),
            _ if is_looked_up => Ok(String::new()),
            Some(false) => {
                let why = format!(
                    "{}: its system GUID {guid} is another machine's than the agent of {} reports; if it is this host, write system = '{guid}' into its [[bmc]] table",
                    shown(&self.url),
                    cut(&order.host)
                );
                Err(Refused { why, is_passing: false })
            }
            None => Ok(order.doubt("its controller's system GUID and the UUID of its agent cannot be compared")),
        }
    }

    /// Restarts the machine: one part at each call, each remembered before the next.
    pub fn restart(&self, times: &Times, order: &Order, stop: &AtomicBool) -> Outcome {
        self.go_on(times, order, stop).unwrap_or_else(|refused| refused.outcome(&order.memo))
    }

    fn go_on(&self, times: &Times, order: &Order, stop: &AtomicBool) -> Result<Outcome, Refused> {
        let is_on = self.is_on(stop)?;
        let doubt = self.doubt(order, stop)?;
        let again_in_ns = LOOK_AGAIN_NS.min(u64::try_from(times.settle.as_nanos()).unwrap_or(u64::MAX));
        let known = match order.remembered::<Memo>() {
            Ok(known) => known,
            Err(failed) => return Ok(failed),
        };
        let Some(memo) = known else {
            let part = if is_on { Part::Off } else { Part::On };
            let detail = if is_on { "about to switch it off" } else { "it has no power: about to switch it on" };
            return Ok(Memo { part, asked_s: 0 }.goes_on(&remarked(detail, &doubt), 0));
        };
        let waited = Duration::from_secs(if memo.asked_s == 0 { 0 } else { now_s().saturating_sub(memo.asked_s) });
        match (memo.part, is_on) {
            (Part::Off, false) => Ok(Memo { part: Part::On, asked_s: 0 }.goes_on("it is off", 0)),
            (Part::Off, true) if memo.asked_s == 0 => {
                let Err(why) = self.told(&["chassis", "power", "soft"], stop)? else {
                    return Ok(Memo { asked_s: now_s(), ..memo }.goes_on("shutdown requested", again_in_ns));
                };
                // The controller has just said that the machine has power: a system that hangs, or knows no such word, is not
                // waited for.
                let asked_s = now_s().saturating_sub(times.settle.as_secs());
                Ok(Memo { asked_s, ..memo }.goes_on(&format!("shutdown cannot be requested: {why}"), 0))
            }
            (Part::Off, true) if waited < times.settle => Ok(memo.goes_on("it shuts down", again_in_ns)),
            (Part::Off, true) if waited < times.limit => {
                self.ask(&["chassis", "power", "off"], stop)?;
                Ok(memo.goes_on("it did not shut down: it is switched off", again_in_ns))
            }
            (Part::On, false) if waited < times.limit => {
                self.ask(&["chassis", "power", "on"], stop)?;
                let asked_s = if memo.asked_s == 0 { now_s() } else { memo.asked_s };
                Ok(Memo { asked_s, ..memo }.goes_on("it is switched on", again_in_ns))
            }
            // IPMI does not tell how far a machine has started.
            (Part::On, true) if memo.asked_s != 0 && waited >= times.settle => {
                let observed = Observed::Restarted { proof: RestartProof::PowerCycle, after_s: waited.as_secs() };
                Ok(Outcome::Done { observed, remark: doubt, memo: order.memo.clone() })
            }
            (Part::On, true) if memo.asked_s == 0 => {
                Ok(Memo { asked_s: now_s(), ..memo }.goes_on("it has power", again_in_ns))
            }
            (Part::On, true) => Ok(memo.goes_on("it is not back yet", again_in_ns)),
            (part, _) => {
                let what = if part == Part::Off { "switched off" } else { "switched on" };
                let why = format!(
                    "{}: it cannot be {what}, {} s after that was asked for",
                    shown(&self.url),
                    waited.as_secs()
                );
                Err(Refused { why, is_passing: false })
            }
        }
    }

    /// Each part looks first at what is there, so that it may be asked for again.
    pub fn find() -> PriorAttempt {
        PriorAttempt::MayRepeat
    }
}

/// Whether both are the same digits, however they are grouped.
fn is_same_guid(one: &str, other: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_hexdigit).collect::<String>().to_ascii_lowercase();
    digits(one) == digits(other)
}

/// The host and port of an address.
fn place(url: &str) -> Result<(String, u16), String> {
    let wrong = || format!("'{}' must be ipmi://HOST or ipmi://HOST:PORT", shown(url));
    let rest = url.strip_prefix("ipmi://").ok_or_else(wrong)?;
    if let Some((address, port)) = rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let address: std::net::Ipv6Addr = address.parse().map_err(|_| wrong())?;
        let port = match port.strip_prefix(':') {
            Some(port) => port.parse().map_err(|_| wrong())?,
            None if port.is_empty() => PORT,
            None => return Err(wrong()),
        };
        return Ok((address.to_string(), port));
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
        None => (rest, PORT),
    };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    // Nothing that ipmitool could take for an option.
    if host.is_empty() || host.starts_with('-') || host.len() > 253 || !host.bytes().all(is_plain) {
        return Err(wrong());
    }
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn an_address_names_a_host_and_nothing_that_could_be_an_option() {
        assert_eq!(place("ipmi://bmc17.example").unwrap(), ("bmc17.example".to_owned(), 623));
        assert_eq!(place("ipmi://192.0.2.17:1623").unwrap(), ("192.0.2.17".to_owned(), 1623));
        assert_eq!(place("ipmi://[2001:db8::7]").unwrap(), ("2001:db8::7".to_owned(), 623));
        assert_eq!(place("ipmi://[2001:db8::7]:1623").unwrap(), ("2001:db8::7".to_owned(), 1623));
        for wrong in ["ipmi://[n1]", "ipmi://[::1]1623", "ipmi://[::1", "ipmi://::1"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
        for wrong in ["https://a", "ipmi://", "ipmi://-v", "ipmi://a:b", "ipmi://a b", "ipmi://a/../b", "ipmi://:623"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
        assert!(Ipmi::new("ipmi://{host}-bmc", "u", "/p".into()).is_ok());
    }
}
