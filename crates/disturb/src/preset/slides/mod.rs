//! The SMI slides: long SMIs (100 to 110 ms) and short ones (1 to 3 ms) on eight machines of eight cores with a network of 1 Gbit/s.

mod findings;
mod simulated;

use super::row::{Number, View};
use super::{Extra, Row, Setting, Treatment, Verdict, treatment};
use crate::disturbance::{Phase, Spec};
use simulated::Simulated;
use surefoot_model::CpuId;

/// A short SMI.
pub(super) const SHORT_NS: u64 = 2_000_000;
/// A long SMI.
pub(super) const LONG_NS: u64 = 105_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Long SMIs a second.
const RATES: [u64; 4] = [1, 2, 3, 4];
/// Collectives, with the measure of each.
const COLLECTIVES: [&str; 4] = ["ring_us", "barrier_us", "allreduce_us", "alltoall_us"];
/// A number lies beside a published one if no more than this is between its interval and it: points of a hundred.
const NEAR: f64 = 3.0;

/// More machines than two, each on a core of its own.
const MORE_MACHINES: [(usize, &str); 2] = [(4, "mpi-4"), (8, "mpi-8")];

const UNKNOWN: &str = "no number known to us";
const NO_PUBLISHED: &str = "";

pub(super) fn long(rate: u64) -> Spec {
    Spec::freeze(LONG_NS, SECOND_NS / rate)
}

fn on(cores: &[CpuId], spec: Spec) -> Spec {
    Spec { cores: cores.to_vec(), ..spec }
}

/// The workloads, each with what is done to it.
pub(super) fn cases(setting: &Setting) -> Vec<(&'static str, Vec<Treatment>)> {
    let short = || treatment("short", Spec::freeze(SHORT_NS, SECOND_NS / 10));
    let both = || vec![short(), treatment("long", long(1))];
    let mut cases: Vec<(&str, Vec<Treatment>)> = [
        "cpu-integer",
        "cpu-integer-all",
        "cpu-float",
        "cpu-float-all",
        "memory",
        "memory-all",
        "compile",
        "compile-all",
        "connect",
        "process",
        "pipe-latency",
        "pipe-bandwidth",
    ]
    .map(|name| (name, both()))
    .into();
    let first = &setting.cores[..1];
    let second = &setting.cores[setting.cores.len().min(2) - 1..setting.cores.len().min(2)];
    let rates = |side: &str, cores: &[CpuId]| -> Vec<Treatment> {
        RATES.iter().map(|rate| treatment(&format!("{side}-{rate}"), on(cores, long(*rate)))).collect()
    };
    let mut tcp = [rates("sender", first), rates("receiver", second)].concat();
    for rate in [10, 100] {
        tcp.push(treatment(&format!("receiver-short-{rate}"), on(second, Spec::freeze(SHORT_NS, SECOND_NS / rate))));
    }
    cases.push(("tcp", tcp));
    let at_two = |side: &str, cores: &[CpuId]| treatment(&format!("{side}-2"), on(cores, long(2)));
    cases.push(("tcp-ring", vec![at_two("sender", first), at_two("receiver", second)]));
    cases.push(("udp", [rates("receiver", second), vec![treatment("sender-1", on(first, long(1)))]].concat()));
    let machines = &setting.cores[..setting.cores.len().min(2)];
    let apart = |spec: Spec| Spec { phase: Phase::Random, ..on(machines, spec) };
    cases.push((
        "mpi-2",
        vec![
            treatment("one", on(first, long(1))),
            treatment("all", apart(long(1))),
            treatment("all-at-once", on(machines, long(1))),
            treatment("all-short", apart(Spec::freeze(SHORT_NS, SECOND_NS / 10))),
        ],
    ));
    // Where some would share a core, a stall of one would be one of several.
    for (machines, name) in MORE_MACHINES {
        if setting.cores.len() >= machines {
            let spec = Spec { phase: Phase::Random, ..on(&setting.cores[..machines], long(1)) };
            cases.push((name, vec![treatment("all", spec)]));
        }
    }
    cases
}

/// A row of one number.
fn row(
    table: &'static str,
    name: String,
    published: &str,
    found: Result<(Number, String, Option<Verdict>), String>,
    differs: &'static str,
) -> Row {
    let published = published.to_owned();
    match found {
        Ok((number, ours, verdict)) => {
            let (value, interval) = (Some(number.value), Some([number.low, number.high]));
            Row { table, row: name, published, ours, value, interval, differs, verdict }
        }
        Err(why) => {
            let verdict = Some(Verdict::CannotBeTested);
            Row { table, row: name, published, ours: why, value: None, interval: None, differs, verdict }
        }
    }
}

pub(super) fn rows(view: &View<'_>, extras: &[Extra]) -> Vec<Row> {
    let mut rows = processor(view);
    rows.extend(network(view));
    rows.extend(local(view));
    let simulated = Simulated::run();
    rows.extend(machines(view, &simulated));
    rows.extend(lengths(extras));
    rows.extend(findings::rows(view, extras, &simulated));
    rows
}

/// What is said of a number that is too noisy to tell.
fn noise(number: Number, verdict: Option<Verdict>) -> &'static str {
    if verdict.is_some() && number.is_too_wide() { "; too noisy here to tell" } else { "" }
}

/// A change of speed beside the share that the stalls took.
fn changed(
    view: &View<'_>,
    case: &str,
    treatment: &str,
    measure: &str,
    published: Option<f64>,
) -> Result<(Number, String, Option<Verdict>), String> {
    let (number, share) = view.change(case, treatment, measure)?;
    let verdict = published.map(|published| number.verdict(published, NEAR));
    let words = format!("{}, stalled {share:.1} % of the time{}", number.words(1, " %"), noise(number, verdict));
    Ok((number, words, verdict))
}

fn processor(view: &View<'_>) -> Vec<Row> {
    const ONE: &str = "one core's work loses the share of time in which it is stalled; an SMI also empties caches and its \
    entry and exit \
                       cost more";
    const ALL: &str = "timers stop the cores within microseconds of each other, as an SMI does; what cores lose beyond the share on the slides' \
                       machines (waiting for each other, cold caches) is less here";
    let mut rows = Vec::new();
    for (case, measure, what) in [
        ("cpu-integer", "events_per_s", "integer, one core"),
        ("cpu-float", "bogo_ops_per_s", "floating point, one core"),
        ("memory", "mib_per_s", "memory, one core"),
        ("compile", "compile_ns", "compile, one core"),
        ("cpu-integer-all", "events_per_s", "integer, all cores"),
        ("cpu-float-all", "bogo_ops_per_s", "floating point, all cores"),
        ("memory-all", "mib_per_s", "memory, all cores"),
        ("compile-all", "compile_ns", "compile, all cores"),
    ] {
        for (treatment, stalls) in [("short", "2 ms, 10/s"), ("long", "105 ms, 1/s")] {
            let (published, number) = match (case, treatment) {
                ("cpu-integer" | "cpu-float" | "memory", "long") => ("-2 % (nbench)", Some(-2.0)),
                ("compile", "long") => ("-12 % (kernel)", Some(-12.0)),
                (_, "long") => (WORSE, None),
                _ => (UNKNOWN, None),
            };
            let mut found = changed(view, case, treatment, measure, number);
            if let (WORSE, Ok((all, words, verdict))) = (published, &mut found) {
                let one = view.change(case.trim_end_matches("-all"), treatment, measure).map(|(one, _)| one);
                let judged = one.and_then(|one| worse(*all, one));
                *verdict = Some(judged.clone().unwrap_or(Verdict::CannotBeTested));
                *words += &judged.err().map_or(String::new(), |why| format!("; {why}"));
            }
            let differs = if case.ends_with("-all") { ALL } else { ONE };
            rows.push(row(
                "Processor and compile: change of speed",
                format!("{what}, {stalls}"),
                published,
                found,
                differs,
            ));
        }
    }
    rows
}

/// What is published of work on all cores.
const WORSE: &str = "much worse than one core";

/// Whether all cores lose more than one does, as far as the intervals tell.
fn worse(all: Number, one: Number) -> Result<Verdict, String> {
    match all.is_too_wide() || one.is_too_wide() {
        true => Err(format!("one core alone {}: too noisy here to tell", one.words(1, " %"))),
        false => Ok(Verdict::of(all.high < one.low)),
    }
}

fn network(view: &View<'_>) -> Vec<Row> {
    const SENT: &str = "a link of 1 Gbit/s made of veth and tbf; the netperf of the slides ran for a minute";
    const RECEIVED: &str = "a veth has no ring of 256 descriptors that can overflow, so packets wait instead of being lost \
    and retransmitted";
    // Gigabytes in a minute without SMIs and with 1 to 4 long ones a second.
    const WITHOUT: f64 = 5.60;
    let mut rows = Vec::new();
    for (side, published, differs) in
        [("sender", [5.05, 4.43, 3.82, 3.21], SENT), ("receiver", [4.53, 3.95, 3.32, 2.71], RECEIVED)]
    {
        for (rate, gigabytes) in RATES.iter().zip(published) {
            let percent = (gigabytes / WITHOUT - 1.0) * 100.0;
            let treatment = format!("{side}-{rate}");
            let found = changed(view, "tcp", &treatment, "received_bit_per_s", Some(percent)).map(
                |(number, words, verdict)| {
                    let again = view.rise("tcp", &treatment, "retransmits").map_or(0.0, |(rise, _)| rise.value);
                    (number, format!("{words}; {again:.0} more sent again"), verdict)
                },
            );
            let name = format!("TCP, {side} has 105 ms, {rate}/s");
            rows.push(row(
                "TCP throughput",
                name,
                &format!("{percent:.1} % ({gigabytes:.2} of {WITHOUT:.2} GB)"),
                found,
                differs,
            ));
        }
    }
    rows.extend(sent_again(view));
    for (rate, published) in RATES.iter().zip([10.9, 21.5, 32.4, 44.1]) {
        let found = view.rise("udp", &format!("receiver-{rate}"), "lost_percent").map(|(number, [without, with])| {
            let verdict = Some(number.verdict(published, NEAR));
            let noise = noise(number, verdict);
            let words = format!("{}; {without:.1} % without, {with:.1} % with{noise}", number.words(1, " points"));
            (number, words, verdict)
        });
        let name = format!("UDP, receiver has 105 ms, {rate}/s");
        rows.push(row(
            "UDP loss",
            name,
            &format!("{published} %"),
            found,
            "300 Mbit/s offered; a ring of 256 packets, as of a network card, and the socket's buffer absorb some 10 ms of each stall",
        ));
    }
    let found =
        view.rise("udp", "sender-1", "lost_percent").map(|(number, _)| (number, number.words(1, " points"), None));
    rows.push(row(
        "UDP loss",
        "UDP, sender has 105 ms, 1/s".into(),
        UNKNOWN,
        found,
        "a stalled sender sends nothing that could be lost",
    ));
    rows
}

/// Packets that TCP sent again, in both directions, over the plain link and to a receiver with a ring.
fn sent_again(view: &View<'_>) -> Vec<Row> {
    const WAITS: &str = "over a veth, packets wait for a stalled receiver; no packet is lost";
    const RING: &str = "8 streams to a ring of 256 packets, as of a network card: one stream of so short a way has too little under way to fill it; runs of \
                        seconds, and not of a minute";
    const SENT: &str = "a stalled sender sends nothing that could be lost";
    let mut rows = Vec::new();
    for (case, side, what, published, differs) in [
        ("tcp", "receiver", "TCP, receiver has 105 ms, 2/s", Some("28,000 to 50,000 sent again"), WAITS),
        ("tcp-ring", "receiver", "TCP to a ring, receiver has 105 ms, 2/s", Some("28,000 to 50,000 sent again"), RING),
        ("tcp", "sender", "TCP, sender has 105 ms, 2/s", None, SENT),
        ("tcp-ring", "sender", "TCP to a ring, sender has 105 ms, 2/s", None, SENT),
    ] {
        let treatment = format!("{side}-2");
        let found = view.rise(case, &treatment, "retransmits").map(|(number, [without, with])| {
            let verdict = published.map(|_| Verdict::of(number.low > 0.0 && with > 10.0 * without.max(1.0)));
            let words = format!("{} more in a run; {without:.0} without, {with:.0} with", number.words(0, ""));
            (number, words, verdict)
        });
        let published = published.unwrap_or(UNKNOWN);
        rows.push(row("TCP packets sent again", what.into(), published, found, differs));
        let change = view.change(case, &treatment, "received_bit_per_s").map(|(change, _)| change.words(1, " %"));
        if let (Ok(change), Some(last)) = (change, rows.last_mut()) {
            last.ours += &format!("; throughput {change}");
        }
    }
    rows
}

fn local(view: &View<'_>) -> Vec<Row> {
    const OWN: &str = "the slides used other programs";
    let mut rows = Vec::new();
    for (case, measure, what) in [
        ("connect", "connections_per_s", "TCP connections"),
        ("process", "processes_per_s", "processes started"),
        ("pipe-latency", "seconds", "pipe, latency"),
        ("pipe-bandwidth", "mib_per_s", "pipe, bandwidth"),
    ] {
        for (treatment, stalls) in [("short", "2 ms, 10/s"), ("long", "105 ms, 1/s")] {
            let found = changed(view, case, treatment, measure, None);
            rows.push(row("Local communication: change of speed", format!("{what}, {stalls}"), UNKNOWN, found, OWN));
        }
    }
    rows
}

/// The mean speed over all collectives, in percent of that without stalls.
fn collectives(view: &View<'_>, case: &str, treatment: &str) -> Result<Number, String> {
    let all = COLLECTIVES.iter().map(|measure| view.change(case, treatment, measure)).collect::<Result<Vec<_>, _>>()?;
    let mean =
        |part: fn(&Number) -> f64| 100.0 + all.iter().map(|(number, _)| part(number)).sum::<f64>() / all.len() as f64;
    Ok(Number { value: mean(|number| number.value), low: mean(|number| number.low), high: mean(|number| number.high) })
}

fn machines(view: &View<'_>, simulated: &Simulated) -> Vec<Row> {
    const TABLE: &str = "MPI: speed in percent of that without stalls";
    const HERE: &str = "machines are namespaces on a core each, and share caches and a kernel; stalls go on while ranks wait for each other";
    const SIMULATED: &str =
        "simulated: barriers every millisecond, stalls at random phases; the slides average several benchmarks";
    let mut rows = Vec::new();
    for (treatment, what, published, number) in [
        ("one", "2 machines, one has 105 ms, 1/s", "96 %", Some(96.0)),
        ("all", "2 machines, both have 105 ms, 1/s", "90 %", Some(90.0)),
        ("all-at-once", "2 machines, both at the same moments", UNKNOWN, None),
        ("all-short", "2 machines, both have 2 ms, 10/s", UNKNOWN, None),
    ] {
        let found = collectives(view, "mpi-2", treatment).map(|speed| {
            let verdict = number.map(|number: f64| speed.verdict(number, NEAR));
            (speed, speed.words(1, " %") + noise(speed, verdict), verdict)
        });
        rows.push(row(TABLE, what.into(), published, found, HERE));
        let each = |measure: &&str| {
            let (number, _) = view.change("mpi-2", treatment, measure).ok()?;
            Some(format!("{} {:.0} %", measure.trim_end_matches("_us"), 100.0 + number.value))
        };
        let each: Vec<String> = COLLECTIVES.iter().filter_map(each).collect();
        if let Some(last) = rows.last_mut().filter(|_| !each.is_empty()) {
            last.ours += &format!(": {}", each.join(", "));
        }
    }
    for ((count, case), published) in MORE_MACHINES.into_iter().zip([61.0, 47.0]) {
        let is_run = view.cases.iter().any(|known| known.name == case);
        let found = if is_run {
            collectives(view, case, "all")
        } else {
            Err(format!("it needs {count} cores, one for each machine; a simulation is below"))
        };
        let found = found.map(|speed| {
            let verdict = Some(speed.verdict(published, NEAR));
            (speed, speed.words(1, " %") + noise(speed, verdict), verdict)
        });
        let name = format!("{count} machines, all have 105 ms, 1/s");
        rows.push(row(TABLE, name, &format!("{published:.0} %"), found, HERE));
    }
    for ((nodes, published), found) in [(2, 90.0), (4, 61.0), (8, 47.0)].into_iter().zip(&simulated.few) {
        let found = found.clone().map(|speed| {
            (
                speed,
                format!("{}, of a simulation", speed.words(0, " %")),
                Some(Verdict::of(speed.is_near(published, NEAR))),
            )
        });
        let name = format!("{nodes} simulated machines, all have 105 ms, 1/s");
        rows.push(row(TABLE, name, &format!("{published:.0} %"), found, SIMULATED));
    }
    rows
}

fn lengths(extras: &[Extra]) -> Vec<Row> {
    const DIFFERS: &str = "the stalls are of a timer whose length is known; the slides' driver counted real SMIs";
    let of = |extra: &Extra| {
        let Extra::Length { asked_ns, found } = extra else { return None };
        let (name, published, range) = if *asked_ns == SHORT_NS {
            ("2 ms", "1 to 3 ms", 1.0..=3.0)
        } else {
            ("105 ms", "100 to 110 ms; on one machine 45 to 50 ms", 100.0..=110.0)
        };
        let found = found.clone().map(|length| {
            let ms = |ns: f64| ns / 1e6;
            let number = Number { value: ms(length.length_ns), low: ms(length.low_ns), high: ms(length.high_ns) };
            (number, number.words(3, " ms"), Some(Verdict::of(range.contains(&number.value))))
        });
        Some(row("Length of SMIs by counting", format!("stalls of {name}"), published, found, DIFFERS))
    };
    extras.iter().filter_map(of).collect()
}
