//! MemoryMetrics of a Redfish service (DMTF DSP0268, schema MemoryMetrics).
//!
//! Four levels are asked: the systems, their collections of memory, the modules, and the metrics of each. `curl` asks all addresses of
//! a level over one connection.

use super::{Answer, Counted, MODULES_MAX};
use serde_json::Value;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::process::Command;
use std::time::{Duration, Instant};
pub use surefoot_hostfs::http::Trust;
use surefoot_hostfs::http::quoted;
use surefoot_hostfs::program;
use surefoot_model::{MemoryProblem, MemorySource, one_line};

/// Systems of one service that are looked at: a chassis with blades has a few.
const SYSTEMS_MAX: usize = 16;
/// Addresses of one run of curl.
const ADDRESSES_MAX: usize = 64;
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
        let Some(systems) = self.one("/redfish/v1/Systems") else { return Vec::new() };
        let systems = self.all(members(&systems, SYSTEMS_MAX));
        let collections = systems.iter().filter_map(|(_, system)| link(&system["Memory"])).collect();
        let collections = self.all(collections);
        let paths: Vec<String> = collections.iter().flat_map(|(_, memory)| members(memory, MODULES_MAX)).collect();
        if paths.is_empty() {
            if self.problems.is_empty() {
                self.problem("/redfish/v1/Systems", "it names no memory module of any system");
            }
            return Vec::new();
        }
        let found = self.all(paths.into_iter().take(MODULES_MAX).collect());
        // An empty slot is a module, too.
        let is_there = |module: &Value| module["Status"]["State"] != "Absent";
        let found: Vec<(String, Value)> = found.into_iter().filter(|(_, module)| is_there(module)).collect();
        let of = |(path, module): &(String, Value)| link(&module["Metrics"]).unwrap_or(format!("{path}/MemoryMetrics"));
        let metrics = self.all(found.iter().map(of).collect());
        for (path, metrics) in &metrics {
            if let Some(why) = rubbish(metrics) {
                self.problem(path, &why);
            }
        }
        let counts = |module: &(String, Value)| {
            let path = of(module);
            let metrics = metrics.iter().find(|(own, _)| *own == path).map(|(_, metrics)| metrics);
            counted(&module.0, &module.1, metrics.unwrap_or(&Value::Null))
        };
        found.iter().map(counts).collect()
    }

    fn one(&mut self, path: &str) -> Option<Value> {
        self.all(vec![path.to_owned()]).pop().map(|(_, value)| value)
    }

    /// The answers to these paths, without those that there are none to.
    fn all(&mut self, paths: Vec<String>) -> Vec<(String, Value)> {
        paths.chunks(ADDRESSES_MAX).flat_map(|some| self.some(some)).collect()
    }

    fn some(&mut self, paths: &[String]) -> Vec<(String, Value)> {
        let patience = self.ends.saturating_duration_since(Instant::now());
        if patience.is_zero() {
            let why = format!("it took longer than {:?}, and was not asked for the rest", self.service.patience);
            self.problem(paths.first().map_or("", String::as_str), &why);
            return Vec::new();
        }
        let boundary = format!("--{:016x}--", RandomState::new().build_hasher().finish());
        let (config, command) = match (config(self.service, paths, &boundary, patience), curl()) {
            (Ok(config), Ok(command)) => (config, command),
            (Err(why), _) | (_, Err(why)) => {
                self.problem("", &why);
                return Vec::new();
            }
        };
        match program::answer(command, config.as_bytes(), patience + Duration::from_secs(1)) {
            Ok(text) => self.taken(paths, &String::from_utf8_lossy(&text), &boundary),
            Err(why) => {
                self.problem(paths.first().map_or("", String::as_str), &why);
                Vec::new()
            }
        }
    }

    /// Each answer is followed by the boundary, the status and what went wrong.
    fn taken(&mut self, paths: &[String], text: &str, boundary: &str) -> Vec<(String, Value)> {
        let mut rest = text;
        let mut found = Vec::new();
        for path in paths {
            let Some((body, after)) = rest.split_once(boundary) else {
                self.problem(path, "no answer came");
                continue;
            };
            let (said, after) = after.split_once('\n').unwrap_or((after, ""));
            rest = after;
            match value(body, said) {
                Ok(value) => found.push((path.clone(), value)),
                Err(why) => self.problem(path, &why),
            }
        }
        found
    }

    fn problem(&mut self, path: &str, why: &str) {
        // Two for each module would say the same thing a thousand times.
        if self.problems.len() < 20 {
            let (path, why) = (format!("{}{path}", self.service.url), one_line(why));
            self.problems.push(MemoryProblem { source: MemorySource::Redfish, path, why });
        }
    }
}

fn curl() -> Result<Command, String> {
    let path = program::find("curl").ok_or("Redfish is asked through curl, which is not installed: install curl")?;
    let mut command = Command::new(path);
    command.args(["-q", "-K", "-"]).env_clear().env("LC_ALL", "C").current_dir("/");
    Ok(command)
}

/// What curl reads: the password stands in no list of processes.
fn config(service: &Service, paths: &[String], boundary: &str, patience: Duration) -> Result<String, String> {
    let mut lines = vec![
        "silent".to_owned(),
        "globoff".to_owned(),
        "proto = \"=http,https\"".to_owned(),
        "header = \"Accept: application/json\"".to_owned(),
        format!("max-filesize = {}", program::ANSWER_BYTES_MAX / 4),
        format!("max-time = {}", patience.as_secs().max(1)),
        format!("write-out = \"{boundary}%{{http_code}} %{{errormsg}}\\n\""),
    ];
    if let Some((name, password)) = &service.user {
        lines.push(format!("user = {}", quoted(&format!("{name}:{password}"))?));
    }
    match &service.trust {
        Trust::System => {}
        Trust::Signer(file) => lines.push(format!("cacert = {}", quoted(&file.to_string_lossy())?)),
        Trust::Anything => lines.push("insecure".to_owned()),
    }
    for path in paths {
        lines.push(format!("url = {}", quoted(&format!("{}{path}", service.url.trim_end_matches('/')))?));
    }
    Ok(lines.join("\n") + "\n")
}

fn value(body: &str, said: &str) -> Result<Value, String> {
    let (status, why) = said.split_once(' ').unwrap_or((said, ""));
    match status {
        "200" if why.is_empty() => serde_json::from_str(body).map_err(|error| format!("it answered no JSON: {error}")),
        "401" | "403" => Err(format!("it refuses this user (HTTP {status}); check the name and the password")),
        "404" => Err("it has no such resource (HTTP 404): it tells no memory metrics there".into()),
        "000" | "200" => Err(format!("no answer: {}", if why.is_empty() { "it did not say why" } else { why })),
        _ => Err(format!("it answered with HTTP {status}")),
    }
}

/// The path in a link, where it is one of the same service.
fn link(value: &Value) -> Option<String> {
    let path = value["@odata.id"].as_str()?;
    let is_own = path.starts_with("/redfish/") && path.len() <= 512 && !path.contains("..");
    let is_plain =
        path.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'?' | b'#' | b'@'));
    (is_own && is_plain).then(|| path.trim_end_matches('/').to_owned())
}

fn members(collection: &Value, limit: usize) -> Vec<String> {
    collection["Members"].as_array().into_iter().flatten().take(limit).filter_map(link).collect()
}

/// Counts of a module's whole life, else since they were cleared last.
const PERIODS: [&str; 2] = ["LifeTime", "CurrentPeriod"];
/// Corrected errors, and some that a counter may or may not have counted.
const CORRECTED: [&str; 2] = ["CorrectableECCErrorCount", "IndeterminateCorrectableErrorCount"];
const UNCORRECTED: &str = "UncorrectableECCErrorCount";

/// What stands where a count should: none at all is no rubbish, the schema allows it.
fn rubbish(metrics: &Value) -> Option<String> {
    let names = CORRECTED.into_iter().chain([UNCORRECTED]);
    let counts = PERIODS.into_iter().flat_map(|period| names.clone().map(move |name| (period, name)));
    let (name, value) = counts
        .map(|(period, name)| (name, &metrics[period][name]))
        .find(|(_, value)| !value.is_null() && !value.is_u64())?;
    let text: String = value.to_string().chars().take(NAME_CHARACTERS_MAX).collect();
    Some(format!("its {name} is '{text}', which is no count; it was not used"))
}

fn counted(path: &str, module: &Value, metrics: &Value) -> Counted {
    let text = |value: &Value| {
        let text: String = one_line(value.as_str()?.trim()).chars().take(NAME_CHARACTERS_MAX).collect();
        (!text.is_empty()).then_some(text)
    };
    let count = |name: &str| PERIODS.iter().find_map(|period| metrics[*period][name].as_u64());
    let label = text(&module["DeviceLocator"]).or_else(|| text(&module["Name"])).or_else(|| text(&module["Id"]));
    // One without a name is known by its address.
    let label = label.or_else(|| path.rsplit('/').next().map(str::to_owned));
    let [corrected, indeterminate] = CORRECTED.map(count);
    Counted {
        label: label.unwrap_or_default(),
        serial: text(&module["SerialNumber"]),
        part: text(&module["PartNumber"]),
        size_bytes: module["CapacityMiB"].as_u64().unwrap_or(0).saturating_mul(1 << 20),
        corrected: match (corrected, indeterminate) {
            (None, None) => None,
            (some, other) => Some(some.unwrap_or(0).saturating_add(other.unwrap_or(0))),
        },
        uncorrected: count(UNCORRECTED),
    }
}

#[cfg(test)]
#[path = "redfish_tests.rs"]
mod tests;
