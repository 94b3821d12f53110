//! Many codewords at once, over interleaved columns.
//!
//! A batch is a *structure of arrays*: symbol i of all codewords lies in one slice, and the slices of a call are equally
//! long. Byte x of all slices together is column x, one codeword.
//!
//! ```text
//!              column   0    1    2   ...   L-1
//! symbols[0]    d_0    [b]  [b]  [b]  ...   [b]      L bytes, any alignment
//! symbols[1]    d_1    [b]  [b]  [b]  ...   [b]
//!   ...
//! symbols[n-1]         [b]  [b]  [b]  ...   [b]
//! ```

mod mend;
#[cfg(target_arch = "aarch64")]
mod neon;
mod path;
mod report;
mod sums;
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use path::Path;
pub use report::{Check, Report};

use crate::field::{multiply, power_of_alpha};
use crate::matrix::Square;
use crate::{Code, Decoder, Error, LocationCheck, Mode, Outcome, SYMBOLS_MAX, SYNDROMES_MAX};
use mend::{Mend, Plan};
use sums::{Symbols, Write};

/// Columns after which a decoder for two errors looks at what one error did not explain.
const SECOND_LOOK_COLUMNS: usize = 1024;

/// A code, and the instructions with which many of its codewords are handled per call.
///
/// ```
/// use surefoot_ecc::{Batch, Check, Code, Mode};
/// let batch = Batch::new(Code::Rs19_16);
/// let mut shards = vec![vec![0u8; 4096]; 19];
/// shards[5].fill(7);
/// let (data, parity) = shards.split_at_mut(16);
/// batch.encode(data, parity)?;
/// assert_eq!(batch.check(&shards)?, Check::Clean);
///
/// shards[0][10] ^= 1; // One wrong symbol, in column 10,
/// shards[8][99] ^= 1; // and another one in column 99.
/// let report = batch.correct(&mut shards, Mode::CorrectOne)?;
/// assert_eq!((report.corrected, report.detected), (2, 0));
///
/// shards[5].fill(0); // Three whole shards are lost.
/// shards[6].fill(1);
/// shards[17].fill(2);
/// let report = batch.repair(&mut shards, &[5, 6, 17], Mode::Detect)?;
/// assert_eq!((shards[5][0], report.detected), (7, 0));
/// # Ok::<(), surefoot_ecc::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Batch {
    code: Code,
    path: Path,
}

impl Batch {
    /// On the fastest path that this processor has.
    pub fn new(code: Code) -> Batch {
        Batch { code, path: Path::best() }
    }

    /// On a path of the caller's choice.
    ///
    /// # Errors
    /// This processor has not what the path needs.
    pub fn with_path(code: Code, path: Path) -> Result<Batch, Error> {
        path.expect_available()?;
        Ok(Batch { code, path })
    }

    /// The code.
    pub const fn code(self) -> Code {
        self.code
    }

    /// The path.
    pub const fn path(self) -> Path {
        self.path
    }

    /// Computes the parity of all columns: from k slices into n - k slices.
    ///
    /// # Errors
    /// There are not k and n - k slices, they are not equally long, or they are empty.
    pub fn encode<D: AsRef<[u8]>, P: AsMut<[u8]>>(self, data: &[D], parity: &mut [P]) -> Result<(), Error> {
        let mut shape = Shape::of(self.code);
        let sources = shape.shared("data slices", self.code.k(), data)?;
        let outputs = shape.exclusive("parity slices", self.code.parity(), parity)?;
        let mut task = Write {
            symbols: Symbols::of(self.code, &sources[..data.len()], shape.columns()?),
            rows: self.code.parity(),
            matrix: parity_matrix(self.code),
            outputs: first(&outputs),
        };
        // SAFETY: the path was available when this was made; the pointers are of slices that are borrowed during the
        // call, the outputs exclusively, all as long as the columns.
        unsafe { self.path.run(&mut task) };
        Ok(())
    }

    /// Computes one row of parity, from 0, of the first data slices; those behind them, up to k, are taken for zeros.
    ///
    /// This is the work of one who keeps one row of a shortened code: of the first row it is a plain sum.
    ///
    /// # Errors
    /// The code has no such row, or its rows cannot be had one by one, which is so for RS(36,32); there are none or more
    /// than k data slices; the slices are not equally long, or they are empty.
    pub fn encode_row<D: AsRef<[u8]>>(self, row: usize, data: &[D], parity: &mut [u8]) -> Result<(), Error> {
        if row >= self.code.parity() || self.code == Code::Rs36_32 {
            return Err(Error::NoSuchRow { code: self.code, row });
        }
        let mut shape = Shape::of(self.code);
        let sources = shape.shared("data slices", data.len().clamp(1, self.code.k()), data)?;
        let output = shape.exclusive("parity slices", 1, &mut [parity])?[0];
        let mut outputs = [std::ptr::null_mut(); SYNDROMES_MAX];
        outputs[row] = output;
        let symbols = Symbols::of_first(&sources[..data.len()], shape.columns()?);
        let mut task = Write { symbols, rows: row + 1, matrix: None, outputs };
        // SAFETY: as in `encode`.
        unsafe { self.path.run(&mut task) };
        Ok(())
    }

    /// Checks n slices with the first two syndromes only, up to the first dirty column: this is the fast path, as fast
    /// as memory is read.
    ///
    /// It finds any two wrong symbols of a column with every code. It does not read R of RS(19,16).
    ///
    /// # Errors
    /// There are not n slices, they are not equally long, or they are empty.
    pub fn check<S: AsRef<[u8]>>(self, symbols: &[S]) -> Result<Check, Error> {
        let mut shape = Shape::of(self.code);
        let sources = shape.shared("slices", self.code.n(), symbols)?;
        let symbols = Symbols::of(self.code, &sources[..symbols.len()], shape.columns()?);
        let mut task = sums::Check { symbols, dirty: None };
        // SAFETY: as in `encode`; nothing is written.
        unsafe { self.path.run(&mut task) };
        Ok(task.dirty.map_or(Check::Clean, |first_column| Check::Dirty { first_column }))
    }

    /// Computes the n - k syndromes of n slices, each into a slice of its own.
    ///
    /// # Errors
    /// There are not n and n - k slices, they are not equally long, or they are empty.
    pub fn syndromes<S: AsRef<[u8]>, T: AsMut<[u8]>>(self, symbols: &[S], syndromes: &mut [T]) -> Result<(), Error> {
        let mut shape = Shape::of(self.code);
        let sources = shape.shared("slices", self.code.n(), symbols)?;
        let outputs = shape.exclusive("syndrome slices", self.code.parity(), syndromes)?;
        let mut task = Write {
            symbols: Symbols::of(self.code, &sources[..symbols.len()], shape.columns()?),
            rows: self.code.parity(),
            matrix: None,
            outputs: first(&outputs),
        };
        // SAFETY: as in `encode`.
        unsafe { self.path.run(&mut task) };
        Ok(())
    }

    /// Corrects wrong symbols at unknown positions in n slices, each column for itself, within the mode.
    ///
    /// Columns that need more are counted as detected and left as they were; the slices are sound only if the report's
    /// `detected` is 0. One error per column is corrected in the vector unit; the second one of
    /// [`Mode::CorrectTwo`] by the scalar decoder, for the columns that have it.
    ///
    /// # Errors
    /// There are not n slices, they are not equally long, or they are empty; or the code cannot correct that many.
    pub fn correct<S: AsMut<[u8]>>(self, symbols: &mut [S], mode: Mode) -> Result<Report, Error> {
        self.repair(symbols, &[], mode)
    }

    /// Fills in erased slices, whatever they hold, and corrects errors elsewhere as the mode says.
    ///
    /// With e erasures, RS(n,k) still detects n - k - e errors per column, or corrects t and detects n - k - e - t, for
    /// 2 t + e ≤ n - k. Columns that need more are counted as detected and left as they were, erased bytes included.
    ///
    /// # Errors
    /// There are not n slices, they are not equally long, or they are empty; an erasure is outside the code, named
    /// twice, or one too many; or the mode and the erasures together are beyond the distance.
    pub fn repair<S: AsMut<[u8]>>(self, symbols: &mut [S], erasures: &[usize], mode: Mode) -> Result<Report, Error> {
        self.code.expect_erasures(erasures)?;
        self.code.expect_distance(mode, erasures.len())?;
        let mut shape = Shape::of(self.code);
        let places = shape.exclusive("slices", self.code.n(), symbols)?;
        let columns = shape.columns()?;
        let plan = Plan::new(self.code, erasures, mode != Mode::Detect)
            .expect("any n - k columns of the parity-check matrix are independent, and no more are asked for");
        let step = if mode == Mode::CorrectTwo { SECOND_LOOK_COLUMNS } else { columns };
        let mut report = Report::default();
        let mut at = 0;
        while at < columns {
            let length = step.min(columns - at);
            let mut window = [std::ptr::null_mut(); SYMBOLS_MAX];
            for (pointer, place) in window.iter_mut().zip(&places[..self.code.n()]) {
                // SAFETY: `at` is less than the columns, which every place has.
                *pointer = unsafe { place.add(at) };
            }
            // SAFETY: the slices are borrowed exclusively during the call, and are as long as the columns.
            let mended = unsafe { self.mend(&plan, erasures, &window, length, mode) };
            report.add(mended, at);
            at += length;
        }
        Ok(report)
    }

    /// Mends `columns` columns behind the places.
    ///
    /// # Safety
    /// The first n places may be read and written for `columns` bytes.
    unsafe fn mend(
        self,
        plan: &Plan,
        erasures: &[usize],
        places: &[*mut u8; SYMBOLS_MAX],
        columns: usize,
        mode: Mode,
    ) -> Report {
        let count = self.code.n();
        let mut sources = [None; SYMBOLS_MAX];
        for (position, source) in sources[..count].iter_mut().enumerate() {
            *source = (!erasures.contains(&position)).then_some(places[position].cast_const());
        }
        let symbols = Symbols::of(self.code, &sources[..count], columns);
        let mut task = Mend { plan, symbols, places: *places, count, code: self.code, report: Report::default() };
        // SAFETY: the path was available when this was made; the caller vouches for the pointers.
        unsafe {
            self.path.run(&mut task);
            if mode == Mode::CorrectTwo && task.report.detected > 0 {
                self.correct_second_errors(places, columns, &mut task.report);
            }
        }
        task.report
    }

    /// Gives the columns that are left to the scalar decoder, which finds two errors.
    ///
    /// # Safety
    /// As for `mend`.
    unsafe fn correct_second_errors(self, places: &[*mut u8; SYMBOLS_MAX], columns: usize, report: &mut Report) {
        let decoder = Decoder { mode: Mode::CorrectTwo, location_check: LocationCheck::On };
        let mut word = [0; SYMBOLS_MAX];
        let word = &mut word[..self.code.n()];
        let first = report.first_detected.take().unwrap_or(0);
        report.detected = 0;
        for column in first..columns {
            for (symbol, place) in word.iter_mut().zip(places) {
                // SAFETY: the caller vouches for the column.
                *symbol = unsafe { place.add(column).read() };
            }
            match self.code.decode(word, decoder) {
                Ok(Outcome::CorrectedTwo(errors)) => {
                    report.corrected += 1;
                    for error in errors {
                        report.corrected_at[error.position] += 1;
                        // SAFETY: as above.
                        unsafe { places[error.position].add(column).write(word[error.position]) };
                    }
                }
                Ok(Outcome::Clean) => {}
                _ => report.detect(column, 1),
            }
        }
    }
}

/// From the syndromes of the data symbols alone, in Horner's order, to the parity; `None` where they are the same.
fn parity_matrix(code: Code) -> Option<Square> {
    if code != Code::Rs36_32 {
        return None;
    }
    let mut matrix = code.parity_elimination().matrix;
    for row in &mut matrix {
        for (power, element) in row.iter_mut().enumerate() {
            // Horner's scheme ended at the last data symbol: the four parity symbols below it are powers still to come.
            *element = multiply(*element, power_of_alpha(power * code.parity()));
        }
    }
    Some(matrix)
}

fn first(outputs: &[*mut u8; SYMBOLS_MAX]) -> [*mut u8; SYNDROMES_MAX] {
    [outputs[0], outputs[1], outputs[2], outputs[3]]
}

/// What is known of the slices of a call so far: they must be equally long, and not empty.
///
/// Each slice is asked for once, and its pointer and length are taken from the same answer: an `AsRef` that answers
/// differently each time cannot mislead. What is written is borrowed exclusively, so that it overlaps nothing.
struct Shape {
    code: Code,
    slices: usize,
    columns: usize,
}

impl Shape {
    fn of(code: Code) -> Shape {
        Shape { code, slices: 0, columns: 0 }
    }

    fn shared<S: AsRef<[u8]>>(
        &mut self,
        what: &'static str,
        wanted: usize,
        slices: &[S],
    ) -> Result<[Option<*const u8>; SYMBOLS_MAX], Error> {
        self.expect_count(what, wanted, slices.len())?;
        let mut pointers = [None; SYMBOLS_MAX];
        for (pointer, slice) in pointers.iter_mut().zip(slices) {
            let slice = slice.as_ref();
            self.take(slice.len())?;
            *pointer = Some(slice.as_ptr());
        }
        Ok(pointers)
    }

    fn exclusive<S: AsMut<[u8]>>(
        &mut self,
        what: &'static str,
        wanted: usize,
        slices: &mut [S],
    ) -> Result<[*mut u8; SYMBOLS_MAX], Error> {
        self.expect_count(what, wanted, slices.len())?;
        let mut pointers = [std::ptr::null_mut(); SYMBOLS_MAX];
        for (pointer, slice) in pointers.iter_mut().zip(slices) {
            let slice = slice.as_mut();
            self.take(slice.len())?;
            *pointer = slice.as_mut_ptr();
        }
        Ok(pointers)
    }

    fn expect_count(&self, what: &'static str, wanted: usize, given: usize) -> Result<(), Error> {
        if wanted == given { Ok(()) } else { Err(Error::WrongCount { code: self.code, what, wanted, given }) }
    }

    fn take(&mut self, length: usize) -> Result<(), Error> {
        if self.slices == 0 {
            self.columns = length;
        }
        if length != self.columns {
            return Err(Error::UnequalShards { shard: self.slices, wanted: self.columns, given: length });
        }
        self.slices += 1;
        Ok(())
    }

    fn columns(&self) -> Result<usize, Error> {
        if self.columns == 0 { Err(Error::EmptyShards) } else { Ok(self.columns) }
    }
}
