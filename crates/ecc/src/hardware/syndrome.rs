//! The syndrome unit: each bit of H·c as the xor of bits of the word c.

use super::linear::{indices, times};
use super::{Unit, assignment, bits, module, module_name, port};
use crate::Code;

/// `word` to `syndrome`.
pub fn unit(code: Code) -> String {
    let mut body = String::new();
    for row in 0..code.parity() {
        for bit in 0..8 {
            let terms = bits("word", word_bits(code, row, bit));
            body += &assignment(&format!("syndrome[{}]", 8 * row + bit), "^", &terms);
        }
    }
    let ports = [port("input", 8 * code.n(), "word"), port("output", 8 * code.parity(), "syndrome")];
    module(code, Unit::Syndrome, &ports, &body)
}

/// The bits of the word that sum up to one bit of a syndrome.
fn word_bits(code: Code, row: usize, bit: usize) -> Vec<usize> {
    let of_symbol = |position: usize| {
        let mask = times(code.column(position)[row])[bit];
        indices(mask).map(move |input| 8 * position + input)
    };
    (0..code.n()).flat_map(of_symbol).collect()
}

/// `word` to `error`: any syndrome that is not 0.
pub fn check(code: Code) -> String {
    let body = format!(
        "    wire [{}:0] syndrome;\n    {} syndromes (.word(word), .syndrome(syndrome));\n    assign error = |syndrome;\n",
        8 * code.parity() - 1,
        module_name(code, Unit::Syndrome)
    );
    let ports = [port("input", 8 * code.n(), "word"), port("output", 1, "error")];
    module(code, Unit::Check, &ports, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_of_a_word_sum_up_to_its_syndromes() {
        for code in Code::ALL {
            let word: Vec<u8> = (0..code.n()).map(|i| (i * 89 + 7) as u8).collect();
            let syndromes = code.syndromes(&word).unwrap();
            for (row, syndrome) in syndromes[..code.parity()].iter().enumerate() {
                for bit in 0..8 {
                    let ones =
                        word_bits(code, row, bit).iter().filter(|&&at| word[at / 8] >> (at % 8) & 1 == 1).count();
                    assert_eq!(ones % 2 == 1, syndrome >> bit & 1 == 1, "{code} S{row} bit {bit}");
                }
            }
        }
    }
}
