//! The SMI slides: long SMIs (100 to 110 ms) and short ones (1 to 3 ms) on eight machines of eight cores with a network of 1 Gbit/s.

mod findings;
mod simulated;

use super::row::{Draft, Each, View, both, logs, plain};
use super::verdict::{Data, Evidence, Number, Rule, Sample, Scale};
use super::{Extra, Setting, Treatment, treatment};
use crate::disturbance::{Phase, Spec};
pub(super) use simulated::Simulated;
use surefoot_model::CpuId;

/// A short SMI.
pub(super) const SHORT_NS: u64 = 2_000_000;
/// A long SMI.
pub(super) const LONG_NS: u64 = 105_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// Long SMIs a second.
const RATES: [u64; 4] = [1, 2, 3, 4];
/// The treatments of a receiver with these.
const RECEIVERS: [&str; 4] = ["receiver-1", "receiver-2", "receiver-3", "receiver-4"];
/// Collectives, with the measure of each.
const COLLECTIVES: [&str; 4] = ["ring_us", "barrier_us", "allreduce_us", "alltoall_us"];
/// A difference that nobody would notice, in points of a hundred: the slides' runs have a standard deviation of up to half of it.
const NEAR: f64 = 3.0;
/// What is no difference, in points of a hundred.
const NONE: f64 = 1.0;
/// How far the printed throughputs of TCP may be off, in percent, at 95 %: a standard deviation of up to 1.5 % of a run, means of 5
/// runs, a ratio of two of them: 2.306 * 1.5 * sqrt(2 / 5).
const TCP_OFF: f64 = 2.2;
/// As [`TCP_OFF`], of UDP, with up to 1.2 %.
const UDP_OFF: f64 = 1.75;
/// How far a number that is printed in whole percent may be off.
const ROUNDED: f64 = 0.5;

/// More machines than two, each on a core of its own.
const MORE_MACHINES: [(usize, &str); 2] = [(4, "mpi-4"), (8, "mpi-8")];

const UNKNOWN: &str = "no number known to us";

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

/// A number that was published, give or take.
fn about(published: f64, off: f64) -> Rule {
    Rule::About { low: published - off, high: published + off }
}

pub(super) fn rows<'a>(view: &'a View<'a>, extras: &'a [Extra], simulated: &'a Simulated) -> Vec<Draft<'a>> {
    let mut rows = processor(view);
    rows.extend(network(view));
    rows.extend(local(view));
    rows.extend(machines(view, simulated));
    rows.extend(lengths(extras));
    rows.extend(findings::rows(view, extras, simulated));
    rows
}

/// A change of speed beside the share that the stalls took.
fn changed<'a>(
    view: &'a View<'a>,
    table: &'static str,
    (name, case, treatment, measure): (String, &'a str, &'a str, &'a str),
    published: &str,
    rule: Rule,
) -> Draft<'a> {
    let samples = view.change(case, treatment, measure).map(|change| vec![logs(&change, Scale::Change)]);
    Draft::new(table, name, published, [rule], samples, move |numbers| {
        format!("{}{}", numbers[0].words(1, " %"), view.stalled(case, treatment))
    })
}

fn processor<'a>(view: &'a View<'a>) -> Vec<Draft<'a>> {
    const TABLE: &str = "Processor and compile: change of speed";
    const ONE: &str = "one core's work loses the share of time in which it is stalled; an SMI also empties caches and its \
                       entry and exit cost more";
    const ALL: &str = "timers stop the cores within microseconds of each other, as an SMI does; what cores lose beyond the share on the slides' \
                       machines (waiting for each other, cold caches) is less here";
    let mut rows = Vec::new();
    for (one, case, measure, what) in [
        ("cpu-integer", "cpu-integer", "events_per_s", "integer, one core"),
        ("cpu-float", "cpu-float", "bogo_ops_per_s", "floating point, one core"),
        ("memory", "memory", "mib_per_s", "memory, one core"),
        ("compile", "compile", "compile_ns", "compile, one core"),
        ("cpu-integer", "cpu-integer-all", "events_per_s", "integer, all cores"),
        ("cpu-float", "cpu-float-all", "bogo_ops_per_s", "floating point, all cores"),
        ("memory", "memory-all", "mib_per_s", "memory, all cores"),
        ("compile", "compile-all", "compile_ns", "compile, all cores"),
    ] {
        let differs = if case == one { ONE } else { ALL };
        let short = (format!("{what}, 2 ms, 10/s"), case, "short", measure);
        rows.push(changed(view, TABLE, short, UNKNOWN, Rule::Shown).differs(differs));
        let name = format!("{what}, 105 ms, 1/s");
        let long = (name.clone(), case, "long", measure);
        rows.push(match case {
            "compile" => changed(view, TABLE, long, "-12 % (kernel)", about(-12.0, ROUNDED)).differs(differs),
            _ if case == one => changed(view, TABLE, long, "-2 % (nbench)", about(-2.0, ROUNDED)).differs(differs),
            _ => {
                let samples = twice(view, one, case, measure);
                Draft::new(TABLE, name, WORSE, [Rule::Shown, Rule::Below { least: NONE }], samples, move |numbers| {
                    format!("{}{}; {}", numbers[0].words(1, " %"), view.stalled(case, "long"), beyond(numbers[1]))
                })
                .differs(differs)
            }
        });
    }
    rows
}

/// What is published of work on all cores.
const WORSE: &str = "much worse than one core: at least twice the loss";

/// The change on all cores; and by how much it goes beyond twice that on one.
fn twice(view: &View<'_>, one: &str, all: &str, measure: &str) -> Result<Vec<Sample>, String> {
    let (one, all) = (view.change(one, "long", measure)?, view.change(all, "long", measure)?);
    let beyond = both(&all, &one, |all, one| all - 2.0 * one);
    Ok(vec![logs(&all, Scale::Change), logs(&beyond, Scale::Change)])
}

fn beyond(number: Number) -> String {
    format!("beyond twice the loss of one core {}", number.words(1, " %"))
}

fn network<'a>(view: &'a View<'a>) -> Vec<Draft<'a>> {
    const SENT: &str = "a link of 1 Gbit/s made of veth and tbf; the netperf of the slides ran for a minute";
    const RECEIVED: &str = "a veth has no ring of 256 descriptors that can overflow, so packets wait instead of being lost \
                            and retransmitted";
    // Gigabytes in a minute without SMIs and with 1 to 4 long ones a second.
    const WITHOUT: f64 = 5.60;
    const SIDES: [(&str, [f64; 4], [&str; 4], &str); 2] = [
        ("sender", [5.05, 4.43, 3.82, 3.21], ["sender-1", "sender-2", "sender-3", "sender-4"], SENT),
        ("receiver", [4.53, 3.95, 3.32, 2.71], RECEIVERS, RECEIVED),
    ];
    let mut rows = Vec::new();
    for (side, published, treatments, differs) in SIDES {
        for ((rate, gigabytes), treatment) in RATES.iter().zip(published).zip(treatments) {
            let percent = |off: f64| (gigabytes / WITHOUT * (1.0 + off / 100.0) - 1.0) * 100.0;
            let rule = Rule::About { low: percent(-TCP_OFF), high: percent(TCP_OFF) };
            let published = format!("{:.1} % ({gigabytes:.2} of {WITHOUT:.2} GB)", percent(0.0));
            let samples = view.change("tcp", treatment, "received_bit_per_s");
            let samples = samples.map(|change| vec![logs(&change, Scale::Change)]);
            let [without, with] = view.medians("tcp", treatment, "retransmits");
            let name = format!("TCP, {side} has 105 ms, {rate}/s");
            let words = move |numbers: &[Number]| {
                let (number, stalled) = (numbers[0].words(1, " %"), view.stalled("tcp", treatment));
                format!("{number}{stalled}; {:.0} more sent again", with - without)
            };
            rows.push(Draft::new("TCP throughput", name, published, [rule], samples, words).differs(differs));
        }
    }
    rows.extend(sent_again(view));
    for ((rate, published), treatment) in RATES.iter().zip([10.9, 21.5, 32.4, 44.1]).zip(RECEIVERS) {
        let samples = view.rise("udp", treatment, "lost_percent").map(|rise| vec![plain(&rise)]);
        let [without, with] = view.medians("udp", treatment, "lost_percent");
        let words = move |numbers: &[Number]| {
            format!("{}; {without:.1} % without, {with:.1} % with", numbers[0].words(1, " points"))
        };
        let name = format!("UDP, receiver has 105 ms, {rate}/s");
        let rule = about(published, UDP_OFF);
        rows.push(Draft::new("UDP loss", name, format!("{published} %"), [rule], samples, words).differs(
            "300 Mbit/s offered; a ring of 256 packets, as of a network card, and the socket's buffer absorb some 10 ms of each stall",
        ));
    }
    let samples = view.rise("udp", "sender-1", "lost_percent").map(|rise| vec![plain(&rise)]);
    let words = |numbers: &[Number]| numbers[0].words(1, " points");
    rows.push(
        Draft::new("UDP loss", "UDP, sender has 105 ms, 1/s", UNKNOWN, [Rule::Shown], samples, words)
            .differs("a stalled sender sends nothing that could be lost"),
    );
    rows
}

/// Packets that TCP sent again for each stall, in both directions, over the plain link and to a receiver with a ring.
fn sent_again<'a>(view: &'a View<'a>) -> Vec<Draft<'a>> {
    const TABLE: &str = "TCP packets sent again";
    const WAITS: &str = "over a veth, packets wait for a stalled receiver; no packet is lost";
    const RING: &str = "8 streams to a ring of 256 packets, as of a network card: one stream of so short a way has too little under way to fill it; runs of \
                        seconds, and not of a minute";
    const SENT: &str = "a stalled sender sends nothing that could be lost";
    // 45,418 in a minute with 2 a second.
    const PUBLISHED: f64 = 378.0;
    let mut rows = Vec::new();
    for (case, side, what, is_published, differs) in [
        ("tcp", "receiver-2", "TCP, receiver has 105 ms, 2/s", true, WAITS),
        ("tcp-ring", "receiver-2", "TCP to a ring, receiver has 105 ms, 2/s", true, RING),
        ("tcp", "sender-2", "TCP, sender has 105 ms, 2/s", false, SENT),
        ("tcp-ring", "sender-2", "TCP to a ring, sender has 105 ms, 2/s", false, SENT),
    ] {
        let each = sent_again_each(view, case, side);
        let samples = each.map(|each| vec![plain(&each)]);
        let [without, with] = view.medians(case, side, "retransmits");
        let change = view.change(case, side, "received_bit_per_s").unwrap_or_default();
        let change = crate::effect::median(change.into_values().collect()).exp_m1() * 100.0;
        let words = move |numbers: &[Number]| {
            let each = numbers[0].words(0, "");
            format!(
                "{each} more for each stall; {without:.0} in a run without, {with:.0} with; throughput {change:.1} %"
            )
        };
        let (published, rule) = match is_published {
            true => (format!("{PUBLISHED} for each stall (45,418 in a minute)"), about(PUBLISHED, ROUNDED)),
            false => (UNKNOWN.to_owned(), Rule::Shown),
        };
        rows.push(Draft::new(TABLE, what, published, [rule], samples, words).differs(differs));
    }
    rows
}

/// Packets sent again for each stall.
fn sent_again_each(view: &View<'_>, case: &str, treatment: &str) -> Result<Each, String> {
    let (rise, stalls) = (view.rise(case, treatment, "retransmits")?, view.stalls(case, treatment)?);
    Ok(both(&rise, &stalls, |rise, stalls| rise / stalls.max(1.0)))
}

fn local<'a>(view: &'a View<'a>) -> Vec<Draft<'a>> {
    const TABLE: &str = "Local communication: change of speed";
    const OWN: &str = "the slides used other programs";
    let mut rows = Vec::new();
    for (case, measure, what) in [
        ("connect", "connections_per_s", "TCP connections"),
        ("process", "processes_per_s", "processes started"),
        ("pipe-latency", "seconds", "pipe, latency"),
        ("pipe-bandwidth", "mib_per_s", "pipe, bandwidth"),
    ] {
        for (treatment, stalls) in [("short", "2 ms, 10/s"), ("long", "105 ms, 1/s")] {
            let of = (format!("{what}, {stalls}"), case, treatment, measure);
            rows.push(changed(view, TABLE, of, UNKNOWN, Rule::Shown).differs(OWN));
        }
    }
    rows
}

/// The mean over all collectives of the logarithm of the speed over that without stalls, in each repetition.
fn collectives(view: &View<'_>, case: &str, treatment: &str) -> Result<Each, String> {
    let all = COLLECTIVES.iter().map(|measure| view.change(case, treatment, measure)).collect::<Result<Vec<_>, _>>()?;
    let sum = all.iter().skip(1).fold(all[0].clone(), |sum, each| both(&sum, each, |sum, each| sum + each));
    Ok(sum.into_iter().map(|(at, sum)| (at, sum / all.len() as f64)).collect())
}

fn machines<'a>(view: &'a View<'a>, simulated: &'a Simulated) -> Vec<Draft<'a>> {
    const TABLE: &str = "MPI: speed in percent of that without stalls";
    const HERE: &str = "machines are namespaces on a core each, and share caches and a kernel; stalls go on while ranks wait for each other";
    const SIMULATED: &str =
        "simulated: barriers every millisecond, stalls at random phases; the slides average several benchmarks";
    let speed = |each: Each| vec![logs(&each, Scale::Speed)];
    let mut rows = Vec::new();
    for (treatment, what, published) in [
        ("one", "2 machines, one has 105 ms, 1/s", Some(96.0)),
        ("all", "2 machines, both have 105 ms, 1/s", Some(90.0)),
        ("all-at-once", "2 machines, both at the same moments", None),
        ("all-short", "2 machines, both have 2 ms, 10/s", None),
    ] {
        let each = |measure: &&str| {
            let change = view.change("mpi-2", treatment, measure).ok()?;
            let speed = crate::effect::median(change.into_values().collect()).exp() * 100.0;
            Some(format!("{} {speed:.0} %", measure.trim_end_matches("_us")))
        };
        let each = COLLECTIVES.iter().filter_map(each).collect::<Vec<_>>().join(", ");
        let words = move |numbers: &[Number]| format!("{}: {each}", numbers[0].words(1, " %"));
        let rule = published.map_or(Rule::Shown, |published| about(published, ROUNDED));
        let published = published.map_or(UNKNOWN.to_owned(), |published| format!("{published} %"));
        let samples = collectives(view, "mpi-2", treatment).map(speed);
        rows.push(Draft::new(TABLE, what, published, [rule], samples, words).differs(HERE));
    }
    for ((count, case), published) in MORE_MACHINES.into_iter().zip([61.0, 47.0]) {
        let samples = match view.cases.iter().any(|known| known.name == case) {
            true => collectives(view, case, "all").map(speed),
            false => Err(format!("it needs {count} cores, one for each machine; a simulation is below")),
        };
        let name = format!("{count} machines, all have 105 ms, 1/s");
        let words = |numbers: &[Number]| numbers[0].words(1, " %");
        let rule = about(published, ROUNDED);
        rows.push(Draft::new(TABLE, name, format!("{published} %"), [rule], samples, words).differs(HERE));
    }
    for ((nodes, published), found) in [(2, 90.0), (4, 61.0), (8, 47.0)].into_iter().zip(&simulated.few) {
        let name = format!("{nodes} simulated machines, all have 105 ms, 1/s");
        let words = |numbers: &[Number]| numbers[0].words(1, " %");
        let (rule, samples) = (about(published, ROUNDED), found.clone().map(speed));
        let draft = Draft::new(TABLE, name, format!("{published} %"), [rule], samples, words);
        rows.push(draft.from(Evidence::Simulated).differs(SIMULATED));
    }
    rows
}

/// A length in milliseconds.
fn length_of(found: &Result<crate::length::Length, String>, beside_ms: f64) -> Result<Vec<Sample>, String> {
    let length = found.as_ref().map_err(Clone::clone)?;
    let ms = |ns: f64| ns / 1e6;
    let reach = ms((length.high_ns - length.length_ns).max(length.length_ns - length.low_ns));
    let (value, freedom) = (ms(length.length_ns) - beside_ms, length.steps.saturating_sub(1));
    Ok(vec![Sample { data: Data::Estimate { value, reach, freedom }, scale: Scale::Plain }])
}

fn lengths(extras: &[Extra]) -> Vec<Draft<'_>> {
    const DIFFERS: &str = "the stalls are of a timer whose length is known; the slides' driver counted real SMIs";
    let of = |extra: &Extra| {
        let Extra::Length { asked_ns, found } = extra else { return None };
        let (name, published, rule) = if *asked_ns == SHORT_NS {
            ("stalls of 2 ms", "1 to 3 ms", Rule::Within { low: 1.0, high: 3.0 })
        } else {
            let rule = Rule::Within { low: 100.0, high: 110.0 };
            ("stalls of 105 ms", "100 to 110 ms; on one machine 45 to 50 ms", rule)
        };
        let words = |numbers: &[Number]| numbers[0].words(3, " ms");
        let samples = length_of(found, 0.0);
        Some(Draft::new("Length of SMIs by counting", name, published, [rule], samples, words).differs(DIFFERS))
    };
    extras.iter().filter_map(of).collect()
}
