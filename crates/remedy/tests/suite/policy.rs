//! Policy files: what they say, and how wrong ones are refused.

use super::hands::alert;
use surefoot_model::{Room, Severity};
use surefoot_remedy::act::HandsConfig;
use surefoot_remedy::policy::{Drain, Policies, TicketWay};
use surefoot_remedy::{Error, Step};

const WHOLE: &str = r#"
# A fleet of two services.
[[policy]]
name = "memory"
service = "web"
match = { room = "memory", severity = "critical", fault = ["memory/rate", "memory/ue*"], rack = "r1*" }
steps = ["recheck", "drain", "firmware:CeThreshold=1", "stress:1h", "run:/usr/lib/surefoot/hooks/repair", "recheck", "return"]
hosts_at_once = 20
share_of_service = 0.05
per_hour = 6
cool_down = "24h"
approve = ["run:/usr/lib/surefoot/hooks/repair"]
windows = ["night"]
retry = { attempts = 5, back_off = "2m" }
hold_off = "5m"
clear_after = "1m"
recheck_within = "30m"
ticket = "desk"
dry_run = true

[[policy]]
steps = ["ticket:desk"]

[[service]]
name = "web"
size = 400
drain = "slurm"

[[service]]
name = "db"
hosts = ["d1", "d2"]

[[window]]
name = "night"
days = ["mon", "tue"]
from = "22:00"
to = "05:00"

[[ticket]]
name = "desk"
directory = "/var/spool/tickets"

[[hook]]
path = "/usr/lib/surefoot/hooks/repair"
time_limit = "10m"
repeatable = true

[[bmc]]
url = "https://{host}-bmc"

[slurm]
conf = "/etc/slurm/slurm.conf"
requeue_jobs = true

[stress]
mebibytes = 1024
"#;

#[test]
fn a_policy_file_says_everything() {
    let policies = Policies::parse(WHOLE, "policy.toml").unwrap();
    let [memory, any] = policies.policies.as_slice() else { panic!("{policies:?}") };
    assert_eq!((memory.name.as_str(), any.name.as_str()), ("memory", "any-2"));
    assert_eq!(memory.matching.room, Some(Room::Memory));
    assert_eq!(memory.matching.severity, Some(Severity::Critical));
    assert_eq!(memory.matching.labels["rack"], "r1*");
    assert_eq!(memory.steps.len(), 7);
    assert_eq!(memory.approve, [Step::Run("/usr/lib/surefoot/hooks/repair".into())]);
    assert_eq!((memory.hosts_at_once, memory.per_hour, memory.share_of_service), (20, 6, 0.05));
    assert_eq!((memory.retry.attempts, memory.retry.back_off_ns), (5, 120_000_000_000));
    assert!(memory.is_dry_run && !memory.is_paused);
    assert_eq!((any.hosts_at_once, any.per_hour, any.share_of_service), (1, 6, 1.0));
    assert_eq!(any.ticket.as_deref(), Some("desk"), "the only ticket system is everybody's");
    assert_eq!(policies.service("db").unwrap().size, Some(2));
    assert_eq!(policies.drain("web"), Drain::Slurm);
    assert_eq!(policies.tickets[0].way, TicketWay::Directory { path: "/var/spool/tickets".into() });
    assert_eq!(policies.look_back_ns(), 24 * 3_600_000_000_000);
    let hands = HandsConfig::of(&policies).unwrap();
    assert!(hands.hooks["/usr/lib/surefoot/hooks/repair"].is_repeatable);
    assert_eq!(hands.bmcs["*"].url, "https://{host}-bmc");
}

#[test]
fn a_host_has_its_service_and_its_controller_by_each_of_its_names() {
    let text = r#"
        [[policy]]
        steps = ["drain", "reboot", "return"]
        [[host]]
        name = "n1"
        also = ["n1.example", "10.0.0.7"]
        [[service]]
        name = "web"
        hosts = ["N1."]
        [[service]]
        name = "db"
        hosts = ["n2"]
        [[bmc]]
        host = "N1.Example"
        url = "https://rack7-a"
    "#;
    let policies = Policies::parse(text, "p").unwrap();
    let of = |host: &str| {
        let told = surefoot_model::Alert { service: String::new(), ..alert(host) };
        policies.service_of(&told).to_owned()
    };
    assert_eq!((&*of("n1.example"), &*of("10.0.0.7"), &*of("n3")), ("web", "web", ""));
    let hands = HandsConfig::of(&policies).unwrap();
    assert_eq!(hands.bmcs["n1"], hands.bmcs["n1.example"]);
    assert!(hands.bmcs.contains_key("10.0.0.7") && !hands.bmcs.contains_key("n2"));
}

#[test]
fn the_policy_of_an_alert_is_the_first_of_its_service_that_matches() {
    let text = r#"
        [[policy]]
        name = "web"
        service = "web"
        match = { severity = "critical" }
        steps = ["recheck"]
        [[policy]]
        name = "rest"
        steps = ["recheck"]
        [[service]]
        name = "db"
        hosts = ["d1"]
    "#;
    let policies = Policies::parse(text, "p").unwrap();
    let of = |host: &str, service: &str, severity| {
        let told = surefoot_model::Alert { service: service.into(), severity, ..alert(host) };
        (policies.of(&told).unwrap().name.clone(), policies.service_of(&told).to_owned())
    };
    assert_eq!(of("h1", "web", Severity::Critical), ("web".into(), "web".into()));
    assert_eq!(of("h1", "web", Severity::Warning), ("rest".into(), "web".into()));
    assert_eq!(of("d1", "", Severity::Critical), ("rest".into(), "db".into()));
    assert_eq!(of("h1", "", Severity::Critical), ("rest".into(), String::new()));
    // A file about one service alone speaks of it wherever nobody says one.
    let single = Policies::parse("[[policy]]\nservice = \"web\"\nsteps = [\"drain\"]", "p").unwrap();
    let told = surefoot_model::Alert { service: String::new(), ..alert("h1") };
    assert_eq!((single.of(&told).is_some(), single.service_of(&told)), (true, "web"));
}

/// What is wrong in a file, the line, the field, and a part of what is said.
const WRONG: &[(&str, usize, &str, &str)] = &[
    ("", 1, "", "there is no [[policy]]"),
    ("[[policy]]\nsteps = [\"drain\"", 2, "", ""),
    ("[[policy]]\nstep = [\"drain\"]", 1, "policy[0]", "'steps' is missing"),
    (
        "[[policy]]\nsteps = [\"drain\"]\nhosts_at_onse = 1",
        3,
        "policy[0].hosts_at_onse",
        "did you mean 'hosts_at_once'",
    ),
    ("[[policy]]\nsteps = [\"drain\"]\ncolour = 1", 3, "policy[0].colour", "there are service, name, match"),
    ("[[host]]\nalso = [\"n1\"]", 1, "host[0]", "'name' is missing"),
    ("[[host]]\nname = \"n1\"\nalso = [\"N1.\"]", 1, "host[0]", "'n1' is the name of another [[host]] already"),
    ("[[host]]\nname = \"n1\"\n[[host]]\nname = \"n2\"\nalso = [\"n1\"]", 3, "host[1]", "'n1' is the name of another"),
    ("[[policy]]\nsteps = []", 2, "policy[0].steps", "names no step"),
    (
        "[[policy]]\nsteps = [\n \"drain\",\n \"dance\"]",
        4,
        "policy[0].steps[1]",
        "'dance' is no step: there are recheck",
    ),
    ("[[policy]]\nsteps = [\"drain\", \"drain\"]", 2, "policy[0].steps[1]", "drained by an earlier"),
    ("[[policy]]\nsteps = [\"return\"]", 2, "policy[0].steps[0]", "no step before it drains"),
    ("[[policy]]\nsteps = [\"ticket:desk\"]", 2, "policy[0].steps[0]", "no [[ticket]] of this name"),
    ("[[policy]]\nsteps = [\"restore:debug:x\"]", 2, "policy[0].steps[0]", "no step before it is debug:x"),
    ("[[policy]]\nsteps = [\"run:repair\"]", 2, "policy[0].steps[0]", "absolute"),
    ("[[policy]]\nsteps = \"drain\"", 2, "policy[0].steps", "must be a list"),
    ("[[policy]]\nsteps = [1]", 2, "policy[0].steps[0]", "must be a text in quotes"),
    ("[[policy]]\nsteps = [\"drain\"]\nhosts_at_once = 0", 3, "policy[0].hosts_at_once", "from 1 to 1000000"),
    ("[[policy]]\nsteps = [\"drain\"]\nhosts_at_once = \"2\"", 3, "policy[0].hosts_at_once", "whole number"),
    ("[[policy]]\nsteps = [\"drain\"]\nper_hour = -1", 3, "policy[0].per_hour", "whole number"),
    ("[[policy]]\nsteps = [\"drain\"]\nshare_of_service = 5", 3, "policy[0].share_of_service", "0.05 for 5 %"),
    ("[[policy]]\nsteps = [\"drain\"]\nshare_of_service = nan", 3, "policy[0].share_of_service", "0.05 for 5 %"),
    ("[[policy]]\nsteps = [\"drain\"]\ncool_down = 24", 3, "policy[0].cool_down", "text in quotes"),
    ("[[policy]]\nsteps = [\"drain\"]\ncool_down = \"24\"", 3, "policy[0].cool_down", "'24' is no time"),
    (
        "[[policy]]\nsteps = [\"drain\"]\napprove = [\"reboot\"]",
        3,
        "policy[0].approve[0]",
        "none of this policy's steps",
    ),
    (
        "[[policy]]\nsteps = [\"drain\"]\nmatch = { severty = \"critical\" }",
        3,
        "policy[0].match.severty",
        "did you mean 'severity'",
    ),
    (
        "[[policy]]\nsteps = [\"drain\"]\nmatch = { severity = \"bad\" }",
        3,
        "policy[0].match.severity",
        "ok, notice, warning, critical",
    ),
    ("[[policy]]\nsteps = [\"drain\"]\nmatch = { room = \"cellar\" }", 3, "policy[0].match.room", "stall, memory"),
    ("[[policy]]\nsteps = [\"drain\"]\nmatch = { rack = 1 }", 3, "policy[0].match.rack", "text in quotes"),
    ("[[policy]]\nsteps = [\"drain\"]\nmatch = 1", 3, "policy[0].match", "must be a table"),
    ("[[policy]]\nsteps = [\"drain\"]\nwindows = [\"night\"]", 3, "policy[0].windows[0]", "no [[window]] of this name"),
    ("[[policy]]\nsteps = [\"drain\"]\nretry = { attempts = 0 }", 3, "policy[0].retry.attempts", "from 1 to 100"),
    (
        "[[policy]]\nsteps = [\"drain\"]\nretry = { tries = 1 }",
        3,
        "policy[0].retry.tries",
        "there are attempts, back_off",
    ),
    (
        "[[policy]]\nname = \"a\"\nsteps = [\"drain\"]\n[[policy]]\nname = \"a\"\nsteps = [\"drain\"]",
        4,
        "policy[1]",
        "'a' already",
    ),
    ("[[policy]]\nname = \"a\\nb\"\nsteps = [\"drain\"]", 2, "policy[0].name", "control character"),
    ("[[policy]]\nsteps = [\"drain\"]\n[[service]]\nsize = 1", 3, "service[0]", "'name' is missing"),
    (
        "[[policy]]\nsteps = [\"drain\"]\n[[service]]\nname = \"a\"\ndrain = \"nomad\"",
        5,
        "service[0].drain",
        "none, slurm, kubernetes",
    ),
    (
        "[[policy]]\nsteps = [\"drain\"]\n[[service]]\nname = \"a\"\ndrain = \"kubernetes\"",
        5,
        "service[0].drain",
        "table [kubernetes]",
    ),
    (
        "[[policy]]\nsteps = [\"drain\"]\n[[window]]\nname = \"n\"\nfrom = \"24:00\"\nto = \"1:00\"",
        5,
        "window[0].from",
        "22:30",
    ),
    ("[[policy]]\nsteps = [\"drain\"]\n[[ticket]]\nname = \"n\"", 3, "ticket[0]", "one of webhook"),
    (
        "[[policy]]\nsteps = [\"drain\"]\n[[ticket]]\nname = \"n\"\nwebhook = \"ftp://x\"",
        5,
        "ticket[0].webhook",
        "https://",
    ),
    (
        "[[policy]]\nsteps = [\"drain\"]\n[[bmc]]\nurl = \"https://x\"\nuser = \"root\"",
        5,
        "bmc[0].user",
        "password_file",
    ),
    (
        "[[policy]]\nsteps = [\"drain\"]\n[[bmc]]\nurl = \"ipmi://bmc\"\nuser = \"root\"\npassword_file = \"/p\"",
        4,
        "bmc[0].url",
        "put {host} into it",
    ),
    ("[[policy]]\nsteps = [\"drain\"]\n[slurm]\nconf = \"slurm.conf\"", 4, "slurm.conf", "absolute path"),
    ("[[policy]]\nsteps = [\"drain\"]\n[polices]\na = 1", 3, "polices", "no such field"),
    ("policy = 1", 1, "policy", "begun with [[policy]]"),
    ("[[policies]]\nsteps = [\"drain\"]", 1, "policies", "no such field"),
    (
        "[[policy]]\nsteps = [\"drain\"]\nmatch = { severity = \"Critcal\" }",
        3,
        "policy[0].match.severity",
        "did you mean 'critical'?",
    ),
    (
        "[[policy]]\nsteps = [\"drain\", \"return\", \"reboot\"]",
        2,
        "policy[0].steps[2]",
        "the host is back at its work by then",
    ),
    ("[[policy]]\nsteps = [\"stress:1h\"]", 2, "policy[0].steps[0]", "no step before it drains the host"),
    (
        "[[policy]]\nsteps = [\"recheck\",\n \"reboot\", \"drain\"]",
        3,
        "policy[0].steps[1]",
        "no step before it drains the host",
    ),
    (
        "[[policy]]\nsteps = [\"debug:x\", \"restore:debug:x\"]",
        2,
        "policy[0].steps[0]",
        "no step before it drains the host",
    ),
    ("[[policy]]\nsteps = [\"drain\", \"return\"]\nverify = [\"recheck\"]", 3, "policy[0].verify", "nothing to verify"),
    ("[[policy]]\nsteps = [\"drain\", \"run:/x\", \"return\"]\nverify = []", 3, "policy[0].verify", "names no step"),
    (
        "[[policy]]\nsteps = [\"drain\", \"run:/x\", \"return\"]\nverify = [\"reboot\"]",
        3,
        "policy[0].verify[0]",
        "only 'stress:TIME' and 'recheck' verify",
    ),
    ("[[policy]]\nsteps = [\"drain\", \"run:/x\", \"return\"]\nverify = \"no\"", 3, "policy[0].verify", "none"),
    (
        "[[policy]]\nsteps = [\"drain\"]\n[[window]]\nname = \"w\"\nfrom = \"02:00\"\nto = \"02:00\"",
        6,
        "window[0].to",
        "the window has no length",
    ),
    (
        "[[policy]]\nsteps = [\"drain\"]\n[[hook]]\npath = \"/a/../b\"",
        4,
        "hook[0].path",
        "the path of a hook is absolute",
    ),
];

/// A restart of one host would restart the other's machine.
#[test]
fn two_hosts_with_the_same_machine_are_refused() {
    let parse = |one: &str, two: &str| {
        let text =
            format!("[[policy]]\nsteps = [\"drain\"]\n[[bmc]]\nhost = \"n1\"\n{one}\n[[bmc]]\nhost = \"n2\"\n{two}");
        Policies::parse(&text, "fleet.toml").map(|policies| policies.bmcs.len()).map_err(|error| error.to_string())
    };
    let chassis = |system: &str| format!("url = \"https://chassis\"\nsystem = \"{system}\"");
    let ipmi = |url: &str| format!("url = \"{url}\"\nuser = \"root\"\npassword_file = \"/p\"");
    let no_system = "url = \"https://Chassis/\"";
    for (one, two) in [
        (no_system.to_owned(), no_system.to_owned()),
        (no_system.to_owned(), chassis("N7001")),
        (chassis("N7001"), no_system.to_owned()),
        (chassis("/redfish/v1/Systems/1"), chassis("/redfish/v1/Systems/1/")),
        (ipmi("ipmi://chassis"), ipmi("ipmi://Chassis")),
    ] {
        let why = parse(&one, &two).unwrap_err();
        assert!(why.contains("n1 and n2 name the same machine"), "{one} {two}: {why}");
    }
    assert_eq!(parse(&chassis("N7001"), &chassis("N7002")), Ok(2));
    assert_eq!(parse(&ipmi("ipmi://n1-bmc"), &ipmi("ipmi://n2-bmc")), Ok(2));
}

#[test]
fn a_wrong_policy_file_is_refused_with_its_line_and_field() {
    for (text, line, field, part) in WRONG {
        match Policies::parse(text, "fleet.toml") {
            Err(error @ Error::Policy { .. }) => {
                let said = error.to_string();
                assert!(said.starts_with(&format!("fleet.toml, line {line}")), "{text}\n{said}");
                let Error::Policy { field: of, .. } = &error else { unreachable!() };
                assert!(of.starts_with(field) && said.contains(part), "{text}\n{said}");
                assert!(!said.contains('\n'), "{said}");
            }
            other => panic!("{text}\n{other:?}"),
        }
    }
}

#[test]
fn hostile_policy_files_end_in_an_error() {
    let deep = format!("a = {}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let long = format!("[[policy]]\nsteps = [\"{}\"]", "x".repeat(1 << 20));
    let many = "[[policy]]\nsteps = [\"drain\"]\n".repeat(1_001);
    for text in [deep, long, many, "\u{0}".into(), "[[policy]]\nsteps=[\"\u{1b}[2J\"]".into()] {
        let said = Policies::parse(&text, "p").unwrap_err().to_string();
        assert!(said.len() < 2_000 && !said.chars().any(|letter| letter.is_control()), "{said}");
    }
}

#[test]
fn what_cannot_be_read_as_a_file_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    let said = |path: &std::path::Path| Policies::read(path).unwrap_err().to_string();
    assert!(said(&path).contains("No such file"), "{}", said(&path));
    std::fs::write(&path, b"\xff\xfe").unwrap();
    assert!(said(&path).contains("UTF-8"));
    std::fs::write(&path, vec![b'#'; 17 << 20]).unwrap();
    assert!(said(&path).contains("larger than 16 MiB"));
    let secret = folder.path().join("token");
    std::fs::write(&secret, "word\n").unwrap();
    let text = format!(
        "[[policy]]\nsteps = [\"drain\"]\n[[ticket]]\nname = \"d\"\nwebhook = \"https://x\"\ntoken_file = \"{}\"",
        secret.display()
    );
    let policies = Policies::parse(&text, "p").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode;
    std::fs::set_permissions(&secret, mode(0o644)).unwrap();
    assert!(HandsConfig::of(&policies).unwrap_err().to_string().contains("chmod 600"));
    std::fs::set_permissions(&secret, mode(0o600)).unwrap();
    assert!(HandsConfig::of(&policies).is_ok());
}

#[test]
fn restarts_and_the_debug_mode_are_told_their_times_and_places() {
    let policy = "[[policy]]\nsteps = [\"drain\", \"reboot\"]\n";
    let text = format!(
        "{policy}[reboot]\nsettle = \"90s\"\nlimit = \"20m\"\n[debug]\nadapters = \"/a\"\nhistory = \"/h.db\"\n"
    );
    let hands = HandsConfig::of(&Policies::parse(&text, "policy.toml").unwrap()).unwrap();
    assert_eq!((hands.reboot.settle.as_secs(), hands.reboot.limit.as_secs()), (90, 1_200));
    assert_eq!(
        (hands.adapters.unwrap().as_os_str(), hands.history.unwrap().as_os_str()),
        ("/a".as_ref(), "/h.db".as_ref())
    );
    let wrong = Policies::parse(&format!("{policy}[reboot]\nsetle = \"90s\"\n"), "policy.toml").unwrap_err();
    assert!(wrong.to_string().contains("did you mean 'settle'"), "{wrong}");
}

/// Prometheus writes the address of a host without a name in one form, people in several.
#[test]
fn an_address_of_a_host_has_one_form() {
    let text = "[[policy]]\nsteps = [\"drain\", \"reboot\"]\n[[service]]\nname = \"web\"\nhosts = [\"2001:DB8:0::7\", \"n1\"]\n\
                [[bmc]]\nurl = \"http://b\"\nhost = \"2001:db8:0:0:0:0:0:7\"\n";
    let policies = Policies::parse(text, "policy.toml").unwrap();
    assert_eq!(policies.services[0].hosts.iter().collect::<Vec<_>>(), ["2001:db8::7", "n1"]);
    assert_eq!(policies.bmcs[0].host, "2001:db8::7");
}

/// What a file holds is shown in a terminal when it is refused.
#[test]
fn what_is_wrong_is_told_without_what_commands_a_terminal() {
    for step in ["hard-repa\\u001b[2Jir", "hard\\tair", "stress:\\u202e5", "restore:hard\\tair"] {
        let text = format!("[[policy]]\nsteps = [\"{step}\"]\n");
        let said = surefoot_remedy::policy::Policies::parse(&text, "p").unwrap_err().to_string();
        assert!(said.contains("line 2") && !said.chars().any(surefoot_model::is_harmful), "{said:?}");
    }
}

/// A host is returned only after a look whether its repair has helped, unless the policy says that it wants none.
#[test]
fn a_repair_is_verified_by_default() {
    let steps = |steps: &str, verify: &str| {
        let policies = Policies::parse(&format!("[[policy]]\nsteps = [{steps}]\n{verify}"), "p").unwrap();
        policies.policies[0].steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    for (told, verify, expected) in [
        (r#""drain", "run:/x", "return""#, "", "drain run:/x recheck return"),
        (r#""drain", "offline-page", "return""#, "", "drain offline-page stress:600s recheck return"),
        (
            r#""drain", "collect:m", "soft-repair:m", "return""#,
            "",
            "drain collect:m soft-repair:m stress:600s recheck return",
        ),
        (r#""recheck", "drain", "run:/x", "stress:1h", "return""#, "", "recheck drain run:/x stress:3600s return"),
        (r#""drain", "run:/x", "return""#, "verify = \"none\"", "drain run:/x return"),
        (
            r#""drain", "run:/x", "return""#,
            r#"verify = ["stress:1h", "recheck"]"#,
            "drain run:/x stress:3600s recheck return",
        ),
        (r#""drain", "run:/x", "return", "reset-interface""#, "", "drain run:/x recheck return reset-interface"),
        (r#""drain", "reboot", "return""#, "", "drain reboot recheck return"),
        (r#""restart:x.service", "drain", "return""#, "", "restart:x.service drain recheck return"),
        (r#""drain", "firmware:A=1", "return""#, "", "drain firmware:A=1 recheck return"),
        (r#""drain", "tune-reporting:1s", "return""#, "", "drain tune-reporting:1s recheck return"),
        (r#""drain", "stress:1m", "return""#, "", "drain stress:60s return"),
        // Each return after a repair, and none that comes after no further one.
        (
            r#""drain", "run:/x", "return", "drain", "run:/x", "return""#,
            "",
            "drain run:/x recheck return drain run:/x recheck return",
        ),
        (
            r#""drain", "run:/x", "recheck", "return", "drain", "offline-page", "return", "drain", "return""#,
            "",
            "drain run:/x recheck return drain offline-page stress:600s recheck return drain return",
        ),
        (
            r#""drain", "return", "drain", "run:/x", "return", "drain", "run:/x", "return""#,
            r#"verify = ["stress:1h"]"#,
            "drain return drain run:/x stress:3600s return drain run:/x stress:3600s return",
        ),
        (r#""drain", "run:/x""#, "", "drain run:/x"),
    ] {
        assert_eq!(steps(told, verify), expected, "{told} {verify}");
    }
}

/// Read at noon, a secret that would go in clear text is an error at noon, and not in the night in which a step needs it.
#[test]
fn a_secret_in_clear_text_is_refused_when_the_policy_is_read() {
    let policy = "[[policy]]\nsteps = [\"drain\"]\n";
    let said =
        |more: &str| Policies::parse(&format!("{policy}{more}"), "p").map(drop).map_err(|error| error.to_string());
    let secret = "token_file = \"/t\"";
    let user = "user = \"u\"\npassword_file = \"/p\"";
    for (field, host, ok) in
        [("http", "192.0.2.7:1", false), ("https", "192.0.2.7", true), ("http", "127.0.0.1:1", true)]
    {
        let url = format!("{field}://{host}");
        for (what, more) in [
            ("webhook", format!("[[ticket]]\nname = \"desk\"\nwebhook = \"{url}/x\"\n{secret}\n")),
            ("url", format!("[[bmc]]\nhost = \"n1\"\nurl = \"{url}\"\n{user}\n")),
            ("server", format!("[kubernetes]\nserver = \"{url}\"\n{secret}\n")),
        ] {
            let got = said(&more);
            if ok {
                assert_eq!(got, Ok(()), "{more}");
                continue;
            }
            let why = got.unwrap_err();
            let line = 2 + more.lines().position(|line| line.starts_with(what)).unwrap() + 1;
            assert!(why.contains(&format!("line {line}")) && why.contains(what), "{why}");
            assert!(why.contains("clear text") && why.contains("use https"), "{why}");
        }
    }
    assert!(said(&format!("[[bmc]]\nurl = \"http://{{host}}-bmc\"\n{user}\n")).unwrap_err().contains("clear text"));
    assert_eq!(said(&format!("[[bmc]]\nurl = \"https://{{host}}-bmc\"\n{user}\n")), Ok(()));
    assert_eq!(said("[[bmc]]\nhost = \"n1\"\nurl = \"http://b\"\n"), Ok(()), "no secret");
    assert_eq!(said(&format!("[[bmc]]\nhost = \"n1\"\nurl = \"ipmi://b\"\n{user}\n")), Ok(()));
    assert_eq!(said("[[ticket]]\nname = \"desk\"\nwebhook = \"http://192.0.2.7/x\"\n"), Ok(()), "no secret");
}
