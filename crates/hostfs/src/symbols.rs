//! /proc/kallsyms: the names of the kernel's functions by address.

use crate::{Error, Root, Unsupported};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use surefoot_model::Digits;

/// Distribution kernels with all modules have some 250,000 functions.
const SYMBOLS_MAX: usize = 1 << 20;

/// As much of the file as is read; a distribution's file has some 20 MiB.
const FILE_LIMIT_BYTES: u64 = 256 << 20;

/// A line as long as this has no symbol in it that anybody could use.
const LINE_LIMIT_BYTES: usize = 1024;

/// No function reaches further than this; an address beyond belongs to nothing that is known.
const FUNCTION_LIMIT_BYTES: u64 = 1 << 20;

/// How many functions at address zero show that the kernel hides them. One would do; a few cost nothing.
const ZEROS_MEAN_HIDDEN: usize = 16;

/// The kernel's functions, sorted by address.
#[derive(Debug, Clone, Default)]
pub struct Symbols {
    /// Address, and where the name begins in `names`; ascending, each address once.
    functions: Vec<(u64, u32)>,
    /// All names, each ended by a line feed.
    names: String,
    dropped: u64,
}

impl Symbols {
    /// Reads /proc/kallsyms and keeps the functions. Takes about a tenth of a second and 10 MiB at most on kernels of
    /// distributions.
    ///
    /// # Errors
    /// [`Unsupported`] when the file is not there, unreadable, empty of functions, or its addresses are hidden.
    pub fn load(root: &Root) -> Result<Self, Unsupported> {
        let path = root.proc("kallsyms");
        let file = crate::root::open(&path).map_err(|source| {
            Unsupported::of(&Error::Read { path: path.clone(), source }, "needs a kernel with CONFIG_KALLSYMS")
        })?;
        Self::from_reader(BufReader::with_capacity(1 << 16, file.take(FILE_LIMIT_BYTES)), &path)
    }

    /// Reads the text of /proc/kallsyms from anywhere. `path` is for the messages.
    ///
    /// # Errors
    /// As [`Symbols::load`].
    pub fn from_reader(mut text: impl BufRead, path: &Path) -> Result<Self, Unsupported> {
        let mut symbols = Symbols::default();
        let mut zeros = 0;
        let mut line = Vec::new();
        while next_line(&mut text, &mut line)
            .map_err(|source| Unsupported::of(&Error::Read { path: path.to_path_buf(), source }, ""))?
        {
            let Some((address, name)) = function(&line) else { continue };
            if address == 0 {
                zeros += 1;
                if zeros >= ZEROS_MEAN_HIDDEN && symbols.functions.is_empty() {
                    break;
                }
                continue;
            }
            symbols.push(address, name);
        }
        if symbols.functions.is_empty() && zeros > 0 {
            return Err(Unsupported::new(
                "the kernel hides the addresses of its functions from this process (kernel.kptr_restrict)",
                format!(
                    "{}; if that does not help, sysctl kernel.kptr_restrict=1",
                    crate::privilege::remedy(&["CAP_SYSLOG"])
                ),
            ));
        }
        if symbols.functions.is_empty() {
            return Err(Unsupported::new(format!("{} lists no function", path.display()), ""));
        }
        // The sort is stable, so that of several names of one address the kernel's first stays.
        symbols.functions.sort_by_key(|function| function.0);
        symbols.functions.dedup_by_key(|function| function.0);
        symbols.functions.shrink_to_fit();
        Ok(symbols)
    }

    fn push(&mut self, address: u64, name: &str) {
        match u32::try_from(self.names.len()) {
            Ok(start) if self.functions.len() < SYMBOLS_MAX => {
                self.functions.push((address, start));
                self.names.push_str(name);
                self.names.push('\n');
            }
            _ => self.dropped += 1,
        }
    }

    /// The function that contains this address.
    pub fn name(&self, address: u64) -> Option<&str> {
        self.locate(address).map(|(name, _)| name)
    }

    /// The function that contains this address, and how far into it the address is, bytes.
    pub fn locate(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.functions.partition_point(|function| function.0 <= address);
        let &(start, name) = self.functions.get(after.checked_sub(1)?)?;
        let offset = address - start;
        if offset >= FUNCTION_LIMIT_BYTES {
            return None;
        }
        let name = self.names[name as usize..].split('\n').next()?;
        Some((name, offset))
    }

    /// The address of a function; slow, meant for tests and start-up.
    pub fn address(&self, wanted: &str) -> Option<u64> {
        self.functions.iter().map(|function| function.0).find(|&address| self.name(address) == Some(wanted))
    }

    /// How many functions are known.
    pub fn len(&self) -> usize {
        self.functions.len()
    }

    /// Whether no function is known; never so after loading.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Functions beyond the limit, which were left out.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Reads one line without its end into `line`, cut at [`LINE_LIMIT_BYTES`]; `false` at the end of the text.
fn next_line(text: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let buffer = text.fill_buf()?;
        if buffer.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = LINE_LIMIT_BYTES - line.len();
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = end.map_or(buffer.len(), |end| end + 1);
        text.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

/// `ffffffff81000000 T _stext`, with `[module]` after a tab for the functions of modules: the address and name, if it is a function.
fn function(line: &[u8]) -> Option<(u64, &str)> {
    let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
    let address = words.next()?.hex_digits::<u64>()?;
    let kind = words.next()?;
    let name = words.next()?;
    matches!(kind, "t" | "T" | "w" | "W").then_some((address, name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn load(text: &str) -> Result<Symbols, Unsupported> {
        Symbols::from_reader(text.as_bytes(), Path::new("/proc/kallsyms"))
    }

    const TEXT: &str = "0000000000000000 A fixed_percpu_data
ffffffff81000200 t second
ffffffff81000100 T first
ffffffff81000100 T alias_of_first
ffffffff81000180 d some_data
ffffffffc0201000 t nvme_poll	[nvme]
";

    #[test]
    fn an_address_belongs_to_the_function_before_it() {
        let symbols = load(TEXT).unwrap();
        assert_eq!(symbols.len(), 3);
        for (address, name) in [
            (0xffff_ffff_8100_00ff, None),
            (0xffff_ffff_8100_0100, Some("first")),
            (0xffff_ffff_8100_01ff, Some("first")),
            (0xffff_ffff_8100_0200, Some("second")),
            (0xffff_ffff_8110_0200, None),
            (0xffff_ffff_c020_1005, Some("nvme_poll")),
            (0x7fff_0000_0000, None),
        ] {
            assert_eq!(symbols.name(address), name, "{address:x}");
        }
        assert_eq!(symbols.locate(0xffff_ffff_c020_1005), Some(("nvme_poll", 5)));
        assert_eq!(symbols.address("second"), Some(0xffff_ffff_8100_0200));
    }

    #[test]
    fn hidden_addresses_are_unsupported_and_not_a_table_of_zeros() {
        let hidden = load("0000000000000000 T _stext\n0000000000000000 t do_one\n").unwrap_err();
        assert!(hidden.why.contains("kptr_restrict"), "{hidden}");
        assert_eq!(load("").unwrap_err().why, "/proc/kallsyms lists no function");
        assert_eq!(load("0000000000000000 A percpu\n").unwrap_err().why, "/proc/kallsyms lists no function");
    }

    #[test]
    fn a_line_without_an_end_costs_no_memory() {
        let long = format!("ffffffff81000100 T first\nffffffff81000200 T {}", "x".repeat(1 << 20));
        let symbols = load(&long).unwrap();
        assert_eq!(symbols.name(0xffff_ffff_8100_0200).map(str::len), Some(LINE_LIMIT_BYTES - 19));
    }
}
