//! Silences of Alertmanager: what somebody said is to be left alone for a while opens no case, whoever told of it.

use super::strangers;
use regex_lite::Regex;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use surefoot_http::lock;
use surefoot_model::{Alert, AlertOrigin, AuditEntry, Severity, clipped, one_line};
use surefoot_outside::host_name::is_same_host;
use surefoot_remedy::alerts::alert_name;
use surefoot_remedy::policy::HostNames;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Silences that hold at a time.
const SILENCES_MAX: usize = 10_000;
/// Alerts that are remembered as noted in the audit trail.
const NOTED_MAX: usize = 10_000;
/// Alerts of which it is remembered what silences them.
const FOUND_MAX: usize = 200_000;
/// Lines of the audit trail that one decision adds.
const LINES_MAX: usize = 20;
/// So long after the start alerts wait for Alertmanager's first word; then they are decided on without it.
const FIRST_WORD_TIME_MAX: Duration = Duration::from_secs(60);
/// Ports of an expression that a host's name is tried with, and one that is tried with every expression: node_exporter's.
const PORTS_MAX: usize = 16;
const USUAL_PORT: &str = "9100";
/// The label by which an alert that came from an agent is known when Alertmanager tells of it in turn.
pub(super) const ORIGIN: (&str, &str) = ("surefoot_origin", "agent");

/// One silence, as the API tells it: <https://github.com/prometheus/alertmanager/blob/main/api/v2/openapi.yaml>.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    id: String,
    status: Status,
    #[serde(default)]
    created_by: String,
    #[serde(default)]
    comment: String,
    ends_at: String,
    matchers: Vec<ToldMatcher>,
}

#[derive(Deserialize)]
struct Status {
    state: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToldMatcher {
    name: String,
    value: String,
    is_regex: bool,
    #[serde(default = "yes")]
    is_equal: bool,
}

fn yes() -> bool {
    true
}

/// One that holds now.
#[derive(Debug, PartialEq)]
pub(super) struct Silence {
    /// Its number, who made it and why.
    about: String,
    ends_realtime_ns: u64,
    matchers: Vec<Matcher>,
}

#[derive(Debug, PartialEq)]
struct Matcher {
    name: String,
    is: Is,
    is_equal: bool,
}

#[derive(Debug)]
enum Is {
    Text(String),
    /// Of the whole value.
    Expression(Regex),
    /// One that Alertmanager understands and this does not. It holds: what somebody may have silenced is left alone.
    Unknown,
}

impl PartialEq for Is {
    fn eq(&self, other: &Is) -> bool {
        match (self, other) {
            (Is::Text(one), Is::Text(other)) => one == other,
            (Is::Expression(one), Is::Expression(other)) => one.as_str() == other.as_str(),
            (Is::Unknown, Is::Unknown) => true,
            _ => false,
        }
    }
}

impl Matcher {
    fn of(told: ToldMatcher) -> Matcher {
        let is = match told.is_regex {
            true => Regex::new(&format!("^(?:{})$", told.value)).map_or(Is::Unknown, Is::Expression),
            false => Is::Text(told.value),
        };
        Matcher { name: told.name, is, is_equal: told.is_equal }
    }

    /// A label that is not there is empty. A finding of an agent has its host's name for `host` and `instance`; whoever silences the host on the
    /// page of Alertmanager has there what Prometheus calls it: with a port, or by a name that may be the same host's.
    fn holds(&self, labels: &BTreeMap<String, String>, finding_of: Option<&str>, hosts: &HostNames) -> bool {
        let value = labels.get(&self.name).map_or("", String::as_str);
        let is_so = match &self.is {
            Is::Text(text) => value == text,
            Is::Expression(expression) => expression.is_match(value),
            Is::Unknown => return true,
        };
        is_so == self.is_equal || self.is_equal && finding_of.is_some_and(|host| self.may_be_of(host, hosts))
    }

    /// Whether it may be about this host, by any name that its machine has in the policy file.
    fn may_be_of(&self, host: &str, hosts: &HostNames) -> bool {
        if !matches!(&*self.name, "host" | "instance") {
            return false;
        }
        match &self.is {
            Is::Text(text) => strangers::host(text).is_some_and(|silenced| {
                let (of_silenced, of_host) = (hosts.of(&silenced), hosts.of(host));
                match of_silenced.is_empty() || of_host.is_empty() {
                    true => hosts.names(host).any(|name| silenced == name || is_same_host(&silenced, name)),
                    // The file has both: two machines may have one name and two domains.
                    false => of_silenced == of_host,
                }
            }),
            Is::Expression(expression) => {
                let ports = expression.as_str().split(|letter: char| !letter.is_ascii_digit());
                let ports: Vec<&str> = ports
                    .filter(|digits| (2..=5).contains(&digits.len()))
                    .take(PORTS_MAX)
                    .chain([USUAL_PORT])
                    .collect();
                hosts.names(host).any(|name| {
                    let shown = if name.contains(':') { format!("[{name}]") } else { name.to_owned() };
                    expression.is_match(name)
                        || ports.iter().any(|port| expression.is_match(&format!("{shown}:{port}")))
                })
            }
            Is::Unknown => true,
        }
    }
}

/// What an answer of the API comes to: those that hold now, and how many are without a matcher, which Alertmanager takes from nobody.
///
/// # Errors
/// That it is no answer of this API, or that it has too many to know them all: then none is known.
pub(super) fn read(text: &str) -> Result<(Vec<Silence>, u64), String> {
    let told: Vec<Told> = serde_json::from_str(text).map_err(|error| format!("these are no silences: {error}"))?;
    // One in a state that is unknown here may hold, and what somebody may have silenced is left alone.
    let is_over = |one: &Told| matches!(one.status.state.as_str(), "expired" | "pending");
    let holding: Vec<Told> = told.into_iter().filter(|one| !is_over(one)).collect();
    let count = holding.len();
    if count > SILENCES_MAX {
        return Err(format!("{count} of them hold, more than the {SILENCES_MAX} that have room"));
    }
    let known: Vec<Silence> = holding.into_iter().filter_map(silence).collect();
    let left_out = (count - known.len()) as u64;
    Ok((known, left_out))
}

fn silence(told: Told) -> Option<Silence> {
    let cut = |text: &str| clipped(text, 200);
    let ends = OffsetDateTime::parse(&told.ends_at, &Rfc3339).ok();
    let ends_realtime_ns = ends.and_then(|ends| u64::try_from(ends.unix_timestamp_nanos()).ok());
    let matchers: Vec<Matcher> = told.matchers.into_iter().map(Matcher::of).collect();
    let mut unknown = Vec::new();
    if told.status.state != "active" {
        unknown.push(format!("its state '{}'", cut(&told.status.state)));
    }
    if ends_realtime_ns.is_none() {
        unknown.push(format!("its end '{}'", cut(&told.ends_at)));
    }
    let expression = matchers.iter().find(|matcher| matches!(matcher.is, Is::Unknown));
    unknown.extend(expression.map(|matcher| format!("its expression for {}", cut(&matcher.name))));
    let taken = match unknown.is_empty() {
        true => String::new(),
        false => format!(" ({} is not understood, and taken to hold)", unknown.join(" and ")),
    };
    let about = format!("silence {} of {}: {}{taken}", cut(&told.id), cut(&told.created_by), cut(&told.comment));
    // It is asked for again long before.
    let ends_realtime_ns = ends_realtime_ns.unwrap_or(u64::MAX);
    (!matchers.is_empty()).then_some(Silence { about, ends_realtime_ns, matchers })
}

/// The labels of an alert: those that Alertmanager told, or for a finding the words that the rules of contrib/prometheus have for it.
pub(super) fn labels_of(alert: &Alert) -> BTreeMap<String, String> {
    if alert.origin == AlertOrigin::Alertmanager {
        return alert.labels.clone();
    }
    let rule = alert.fault.split_once('/').map_or("", |(_, rule)| rule);
    let name = alert.room.map_or_else(|| alert.fault.clone(), |room| alert_name(room, alert.severity));
    let labels = [
        ("alertname", name.as_str()),
        ("host", &alert.host),
        ("instance", &alert.host),
        ("service", &alert.service),
        ("room", alert.room.map_or("", |room| room.as_str())),
        ("rule", rule),
        ("severity", alert.severity.as_str()),
        ("subject", &alert.subject),
        ORIGIN,
    ];
    let labels = labels.into_iter().filter(|(_, value)| !value.is_empty());
    labels.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// What is silenced now, as the thread that asks and the engine share it.
#[derive(Debug)]
pub struct Silences {
    state: Mutex<State>,
    started: Instant,
    /// Alerts that the last decision left alone.
    pub(super) hidden: AtomicU64,
}

/// By host, key and service, and by severity.
type SilencedBy = HashMap<([String; 3], Severity), Option<usize>>;

#[derive(Debug, Default)]
struct State {
    /// `None` before Alertmanager's first word.
    known: Option<Vec<Silence>>,
    /// It said something that cannot be read, since when it is waited for however long that takes.
    is_unread: bool,
    /// Alerts whose silence stands in the audit trail.
    noted: HashMap<(String, String), String>,
    /// The names of machines that the policy file has.
    hosts: HostNames,
    /// Which of `known` silences an alert, so that each decision looks at what is new alone: a decision locks all others.
    found: SilencedBy,
}

impl Silences {
    pub(super) fn new() -> Silences {
        Silences { state: Mutex::default(), started: Instant::now(), hidden: AtomicU64::new(0) }
    }

    /// Takes what Alertmanager says now.
    pub(super) fn set(&self, silences: Vec<Silence>) {
        let mut state = lock(&self.state);
        state.is_unread = false;
        if state.known.as_ref() != Some(&silences) {
            state.known = Some(silences);
            state.found.clear();
        }
    }

    /// Takes the names of machines that the policy file has now.
    pub(super) fn set_hosts(&self, hosts: &HostNames) {
        let mut state = lock(&self.state);
        if state.hosts != *hosts {
            state.hosts = hosts.clone();
            state.found.clear();
        }
    }

    /// Alertmanager is there, and what it says cannot be read.
    pub(super) fn set_unread(&self) {
        lock(&self.state).is_unread = true;
    }

    /// Whether it said something that could not be read, and nothing since.
    #[cfg(test)]
    pub(super) fn is_unread(&self) -> bool {
        lock(&self.state).is_unread
    }

    /// How many hold.
    pub(super) fn count(&self) -> u64 {
        lock(&self.state).known.as_ref().map_or(0, Vec::len) as u64
    }

    /// The alerts that are to be decided on now, and lines for the audit trail about those that newly are not. `None` where all are.
    /// What Alertmanager said last holds until it ends by itself, also while nobody answers there.
    pub(super) fn left(&self, alerts: &[Alert], now_realtime_ns: u64) -> Option<(Vec<Alert>, Vec<AuditEntry>)> {
        let mut state = lock(&self.state);
        let State { known, is_unread, noted, found, hosts } = &mut *state;
        let (mut left, mut lines) = (Vec::new(), Vec::new());
        let mut hidden = 0;
        for alert in alerts {
            let silence = match known {
                _ if !alert.is_firing => None,
                None if *is_unread || self.started.elapsed() < FIRST_WORD_TIME_MAX => {
                    hidden += 1;
                    continue;
                }
                None => None,
                Some(known) if known.is_empty() => None,
                Some(known) => silence_of(known, found, hosts, alert, now_realtime_ns),
            };
            let Some(silence) = silence else {
                left.push(alert.clone());
                continue;
            };
            hidden += 1;
            let key = (alert.host.clone(), alert.key.clone());
            if lines.len() < LINES_MAX && noted.get(&key) != Some(&silence.about) {
                if noted.len() >= NOTED_MAX {
                    noted.clear();
                }
                noted.insert(key, silence.about.clone());
                lines.push(line(alert, silence));
            }
        }
        self.hidden.store(hidden, Ordering::Relaxed);
        (hidden > 0).then_some((left, lines))
    }
}

fn silence_of<'a>(
    known: &'a [Silence],
    found: &mut SilencedBy,
    hosts: &HostNames,
    alert: &Alert,
    now_realtime_ns: u64,
) -> Option<&'a Silence> {
    let holds_now = |at: &usize| known.get(*at).is_some_and(|silence| silence.ends_realtime_ns > now_realtime_ns);
    // The labels of an alert are its key's; those of a finding have its service and its severity, too.
    let key = [&alert.host, &alert.key, &alert.service].map(String::clone);
    let key = (key, alert.severity);
    let at = match found.get(&key) {
        Some(None) => None,
        Some(Some(at)) if holds_now(at) => Some(*at),
        _ => {
            let labels = labels_of(alert);
            let finding_of = (alert.origin == AlertOrigin::Finding).then_some(&*alert.host);
            let holds = |at: &usize| {
                holds_now(at) && known[*at].matchers.iter().all(|one| one.holds(&labels, finding_of, hosts))
            };
            let at = (0..known.len()).find(holds);
            if found.len() >= FOUND_MAX {
                found.clear();
            }
            found.insert(key, at);
            at
        }
    };
    at.map(|at| &known[at])
}

fn line(alert: &Alert, silence: &Silence) -> AuditEntry {
    AuditEntry {
        at_realtime_ns: 0,
        case: 0,
        actor: "alertmanager".into(),
        action: "silenced".into(),
        target: one_line(&format!("{} {} {}", alert.host, alert.fault, alert.subject)),
        reason: silence.about.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::{Value, json};
    use surefoot_model::Room;

    fn told(state: &str, ends: &str, matchers: Value) -> Value {
        json!({"id": "7f", "status": {"state": state}, "createdBy": "anna", "comment": "new\nfan", "startsAt": "2026-01-01T00:00:00Z",
            "endsAt": ends, "updatedAt": "2026-01-01T00:00:00Z", "matchers": matchers})
    }

    fn is(name: &str, value: &str, is_regex: bool, is_equal: bool) -> Value {
        json!({"name": name, "value": value, "isRegex": is_regex, "isEqual": is_equal})
    }

    fn alert(host: &str) -> Alert {
        Alert {
            host: host.into(),
            key: "memory/rate/dimm/A1".into(),
            service: "web".into(),
            fault: "memory/rate".into(),
            subject: "dimm A1".into(),
            room: Some(Room::Memory),
            severity: Severity::Critical,
            sentence: "It has errors.".into(),
            evidence: Vec::new(),
            labels: BTreeMap::new(),
            origin: AlertOrigin::Finding,
            is_firing: true,
            since_realtime_ns: 1,
        }
    }

    const END: &str = "2030-01-01T00:00:00Z";

    fn hides(matchers: Value, alert: &Alert) -> bool {
        let silences = Silences::new();
        silences.set(read(&json!([told("active", END, matchers)]).to_string()).unwrap().0);
        silences.left(std::slice::from_ref(alert), 5).is_some()
    }

    #[test]
    fn a_finding_is_silenced_by_the_words_that_the_rules_have_for_it() {
        let one = alert("n1");
        for (matchers, is_hidden) in [
            (json!([is("host", "n1", false, true)]), true),
            (json!([is("host", "n2", false, true)]), false),
            (json!([is("alertname", "SurefootMemoryCritical", false, true)]), true),
            (json!([is("instance", "n[0-9]+", true, true), is("rule", "rate|fault", true, true)]), true),
            // Of the whole value alone, and a label that is not there is empty.
            (json!([is("host", "n", true, true)]), false),
            (json!([is("rack", "", false, true)]), true),
            (json!([is("service", "db", false, false)]), true),
            (json!([is("service", "w.*", true, false)]), false),
            // What is not understood holds where the rest does, whichever way round.
            (json!([is("host", "\\p{L}1", true, true)]), true),
            (json!([is("host", "\\p{L}1", true, false), is("rule", "rate", false, true)]), true),
            (json!([is("host", "\\p{L}1", true, true), is("rule", "fault", false, true)]), false),
            // One that would silence all.
            (json!([]), false),
        ] {
            assert_eq!(hides(matchers.clone(), &one), is_hidden, "{matchers}");
        }
        // As Prometheus calls the host: with a port, or by its whole name.
        for (name, is_hidden) in
            [("n1:9100", true), ("N1.example:7077", true), ("n2:9100", false), ("n11.example", false)]
        {
            assert_eq!(hides(json!([is("instance", name, false, true)]), &one), is_hidden, "{name}");
            assert!(!hides(json!([is("rack", name, false, true)]), &one), "{name}");
        }
        for (expression, is_hidden) in [("n1:.*", true), ("(n1|n2):7077", true), ("n1:\\d+", true), ("n2:.*", false)] {
            assert_eq!(hides(json!([is("instance", expression, true, true)]), &one), is_hidden, "{expression}");
        }
        let six = alert("2001:db8::7");
        assert!(hides(json!([is("instance", "[2001:db8::7]:9100", false, true)]), &six));
        assert!(hides(json!([is("instance", "\\[2001:db8::7\\]:.*", true, true)]), &six));
        let told = Alert { origin: AlertOrigin::Alertmanager, labels: [("rack".into(), "r1".into())].into(), ..one };
        assert!(hides(json!([is("rack", "r1", false, true)]), &told));
        assert!(!hides(json!([is("host", "n1", false, true)]), &told), "its own labels count");
    }

    /// A machine has the names that the policy file gives it, and no other machine's.
    #[test]
    fn a_silence_by_any_name_of_a_machine_holds_for_what_its_agent_finds() {
        let file = "[[policy]]\nsteps = [\"drain\"]\n[[host]]\nname = \"n1\"\nalso = [\"db-7.example\", \"10.0.0.7\"]\n\
                    [[host]]\nname = \"n2.east\"\n[[host]]\nname = \"n2.west\"\n";
        let hosts = surefoot_remedy::policy::Policies::parse(file, "policy.toml").unwrap().hosts;
        let silences = Silences::new();
        let hides = |matcher: Value, host: &str| {
            silences.set(read(&json!([told("active", END, json!([matcher]))]).to_string()).unwrap().0);
            silences.left(&[alert(host)], 5).is_some()
        };
        assert!(!hides(is("instance", "10.0.0.7:9100", false, true), "n1"), "nothing is known of names yet");
        silences.set_hosts(&hosts);
        for (name, host, is_hidden) in [
            ("10.0.0.7:9100", "n1", true),
            ("db-7:7077", "n1", true),
            ("n1.example", "db-7.example", true),
            ("n1:9100", "10.0.0.7", true),
            ("10.0.0.8:9100", "n1", false),
            ("n2.east:9100", "n2.east", true),
            ("n2.east:9100", "n2.west", false),
            // Which of both it is, it does not say.
            ("n2:9100", "n2.west", true),
        ] {
            assert_eq!(hides(is("instance", name, false, true), host), is_hidden, "{name} {host}");
        }
        assert!(hides(is("instance", "(10.0.0.7|10.0.0.9):.*", true, true), "n1"));
        assert!(hides(is("host", "db-[0-9]+.*", true, true), "n1"));
        assert!(!hides(is("host", "db-8.*", true, true), "n1"));
    }

    #[test]
    fn only_what_holds_now_silences_and_what_is_over_is_told() {
        let matchers = || json!([is("host", "n1", false, true)]);
        let all =
            json!([told("expired", END, matchers()), told("pending", END, matchers()), told("active", END, json!([]))]);
        let (known, left_out) = read(&all.to_string()).unwrap();
        assert_eq!((known.len(), left_out), (0, 1));
        // What is not understood may hold.
        for (state, ends, words) in [("active", "soon", "its end 'soon'"), ("snoozed", END, "its state 'snoozed'")] {
            let (known, left_out) = read(&json!([told(state, ends, matchers())]).to_string()).unwrap();
            assert_eq!((known.len(), left_out), (1, 0));
            assert!(known[0].about.contains(words) && known[0].ends_realtime_ns > 5, "{known:?}");
        }
        let many: Vec<Value> = (0..=SILENCES_MAX).map(|_| told("active", END, matchers())).collect();
        assert!(read(&json!(many).to_string()).unwrap_err().contains("10001 of them hold"));
        assert!(read("{}").unwrap_err().contains("no silences"));
        let silences = Silences::new();
        let alerts = [alert("n1"), alert("n2"), Alert { is_firing: false, ..alert("n1") }];
        // Before the first word nothing that fires is decided on, and for how long where it cannot be read.
        let (left, lines) = silences.left(&alerts, 5).unwrap();
        assert_eq!((left.len(), lines.len()), (1, 0));
        silences.set_unread();
        let long_ago = Silences { started: Instant::now() - 2 * FIRST_WORD_TIME_MAX, ..Silences::new() };
        assert_eq!(long_ago.left(&alerts, 5), None, "nobody is there");
        long_ago.set_unread();
        assert_eq!(long_ago.left(&alerts, 5).unwrap().0.len(), 1);
        silences.set(read(&json!([told("active", "1970-01-01T00:00:01Z", matchers())]).to_string()).unwrap().0);
        let (left, lines) = silences.left(&alerts, 5).unwrap();
        assert_eq!((left.len(), lines.len(), silences.count()), (2, 1, 1));
        assert_eq!(
            (lines[0].target.as_str(), lines[0].reason.as_str()),
            ("n1 memory/rate dimm A1", "silence 7f of anna: new?fan")
        );
        assert_eq!(silences.left(&alerts, 6).unwrap().1.len(), 0, "it is noted once");
        // What is known of an alert goes with the silences that it is known of.
        let of = |name: &str| json!([told("active", END, json!([is("host", name, false, true)]))]).to_string();
        silences.set(read(&of("n2")).unwrap().0);
        assert_eq!(silences.left(&alerts, 7).unwrap().0.iter().filter(|alert| alert.host == "n1").count(), 2);
        silences.set(read(&of("n1")).unwrap().0);
        assert_eq!(silences.left(&alerts, 8).unwrap().0.len(), 2);
        silences.set(read(&json!([told("active", "1970-01-01T00:00:01Z", matchers())]).to_string()).unwrap().0);
        assert!(silences.left(&alerts, 9).is_some());
        assert_eq!(silences.left(&alerts, 2_000_000_000), None, "it is over");
        assert_eq!(silences.hidden.load(Ordering::Relaxed), 0);
    }
}
