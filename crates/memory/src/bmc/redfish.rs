//! MemoryMetrics of a Redfish service (DMTF DSP0268, schema MemoryMetrics).
//!
//! Four levels are asked: the systems, this machine's collection of memory, the modules, and the metrics of each. All addresses of a level
//! are asked over one connection. Modules of other systems are other machines', whose slots may have the same names.

use super::{Answer, Counted, MODULES_MAX};
use serde_json::Value;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use surefoot_model::{MemoryProblem, MemorySource, is_filler, one_line};
use surefoot_outside::address::shown;
pub use surefoot_outside::http::Trust;
pub use surefoot_outside::http::redfish::MachineIdentity;
use surefoot_outside::http::redfish::{Collection, SYSTEMS_MAX, System, Wanted, link};
use surefoot_outside::http::{self, Identity, NoAnswer, Request};

/// Addresses that are asked for at once.
const ADDRESSES_MAX: usize = 64;
/// The longest answer: a collection of many modules takes some 50 KiB.
const ANSWER_BYTES_MAX: u64 = http::ANSWER_BYTES_MAX / 2;
/// The collection that every service has.
const SYSTEMS: &str = "/redfish/v1/Systems";
/// How a person chooses a system.
const OPTION: &str = "--redfish-system 'PATH, UUID or SERIAL NUMBER'";
/// The longest name, serial number or part number.
const NAME_CHARACTERS_MAX: usize = 64;

/// Where a service is, and how to speak to it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Service {
    /// Such as `https://bmc17.example:443`.
    pub url: String,
    /// The user's name and password.
    pub user: Option<(String, String)>,
    /// Which certificates are believed.
    pub trust: Trust,
    /// How long the whole look may take.
    pub patience: Duration,
    /// Its system that is this machine: a path, a UUID or a serial number; `None` where it has one alone, or where `own` chooses.
    pub system: Option<String>,
    /// What is known of this machine.
    pub own: MachineIdentity,
    /// This host's name; empty where it is not known.
    pub host: String,
}

/// Without the password.
impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Service").field("url", &self.url).field("trust", &self.trust).finish_non_exhaustive()
    }
}

/// Asks a service for the errors of all its modules. What goes wrong is among the problems of the answer.
pub fn look(service: &Service) -> Answer {
    let mut asked = Asked { service, ends: Instant::now() + service.patience, problems: Vec::new() };
    let modules = asked.modules();
    Answer { modules, problems: asked.problems }
}

/// One look.
struct Asked<'a> {
    service: &'a Service,
    ends: Instant,
    problems: Vec<MemoryProblem>,
}

impl Asked<'_> {
    fn modules(&mut self) -> Vec<Counted> {
        let paths = self.module_paths();
        if paths.is_empty() {
            if self.problems.is_empty() {
                self.problem(SYSTEMS, "it names no memory module of any system");
            }
            return Vec::new();
        }
        let found = self.all(paths);
        // An empty slot is a module, too; one whose module is so broken that it is not seen any more is none.
        let is_there = |module: &Value| {
            module["Status"]["State"] != "Absent"
                || ["Warning", "Critical"].iter().any(|bad| module["Status"]["Health"] == *bad)
        };
        let found: Vec<(String, Value)> = found.into_iter().filter(|(_, module)| is_there(module)).collect();
        let of = |(path, module): &(String, Value)| link(&module["Metrics"]).unwrap_or(format!("{path}/MemoryMetrics"));
        let metrics = self.all(found.iter().map(of).collect());
        for (path, metrics) in &metrics {
            if let Some(why) = rubbish(metrics) {
                self.problem(path, &why);
            }
        }
        let mut silent = Vec::new();
        let mut modules = Vec::with_capacity(found.len());
        for module in &found {
            let path = of(module);
            let metrics = metrics.iter().find(|(own, _)| *own == path).map(|(_, metrics)| metrics);
            let counted = counted(&module.0, &module.1, metrics.unwrap_or(&Value::Null));
            if metrics.is_some_and(|metrics| rubbish(metrics).is_none()) && !counted.is_counted() {
                silent.push(path);
            }
            let signs = signs(&module.1, metrics.unwrap_or(&Value::Null));
            if !signs.is_empty() {
                self.problem(&module.0, &format!("{}: the service says {}", counted.label, signs.join(", ")));
            }
            modules.push(counted);
        }
        if let Some(first) = silent.first() {
            let why = format!("{} of {} modules have no error counts: theirs are unknown", silent.len(), found.len());
            self.problem(first, &why);
        }
        let tells_half = |module: &&Counted| module.corrected.is_some() != module.uncorrected.is_some();
        if let Some(half) = modules.iter().find(tells_half) {
            let (kind, count) = (half.uncorrected.is_none(), modules.iter().filter(tells_half).count());
            let kind = if kind { "uncorrected" } else { "corrected" };
            let why = format!(
                "{count} of {} modules tell half of their error counts ({} no {kind} errors): the others are unknown",
                modules.len(),
                half.label
            );
            self.problem(SYSTEMS, &why);
        }
        modules
    }

    /// Where the modules of this machine are.
    fn module_paths(&mut self) -> Vec<String> {
        let service = self.service;
        let Service { system, own, host, .. } = service;
        let wanted = Wanted { chosen: system.as_deref(), own, host, option: OPTION };
        let paths = match wanted.path() {
            Some(path) => vec![path],
            None => self.collections(vec![SYSTEMS.to_owned()], SYSTEMS_MAX),
        };
        let said = self.all(paths);
        let mut systems = Vec::with_capacity(said.len());
        for (path, one) in &said {
            match System::of(path, one) {
                Ok(system) => systems.push(system),
                Err(why) => self.problem(path, &why),
            }
        }
        let is_whole = self.problems.is_empty();
        if systems.is_empty() && !is_whole {
            return Vec::new();
        }
        let path = match wanted.of(&systems, is_whole) {
            Ok(system) => system.path.clone(),
            Err(why) => {
                self.problem(SYSTEMS, &why);
                return Vec::new();
            }
        };
        let memory = said.iter().find(|(one, _)| *one == path).and_then(|(_, system)| link(&system["Memory"]));
        let Some(memory) = memory else {
            self.problem(&path, "it names no collection of memory modules: its modules are unknown");
            return Vec::new();
        };
        self.collections(vec![memory], MODULES_MAX)
    }

    /// The members of these collections, all together, with what is missing among the problems.
    fn collections(&mut self, paths: Vec<String>, limit: usize) -> Vec<String> {
        let mut all = Vec::new();
        for (path, first) in self.all(paths) {
            let (mut collection, mut page) = (Collection::default(), (path.clone(), first));
            loop {
                match collection.take(&page.0, &page.1) {
                    Ok(Some(next)) => match self.all(vec![next]).pop() {
                        Some(next) => page = next,
                        None => break,
                    },
                    Ok(None) => break,
                    Err(why) => {
                        self.problem(&page.0, &why);
                        break;
                    }
                }
            }
            if let Some(why) = collection.missing() {
                self.problem(&path, &why);
            }
            all.append(&mut collection.members);
            if all.len() > limit {
                let why = format!("{} of at least {} members are read: more have no room", limit, all.len());
                self.problem(&path, &why);
                all.truncate(limit);
                break;
            }
        }
        all
    }

    /// The answers to these paths, without those that there are none to.
    fn all(&mut self, paths: Vec<String>) -> Vec<(String, Value)> {
        paths.chunks(ADDRESSES_MAX).flat_map(|some| self.some(some)).collect()
    }

    fn some(&mut self, paths: &[String]) -> Vec<(String, Value)> {
        let patience = self.ends.saturating_duration_since(Instant::now());
        let first = paths.first().map_or("", String::as_str);
        if patience.is_zero() {
            let why = format!("it took longer than {:?}, and was not asked for the rest", self.service.patience);
            self.problem(first, &why);
            return Vec::new();
        }
        let requests: Vec<Request> = paths.iter().map(|path| self.request(path)).collect();
        let answers = http::ask_each(ANSWER_BYTES_MAX, &requests, patience, &AtomicBool::new(false));
        let mut found = Vec::new();
        for (path, answer) in paths.iter().zip(answers) {
            match value(answer) {
                Ok(value) => found.push((path.clone(), value)),
                Err(why) => self.problem(path, &why),
            }
        }
        found
    }

    fn request(&self, path: &str) -> Request {
        let identity = self.service.user.clone().map_or(Identity::None, |(name, word)| Identity::User(name, word));
        Request {
            method: "GET",
            url: format!("{}{path}", self.service.url.trim_end_matches('/')),
            headers: vec!["Accept: application/json".to_owned()],
            identity,
            trust: self.service.trust.clone(),
            ..Request::default()
        }
    }

    fn problem(&mut self, path: &str, why: &str) {
        // Two for each module would say the same thing a thousand times.
        if self.problems.len() < 20 {
            let (path, why) = (format!("{}{path}", shown(&self.service.url)), one_line(why));
            self.problems.push(MemoryProblem { source: MemorySource::Redfish, path, why });
        }
    }
}

fn value(answer: Result<http::Answer, NoAnswer>) -> Result<Value, String> {
    let answer = answer.map_err(|why| why.to_string())?;
    match answer.status {
        200 => answer.json().map_err(|why| format!("it answered {why}")),
        401 | 403 => Err(format!("it refuses this user (HTTP {}); check the name and the password", answer.status)),
        404 => Err("it has no such resource (HTTP 404): it tells no memory metrics there".into()),
        _ => Err(format!("it answered with {}", answer.status_text())),
    }
}

/// Counts of a module's whole life, else since they were cleared last.
const PERIODS: [&str; 2] = ["LifeTime", "CurrentPeriod"];
/// Corrected errors, and some that a counter may or may not have counted.
const CORRECTED: [&str; 2] = ["CorrectableECCErrorCount", "IndeterminateCorrectableErrorCount"];
/// The same of uncorrected ones.
const UNCORRECTED: [&str; 2] = ["UncorrectableECCErrorCount", "IndeterminateUncorrectableErrorCount"];

/// What stands where a count should: none at all is no rubbish, the schema allows it.
fn rubbish(metrics: &Value) -> Option<String> {
    let names = CORRECTED.into_iter().chain(UNCORRECTED);
    let counts = PERIODS.into_iter().flat_map(|period| names.clone().map(move |name| (period, name)));
    let (name, value) = counts
        .map(|(period, name)| (name, &metrics[period][name]))
        .find(|(_, value)| !value.is_null() && !value.is_u64())?;
    let text: String = value.to_string().chars().take(NAME_CHARACTERS_MAX).collect();
    Some(format!("its {name} is '{text}', which is no count; it was not used"))
}

/// What a service says of a module beside its counts that means it is bad.
fn signs(module: &Value, metrics: &Value) -> Vec<String> {
    let health = &metrics["HealthData"];
    let flags = [
        ("DataLossDetected", &health["DataLossDetected"]),
        ("AlarmTrips.UncorrectableECCError", &health["AlarmTrips"]["UncorrectableECCError"]),
        ("AlarmTrips.CorrectableECCError", &health["AlarmTrips"]["CorrectableECCError"]),
    ];
    let flags = flags.into_iter().filter(|(_, value)| value.as_bool() == Some(true)).map(|(name, _)| name.to_owned());
    let state = module["Status"]["Health"].as_str().filter(|health| *health != "OK" && !health.is_empty());
    let state = state.map(|health| {
        let health: String = one_line(health).chars().take(NAME_CHARACTERS_MAX).collect();
        let absent = if module["Status"]["State"] == "Absent" { " and State Absent" } else { "" };
        format!("Health {health}{absent}")
    });
    state.into_iter().chain(flags).collect()
}

fn counted(path: &str, module: &Value, metrics: &Value) -> Counted {
    let text = |value: &Value| {
        let text: String = one_line(value.as_str()?.trim()).chars().take(NAME_CHARACTERS_MAX).collect();
        (!text.is_empty()).then_some(text)
    };
    // The whole life is no less than what came since the counts were cleared.
    let count = |name: &str| PERIODS.iter().filter_map(|period| metrics[*period][name].as_u64()).max();
    let sum = |names: [&str; 2]| match names.map(count) {
        [None, None] => None,
        [some, other] => Some(some.unwrap_or(0).saturating_add(other.unwrap_or(0))),
    };
    let label = text(&module["DeviceLocator"]).or_else(|| text(&module["Name"])).or_else(|| text(&module["Id"]));
    // One without a name is known by its address.
    let label = label.or_else(|| path.rsplit('/').next().map(str::to_owned));
    Counted {
        label: label.unwrap_or_default(),
        serial: text(&module["SerialNumber"]).filter(|text| !is_filler(text)),
        part: text(&module["PartNumber"]).filter(|text| !is_filler(text)),
        size_bytes: module["CapacityMiB"].as_u64().unwrap_or(0).saturating_mul(1 << 20),
        corrected: sum(CORRECTED),
        uncorrected: sum(UNCORRECTED),
    }
}

#[cfg(test)]
#[path = "redfish_tests.rs"]
mod tests;
