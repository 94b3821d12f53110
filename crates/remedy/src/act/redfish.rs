//! A baseboard controller that speaks Redfish (DMTF DSP0266): settings of the firmware, and restarts of the machine.
//!
//! Settings are changed in the object that `@Redfish.Settings` names, and take effect when the machine restarts.

use super::Outcome;
use super::shown::cut;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_hostfs::http::{self, Answer, Identity, Request, Trust};

/// How long a controller may take for an answer: these are slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// A baseboard controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bmc {
    /// Such as `https://bmc17.example`.
    pub url: String,
    /// Who asks.
    pub identity: Identity,
    /// Whom it believes.
    pub trust: Trust,
    /// The path of the machine, such as `/redfish/v1/Systems/1`; `None` where the controller has one machine alone.
    pub system: Option<String>,
}

/// Settings by name, as the controller says them.
pub type Attributes = BTreeMap<String, Value>;

/// What a controller says of its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its path.
    pub path: String,
    /// Whether it has power.
    pub is_on: bool,
    /// How far it has started: `OSRunning` at the end; `None` where the controller does not tell.
    pub progress: Option<String>,
    /// When it was restarted last; `None` where the controller does not tell.
    pub last_reset: Option<String>,
}

/// Why something could not be done, and whether it may work later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// In words.
    pub why: String,
    /// Whether the same may work later.
    pub is_passing: bool,
}

impl Refused {
    fn for_good(why: String) -> Self {
        Refused { why, is_passing: false }
    }

    /// As the outcome of a step that remembers this.
    pub fn outcome(self, memo: &str) -> Outcome {
        Outcome::Failed { detail: self.why, memo: memo.to_owned(), is_passing: self.is_passing }
    }
}

impl Bmc {
    /// What the controller says of its machine.
    ///
    /// # Errors
    /// [`Refused`], also where it has several machines and nobody said which.
    pub fn machine(&self, stop: &AtomicBool) -> Result<Machine, Refused> {
        let path = match &self.system {
            Some(path) => path.clone(),
            None => self.only_system(stop)?,
        };
        let said = self.get(&path, stop)?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(Machine {
            path,
            is_on: said["PowerState"] == "On",
            progress: text(&said["BootProgress"]["LastState"]),
            last_reset: text(&said["LastResetTime"]),
        })
    }

    fn only_system(&self, stop: &AtomicBool) -> Result<String, Refused> {
        let systems = self.get("/redfish/v1/Systems", stop)?;
        let members = systems["Members"].as_array().map_or(&[][..], Vec::as_slice);
        match members {
            [one] => link(one).ok_or_else(|| Refused::for_good(format!("{} names its machine by no path", self.url))),
            [] => Err(Refused::for_good(format!("{} has no machine", self.url))),
            several => {
                let why = format!(
                    "{} has {} machines; the policy file must say which: system = '/redfish/v1/Systems/...'",
                    self.url,
                    several.len()
                );
                Err(Refused::for_good(why))
            }
        }
    }

    /// The settings of the firmware as they are, and as they will be after the next restart.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn attributes(&self, machine: &Machine, stop: &AtomicBool) -> Result<(Attributes, Attributes), Refused> {
        let bios = self.get(&self.bios(machine, stop)?, stop)?;
        let now = attributes_of(&bios);
        let pending = match settings_path(&bios) {
            Some(path) => attributes_of(&self.get(&path, stop)?),
            None => now.clone(),
        };
        Ok((now, pending))
    }

    /// Has these settings take effect at the next restart.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn set(&self, machine: &Machine, wanted: &Attributes, stop: &AtomicBool) -> Result<(), Refused> {
        let bios_path = self.bios(machine, stop)?;
        let bios = self.get(&bios_path, stop)?;
        let path = settings_path(&bios).unwrap_or(bios_path);
        let answer = self.send("PATCH", &path, &json!({ "Attributes": wanted }), stop)?;
        accepted(&path, &answer)?;
        // Some controllers take what they do not do.
        let pending = attributes_of(&self.get(&path, stop)?);
        match wanted.iter().find(|(name, value)| pending.get(*name) != Some(value)) {
            None => Ok(()),
            Some((name, value)) => {
                let has = pending.get(name).map_or("nothing".to_owned(), Value::to_string);
                Err(Refused::for_good(format!("{path} took {name} = {value}, and has {has}")))
            }
        }
    }

    /// Restarts the machine.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn restart(&self, machine: &Machine, stop: &AtomicBool) -> Result<(), Refused> {
        let path = format!("{}/Actions/ComputerSystem.Reset", machine.path);
        // One without power is switched on, which is what was wanted.
        let kind = if machine.is_on { "GracefulRestart" } else { "On" };
        let mut answer = self.send("POST", &path, &json!({ "ResetType": kind }), stop)?;
        if answer.status == 400 && machine.is_on {
            answer = self.send("POST", &path, &json!({ "ResetType": "ForceRestart" }), stop)?;
        }
        accepted(&path, &answer)
    }

    fn bios(&self, machine: &Machine, stop: &AtomicBool) -> Result<String, Refused> {
        let system = self.get(&machine.path, stop)?;
        link(&system["Bios"]).ok_or_else(|| {
            Refused::for_good(format!(
                "unsupported: {} tells no settings of the firmware for {}",
                self.url, machine.path
            ))
        })
    }

    fn get(&self, path: &str, stop: &AtomicBool) -> Result<Value, Refused> {
        let answer = self.ask("GET", path, String::new(), stop)?;
        accepted(path, &answer)?;
        serde_json::from_str(&answer.body)
            .map_err(|error| Refused { why: format!("{path}: no JSON: {error}"), is_passing: true })
    }

    fn send(&self, method: &'static str, path: &str, body: &Value, stop: &AtomicBool) -> Result<Answer, Refused> {
        self.ask(method, path, body.to_string(), stop)
    }

    fn ask(&self, method: &'static str, path: &str, body: String, stop: &AtomicBool) -> Result<Answer, Refused> {
        let request = Request {
            method,
            url: format!("{}{path}", self.url.trim_end_matches('/')),
            headers: vec!["Accept: application/json".to_owned(), "Content-Type: application/json".to_owned()],
            body,
            identity: self.identity.clone(),
            trust: self.trust.clone(),
            socket: None,
        };
        http::ask(&request, PATIENCE, stop)
            .map_err(|why| Refused { why: format!("{}: {why}", self.url), is_passing: true })
    }
}

/// Settings for this value of a name, in the kind that the firmware has there.
///
/// # Errors
/// That the firmware has no such setting.
pub fn typed(now: &Attributes, name: &str, value: &str) -> Result<Value, Refused> {
    let is = now.get(name).ok_or_else(|| {
        let close: Vec<&str> = now.keys().map(String::as_str).take(8).collect();
        Refused::for_good(format!("the firmware has no setting '{}'; it has {} ...", cut(name), close.join(", ")))
    })?;
    let wrong = |kind: &str| Refused::for_good(format!("the setting {name} is {kind}, and '{}' is none", cut(value)));
    match is {
        Value::Bool(_) => value.parse().map(Value::Bool).map_err(|_| wrong("true or false")),
        Value::Number(_) => value.parse::<i64>().map(Value::from).map_err(|_| wrong("a number")),
        _ => Ok(Value::from(value)),
    }
}

fn attributes_of(bios: &Value) -> Attributes {
    let all = bios["Attributes"].as_object();
    all.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn settings_path(bios: &Value) -> Option<String> {
    link(&bios["@Redfish.Settings"]["SettingsObject"])
}

/// The path in a link, where it is one of the same controller.
fn link(value: &Value) -> Option<String> {
    let path = value["@odata.id"].as_str()?;
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'?' | b'#' | b'@');
    let is_own =
        path.starts_with("/redfish/") && path.len() <= 512 && !path.contains("..") && path.bytes().all(is_plain);
    is_own.then(|| path.trim_end_matches('/').to_owned())
}

fn accepted(path: &str, answer: &Answer) -> Result<(), Refused> {
    if (200..300).contains(&answer.status) {
        return Ok(());
    }
    let said: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    let extended = said["error"]["@Message.ExtendedInfo"][0]["Message"].as_str();
    let words = extended.or(said["error"]["message"].as_str()).unwrap_or_default();
    let why = match answer.status {
        401 | 403 => format!("{path}: the controller refuses this user (HTTP {})", answer.status),
        status => format!("{path}: HTTP {status}: {}", cut(words)),
    };
    // What a controller refuses today it refuses tomorrow, but for what it says of itself.
    Err(Refused { why, is_passing: answer.status >= 500 || answer.status == 429 })
}
