//! A baseboard controller that speaks Redfish (DMTF DSP0266): settings of the firmware, and restarts of the machine.
//!
//! Settings are changed in the object that `@Redfish.Settings` names, and take effect when the machine restarts. What was set is read again
//! before it counts as set.

use super::shown::cut;
use super::{Order, Outcome, machine};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use surefoot_model::MachineId;
use surefoot_outside::address::shown;
use surefoot_outside::http::redfish::{Collection, MachineIdentity, SYSTEMS_MAX, System, Wanted, link};
use surefoot_outside::http::{self, Answer, Identity, Request, Trust};

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
    /// Its system that is the host: a path such as `/redfish/v1/Systems/1`, a UUID or a serial number; `None` where it has one alone, or
    /// where `own` chooses.
    pub system: Option<String>,
    /// The host's name.
    pub host: String,
    /// What is known of the host's machine.
    pub own: MachineIdentity,
    /// What the host's agent reported of it, see [`Order::machine`].
    pub reported: Option<MachineId>,
    /// Whether the policy file names the same address for every host.
    pub is_for_every_host: bool,
}

/// How the policy file chooses a system.
const OPTION: &str = "system = 'PATH, UUID or SERIAL NUMBER' in the host's [[bmc]] table";

/// Settings by name, as the controller says them.
pub type Attributes = BTreeMap<String, Value>;

/// What a controller says of its machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Which system of the controller it is.
    pub system: System,
    /// Whether it has power, in the controller's word (DMTF DSP0268, `PowerState`); `None` where it does not tell.
    pub power: Option<String>,
    /// How far it has started: `OSRunning` at the end; `None` where the controller does not tell.
    pub progress: Option<String>,
    /// When it was restarted last; `None` where the controller does not tell.
    pub last_reset: Option<String>,
    /// Whether it is known to be the machine that the host's agent reports.
    pub is_reported: bool,
    /// What a step says where that is not known.
    pub doubt: String,
}

impl Machine {
    /// Whether the controller says that it has power.
    pub fn is_on(&self) -> bool {
        self.power.as_deref() == Some("On")
    }

    /// Its power in words.
    pub fn power_text(&self) -> String {
        self.power.as_deref().map_or_else(|| "not told".to_owned(), cut)
    }
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

    fn passing(why: String) -> Self {
        Refused { why, is_passing: true }
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
    /// [`Refused`], also where it has several systems and none is known to be the host.
    pub fn machine(&self, stop: &AtomicBool) -> Result<Machine, Refused> {
        let wanted = Wanted { chosen: self.system.as_deref(), own: &self.own, host: &self.host, option: OPTION };
        let paths = match wanted.path() {
            Some(path) => vec![path],
            None => self.systems(stop)?,
        };
        let (mut systems, mut said) = (Vec::new(), Vec::new());
        for path in paths {
            let one = self.get(&path, stop)?;
            systems.push(System::of(&path, &one).map_err(|why| self.refused(&path, &why))?);
            said.push(one);
        }
        // The agent tells a hash of its UUID: the system that has it is the host's own.
        let is_reported = |system: &System| {
            self.reported
                .as_ref()
                .zip(system.identity.uuid.as_ref())
                .and_then(|(known, uuid)| machine::has_uuid(known, uuid))
        };
        let mut own = self.own.clone();
        if own.uuid.is_none() {
            own.uuid =
                systems.iter().find(|one| is_reported(one) == Some(true)).and_then(|one| one.identity.uuid.clone());
        }
        let wanted = Wanted { own: &own, ..wanted };
        let system = wanted.of(&systems, true).map_err(|why| self.refused("", &why))?.clone();
        let is_reported = is_reported(&system);
        if is_reported == Some(false)
            && !system.is_surely(&self.own, "")
            && let Some(why) = wanted.another_by_report(&system)
        {
            return Err(self.refused("", &why));
        }
        let said = systems.iter().zip(said).find(|(one, _)| one.path == system.path).map(|(_, said)| said);
        let said = said.unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(Machine {
            power: text(&said["PowerState"]),
            progress: text(&said["BootProgress"]["LastState"]),
            last_reset: text(&said["LastResetTime"]),
            is_reported: is_reported == Some(true),
            doubt: match is_reported {
                None if !system.is_surely(&self.own, &self.host) => self.doubt(),
                _ => String::new(),
            },
            system,
        })
    }

    fn doubt(&self) -> String {
        let order = Order { host: self.host.clone(), machine: self.reported.clone(), ..Order::default() };
        order.doubt("its controller tells neither its UUID nor its host name, or the agent does not")
    }

    /// As [`Bmc::machine`], and the one that a step remembers.
    ///
    /// # Errors
    /// [`Refused`], also where the controller now has another machine there.
    pub fn same_machine(&self, remembered: &System, stop: &AtomicBool) -> Result<Machine, Refused> {
        let machine = self.machine(stop)?;
        let is_remembered = *remembered != System::default();
        if is_remembered && machine.system.contradicts(remembered) {
            let (was, is) = (remembered.describe(), machine.system.describe());
            return Err(self.refused("", &format!("this step began on {was}; the controller now has {is}")));
        }
        Ok(machine)
    }

    fn refused(&self, path: &str, why: &str) -> Refused {
        Refused::for_good(format!("{}{path}: {why}", shown(self.url.trim_end_matches('/'))))
    }

    fn systems(&self, stop: &AtomicBool) -> Result<Vec<String>, Refused> {
        let (mut systems, mut next) = (Collection::default(), Some("/redfish/v1/Systems".to_owned()));
        while let Some(path) = next {
            let page = self.get(&path, stop)?;
            next = systems.take(&path, &page).map_err(|why| self.refused(&path, &why))?;
        }
        if let Some(why) = systems.missing() {
            return Err(self.refused("", &format!("its list of systems: {why}")));
        }
        if systems.members.len() > SYSTEMS_MAX {
            let why =
                format!("it has {} systems, more than {SYSTEMS_MAX}; give the path: {OPTION}", systems.members.len());
            return Err(self.refused("", &why));
        }
        Ok(systems.members)
    }

    /// The settings of the firmware as they are, and as they will be after the next restart.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn attributes(&self, machine: &Machine, stop: &AtomicBool) -> Result<(Attributes, Attributes), Refused> {
        let path = self.bios(machine, stop)?;
        let bios = self.get(&path, stop)?;
        let now = attributes_of(&path, &bios)?;
        let to_come = match settings_path(&bios) {
            Some(path) => self.to_come(&path, &now, stop)?,
            None => now.clone(),
        };
        Ok((now, to_come))
    }

    /// The settings after the next restart: some controllers list those alone that will change.
    fn to_come(&self, path: &str, now: &Attributes, stop: &AtomicBool) -> Result<Attributes, Refused> {
        let said = self.get(path, stop)?;
        let mut to_come = now.clone();
        // Where nothing waits for the restart, the list may be left out.
        if said.get("Attributes").is_some() {
            to_come.append(&mut attributes_of(path, &said)?);
        }
        Ok(to_come)
    }

    /// Has these settings take effect at the next restart, and reads them again.
    ///
    /// # Errors
    /// [`Refused`]; where it may pass, the controller still works on it.
    pub fn set(&self, machine: &Machine, wanted: &Attributes, stop: &AtomicBool) -> Result<(), Refused> {
        let bios_path = self.bios(machine, stop)?;
        let bios = self.get(&bios_path, stop)?;
        let now = attributes_of(&bios_path, &bios)?;
        let settings = settings_path(&bios);
        let path = settings.clone().unwrap_or(bios_path);
        let answer = self.change(&path, &json!({ "Attributes": wanted }), stop)?;
        accepted(&path, &answer)?;
        // Some controllers take what they do not do.
        let pending = match settings {
            Some(_) => self.to_come(&path, &now, stop)?,
            None => attributes_of(&path, &self.get(&path, stop)?)?,
        };
        let Some((name, value)) = wanted.iter().find(|(name, value)| pending.get(*name) != Some(value)) else {
            return Ok(());
        };
        let has = pending.get(name).map_or("nothing".to_owned(), Value::to_string);
        let why = format!("{path} took {name} = {value}, and has {has}");
        match answer.status {
            202 => Err(self.task(&why, &answer, stop)),
            _ => Err(Refused::for_good(why)),
        }
    }

    /// Sends a change of a resource that was just read. Many controllers refuse one that does not name the version it is of (`If-Match`), or
    /// that names another: then it is read again, and sent once more.
    fn change(&self, path: &str, body: &Value, stop: &AtomicBool) -> Result<Answer, Refused> {
        let mut tried = None;
        loop {
            let tags = self.tags(path, stop)?;
            let other = tags.iter().find(|tag| tried.as_ref() != Some(&Some((*tag).clone())));
            let tag = other.or(tags.first()).cloned();
            let is_first = tried.is_none();
            // One that tells no version may still want to hear that it is there.
            let tag = if is_first { tag } else { tag.or_else(|| Some("*".to_owned())) };
            let more = tag.iter().map(|tag| format!("If-Match: {tag}")).collect();
            let answer = self.ask("PATCH", path, body.to_string(), more, stop)?;
            if !is_first || !matches!(answer.status, 412 | 428) {
                return Ok(answer);
            }
            tried = Some(tag);
        }
    }

    /// The names of a resource's version, the likeliest first: of the answer's head, of its body (a proxy may change the head's), and without
    /// the mark of a weak one, which some services give and do not take.
    fn tags(&self, path: &str, stop: &AtomicBool) -> Result<Vec<String>, Refused> {
        let (answer, said) = self.read(path, stop)?;
        let told = [answer.header("ETag"), said["@odata.etag"].as_str()].into_iter().flatten();
        let told: Vec<&str> = told.filter(|tag| !tag.is_empty() && tag.len() <= 256).collect();
        let strong = told.iter().filter_map(|tag| tag.strip_prefix("W/"));
        let mut tags: Vec<String> = told.iter().copied().chain(strong).map(str::to_owned).collect();
        tags.dedup();
        Ok(tags)
    }

    /// Why a change that was taken for later is not there: what its task says.
    fn task(&self, why: &str, answer: &Answer, stop: &AtomicBool) -> Refused {
        let place =
            answer.header("Location").map(|place| place.strip_prefix(self.url.trim_end_matches('/')).unwrap_or(place));
        let said = answer.json().unwrap_or_default();
        let Some(path) = link(&said).or_else(|| link(&json!({ "@odata.id": place }))) else {
            return Refused::for_good(format!("{why}; its controller took it for later, and names no task"));
        };
        let task = match self.read(&path, stop) {
            Ok((_, task)) => task,
            Err(refused) => return Refused { why: format!("{why}; {}", refused.why), ..refused },
        };
        let state = task["TaskState"].as_str().map(cut);
        let why = format!("{why}; the task {path} is {}", state.as_deref().unwrap_or("in no state that it tells"));
        match state.as_deref() {
            Some("New" | "Starting" | "Running" | "Pending" | "Service" | "Suspended" | "Stopping" | "Cancelling") => {
                Refused::passing(why)
            }
            Some("Completed" | "Exception" | "Killed" | "Cancelled" | "Interrupted") => Refused::for_good(why),
            _ => Refused::for_good(format!("{why}, which is unknown here")),
        }
    }

    /// Restarts the machine.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn restart(&self, machine: &Machine, stop: &AtomicBool) -> Result<(), Refused> {
        if self.is_for_every_host && !machine.is_reported && !machine.system.is_surely(&self.own, &self.host) {
            let (system, host) = (machine.system.describe(), cut(&self.host));
            let why = format!(
                "{system} is not known to be {host}, because every host has this address; put {{host}} into the url of its [[bmc]] table, or add host = '{host}'"
            );
            return Err(self.refused("", &why));
        }
        let path = format!("{}/Actions/ComputerSystem.Reset", machine.system.path);
        // One without power is switched on, which is what was wanted.
        let kind = match machine.power.as_deref() {
            Some("On") => "GracefulRestart",
            Some("Off") => "On",
            Some("PoweringOn" | "PoweringOff" | "Paused") => {
                let why = format!(
                    "{} is {}: it is restarted when it is on or off",
                    machine.system.path,
                    machine.power_text()
                );
                return Err(Refused::passing(why));
            }
            _ => {
                let why = format!("{}: its power state is unknown ({})", machine.system.path, machine.power_text());
                return Err(Refused::for_good(why));
            }
        };
        let mut answer = self.send("POST", &path, &json!({ "ResetType": kind }), stop)?;
        if answer.status == 400 && machine.is_on() {
            answer = self.send("POST", &path, &json!({ "ResetType": "ForceRestart" }), stop)?;
        }
        accepted(&path, &answer)
    }

    fn bios(&self, machine: &Machine, stop: &AtomicBool) -> Result<String, Refused> {
        let system = self.get(&machine.system.path, stop)?;
        link(&system["Bios"]).ok_or_else(|| {
            Refused::for_good(format!(
                "unsupported: {} tells no settings of the firmware for {}",
                self.url, machine.system.path
            ))
        })
    }

    fn get(&self, path: &str, stop: &AtomicBool) -> Result<Value, Refused> {
        self.read(path, stop).map(|(_, said)| said)
    }

    /// A resource, with the answer that it came in.
    fn read(&self, path: &str, stop: &AtomicBool) -> Result<(Answer, Value), Refused> {
        let answer = self.ask("GET", path, String::new(), Vec::new(), stop)?;
        accepted(path, &answer)?;
        let said = answer.json().map_err(|why| Refused::passing(format!("{path}: {why}")))?;
        Ok((answer, said))
    }

    fn send(&self, method: &'static str, path: &str, body: &Value, stop: &AtomicBool) -> Result<Answer, Refused> {
        self.ask(method, path, body.to_string(), Vec::new(), stop)
    }

    fn ask(
        &self,
        method: &'static str,
        path: &str,
        body: String,
        mut headers: Vec<String>,
        stop: &AtomicBool,
    ) -> Result<Answer, Refused> {
        headers.extend(["Accept: application/json".to_owned(), "Content-Type: application/json".to_owned()]);
        let request = Request {
            method,
            url: format!("{}{path}", self.url.trim_end_matches('/')),
            headers,
            body,
            identity: self.identity.clone(),
            trust: self.trust.clone(),
            socket: None,
        };
        http::ask(&request, PATIENCE, stop).map_err(|why| Refused::passing(format!("{}: {why}", shown(&self.url))))
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
        Value::Null => {
            Err(Refused::for_good(format!("the firmware does not tell what {name} is: it could not be put back")))
        }
        Value::Number(_) => value.parse::<i64>().map(Value::from).map_err(|_| wrong("a number")),
        _ => Ok(Value::from(value)),
    }
}

fn attributes_of(path: &str, said: &Value) -> Result<Attributes, Refused> {
    match said["Attributes"].as_object() {
        Some(all) => Ok(all.iter().map(|(name, value)| (name.clone(), value.clone())).collect()),
        None => Err(Refused::passing(format!("{path}: it has no list 'Attributes': the settings are unknown"))),
    }
}

fn settings_path(bios: &Value) -> Option<String> {
    link(&bios["@Redfish.Settings"]["SettingsObject"])
}

fn accepted(path: &str, answer: &Answer) -> Result<(), Refused> {
    if answer.is_success() {
        return Ok(());
    }
    let said = answer.json().unwrap_or_default();
    let extended = said["error"]["@Message.ExtendedInfo"][0]["Message"].as_str();
    let words = extended.or(said["error"]["message"].as_str()).unwrap_or_default();
    let why = match answer.status {
        401 | 403 => format!("{path}: the controller refuses this user (HTTP {})", answer.status),
        300..=399 => format!("{path}: {}", answer.status_text()),
        status => format!("{path}: HTTP {status}: {}", cut(words)),
    };
    // What a controller refuses today it refuses tomorrow, but for what it says of itself, and a change that somebody else was in the way of.
    Err(Refused { why, is_passing: answer.status >= 500 || matches!(answer.status, 412 | 429) })
}
