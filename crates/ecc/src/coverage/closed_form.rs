//! Closed forms: the same counts from combinatorics and the weights of the code, without its matrix or a decoder.
//!
//! A decoder that corrects one unit of a code with distance d leaves a codeword right if and only if at most one unit is
//! wrong; how many patterns those are is combinatorics. Nothing is silent as long as at most d - 2 units can be wrong
//! (d - 1 for a decoder that only detects). For a maximum distance separable code of length n over q symbols, and d - 1
//! units that are wrong in every way, the miscorrected patterns are the codewords of weight d that contain those
//! positions: (n - d + 1)(q - 1). Without location check n is the length of the unshortened code. Beyond that, what is
//! silent depends on the matrix, and there is no closed form here.

use super::exact::Counts;
use super::extent::{Extent, Rules, SilentRule, extents, pair_extents};
use super::{Fault, Layout};

/// What one fault does to one codeword.
#[derive(Debug, Clone, Copy)]
struct Hits {
    /// Patterns without a wrong unit (0 or 1), with one, and all.
    none: i128,
    one: i128,
    all: i128,
    /// Units that may be wrong.
    units: usize,
    /// Whether each of those may be wrong in every way, independently.
    is_full: bool,
}

/// The counts, if there is a closed form for them. They are proportional to those of [`super::exact::counts`], but not
/// the same numbers: every choice of chips is alike and counted once.
pub fn counts(layout: &Layout, fault: Fault, rules: Rules) -> Option<Counts> {
    let nothing = Extent { mask: 0, is_fixed: true };
    let places: Vec<(Extent, Extent)> = match fault {
        Fault::Single(kind) => extents(kind, layout, rules).into_iter().map(|extent| (extent, nothing)).collect(),
        Fault::Pair(first, second) => pair_extents(first, second, layout, rules),
    };
    let (mut corrected, mut silent, mut total) = (0i128, 0i128, 0i128);
    for (one, other) in places {
        total += i128::from(one.patterns()) * i128::from(other.patterns());
        for (first, first_sign) in terms(one) {
            for (second, second_sign) in terms(other) {
                let sign = first_sign * second_sign;
                let (right, wrong) = block(layout, (first, second), rules.silent_rule)?;
                corrected += sign * right;
                silent += sign * wrong;
            }
        }
    }
    let count = |number: i128| u128::try_from(number).ok();
    Some(Counts { corrected: count(corrected)?, detected: count(total - corrected - silent)?, silent: count(silent)? })
}

/// All patterns, less the one that damages nothing; or the only pattern.
fn terms(extent: Extent) -> Vec<(Extent, i128)> {
    let none = Extent { mask: 0, is_fixed: true };
    if extent.is_fixed { vec![(extent, 1)] } else { vec![(extent, 1), (none, -1)] }
}

/// Patterns of a block that end right, and that end silent.
fn block(layout: &Layout, extents: (Extent, Extent), rule: SilentRule) -> Option<(i128, i128)> {
    let (mut right_all, mut unreported, mut not_wrong, mut all) = (1, 1, 1, 1);
    for codeword in 0..layout.codewords {
        let (first, second) = (hits(layout, extents.0, codeword), hits(layout, extents.1, codeword));
        let total = first.all * second.all;
        let right = match layout.corrects {
            0 => first.none * second.none,
            _ => first.none * second.none + first.one * second.none + first.none * second.one,
        };
        let wrong = wrong(layout, first, second)?;
        right_all *= right;
        unreported *= right + wrong;
        not_wrong *= total - wrong;
        all *= total;
    }
    let silent = match rule {
        SilentRule::NoneReported => unreported - right_all,
        SilentRule::AnyCodeword => all - not_wrong,
    };
    Some((right_all, silent))
}

fn hits(layout: &Layout, extent: Extent, codeword: usize) -> Hits {
    let part = layout.part(extent.mask, codeword);
    let unit_mask = (1u32 << layout.unit_bits) - 1;
    let bits: Vec<u32> = (0..layout.units_per_chip())
        .map(|unit| (u32::from(part) >> (unit * layout.unit_bits) & unit_mask).count_ones())
        .filter(|&bits| bits > 0)
        .collect();
    let units = bits.len();
    if extent.is_fixed {
        let is = |wanted| i128::from(units == wanted);
        return Hits { none: is(0), one: is(1), all: 1, units, is_full: false };
    }
    Hits {
        none: 1,
        one: bits.iter().map(|&bits| (1 << bits) - 1).sum(),
        all: 1 << part.count_ones(),
        units,
        is_full: bits.iter().all(|&bits| bits == layout.unit_bits),
    }
}

/// Patterns that the decoder takes for something else, if they can be counted without the matrix.
fn wrong(layout: &Layout, first: Hits, second: Hits) -> Option<i128> {
    let units = first.units + second.units;
    if units + layout.corrects < layout.distance {
        return Some(0);
    }
    let length = layout.separable_length?;
    let is_countable = layout.corrects == 1 && units + 1 == layout.distance && first.is_full && second.is_full;
    is_countable.then(|| (length - units) as i128 * ((1 << layout.unit_bits) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocationCheck;
    use crate::coverage::{Scheme, exact};

    /// Wherever there is a closed form, the enumeration finds the same: two ways that share no decoder.
    #[test]
    fn closed_forms_equal_the_enumeration() {
        let mut compared = 0;
        for scheme in Scheme::ALL.into_iter().filter(|scheme| !scheme.is_software()) {
            for rules in [Rules::PHYSICAL, Rules::PAPER] {
                let layout = Layout::new(scheme, rules.location_check);
                for fault in scheme.faults() {
                    // Two chips of RS(36,32) at once take a while in a debug build: one case of them is enough.
                    let Some(closed) = counts(&layout, fault, rules) else { continue };
                    let is_slow = rules.location_check == LocationCheck::Off && scheme == Scheme::Rs36_32;
                    if is_slow && !matches!(fault.to_string().as_str(), "pin" | "chip" | "bit+pin" | "chip+chip") {
                        continue;
                    }
                    let exact = exact::counts(&layout, fault, rules);
                    assert!(closed.is_alike(exact), "{scheme:?} {fault} {rules:?}: {closed:?} {exact:?}");
                    compared += 1;
                }
            }
        }
        assert!(compared > 120, "{compared}");
    }
}
