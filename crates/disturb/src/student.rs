//! Quantiles of Student's t distribution.

/// The 97.5 % quantile of Student's t: exact for one and two degrees of freedom, to a thousandth by a series beyond.
pub(crate) fn student_975(freedom: u64) -> f64 {
    // The 97.5 % quantile of the normal distribution.
    const Z: f64 = 1.959_963_984_540_054;
    match freedom {
        0 => f64::INFINITY,
        1 => (std::f64::consts::PI * 0.475).tan(),
        2 => 0.95 * (2.0 / (4.0 * 0.975 * 0.025f64)).sqrt(),
        _ => {
            // Cornish and Fisher's expansion (Abramowitz and Stegun, 26.7.5).
            let v = freedom as f64;
            let [z3, z5, z7, z9] = [Z.powi(3), Z.powi(5), Z.powi(7), Z.powi(9)];
            Z + (z3 + Z) / (4.0 * v)
                + (5.0 * z5 + 16.0 * z3 + 3.0 * Z) / (96.0 * v.powi(2))
                + (3.0 * z7 + 19.0 * z5 + 17.0 * z3 - 15.0 * Z) / (384.0 * v.powi(3))
                + (79.0 * z9 + 776.0 * z7 + 1482.0 * z5 - 1920.0 * z3 - 945.0 * Z) / (92_160.0 * v.powi(4))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // Any table of the t distribution, two-sided 5 %.
        for (freedom, table) in [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (7, 2.365), (10, 2.228), (30, 2.042)]
        {
            let found = student_975(freedom);
            assert!((found - table).abs() < 0.01, "{freedom}: {found} beside {table}");
        }
        assert!((student_975(1_000_000) - 1.96).abs() < 0.001);
    }
}
