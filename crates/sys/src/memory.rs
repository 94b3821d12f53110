//! The memory of this process, as its allocator keeps it.
//!
//! glibc gives each thread an arena, raises by itself the size above which memory comes from the kernel and goes back to it,
//! and returns the rest only from an arena's end: one record that stays there keeps all below it. A process that stays
//! for months beside bursts of records then holds the largest burst of each of its threads for good.

/// Keeps the allocator from growing: few arenas, and large pieces always from the kernel. To be called before threads
/// are started. Allocators other than glibc's are left as they are.
pub fn keep_small() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in
        [(libc::M_ARENA_MAX, 2), (libc::M_MMAP_THRESHOLD, 256 << 10), (libc::M_TRIM_THRESHOLD, 256 << 10)]
    {
        // SAFETY: it takes numbers alone, and what it refuses stays as it was.
        unsafe { libc::mallopt(parameter, value) };
    }
}

/// Gives free pages back to the kernel, wherever they lie. Takes the allocator's locks and some milliseconds where much is
/// free.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it touches only what the allocator knows to be free.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::Digits;

    fn resident_pages() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        text.split(' ').nth(1).and_then(|pages| pages.digits()).unwrap_or(0)
    }

    #[test]
    #[cfg(target_env = "gnu")]
    fn what_is_free_between_what_stays_goes_back() {
        keep_small();
        let mut pieces: Vec<Option<Box<[u8]>>> = (0..40_000).map(|_| Some(vec![1u8; 4_096].into())).collect();
        let full = resident_pages();
        // One in a hundred stays.
        pieces.iter_mut().enumerate().filter(|(number, _)| number % 100 != 0).for_each(|(_, piece)| *piece = None);
        give_back();
        let left = resident_pages();
        assert!(left + 30_000 < full, "{full} pages, then {left}");
        assert_eq!(pieces.iter().flatten().count(), 400);
    }
}
