//! Alertmanager's webhook, version 4: <https://prometheus.io/docs/alerting/latest/configuration/#webhook_config>.

use super::findings::CASE_RULE;
use super::silences::ORIGIN;
use super::strangers;
use serde::Deserialize;
use std::collections::BTreeMap;
use surefoot_model::{Alert, AlertOrigin, Room, Severity};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Labels of one alert that are kept; the rest is left out.
const LABELS_MAX: usize = 64;
/// Alerts of one message.
const ALERTS_MAX: usize = 50_000;
/// Lines of evidence that an annotation may bring.
const EVIDENCE_LINES_MAX: usize = 20;
/// Reasons that an answer names.
const REASONS_MAX: usize = 10;

/// One message.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    version: String,
    alerts: Vec<serde_json::Value>,
    #[serde(default)]
    truncated_alerts: u64,
}

/// One alert of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Told {
    status: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    starts_at: String,
    #[serde(default)]
    ends_at: String,
    #[serde(default)]
    fingerprint: String,
}

/// What a message comes to.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) alerts: Vec<Alert>,
    /// Alerts of what this server knows itself: findings of agents, and cases.
    pub(super) own: u64,
    /// Alerts that are none of ours.
    pub(super) refused: u64,
    /// Why, the first few.
    pub(super) reasons: Vec<String>,
    /// Alerts that Alertmanager itself left out, because of its `max_alerts`.
    pub(super) truncated: u64,
}

impl Taken {
    fn refuse(&mut self, why: String) {
        self.refused += 1;
        if self.reasons.len() < REASONS_MAX && !self.reasons.contains(&why) {
            self.reasons.push(why);
        }
    }
}

/// The alerts of a message of Alertmanager's webhook that are taken, as the server takes them; for whoever tries messages.
///
/// # Errors
/// What is wrong with the whole of it.
pub fn read_alerts(body: &[u8]) -> Result<Vec<Alert>, String> {
    read(body).map(|taken| taken.alerts)
}

/// Reads a message. An alert that cannot be one of ours is refused by itself: the others are taken.
///
/// # Errors
/// What is wrong with the whole of it.
pub(super) fn read(body: &[u8]) -> Result<Taken, String> {
    let message: Message = serde_json::from_slice(body)
        .map_err(|error| format!("this is no message of Alertmanager's webhook: {error}"))?;
    if message.version != "4" {
        let version = strangers::name(&message.version);
        return Err(format!("the message is of version '{version}', and version 4 is taken"));
    }
    if message.alerts.len() > ALERTS_MAX {
        return Err(format!(
            "{} alerts in one message are too many: {ALERTS_MAX} at most; set max_alerts",
            message.alerts.len()
        ));
    }
    let mut taken = Taken { truncated: message.truncated_alerts, ..Taken::default() };
    for told in message.alerts {
        let told: Told = match serde_json::from_value(told) {
            Ok(told) => told,
            Err(error) => {
                taken.refuse(format!("an alert of it is not written as Alertmanager writes one: {error}"));
                continue;
            }
        };
        if is_own(&told.labels) {
            taken.own += 1;
            continue;
        }
        match alert(told) {
            Ok(alert) => taken.alerts.push(alert),
            Err(why) => taken.refuse(why),
        }
    }
    Ok(taken)
}

/// What this server knows already: what agents told it, and its own cases, which people may want to be told of. A case that waits for a
/// person must open no other case, about which Prometheus would tell in turn.
fn is_own(labels: &BTreeMap<String, String>) -> bool {
    let is = |name: &str, value: &str| labels.get(name).is_some_and(|label| label == value);
    is(ORIGIN.0, ORIGIN.1) || is("room", Room::Remedy.as_str()) && is("rule", CASE_RULE)
}

fn alert(told: Told) -> Result<Alert, String> {
    let label = |name: &str| told.labels.get(name).map_or("", String::as_str);
    let named = if label("host").is_empty() { label("instance") } else { label("host") };
    let host = strangers::host(named).ok_or_else(|| match named.is_empty() {
        true => format!("alert '{}' has neither a label host nor instance", strangers::name(label("alertname"))),
        false => format!("'{}' is no name of a host", strangers::name(named)),
    })?;
    let is_firing = match told.status.as_str() {
        "firing" => true,
        "resolved" => false,
        other => return Err(format!("'{}' is no status: firing or resolved", strangers::name(other))),
    };
    let since_realtime_ns = since(&told, is_firing)?;
    let room = Room::ALL.into_iter().find(|room| room.as_str() == label("room"));
    let fault = match (label("room"), label("rule")) {
        ("", _) | (_, "") => strangers::name(label("alertname")),
        (room, rule) => strangers::name(&format!("{room}/{rule}")),
    };
    let annotation = |name: &str| told.annotations.get(name).map_or("", String::as_str);
    let sentence = ["summary", "description", "message"].into_iter().map(annotation).find(|text| !text.is_empty());
    let evidence = [annotation("evidence"), annotation("description")].into_iter().find(|text| !text.is_empty());
    Ok(Alert {
        key: key(&told),
        service: strangers::name(label("service")),
        subject: strangers::name(label("subject")),
        severity: severity(label("severity")),
        sentence: strangers::text(sentence.unwrap_or(&fault)),
        evidence: evidence.map(lines).unwrap_or_default(),
        host,
        fault,
        room,
        origin: AlertOrigin::Alertmanager,
        is_firing,
        since_realtime_ns,
        labels: told
            .labels
            .iter()
            .take(LABELS_MAX)
            .map(|(name, value)| (strangers::name(name), strangers::text(value)))
            .collect(),
    })
}

fn lines(text: &str) -> Vec<String> {
    text.lines().take(EVIDENCE_LINES_MAX).map(strangers::text).collect()
}

/// Since when it holds, or is over. An end that lies in the future is how Alertmanager says that it does not know one.
fn since(told: &Told, is_firing: bool) -> Result<u64, String> {
    let at = |text: &str| {
        let time = OffsetDateTime::parse(text, &Rfc3339);
        let time = time.map_err(|_| format!("'{}' is no time as RFC 3339 writes it", strangers::name(text)))?;
        Ok::<u64, String>(u64::try_from(time.unix_timestamp_nanos()).unwrap_or(0))
    };
    let began_ns = at(&told.starts_at)?;
    if is_firing { Ok(began_ns) } else { Ok(at(&told.ends_at)?.max(began_ns)) }
}

/// Alertmanager's own fingerprint names an alert; where there is none, its labels do.
fn key(told: &Told) -> String {
    let is_fingerprint = !told.fingerprint.is_empty()
        && told.fingerprint.len() <= 64
        && told.fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_fingerprint {
        return format!("alertmanager/{}", told.fingerprint.to_ascii_lowercase());
    }
    let words = told.labels.iter().flat_map(|(name, value)| [name, value]);
    let hash = strangers::hash(words.flat_map(|word| word.bytes().chain([0xff])));
    format!("alertmanager/labels-{hash:016x}")
}

/// The words that alerting rules commonly have.
fn severity(label: &str) -> Severity {
    match label.to_ascii_lowercase().as_str() {
        "critical" | "page" | "emergency" | "fatal" | "disaster" => Severity::Critical,
        "notice" | "info" | "informational" | "none" => Severity::Notice,
        _ => Severity::Warning,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::json;

    fn message(alerts: serde_json::Value) -> Vec<u8> {
        json!({
            "receiver": "hook", "status": "firing", "alerts": alerts, "groupLabels": {}, "commonLabels": {},
            "commonAnnotations": {}, "externalURL": "http://am:9093", "version": "4", "groupKey": "{}:{}",
            "truncatedAlerts": 2
        })
        .to_string()
        .into_bytes()
    }

    fn told(status: &str, labels: serde_json::Value) -> serde_json::Value {
        json!({
            "status": status, "labels": labels, "annotations": {"summary": "It is\nbad.", "description": "a\nb"},
            "startsAt": "2026-11-25T10:00:00.5Z", "endsAt": "0001-01-01T00:00:00Z", "generatorURL": "", "fingerprint": "00Ab"
        })
    }

    #[test]
    fn a_message_becomes_alerts() {
        let labels = json!({"alertname": "MemoryErrors", "instance": "Node17:9100", "severity": "page", "service": "web",
            "room": "memory", "rule": "rate", "subject": "dimm A1"});
        let taken = read(&message(json!([told("firing", labels)]))).unwrap();
        assert_eq!((taken.alerts.len(), taken.refused, taken.truncated), (1, 0, 2));
        let alert = &taken.alerts[0];
        assert_eq!((&*alert.host, &*alert.key, &*alert.fault), ("node17", "alertmanager/00ab", "memory/rate"));
        assert_eq!((alert.severity, alert.room, &*alert.service), (Severity::Critical, Some(Room::Memory), "web"));
        assert_eq!((&*alert.sentence, &*alert.subject), ("It is?bad.", "dimm A1"));
        assert_eq!(
            (alert.evidence.clone(), alert.since_realtime_ns),
            (vec!["a".into(), "b".into()], 1_795_600_800_500_000_000)
        );
    }

    #[test]
    fn an_alert_that_cannot_be_read_keeps_no_other_from_being_taken() {
        let good = || told("firing", json!({"instance": "n1"}));
        let mut without = good();
        without["annotations"] = serde_json::Value::Null;
        let strange = [told("firing", json!({"instance": null})), without, json!({"labels": {}}), json!(7)];
        for one in strange {
            let taken = read(&message(json!([good(), one, good()]))).unwrap();
            assert_eq!((taken.alerts.len(), taken.refused, taken.reasons.len()), (2, 1, 1), "{one}");
        }
    }

    /// As Prometheus writes the instance of a target by its IPv6 address.
    #[test]
    fn an_instance_with_an_ipv6_address_is_a_host() {
        let taken = read(&message(json!([told("firing", json!({"instance": "[2001:db8::7]:9100"}))]))).unwrap();
        assert_eq!((taken.alerts.len(), taken.refused), (1, 0));
        assert_eq!(taken.alerts[0].host, "2001:db8::7");
    }

    #[test]
    fn what_this_server_told_alertmanager_is_not_taken_for_another_alert() {
        let own = told("firing", json!({"host": "a", "surefoot_origin": "agent"}));
        let taken = read(&message(json!([own, told("firing", json!({"host": "a"}))]))).unwrap();
        assert_eq!((taken.alerts.len(), taken.own, taken.refused), (1, 1, 0));
    }

    /// As the rules of contrib/prometheus tell of the findings of a watch.
    #[test]
    fn a_case_that_prometheus_tells_of_opens_no_other_case() {
        let labels = |rule: &str| {
            json!({"alertname": "SurefootRemedyWarning", "instance": "n1", "room": "remedy", "rule": rule, "name": "7",
            "severity": "warning", "subject": "case 7"})
        };
        let told = json!([told("firing", labels("case")), told("firing", labels("check-clock"))]);
        let taken = read(&message(told)).unwrap();
        assert_eq!((taken.alerts.len(), taken.own, taken.refused), (1, 1, 0));
        assert_eq!(taken.alerts[0].fault, "remedy/check-clock");
    }

    #[test]
    fn the_end_of_an_alert_is_later_than_its_beginning() {
        let mut one = told("resolved", json!({"host": "a"}));
        assert_eq!(read(&message(json!([one]))).unwrap().alerts[0].since_realtime_ns, 1_795_600_800_500_000_000);
        one["endsAt"] = "2026-11-25T11:00:00Z".into();
        let over = read(&message(json!([one]))).unwrap().alerts.remove(0);
        assert_eq!((over.is_firing, over.since_realtime_ns), (false, 1_795_604_400_000_000_000));
    }

    #[test]
    fn an_alert_of_no_host_is_refused_and_the_others_are_taken() {
        let good = told("firing", json!({"host": "a"}));
        let mut without_time = good.clone();
        without_time["startsAt"] = "yesterday".into();
        let bad = [
            told("firing", json!({"alertname": "x"})),
            told("firing", json!({"host": "$(reboot)"})),
            told("burning", json!({"host": "b"})),
            without_time,
        ];
        let mut all = bad.to_vec();
        all.push(good);
        let taken = read(&message(json!(all))).unwrap();
        assert_eq!((taken.alerts.len(), taken.refused), (1, 4));
        assert!(taken.reasons[0].contains("neither a label host nor instance"), "{:?}", taken.reasons);
        assert!(taken.reasons[1].contains("'$(reboot)' is no name of a host"));
    }

    #[test]
    fn what_is_no_message_is_refused_in_words() {
        for (body, why) in [
            ("", "no message"),
            ("[]", "no message"),
            ("{}", "missing field `version`"),
            ("{\"version\":\"5\",\"alerts\":[]}", "version 4 is taken"),
            ("{\"version\":\"4\",\"alerts\":{}}", "no message"),
        ] {
            let error = read(body.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{body}: {error}");
        }
        let deep = format!("{{\"version\":\"4\",\"alerts\":{}", "[".repeat(1_000_000));
        assert!(read(deep.as_bytes()).is_err());
        let deep = format!("{{\"version\":\"4\",\"x\":{}{},\"alerts\":[]}}", "[".repeat(200_000), "]".repeat(200_000));
        // What is not asked for is not read, however deep it is.
        let _ = read(deep.as_bytes());
        let labels: serde_json::Map<String, serde_json::Value> = (0..10_000)
            .map(|number| (format!("l{number}"), "x".repeat(10_000).into()))
            .chain([("host".into(), "a".into())])
            .collect();
        let taken = read(&message(json!([told("firing", labels.into())]))).unwrap();
        assert!(
            taken.alerts[0].labels.len() == 64 && taken.alerts[0].labels.values().all(|value| value.len() <= 1_000)
        );
    }
}
