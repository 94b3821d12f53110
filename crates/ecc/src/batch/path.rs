//! Which instructions the kernels are made of, and the one way into each.

use super::vector::{Vector, Words};
use crate::Error;
use std::fmt;

/// The instructions that a [`crate::Batch`] uses.
///
/// All paths give the same bytes. None multiplies with byte-shuffle tables: constants that are powers of α are
/// multiplied by doubling (Horner's scheme), or by the GFNI instruction for affine maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Path {
    /// Machine words of 64 bits, in plain Rust.
    Portable,
    /// NEON on aarch64.
    Neon,
    /// AVX2 on x86-64.
    Avx2,
    /// AVX2 and GFNI on x86-64.
    Avx2Gfni,
    /// AVX-512 F and BW on x86-64.
    Avx512,
    /// AVX-512 F and BW, and GFNI, on x86-64.
    Avx512Gfni,
}

/// Something to be done with vectors of any type.
pub(super) trait Task {
    /// Does it. To be marked `inline(always)`, so that it gets the features of the function that enters it.
    ///
    /// # Safety
    /// The processor has the features of `V`.
    unsafe fn run<V: Vector>(&mut self);
}

impl Path {
    /// Every path, the slowest first.
    pub const ALL: [Path; 6] = [Path::Portable, Path::Neon, Path::Avx2, Path::Avx2Gfni, Path::Avx512, Path::Avx512Gfni];

    /// The fastest path that this processor has.
    pub fn best() -> Path {
        Path::ALL.into_iter().rev().find(|path| path.is_available()).unwrap_or(Path::Portable)
    }

    /// Whether this processor, and the operating system, have what the path needs.
    pub fn is_available(self) -> bool {
        match self {
            Path::Portable => true,
            Path::Neon => cfg!(target_arch = "aarch64"),
            _ => self.is_available_on_x86(),
        }
    }

    /// What the processor must have.
    pub const fn needs(self) -> &'static str {
        match self {
            Path::Portable => "nothing",
            Path::Neon => "aarch64",
            Path::Avx2 => "x86-64 with AVX2",
            Path::Avx2Gfni => "x86-64 with AVX2 and GFNI",
            Path::Avx512 => "x86-64 with AVX-512 F and BW",
            Path::Avx512Gfni => "x86-64 with AVX-512 F and BW, and GFNI",
        }
    }

    pub(super) fn expect_available(self) -> Result<(), Error> {
        if self.is_available() { Ok(()) } else { Err(Error::PathUnavailable { path: self, needs: self.needs() }) }
    }

    #[cfg(target_arch = "x86_64")]
    fn is_available_on_x86(self) -> bool {
        let avx512 = || is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
        let gfni = || is_x86_feature_detected!("gfni");
        match self {
            Path::Avx2 => is_x86_feature_detected!("avx2"),
            Path::Avx2Gfni => is_x86_feature_detected!("avx2") && gfni(),
            Path::Avx512 => avx512(),
            Path::Avx512Gfni => avx512() && gfni(),
            Path::Portable | Path::Neon => false,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn is_available_on_x86(self) -> bool {
        false
    }

    /// Runs the task with the instructions of the path.
    ///
    /// # Safety
    /// The path is available on this processor.
    pub(super) unsafe fn run(self, task: &mut impl Task) {
        // SAFETY: the caller vouches for the features of the path; every path has at least those of `Words`.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Path::Avx2 => enter::avx2(task),
                #[cfg(target_arch = "x86_64")]
                Path::Avx2Gfni => enter::avx2_gfni(task),
                #[cfg(target_arch = "x86_64")]
                Path::Avx512 => enter::avx512(task),
                #[cfg(target_arch = "x86_64")]
                Path::Avx512Gfni => enter::avx512_gfni(task),
                #[cfg(target_arch = "aarch64")]
                Path::Neon => enter::neon(task),
                _ => task.run::<Words>(),
            }
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Path::Portable => "portable",
            Path::Neon => "neon",
            Path::Avx2 => "avx2",
            Path::Avx2Gfni => "avx2-gfni",
            Path::Avx512 => "avx512",
            Path::Avx512Gfni => "avx512-gfni",
        })
    }
}

/// The functions that are compiled with the features; what they inline is, too.
#[cfg(target_arch = "x86_64")]
mod enter {
    use super::Task;
    use crate::batch::x86::{Avx2, Avx512};

    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn avx2(task: &mut impl Task) {
        // SAFETY: whoever calls this has checked for the features named above.
        unsafe { task.run::<Avx2<false>>() }
    }

    #[target_feature(enable = "avx2,gfni")]
    pub(super) unsafe fn avx2_gfni(task: &mut impl Task) {
        // SAFETY: whoever calls this has checked for the features named above.
        unsafe { task.run::<Avx2<true>>() }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn avx512(task: &mut impl Task) {
        // SAFETY: whoever calls this has checked for the features named above.
        unsafe { task.run::<Avx512<false>>() }
    }

    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    pub(super) unsafe fn avx512_gfni(task: &mut impl Task) {
        // SAFETY: whoever calls this has checked for the features named above.
        unsafe { task.run::<Avx512<true>>() }
    }
}

/// The function that is compiled with the features; what it inlines is, too.
#[cfg(target_arch = "aarch64")]
mod enter {
    use super::Task;
    use crate::batch::neon::Neon;

    #[target_feature(enable = "neon")]
    pub(super) unsafe fn neon(task: &mut impl Task) {
        // SAFETY: every aarch64 target of Rust has NEON.
        unsafe { task.run::<Neon>() }
    }
}
