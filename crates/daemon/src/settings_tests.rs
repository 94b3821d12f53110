//! Each setting without an option does something. The list of settings is the product's own: one that has no proof here fails.
#![allow(clippy::unwrap_used)]

use crate::alerts;
use crate::config::{Config, Mode};
use crate::keep::history;
use crate::keep::shared::Shared;
use crate::rooms::{self, checkpoint, disturb, memory, nic, watch};
use crate::sources::Start;
use std::path::{Path, PathBuf};
use std::time::Duration;
use surefoot_hostfs::Root;
use surefoot_model::{
    Cause, CauseKind, Certainty, CoreLedger, CpuId, Event, Gap, GapSource, Lost, SelfCost, Verdict, Window,
};
use surefoot_settings::{Allowed, Effective, Field, Live, SETTINGS, Setting, Settings};
use surefoot_testkit::HostTree;

const S: u64 = 1_000_000_000;

/// How a setting is shown to do something.
enum Proof {
    /// What comes of it differs between the ends of its range, or between no text and one.
    Effect(fn(&Live) -> String),
    /// A test that shows it, and what of it stands there.
    Test(&'static str, &'static str),
    /// The code that uses it, where nothing but time shows it.
    Code(&'static str, &'static str),
}

fn proof(key: &str) -> Option<Proof> {
    use Proof::{Code, Effect, Test};
    Some(match key {
        "stall.notice_share"
        | "stall.notice_per_s"
        | "stall.warning_share"
        | "stall.warning_per_s"
        | "stall.little_busy_share"
        | "stall.notice_gap"
        | "stall.warning_gap" => Effect(lost_time),
        "memory.interval"
        | "memory.busy_interval"
        | "memory.check_interval"
        | "memory.rate_limit_per_s"
        | "memory.burst" => Effect(|live| format!("{:?}", memory::source::pace_of(live))),
        "memory.report_interval" => Effect(|live| rest(|root| memory::Options::default().source(root, live))),
        "memory.bmc_interval" => Effect(|live| format!("{:?}", memory::source::settings_of(live).bmc_period)),
        "checkpoint.interval" => Effect(|live| rest(|root| checkpoint::source(root, Vec::new(), live))),
        "checkpoint.worn_notice_percent" | "checkpoint.worn_warning_percent" | "checkpoint.spare_warning_percent" => {
            Test("../rooms/src/checkpoint/findings.rs", "fn each_setting_changes_what_is_found")
        }
        "nic.interval" => Effect(|live| rest(|root| nic::source(root, live))),
        "nic.damaged_packets" | "nic.damaged_share" | "nic.link_changes" => {
            Effect(|live| format!("{:?}", nic::source::limits_of(&live.now().settings.nic)))
        }
        "nic.use_interval" => Code("src/rooms/nic/source.rs", "set_carried_for(of.use_interval)"),
        "disturb.interval" => Effect(|live| rest(|_| disturb::source(&disturb::Options::default(), live))),
        "disturb.failed_for" | "disturb.running_of_user" => {
            Test("../rooms/src/disturb/findings.rs", "fn each_setting_changes_what_is_found")
        }
        "watch.deeds_interval" => Effect(|live| rest(|root| watch::deeds_source(root, live))),
        "watch.findings_interval" => Code("src/server.rs", "settings.watch.findings_interval"),
        "watch.stale_after" | "watch.stale_windows" => Effect(|live| made_up(live).moment().stale_ns.to_string()),
        "watch.loss_notice_for" | "watch.untraced_per_min" => Effect(|live| said(&made_up(live), "watch")),
        "history.size"
        | "history.seconds_for"
        | "history.minutes_for"
        | "history.gaps_per_day"
        | "history.notices"
        | "history.findings"
        | "history.records"
        | "history.record_size"
        | "history.waiting_size" => Effect(|live| format!("{:?}", history::limits_of(live))),
        "page.windows" => Test("../../e2e/tests/config.rs", "port = 0\\nwindows = 3"),
        "page.gaps" => Code("../cli/src/watch.rs", "keep_gaps: kept(set.page.gaps)"),
        "alerts.url" | "alerts.token_file" | "alerts.authority" | "alerts.interval" | "alerts.docs" => {
            Effect(|live| alerts::effect(&live.now().settings.alerts))
        }
        key if key.ends_with(".watched") => Test(
            "../../e2e/tests/config.rs",
            "[\"stall\", \"memory\", \"checkpoint\", \"nic\", \"disturb\", \"remedy\"]",
        ),
        _ => return None,
    })
}

/// Two values that are as far from each other as the setting allows.
fn ends(setting: &Setting) -> [Settings; 2] {
    [false, true].map(|is_most| {
        let mut settings = Settings::default();
        let pick = |least: u64, most: u64| if is_most { most } else { least };
        match ((setting.field)(&mut settings), setting.allowed) {
            (Field::Time(to), Allowed::Times(least, most)) => *to = if is_most { most } else { least },
            (Field::Size(to), Allowed::Sizes(least, most)) | (Field::Count(to), Allowed::Counts(least, most)) => {
                *to = pick(least, most);
            }
            (Field::Number(to), Allowed::Numbers(least, most)) => *to = if is_most { most } else { least },
            (Field::Flag(to), Allowed::Flags) => *to = is_most,
            (Field::Text(to), Allowed::Text(text)) => *to = is_most.then(|| text.to_owned()),
            (Field::Path(to), Allowed::Text(text) | Allowed::Path(text)) => *to = is_most.then(|| PathBuf::from(text)),
            (field, _) => panic!("{}: no two values of {field:?}", setting.key),
        }
        // Without an address its other settings say nothing.
        if setting.key.starts_with("alerts.") && setting.key != "alerts.url" {
            settings.alerts.url = Some("http://127.0.0.1:9".to_owned());
        }
        settings
    })
}

#[test]
fn each_setting_without_an_option_does_something() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for setting in SETTINGS.iter().filter(|setting| setting.option.is_empty()) {
        let key = setting.key;
        match proof(key) {
            None => panic!("{key} has no proof that it does something: add one to `proof`"),
            Some(Proof::Test(file, text) | Proof::Code(file, text)) => {
                let found = std::fs::read_to_string(here.join(file)).unwrap();
                assert!(found.contains(text), "{key}: {file} has no '{text}' any more");
            }
            Some(Proof::Effect(effect)) => {
                let [least, most] = ends(setting).map(|settings| {
                    let mut held = Effective::default();
                    held.settings = settings;
                    effect(&Live::new(held))
                });
                assert_ne!(least, most, "{key} changes nothing");
            }
        }
    }
}

/// How long a source rests on a host without anything.
fn rest(start: impl FnOnce(&Root) -> Start) -> String {
    let tree = HostTree::new();
    let source = start(&Root::at(tree.path()))().unwrap();
    format!("{:?}", source.rest(Duration::ZERO))
}

fn window(start_ns: u64, busy_ns: u64, lost_ns: u64, cost: SelfCost) -> Event {
    let lost = Lost::new(Cause::new(CauseKind::Timer, "local_timer"), 10, lost_ns, lost_ns / 10);
    let (idle_ns, user_ns) = (S - busy_ns, busy_ns - lost_ns);
    let core = CoreLedger { wall_ns: S, idle_ns, user_ns, lost: vec![lost], ..CoreLedger::empty(CpuId(0)) };
    Event::Window(Window {
        start_ns,
        end_ns: start_ns + S,
        cores: vec![core],
        cost,
        faulty: Vec::new(),
        untimed: Vec::new(),
        completeness: Vec::new(),
    })
}

/// A watch that lost events and saw little half a minute ago.
fn made_up(live: &Live) -> Shared {
    let shared = empty(live);
    let cost = SelfCost { dropped: 1, unreported: 100, ..SelfCost::default() };
    shared.fold(window(100 * S, S, S / 100, cost));
    shared.fold(window(130 * S, S, S / 100, SelfCost::default()));
    shared
}

fn empty(live: &Live) -> Shared {
    let rooms = rooms::Options { settings: live.clone(), ..rooms::Options::default() };
    Shared::new(&Config { rooms, mode: Mode::Replay { file: String::new() }, ..Config::default() }, None)
}

/// What a room finds.
fn said(shared: &Shared, room: &str) -> String {
    let found = shared.findings(&shared.moment()).all;
    let of_room = found.iter().filter(|finding| finding.room.as_str() == room);
    of_room.map(|finding| format!("{} {} {}\n", finding.rule, finding.severity, finding.sentence)).collect()
}

/// What is found of cores that are busy or nearly idle and lose little or much, and of single interruptions.
fn lost_time(live: &Live) -> String {
    let of = |busy_ns, lost_ns, gap_ns: u64| {
        let shared = empty(live);
        let start_ns = 100 * S;
        shared.fold(window(start_ns, busy_ns, lost_ns, SelfCost::default()));
        if gap_ns > 0 {
            shared.fold(Event::Gap(Gap {
                cpu: CpuId(0),
                source: GapSource::TimerLateness,
                start_ns,
                duration_ns: gap_ns,
                causes: Vec::new(),
                unexplained_ns: gap_ns,
                verdict: Verdict::PauseOrSmi,
                certainty: Certainty::CannotTellApartHere,
                evidence: Vec::new(),
            }));
        }
        said(&shared, "stall")
    };
    let ms = 1_000_000;
    [of(S, 400 * ms, 0), of(S, 30 * ms, 0), of(30 * ms, 20 * ms, 0), of(S, 1_000, 50 * ms)].concat()
}
