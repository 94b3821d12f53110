//! Who raised, in words, for the reason that stands below a remedy.

use crate::limit::is_nameless;
use std::collections::HashMap;
use surefoot_model::{Interrupt, Raiser};

/// How many arrivals these raisers have raised, and which of them raised most: by name, place and, where the stack
/// tells, the function that called.
pub(super) fn raised_by(interrupt: &Interrupt, raisers: &[&Raiser]) -> String {
    let count: u64 = raisers.iter().map(|raiser| raiser.count).sum();
    let mut groups: HashMap<(&str, &str), u64> = HashMap::new();
    for raiser in raisers {
        *groups.entry((&raiser.comm, place(raiser))).or_default() += raiser.count;
    }
    let of_group = |raiser: &Raiser| groups.get(&(raiser.comm.as_str(), place(raiser))).copied().unwrap_or(0);
    // Raisers come most frequent first, and the first of the largest group speaks for it; those that are not told apart
    // speak only where nobody else can.
    let speaks = |raiser: &&Raiser| (!is_nameless(raiser), of_group(raiser));
    let Some(first) = raisers.iter().copied().rev().max_by_key(speaks) else {
        return format!("it came {}", times(interrupt.count));
    };
    let mut text = format!("{count} of {} arrivals", interrupt.count.max(count));
    if of_group(first) < count {
        text += &format!(", {} of them", of_group(first));
    }
    text + " " + &from(first)
}

/// How often, in words.
pub(super) fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

/// Where a raise came from: `from stats in munmap, called by close_counter`. No part is named that is not known.
pub(super) fn from(raiser: &Raiser) -> String {
    if is_nameless(raiser) {
        return "from raisers that are not told apart".to_owned();
    }
    let comm = if raiser.comm.is_empty() { "a thread without a name" } else { &raiser.comm };
    let mut text = match comm {
        "(interrupt)" => "from an interrupt".to_owned(),
        "(periodic, or armed before)" => "from a timer that starts itself again".to_owned(),
        comm => format!("from {comm}"),
    };
    if raiser.syscall.is_empty() && has_kernel(raiser, &["exc_page_fault", "handle_mm_fault"]) {
        text += " in a page fault";
    } else if !place(raiser).is_empty() {
        text += &format!(" in {}", place(raiser));
    }
    match caller(raiser) {
        Some(caller) if raiser.syscall.is_empty() => text += &format!(", at {caller}"),
        Some(caller) => text += &format!(", called by {caller}"),
        None => {}
    }
    text
}

fn place(raiser: &Raiser) -> &str {
    if raiser.syscall.is_empty() { &raiser.function } else { &raiser.syscall }
}

/// The name of a frame's function, without what the symbolizer adds to it. What stands in angle brackets belongs to the
/// name, whatever it contains: `<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop`.
pub(super) fn function_of(frame: &str) -> &str {
    const UNNAMED: &str = "(anonymous namespace)";
    let mut depth = 0usize;
    let mut from = 0;
    let mut before = ' ';
    for (at, letter) in frame.char_indices() {
        if at < from {
            continue;
        }
        match letter {
            '<' => depth += 1,
            // An arrow within a type closes nothing.
            '>' if before != '-' => depth = depth.saturating_sub(1),
            '(' if frame[at..].starts_with(UNNAMED) => from = at + UNNAMED.len(),
            '(' if frame[..at].ends_with("operator") => from = at + 2,
            ' ' | '+' | '(' | '@' if depth == 0 && at > 0 => return &frame[..at],
            _ => {}
        }
        before = letter;
    }
    // Brackets that do not close, as in `operator<`: the first word.
    if depth > 0 { frame.split([' ', '@']).next().unwrap_or(frame) } else { frame }
}

/// The function that made the system call: the innermost frame that is not the C library's wrapper of that call.
/// Outside a call the innermost frame. `None` where it has no name.
fn caller(raiser: &Raiser) -> Option<&str> {
    let is_wrapper =
        |name: &str| !raiser.syscall.is_empty() && (name == "syscall" || name.contains(raiser.syscall.as_str()));
    let mut frames = raiser.user_stack.iter().filter(|frame| !is_wrapper(function_of(frame)));
    frames.next().filter(|frame| has_name(frame)).map(|frame| function_of(frame)).filter(|name| !name.is_empty())
}

/// Whether a frame has a name: without one it is an address, or a file and an offset, with the reason behind.
fn has_name(frame: &str) -> bool {
    !frame.starts_with("0x") && (!frame.contains("+0x") || !frame.ends_with(')'))
}

/// Whether a function of this kind is in the user stack.
pub(super) fn has_user(raiser: &Raiser, fits: impl Fn(&str) -> bool) -> bool {
    raiser.user_stack.iter().any(|frame| fits(function_of(frame)))
}

/// Whether one of these functions is in the kernel stack; the compiler's parts of one (`.part.0`, `.isra.0`) count.
pub(super) fn has_kernel(raiser: &Raiser, functions: &[&str]) -> bool {
    raiser.kernel_stack.iter().any(|frame| functions.contains(&frame.split('.').next().unwrap_or(frame)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::Certainty;

    fn raiser(comm: &str, syscall: &str, function: &str, user_stack: &[&str]) -> Raiser {
        Raiser {
            certainty: Certainty::Certain,
            function: function.into(),
            syscall: syscall.into(),
            comm: comm.into(),
            pid: 7,
            tid: 8,
            wakee: String::new(),
            count: 9,
            kernel_stack: Vec::new(),
            user_stack: user_stack.iter().map(|&frame| frame.to_owned()).collect(),
            is_sum: false,
        }
    }

    #[test]
    fn a_sentence_ends_where_nothing_more_is_known() {
        assert_eq!(from(&raiser("stats", "", "", &[])), "from stats");
        assert_eq!(from(&raiser("", "", "", &[])), "from a thread without a name");
        assert_eq!(from(&raiser("(interrupt)", "", "wake-up", &[])), "from an interrupt in wake-up");
        let fault = Raiser {
            kernel_stack: vec!["do_wp_page".into(), "exc_page_fault".into()],
            ..raiser("stats", "", "flush_tlb_func", &["fill", "main"])
        };
        assert_eq!(from(&fault), "from stats in a page fault, at fill");
        assert_eq!(from(&raiser("stats", "munmap", "f", &["0x12 (stripped)"])), "from stats in munmap");
        assert_eq!(from(&raiser("stats", "munmap", "f", &["libc.so.6+0x12 (no symbol)", "f"])), "from stats in munmap");
        assert_eq!(from(&raiser("stats", "munmap", "f", &["munmap", "f"])), "from stats in munmap, called by f");
    }

    #[test]
    fn names_with_angle_brackets_are_whole() {
        for (frame, name) in [
            ("<alloc::vec::Vec<T, A> as core::ops::drop::Drop>::drop", ""),
            ("<T as App>::run (inlined)", "<T as App>::run"),
            (
                "core::ptr::drop_in_place<alloc::vec::Vec<fn(u8) -> bool>>+0x40",
                "core::ptr::drop_in_place<alloc::vec::Vec<fn(u8) -> bool>>",
            ),
            ("std::map<int, char>::erase(int) const", "std::map<int, char>::erase"),
            ("(anonymous namespace)::close(int)", "(anonymous namespace)::close"),
            ("Timer::operator()(int)", "Timer::operator()"),
            ("fclose@@GLIBC_2.2.5+0x40", "fclose"),
            ("__munmap (inlined)", "__munmap"),
            ("operator< (a, b)", "operator<"),
            ("main", ""),
        ] {
            assert_eq!(function_of(frame), if name.is_empty() { frame } else { name });
        }
    }
}
