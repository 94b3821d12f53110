//! Numbers, shares, sizes and ages as options give them.

/// Beyond this nothing is a size or a time any more, and sums stay finite.
pub const NUMBER_MAX: f64 = 1e21;

/// A number above 0.
///
/// # Errors
/// What is wrong with the text, and how to write it.
pub fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    match number > 0.0 && number <= NUMBER_MAX {
        true => Ok(number),
        false => Err(format!("'{text}' is not above 0 and up to {NUMBER_MAX:e}")),
    }
}

/// As [`positive`]; infinite for `none`.
///
/// # Errors
/// What is wrong with the text, and how to write it.
pub fn positive_or_none(text: &str) -> Result<f64, String> {
    if text == "none" { Ok(f64::INFINITY) } else { positive(text) }
}

/// A number from 0 to 1.
///
/// # Errors
/// What is wrong with the text, and how to write it.
pub fn share(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    if (0.0..=1.0).contains(&number) { Ok(number) } else { Err(format!("'{text}' is outside 0 to 1")) }
}

/// A whole number from 1 on.
///
/// # Errors
/// What is wrong with the text, and how to write it.
pub fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&number| number > 0).ok_or_else(|| format!("'{text}' is not a number from 1 on"))
}

/// Reads `90s`, `15min`, `12h`, `30d`, as seconds.
///
/// # Errors
/// What is wrong with the text, and how to write it.
pub fn age(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 4] = [("min", 60.0), ("s", 1.0), ("h", 3_600.0), ("d", 86_400.0)];
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (number, factor) =
        unit.ok_or_else(|| format!("'{text}' has no unit; write an age such as 90s, 15min, 12h or 30d"))?;
    Ok(positive(number)? * factor)
}

/// As [`parse_bytes`], and `0`.
///
/// # Errors
/// What is wrong with the text, and how to write it.
pub fn bytes_or_none(text: &str) -> Result<f64, String> {
    if text == "0" { Ok(0.0) } else { parse_bytes(text) }
}

/// Reads `500`, `64e9`, `64GB`, `8GiB`, `14.6PB`.
///
/// # Errors
/// What is wrong with the text, and how to write it.
pub fn parse_bytes(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 12] = [
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
        ("PiB", 1_125_899_906_842_624.0),
        ("kB", 1e3),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
        ("PB", 1e15),
        ("B", 1.0),
    ];
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
    let (number, factor) = unit.unwrap_or((text, &1.0));
    let form = "write bytes or a number and a unit, such as 64GB, 8GiB or 14.6PB";
    let number = number.trim_end();
    let bytes = positive(number).map_err(|_| format!("'{text}' is not a size; {form}"))? * factor;
    if bytes <= NUMBER_MAX { Ok(bytes) } else { Err(format!("'{text}' is more than can be planned; {form}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in
            [("500", 500.0), ("64e9", 64e9), ("64GB", 64e9), ("1.5 MiB", 1_572_864.0), ("14.6PB", 14.6e15)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes));
        }
        for text in ["", "GB", "-1", "0", "nan", "inf", "1e300", "1e20TB", "5XB", "5 G"] {
            assert!(parse_bytes(text).expect_err(text).contains("such as 64GB"), "{text}");
        }
        assert_eq!(
            (age("90s"), age("15min"), age("12h"), age("30d")),
            (Ok(90.0), Ok(900.0), Ok(43_200.0), Ok(2_592_000.0))
        );
        assert!(age("30").is_err() && age("-1d").is_err() && age("d").is_err() && at_least_one("0").is_err());
        assert!(positive("0").is_err() && share("1.1").is_err() && share("0.3").is_ok() && bytes_or_none("0").is_ok());
    }
}
