//! Who says what of a case's alert now: the agent of its host, Alertmanager, and the store.

use super::book::Book;
use super::notifier::Notifier;
use serde_json::Value;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;
use surefoot_http::lock;
use surefoot_model::{Alert, AlertOrigin, AlertReading, AlertSource, Room};
use surefoot_remedy::Order;
use surefoot_store::cases::HostAlerts;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// An agent that was noted so long ago no longer tells of its host: three of the store's notes are missing.
const SILENT_S: u64 = 900;
/// After its start Alertmanager knows an alert again only when Prometheus has sent it anew.
const MANAGER_SETTLE_S: u64 = 300;

/// Asks everyone who may know of the order's alert.
pub(super) fn readings(
    book: &Mutex<Book>,
    notifier: Option<&Notifier>,
    order: &Order,
    stop: &AtomicBool,
) -> Vec<AlertReading> {
    let known = match lock(book).with(|store| store.alerts_of(&order.host)) {
        Ok(known) => known,
        Err(error) => {
            return [AlertSource::Agent, AlertSource::Store]
                .map(|source| unknown(source, format!("the store does not answer: {error}")))
                .into();
        }
    };
    let own = known.alerts.iter().find(|alert| alert.key == order.alert_key);
    let mut readings = vec![agent(&known, own, order)];
    if let (Some(notifier), Some(own)) = (notifier, own.filter(|own| own.origin == AlertOrigin::Alertmanager)) {
        readings.push(alertmanager(notifier, own, stop));
    }
    readings.push(match own {
        Some(own) => AlertReading {
            source: AlertSource::Store,
            holds: Some(own.is_firing),
            // What fires is told again and again, and only the change is kept.
            age_s: (!own.is_firing).then(|| seconds(known.now_ns, own.since_realtime_ns)),
            why: if own.is_firing { "by the last report".to_owned() } else { String::new() },
        },
        None => unknown(AlertSource::Store, "it no longer has the alert".to_owned()),
    });
    readings
}

fn unknown(source: AlertSource, why: String) -> AlertReading {
    AlertReading { source, holds: None, age_s: None, why }
}

fn seconds(now_ns: u64, then_ns: u64) -> u64 {
    now_ns.saturating_sub(then_ns) / 1_000_000_000
}

/// What the host's own agent found last. It says of a finding by its key, and of an alert of Alertmanager by the finding that is about the same
/// fault and subject.
fn agent(known: &HostAlerts, own: Option<&Alert>, order: &Order) -> AlertReading {
    let unknown = |why: &str| unknown(AlertSource::Agent, why.to_owned());
    if known.seen_ns == 0 {
        return unknown("no agent reports from this host");
    }
    let age_s = seconds(known.now_ns, known.seen_ns);
    if age_s > SILENT_S {
        return unknown(&format!("the agent last reported {age_s} s ago"));
    }
    let says =
        |holds| AlertReading { source: AlertSource::Agent, holds: Some(holds), age_s: Some(age_s), why: String::new() };
    if let Some(own) = own.filter(|own| own.origin == AlertOrigin::Finding) {
        return says(own.is_firing);
    }
    let is_same = |alert: &&Alert| {
        alert.origin == AlertOrigin::Finding && alert.fault == order.fault && alert.subject == order.subject
    };
    if known.alerts.iter().filter(is_same).any(|alert| alert.is_firing) {
        return says(true);
    }
    let room = order.fault.split('/').next().unwrap_or_default();
    let is_whole = |(of, left_out): (&Room, &u64)| of.as_str() == room && *left_out == 0;
    match known.rooms.iter().any(is_whole) {
        true => says(false),
        false => unknown("its watch does not cover this fault"),
    }
}

/// What Alertmanager has of this alert now. One that is silenced or inhibited holds all the same.
fn alertmanager(notifier: &Notifier, own: &Alert, stop: &AtomicBool) -> AlertReading {
    match ask(notifier, own, stop) {
        Ok(holds) => {
            AlertReading { source: AlertSource::Alertmanager, holds: Some(holds), age_s: Some(0), why: String::new() }
        }
        Err(why) => unknown(AlertSource::Alertmanager, why),
    }
}

fn ask(notifier: &Notifier, own: &Alert, stop: &AtomicBool) -> Result<bool, String> {
    let filters = own.labels.iter().map(|(name, value)| {
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("&filter={}", encoded(&format!("{name}=\"{value}\"")))
    });
    let path = format!("/api/v2/alerts?active=true&silenced=true&inhibited=true{}", filters.collect::<String>());
    let read =
        |text: String| serde_json::from_str::<Value>(&text).map_err(|error| format!("its answer is not JSON: {error}"));
    let said = notifier.ask("GET", &path, String::new(), stop).and_then(read)?;
    let Some(alerts) = said.as_array() else { return Err("its answer is no list of alerts".to_owned()) };
    // A filter finds those with more labels, too; two alerts never have the same.
    let has_same = |alert: &Value| {
        let labels = alert["labels"].as_object();
        labels.is_some_and(|labels| {
            labels.len() == own.labels.len()
                && own.labels.iter().all(|(name, value)| labels.get(name).and_then(Value::as_str) == Some(value))
        })
    };
    if alerts.iter().any(has_same) {
        return Ok(true);
    }
    let status = notifier.ask("GET", "/api/v2/status", String::new(), stop).and_then(read)?;
    let started = status["uptime"].as_str().and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok());
    let Some(started) = started else {
        return Err("it does not have the alert, and not say since when it runs".to_owned());
    };
    let runs_s = (OffsetDateTime::from(SystemTime::now()) - started).whole_seconds();
    if runs_s < MANAGER_SETTLE_S as i64 {
        return Err(format!("it does not have the alert, and started only {runs_s} s ago"));
    }
    Ok(false)
}

/// A part of a query, with everything but letters and digits as its bytes.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::time::Duration;
    use surefoot_model::Severity;
    use surefoot_outside::http::Trust;

    const NOW_NS: u64 = 1_800_000_000_000_000_000;

    fn alert(key: &str, origin: AlertOrigin, is_firing: bool) -> Alert {
        Alert {
            host: "n1".into(),
            key: key.into(),
            service: String::new(),
            fault: "memory/rate".into(),
            subject: "dimm A1".into(),
            room: Some(Room::Memory),
            severity: Severity::Warning,
            sentence: String::new(),
            evidence: Vec::new(),
            labels: [("alertname".to_owned(), "A \"b\"".to_owned()), ("host".to_owned(), "n1".to_owned())].into(),
            origin,
            is_firing,
            since_realtime_ns: NOW_NS - 40_000_000_000,
        }
    }

    fn of_agent(seen_s: u64, rooms: &[(Room, u64)], alerts: Vec<Alert>, key: &str) -> AlertReading {
        let seen_ns = if seen_s == 0 { 0 } else { NOW_NS - seen_s * 1_000_000_000 };
        let known = HostAlerts { now_ns: NOW_NS, seen_ns, rooms: rooms.iter().copied().collect(), alerts };
        let order = Order {
            host: "n1".into(),
            fault: "memory/rate".into(),
            subject: "dimm A1".into(),
            alert_key: key.into(),
            ..Order::default()
        };
        let own = known.alerts.iter().find(|alert| alert.key == key);
        agent(&known, own, &order)
    }

    #[test]
    fn an_agent_says_of_its_own_findings_and_of_what_others_say_of_the_same_fault() {
        let finding = |is_firing| alert("memory/rate/dimm/A1", AlertOrigin::Finding, is_firing);
        let manager = || alert("alertmanager/00ab", AlertOrigin::Alertmanager, true);
        let watched = [(Room::Memory, 0)];
        for (seen_s, rooms, alerts, key, holds) in [
            (30, &watched[..], vec![finding(true)], "memory/rate/dimm/A1", Some(true)),
            (30, &watched, vec![finding(false)], "memory/rate/dimm/A1", Some(false)),
            (0, &watched, vec![finding(false)], "memory/rate/dimm/A1", None),
            (901, &watched, vec![finding(false)], "memory/rate/dimm/A1", None),
            (30, &watched, vec![manager(), finding(true)], "alertmanager/00ab", Some(true)),
            (30, &watched, vec![manager()], "alertmanager/00ab", Some(false)),
            (30, &[(Room::Memory, 3)], vec![manager()], "alertmanager/00ab", None),
            (30, &[], vec![manager()], "alertmanager/00ab", None),
        ] {
            let said = of_agent(seen_s, rooms, alerts, key);
            assert_eq!((said.holds, said.why.is_empty()), (holds, holds.is_some()), "{said:?}");
        }
    }

    /// Answers of an Alertmanager, one a request; what was asked.
    fn manager(answers: Vec<(u16, String)>) -> (Result<bool, String>, Vec<String>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let serving = std::thread::spawn(move || {
            let mut asked = Vec::new();
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
                asked.push(lines.next().unwrap());
                lines.take_while(|line| !line.is_empty()).for_each(drop);
                let length = body.len();
                write!(stream, "HTTP/1.1 {status} S\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
                    .unwrap();
            }
            asked
        });
        let notifier = Notifier { url, token_file: None, trust: Trust::System, period: Duration::from_secs(1) };
        let own = alert("alertmanager/00ab", AlertOrigin::Alertmanager, true);
        let said = ask(&notifier, &own, &AtomicBool::new(false));
        (said, serving.join().unwrap())
    }

    #[test]
    fn alertmanager_is_asked_for_the_alert_with_these_labels() {
        let (said, asked) = manager(vec![(200, r#"[{"labels": {"alertname": "A \"b\"", "host": "n1"}}]"#.into())]);
        assert_eq!(said, Ok(true));
        assert!(asked[0].contains("&filter=alertname%3D%22A%20%5C%22b%5C%22%22&filter=host%3D%22n1%22 "), "{asked:?}");
        let old = r#"{"uptime": "2026-01-01T00:00:00Z"}"#.to_owned();
        let other = r#"[{"labels": {"alertname": "A \"b\"", "host": "n1", "more": "x"}}]"#.to_owned();
        assert_eq!(manager(vec![(200, other), (200, old.clone())]).0, Ok(false));
        let now = OffsetDateTime::from(SystemTime::now()).format(&Rfc3339).unwrap();
        let young = format!("{{\"uptime\": \"{now}\"}}");
        assert!(manager(vec![(200, "[]".into()), (200, young)]).0.unwrap_err().contains("started only"));
        assert!(manager(vec![(200, "[]".into()), (200, "{}".into())]).0.is_err());
        assert!(manager(vec![(200, "{}".into())]).0.unwrap_err().contains("no list of alerts"));
        assert!(manager(vec![(503, "[]".into())]).0.is_err());
    }
}
