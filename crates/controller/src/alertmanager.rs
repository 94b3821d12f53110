//! Alertmanager's webhook, version 4: <https://prometheus.io/docs/alerting/latest/configuration/#webhook_config>.

use super::findings::CASE_RULE;
use super::refused::{Reason, Refused};
use super::silences::ORIGIN;
use super::strangers;
use serde::Deserialize;
use std::collections::BTreeMap;
use surefoot_model::{Alert, AlertOrigin, Room, Severity, one_line};
use surefoot_store::cases::FindingName;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Labels of one alert, and the characters of one. Silences and policies look at all of them, so an alert with more is refused: one whose
/// labels were cut would be acted on though it is silenced.
const LABELS_MAX: usize = 256;
const LABEL_CHARACTERS_MAX: usize = 4_096;
/// Alerts of one message.
const ALERTS_MAX: usize = 50_000;
/// Lines of evidence that an annotation may bring.
const EVIDENCE_LINES_MAX: usize = 20;
/// How far ahead the clock of another machine may be.
const AHEAD_NS_MAX: u64 = 3_600_000_000_000;

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
    /// Alerts of cases, which this server knows itself.
    pub(super) own: u64,
    /// What says that an agent found it, which is then known here, with the alert's name.
    pub(super) of_agents: Vec<(FindingName, String)>,
    /// Alerts that are none of ours, and those that Alertmanager itself left out because of its `max_alerts`.
    pub(super) refused: Refused,
}

/// The alerts of a message of Alertmanager's webhook that are taken, as the server takes them; for whoever tries messages.
///
/// # Errors
/// What is wrong with the whole of it.
pub fn read_alerts(body: &[u8]) -> Result<Vec<Alert>, String> {
    read(body, u64::MAX).map(|taken| taken.alerts)
}

/// Reads a message at this time of `CLOCK_REALTIME`. An alert that cannot be one of ours is refused by itself: the others are taken.
///
/// # Errors
/// What is wrong with the whole of it.
pub(super) fn read(body: &[u8], now_ns: u64) -> Result<Taken, String> {
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
    let mut taken = Taken::default();
    let count = message.truncated_alerts;
    for told in message.alerts {
        let told: Told = match serde_json::from_value(told) {
            Ok(told) => told,
            Err(error) => {
                let why = format!("an alert of it is not written as Alertmanager writes one: {error}");
                taken.refused.add(Reason::Format, 1, &why);
                continue;
            }
        };
        if let Some(finding) = of_agent(&told.labels) {
            taken.of_agents.push(finding);
            continue;
        }
        if is_own(&told.labels) {
            taken.own += 1;
            continue;
        }
        let name = strangers::name(told.labels.get("alertname").map_or("", String::as_str));
        match alert(told, now_ns) {
            Ok(alert) => taken.alerts.push(alert),
            Err((reason, why)) => taken.refused.add(reason, 1, &format!("alert '{name}': {why}")),
        }
    }
    if count > 0 {
        let why = format!(
            "Alertmanager left {count} alerts out of a message (max_alerts of its receiver): they are unknown here"
        );
        taken.refused.add(Reason::Truncated, count, &why);
    }
    Ok(taken)
}

/// What the alert of a finding says of itself, as [`super::silences::labels_of`] wrote it.
fn of_agent(labels: &BTreeMap<String, String>) -> Option<(FindingName, String)> {
    let label = |name: &str| labels.get(name).map_or("", String::as_str);
    let fault = match (label("room"), label("rule")) {
        ("", _) => label("alertname").to_owned(),
        (room, "") => room.to_owned(),
        (room, rule) => format!("{room}/{rule}"),
    };
    let finding = FindingName { host: label("host").to_owned(), fault, subject: label("subject").to_owned() };
    (label(ORIGIN.0) == ORIGIN.1).then(|| (finding, strangers::name(label("alertname"))))
}

/// What this server knows already: its own cases, which people may want to be told of. A case that waits for a person must open no other case, about which Prometheus would tell in turn.
fn is_own(labels: &BTreeMap<String, String>) -> bool {
    let is = |name: &str, value: &str| labels.get(name).is_some_and(|label| label == value);
    is("room", Room::Remedy.as_str()) && is("rule", CASE_RULE)
}

fn alert(told: Told, now_ns: u64) -> Result<Alert, (Reason, String)> {
    let label = |name: &str| told.labels.get(name).map_or("", String::as_str);
    let named = if label("host").is_empty() { label("instance") } else { label("host") };
    let host = strangers::host(named).ok_or_else(|| match named.is_empty() {
        true => (Reason::Host, "it has neither a label host nor instance".to_owned()),
        false => (
            Reason::Host,
            format!(
                "'{}' does not name one host; give the target a label host with the host's name",
                strangers::name(named)
            ),
        ),
    })?;
    let is_firing = match told.status.as_str() {
        "firing" => true,
        "resolved" => false,
        other => {
            return Err((Reason::Status, format!("'{}' is no status: firing or resolved", strangers::name(other))));
        }
    };
    let since_realtime_ns = since(&told, is_firing, now_ns).map_err(|why| (Reason::Time, why))?;
    let room = Room::ALL.into_iter().find(|room| room.as_str() == label("room"));
    let fault = match (label("room"), label("rule")) {
        ("", _) | (_, "") => strangers::name(label("alertname")),
        (room, rule) => strangers::name(&format!("{room}/{rule}")),
    };
    let annotation = |name: &str| told.annotations.get(name).map_or("", String::as_str);
    let sentence = ["summary", "description", "message"].into_iter().map(annotation).find(|text| !text.is_empty());
    let evidence = [annotation("evidence"), annotation("description")].into_iter().find(|text| !text.is_empty());
    let mut evidence = evidence.map(lines).unwrap_or_default();
    let severity = Severity::of_label(label("severity"));
    if severity.is_none() {
        let said = match label("severity") {
            "" => "The alert does not say how bad it is".to_owned(),
            word => format!("The alert's severity '{}' is not known here", strangers::name(word)),
        };
        evidence.truncate(EVIDENCE_LINES_MAX - 1);
        evidence.push(format!("{said}: it is shown as a warning, and no policy that asks for a severity is for it."));
    }
    Ok(Alert {
        key: key(&told),
        service: strangers::name(label("service")),
        subject: strangers::name(label("subject")),
        severity: severity.unwrap_or(Severity::Warning),
        sentence: strangers::text(sentence.unwrap_or(&fault)),
        evidence,
        host,
        fault,
        room,
        origin: AlertOrigin::Alertmanager,
        is_firing,
        since_realtime_ns,
        labels: labels(told.labels).map_err(|why| (Reason::Labels, why))?,
    })
}

/// All labels as they are.
fn labels(told: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    let unheeded = "silences and policies that look at it could not be heeded";
    if told.len() > LABELS_MAX {
        return Err(format!("it has {} labels, more than {LABELS_MAX}: {unheeded}", told.len()));
    }
    let is_kept = |text: &String| text.chars().count() <= LABEL_CHARACTERS_MAX && one_line(text) == *text;
    match told.iter().find(|(name, value)| !is_kept(name) || !is_kept(value)) {
        Some((name, _)) => Err(format!(
            "its label '{}' has more than {LABEL_CHARACTERS_MAX} characters, or some that a line of text has not: {unheeded}",
            strangers::name(name)
        )),
        None => Ok(told),
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().take(EVIDENCE_LINES_MAX).map(strangers::text).collect()
}

/// Since when it holds, or is over. An end that lies in the future is how Alertmanager says that it does not know one. What holds only
/// later, or ended before it began, nobody can act on.
fn since(told: &Told, is_firing: bool, now_ns: u64) -> Result<u64, String> {
    let at = |text: &str| {
        let time = OffsetDateTime::parse(text, &Rfc3339);
        let time = time.map_err(|_| format!("'{}' is no time as RFC 3339 writes it", strangers::name(text)))?;
        Ok::<u64, String>(u64::try_from(time.unix_timestamp_nanos()).unwrap_or(0))
    };
    let began_ns = at(&told.starts_at)?;
    if began_ns > now_ns.saturating_add(AHEAD_NS_MAX) {
        return Err(format!(
            "it begins at {}, which is more than an hour from now by this machine's clock",
            strangers::name(&told.starts_at)
        ));
    }
    if !is_firing {
        return Ok(at(&told.ends_at)?.max(began_ns));
    }
    // Year 1 is how Go writes no time. What fires has no end, or one that is assumed and lies ahead; clocks may differ.
    if began_ns == 0 {
        return Err(format!("it fires and does not say since when: '{}'", strangers::name(&told.starts_at)));
    }
    let ended_ns = if told.ends_at.is_empty() { 0 } else { at(&told.ends_at)? };
    match ended_ns {
        0 => Ok(began_ns),
        ended_ns if ended_ns < began_ns => Err(format!(
            "it fires, and ended at {} before it began at {}",
            strangers::name(&told.ends_at),
            strangers::name(&told.starts_at)
        )),
        ended_ns if ended_ns < now_ns.saturating_sub(AHEAD_NS_MAX) => {
            Err(format!("it fires, and ended at {}, more than an hour ago", strangers::name(&told.ends_at)))
        }
        _ => Ok(began_ns),
    }
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use serde_json::json;

    /// 2026-11-26T00:00:00Z.
    const NOW_NS: u64 = 1_795_651_200_000_000_000;

    fn read(body: &[u8]) -> Result<Taken, String> {
        super::read(body, NOW_NS)
    }

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
        assert_eq!((taken.alerts.len(), taken.refused.count()), (1, 0));
        assert!(taken.refused.reasons[0].contains("left 2 alerts out"), "{:?}", taken.refused.reasons);
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
            assert_eq!((taken.alerts.len(), taken.refused.count(), taken.refused.reasons.len()), (2, 1, 2), "{one}");
        }
    }

    /// As Prometheus writes the instance of a target by its IPv6 address.
    #[test]
    fn an_instance_with_an_ipv6_address_is_a_host() {
        let taken = read(&message(json!([told("firing", json!({"instance": "[2001:db8::7]:9100"}))]))).unwrap();
        assert_eq!((taken.alerts.len(), taken.refused.count()), (1, 0));
        assert_eq!(taken.alerts[0].host, "2001:db8::7");
    }

    #[test]
    fn what_this_server_told_alertmanager_is_not_taken_for_another_alert() {
        let own = told("firing", json!({"host": "a", "surefoot_origin": "agent"}));
        let taken = read(&message(json!([own, told("firing", json!({"host": "a"}))]))).unwrap();
        assert_eq!((taken.alerts.len(), taken.of_agents.len(), taken.refused.count()), (1, 1, 0));
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
        assert_eq!((taken.alerts.len(), taken.own, taken.refused.count()), (1, 1, 0));
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
    fn a_severity_that_is_not_known_is_said_and_is_no_policys() {
        for (word, known) in [
            ("page", Some(Severity::Critical)),
            ("Error", Some(Severity::Warning)),
            ("low", Some(Severity::Notice)),
            ("bogus", None),
            ("P2", None),
            ("", None),
        ] {
            let labels = json!({"host": "a", "severity": word});
            let alert = read(&message(json!([told("firing", labels)]))).unwrap().alerts.remove(0);
            assert_eq!((alert.said_severity(), alert.severity), (known, known.unwrap_or(Severity::Warning)), "{word}");
            let is_told =
                alert.evidence.iter().any(|line| line.contains("no policy that asks for a severity is for it"));
            assert_eq!(is_told, known.is_none(), "{word}: {:?}", alert.evidence);
        }
        let without = read(&message(json!([told("firing", json!({"host": "a"}))]))).unwrap().alerts.remove(0);
        assert_eq!(without.said_severity(), None);
    }

    #[test]
    fn an_alert_whose_times_contradict_themselves_or_the_clock_is_refused() {
        let at = |begins: &str, ends: &str| {
            let mut one = told("firing", json!({"host": "a", "severity": "warning"}));
            (one["startsAt"], one["endsAt"]) = (begins.into(), ends.into());
            let taken = read(&message(json!([one]))).unwrap();
            (taken.alerts.len(), taken.refused.count())
        };
        let never = "0001-01-01T00:00:00Z";
        assert_eq!(at("2026-11-25T10:00:00Z", never), (1, 0));
        assert_eq!(at("2026-11-26T00:59:00Z", never), (1, 0), "clocks differ");
        assert_eq!(at("2026-11-25T10:00:00Z", "2026-11-26T09:00:00Z"), (1, 0));
        assert_eq!(at("2026-11-26T01:01:00Z", never), (0, 1));
        assert_eq!(at("2099-01-01T00:00:00Z", never), (0, 1));
        assert_eq!(at("2026-11-25T10:00:00Z", "2026-11-20T00:00:00Z"), (0, 1));
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
        assert_eq!((taken.alerts.len(), taken.refused.count()), (1, 4));
        assert!(taken.refused.reasons[0].contains("neither a label host nor instance"), "{:?}", taken.refused.reasons);
        assert!(taken.refused.reasons[1].contains("'$(reboot)' does not name one host"));
    }

    /// A hook that reaches such a host reaches the controller itself.
    #[test]
    fn an_alert_of_what_every_machine_is_called_is_refused() {
        for instance in
            ["localhost:9100", "127.0.0.1:7077", "[::1]:9100", "[::ffff:127.0.0.1]:9100", "0.0.0.0", "0", "all"]
        {
            let taken =
                read(&message(json!([told("firing", json!({"alertname": "x", "instance": instance}))]))).unwrap();
            assert_eq!((taken.alerts.len(), taken.refused.count()), (0, 1), "{instance}");
            assert!(taken.refused.reasons[0].contains("give the target a label host"), "{:?}", taken.refused.reasons);
            let named = json!({"alertname": "x", "instance": instance, "host": "n1"});
            assert_eq!(read(&message(json!([told("firing", named)]))).unwrap().alerts[0].host, "n1");
        }
    }

    /// Now is midnight of 26 November.
    #[test]
    fn what_fires_has_begun_and_has_not_ended_long_ago() {
        let is_taken = |starts: &str, ends: &str| {
            let mut alert = told("firing", json!({"host": "a"}));
            (alert["startsAt"], alert["endsAt"]) = (starts.into(), ends.into());
            read(&message(json!([alert]))).unwrap().alerts.len() == 1
        };
        let began = "2026-11-25T10:00:00Z";
        for ends in ["0001-01-01T00:00:00Z", "", "2026-11-26T00:04:00Z", "2026-11-25T23:30:00Z"] {
            assert!(is_taken(began, ends), "{ends}");
        }
        for (starts, ends) in [
            (began, "2026-11-25T11:00:00Z"),
            (began, "2026-11-25T09:00:00Z"),
            (began, "soon"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("2026-11-26T03:00:00Z", "0001-01-01T00:00:00Z"),
        ] {
            assert!(!is_taken(starts, ends), "{starts} {ends}");
        }
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
    }

    /// A silence or a policy may look at the label that would be cut.
    #[test]
    fn an_alert_with_labels_that_cannot_all_be_kept_is_refused_and_one_with_many_is_not() {
        let with = |count: usize, name: &str, value: String| {
            let mut labels: serde_json::Map<String, serde_json::Value> =
                (0..count - 2).map(|number| (format!("l{number:03}"), "x".into())).collect();
            labels.insert("host".into(), "a".into());
            labels.insert(name.into(), value.into());
            read(&message(json!([told("firing", labels.into())]))).unwrap()
        };
        let taken = with(256, "zone", "z".repeat(4_096));
        assert_eq!((taken.alerts.len(), taken.refused.count()), (1, 0));
        assert_eq!((taken.alerts[0].labels.len(), taken.alerts[0].labels["zone"].len()), (256, 4_096));
        for taken in [
            with(257, "zone", "z9".into()),
            with(3, "zone", "z".repeat(4_097)),
            with(3, "zone", "z9\n".into()),
            with(10_000, "zone", "x".repeat(10_000)),
        ] {
            assert_eq!((taken.alerts.len(), taken.refused.count()), (0, 1));
            assert!(taken.refused.reasons[0].contains("could not be heeded"), "{:?}", taken.refused.reasons);
        }
    }
}
