//! ICPE'20: what it costs to report corrected memory errors through SMIs, seen from the services, and by whom it is seen.

use super::row::View;
use super::{Extra, Row, Setting, Treatment, Verdict, treatment};
use crate::disturbance::Spec;

const MS: u64 = 1_000_000;
/// Stalls of the service's core each second; the paper says "hundreds of ms".
const LENGTHS_MS: [u64; 3] = [100, 200, 400];
/// Sporadic stalls of all cores.
const SPORADIC_MS: (u64, u64) = (200, 6_000);

/// The workloads, each with what is done to it.
pub(super) fn cases(setting: &Setting) -> Vec<(&'static str, Vec<Treatment>)> {
    let of_service = |ms: &u64| {
        let spec = Spec { cores: setting.cores[..1].to_vec(), ..Spec::freeze(ms * MS, 1_000 * MS) };
        treatment(&format!("{ms}ms"), spec)
    };
    let sporadic = Spec::freeze(SPORADIC_MS.0 * MS, SPORADIC_MS.1 * MS);
    vec![("deadline", LENGTHS_MS.iter().map(of_service).collect()), ("unseen", vec![treatment("sporadic", sporadic)])]
}

fn row(
    table: &'static str,
    name: &str,
    published: &str,
    ours: String,
    differs: &'static str,
    verdict: Option<Verdict>,
) -> Row {
    let (row, published) = (name.to_owned(), published.to_owned());
    Row { table, row, published, ours, value: None, interval: None, differs, verdict }
}

pub(super) fn rows(view: &View<'_>, extras: &[Extra]) -> Vec<Row> {
    let mut rows = service(view);
    rows.extend(unseen(view));
    rows.extend(extras.iter().filter_map(figure));
    rows
}

fn service(view: &View<'_>) -> Vec<Row> {
    const DIFFERS: &str = "a service of one core, 500 requests a second, 50 ms each at most; a cache of many cores has other requests and \
                           deadlines";
    let mut rows = Vec::new();
    let mut late = Vec::new();
    for ms in LENGTHS_MS {
        let name = format!("{ms} ms a second: requests that are not answered in time");
        let mut one = row("Request efficiency", &name, "no number known to us", String::new(), DIFFERS, None);
        match view.rise("deadline", &format!("{ms}ms"), "late_percent") {
            Ok((rise, [without, with])) => {
                one.ours = format!("{}; {without:.1} % without, {with:.1} % with", rise.words(1, " points"));
                (one.value, one.interval) = (Some(rise.value), Some([rise.low, rise.high]));
                late.push((ms as f64, rise.value));
            }
            Err(why) => (one.ours, one.verdict) = (why, Some(Verdict::CannotBeTested)),
        }
        rows.push(one);
    }
    let published = "a third, with SMIs of hundreds of ms";
    let (ours, verdict) = if late.len() < LENGTHS_MS.len() {
        ("the service was not run".to_owned(), Verdict::CannotBeTested)
    } else {
        match length_of(100.0 / 3.0, &late) {
            Some(ms) => (format!("with stalls of about {ms:.0} ms a second"), Verdict::Reproduced),
            None => ("with none of these lengths".to_owned(), Verdict::NotReproduced),
        }
    };
    rows.push(row("Request efficiency", "a third of the requests time out", published, ours, DIFFERS, Some(verdict)));
    rows
}

/// The length at which so many requests are late, on straight lines between the lengths that were run, in ascending order.
fn length_of(percent: f64, late: &[(f64, f64)]) -> Option<f64> {
    late.windows(2).find_map(|pair| {
        let [(from_ms, from), (to_ms, to)] = [pair[0], pair[1]];
        let is_between = from <= percent && percent <= to && from < to;
        is_between.then(|| from_ms + (to_ms - from_ms) * (percent - from) / (to - from))
    })
}

fn unseen(view: &View<'_>) -> Vec<Row> {
    const TABLE: &str = "Figures 4 and 5: who sees sporadic stalls";
    const DIFFERS: &str = "Perl's own work stands for perlbench; the stalls are 200 ms every 6 s, 3.3 % of the time";
    let cannot = |name: &str, published: &str, why: String| {
        row(TABLE, name, published, why, DIFFERS, Some(Verdict::CannotBeTested))
    };
    let benchmark = match view.of("unseen", "sporadic", "rate") {
        Err(why) => cannot("a long benchmark does not see them", "it does not", why),
        Ok((treated, measured)) => {
            let spread = view.spread("unseen").unwrap_or(1.0);
            let effect = measured.effect.map(|effect| (effect.ratio, effect.low, effect.high));
            let (ratio, low, high) = effect.unwrap_or((f64::NAN, f64::NAN, f64::NAN));
            // What a single result, without one to compare it with, can tell: nothing that lies within its own spread.
            let is_unseen = (1.0 - ratio).abs() < f64::max(spread - 1.0, 0.05);
            let ours = format!(
                "its result is {:.1} % lower ({:.1} to {:.1}), stalled {:.1} % of the time; undisturbed ones lie {:.1} % apart",
                (1.0 - ratio) * 100.0,
                (1.0 - high) * 100.0,
                (1.0 - low) * 100.0,
                treated.injected_share * 100.0,
                (spread - 1.0) * 100.0
            );
            let mut one = row(
                TABLE,
                "a long benchmark does not see them",
                "it does not",
                ours,
                DIFFERS,
                Some(Verdict::of(is_unseen)),
            );
            (one.value, one.interval) = (Some(ratio), Some([low, high]));
            one
        }
    };
    let ledger = match view.rise("unseen", "sporadic", "ledger_gaps") {
        Err(why) => cannot("a fine-grained detector sees each", "it does", why),
        Ok((gaps, [without, with])) => {
            let ours =
                format!("surefoot stall report: {with:.0} gaps of 20 ms or more in a run, {without:.0} in one without");
            let mut one = row(
                TABLE,
                "a fine-grained detector sees each",
                "it does",
                ours,
                DIFFERS,
                Some(Verdict::of(gaps.low > 0.0)),
            );
            (one.value, one.interval) = (Some(gaps.value), Some([gaps.low, gaps.high]));
            one
        }
    };
    vec![benchmark, ledger]
}

fn figure(extra: &Extra) -> Option<Row> {
    const DIFFERS: &str =
        "a model: the paper gives neither its costs nor its errors, so shapes are compared and not values";
    let Extra::Figure { number, found, has_shape } = extra else { return None };
    let (name, published) = match number {
        4 => ("requests in time over errors a second", "SMIs cost more than interrupts, and these more than polling"),
        6 => ("errors over time", "they come in bursts"),
        8 => ("stall over errors", "SMIs stop more than interrupts do"),
        9 => ("longest stall over the polling interval", "it grows; 1,200 ms on one core at worst"),
        10 => ("stall over the polling interval", "it falls"),
        11 => ("missed errors over the polling interval", "they rise from some interval on"),
        12 => ("the best polling interval", "33 to 38 s"),
        _ => return None,
    };
    let verdict = match found {
        Ok(_) => has_shape.map(Verdict::of),
        Err(_) => Some(Verdict::CannotBeTested),
    };
    let ours = found.clone().unwrap_or_else(|why| why);
    Some(row("Figures reproduced by a model", &format!("figure {number}: {name}"), published, ours, DIFFERS, verdict))
}
