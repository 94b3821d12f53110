//! The names of the kernel's functions: read once, and shared by all who name any.

use std::sync::Arc;
use surefoot_hostfs::{Root, Unsupported, symbols::Symbols};

/// The table of /proc/kallsyms, some megabytes of it, or why there is none. A clone is the same table.
#[derive(Clone)]
pub struct KernelNames(Arc<Result<Symbols, Unsupported>>);

impl KernelNames {
    /// Reads the table.
    pub fn load(root: &Root) -> Self {
        #[cfg(test)]
        LOADED.with(|loaded| loaded.set(loaded.get() + 1));
        KernelNames(Arc::new(Symbols::load(root)))
    }

    /// The function that an address lies in.
    pub fn name(&self, address: u64) -> Option<&str> {
        self.0.as_ref().as_ref().ok()?.name(address)
    }

    /// Why functions cannot be named, if they cannot.
    pub fn missing(&self) -> Option<&Unsupported> {
        self.0.as_ref().as_ref().err()
    }

    /// How many share the table.
    #[cfg(test)]
    pub(crate) fn sharers(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

#[cfg(test)]
thread_local! {
    /// How often this thread has read the table.
    pub(crate) static LOADED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}
