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

/// The severities that are alerts, with their numbers in `surefoot_finding_severity`.
const ALERTS: [(Severity, u8); 2] = [(Severity::Warning, 2), (Severity::Critical, 3)];

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
        for (severity, number) in ALERTS {
            text += &format!(
                "      - alert: {}\n        expr: surefoot_finding_severity{{room=\"{room}\"}} == {number}\n        for: {}\n        \
                 labels:\n          severity: {severity}\n          subject: '{{{{ $labels.subject }}}}{{{{ with $labels.name }}}} {{{{ . }}}}{{{{ end }}}}'\n        \
                 annotations:\n          summary: '{}: {{{{ $labels.rule }}}} of {{{{ $labels.subject }}}}{{{{ with $labels.name }}}} {{{{ . }}}}{{{{ end }}}}, {severity}; \
                 the page of the host says what was found.'\n",
                alert_name(room, severity),
                held(severity),
                room.label(),
            );
        }
    }
    text + "      - alert: SurefootWatchGone\n        expr: up{job=\"surefoot\"} == 0\n        for: 5m\n        labels:\n          \
            severity: warning\n          room: watch\n          rule: gone\n        annotations:\n          \
            summary: 'No watch of Surefoot answers on this host.'\n"
}

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
    use surefoot_hostfs::program;
    use surefoot_testkit::not_run::not_run;

    fn kept(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/prometheus").join(name)
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
