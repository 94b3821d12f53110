//! Agents: what they tell of a host, and orders that are done once, whatever happens to agent and controller.

use crate::remedies::{Ask, Setup, webhook};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use surefoot_controller::{Accepted, Agent, Exchange, Fleet, HandedOrder, HostFindings, OrderAnswer, Protocol};
use surefoot_model::{
    Finding, Headline, Health, LostRate, MachineId, Observed, Part, Room, RoomHealth, Severity, Subject, SubjectKind,
};
use surefoot_remedy::act::{Act, Order, Outcome, PriorAttempt};

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
        Outcome::done(Observed::Effect { evidence: "restarted".into() }, "")
    }

    fn find(&self, _: &Order) -> PriorAttempt {
        self.found.fetch_add(1, Ordering::Relaxed);
        PriorAttempt::Effect { observed: Observed::Effect { evidence: "it was restarted".into() }, memo: String::new() }
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
        let act = Some(Arc::clone(&self.hands) as Arc<dyn Act>);
        Agent::new("node1", "web", machine('1'), health.to_owned(), act, &folder).unwrap()
    }

    /// An agent with the same name, on a machine of its own.
    fn agent_on(&self, machine: MachineId, hands: &Arc<Noted>, folder: &Path) -> Agent {
        let act = Some(Arc::clone(hands) as Arc<dyn Act>);
        Agent::new("node1", "web", machine, "/nowhere".into(), act, folder).unwrap()
    }

    /// The file of a watch that found this just now.
    fn health(&self, findings: Vec<Finding>) -> PathBuf {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let mut rooms: BTreeMap<Room, Vec<Finding>> = BTreeMap::new();
        findings.into_iter().for_each(|finding| rooms.entry(finding.room).or_default().push(finding));
        let health = Health {
            version: Health::VERSION,
            updated_realtime_ns: since.as_nanos() as u64,
            host: "node1".into(),
            headline: Headline::new(Severity::Critical, "It is bad."),
            data_age_ns: None,
            lost: Some(LOST),
            rooms: rooms.into_iter().map(|(room, findings)| (room, RoomHealth::of(findings))).collect(),
            parts: Vec::new(),
            parts_left_out: 0,
        };
        self.setup.secret("health.json", &serde_json::to_string(&health).unwrap())
    }

    fn wire(&self, fleet: &Fleet) -> Wire {
        Wire { ask: Ask::of(fleet), loses_answers: AtomicBool::new(false) }
    }

    fn runs(&self) -> Vec<String> {
        self.hands.runs.lock().unwrap().clone()
    }
}

/// What the file of a watch says of lost time.
const LOST: LostRate =
    LostRate { total_ns_per_s: 61_000_000, cores: 4, worst_ns_per_s: 40_000_000, worst_cpu: 2, is_traced: true };

/// A machine whose IDs have this digit.
fn machine(digit: char) -> MachineId {
    let id = |last: char| Some(digit.to_string().repeat(31) + &last.to_string());
    MachineId { hardware: id('a'), system: id('b') }
}

/// Rounds of the agent until it is so.
fn until(agent: &mut Agent, wire: &Wire, what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        let _ = agent.round(wire, None);
        assert!(begun.elapsed() < PATIENCE, "never {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn state(wire: &Wire, id: u64) -> String {
    wire.ask.get(&format!("/api/v1/cases/{id}")).1["case"]["state"].as_str().unwrap_or("none").to_owned()
}

#[test]
fn what_a_host_loses_reaches_the_list_of_hosts_and_is_not_known_without_its_watch() {
    let lab = Lab::new();
    let fleet = lab.setup.start();
    let wire = lab.wire(&fleet);
    let listed = || wire.ask.get("/api/v1/hosts?order=lost").1["hosts"][0].clone();
    lab.agent(&lab.health(Vec::new())).round(&wire, None).unwrap();
    let host = listed();
    assert_eq!((&host["host"], &host["lost"]), (&"node1".into(), &serde_json::to_value(LOST).unwrap()), "{host}");
    assert_eq!(wire.ask.get("/api/v1/hosts?order=best").0, 400);
    // Its watch ended: another board, which says nothing of it.
    lab.agent(Path::new("/nowhere")).round(&wire, None).unwrap();
    let begun = Instant::now();
    while listed()["lost"].is_object() {
        assert!(begun.elapsed() < PATIENCE, "{}", listed());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(listed()["host"], "node1");
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
        let _ = agent.round(&wire, None);
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
    let _ = agent.round(&wire, None);
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
    let finding = Finding::new(Room::Memory, "rate", Subject::host(), Severity::Critical, "It is bad.");
    let path = lab.health(vec![finding]);
    let mut health: Health = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let written_ns = health.updated_realtime_ns;
    let mut agent = lab.agent(&path);
    agent.round(&wire, None).unwrap();
    wire.ask.until(1, "needs_approval", |case| case["state"] == "needs_approval");
    // A watch that died says nothing, which is not that all is well.
    health.updated_realtime_ns = 5;
    lab.setup.secret("health.json", &serde_json::to_string(&health).unwrap());
    agent.round(&wire, None).unwrap();
    assert_eq!(wire.ask.get("/api/v1/cases/1").1["case"]["is_firing"], json!(true));
    // Nor does one that does not watch memory, or has more findings than its file holds.
    health.updated_realtime_ns = written_ns;
    let memory = health.rooms.remove(&Room::Memory).unwrap();
    let full = RoomHealth { findings: Vec::new(), findings_left_out: 1, ..memory.clone() };
    let nothing = RoomHealth { findings: Vec::new(), ..memory };
    for rooms in [BTreeMap::new(), BTreeMap::from([(Room::Memory, full), (Room::Nic, nothing.clone())])] {
        health.rooms = rooms;
        lab.setup.secret("health.json", &serde_json::to_string(&health).unwrap());
        agent.round(&wire, None).unwrap();
        assert_eq!(wire.ask.get("/api/v1/cases/1").1["case"]["is_firing"], json!(true), "{:?}", health.rooms);
    }
    health.rooms = BTreeMap::from([(Room::Memory, nothing)]);
    lab.setup.secret("health.json", &serde_json::to_string(&health).unwrap());
    agent.round(&wire, None).unwrap();
    wire.ask.until(1, "over", |case| case["is_firing"] == false);
}

/// From the file of the watch to the case: the module that was replaced, and who noticed it.
#[test]
fn a_module_that_was_swapped_is_noted_in_its_case() {
    let lab = Lab::new();
    let fleet = lab.setup.start();
    let wire = lab.wire(&fleet);
    let subject = Subject::new(SubjectKind::Dimm, "S100");
    let finding = Finding::new(Room::Memory, "rate", subject, Severity::Critical, "Module S100 has errors.");
    let with = |findings: Vec<Finding>, serial: &str| {
        let path = lab.health(findings);
        let mut health: Health = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let place = "DIMM_A1".to_owned();
        health.parts = vec![Part {
            kind: SubjectKind::Dimm,
            name: serial.into(),
            place,
            serial: serial.into(),
            model: String::new(),
        }];
        lab.setup.secret("health.json", &serde_json::to_string(&health).unwrap())
    };
    let path = with(vec![finding], "S100");
    let mut agent = lab.agent(&path);
    until(&mut agent, &wire, "returned", || state(&wire, 1) == "returned");
    // The number is not told, then the same again, then another.
    for serial in ["Unknown", "S100"] {
        with(Vec::new(), serial);
        agent.round(&wire, None).unwrap();
        assert!(wire.ask.get("/api/v1/cases/1").1["case"]["replaced"].is_null());
    }
    with(Vec::new(), "S101");
    until(&mut agent, &wire, "replaced", || wire.ask.get("/api/v1/cases/1").1["case"]["replaced"]["by"] == "S101");
    let story = wire.ask.get("/api/v1/cases/1").1;
    let line = story["trail"].as_array().unwrap().last().unwrap();
    assert_eq!((&line["actor"], &line["action"]), (&"agent node1".into(), &"swapped".into()), "{story:#}");
    let says = story["part"]["says"].to_string();
    assert!(says.contains("in DIMM_A1 of node1 from") && says.contains("when S101 took its place"), "{says}");
    // What a person finds of the old one is told without saying first that it was replaced.
    assert_eq!(wire.ask.post("/api/v1/cases/1/tested-good", "{}").0, 200);
}

#[test]
fn checks_of_an_agent_are_told_without_a_watch_and_do_not_end_what_a_watch_found() {
    let lab = Lab::new();
    lab.setup.policy("[[policy]]\nsteps = [\"drain\"]\napprove = [\"drain\"]\n");
    let fleet = lab.setup.start();
    let wire = lab.wire(&fleet);
    let found = |room, rule: &str| Finding::new(room, rule, Subject::host(), Severity::Critical, "It is bad.");
    let mut agent = lab.agent(&lab.health(vec![found(Room::Memory, "rate"), found(Room::Remedy, "case")]));
    agent.round(&wire, None).unwrap();
    wire.ask.until(1, "needs_approval", |case| case["state"] == "needs_approval");
    // Now the watch is gone, and a check finds something.
    let mut agent = lab.agent(Path::new("/nowhere"));
    let fans = [found(Room::Remedy, "check-fans")];
    agent.round(&wire, Some(&fans)).unwrap();
    wire.ask.until(2, "there", |case| case["fault"] == "remedy/check-fans");
    assert_eq!(wire.ask.get("/api/v1/cases/1").1["case"]["is_firing"], json!(true));
    // A check of others says nothing of it, nor does one that is not told of.
    let well = |rule: &str| Finding::new(Room::Remedy, rule, Subject::host(), Severity::Ok, "It is well.");
    for checks in [vec![well("check-clock")], Vec::new()] {
        agent.round(&wire, Some(&checks)).unwrap();
        assert_eq!(wire.ask.get("/api/v1/cases/2").1["case"]["is_firing"], json!(true));
    }
    agent.round(&wire, Some(&[well("check-fans")])).unwrap();
    wire.ask.until(2, "over", |case| case["is_firing"] == false);
    assert_eq!(wire.ask.get("/api/v1/cases/1").1["case"]["is_firing"], json!(true));
    // A case that a watch tells of is nobody's alert.
    assert_eq!(wire.ask.get("/api/v1/cases?state=all").1["cases"].as_array().unwrap().len(), 2);
}

#[test]
fn an_agent_does_what_only_its_host_can_do_and_nothing_else() {
    let lab = Lab::new();
    let mut agent = lab.agent(Path::new("/nowhere"));
    let strange = Strange::orders(&["run:/bin/true", "hard-repair:maker", "dance"]);
    let begun = Instant::now();
    while strange.answers.lock().unwrap().len() < 3 {
        agent.round(&strange, None).unwrap();
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    let answers = strange.answers.lock().unwrap();
    let why = |token: &str| answers.iter().find(|one| one.token == token).unwrap().answer.clone();
    for (step, words) in [
        ("run:/bin/true", "an agent does no step"),
        ("hard-repair:maker", "an agent does no step"),
        ("dance", "cannot read the order"),
    ] {
        let answer = why(step);
        assert!(answer.contains("\"failed\"") && answer.contains(words), "{step}: {answer}");
    }
    assert!(lab.runs().is_empty(), "{:?}", lab.runs());
}

#[test]
fn an_agent_does_no_order_of_a_controller_that_speaks_another_protocol() {
    let lab = Lab::new();
    let mut agent = lab.agent(Path::new("/nowhere"));
    let later = Strange { protocol: Protocol(2), ..Strange::orders(&["reboot"]) };
    let why = agent.round(&later, None).unwrap_err();
    assert!(why.contains("the controller speaks protocol 2, this agent 1"), "{why}");
    assert!(why.contains("update the older one"), "{why}");
    agent.stop();
    assert!(lab.runs().is_empty() && later.answers.lock().unwrap().is_empty(), "{:?}", lab.runs());
    // Controllers of before it was stated are understood.
    let told: Accepted = serde_json::from_str(r#"{"accepted": 1, "refused": 0}"#).unwrap();
    assert_eq!(told.protocol, Protocol(1));
}

/// A controller that is not the real one, or of a later release.
struct Strange {
    protocol: Protocol,
    orders: Vec<HandedOrder>,
    answers: Mutex<Vec<OrderAnswer>>,
}

impl Strange {
    fn orders(steps: &[&str]) -> Strange {
        let body = |step: &str| {
            serde_json::to_string(&Order::default()).unwrap().replace("\"recheck\"", &format!("\"{step}\""))
        };
        let orders = steps.iter().map(|step| HandedOrder { token: (*step).into(), body: body(step) }).collect();
        Strange { protocol: Protocol::default(), orders, answers: Mutex::default() }
    }
}

impl Exchange for Strange {
    fn tell(&self, _: &HostFindings) -> Result<Accepted, String> {
        Ok(Accepted { protocol: self.protocol, orders: self.orders.clone(), ..Accepted::default() })
    }

    fn answer(&self, answer: &OrderAnswer) -> Result<bool, String> {
        self.answers.lock().unwrap().push(answer.clone());
        Ok(true)
    }
}

/// A cloned image, or an old machine that still runs beside its replacement.
#[test]
fn of_two_machines_with_one_name_the_second_is_refused_and_does_nothing() {
    for controllers in [1, 2] {
        let lab = Lab::new();
        let (first, second) = (lab.setup.start(), (controllers == 2).then(|| lab.setup.start()));
        let wire = lab.wire(&first);
        let far = second.as_ref().map_or_else(|| lab.wire(&first), |fleet| lab.wire(fleet));
        let (folder, others) = (tempfile::tempdir().unwrap(), Arc::new(Noted::default()));
        let mut own = lab.agent(Path::new("/nowhere"));
        let mut other = lab.agent_on(machine('2'), &others, folder.path());
        own.round(&wire, None).unwrap();
        let why = other.round(&far, None).unwrap_err();
        for part in [
            "host node1 is machine 11111111 (127.0.0.1)",
            "this report is of machine 22222222",
            "two machines have one name",
        ] {
            assert!(why.contains(part), "{part}: {why}");
        }
        assert_eq!(wire.ask.post("/api/v1/alertmanager", &webhook("node1", "firing", 1)).0, 200);
        // The second asks all the time, at its controller and at the other one.
        let begun = Instant::now();
        while state(&wire, 1) != "returned" {
            assert!(other.round(&far, None).is_err() && other.round(&wire, None).is_err());
            own.round(&wire, None).unwrap();
            assert!(begun.elapsed() < PATIENCE, "{}", state(&wire, 1));
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!((lab.runs().len(), others.runs.lock().unwrap().len()), (1, 0));
        // Both controllers say so.
        for wire in [&wire, &far] {
            let begun = Instant::now();
            while !wire.ask.get("/api/v1/cases").1["notices"][0].to_string().contains("two machines report as node1") {
                assert!(begun.elapsed() < PATIENCE);
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        let trail = wire.ask.get("/api/v1/trail").1["trail"].to_string();
        assert_eq!(trail.matches("machine_refused").count(), 1, "{trail}");
    }
}

#[test]
fn a_machine_that_took_a_name_over_does_no_order_of_the_one_before() {
    for is_fetched in [false, true] {
        let lab = Lab::new();
        let fleet = lab.setup.start();
        let wire = lab.wire(&fleet);
        let (folder, others) = (tempfile::tempdir().unwrap(), Arc::new(Noted::default()));
        let mut own = lab.agent(Path::new("/nowhere"));
        let mut other = lab.agent_on(machine('2'), &others, folder.path());
        own.round(&wire, None).unwrap();
        other.round(&wire, None).unwrap_err();
        lab.hands.hangs.store(true, Ordering::Relaxed);
        assert_eq!(wire.ask.post("/api/v1/alertmanager", &webhook("node1", "firing", 1)).0, 200);
        wire.ask.until(1, "ordered", |case| case["waits_for"] == "the agent of node1");
        if is_fetched {
            until(&mut own, &wire, "run", || !lab.runs().is_empty());
        }
        let (status, said) = wire.ask.post("/api/v1/hosts/node1/release", r#"{"reason": "it was replaced"}"#);
        assert_eq!((status, &said["outcome"]), (200, &json!("node1 is machine 22222222 (127.0.0.1) now")));
        let says = if is_fetched {
            "not known to be done: another machine"
        } else {
            "not done: another machine answers by this name now"
        };
        let begun = Instant::now();
        while !wire.ask.get("/api/v1/cases/1").1["trail"].to_string().contains(says) {
            other.round(&wire, None).unwrap();
            let why = own.round(&wire, None).unwrap_err();
            assert!(why.contains("host node1 is machine 22222222"), "{why}");
            assert!(begun.elapsed() < PATIENCE, "{}", wire.ask.get("/api/v1/cases/1").1);
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!((lab.runs().len(), others.runs.lock().unwrap().len()), (usize::from(is_fetched), 0));
        assert_ne!(state(&wire, 1), "returned");
        lab.hands.hangs.store(false, Ordering::Relaxed);
    }
}

#[test]
fn an_agent_on_an_unknown_machine_is_heard_and_gets_no_order_of_a_known_one() {
    let lab = Lab::new();
    let fleet = lab.setup.start();
    let wire = lab.wire(&fleet);
    let (folder, others) = (tempfile::tempdir().unwrap(), Arc::new(Noted::default()));
    let mut unknown = lab.agent_on(MachineId::default(), &others, folder.path());
    let accepted = unknown.round(&wire, None).unwrap();
    assert!(accepted.reasons[0].contains("it is unknown which machine this report is of"), "{accepted:?}");
    let mut own = lab.agent(Path::new("/nowhere"));
    assert_eq!(own.round(&wire, None).unwrap().reasons, [""; 0]);
    assert_eq!(wire.ask.post("/api/v1/alertmanager", &webhook("node1", "firing", 1)).0, 200);
    wire.ask.until(1, "ordered", |case| case["waits_for"] == "the agent of node1");
    for _ in 0..3 {
        // As a moment ago is no longer enough for the list of hosts with orders.
        std::thread::sleep(Duration::from_millis(1_100));
        let accepted = unknown.round(&wire, None).unwrap();
        assert!(
            accepted.orders.is_empty() && accepted.reasons[0].contains("host node1 is machine 11111111"),
            "{accepted:?}"
        );
    }
    until(&mut own, &wire, "returned", || state(&wire, 1) == "returned");
    assert_eq!((lab.runs().len(), others.runs.lock().unwrap().len()), (1, 0));
    // What is no ID is not taken for one.
    let (status, said) =
        wire.ask.post("/api/v1/findings", r#"{"host": "node1", "machine": {"system": "uninitialized"}}"#);
    assert!(status == 400 && said.to_string().contains("no ID of a machine"), "{status} {said}");
}

#[test]
fn a_report_of_an_unknown_machine_ends_nothing_that_the_known_one_found() {
    let lab = Lab::new();
    let fleet = lab.setup.start();
    let wire = lab.wire(&fleet);
    let report = |machine: serde_json::Value, severity: &str| {
        let finding = json!({"key": "memory/rate/dimm/A1", "room": "memory", "rule": "rate", "subject": {"kind": "dimm", "name": "A1"},
            "severity": severity, "certainty": "certain", "sentence": "It has errors.", "since_realtime_ns": 1});
        json!({"host": "node1", "machine": machine, "findings": [finding], "findings_left_out": {"memory": 0}})
            .to_string()
    };
    let own = || serde_json::to_value(machine('1')).unwrap();
    let send = |body: &str| {
        let (status, said) = wire.ask.post("/api/v1/findings", body);
        assert_eq!(status, 200, "{said}");
    };
    let firing = || {
        // The counts are those of a moment ago.
        std::thread::sleep(Duration::from_millis(2_100));
        let (_, metrics) = wire.ask.get_text("/metrics");
        metrics.lines().find_map(|line| line.strip_prefix("surefoot_remedy_alerts_firing ")).unwrap().to_owned()
    };
    send(&report(own(), "critical"));
    assert_eq!(firing(), "1");
    send(&report(json!({}), "ok"));
    assert_eq!(firing(), "1", "nobody knows whose word it is");
    send(&report(own(), "ok"));
    assert_eq!(firing(), "0");
}

#[test]
fn a_refused_machine_that_asks_all_the_time_does_not_silence_the_one_with_the_name() {
    let lab = Lab::new();
    let fleet = lab.setup.start();
    let wire = lab.wire(&fleet);
    let mut own = lab.agent(Path::new("/nowhere"));
    own.round(&wire, None).unwrap();
    let rival = json!({"host": "node1", "machine": machine('2'), "findings": []}).to_string();
    let statuses: Vec<u16> = (0..260).map(|_| wire.ask.post("/api/v1/findings", &rival).0).collect();
    assert!(statuses.contains(&429) && !statuses.contains(&200), "{statuses:?}");
    own.round(&wire, None).unwrap();
}

/// The image was made of a machine whose agent had orders.
#[test]
fn what_a_copied_folder_knows_of_another_machines_orders_is_not_answered() {
    let lab = Lab::new();
    let fleet = lab.setup.start();
    let wire = lab.wire(&fleet);
    let mut own = lab.agent(Path::new("/nowhere"));
    assert_eq!(wire.ask.post("/api/v1/alertmanager", &webhook("node1", "firing", 1)).0, 200);
    wire.loses_answers.store(true, Ordering::Relaxed);
    until(&mut own, &wire, "done", || !lab.runs().is_empty());
    until(&mut own, &wire, "answered", || own_journal(&lab).contains("\\\"outcome\\\""));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("orders.json"), own_journal(&lab)).unwrap();
    let others = Arc::new(Noted::default());
    let copied = lab.agent_on(machine('2'), &others, folder.path());
    assert_eq!((copied.orders_of_another_count(), copied.has_answer()), (1, false));
    let same = lab.agent_on(machine('1'), &others, lab.setup.secret("unused", "").parent().unwrap());
    assert_eq!((same.orders_of_another_count(), same.has_answer()), (0, true));
}

fn own_journal(lab: &Lab) -> String {
    std::fs::read_to_string(lab.setup.secret("unused", "").with_file_name("orders.json")).unwrap_or_default()
}
