//! The names of the kernel's functions: one table, shared by all who name any, read again when modules come or go.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use surefoot_hostfs::{Root, Unsupported, symbols::Symbols};

/// The table is not read again for an unknown address more often than this: it takes a tenth of a second and megabytes.
const RELOAD_EVERY: Duration = Duration::from_secs(10);

/// Addresses that are remembered as having no name.
const UNNAMED_MAX: usize = 4096;

/// The table of /proc/kallsyms, some megabytes of it, or why there is none. A clone is the same table.
#[derive(Clone)]
pub struct KernelNames(Arc<Shared>);

struct Shared {
    root: Root,
    /// Why functions cannot be named; then the table is empty for good.
    missing: Option<Unsupported>,
    table: Mutex<Table>,
    generation: AtomicU64,
    reload_every: Duration,
}

struct Table {
    symbols: Symbols,
    /// Name and address of each module that was loaded when the table was read.
    modules: String,
    read: Instant,
    /// Addresses that this table has no name for.
    unnamed: HashSet<u64>,
}

impl KernelNames {
    /// Reads the table.
    pub fn load(root: &Root) -> Self {
        KernelNames::load_again_every(root, RELOAD_EVERY)
    }

    fn load_again_every(root: &Root, reload_every: Duration) -> Self {
        let (symbols, missing) = match read(root) {
            Ok(symbols) => (symbols, None),
            Err(why) => (Symbols::default(), Some(why)),
        };
        let modules = modules(root);
        let table = Mutex::new(Table { symbols, modules, read: Instant::now(), unnamed: HashSet::new() });
        let generation = AtomicU64::new(0);
        KernelNames(Arc::new(Shared { root: root.clone(), missing, table, generation, reload_every }))
    }

    /// The function that an address lies in. An address that the table does not know may belong to a module or a program
    /// that came later: then the table is read again, which is limited in how often it happens.
    pub fn name(&self, address: u64) -> Option<String> {
        if self.0.missing.is_some() {
            return None;
        }
        let mut table = self.table();
        if let Some(name) = table.symbols.name(address) {
            return Some(name.to_owned());
        }
        if table.unnamed.contains(&address) {
            return None;
        }
        if table.read.elapsed() < self.0.reload_every {
            // Not for good: the table may be read again when it is asked for next.
            return None;
        }
        self.reload(&mut table);
        let name = table.symbols.name(address).map(str::to_owned);
        if name.is_none() && table.unnamed.len() < UNNAMED_MAX {
            table.unnamed.insert(address);
        }
        name
    }

    /// Reads the table again if other modules are loaded than before: an address may have another name now.
    pub fn refresh(&self) {
        if self.0.missing.is_some() {
            return;
        }
        let modules = modules(&self.0.root);
        let mut table = self.table();
        if modules != table.modules {
            self.reload(&mut table);
        }
    }

    /// Changes when the table is read again; names that were kept may be others then.
    pub fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Relaxed)
    }

    /// Why functions cannot be named, if they cannot.
    pub fn missing(&self) -> Option<&Unsupported> {
        self.0.missing.as_ref()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A panic of another thread leaves a table behind that is as good as before.
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A table that cannot be read any more leaves the old one.
    fn reload(&self, table: &mut Table) {
        table.read = Instant::now();
        let modules = modules(&self.0.root);
        if modules != table.modules {
            table.modules = modules;
            table.unnamed.clear();
        }
        if let Ok(symbols) = read(&self.0.root) {
            table.symbols = symbols;
            self.0.generation.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many share the table.
    #[cfg(test)]
    pub(crate) fn sharers(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

fn read(root: &Root) -> Result<Symbols, Unsupported> {
    #[cfg(test)]
    LOADED.with(|loaded| loaded.set(loaded.get() + 1));
    Symbols::load(root)
}

/// The loaded modules, by name and address; their use counts change all the time. Empty without modules.
fn modules(root: &Root) -> String {
    let text = root.read_again(root.proc("modules")).unwrap_or_default();
    let mut modules = String::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (name, state, address) = (words.next(), words.nth(3), words.next());
        modules.extend([name, state, address].into_iter().flatten().flat_map(|word| [word, " "]));
    }
    modules
}

#[cfg(test)]
thread_local! {
    /// How often this thread has read the table.
    pub(crate) static LOADED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use surefoot_testkit::HostTree;

    const KERNEL: &str = "ffffffff81000000 T _text\nffffffff81001000 t do_sync_core\n";

    fn write(tree: &HostTree, modules: &str, symbols: &str) {
        std::fs::write(tree.path().join("proc/modules"), modules).unwrap();
        std::fs::write(tree.path().join("proc/kallsyms"), format!("{KERNEL}{symbols}")).unwrap();
    }

    #[test]
    fn the_functions_of_a_module_that_is_loaded_later_have_names() {
        let tree = HostTree::new().file("proc/modules", "").file("proc/kallsyms", KERNEL);
        let names = KernelNames::load_again_every(&Root::at(tree.path()), Duration::ZERO);
        const INSIDE: u64 = 0xffff_ffff_c030_0010;
        assert_eq!((names.name(INSIDE), names.generation()), (None, 1), "the table was read again, in vain");
        names.name(INSIDE);
        assert_eq!(names.generation(), 1, "once for an address");
        write(&tree, "e1000e 1 0 - Live 0xffffffffc0300000\n", "ffffffffc0300000 t e1000_msix_other\t[e1000e]\n");
        names.refresh();
        assert_eq!(names.name(INSIDE).as_deref(), Some("e1000_msix_other"));
        // Another module in its place: the address is known, and another function.
        write(&tree, "nvme 1 0 - Live 0xffffffffc0300000\n", "ffffffffc0300000 t nvme_irq\t[nvme]\n");
        names.refresh();
        assert_eq!(names.name(INSIDE).as_deref(), Some("nvme_irq"));
        let generation = names.generation();
        write(&tree, "nvme 1 7 xfs,ext4, Live 0xffffffffc0300000\n", "ffffffffc0300000 t nvme_irq\t[nvme]\n");
        names.refresh();
        assert_eq!(names.generation(), generation, "the same modules, used by more");
    }

    #[test]
    fn a_program_that_is_loaded_later_is_found_by_its_address() {
        let tree = HostTree::new().file("proc/modules", "").file("proc/kallsyms", KERNEL);
        let names = KernelNames::load_again_every(&Root::at(tree.path()), Duration::ZERO);
        write(&tree, "", "ffffffffc0500000 t bpf_prog_6deef7357e7b4530_sd\t[bpf]\n");
        assert_eq!(names.name(0xffff_ffff_c050_0004).as_deref(), Some("bpf_prog_6deef7357e7b4530_sd"));
    }

    #[test]
    fn a_table_that_was_just_read_is_not_read_again_for_an_unknown_address() {
        let tree = HostTree::new().file("proc/kallsyms", KERNEL);
        let names = KernelNames::load_again_every(&Root::at(tree.path()), Duration::from_secs(3600));
        assert_eq!((names.name(0xffff_ffff_c050_0004), names.generation()), (None, 0));
    }
}
