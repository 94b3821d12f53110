//! Which program a stack is of. A process keeps its number when it calls execve, and the addresses of the program before
//! mean something else in the new one; so a stack is told by what is mapped only while its own program is what runs.

use surefoot_hostfs::Root;
use surefoot_hostfs::images::{self, Mapping};
use surefoot_hostfs::tasks::TaskStat;

/// A process, and which of its programs ([`surefoot_probes::Raised::image`]); 0 where that is not known.
pub(crate) type Of = (u32, u64);

/// Why a stack has no names.
pub(crate) const GONE: &str = "the process is gone";
const ANOTHER: &str = "the process runs another program since";

/// The program that a process runs now; 0 for none, while one takes another's place, and for who may not know.
fn running(root: &Root, pid: u32) -> u64 {
    TaskStat::of_process(root, pid).map_or(0, |stat| stat.start_stack)
}

/// Whether what was read while `read_of` ran holds for a stack of `image`. It does where nobody knows what the stack is of.
pub(crate) fn is_of(image: u64, read_of: u64) -> bool {
    image == 0 || image == read_of
}

/// Whether the process runs this program still.
pub(crate) fn runs(root: &Root, (pid, image): Of) -> bool {
    image == 0 || running(root, pid) == image
}

/// What is mapped, if the program ran before and after it was read; `None` also for a process that is gone.
pub(crate) fn mappings(root: &Root, of: Of) -> Option<Vec<Mapping>> {
    if !runs(root, of) {
        return None;
    }
    let mappings = images::mappings(root, of.0).ok()?;
    runs(root, of).then_some(mappings)
}

/// Why nothing is known of a program.
pub(crate) fn why_not(root: &Root, (pid, image): Of) -> &'static str {
    let now = running(root, pid);
    if image != 0 && now != 0 && now != image { ANOTHER } else { GONE }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use surefoot_testkit::HostTree;

    /// The stat of a process whose program's stack begins there.
    pub(crate) fn stat(pid: u32, start_stack: u64) -> String {
        let field = |field| if field == 28 { start_stack.to_string() } else { "1".to_owned() };
        format!("{pid} (a) b) S {}\n", (4..=52).map(field).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn what_is_mapped_is_believed_only_of_the_program_that_runs() {
        let tree = HostTree::new().file("proc/7/maps", "1000-2000 r-xp 00000000 00:00 0 [vdso]\n");
        let root = Root::at(tree.path());
        let is_mapped = |image| mappings(&root, (7, image)).is_some();
        assert!(is_mapped(0) && !is_mapped(5), "without a stat nothing says that it is the same");
        tree.write("proc/7/stat", stat(7, 5));
        assert!(is_mapped(0) && is_mapped(5) && !is_mapped(6) && !is_mapped(u64::MAX));
        assert_eq!([5, 6, u64::MAX, 0].map(|image| why_not(&root, (7, image))), [GONE, ANOTHER, ANOTHER, GONE]);
        // It ends, or may not be looked at.
        tree.write("proc/7/stat", stat(7, 0));
        assert!(is_mapped(0) && !is_mapped(5));
        assert_eq!(why_not(&root, (7, 5)), GONE);
        assert!(is_of(0, 0) && is_of(0, 5) && is_of(5, 5) && !is_of(5, 0) && !is_of(5, 6));
    }
}
