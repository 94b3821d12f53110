//! The shapes of ICPE'20's figures: what our model has to reproduce of them.

use super::service::Service;
use super::{Arrivals, Mechanism, Path, Pattern, Scene, figure};
use crate::Error;
use crate::tune::{Bins, Choice, Wish, choose};

const SECOND_NS: u64 = 1_000_000_000;

impl Scene {
    /// The scene of the figures unless options say otherwise: bursts of 28 errors a second, two minutes on and two minutes off, for 20
    /// hours at 36 counters of 10 bits, of which one gets most. The paper names neither; the bursts and counters are picked so that its
    /// optimum comes out.
    pub fn paper() -> Scene {
        Scene {
            path: Path {
                mechanism: Mechanism::Polling,
                counter_bits: 10,
                banks: 36,
                hot: 2000,
                duration_ns: 20 * 3600 * SECOND_NS,
                ..Path::example()
            },
            pattern: Pattern::Bursty { per_s: 28.0, on_s: 120.0, off_s: 120.0 },
            seed: 1,
            service: Service { requests_per_s: 50.0, work_ns: 5_000_000, deadline_ns: 100_000_000 },
        }
    }
}

/// Whether a figure of [`Scene::paper`] has the shape that the paper reports, and that shape in words.
///
/// # Errors
/// [`Error::Option`] where no such figure can be drawn.
pub fn shape(number: u32) -> Result<(bool, String), Error> {
    let scene = Scene::paper();
    let drawn = figure(number, &scene)?;
    let series = |name: &str| {
        let all = drawn.diagrams.iter().flat_map(|diagram| &diagram.series);
        let found = all.clone().find(|series| series.name == name).or(all.clone().next());
        found.map(|series| series.points.clone()).unwrap_or_default()
    };
    let ends = |name: &str| {
        let points = series(name);
        [points.first().map_or(0.0, |point| point.1), points.last().map_or(0.0, |point| point.1)]
    };
    Ok(match number {
        4 => {
            let mean = |name: &str| {
                let points = series(name);
                points.iter().map(|point| point.1).sum::<f64>() / points.len().max(1) as f64
            };
            let [smi, cmci, polling] = ["SMI", "CMCI", "polling"].map(mean);
            let words = format!(
                "over all rates {smi:.0} % with SMIs, {cmci:.0} % with interrupts, {polling:.0} % with polling"
            );
            (smi < cmci && cmci <= polling, words)
        }
        6 => {
            let most = |name: &str| series(name).into_iter().map(|point| point.1).fold(0.0, f64::max);
            let (bursts, steady) = (most("these errors"), most("steady ones"));
            (bursts > 1.5 * steady, format!("up to {bursts:.0} a minute, steady ones up to {steady:.0}"))
        }
        8 => {
            let [smi, cmci] = ["SMI, all cores", "CMCI, one core"].map(|name| ends(name)[1]);
            (smi > cmci, format!("{smi:.0} s of all cores, {cmci:.0} s of one core, for 10,000 errors"))
        }
        9..=11 => {
            let [first, last] = ends("");
            let unit = ["ms", "s a day", "%"][number as usize - 9];
            (
                if number == 10 { last < first } else { last > first },
                format!("from {first:.0} {unit} at the shortest interval to {last:.0} {unit} at the longest"),
            )
        }
        _ => {
            let best_s = best_interval(&scene)?.interval_ns.map_or(f64::NAN, |ns| ns as f64 / 1e9);
            (
                (33.0..=38.0).contains(&best_s),
                format!("{best_s:.0} s, with bursts and counters that were picked for it"),
            )
        }
    })
}

/// The best polling interval of a scene, in whole seconds up to ten minutes: it misses no error and stalls least.
///
/// # Errors
/// [`Error::Option`] where the errors are too many.
pub fn best_interval(scene: &Scene) -> Result<Choice, Error> {
    let bins = Bins::new(SECOND_NS, Arrivals::new(&scene.pattern, &scene.path, scene.seed, 0))?;
    let wish = Wish {
        stall_longest_ns: None,
        threshold_per_s: 0.0,
        detect_ns: u64::MAX,
        shortest_ns: SECOND_NS,
        longest_ns: 600 * SECOND_NS,
        any_phase: false,
    };
    choose(&scene.path, &bins, &wish)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::simulate::FIGURES;

    #[test]
    fn every_figure_has_the_shape_that_the_paper_reports() {
        for number in FIGURES {
            let (is_alike, words) = shape(number).unwrap();
            assert!(is_alike && !words.is_empty(), "figure {number}: {words}");
        }
        assert!(shape(5).is_err(), "a figure that cannot be drawn has no shape");
    }
}
