//! Multiplication by constants as xor of bits.

use crate::field::multiply;

/// For each bit of `constant`·x, which bits of x it is the xor of, as a mask.
pub fn times(constant: u8) -> [u8; 8] {
    let mut masks = [0; 8];
    for input in 0..8 {
        let product = multiply(constant, 1 << input);
        for (output, mask) in masks.iter_mut().enumerate() {
            *mask |= (product >> output & 1) << input;
        }
    }
    masks
}

/// The indices of the bits of a mask, the lowest first.
pub fn indices(mask: u8) -> impl Iterator<Item = usize> {
    (0..8).filter(move |bit| mask >> bit & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_masks_multiply_every_pair() {
        for constant in 0..=255 {
            let masks = times(constant);
            for x in 0..=255_u8 {
                let product = (0..8).fold(0, |sum, bit| sum | ((masks[bit] & x).count_ones() as u8 & 1) << bit);
                assert_eq!(product, multiply(constant, x), "{constant} * {x}");
            }
        }
    }

    #[test]
    fn indices_are_the_set_bits() {
        assert_eq!(indices(0b1000_0101).collect::<Vec<_>>(), [0, 2, 7]);
        assert_eq!(indices(0).count(), 0);
    }
}
