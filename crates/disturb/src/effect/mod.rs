//! What a disturbance does to a number: how many times as large it is disturbed as undisturbed, with an interval.
//!
//! Runs come in pairs, one undisturbed and one disturbed, one shortly after the other, so that what changes slowly on a machine
//! is in both. From each pair comes the logarithm of its ratio; the estimate is the Hodges-Lehmann estimator over the pairs,
//! the median of the means of every two of them, and the interval that of Wilcoxon's signed-rank test, from its exact
//! distribution (Hollander and Wolfe, Nonparametric Statistical Methods, chapter 3). It asks for no normal distribution, and one
//! run that went wrong moves it little.

mod ranks;

/// Pairs at least: of one nothing can be said.
pub const PAIRS_MIN: usize = 2;
/// Pairs at most.
pub const PAIRS_MAX: usize = 200;
/// How often the interval is to hold the truth.
const CONFIDENCE: f64 = 0.95;
/// Of the half width of an interval of 95 %: a true effect so large is shown by four of five experiments like this one, if the
/// estimate is spread as a normal distribution is: (1.960 + 0.842) / 1.960.
const DETECTABLE: f64 = 1.43;
/// Of the quartiles' distance: what lies further outside is an outlier (Tukey).
const FENCE: f64 = 1.5;
/// Of fewer values no quartiles are taken.
const FENCED_MIN: usize = 4;

/// What the pairs come to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// Disturbed over undisturbed.
    pub ratio: f64,
    /// Where the true ratio lies.
    pub low: f64,
    /// Where the true ratio lies.
    pub high: f64,
    /// How often an interval made like this holds the truth: below 0.95 where there are too few pairs.
    pub confidence: f64,
    /// The interval excludes 1.
    pub is_shown: bool,
    /// The least ratio above 1 that four of five experiments like this one would show; its reciprocal below 1.
    pub detectable: f64,
}

impl Effect {
    /// The effect that these pairs of (undisturbed, disturbed) show; all numbers are above 0.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Effect> {
        if !(PAIRS_MIN..=PAIRS_MAX).contains(&pairs.len()) {
            return None;
        }
        let logs: Vec<f64> = pairs.iter().map(|(undisturbed, disturbed)| (disturbed / undisturbed).ln()).collect();
        let Shift { estimate: ratio, low, high, confidence, is_shown } = Shift::of(&logs)?;
        let detectable = ((high - low) / 2.0 * DETECTABLE).exp();
        Some(Effect { ratio: ratio.exp(), low: low.exp(), high: high.exp(), confidence, is_shown, detectable })
    }
}

/// By how much values lie beside 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The Hodges-Lehmann estimate.
    pub estimate: f64,
    /// Where the truth lies.
    pub low: f64,
    /// Where the truth lies.
    pub high: f64,
    /// How often an interval made like this holds the truth.
    pub confidence: f64,
    /// The interval does not hold 0.
    pub is_shown: bool,
}

impl Shift {
    /// That of these values, each a difference between the two runs of a pair.
    pub fn of(differences: &[f64]) -> Option<Shift> {
        Shift::at(differences, CONFIDENCE)
    }

    /// The same with an interval of another confidence.
    pub fn at(differences: &[f64], confidence: f64) -> Option<Shift> {
        if !(PAIRS_MIN..=PAIRS_MAX).contains(&differences.len()) {
            return None;
        }
        let means = ranks::means_of_two(differences);
        let (outside, confidence) = ranks::outside(differences.len(), confidence);
        let (low, high) = (means[outside], means[means.len() - 1 - outside]);
        Some(Shift { estimate: ranks::median(&means), low, high, confidence, is_shown: low > 0.0 || high < 0.0 })
    }
}

/// The median; NaN of none.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    if values.is_empty() { f64::NAN } else { ranks::median(&values) }
}

/// Which of these values lie far from the others; none of a few.
pub fn outliers(values: &[f64]) -> Vec<bool> {
    if values.len() < FENCED_MIN {
        return vec![false; values.len()];
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let [low, high] = [0.25, 0.75].map(|part| {
        let place = part * (sorted.len() - 1) as f64;
        let (before, after) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        before + (after - before) * place.fract()
    });
    let reach = FENCE * (high - low);
    values.iter().map(|value| *value < low - reach || *value > high + reach).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_random::Random;

    /// About normal: the sum of twelve even numbers.
    fn noise(random: &mut Random) -> f64 {
        (0..12).map(|_| random.below(1 << 32) as f64 / (1u64 << 32) as f64).sum::<f64>() - 6.0
    }

    fn pairs(count: usize, effect: f64, spread: f64, random: &mut Random) -> Vec<(f64, f64)> {
        let value = |times: f64, random: &mut Random| 100.0 * times * (spread * noise(random)).exp();
        (0..count).map(|_| (value(1.0, random), value(effect, random))).collect()
    }

    #[test]
    fn a_known_effect_is_found_and_its_interval_holds_it_as_often_as_it_says() {
        let mut random = Random::new(1);
        for (count, effect) in [(6, 1.117), (10, 0.9), (25, 1.02)] {
            let found: Vec<Effect> =
                (0..2_000).filter_map(|_| Effect::of(&pairs(count, effect, 0.05, &mut random))).collect();
            assert_eq!(found.len(), 2_000);
            let holds =
                found.iter().filter(|found| found.low <= effect && effect <= found.high).count() as f64 / 2_000.0;
            let said = found[0].confidence;
            assert!(said >= 0.95 && (holds - said).abs() < 0.02, "{count}: says {said}, holds {holds}");
            let mean = found.iter().map(|found| found.ratio).sum::<f64>() / 2_000.0;
            assert!((mean / effect - 1.0).abs() < 0.01, "{mean} of {effect}");
        }
    }

    #[test]
    fn no_effect_is_shown_where_there_is_none_and_the_least_that_would_be_is_told() {
        let mut random = Random::new(2);
        let shown = |effect: f64, random: &mut Random| {
            (0..1_000).filter(|_| Effect::of(&pairs(12, effect, 0.05, random)).unwrap().is_shown).count()
        };
        assert!(shown(1.0, &mut random) < 80);
        let mut typical: Vec<f64> =
            (0..1_000).map(|_| Effect::of(&pairs(12, 1.0, 0.05, &mut random)).unwrap().detectable).collect();
        typical.sort_by(f64::total_cmp);
        let of_such = shown(typical[500], &mut random);
        assert!((700..950).contains(&of_such), "an effect of {} is shown {of_such} times of 1000", typical[500]);
    }

    #[test]
    fn one_run_that_went_wrong_moves_little_and_is_an_outlier() {
        let mut random = Random::new(3);
        let mut found = pairs(20, 1.1, 0.01, &mut random);
        let before = Effect::of(&found).unwrap();
        found[7].1 *= 50.0;
        let after = Effect::of(&found).unwrap();
        assert!((after.ratio / before.ratio - 1.0).abs() < 0.01, "{before:?} {after:?}");
        let disturbed: Vec<f64> = found.iter().map(|pair| pair.1).collect();
        assert!(outliers(&disturbed)[7]);
        assert_eq!(outliers(&[1.0, 1.0, 100.0]), [false; 3]);
        assert_eq!(outliers(&[1.0, 1.1, 0.9, 1.0, 9.0]), [false, false, false, false, true]);
    }

    #[test]
    fn few_pairs_say_how_little_they_know() {
        assert_eq!(Effect::of(&[(1.0, 1.1)]), None);
        let found = Effect::of(&[(1.0, 1.1), (1.0, 1.2), (1.0, 1.3)]).unwrap();
        assert_eq!((found.low, found.high, found.confidence), (1.1, 1.3, 0.75));
        // Between 1.2 and the middle of the outer two, on a scale of logarithms.
        let middle = ((1.1_f64 * 1.3).sqrt() * 1.2).sqrt();
        assert!((found.ratio - middle).abs() < 1e-12, "{found:?}");
        let five = Effect::of(&[(1.0, 1.1); 5]).unwrap();
        assert!(five.confidence > 0.93 && five.confidence < 0.94);
    }
}
