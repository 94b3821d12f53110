//! Which fault this process has.

use crate::firmware::Build;
use std::sync::LazyLock;

/// The number of the fault.
pub const NUMBER: &str = "SUREFOOT_MUTANT";
/// The control program with a fault, an ELF file.
pub const ELF: &str = "SUREFOOT_MUTANT_ELF";

/// Whether it is this one.
pub fn is(number: usize) -> bool {
    static CHOSEN: LazyLock<Option<usize>> = LazyLock::new(|| std::env::var(NUMBER).ok()?.parse().ok());
    *CHOSEN == Some(number)
}

/// The control program with its fault, in the place of the tolerant one.
pub fn elf(build: Build) -> Option<Vec<u8>> {
    let path = std::env::var_os(ELF).filter(|_| build == Build::Tolerant)?;
    Some(std::fs::read(path).unwrap())
}
