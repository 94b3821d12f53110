//! What the slides found, each as a row of its own.

use super::simulated::Simulated;
use super::{NEAR, NONE, RATES, RECEIVERS, beyond, collectives, length_of, sent_again_each, twice};
use crate::preset::Extra;
use crate::preset::row::{Draft, Each, View, both, logs, plain};
use crate::preset::verdict::{Data, Evidence, Number, Rule, Sample, Scale};

const TABLE: &str = "Findings";
/// A counted length is right to this part of it.
const LENGTH_OFF: f64 = 0.05;

type Samples = Result<Vec<Sample>, String>;

fn finding<'a>(
    name: &str,
    published: &str,
    rules: impl Into<Vec<Rule>>,
    samples: Samples,
    words: impl Fn(&[Number]) -> String + 'a,
) -> Draft<'a> {
    Draft::new(TABLE, name, published, rules, samples, words).of_several()
}

pub(super) fn rows<'a>(view: &'a View<'a>, extras: &'a [Extra], simulated: &'a Simulated) -> Vec<Draft<'a>> {
    let mut rows = of_processor(view);
    rows.extend(of_network(view));
    rows.extend(of_machines(view, simulated));
    rows.push(lengths(extras));
    rows.push(drift(extras));
    rows
}

fn of_processor<'a>(view: &'a View<'a>) -> Vec<Draft<'a>> {
    let slower =
        |case: &str, measure: &str| -> Samples { Ok(vec![logs(&view.change(case, "long", measure)?, Scale::Change)]) };
    let below = [Rule::Below { least: NONE }];
    let percent = |numbers: &[Number]| numbers[0].words(1, " %");
    vec![
        finding(
            "long SMIs slow one core's work",
            "-2 % (nbench), -12 % (kernel)",
            below,
            slower("cpu-integer", "events_per_s"),
            percent,
        )
        .differs("the slides' nbench lost less than the share of time"),
        finding("long SMIs slow a compile", "-12 %", below, slower("compile", "compile_ns"), percent),
        finding(
            "work on all cores loses at least twice as much as on one",
            "much worse",
            [Rule::Shown, below[0]],
            twice(view, "cpu-integer", "cpu-integer-all", "events_per_s"),
            |numbers| format!("{} on all cores; {}", numbers[0].words(1, " %"), beyond(numbers[1])),
        )
        .differs("here all cores lose the same share as one"),
    ]
}

fn of_network<'a>(view: &'a View<'a>) -> Vec<Draft<'a>> {
    let tcp = |treatment: &str| view.change("tcp", treatment, "received_bit_per_s");
    // What each stall a second takes, in percent.
    let tenth = |rate: u64| -> Result<Sample, String> {
        let change = tcp(&format!("sender-{rate}"))?;
        Ok(plain(&change.into_iter().map(|(at, change)| (at, -change.exp_m1() * 100.0 / rate as f64)).collect()))
    };
    let receiving = || -> Samples {
        let of = |treatment: &str| view.change("tcp-ring", treatment, "received_bit_per_s");
        let less = both(&of("receiver-2")?, &of("sender-2")?, |receives, sends| receives - sends);
        Ok(vec![logs(&less, Scale::Change), plain(&sent_again_each(view, "tcp-ring", "receiver-2")?)])
    };
    let beside_share = |treatment: &str| -> Result<Sample, String> {
        let loss = view.rise("udp", treatment, "lost_percent")?;
        Ok(plain(&both(&loss, &view.share("udp", treatment)?, |loss, share| loss - share)))
    };
    let short = || -> Samples {
        let of = |treatment: &str| Ok(logs(&tcp(treatment)?, Scale::Change));
        ["receiver-short-10", "receiver-short-100", "receiver-1"].map(of).into_iter().collect()
    };
    vec![
        finding(
            "each long SMI a second takes a tenth of what a TCP sender sends",
            "5.60 to 5.05, 4.43, 3.82, 3.21 GB: 9.8 to 10.7 % each",
            [Rule::About { low: 9.8, high: 10.7 }; 4],
            RATES.map(tenth).into_iter().collect(),
            |numbers| format!("{} % each with 1 to 4 a second", list(numbers)),
        ),
        finding(
            "a TCP receiver loses more than a sender, with packets sent again",
            "4.53, 3.95, 3.32, 2.71 GB; 28,775 to 49,865 sent again",
            [Rule::Below { least: NONE }, Rule::Above { least: NONE }],
            receiving(),
            |numbers| {
                let [less, again] = [numbers[0].words(1, " %"), numbers[1].words(0, "")];
                format!("receiving beside sending, at 2 a second, {less}; {again} more sent again for each stall")
            },
        )
        .differs("a ring of 256 packets stands for the network card's; how much more is lost depends on its size"),
        finding(
            "UDP loss at a receiver is the share of time in SMIs",
            "10.9, 21.5, 32.4, 44.1 %",
            [Rule::Equivalent { margin: NEAR }; 4],
            RECEIVERS.map(beside_share).into_iter().collect(),
            |numbers| format!("loss less the share of time, with 1 to 4 a second: {} points", list(numbers)),
        ),
        finding(
            "short SMIs, 10 and 100 a second, do not show in TCP",
            "no noticeable loss, up to 500 a second",
            [Rule::Equivalent { margin: NEAR }, Rule::Equivalent { margin: NEAR }, Rule::Control],
            short(),
            |numbers| {
                let [ten, hundred, long] = [0, 1, 2].map(|at| numbers[at].words(1, " %"));
                format!("{ten} at 10 a second, {hundred} at 100; a long one a second {long}")
            },
        )
        .differs("2 ms 100 times a second are a fifth of the time here, independent of the network"),
    ]
}

fn of_machines<'a>(view: &'a View<'a>, simulated: &'a Simulated) -> Vec<Draft<'a>> {
    let speed = |treatment: &str| collectives(view, "mpi-2", treatment);
    let between = |more: &Result<Each, String>, less: &Result<Each, String>| -> Result<Sample, String> {
        let (more, less) = (more.as_ref().map_err(Clone::clone)?, less.as_ref().map_err(Clone::clone)?);
        Ok(logs(&both(more, less, |more, less| more - less), Scale::Change))
    };
    let steps = || -> Samples {
        let [two, four, eight] = &simulated.few;
        Ok(vec![between(four, two)?, between(eight, four)?])
    };
    let (above, below) = (Rule::Above { least: NONE }, Rule::Below { least: NONE });
    let coordinated = |numbers: &[Number]| {
        let [value, low, high] = [numbers[0].value, numbers[0].low, numbers[0].high].map(|change| 1.0 + change / 100.0);
        format!("speed x {value:.2} ({low:.2} to {high:.2})")
    };
    let [apart, at_once] = &simulated.many;
    const COORDINATED: &str = "left open by the slides: more testing needed";
    vec![
        finding(
            "MPI loses more with SMIs on all machines than on one",
            "66 % and 96 %",
            [below],
            between(&speed("all"), &speed("one")).map(|sample| vec![sample]),
            |numbers| format!("speed with both instead of one {}", numbers[0].words(1, " %")),
        )
        .differs("66 % is the mean of 2, 4 and 8 machines"),
        finding(
            "the more machines, the more an MPI program loses",
            "90, 61, 47 % with 2, 4, 8",
            [below; 2],
            steps(),
            |numbers| {
                let [four, eight] = [0, 1].map(|at| numbers[at].words(1, " %"));
                format!("speed with 4 instead of 2 {four}, with 8 instead of 4 {eight}")
            },
        )
        .from(Evidence::Simulated)
        .differs("4 and 8 machines take as many cores"),
        finding(
            "runs with SMIs on one of two machines differ more among each other than runs without",
            "they differ by up to 50 %",
            [above],
            spread(view).map(|each| vec![plain(&each)]),
            |numbers| format!("distance from the median, more by {}", numbers[0].words(1, " points")),
        )
        .differs("a machine that does nothing else differs less"),
        finding(
            "SMIs at the same moments instead of apart, 2 machines",
            COORDINATED,
            [Rule::Shown],
            between(&speed("all-at-once"), &speed("all")).map(|sample| vec![sample]),
            coordinated,
        ),
        finding(
            "SMIs at the same moments instead of apart, 64 simulated machines",
            COORDINATED,
            [Rule::Shown],
            between(at_once, apart).map(|sample| vec![sample]),
            coordinated,
        )
        .from(Evidence::Simulated),
    ]
}

/// How much further disturbed runs lie from their median than undisturbed ones do from theirs, in points, by the mean of the
/// collectives.
fn spread(view: &View<'_>) -> Result<Each, String> {
    let mut sum: Option<Each> = None;
    for measure in super::COLLECTIVES {
        let far = view.pairs("mpi-2", "one", measure)?.map(|each| -> Each {
            let logs: Each = each.into_iter().map(|(at, value)| (at, value.ln())).collect();
            let median = crate::effect::median(logs.values().copied().collect());
            logs.into_iter().map(|(at, log)| (at, (log - median).abs())).collect()
        });
        let part = super::COLLECTIVES.len() as f64 / 100.0;
        let more = both(&far[1], &far[0], |with, without| (with - without) / part);
        sum = Some(sum.map_or(more.clone(), |sum| both(&sum, &more, |sum, more| sum + more)));
    }
    sum.ok_or_else(|| "it was not run".into())
}

fn lengths(extras: &[Extra]) -> Draft<'_> {
    let known = || {
        extras.iter().filter_map(|extra| match extra {
            Extra::Length { asked_ns, found } => Some((*asked_ns as f64 / 1e6, found)),
            _ => None,
        })
    };
    let samples = known().map(|(asked, found)| length_of(found, asked)).collect::<Result<Vec<_>, _>>();
    let samples: Samples = samples.and_then(|samples| match samples.is_empty() {
        true => Err("the length was not measured".into()),
        false => Ok(samples.concat()),
    });
    let rules: Vec<Rule> = super::super::Preset::Slides
        .lengths_ns()
        .iter()
        .map(|asked| Rule::Equivalent { margin: LENGTH_OFF * *asked as f64 / 1e6 })
        .collect();
    finding("counting SMIs tells their length", "1 to 3 ms and 100 to 110 ms", rules, samples, move |numbers| {
        let words = numbers
            .iter()
            .zip(known())
            .map(|(number, (asked, _))| format!("{} beside the {asked} ms that are known", number.words(3, " ms")));
        words.collect::<Vec<_>>().join(", ")
    })
    .differs("the stalls here are known")
}

fn drift(extras: &[Extra]) -> Draft<'_> {
    let found = || extras.iter().find_map(|extra| if let Extra::Drift { found } = extra { Some(found) } else { None });
    let samples = || -> Samples {
        let (drift, _) = found().ok_or("it was not measured")?.as_ref().map_err(Clone::clone)?;
        let us = |ns: f64| ns / 1e3;
        let (value, reach) = (us(drift.ns_per_thousand), us((drift.high_ns - drift.low_ns) / 2.0));
        let samples = drift.undisturbed.samples.min(drift.disturbed.samples) as u64;
        let data = Data::Estimate { value, reach, freedom: samples.saturating_sub(2) };
        Ok(vec![Sample { data, scale: Scale::Plain }])
    };
    finding("wall clocks drift apart", "they did", [Rule::Changes], samples(), move |numbers| {
        let clocksource =
            found().and_then(|found| found.as_ref().ok()).map_or("unknown", |(_, source)| source.as_str());
        let drift = numbers[0].words(0, " us");
        format!("{drift} per thousand stalls; the kernel's clock source is {clocksource}")
    })
    .differs("kernels that read a counter lose no time; those that count ticks do")
}

fn list(numbers: &[Number]) -> String {
    numbers.iter().map(|number| format!("{:.1}", number.value)).collect::<Vec<_>>().join(", ")
}
