//! Agents: what they tell of a host, and orders that are done once, whatever happens to agent and controller.

use crate::remedies::{Ask, Setup, webhook};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use surefoot_daemon::fleet::{Accepted, Agent, Exchange, Fleet, HostFindings, OrderAnswer};
use surefoot_model::{Headline, Health, Room, RoomHealth, Severity, Subject};
use surefoot_remedy::act::{Act, Found, Order, Outcome};

const PATIENCE: Duration = Duration::from_secs(90);

/// The way to a server, on which words may be lost.
struct Wire {
    ask: Ask,
    loses_answers: AtomicBool,
}

impl Exchange for Wire {
    fn tell(&self, findings: &HostFindings) -> Result<Accepted, String> {
        let (status, answer) = self.ask.post("/api/v1/findings", &serde_json::to_string(findings).unwrap());
        if status == 200 { Ok(serde_json::from_value(answer).unwrap()) } else { Err(answer.to_string()) }
    }

    fn answer(&self, answer: &OrderAnswer) -> Result<bool, String> {
        let (status, said) = self.ask.post("/api/v1/answers", &serde_json::to_string(answer).unwrap());
        match self.loses_answers.load(Ordering::Relaxed) {
            true => Err("the word was lost".into()),
            false if status == 200 || status == 409 => Ok(status == 200),
            false => Err(said.to_string()),
        }
    }
}

/// Hands that note what they are told.
#[derive(Default)]
struct Noted {
    runs: Mutex<Vec<String>>,
    found: AtomicUsize,
    hangs: AtomicBool,
    parts: AtomicUsize,
}

impl Act for Noted {
    fn dry_run(&self, _: &Order) -> String {
        String::new()
    }

    fn run(&self, order: &Order, stop: &AtomicBool) -> Outcome {
        self.runs.lock().unwrap().push(format!("{} of {}{}", order.step, order.host, order.memo));
        while self.hangs.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if self.parts.load(Ordering::Relaxed) > 0 {
            self.parts.fetch_sub(1, Ordering::Relaxed);
            return Outcome::GoesOn {
                detail: "a part".into(),
                memo: format!("{}+", order.memo),
                again_in_ns: 1_000_000,
            };
        }
        Outcome::Done { detail: "restarted".into(), memo: String::new() }
    }

    fn find(&self, _: &Order) -> Found {
        self.found.fetch_add(1, Ordering::Relaxed);
        Found::Effect { detail: "it was restarted".into(), memo: String::new() }
    }
}

struct Lab {
    setup: Setup,
    hands: Arc<Noted>,
}

impl Lab {
    fn new() -> Lab {
        Lab {
            setup: Setup::new("[[policy]]\nsteps = [\"restart:web.service\"]\ncool_down = \"1h\"\nper_hour = 1000\n"),
            hands: Arc::default(),
        }
    }

    fn agent(&self, health: &Path) -> Agent {
        let folder = self.setup.secret("unused", "").with_file_name("");
        Agent::new("node1", "web", health.to_owned(), Some(Arc::clone(&self.hands) as Arc<dyn Act>), &folder).unwrap()
    }

    fn wire(&self, fleet: &Fleet) -> Wire {
        Wire { ask: Ask::of(fleet), loses_answers: AtomicBool::new(false) }
    }

    fn runs(&self) -> Vec<String> {
        self.hands.runs.lock().unwrap().clone()
    }
}

/// Rounds of the agent until it is so.
fn until(agent: &mut Agent, wire: &Wire, what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        let _ = agent.round(wire, &[]);
        assert!(begun.elapsed() < PATIENCE, "never {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn state(wire: &Wire, id: u64) -> String {
    wire.ask.get(&format!("/api/v1/cases/{id}")).1["case"]["state"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn an_order_is_done_once_though_words_are_lost_and_parts_follow() {
    let lab = Lab::new();
    let fleet = lab.setup.start();
    let wire = lab.wire(&fleet);
    let mut agent = lab.agent(Path::new("/nowhere"));
    assert_eq!(wire.ask.post("/api/v1/alertmanager", &webhook("node1", "firing", 1)).0, 200);
    wire.loses_answers.store(true, Ordering::Relaxed);
    until(&mut agent, &wire, "run", || !lab.runs().is_empty());
    for _ in 0..5 {
        let _ = agent.round(&wire, &[]);
        std::thread::sleep(Duration::from_millis(50));
    }
    wire.loses_answers.store(false, Ordering::Relaxed);
    until(&mut agent, &wire, "returned", || state(&wire, 1) == "returned");
    assert_eq!(lab.runs(), ["restart:web.service of node1"]);
}

#[test]
fn a_step_of_several_parts_goes_on_with_what_it_remembered() {
    let lab = Lab::new();
    let fleet = lab.setup.start();
    let wire = lab.wire(&fleet);
    let mut agent = lab.agent(Path::new("/nowhere"));
    lab.hands.parts.store(2, Ordering::Relaxed);
    assert_eq!(wire.ask.post("/api/v1/alertmanager", &webhook("node1", "firing", 1)).0, 200);
    until(&mut agent, &wire, "returned", || state(&wire, 1) == "returned");
    assert_eq!(lab.runs(), ["", "+", "++"].map(|memo| format!("restart:web.service of node1{memo}")));
}

/// The store was one from a backup, or what was told of a part got lost on the way back: the order has another part by now.
#[test]
fn an_answer_that_nobody_waits_for_keeps_nothing_else_from_being_told() {
    let lab = Lab::new();
    let fleet = lab.setup.start();
    let wire = lab.wire(&fleet);
    let mut agent = lab.agent(Path::new("/nowhere"));
    lab.hands.parts.store(1, Ordering::Relaxed);
    assert_eq!(wire.ask.post("/api/v1/alertmanager", &webhook("node1", "firing", 1)).0, 200);
    wire.loses_answers.store(true, Ordering::Relaxed);
    until(&mut agent, &wire, "run", || !lab.runs().is_empty());
    // The controller has the first part's answer, and gives the order of the second, before the agent tells the first again.
    let _ = agent.round(&wire, &[]);
    std::thread::sleep(Duration::from_secs(2));
    wire.loses_answers.store(false, Ordering::Relaxed);
    until(&mut agent, &wire, "returned", || state(&wire, 1) == "returned");
    assert_eq!(lab.runs(), ["", "+"].map(|memo| format!("restart:web.service of node1{memo}")));
}

#[test]
fn an_agent_that_died_finds_what_it_did() {
    let lab = Lab::new();
    let fleet = lab.setup.start();
    let wire = lab.wire(&fleet);
    let mut agent = lab.agent(Path::new("/nowhere"));
    lab.hands.hangs.store(true, Ordering::Relaxed);
    assert_eq!(wire.ask.post("/api/v1/alertmanager", &webhook("node1", "firing", 1)).0, 200);
    until(&mut agent, &wire, "run", || !lab.runs().is_empty());
    agent.stop();
    lab.hands.hangs.store(false, Ordering::Relaxed);
    let mut agent = lab.agent(Path::new("/nowhere"));
    until(&mut agent, &wire, "returned", || state(&wire, 1) == "returned");
    assert_eq!((lab.runs().len(), lab.hands.found.load(Ordering::Relaxed)), (1, 1));
}

#[test]
fn a_controller_that_died_waits_for_the_same_order_again() {
    let lab = Lab::new();
    let fleet = lab.setup.start();
    let wire = lab.wire(&fleet);
    let mut agent = lab.agent(Path::new("/nowhere"));
    lab.hands.hangs.store(true, Ordering::Relaxed);
    assert_eq!(wire.ask.post("/api/v1/alertmanager", &webhook("node1", "firing", 1)).0, 200);
    until(&mut agent, &wire, "run", || !lab.runs().is_empty());
    drop(fleet);
    let fleet = lab.setup.start();
    let wire = lab.wire(&fleet);
    lab.hands.hangs.store(false, Ordering::Relaxed);
    until(&mut agent, &wire, "returned", || state(&wire, 1) == "returned");
    assert_eq!(lab.runs().len(), 1);
}

#[test]
fn what_the_watch_of_a_host_finds_is_told_and_its_silence_says_nothing() {
    let lab = Lab::new();
    lab.setup.policy("[[policy]]\nsteps = [\"drain\"]\napprove = [\"drain\"]\n");
    let fleet = lab.setup.start();
    let wire = lab.wire(&fleet);
    let finding = surefoot_model::Finding::new(Room::Memory, "rate", Subject::host(), Severity::Critical, "It is bad.");
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let mut health = Health {
        version: Health::VERSION,
        updated_realtime_ns: since.as_nanos() as u64,
        host: "node1".into(),
        headline: Headline { severity: Severity::Critical, sentence: "It is bad.".into() },
        data_age_ns: None,
        rooms: [(Room::Memory, RoomHealth::of(vec![finding]))].into(),
    };
    let path = lab.setup.secret("health.json", &serde_json::to_string(&health).unwrap());
    let mut agent = lab.agent(&path);
    agent.round(&wire, &[]).unwrap();
    wire.ask.until(1, "needs_approval", |case| case["state"] == "needs_approval");
    // A watch that died says nothing, which is not that all is well.
    health.updated_realtime_ns = 5;
    lab.setup.secret("health.json", &serde_json::to_string(&health).unwrap());
    agent.round(&wire, &[]).unwrap();
    assert_eq!(wire.ask.get("/api/v1/cases/1").1["case"]["is_firing"], json!(true));
    health.updated_realtime_ns = since.as_nanos() as u64;
    health.rooms.clear();
    lab.setup.secret("health.json", &serde_json::to_string(&health).unwrap());
    agent.round(&wire, &[]).unwrap();
    wire.ask.until(1, "over", |case| case["is_firing"] == false);
}

/// What a controller tells that is not the real one.
struct Liar(Mutex<Vec<OrderAnswer>>);

impl Exchange for Liar {
    fn tell(&self, _: &HostFindings) -> Result<Accepted, String> {
        let body = |step: &str| {
            json!({"case": 1, "step_index": 0, "step": step, "service": "", "fault": "", "subject": "", "evidence": [],
                "token": step, "memo": "", "errors_since_realtime_ns": 0})
        };
        let order =
            |step: &str| surefoot_daemon::fleet::HandedOrder { token: step.into(), body: body(step).to_string() };
        Ok(Accepted { orders: ["run:/bin/true", "hard-repair:maker"].map(order).into(), ..Accepted::default() })
    }

    fn answer(&self, answer: &OrderAnswer) -> Result<bool, String> {
        self.0.lock().unwrap().push(answer.clone());
        Ok(true)
    }
}

#[test]
fn an_agent_does_what_only_its_host_can_do_and_nothing_else() {
    let lab = Lab::new();
    let (mut agent, liar) = (lab.agent(Path::new("/nowhere")), Liar(Mutex::default()));
    let begun = Instant::now();
    while liar.0.lock().unwrap().len() < 2 {
        agent.round(&liar, &[]).unwrap();
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    let answers = liar.0.lock().unwrap();
    assert!(answers.iter().all(|one| one.answer.contains("an agent does no step")), "{answers:?}");
    assert!(lab.runs().is_empty(), "{:?}", lab.runs());
}
