//! Numbers in texts that others wrote.
//!
//! `str::parse` takes `+0`, and for floating point `inf` and `nan`; the kernel, firmware and other programs write none of these, so
//! that such a text is a damaged or forged one and no number.

/// Reads numbers from text strictly: the whole text must be the number, in ASCII digits.
///
/// ```
/// use surefoot_model::Digits;
/// assert_eq!("17".digits(), Some(17u32));
/// for text in ["", "+17", "-17", " 17", "17 ", "0x11", "1e1", "٣", "4294967296"] {
///     assert_eq!(text.digits::<u32>(), None, "{text}");
/// }
/// assert_eq!(("-1".signed_digits::<i64>(), "+1".signed_digits::<i64>()), (Some(-1), None));
/// assert_eq!(("fF".hex_digits::<u8>(), "100".hex_digits::<u8>(), "0x1".hex_digits::<u8>()), (Some(255), None, None));
/// assert_eq!(("0.25".real(), "1e3".real(), "inf".real(), "nan".real()), (Some(0.25), Some(1000.0), None, None));
/// ```
pub trait Digits {
    /// Decimal digits alone; `None` also for a number that the type does not hold.
    fn digits<T: TryFrom<u64>>(&self) -> Option<T>;
    /// Decimal digits, with a minus sign before them or not.
    fn signed_digits<T: TryFrom<i64>>(&self) -> Option<T>;
    /// Hexadecimal digits without a prefix.
    fn hex_digits<T: TryFrom<u64>>(&self) -> Option<T>;
    /// A finite number: digits with a minus sign, a fraction and an exponent or without.
    fn real(&self) -> Option<f64>;
}

impl Digits for str {
    fn digits<T: TryFrom<u64>>(&self) -> Option<T> {
        if !self.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        self.parse::<u64>().ok().and_then(|number| T::try_from(number).ok())
    }

    fn signed_digits<T: TryFrom<i64>>(&self) -> Option<T> {
        if self.starts_with('+') {
            return None;
        }
        self.parse::<i64>().ok().and_then(|number| T::try_from(number).ok())
    }

    fn hex_digits<T: TryFrom<u64>>(&self) -> Option<T> {
        if !self.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u64::from_str_radix(self, 16).ok().and_then(|number| T::try_from(number).ok())
    }

    fn real(&self) -> Option<f64> {
        let begins = self.strip_prefix('-').unwrap_or(self).starts_with(|letter: char| letter.is_ascii_digit());
        if !begins {
            return None;
        }
        self.parse::<f64>().ok().filter(|number| number.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_of_each_type_are_kept() {
        assert_eq!("18446744073709551615".digits::<u64>(), Some(u64::MAX));
        assert_eq!("18446744073709551616".digits::<u64>(), None);
        assert_eq!("000255".digits::<u8>(), Some(255));
        assert_eq!("256".digits::<u8>(), None);
        for text in ["+0", "+1", "-1", "", " 1", "1 ", "1_0", "0x1", "1.0"] {
            assert_eq!((text.digits::<u64>(), text.digits::<u8>()), (None, None), "{text}");
        }
        assert_eq!(("+1".signed_digits::<i64>(), "+1".hex_digits::<u64>()), (None, None));
        assert_eq!("-9223372036854775808".signed_digits::<i64>(), Some(i64::MIN));
        assert_eq!(("-129".signed_digits::<i8>(), "--1".signed_digits::<i64>()), (None, None));
        assert_eq!("ffffffffffffffff".hex_digits::<u64>(), Some(u64::MAX));
        assert_eq!(("+f".hex_digits::<u64>(), "".hex_digits::<u64>()), (None, None));
        assert_eq!(
            ("1e999".real(), "-0.5".real(), ".5".real(), "+1".real(), "-inf".real()),
            (None, Some(-0.5), None, None, None)
        );
    }
}
