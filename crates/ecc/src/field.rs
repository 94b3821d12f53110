//! The field GF(2^8): bytes as polynomials over GF(2), modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11D), with α = x = 2.
//!
//! The polynomial is primitive, so that the powers α^0 to α^254 are all the bytes but 0. It is the one of Linux RAID-6
//! (H. P. Anvin, "The mathematics of RAID-6") and of Intel ISA-L, which makes both usable as oracles. Addition is xor.

/// The field's polynomial, bit i being the coefficient of x^i.
pub const POLYNOMIAL: u16 = 0x11D;

/// The number of non-zero elements, which is the order of α.
pub const ORDER: usize = 255;

/// `EXP[i]` is α^i for i in 0..510: two rounds, so that the sum of two logarithms needs no reduction.
pub const EXP: [u8; 2 * ORDER] = exponentials();

/// `LOG[x]` is the i in 0..255 with α^i = x; `LOG[0]` is 0 and means nothing.
pub const LOG: [u8; 256] = logarithms();

const fn exponentials() -> [u8; 2 * ORDER] {
    let mut table = [0; 2 * ORDER];
    let mut power = 1;
    let mut i = 0;
    while i < ORDER {
        table[i] = power;
        table[i + ORDER] = power;
        power = double(power);
        i += 1;
    }
    table
}

const fn logarithms() -> [u8; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < ORDER {
        table[EXP[i] as usize] = i as u8;
        i += 1;
    }
    table
}

/// α · `a`: a shift, and the polynomial where a bit falls out.
pub const fn double(a: u8) -> u8 {
    (a << 1) ^ if a & 0x80 == 0 { 0 } else { (POLYNOMIAL & 0xFF) as u8 }
}

/// `a` · `b`.
pub const fn multiply(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 { 0 } else { EXP[LOG[a as usize] as usize + LOG[b as usize] as usize] }
}

/// α^`exponent`, for any exponent.
pub const fn power_of_alpha(exponent: usize) -> u8 {
    EXP[exponent % ORDER]
}

/// The i in 0..255 with α^i = `a`; zero has none.
pub const fn logarithm(a: u8) -> Option<usize> {
    if a == 0 { None } else { Some(LOG[a as usize] as usize) }
}

/// The b with `a` · b = 1; zero has none.
pub const fn inverse(a: u8) -> Option<u8> {
    if a == 0 { None } else { Some(EXP[ORDER - LOG[a as usize] as usize]) }
}

/// `a` / `b`; nothing can be divided by zero.
pub const fn divide(a: u8, b: u8) -> Option<u8> {
    match inverse(b) {
        Some(reciprocal) => Some(multiply(a, reciprocal)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The product by its definition: shift and add, without tables.
    fn product(mut a: u8, mut b: u8) -> u8 {
        let mut sum = 0;
        while b != 0 {
            if b & 1 == 1 {
                sum ^= a;
            }
            a = double(a);
            b >>= 1;
        }
        sum
    }

    #[test]
    fn the_tables_agree_with_the_definition_for_every_pair() {
        for a in 0..=255 {
            for b in 0..=255 {
                assert_eq!(multiply(a, b), product(a, b), "{a} * {b}");
            }
        }
    }

    #[test]
    fn every_element_but_zero_has_an_inverse_and_a_logarithm() {
        assert_eq!((inverse(0), logarithm(0), divide(1, 0)), (None, None, None));
        for a in 1..=255 {
            assert_eq!(product(a, inverse(a).unwrap()), 1);
            assert_eq!(power_of_alpha(logarithm(a).unwrap()), a);
            assert_eq!(divide(product(a, 77), 77), Some(a));
        }
    }

    #[test]
    fn alpha_is_primitive() {
        let mut seen = [false; 256];
        let mut power = 1;
        for _ in 0..ORDER {
            assert!(!seen[power as usize]);
            seen[power as usize] = true;
            power = double(power);
        }
        assert_eq!(power, 1);
    }
}
