//! The corrector of one symbol: a comparator per symbol of the code, and no division.

use super::linear::{indices, times};
use super::{Unit, assignment, bits, module, module_name, port, position_bits, symbol};
use crate::field::divide;
use crate::{Code, SYNDROMES_MAX};

/// `word` and `syndrome` to `corrected`, `error`, `detected`, `position`.
pub fn unit(code: Code) -> String {
    let (n, parity) = (code.n(), code.parity());
    let mut body = format!(
        "    // Whether the syndromes are a multiple of column i of H; they are of all if they are 0.\n\
         \x20   wire [{}:0] match;\n",
        n - 1
    );
    for position in 0..n {
        body += &assignment(&format!("match[{position}]"), "~|", &differences(code.column(position), parity));
    }
    body += "    // The syndrome in which the column has its leading 1 is the error's value.\n";
    for position in 0..n {
        body += &format!(
            "    assign {} = {} ^ ({{8{{match[{position}]}}}} & {});\n",
            symbol("corrected", position),
            symbol("word", position),
            symbol("syndrome", pivot(code.column(position)))
        );
    }
    body += "    assign error = |syndrome;\n    assign detected = error & (~|match);\n";
    let width = position_bits(code);
    body += &format!("    // The number of the symbol that matches.\n    wire [{}:0] place;\n", width - 1);
    for bit in 0..width {
        let positions = (0..n).filter(|position| position >> bit & 1 == 1);
        body += &assignment(&format!("place[{bit}]"), "|", &bits("match", positions));
    }
    body += &format!("    assign position = place & {{{width}{{error}}}};\n");
    let mut ports = vec![port("input", 8 * n, "word"), port("input", 8 * parity, "syndrome")];
    ports.extend(results(code));
    module(code, Unit::Correct, &ports, &body)
}

/// `word` to what the corrector gives.
pub fn decode(code: Code) -> String {
    let body = format!(
        "    wire [{}:0] syndrome;\n    {} syndromes (.word(word), .syndrome(syndrome));\n    {} corrector (\n\
         \x20       .word(word), .syndrome(syndrome), .corrected(corrected), .error(error), .detected(detected),\n\
         \x20       .position(position)\n    );\n",
        8 * code.parity() - 1,
        module_name(code, Unit::Syndrome),
        module_name(code, Unit::Correct)
    );
    let mut ports = vec![port("input", 8 * code.n(), "word")];
    ports.extend(results(code));
    module(code, Unit::Decode, &ports, &body)
}

fn results(code: Code) -> [String; 4] {
    [
        port("output", 8 * code.n(), "corrected"),
        port("output", 1, "error"),
        port("output", 1, "detected"),
        port("output", position_bits(code), "position"),
    ]
}

/// The row of a column's first element that is not 0; the element is 1.
fn pivot(column: [u8; SYNDROMES_MAX]) -> usize {
    column.iter().position(|&element| element != 0).expect("no column of H is 0: the distance is above 1")
}

/// Terms that are all 0 if and only if the syndromes are a multiple of the column: eight for each row but the pivot.
fn differences(column: [u8; SYNDROMES_MAX], parity: usize) -> Vec<String> {
    let mut terms = Vec::new();
    let mut reference = pivot(column);
    for row in (0..parity).filter(|&row| row != pivot(column)) {
        // An element that is 0 demands a syndrome that is 0; others are compared with the last one that is not.
        let Some(ratio) = divide(column[row], column[reference]).filter(|&ratio| ratio != 0) else {
            terms.extend(bits("syndrome", 8 * row..8 * row + 8));
            continue;
        };
        for (bit, mask) in times(ratio).into_iter().enumerate() {
            let product = indices(mask).map(|input| 8 * reference + input);
            terms.push(format!("^{{{}}}", bits("syndrome", [8 * row + bit].into_iter().chain(product)).join(", ")));
        }
        reference = row;
    }
    terms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_begins_with_1() {
        for code in Code::ALL {
            for position in 0..code.n() {
                let column = code.column(position);
                assert_eq!(column[pivot(column)], 1, "{code} {position}");
            }
        }
    }

    #[test]
    fn unit_columns_need_no_multiplier() {
        let terms = differences(Code::Rs19_16.column(17), 3);
        assert_eq!(terms, [bits("syndrome", 0..8), bits("syndrome", 16..24)].concat());
        assert_eq!(differences(Code::Rs18_16.column(0), 2)[3], "^{syndrome[11], syndrome[3]}");
    }
}
