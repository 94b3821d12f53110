//! Means of two, and how many of them an interval leaves out.

/// The means of every two values, each with itself as well, ascending.
pub(super) fn means_of_two(values: &[f64]) -> Vec<f64> {
    let with =
        |(place, value): (usize, &f64)| values[place..].iter().map(|other| (value + other) / 2.0).collect::<Vec<_>>();
    let mut means: Vec<f64> = values.iter().enumerate().flat_map(with).collect();
    means.sort_by(f64::total_cmp);
    means
}

/// Of values in ascending order; there is one at least.
pub(super) fn median(sorted: &[f64]) -> f64 {
    let [low, high] = [sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]];
    let sum = low + high;
    // The sum of two large ones is infinite, and half of a very small one is 0.
    if sum.is_finite() { sum / 2.0 } else { low / 2.0 + high / 2.0 }
}

/// How many of the means an interval of this confidence leaves out at each end, and the confidence that it really has: with few
/// values none is left out, and it has less.
pub(super) fn outside(values: usize, confidence: f64) -> (usize, f64) {
    let chances = rank_sums(values);
    let (mut below, mut outside, mut missed) = (chances[0], 0, chances[0]);
    for (sum, chance) in chances.iter().enumerate().skip(1) {
        below += chance;
        if 2.0 * below > 1.0 - confidence {
            break;
        }
        (outside, missed) = (sum, below);
    }
    (outside, 1.0 - 2.0 * missed)
}

/// The chance of each sum of the ranks from 1 on, of which each counts or not, as a coin falls.
fn rank_sums(values: usize) -> Vec<f64> {
    let mut chances = vec![1.0];
    for rank in 1..=values {
        let mut next = vec![0.0; chances.len() + rank];
        for (sum, chance) in chances.iter().enumerate() {
            next[sum] += chance / 2.0;
            next[sum + rank] += chance / 2.0;
        }
        chances = next;
    }
    chances
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_distribution_is_that_of_the_tables() {
        // Wilcoxon's table for two-sided 5 %: the largest sum that is still outside.
        for (values, sum) in [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (15, 25), (20, 52), (25, 89)] {
            let (outside, confidence) = outside(values, 0.95);
            assert_eq!(outside, sum, "{values}");
            assert!((0.95..0.985).contains(&confidence), "{values}: {confidence}");
        }
        assert_eq!(outside(5, 0.95), (0, 0.9375));
        assert!((rank_sums(200).iter().sum::<f64>() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn means_of_two_hold_each_value_with_itself() {
        assert_eq!(means_of_two(&[3.0, 1.0]), [1.0, 2.0, 3.0]);
        assert_eq!((median(&[1.0, 2.0, 3.0]), median(&[1.0, 2.0])), (2.0, 1.5));
    }
}
