//! Rules for Prometheus and a route for Alertmanager, made of the same words as findings: rooms and severities. So a fleet that already
//! runs both tells `surefoot remedy serve` of every finding of every host, and policies match these alerts as they match findings.
//!
//! The texts are in `contrib/prometheus`; a test keeps them what this says, and `promtool` and `amtool` look at them where they are
//! installed.

use surefoot_model::{Room, Severity};

/// How long a finding holds before it is an alert: a scrape that is missed or a value that flickers is none.
fn held(severity: Severity) -> &'static str {
    match severity {
        Severity::Critical => "1m",
        _ => "5m",
    }
}

/// The severities that are alerts.
const ALERTS: [Severity; 2] = [Severity::Warning, Severity::Critical];

/// The name of the alert, such as `SurefootMemoryCritical`.
pub fn alert_name(room: Room, severity: Severity) -> String {
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    format!("Surefoot{}{}", capital(room.as_str()), capital(severity.as_str()))
}

/// The file of rules.
pub fn prometheus_rules() -> String {
    let mut text = "# Made by Surefoot from its own rooms and severities: SUREFOOT_UPDATE=1 cargo test -p surefoot-remedy alerts\n\
                    # Prometheus scrapes the watch of each host (job surefoot); the label instance, or host where you set one, names it.\n\
                    groups:\n  - name: surefoot\n    rules:\n"
        .to_owned();
    for room in Room::ALL {
        for severity in ALERTS {
            text += &format!(
                "      - alert: {}\n        expr: surefoot_finding{{room=\"{room}\",severity=\"{severity}\"}} == 1\n        for: {}\n        \
                 annotations:\n          summary: '{}: {{{{ $labels.rule }}}} of {{{{ $labels.subject }}}}, {severity}; \
                 the page of the host says what was found.'\n          runbook_url: '{RUNBOOK}'\n",
                alert_name(room, severity),
                held(severity),
                room.label(),
            );
        }
    }
    text += "      - alert: SurefootWatchGone\n        expr: up{job=\"surefoot\"} == 0\n        for: 5m\n        labels:\n          \
            severity: warning\n          room: watch\n          rule: gone\n        annotations:\n          \
            summary: 'No watch of Surefoot answers on this host.'\n  - name: surefoot-recording\n    rules:\n";
    for (name, expression) in RECORDED {
        text += &format!("      - record: {name}\n        expr: {expression}\n");
    }
    text
}

/// The rule's section of `docs/findings.md`. The external label `surefoot_docs` says where the documents are; without it they are where a package has them.
const RUNBOOK: &str = "{{ with $externalLabels.surefoot_docs }}{{ . }}{{ else }}file:///usr/share/doc/surefoot{{ end }}/findings.md\
                       #{{ $labels.room }}{{ reReplaceAll \"^(uncorrected|no-information|controller-gone|controller-renumbered|sum|accounting|check)-.*$\" \
                       \"$1-name\" $labels.rule }}";

/// The section of `docs/findings.md` about a rule, as [`prometheus_rules`] links to it.
pub fn runbook_anchor(room: Room, rule: &str) -> String {
    const NAMED: [&str; 7] =
        ["uncorrected", "no-information", "controller-gone", "controller-renumbered", "sum", "accounting", "check"];
    let is_named = |prefix: &&&str| rule.strip_prefix(**prefix).is_some_and(|rest| rest.starts_with('-'));
    match NAMED.iter().find(is_named) {
        Some(prefix) => format!("{room}{prefix}-name"),
        None => format!("{room}{rule}"),
    }
}

/// What dashboards of many hosts ask for.
const RECORDED: [(&str, &str); 4] = [
    (
        "instance:surefoot_stall_lost:ratio_rate5m",
        "(sum by (instance, job) (rate(surefoot_stall_lost_seconds_total[5m])) - on (instance, job) \
         rate(surefoot_stall_lost_while_idle_seconds_total[5m])) / on (instance, job) surefoot_stall_cores",
    ),
    (
        "instance_kind:surefoot_stall_lost_seconds:rate5m",
        "sum by (instance, job, kind) (rate(surefoot_stall_lost_seconds_total[5m]))",
    ),
    ("instance:surefoot_memory_errors:rate1h", "sum by (instance, job) (rate(surefoot_memory_errors_total[1h]))"),
    (
        "instance:surefoot_finding:worst",
        "max by (instance, job) (3 * (surefoot_findings{severity=\"critical\"} > bool 0) or 2 * (surefoot_findings{severity=\"warning\"} > bool 0) or \
         (surefoot_findings{severity=\"notice\"} > bool 0))",
    ),
];

/// The route and the receiver for Alertmanager, that tell `surefoot remedy serve` at this address.
pub fn alertmanager_route(address: &str) -> String {
    format!(
        "# Made by Surefoot: SUREFOOT_UPDATE=1 cargo test -p surefoot-remedy alerts\n\
         # Take the route and the receiver into your own alertmanager.yml. Over the network: https, and a token (http_config).\n\
         route:\n  receiver: nobody\n  routes:\n    - receiver: surefoot-remedy\n      matchers:\n        - alertname =~ \"Surefoot.*\"\n      \
         # One message for each host: a case is of one host.\n      group_by: [instance, host]\n      group_wait: 5s\n      \
         group_interval: 30s\n      # Told again, an alert that is known changes nothing; what got lost comes again.\n      \
         repeat_interval: 10m\n      # Other receivers, such as the one that pages people, may follow.\n      continue: true\n\
         receivers:\n  - name: nobody\n  - name: surefoot-remedy\n    webhook_configs:\n      - url: {address}/api/v1/alertmanager\n        \
         send_resolved: true\n        max_alerts: 0\n"
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use surefoot_sys::program;
    use surefoot_testkit::not_run::not_run;

    fn kept(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/prometheus").join(name)
    }

    #[test]
    fn the_watch_and_the_rules_link_to_the_same_section() {
        assert_eq!(runbook_anchor(Room::Memory, "uncorrected-mc0"), "memoryuncorrected-name");
        assert_eq!(runbook_anchor(Room::Memory, "uncorrected"), "memoryuncorrected");
        assert_eq!(runbook_anchor(Room::Stall, "lost-time"), "stalllost-time");
        for prefix in
            ["uncorrected", "no-information", "controller-gone", "controller-renumbered", "sum", "accounting", "check"]
        {
            assert!(RUNBOOK.contains(prefix), "{prefix}");
        }
        assert_eq!(RUNBOOK.matches('|').count(), 6, "as many as runbook_anchor knows");
    }

    #[test]
    fn the_files_in_contrib_are_what_the_rooms_say() {
        let address = "http://127.0.0.1:7078";
        for (name, text) in
            [("surefoot.rules.yml", prometheus_rules()), ("alertmanager.yml", alertmanager_route(address))]
        {
            let path = kept(name);
            if std::env::var_os("SUREFOOT_UPDATE").is_some() {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, &text).unwrap();
            }
            let hint = "run SUREFOOT_UPDATE=1 cargo test -p surefoot-remedy alerts";
            assert!(std::fs::read_to_string(&path).unwrap_or_default() == text, "{name} is stale; {hint}");
        }
    }

    /// The anchor that a page of Markdown gives a heading.
    fn anchor(heading: &str) -> String {
        let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | ' ');
        heading.to_lowercase().chars().filter(kept).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    }

    /// Every rule that alerts, with a name in place of NAME, and what promtool makes of it: the alert, its labels and its link.
    #[test]
    fn every_finding_becomes_an_alert_that_links_to_its_rule() {
        const TEST: &str = "every_finding_becomes_an_alert_that_links_to_its_rule";
        let Some(promtool) = program::find("promtool") else { return not_run(TEST, "promtool is not installed") };
        let text =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/findings.md")).unwrap();
        let sections: Vec<&str> = text.split("\n### `").skip(1).collect();
        let (mut alerts, mut number) = (String::new(), 0);
        for section in &sections {
            let (key, about) = section.split_once('`').unwrap();
            let (room, rule) = key.split_once('/').unwrap();
            let first = about.trim_start().lines().next().unwrap();
            let severities = first.split('.').next().unwrap();
            for (word, severity) in [("WARNING", Severity::Warning), ("CRITICAL", Severity::Critical)] {
                if !severities.contains(word) {
                    continue;
                }
                number += 1;
                let room = Room::ALL.into_iter().find(|known| known.as_str() == room).unwrap();
                let (rule, subject) = (rule.replace("NAME", "mc0"), "dimm A1");
                let labels = format!(
                    "room: {room}, rule: {rule}, subject: {subject}, severity: {severity}, certainty: certain, instance: n1"
                );
                let summary = format!(
                    "{}: {rule} of {subject}, {severity}; the page of the host says what was found.",
                    room.label()
                );
                let link = format!("https://docs.test/findings.md#{}", anchor(key));
                alerts += &format!(
                    "  - interval: 1m\n    external_labels: {{surefoot_docs: 'https://docs.test'}}\n    input_series:\n      - series: 'surefoot_finding{{room=\"{room}\",rule=\"{rule}\",subject=\"{subject}\",severity=\"{severity}\",certainty=\"certain\",instance=\"n1\"}}'\n        values: '1x20'\n    alert_rule_test:\n      - eval_time: 10m\n        alertname: {}\n        exp_alerts:\n          - exp_labels: {{{labels}}}\n            exp_annotations: {{summary: '{summary}', runbook_url: '{link}'}}\n",
                    alert_name(room, severity)
                );
            }
        }
        assert!(number > 20, "{number} rules and severities that alert");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tests.yml");
        let rules = kept("surefoot.rules.yml").canonicalize().unwrap();
        let gone = "  - interval: 1m\n    input_series:\n      - series: 'up{job=\"surefoot\",instance=\"n1\"}'\n        values: '0x20'\n    alert_rule_test:\n      - eval_time: 10m\n        alertname: SurefootWatchGone\n        exp_alerts:\n          - exp_labels: {severity: warning, room: watch, rule: gone, job: surefoot, instance: n1}\n            exp_annotations: {summary: 'No watch of Surefoot answers on this host.'}\n";
        std::fs::write(&file, format!("rule_files: ['{}']\ntests:\n{gone}{alerts}", rules.display())).unwrap();
        let output = Command::new(promtool).args(["test", "rules"]).arg(&file).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{said}");
    }

    #[test]
    fn a_current_promtool_understands_the_rules() {
        const TEST: &str = "a_current_promtool_understands_the_rules";
        let promtool = match surefoot_testkit::prometheus::current("promtool") {
            Ok(promtool) => promtool,
            Err(why) => return not_run(TEST, &why),
        };
        let output = Command::new(promtool).args(["check", "rules"]).arg(kept("surefoot.rules.yml")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn prometheus_and_alertmanager_understand_the_files() {
        const TEST: &str = "prometheus_and_alertmanager_understand_the_files";
        let checks: [(&str, &[&str], &str); 2] = [
            ("promtool", &["check", "rules"], "surefoot.rules.yml"),
            ("amtool", &["check-config"], "alertmanager.yml"),
        ];
        for (tool, words, file) in checks {
            let Some(path) = program::find(tool) else { return not_run(TEST, &format!("{tool} is not installed")) };
            let output = Command::new(path).args(words).arg(kept(file)).output().unwrap();
            assert!(
                output.status.success(),
                "{tool}: {}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
}
