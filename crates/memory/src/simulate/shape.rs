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

/// What a figure shows of what the paper says of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// In words.
    pub words: String,
    /// For each part of what the paper says: differences along the figure that are above 0 if it is so. None where it is fitted.
    pub above_zero: Vec<Vec<f64>>,
    /// The errors and counters of [`Scene::paper`] were picked so that it comes out.
    pub is_fitted: bool,
}

/// The shape of a figure of [`Scene::paper`].
///
/// # Errors
/// [`Error::Option`] where no such figure can be drawn.
pub fn shape(number: u32) -> Result<Shape, Error> {
    let scene = Scene::paper();
    let drawn = figure(number, &scene)?;
    let series = |name: &str| -> Vec<f64> {
        let all = drawn.diagrams.iter().flat_map(|diagram| &diagram.series);
        let found = all.clone().find(|series| series.name == name).or(all.clone().next());
        found.map(|series| series.points.iter().map(|point| point.1).collect()).unwrap_or_default()
    };
    let between = |more: &[f64], less: &[f64]| more.iter().zip(less).map(|(more, less)| more - less).collect();
    let fitted = |words: String| Shape { words, above_zero: Vec::new(), is_fitted: true };
    let shown = |words: String, above_zero: Vec<Vec<f64>>| Shape { words, above_zero, is_fitted: false };
    Ok(match number {
        4 => {
            let all = ["SMI", "CMCI", "polling"].map(series);
            let [smi, cmci, polling] =
                all.each_ref().map(|points| points.iter().sum::<f64>() / points.len().max(1) as f64);
            let words = format!(
                "over all rates {smi:.0} % with SMIs, {cmci:.0} % with interrupts, {polling:.0} % with polling"
            );
            shown(words, vec![between(&all[1], &all[0]), between(&all[2], &all[1])])
        }
        6 => {
            let [bursts, steady] =
                ["these errors", "steady ones"].map(|name| series(name).into_iter().fold(0.0, f64::max));
            fitted(format!("up to {bursts:.0} a minute, steady ones up to {steady:.0}, with bursts that were picked"))
        }
        8 => {
            let [smi, cmci] = ["SMI, all cores", "CMCI, one core"].map(series);
            let last = |points: &[f64]| points.last().copied().unwrap_or(0.0);
            let words =
                format!("{:.0} s of all cores, {:.0} s of one core, for 10,000 errors", last(&smi), last(&cmci));
            shown(words, vec![between(&smi, &cmci)])
        }
        9..=11 => {
            let points = series("");
            let [first, last] = [points.first(), points.last()].map(|point| point.copied().unwrap_or(0.0));
            let unit = ["ms", "s a day", "%"][number as usize - 9];
            let words = format!("from {first:.0} {unit} at the shortest interval to {last:.0} {unit} at the longest");
            // Each of the later half beside the one that is half of all before it (Cox and Stuart's test of a trend).
            let (early, late) = (&points[..points.len() / 2], &points[points.len().div_ceil(2)..]);
            shown(words, vec![if number == 10 { between(early, late) } else { between(late, early) }])
        }
        _ => {
            let best_s = best_interval(&scene)?.interval_ns.map_or(f64::NAN, |ns| ns as f64 / 1e9);
            fitted(format!("{best_s:.0} s, with bursts and counters that were picked for it"))
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
    fn figures_show_what_the_paper_says_or_say_that_they_were_fitted() {
        for number in FIGURES {
            let found = shape(number).unwrap();
            println!("{number} {found:?}");
            assert!(
                !found.words.is_empty() && found.is_fitted == found.above_zero.is_empty(),
                "figure {number}: {found:?}"
            );
            assert_eq!(found.is_fitted, matches!(number, 6 | 12));
            for differences in found.above_zero {
                let above = differences.iter().filter(|difference| **difference > 0.0).count();
                let below = differences.iter().filter(|difference| **difference < 0.0).count();
                // Where errors are few, reports by SMI cost this service no more than others do.
                assert!(above > 4 * below || number == 4, "figure {number}: {differences:?}");
            }
        }
        assert!(shape(5).is_err(), "a figure that cannot be drawn has no shape");
    }
}
