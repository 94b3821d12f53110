//! 64-byte lines over x4 DRAM chips: a symbol is two beats of one chip's four bits.
//!
//! As MEMSYS'16 (Abeyratne et al., section 4, figure 5) draws it: a rank of 18 chips with 4 pins each moves 72 bits per
//! beat, and a line in 8 beats. Bits 4i to 4i + 3 of the 64 data bits of a beat are the pins of chip i, so that chip 2j
//! is the low and chip 2j + 1 the high half of byte j; chips 16 and 17 are the ninth byte.
//!
//! ```text
//! lines     [line][beat 0..8][byte 0..8]         64 bytes each, chips 0 to 15
//! checks    [line][beat 0..8]                     8 bytes each, chip 16 low, chip 17 high
//!           [line][codeword 0..4]                 and then, for RS(19,16), 4 bytes: R, which lies in another rank
//!
//! symbol    pins of beat b | pins of beat b + 1 << 4, for an even b
//! ```
//!
//! | code | codewords of a line | beats of a codeword | symbols of chip i |
//! |---|---|---|---|
//! | RS(18,16), RS(19,16) | 4 | 2 | i |
//! | RS(36,32) | 2 | 4 | 2i (first two beats) and 2i + 1 |
//!
//! Lines are regrouped into columns, a block at a time, and given to a [`Batch`].

use crate::{Batch, Check, Code, Error, Mode, Report, SYMBOLS_MAX};

/// Data bytes of a line.
pub const LINE_BYTES: usize = 64;
/// Chips of a rank: 16 for data, 2 for check bits.
pub const CHIPS: usize = 18;
/// Pins of a chip.
pub const PINS: usize = 4;
/// Beats in which a line is moved.
pub const BEATS: usize = 8;

/// Pairs of beats: the first byte of a symbol's place.
const PAIRS: usize = BEATS / 2;
/// Lines that are regrouped at once: their symbols stay in a first-level cache.
const BLOCK_LINES: usize = 128;
const LOW_HALVES: u64 = 0x0F0F_0F0F_0F0F_0F0F;

/// One bit of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SymbolBit {
    /// Which codeword of the line.
    pub codeword: usize,
    /// Which symbol of the codeword.
    pub symbol: usize,
    /// Which bit of the symbol, 0 being the lowest.
    pub bit: usize,
}

/// Where a chip's pin lies in a beat: the definition of the layout. `None` if there is no such chip, pin or beat.
pub const fn place_of(code: Code, chip: usize, pin: usize, beat: usize) -> Option<SymbolBit> {
    if chip >= CHIPS || pin >= PINS || beat >= BEATS {
        return None;
    }
    let (codeword, symbol) = codeword_and_symbol(code, beat / 2, chip);
    Some(SymbolBit { codeword, symbol, bit: beat % 2 * PINS + pin })
}

const fn codeword_and_symbol(code: Code, pair: usize, chip: usize) -> (usize, usize) {
    match code {
        Code::Rs36_32 => (pair / 2, 2 * chip + pair % 2),
        Code::Rs18_16 | Code::Rs19_16 => (pair, chip),
    }
}

/// A code over lines.
///
/// ```
/// use surefoot_ecc::layout::chip::Lines;
/// use surefoot_ecc::{Code, Mode};
/// let lines = Lines::new(Code::Rs19_16);
/// let mut data = vec![7u8; 2 * 64];
/// let mut checks = vec![0u8; 2 * lines.check_bytes()];
/// lines.encode(&data, &mut checks)?;
/// for beat in 0..8 {
///     data[64 + 8 * beat + 3] ^= 0xF0; // Chip 7 of line 1 fails, in all beats.
/// }
/// let report = lines.correct(&mut data, &mut checks, Mode::CorrectOne)?;
/// assert_eq!((report.corrected_at[7], report.detected), (4, 0));
/// assert_eq!(data, [7; 128]);
/// # Ok::<(), surefoot_ecc::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lines {
    batch: Batch,
}

impl Lines {
    /// On the fastest path that this processor has.
    pub fn new(code: Code) -> Lines {
        Lines { batch: Batch::new(code) }
    }

    /// With a batch of the caller's choice.
    pub const fn with_batch(batch: Batch) -> Lines {
        Lines { batch }
    }

    /// Check bytes per line: 8, or 12 for RS(19,16).
    pub const fn check_bytes(self) -> usize {
        match self.batch.code() {
            Code::Rs36_32 | Code::Rs18_16 => BEATS,
            Code::Rs19_16 => BEATS + PAIRS,
        }
    }

    /// Codewords per line.
    pub const fn codewords(self) -> usize {
        match self.batch.code() {
            Code::Rs36_32 => PAIRS / 2,
            Code::Rs18_16 | Code::Rs19_16 => PAIRS,
        }
    }

    /// Computes the check bytes of lines.
    ///
    /// # Errors
    /// There is no line, a part of one, or not [`Lines::check_bytes`] for each.
    pub fn encode(self, lines: &[u8], checks: &mut [u8]) -> Result<(), Error> {
        self.expect_lengths(lines.len(), checks.len())?;
        let mut block = Block::new();
        for (lines, checks) in self.blocks(lines).zip(checks.chunks_mut(BLOCK_LINES * self.check_bytes())) {
            self.gather(lines, checks, &mut block);
            let columns = self.columns(lines);
            let mut symbols = block.columns(columns);
            let (data, parity) = symbols[..self.batch.code().n()].split_at_mut(self.batch.code().k());
            self.batch.encode(data, parity)?;
            self.scatter_checks(&block, checks);
        }
        Ok(())
    }

    /// Checks lines with the first two syndromes. The column of the answer is a codeword: line · codewords + codeword.
    ///
    /// # Errors
    /// As for [`Lines::encode`].
    pub fn check(self, lines: &[u8], checks: &[u8]) -> Result<Check, Error> {
        self.expect_lengths(lines.len(), checks.len())?;
        let mut block = Block::new();
        let blocks = self.blocks(lines).zip(checks.chunks(BLOCK_LINES * self.check_bytes()));
        for (index, (lines, checks)) in blocks.enumerate() {
            self.gather(lines, checks, &mut block);
            let symbols = block.columns(self.columns(lines));
            if let Check::Dirty { first_column } = self.batch.check(&symbols[..self.batch.code().n()])? {
                return Ok(Check::Dirty { first_column: index * BLOCK_LINES * self.codewords() + first_column });
            }
        }
        Ok(Check::Clean)
    }

    /// Corrects lines and check bytes, each codeword for itself. Columns of the report are codewords, as in
    /// [`Lines::check`].
    ///
    /// # Errors
    /// As for [`Lines::encode`]; or the code cannot correct that many errors.
    pub fn correct(self, lines: &mut [u8], checks: &mut [u8], mode: Mode) -> Result<Report, Error> {
        self.repair(lines, checks, &[], mode)
    }

    /// Fills in what erased chips hold, and corrects errors elsewhere as the mode says. A chip is one erasure of
    /// RS(18,16) and RS(19,16), and two of RS(36,32).
    ///
    /// # Errors
    /// As for [`Lines::encode`]; a chip is outside the rank, named twice, or one too many; or the mode and the erasures
    /// together are beyond the distance.
    pub fn repair(self, lines: &mut [u8], checks: &mut [u8], chips: &[usize], mode: Mode) -> Result<Report, Error> {
        let (erasures, count) = self.erasures(chips)?;
        self.expect_lengths(lines.len(), checks.len())?;
        let mut block = Block::new();
        let mut report = Report::default();
        let chunk_bytes = BLOCK_LINES * self.check_bytes();
        for (lines, checks) in lines.chunks_mut(BLOCK_LINES * LINE_BYTES).zip(checks.chunks_mut(chunk_bytes)) {
            self.gather(lines, checks, &mut block);
            let mut symbols = block.columns(self.columns(lines));
            let found = self.batch.repair(&mut symbols[..self.batch.code().n()], &erasures[..count], mode)?;
            report.add(found, report.columns());
            if count > 0 || found.corrected > 0 {
                self.scatter_lines(&block, lines);
                self.scatter_checks(&block, checks);
            }
        }
        Ok(report)
    }

    fn erasures(self, chips: &[usize]) -> Result<([usize; SYMBOLS_MAX], usize), Error> {
        let code = self.batch.code();
        let per_chip = if code == Code::Rs36_32 { 2 } else { 1 };
        if chips.len() * per_chip > code.parity() {
            return Err(Error::TooManyErasures { code, limit: code.parity(), given: chips.len() * per_chip });
        }
        let mut erasures = [0; SYMBOLS_MAX];
        for (index, &chip) in chips.iter().enumerate() {
            if chip >= CHIPS {
                return Err(Error::ChipOutside { chip, last: CHIPS - 1 });
            }
            for part in 0..per_chip {
                erasures[index * per_chip + part] = chip * per_chip + part;
            }
        }
        Ok((erasures, chips.len() * per_chip))
    }

    fn expect_lengths(self, lines: usize, checks: usize) -> Result<(), Error> {
        if lines == 0 || !lines.is_multiple_of(LINE_BYTES) {
            return Err(Error::NotWhole { what: "lines", unit_bytes: LINE_BYTES, given: lines });
        }
        let wanted = lines / LINE_BYTES * self.check_bytes();
        if checks != wanted {
            return Err(Error::WrongBytes { what: "check bytes", wanted, given: checks });
        }
        Ok(())
    }

    fn blocks(self, lines: &[u8]) -> impl Iterator<Item = &[u8]> {
        lines.chunks(BLOCK_LINES * LINE_BYTES)
    }

    fn columns(self, lines: &[u8]) -> usize {
        lines.len() / LINE_BYTES * self.codewords()
    }

    /// The place of a pair of beats of a chip among the symbols of a block: symbol and column.
    fn cell(self, line: usize, pair: usize, chip: usize) -> (usize, usize) {
        let (codeword, symbol) = codeword_and_symbol(self.batch.code(), pair, chip);
        (symbol, line * self.codewords() + codeword)
    }

    fn gather(self, lines: &[u8], checks: &[u8], block: &mut Block) {
        let (lines, _) = lines.as_chunks::<LINE_BYTES>();
        for (line, (beats, check)) in lines.iter().zip(checks.chunks_exact(self.check_bytes())).enumerate() {
            let (beats, _) = beats.as_chunks::<8>();
            for pair in 0..PAIRS {
                let one = u64::from_le_bytes(beats[2 * pair]);
                let two = u64::from_le_bytes(beats[2 * pair + 1]);
                let even = (one & LOW_HALVES) | (two & LOW_HALVES) << 4;
                let odd = (one >> 4 & LOW_HALVES) | (two & !LOW_HALVES);
                for (half, (even, odd)) in even.to_le_bytes().into_iter().zip(odd.to_le_bytes()).enumerate() {
                    block.set(self.cell(line, pair, 2 * half), even);
                    block.set(self.cell(line, pair, 2 * half + 1), odd);
                }
                let (one, two) = (check[2 * pair], check[2 * pair + 1]);
                block.set(self.cell(line, pair, 16), (one & 0x0F) | (two & 0x0F) << 4);
                block.set(self.cell(line, pair, 17), one >> 4 | (two & 0xF0));
                if let Some(&third) = check.get(BEATS + pair) {
                    block.set(self.cell(line, pair, CHIPS), third);
                }
            }
        }
    }

    fn scatter_lines(self, block: &Block, lines: &mut [u8]) {
        let (lines, _) = lines.as_chunks_mut::<LINE_BYTES>();
        for (line, beats) in lines.iter_mut().enumerate() {
            let (beats, _) = beats.as_chunks_mut::<8>();
            for pair in 0..PAIRS {
                let (mut even, mut odd) = ([0; 8], [0; 8]);
                for half in 0..8 {
                    even[half] = block.get(self.cell(line, pair, 2 * half));
                    odd[half] = block.get(self.cell(line, pair, 2 * half + 1));
                }
                let (even, odd) = (u64::from_le_bytes(even), u64::from_le_bytes(odd));
                beats[2 * pair] = ((even & LOW_HALVES) | (odd & LOW_HALVES) << 4).to_le_bytes();
                beats[2 * pair + 1] = ((even >> 4 & LOW_HALVES) | (odd & !LOW_HALVES)).to_le_bytes();
            }
        }
    }

    fn scatter_checks(self, block: &Block, checks: &mut [u8]) {
        for (line, check) in checks.chunks_exact_mut(self.check_bytes()).enumerate() {
            for pair in 0..PAIRS {
                let even = block.get(self.cell(line, pair, 16));
                let odd = block.get(self.cell(line, pair, 17));
                check[2 * pair] = (even & 0x0F) | odd << 4;
                check[2 * pair + 1] = even >> 4 | (odd & 0xF0);
                if let Some(third) = check.get_mut(BEATS + pair) {
                    *third = block.get(self.cell(line, pair, CHIPS));
                }
            }
        }
    }
}

/// The symbols of a block of lines, regrouped into columns.
struct Block([[u8; BLOCK_LINES * PAIRS]; SYMBOLS_MAX]);

impl Block {
    fn new() -> Block {
        Block([[0; BLOCK_LINES * PAIRS]; SYMBOLS_MAX])
    }

    fn get(&self, (symbol, column): (usize, usize)) -> u8 {
        self.0[symbol][column]
    }

    fn set(&mut self, (symbol, column): (usize, usize), byte: u8) {
        self.0[symbol][column] = byte;
    }

    fn columns(&mut self, columns: usize) -> [&mut [u8]; SYMBOLS_MAX] {
        self.0.each_mut().map(|symbol| &mut symbol[..columns])
    }
}
