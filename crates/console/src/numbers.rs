//! Numbers, shares, sizes and ages as options give them.

pub use surefoot_model::units::{NUMBER_MAX, parse_bytes};

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

/// As [`parse_bytes`], and `0`.
///
/// # Errors
/// What is wrong with the text, and how to write it.
pub fn bytes_or_none(text: &str) -> Result<f64, String> {
    if text == "0" { Ok(0.0) } else { parse_bytes(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_shares_stay_within_their_bounds() {
        assert!(at_least_one("0").is_err());
        assert!(positive("0").is_err() && share("1.1").is_err() && share("0.3").is_ok() && bytes_or_none("0").is_ok());
    }
}
