//! `surefoot remedy serve` is killed at moments that chance chooses, while hooks run and alerts are told again and again: each case goes on
//! where it was, and no step is done twice. `SUREFOOT_KILLS=N` kills it so often, `SUREFOOT_SEED=N` at other moments.

use super::server::{Server, executable, folder};
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use surefoot_e2e::command::PATIENCE;
use surefoot_e2e::http;
use surefoot_e2e::machine::{Need, turn};
use surefoot_random::Random;

const HOOKS: [&str; 3] = ["a", "b", "c"];
/// New hosts in trouble before each kill.
const HOSTS: u64 = 3;
const KILLS: u64 = 5;

/// A hook whose effect is a line, for which it looks when it is asked what became of it.
fn hook(folder: &Path, name: &str) -> String {
    let effects = folder.join("effects").display().to_string();
    let script = format!(
        "[ \"$1\" = find ] && {{ grep -qx \"$SUREFOOT_HOST {name}\" {effects} && exit 0; exit 3; }}\n\
         sleep 0.1\necho \"$SUREFOOT_HOST {name}\" >> {effects}\nsleep 0.1\necho \"seen: $(tail -n 1 {effects})\""
    );
    executable(folder, name, &script).display().to_string()
}

fn policy(folder: &Path) -> String {
    let hooks = HOOKS.map(|name| hook(folder, name));
    let rules: String = hooks.iter().map(|path| format!("[[hook]]\npath = \"{path}\"\ncan_find = true\n")).collect();
    let steps = hooks.map(|path| format!("\"run:{path}\"")).join(", ");
    format!(
        "[[policy]]\nservice = \"web\"\nsteps = [{steps}]\nretry = {{ attempts = 20, back_off = \"1s\" }}\n\
         hosts_at_once = 10000\nper_hour = 100000\n{rules}\
         [[service]]\nname = \"web\"\nsize = 100000\n"
    )
}

/// All hosts so far, as Alertmanager repeats them.
fn tell(server: &Server, hosts: u64) {
    let alert = |number: u64| {
        json!({"status": "firing", "labels": {"alertname": "x", "host": format!("n{number}"), "service": "web"},
            "startsAt": "2026-01-01T00:00:00Z", "endsAt": "0001-01-01T00:00:00Z", "fingerprint": format!("{number:016x}")})
    };
    let alerts: Vec<_> = (1..=hosts).map(alert).collect();
    let message = json!({"version": "4", "status": "firing", "receiver": "r", "groupKey": "k", "alerts": alerts});
    let answer = http::post(&server.address(), "/api/v1/alertmanager", &message.to_string());
    assert_eq!(answer.status, 200, "{}", answer.body);
}

#[test]
fn killed_at_any_moment_the_server_goes_on_and_doubles_no_step() {
    const TEST: &str = "remedy::kills::killed_at_any_moment_the_server_goes_on_and_doubles_no_step";
    let Some(_turn) = turn(TEST, Need::Nothing) else { return };
    let number = |name: &str, otherwise| std::env::var(name).map_or(otherwise, |text| text.parse::<u64>().unwrap());
    let (kills, mut random) = (number("SUREFOOT_KILLS", KILLS), Random::new(number("SUREFOOT_SEED", 1)));
    let folder = folder();
    let folder = folder.path();
    fs::write(folder.join("policy.toml"), policy(folder)).unwrap();
    let start = || Server::over(folder, &["--lease", "1s"]);
    let mut server = start();
    for kill in 1..=kills {
        tell(&server, kill * HOSTS);
        std::thread::sleep(Duration::from_millis(random.below(1_500)));
        server.running.signal("KILL");
        drop(server);
        server = start();
    }
    let hosts = kills * HOSTS;
    tell(&server, hosts);
    let begun = Instant::now();
    let patience = PATIENCE + Duration::from_secs(kills);
    loop {
        let cases = server.cases();
        let returned = cases.iter().filter(|case| case["state"] == "returned").count() as u64;
        if returned == hosts {
            assert_eq!(cases.len() as u64, hosts, "one case for each host");
            break;
        }
        assert!(begun.elapsed() < patience, "{returned} of {hosts} are back: {cases:#?}");
        std::thread::sleep(Duration::from_millis(200));
    }
    let mut times: BTreeMap<String, u64> = BTreeMap::new();
    for line in fs::read_to_string(folder.join("effects")).unwrap().lines() {
        *times.entry(line.to_owned()).or_default() += 1;
    }
    let doubled: Vec<_> = times.iter().filter(|(_, count)| **count != 1).collect();
    assert!(
        doubled.is_empty() && times.len() as u64 == hosts * HOOKS.len() as u64,
        "{} effects; {doubled:?}",
        times.len()
    );
    eprintln!("{kills} kills, {hosts} cases, {} steps, none twice", times.len());
}
