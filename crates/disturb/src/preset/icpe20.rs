//! ICPE'20: what it costs to report corrected memory errors through SMIs, seen from the services, and by whom it is seen.

use super::row::{Draft, Each, View, both, logs, plain};
use super::verdict::{Data, Evidence, Rule, Sample, Scale};
use super::{Extra, Setting, Treatment, treatment};
use crate::disturbance::Spec;

const MS: u64 = 1_000_000;
/// Stalls of the service's core each second; the paper says "hundreds of ms".
const LENGTHS_MS: [u64; 3] = [100, 200, 400];
/// Sporadic stalls of all cores.
const SPORADIC_MS: (u64, u64) = (200, 6_000);
/// A change of a benchmark's result that "does not see" allows, in percent; the paper says "within error bounds" and prints none.
const UNSEEN: f64 = 5.0;

/// The workloads, each with what is done to it.
pub(super) fn cases(setting: &Setting) -> Vec<(&'static str, Vec<Treatment>)> {
    let of_service = |ms: &u64| {
        let spec = Spec { cores: setting.cores[..1].to_vec(), ..Spec::freeze(ms * MS, 1_000 * MS) };
        treatment(&format!("{ms}ms"), spec)
    };
    let sporadic = Spec::freeze(SPORADIC_MS.0 * MS, SPORADIC_MS.1 * MS);
    vec![("deadline", LENGTHS_MS.iter().map(of_service).collect()), ("unseen", vec![treatment("sporadic", sporadic)])]
}

pub(super) fn rows<'a>(view: &'a View<'a>, extras: &'a [Extra]) -> Vec<Draft<'a>> {
    let mut rows = service(view);
    rows.extend(unseen(view));
    rows.extend(extras.iter().filter_map(figure));
    rows
}

fn service<'a>(view: &'a View<'a>) -> Vec<Draft<'a>> {
    const TABLE: &str = "Request efficiency";
    const DIFFERS: &str = "a service of one core, 500 requests a second, 50 ms each at most; a cache of many cores has other requests and \
                           deadlines";
    const THIRD: f64 = 100.0 / 3.0;
    let late = |ms: u64| view.rise("deadline", &format!("{ms}ms"), "late_percent");
    let mut rows = Vec::new();
    for ms in LENGTHS_MS {
        let name = format!("{ms} ms a second: requests that are not answered in time");
        let samples = late(ms).map(|rise| vec![plain(&rise)]);
        let [without, with] = view.medians("deadline", &format!("{ms}ms"), "late_percent");
        rows.push(
            Draft::new(TABLE, name, "no number known to us", [Rule::Shown], samples, move |numbers| {
                format!("{}; {without:.1} % without, {with:.1} % with", numbers[0].words(1, " points"))
            })
            .differs(DIFFERS),
        );
    }
    let [shortest, .., longest] = LENGTHS_MS;
    let beside =
        |ms: u64| -> Result<Each, String> { Ok(late(ms)?.into_iter().map(|(at, rise)| (at, rise - THIRD)).collect()) };
    let samples = || -> Result<Vec<Sample>, String> { Ok(vec![plain(&beside(shortest)?), plain(&beside(longest)?)]) };
    rows.push(
        Draft::new(
            TABLE,
            format!("a third of the requests time out with stalls of some length from {shortest} to {longest} ms"),
            "a third, with SMIs of hundreds of ms",
            [Rule::Below { least: 1.0 }, Rule::Above { least: 1.0 }],
            samples(),
            move |numbers| {
                let [short, long] = [numbers[0].value + THIRD, numbers[1].value + THIRD];
                format!("{short:.1} points more with {shortest} ms a second, {long:.1} with {longest} ms")
            },
        )
        .of_several()
        .differs(DIFFERS),
    );
    rows
}

fn unseen<'a>(view: &'a View<'a>) -> Vec<Draft<'a>> {
    const TABLE: &str = "Figures 4 and 5: who sees sporadic stalls";
    const DIFFERS: &str = "Perl's own work stands for perlbench; the stalls are 200 ms every 6 s, 3.3 % of the time";
    let seen = || view.rise("unseen", "sporadic", "ledger_gaps");
    let benchmark = || -> Result<Vec<Sample>, String> {
        Ok(vec![logs(&view.change("unseen", "sporadic", "rate")?, Scale::Change), plain(&seen()?)])
    };
    let each = || -> Result<Vec<Sample>, String> {
        let counts = both(&seen()?, &view.stalls("unseen", "sporadic")?, |counted, _| counted);
        let there = view.stalls("unseen", "sporadic")?;
        let pairs = counts.into_iter().filter_map(|(at, counted)| Some((counted, *there.get(&at)?))).collect();
        Ok(vec![Sample { data: Data::Counts(pairs), scale: Scale::Plain }])
    };
    let [without, with] = view.medians("unseen", "sporadic", "ledger_gaps");
    vec![
        Draft::new(
            TABLE,
            "a long benchmark does not see stalls that a fine-grained detector sees",
            format!("it does not, within error bounds that are not printed; here {UNSEEN} %"),
            [Rule::Equivalent { margin: UNSEEN }, Rule::Control],
            benchmark(),
            |numbers| {
                let stalled = view.stalled("unseen", "sporadic");
                format!("its result changes by {}{stalled}", numbers[0].words(1, " %"))
            },
        )
        .differs(DIFFERS),
        Draft::new(TABLE, "a fine-grained detector sees each", "it does", [Rule::Each], each(), move |numbers| {
            format!(
                "surefoot stall report: {:.1} % of the stalls; {with:.0} gaps of 20 ms or more in a run, {without:.0} in one without",
                numbers[0].value
            )
        })
        .differs(DIFFERS),
    ]
}

fn figure(extra: &Extra) -> Option<Draft<'_>> {
    const TABLE: &str = "Figures of a model";
    const DIFFERS: &str =
        "a model: the paper gives neither its costs nor its errors, so shapes are compared and not values";
    /// Of the model's differences, what is none.
    const NONE: f64 = 0.0;
    let Extra::Figure { number, found } = extra else { return None };
    // What each says, and in how many parts.
    let (name, published, parts) = match number {
        4 => {
            ("requests in time over errors a second", "SMIs cost more than interrupts, and these more than polling", 2)
        }
        6 => ("errors over time", "they come in bursts", 1),
        8 => ("stall over errors", "SMIs stop more than interrupts do", 1),
        9 => ("longest stall over the polling interval", "it grows; 1,200 ms on one core at worst", 1),
        10 => ("stall over the polling interval", "it falls", 1),
        11 => ("missed errors over the polling interval", "they rise from some interval on", 1),
        12 => ("the best polling interval", "33 to 38 s", 1),
        _ => return None,
    };
    let is_fitted = found.as_ref().is_ok_and(|drawn| drawn.is_fitted);
    let sample = |values: &Vec<f64>| Sample { data: Data::Runs(values.clone()), scale: Scale::Plain };
    let samples = match found {
        Ok(drawn) if drawn.is_fitted => Ok(Vec::new()),
        Ok(drawn) => Ok(drawn.above_zero.iter().map(sample).collect()),
        Err(why) => Err(why.clone()),
    };
    let rules = if is_fitted { Vec::new() } else { vec![Rule::Above { least: NONE }; parts] };
    let words = |_: &[_]| found.as_ref().map_or_else(Clone::clone, |drawn| drawn.words.clone());
    let draft = Draft::new(TABLE, format!("figure {number}: {name}"), published, rules, samples, words);
    let evidence = if is_fitted { Evidence::Fitted } else { Evidence::Simulated };
    Some(draft.of_several().from(evidence).differs(DIFFERS))
}
