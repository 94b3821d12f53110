//! The scalar reference: one codeword at a time, as plainly as possible. The batch kernels are held against it.

use crate::field::{divide, logarithm, multiply, power_of_alpha};
use crate::matrix::{Elimination, times};
use crate::{Code, Error, SYNDROMES_MAX};

/// How many errors at unknown positions a decoder corrects; what it corrects less, it detects more.
///
/// A code of distance d corrects t errors beside e erasures and still detects d - 1 - t - e errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// None: any word that is no codeword is detected. Detects 2 errors with RS(18,16), 3 with RS(19,16), 4 with
    /// RS(36,32).
    Detect,
    /// One. RS(18,16) then detects no second one, RS(19,16) detects 2, RS(36,32) detects 3 (the paper's decoder).
    #[default]
    CorrectOne,
    /// Two, with RS(36,32) only.
    CorrectTwo,
}

impl Mode {
    /// How many errors at unknown positions it corrects.
    pub const fn errors(self) -> usize {
        match self {
            Mode::Detect => 0,
            Mode::CorrectOne => 1,
            Mode::CorrectTwo => 2,
        }
    }
}

/// Whether a location that the decoder computed must be a symbol that the shortened code uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LocationCheck {
    /// It must: an error located elsewhere cannot be a single one, and is detected.
    #[default]
    On,
    /// It need not: the decoder reports a correction and changes nothing. Only there to be counted in coverage tables.
    Off,
}

/// How to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Decoder {
    /// How many errors are corrected.
    pub mode: Mode,
    /// What happens to locations outside the code.
    pub location_check: LocationCheck,
}

/// One wrong symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SymbolError {
    /// Which symbol, from 0.
    pub position: usize,
    /// What is to be added (xored) to it; never 0.
    pub value: u8,
}

/// What a word turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A codeword: nothing is wrong beyond the erasures, which are filled in.
    Clean,
    /// One wrong symbol, which is corrected.
    Corrected(SymbolError),
    /// Two wrong symbols, which are corrected; the lower position first. With [`Mode::CorrectTwo`] only.
    CorrectedTwo([SymbolError; 2]),
    /// Called corrected, but at a location that the code does not use, so that nothing is changed. With
    /// [`LocationCheck::Off`] only, and always wrong.
    CorrectedOutside,
    /// Wrong beyond what the mode corrects; the word is left as it was.
    Detected,
}

impl Code {
    /// Computes the parity symbols of a word of n symbols from its first k.
    ///
    /// # Errors
    /// The word has not n symbols.
    pub fn encode(self, word: &mut [u8]) -> Result<(), Error> {
        self.expect_symbols(word.len())?;
        word[self.k()..].fill(0);
        let syndromes = self.syndromes_of(word);
        // In an MDS code any n - k symbols can be computed from the others: parity symbols are erasures.
        let parity = self.parity_elimination();
        let values = times(&parity.matrix, self.parity(), syndromes);
        word[self.k()..].copy_from_slice(&values[..self.parity()]);
        Ok(())
    }

    /// The syndromes of a word of n symbols: n - k of them count, the others are 0. All are 0 for a codeword.
    ///
    /// # Errors
    /// The word has not n symbols.
    pub fn syndromes(self, word: &[u8]) -> Result<[u8; SYNDROMES_MAX], Error> {
        self.expect_symbols(word.len())?;
        Ok(self.syndromes_of(word))
    }

    /// Corrects a word of n symbols, within the decoder's mode.
    ///
    /// # Errors
    /// The word has not n symbols, or the mode corrects more errors than the code can.
    pub fn decode(self, word: &mut [u8], decoder: Decoder) -> Result<Outcome, Error> {
        self.expect_symbols(word.len())?;
        self.expect_distance(decoder.mode, 0)?;
        let outcome = self.locate_within(self.syndromes_of(word), decoder);
        outcome.apply(word);
        Ok(outcome)
    }

    /// Says what a decoder makes of syndromes, without a word: all that it decides, it decides from them. Only the
    /// first n - k syndromes count.
    ///
    /// # Errors
    /// The mode corrects more errors than the code can.
    pub fn locate(self, mut syndromes: [u8; SYNDROMES_MAX], decoder: Decoder) -> Result<Outcome, Error> {
        self.expect_distance(decoder.mode, 0)?;
        syndromes[self.parity()..].fill(0);
        Ok(self.locate_within(syndromes, decoder))
    }

    /// Fills in the erased symbols of a word, whatever they hold, and corrects errors elsewhere as the mode says.
    ///
    /// # Errors
    /// The word has not n symbols; an erasure is outside the code, named twice, or one too many; or the mode and the
    /// erasures together are beyond the distance.
    pub fn repair(self, word: &mut [u8], erasures: &[usize], mode: Mode) -> Result<Outcome, Error> {
        self.expect_symbols(word.len())?;
        self.expect_erasures(erasures)?;
        self.expect_distance(mode, erasures.len())?;
        if erasures.is_empty() {
            return self.decode(word, Decoder { mode, location_check: LocationCheck::On });
        }
        let mut columns = [[0; SYNDROMES_MAX]; SYNDROMES_MAX];
        let mut known = [0; crate::SYMBOLS_MAX];
        let known = &mut known[..word.len()];
        known.copy_from_slice(word);
        for (column, &position) in columns.iter_mut().zip(erasures) {
            *column = self.column(position);
            known[position] = 0;
        }
        let columns = &columns[..erasures.len()];
        let elimination = Elimination::of(columns, self.parity()).ok_or(self.beyond(mode, erasures.len()))?;
        let syndromes = self.syndromes_of(known);
        let outcome = self.explain(syndromes, &elimination, erasures, mode);
        if outcome == Outcome::Detected {
            return Ok(outcome);
        }
        outcome.apply(known);
        let values = times(&elimination.matrix, self.parity(), self.syndromes_of(known));
        outcome.apply(word);
        for (&position, value) in erasures.iter().zip(values) {
            word[position] = value;
        }
        Ok(outcome)
    }

    /// What the syndromes say about the symbols that are not erased: none, or one of them, is wrong.
    fn explain(
        self,
        syndromes: [u8; SYNDROMES_MAX],
        elimination: &Elimination,
        erasures: &[usize],
        mode: Mode,
    ) -> Outcome {
        let spare = |vector| {
            let mut product = times(&elimination.matrix, self.parity(), vector);
            product[..elimination.unknowns].fill(0);
            product
        };
        let unexplained = spare(syndromes);
        if unexplained == [0; SYNDROMES_MAX] {
            return Outcome::Clean;
        }
        if mode == Mode::Detect {
            return Outcome::Detected;
        }
        for position in (0..self.n()).filter(|position| !erasures.contains(position)) {
            if let Some(value) = ratio(unexplained, spare(self.column(position))) {
                return Outcome::Corrected(SymbolError { position, value });
            }
        }
        Outcome::Detected
    }

    fn locate_within(self, syndromes: [u8; SYNDROMES_MAX], decoder: Decoder) -> Outcome {
        if syndromes == [0; SYNDROMES_MAX] {
            return Outcome::Clean;
        }
        match decoder.mode {
            Mode::Detect => Outcome::Detected,
            Mode::CorrectOne => self.locate_one(syndromes, decoder.location_check),
            Mode::CorrectTwo => match self.locate_one(syndromes, decoder.location_check) {
                Outcome::Detected => self.locate_two(syndromes, decoder.location_check),
                outcome => outcome,
            },
        }
    }

    /// A single error of value v at the symbol with column h has the syndromes v·h. Where h = (1, x, x², ...), v is S0
    /// and x the quotient of any two neighbours; else h is the unit column of P, Q or R.
    fn locate_one(self, syndromes: [u8; SYNDROMES_MAX], check: LocationCheck) -> Outcome {
        if self != Code::Rs36_32 {
            let mut nonzero = (0..self.parity()).filter(|&row| syndromes[row] != 0);
            if let (Some(row), None) = (nonzero.next(), nonzero.next()) {
                return Outcome::Corrected(SymbolError { position: self.k() + row, value: syndromes[row] });
            }
        }
        let Some(exponent) = divide(syndromes[1], syndromes[0]).and_then(logarithm) else { return Outcome::Detected };
        let locator = power_of_alpha(exponent);
        if (1..self.parity()).any(|row| syndromes[row] != multiply(syndromes[row - 1], locator)) {
            return Outcome::Detected;
        }
        match (self.position_of_locator(exponent), check) {
            (Some(position), _) => Outcome::Corrected(SymbolError { position, value: syndromes[0] }),
            (None, LocationCheck::On) => Outcome::Detected,
            (None, LocationCheck::Off) => Outcome::CorrectedOutside,
        }
    }

    /// Two errors with values u, v at the locators x, y have S_r = u x^r + v y^r, so that S_(r+2) = (x + y) S_(r+1) +
    /// xy S_r: two linear equations for the sum and the product of the locators (Peterson's decoder for two errors).
    fn locate_two(self, syndromes: [u8; SYNDROMES_MAX], check: LocationCheck) -> Outcome {
        let [s0, s1, s2, s3] = syndromes;
        let determinant = multiply(s0, s2) ^ multiply(s1, s1);
        let sum = divide(multiply(s0, s3) ^ multiply(s1, s2), determinant);
        let product = divide(multiply(s1, s3) ^ multiply(s2, s2), determinant);
        let (Some(sum), Some(product)) = (sum, product) else { return Outcome::Detected };
        // Each locator solves x² + sum x + product = 0; there are two different ones, or the word is further away.
        let mut roots = (0..crate::field::ORDER).filter(|&exponent| {
            let x = power_of_alpha(exponent);
            multiply(x, x ^ sum) == product
        });
        let (Some(first), Some(second)) = (roots.next(), roots.next()) else { return Outcome::Detected };
        let (x, y) = (power_of_alpha(first), power_of_alpha(second));
        let Some(u) = divide(s1 ^ multiply(y, s0), x ^ y) else { return Outcome::Detected };
        let v = s0 ^ u;
        if u == 0 || v == 0 {
            return Outcome::Detected;
        }
        match (self.position_of_locator(first), self.position_of_locator(second), check) {
            // The second exponent is the greater one, and so the lower position.
            (Some(first), Some(second), _) => Outcome::CorrectedTwo([
                SymbolError { position: second, value: v },
                SymbolError { position: first, value: u },
            ]),
            (_, _, LocationCheck::On) => Outcome::Detected,
            (_, _, LocationCheck::Off) => Outcome::CorrectedOutside,
        }
    }

    fn syndromes_of(self, word: &[u8]) -> [u8; SYNDROMES_MAX] {
        let mut syndromes = [0; SYNDROMES_MAX];
        for (syndrome, row) in syndromes.iter_mut().zip(self.parity_check()) {
            *syndrome = word.iter().zip(row).fold(0, |sum, (symbol, element)| sum ^ multiply(*symbol, *element));
        }
        syndromes
    }

    /// From the syndromes of a word whose parity symbols are 0 to the parity symbols.
    pub(crate) fn parity_elimination(self) -> Elimination {
        let mut columns = [[0; SYNDROMES_MAX]; SYNDROMES_MAX];
        for (index, column) in columns[..self.parity()].iter_mut().enumerate() {
            *column = self.column(self.k() + index);
        }
        Elimination::of(&columns[..self.parity()], self.parity())
            .expect("any n - k columns of a code of distance n - k + 1 are independent")
    }

    fn beyond(self, mode: Mode, erasures: usize) -> Error {
        Error::BeyondDistance { code: self, errors: mode.errors(), erasures, distance: self.distance() }
    }

    fn expect_symbols(self, given: usize) -> Result<(), Error> {
        if given == self.n() {
            return Ok(());
        }
        Err(Error::WrongCount { code: self, what: "symbols", wanted: self.n(), given })
    }

    pub(crate) fn expect_distance(self, mode: Mode, erasures: usize) -> Result<(), Error> {
        if 2 * mode.errors() + erasures < self.distance() { Ok(()) } else { Err(self.beyond(mode, erasures)) }
    }

    pub(crate) fn expect_erasures(self, erasures: &[usize]) -> Result<(), Error> {
        if erasures.len() > self.parity() {
            return Err(Error::TooManyErasures { code: self, limit: self.parity(), given: erasures.len() });
        }
        for (index, &position) in erasures.iter().enumerate() {
            if position >= self.n() {
                return Err(Error::ErasureOutside { code: self, position, last: self.n() - 1 });
            }
            if erasures[..index].contains(&position) {
                return Err(Error::DuplicateErasure { position });
            }
        }
        Ok(())
    }
}

impl Outcome {
    /// Corrects a word accordingly.
    fn apply(self, word: &mut [u8]) {
        match self {
            Outcome::Corrected(error) => word[error.position] ^= error.value,
            Outcome::CorrectedTwo(errors) => errors.iter().for_each(|error| word[error.position] ^= error.value),
            Outcome::Clean | Outcome::CorrectedOutside | Outcome::Detected => {}
        }
    }
}

/// The value v with `vector` = v · `column`, if there is one; neither may be all 0.
fn ratio(vector: [u8; SYNDROMES_MAX], column: [u8; SYNDROMES_MAX]) -> Option<u8> {
    let pivot = column.iter().position(|&element| element != 0)?;
    let value = divide(vector[pivot], column[pivot])?;
    let explains = value != 0 && (0..SYNDROMES_MAX).all(|row| vector[row] == multiply(column[row], value));
    explains.then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_vectors_of_the_two_level_code_and_the_plain_one() {
        let mut word: Vec<u8> = (1..=16).chain([0; 3]).collect();
        Code::Rs19_16.encode(&mut word).unwrap();
        assert_eq!(word[16..], [0x10, 0xe9, 0x73]);
        Code::Rs18_16.encode(&mut word[..18]).unwrap();
        assert_eq!(word[16..18], [0x10, 0xe9]);
    }

    #[test]
    fn one_error_is_corrected_wherever_and_whatever_it_is() {
        for code in Code::ALL {
            let mut word: Vec<u8> = (0..code.n()).map(|i| (i * 37 + 11) as u8).collect();
            code.encode(&mut word).unwrap();
            assert_eq!(code.syndromes(&word), Ok([0; 4]));
            for position in 0..code.n() {
                for value in 1..=255 {
                    let mut damaged = word.clone();
                    damaged[position] ^= value;
                    let outcome = code.decode(&mut damaged, Decoder::default()).unwrap();
                    assert_eq!(outcome, Outcome::Corrected(SymbolError { position, value }), "{code}");
                    assert_eq!(damaged, word);
                }
            }
        }
    }

    #[test]
    fn without_the_location_check_a_location_outside_is_called_corrected() {
        for code in Code::ALL {
            // The syndromes of a single error at α^40, which no code here uses.
            let mut syndromes = [0; 4];
            for (row, syndrome) in syndromes[..code.parity()].iter_mut().enumerate() {
                *syndrome = power_of_alpha(40 * row);
            }
            let decoder = |location_check| Decoder { mode: Mode::CorrectOne, location_check };
            assert_eq!(code.locate(syndromes, decoder(LocationCheck::On)), Ok(Outcome::Detected));
            assert_eq!(code.locate(syndromes, decoder(LocationCheck::Off)), Ok(Outcome::CorrectedOutside));
        }
    }
}
