//! Student's t distribution.

/// Beyond so many degrees of freedom it is the normal distribution to a ten-thousandth.
const FREEDOM_MAX: u64 = 10_000;

/// How far from 0 a value of Student's t lies at most in this share of cases; infinite without a degree of freedom.
pub(crate) fn student(share: f64, freedom: u64) -> f64 {
    if freedom == 0 {
        return f64::INFINITY;
    }
    let freedom = freedom.min(FREEDOM_MAX);
    let (mut low, mut high) = (0.0, 1.0);
    while within(high, freedom) < share && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if within(middle, freedom) < share { low = middle } else { high = middle }
    }
    high
}

/// The share of values between -t and t (Abramowitz and Stegun, 26.7.3 and 26.7.4).
fn within(t: f64, freedom: u64) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let mut term = if is_odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    let mut power = if is_odd { 1 } else { 0 };
    while power + 2 <= freedom {
        sum += term;
        term *= cosine * cosine * (power + 1) as f64 / (power + 2) as f64;
        power += 2;
    }
    if is_odd { std::f64::consts::FRAC_2_PI * (angle + sine * sum) } else { sine * sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // Any table of the t distribution, two-sided 5 %.
        for (freedom, table) in [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (7, 2.365), (10, 2.228), (30, 2.042)]
        {
            let found = student(0.95, freedom);
            assert!((found - table).abs() < 0.001, "{freedom}: {found} beside {table}");
        }
        // Two-sided 1 % and 0.2 %.
        for (share, freedom, table) in [(0.99, 4, 4.604), (0.998, 4, 7.173), (0.99, 9, 3.250), (0.998, 7, 4.785)] {
            let found = student(share, freedom);
            assert!((found - table).abs() < 0.001, "{share}, {freedom}: {found} beside {table}");
        }
        assert!((student(0.95, 1_000_000) - 1.96).abs() < 0.001);
        assert_eq!(student(0.95, 0), f64::INFINITY);
    }
}
