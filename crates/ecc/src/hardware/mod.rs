//! The decoder as hardware: synthesizable Verilog-2001 for each code, from the same tables as the software.
//!
//! [`verilog`] writes four modules per code ([`Unit`]); all are combinational, so that whoever uses them puts registers
//! where the clock wants them, for instance between syndrome unit and corrector. Everything is derived from
//! [`Code::column`]:
//!
//! - The **syndrome unit** is H over GF(2). Multiplication by a constant of the field is linear over GF(2): bit b of
//!   c·x is the sum (xor) of those bits j of x for which c·2^j has bit b ([`crate::field`]). So each syndrome bit is the
//!   xor of a fixed set of the word's bits, and its depth is the logarithm of their number.
//! - The **corrector** divides nothing and takes no logarithm. A single error of value v at symbol i has the syndromes
//!   v·column(i). All columns here begin with 1 (behind zeros), so that v is the syndrome S_p of that row p, and the
//!   other rows are S_r = column(i)_r · S_p. One comparator per symbol tests that for all symbols at once. The columns
//!   (1, α^e, α^(2e), ...) are compared from row to row, S_(r+1) = α^e · S_r, by constant multipliers of at most 8
//!   inputs per bit. The unit columns of P, Q and R need no multiplier: the other syndromes are 0.
//! - The **location check** costs nothing: a location that the code does not use has no comparator.
//! - With all syndromes 0 every comparator is content, but then v is 0 too: the correction need not wait for the flags.
//!
//! Any two columns of H are independent, so that at most one comparator is content unless all are. This is
//! [`crate::Mode::CorrectOne`] with [`crate::LocationCheck::On`], bit for bit: the tests hold simulated modules against
//! [`Code::decode`] and [`Code::locate`].
//!
//! ```
//! use surefoot_ecc::{Code, hardware};
//! let text = hardware::verilog(Code::Rs19_16);
//! assert!(text.contains("module rs19_16_decode ("));
//! assert_eq!(hardware::module_name(Code::Rs19_16, hardware::Unit::Syndrome), "rs19_16_syndrome");
//! ```

mod correct;
mod linear;
mod syndrome;

use crate::Code;
use crate::field::POLYNOMIAL;

/// The longest line that is written, in characters.
const LINE_CHARS_MAX: usize = 124;

/// A module of the generated file.
///
/// Symbol i of a word is its bits 8i to 8i + 7, S_r the bits 8r to 8r + 7 of `syndrome`; bit 0 of a symbol is the
/// coefficient of x^0, as in the software.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// `word` to `syndrome`: the syndromes alone.
    Syndrome,
    /// `word` to `error`: whether the word is no codeword. What reads need that do not correct, such as those of
    /// RS(18,16) in the two-level scheme.
    Check,
    /// `word` and `syndrome` to `corrected`, `error`, `detected` and `position`: what is made of the syndromes.
    Correct,
    /// `word` to what [`Unit::Correct`] gives: syndrome unit and corrector, one behind the other.
    Decode,
}

impl Unit {
    /// Every unit, in the order in which the file has them.
    pub const ALL: [Unit; 4] = [Unit::Syndrome, Unit::Check, Unit::Correct, Unit::Decode];

    /// The word for it in names.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Syndrome => "syndrome",
            Unit::Check => "check",
            Unit::Correct => "correct",
            Unit::Decode => "decode",
        }
    }
}

/// What names of modules and files begin with, such as `rs19_16`.
pub fn prefix(code: Code) -> String {
    format!("rs{}_{}", code.n(), code.k())
}

/// The name of a module, such as `rs19_16_syndrome`.
pub fn module_name(code: Code, unit: Unit) -> String {
    format!("{}_{}", prefix(code), unit.name())
}

/// The width of `position`, in bits: 6 for RS(36,32), 5 for the others.
pub const fn position_bits(code: Code) -> usize {
    (usize::BITS - (code.n() - 1).leading_zeros()) as usize
}

/// The four modules of a code as one file, the same text every time.
pub fn verilog(code: Code) -> String {
    let mut text = header(code);
    for unit in Unit::ALL {
        text.push('\n');
        text += &match unit {
            Unit::Syndrome => syndrome::unit(code),
            Unit::Check => syndrome::check(code),
            Unit::Correct => correct::unit(code),
            Unit::Decode => correct::decode(code),
        };
    }
    text
}

fn header(code: Code) -> String {
    let (n, k) = (code.n(), code.k());
    let construction = match code {
        Code::Rs36_32 => "roots a^0 to a^3, highest power first: column i of H is (1, x, x^2, x^3), x = a^(35 - i)",
        Code::Rs18_16 => "column i of H is (1, a^i) for data; parity P: (1, 0), Q: (0, 1)",
        Code::Rs19_16 => "column i of H is (1, a^i, a^(2i)) for data; parity P: (1, 0, 0), Q: (0, 1, 0), R: (0, 0, 1)",
    };
    format!(
        "// {code} over GF(2^8) modulo 0x{POLYNOMIAL:X}, a = 2: {n} symbols of 8 bits, the first {k} of them data.\n\
         // {construction}.\n\
         // Symbol i of `word` is its bits 8i to 8i + 7; syndrome r is bits 8r to 8r + 7 of `syndrome`.\n\
         // Generated by surefoot ecc verilog: do not edit. Verilog-2001; everything is combinational.\n"
    )
}

/// `assign name = <operator>{bits of source};`, broken into lines; no bits are the constant 0.
fn assignment(name: &str, operator: &str, terms: &[String]) -> String {
    if let [only] = terms {
        let operator = if operator.starts_with('~') { "~" } else { "" };
        return format!("    assign {name} = {operator}{only};\n");
    }
    let mut text = format!("    assign {name} = {operator}{{");
    let mut column = text.len();
    for (index, term) in terms.iter().enumerate() {
        let separator = if index == 0 { "" } else { "," };
        if column + term.len() + 4 > LINE_CHARS_MAX {
            text += separator;
            text += "\n        ";
            column = 8;
        } else if index > 0 {
            text += ", ";
            column += 2;
        }
        text += term;
        column += term.len();
    }
    text + "};\n"
}

/// Bits of a vector by name, such as `word[3]`.
fn bits(vector: &str, indices: impl IntoIterator<Item = usize>) -> Vec<String> {
    indices.into_iter().map(|index| format!("{vector}[{index}]")).collect()
}

/// The bits of a symbol, such as `word[15:8]`.
fn symbol(vector: &str, index: usize) -> String {
    format!("{vector}[{}:{}]", 8 * index + 7, 8 * index)
}

/// A port of a vector of so many bits; one bit is no vector.
fn port(direction: &str, width_bits: usize, name: &str) -> String {
    let range = if width_bits == 1 { String::new() } else { format!("[{}:0] ", width_bits - 1) };
    format!("    {direction:<6} wire {range}{name}")
}

fn module(code: Code, unit: Unit, ports: &[String], body: &str) -> String {
    format!("module {} (\n{}\n);\n{body}endmodule\n", module_name(code, unit), ports.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_widths() {
        assert_eq!(Code::ALL.map(position_bits), [6, 5, 5]);
        assert_eq!(Code::ALL.map(prefix), ["rs36_32", "rs18_16", "rs19_16"]);
        assert_eq!(module_name(Code::Rs36_32, Unit::Check), "rs36_32_check");
    }

    #[test]
    fn long_lists_are_broken_into_lines_and_lose_nothing() {
        for count in [1, 2, 9, 10, 200] {
            let terms = bits("word", 100..100 + count);
            let text = assignment("syndrome[0]", "^", &terms);
            assert!(text.lines().all(|line| line.len() <= LINE_CHARS_MAX), "{text}");
            assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
            assert_eq!(text.matches("word[").count(), count);
            assert_eq!(text.matches(',').count(), count - 1);
        }
        assert_eq!(assignment("match[1]", "~|", &["x".to_owned()]), "    assign match[1] = ~x;\n");
    }

    #[test]
    fn every_module_is_there_once_and_lines_are_short() {
        for code in Code::ALL {
            let text = verilog(code);
            for unit in Unit::ALL {
                assert_eq!(text.matches(&format!("module {} (", module_name(code, unit))).count(), 1, "{code}");
            }
            assert_eq!(text.matches("endmodule").count(), Unit::ALL.len());
            assert!(text.lines().all(|line| line.len() <= LINE_CHARS_MAX), "{code}");
            assert!(text.is_ascii() && text.ends_with('\n'));
            assert_eq!(text, verilog(code));
        }
    }
}
