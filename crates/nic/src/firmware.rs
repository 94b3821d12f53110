//! The control program as the interface loads it: three builds that come with Surefoot, and any other ELF file for rv32.

use crate::device::registers::SRAM_BYTES;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SectionKind, SymbolKind};

/// The builds of `firmware/ncp`. `cargo xtask firmware` makes them anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Build {
    /// GM: numbers made by the interface, early acknowledgement, no watchdog.
    Plain,
    /// FDGM: with the watchdog and the self-test.
    Detecting,
    /// FTGM: and numbers made by the host, late acknowledgement.
    Tolerant,
}

impl Build {
    /// Its name in options and outputs.
    pub fn name(self) -> &'static str {
        match self {
            Build::Plain => "plain",
            Build::Detecting => "detecting",
            Build::Tolerant => "tolerant",
        }
    }

    fn elf(self) -> &'static [u8] {
        match self {
            Build::Plain => include_bytes!("../../../firmware/ncp/built/plain.elf"),
            Build::Detecting => include_bytes!("../../../firmware/ncp/built/detecting.elf"),
            Build::Tolerant => include_bytes!("../../../firmware/ncp/built/tolerant.elf"),
        }
    }
}

/// Why a file is no control program.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum FirmwareError {
    /// No ELF file, or a damaged one.
    #[error("it is no ELF file that can be read: {0}")]
    NotElf(String),
    /// For another processor.
    #[error("it is not for rv32: {0}; build it with --target=riscv32-unknown-elf -march=rv32im")]
    OtherProcessor(String),
    /// It does not fit.
    #[error(
        "a segment at {address:#x} with {bytes} bytes does not fit into the interface's {SRAM_BYTES:#x} bytes of memory"
    )]
    TooLarge {
        /// Where it begins.
        address: u64,
        /// How long it is.
        bytes: u64,
    },
    /// Nothing at address 0.
    #[error("it has no code at address 0, where the processor starts")]
    NoCode,
}

/// A function of the control program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Where it begins.
    pub address: u32,
    /// How long it is, bytes.
    pub bytes: u32,
}

/// A control program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Firmware {
    /// What is put at address 0.
    pub image: Vec<u8>,
    /// The end of the code; constants and data follow.
    pub code_bytes: u32,
    /// Its functions, by address.
    pub functions: Vec<Function>,
}

impl Firmware {
    /// One of the builds that come with Surefoot.
    pub fn built(build: Build) -> Self {
        // They are checked in, and a test reads each.
        Firmware::read(build.elf()).unwrap_or(Firmware { image: Vec::new(), code_bytes: 0, functions: Vec::new() })
    }

    /// Reads an ELF file.
    ///
    /// # Errors
    /// [`FirmwareError`].
    pub fn read(bytes: &[u8]) -> Result<Self, FirmwareError> {
        let file = object::File::parse(bytes).map_err(|error| FirmwareError::NotElf(error.to_string()))?;
        if file.architecture() != object::Architecture::Riscv32 {
            return Err(FirmwareError::OtherProcessor(format!("{:?}", file.architecture())));
        }
        let mut image = Vec::new();
        for segment in file.segments() {
            let data = segment.data().map_err(|error| FirmwareError::NotElf(error.to_string()))?;
            let (address, length) = (segment.address(), segment.size().max(data.len() as u64));
            if address.checked_add(length).is_none_or(|end| end > u64::from(SRAM_BYTES)) {
                return Err(FirmwareError::TooLarge { address, bytes: length });
            }
            let (from, to) = (address as usize, address as usize + data.len());
            image.resize(image.len().max(to), 0);
            image[from..to].copy_from_slice(data);
        }
        let code = file.sections().filter(|section| section.kind() == SectionKind::Text);
        let code_bytes = code.map(|section| (section.address() + section.size()) as u32).max().unwrap_or(0);
        if image.first_chunk::<4>().is_none_or(|word| *word == [0; 4]) || code_bytes as usize > image.len() {
            return Err(FirmwareError::NoCode);
        }
        let mut functions: Vec<Function> = file
            .symbols()
            .filter(|symbol| {
                symbol.kind() == SymbolKind::Text && symbol.address() + symbol.size() <= u64::from(code_bytes)
            })
            .filter_map(|symbol| {
                let name = symbol.name().ok()?.to_owned();
                Some(Function { name, address: symbol.address() as u32, bytes: symbol.size() as u32 })
            })
            .collect();
        functions.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
        Ok(Firmware { image, code_bytes, functions })
    }

    /// The function that an address lies in.
    pub fn function_at(&self, address: u32) -> Option<&Function> {
        self.functions.iter().rev().find(|one| one.address <= address && address < one.address + one.bytes)
    }

    /// A function by its name.
    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|one| one.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_builds_are_whole_and_have_their_functions() {
        for build in [Build::Plain, Build::Detecting, Build::Tolerant] {
            let firmware = Firmware::read(build.elf()).unwrap();
            let send_chunk = firmware.function("send_chunk_normal_low").unwrap();
            assert_eq!(firmware.function_at(send_chunk.address + 4), Some(send_chunk));
            assert!(firmware.code_bytes > 8 << 10, "{build:?}");
        }
        assert_ne!(Firmware::built(Build::Plain).image, Firmware::built(Build::Tolerant).image);
    }

    #[test]
    fn what_is_no_control_program_says_why() {
        assert!(matches!(Firmware::read(b"no"), Err(FirmwareError::NotElf(_))));
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(matches!(Firmware::read(&own), Err(FirmwareError::OtherProcessor(_))));
        let whole = Build::Plain.elf();
        for length in 0..whole.len().min(2_000) {
            let _ = Firmware::read(&whole[..length]);
        }
        let mut moved = whole.to_vec();
        // The address of the first segment, p_vaddr of the first program header.
        let header = u32::from_le_bytes(moved[28..32].try_into().unwrap()) as usize;
        moved[header + 8..header + 12].copy_from_slice(&0x1f_f000_u32.to_le_bytes());
        assert!(matches!(Firmware::read(&moved), Err(FirmwareError::TooLarge { .. })));
    }
}
