//! The loop allocates nothing: an allocator that counts says so.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches a number of this thread only.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn turns_allocate_nothing_with_and_without_gaps() {
    let directory = super::directory();
    let before_open = CALLS.get();
    let mut always = super::open(directory.path(), Duration::ZERO);
    let mut never = super::open(directory.path(), Duration::from_secs(3600));
    assert!(CALLS.get() > before_open, "the allocator does not count");
    let before = CALLS.get();
    for _ in 0..100_000 {
        always.turn();
        never.turn();
        never.restart();
    }
    assert_eq!(CALLS.get(), before);
    assert!(always.noted() > 50_000 && never.noted() == 0);
}
