//! Who interrupted the watched cores: a report within its limits, and its shape in the API.

use crate::filter::Filter;
use crate::state::Kept;
use crate::view::Origin;
use crate::weight::{interrupt_bytes, loop_bytes, loop_gap_bytes, raiser_bytes, who_bytes};
use serde::Serialize;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use surefoot_model::{Certainty, Event, Interrupt, Raiser, WhoReport};

/// Memory for a report of raisers: 4 MiB. Ten thousand raisers with long stacks are several times that.
const WHO_BYTES_MAX: usize = 4 << 20;

/// What the raisers that are counted together do.
const LEFT_OUT: &str = "other raisers, together for lack of room";

/// What to do where nobody watches raisers.
const NOT_WATCHED: &str = "nobody watches who raises interrupts; start with: surefoot watch --who CORES";

/// The same of a recording.
const NOT_RECORDED: &str =
    "this recording does not hold who raised the interrupts; record with: surefoot stall record --who CORES";

/// The event itself, or a report of raisers that is cut to its limit.
pub(crate) fn fitted(mut event: Event) -> Event {
    if let Event::Who(who) = &mut event {
        // Nobody shows single arrivals here, and there can be a million of them.
        who.timeline = None;
        fit(who, WHO_BYTES_MAX);
    }
    event
}

/// Cuts a report down to about this much memory. The counts stay: raisers without room of their own, the rarest, are
/// counted together, for each interrupt and certainty. What else goes is said under what is missing.
fn fit(who: &mut WhoReport, bytes_max: usize) {
    if who_bytes(who) <= bytes_max {
        return;
    }
    // Lists begin with what matters most, so that their ends go. Half of the room is for raisers and their stacks.
    let together_bytes = 3 * (size_of::<Raiser>() + LEFT_OUT.len());
    let rows = shorten(&mut who.interrupts, bytes_max / 4, |interrupt| interrupt_bytes(interrupt) + together_bytes);
    let gaps = shorten(&mut who.loop_gaps, bytes_max / 8, loop_gap_bytes);
    let loops = shorten(&mut who.loops, bytes_max / 16, loop_bytes);
    let words = shorten(&mut who.missing, bytes_max / 16, |text| size_of_val(text) + text.len());
    let notices = shorten(&mut who.notices, bytes_max / 32, |notice| size_of_val(notice) + notice.text.len());
    let raisers = merge_rare_raisers(&mut who.interrupts, bytes_max / 2);
    for (count, what) in [
        (raisers, "rare raisers are counted together"),
        (rows, "kinds of interrupt, the cheapest, are left out"),
        (gaps, "gaps of polling loops, the shortest, are left out"),
        (loops, "polling loops are left out"),
        (notices, "words about the watch are left out"),
        (words, "words about what is missing are left out"),
    ] {
        if count > 0 {
            who.missing.push(format!("{count} {what}, for lack of room"));
        }
    }
}

/// Keeps the beginning of a list that fits into this much memory; returns how many went.
fn shorten<T>(list: &mut Vec<T>, bytes_max: usize, bytes_of: impl Fn(&T) -> usize) -> usize {
    let mut bytes = 0;
    let fits = list.iter().take_while(|item| {
        bytes += bytes_of(item);
        bytes <= bytes_max
    });
    let kept = fits.count();
    let gone = list.len() - kept;
    list.truncate(kept);
    gone
}

/// Keeps the most frequent raisers of all interrupts that fit into this much memory; returns how many do not.
fn merge_rare_raisers(interrupts: &mut [Interrupt], bytes_max: usize) -> usize {
    let all = interrupts.iter().flat_map(|interrupt| &interrupt.raisers);
    let mut by_count: Vec<(Reverse<u64>, usize)> =
        all.map(|raiser| (Reverse(raiser.count), raiser_bytes(raiser))).collect();
    by_count.sort_unstable();
    let all_count = by_count.len();
    shorten(&mut by_count, bytes_max, |&(_, bytes)| bytes);
    if by_count.len() == all_count {
        return 0;
    }
    // Of raisers that are as frequent as the last one with room, so many have room as were counted.
    let least = by_count.last().map_or(u64::MAX, |&(Reverse(count), _)| count);
    let mut as_frequent = by_count.iter().filter(|&&(Reverse(count), _)| count == least).count();
    for interrupt in interrupts {
        let mut together: BTreeMap<Certainty, u64> = BTreeMap::new();
        interrupt.raisers.retain(|raiser| {
            let is_last = raiser.count == least && as_frequent > 0;
            as_frequent -= usize::from(is_last);
            let stays = raiser.count > least || is_last;
            if !stays {
                let count = together.entry(raiser.certainty).or_default();
                *count = count.saturating_add(raiser.count);
            }
            stays
        });
        interrupt.raisers.extend(together.into_iter().map(|(certainty, count)| left_out(certainty, count)));
        interrupt.raisers.sort_by_key(|raiser| Reverse(raiser.count));
    }
    all_count - by_count.len()
}

fn left_out(certainty: Certainty, count: u64) -> Raiser {
    Raiser {
        certainty,
        function: LEFT_OUT.to_owned(),
        syscall: String::new(),
        comm: "(other)".to_owned(),
        pid: 0,
        tid: 0,
        wakee: String::new(),
        count,
        kernel_stack: Vec::new(),
        user_stack: Vec::new(),
    }
}

/// The answer of `/api/v1/who`.
#[derive(Serialize)]
pub(crate) struct WhoAnswer<'a> {
    version: &'static str,
    #[serde(flatten)]
    origin: Origin<'a>,
    /// The newest report of the model, narrowed by a [`Filter`]; sums over all cores stay those of all cores. `null`
    /// where raisers are not watched; then `why` says what to do.
    who: Option<Cow<'a, WhoReport>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

impl<'a> WhoAnswer<'a> {
    pub(crate) fn of(kept: &'a Kept, origin: Origin<'a>, filter: &Filter) -> Self {
        let who = kept.who().map(|who| narrowed(who, filter));
        let why = if origin.recording.is_some() { NOT_RECORDED } else { NOT_WATCHED };
        let why = who.is_none().then_some(why);
        WhoAnswer { version: env!("CARGO_PKG_VERSION"), origin, who, why }
    }
}

fn narrowed<'a>(who: &'a WhoReport, filter: &Filter) -> Cow<'a, WhoReport> {
    if *filter == Filter::default() {
        return Cow::Borrowed(who);
    }
    let mut who = who.clone();
    who.interrupts.retain(|interrupt| filter.has_cpu(interrupt.cpu) && filter.has_kind(interrupt.cause.kind));
    who.loop_gaps.retain(|gap| filter.has_loop_gap(gap));
    Cow::Owned(who)
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{Cause, CauseKind, CpuId, Notice};

    fn raiser(tid: u32, count: u64, certainty: Certainty, frames: usize) -> Raiser {
        let frame = |at| format!("a_function_with_a_long_name_{at}");
        Raiser {
            tid,
            comm: "stats".into(),
            kernel_stack: (0..frames).map(frame).collect(),
            ..left_out(certainty, count)
        }
    }

    fn interrupt(cpu: u32, raisers: Vec<Raiser>) -> Interrupt {
        Interrupt {
            cpu: CpuId(cpu),
            cause: Cause::new(CauseKind::CallFunction, "do_sync_core"),
            handler: String::new(),
            count: raisers.iter().map(|raiser| raiser.count).sum(),
            total_ns: 0,
            p50_ns: 0,
            p99_ns: 0,
            max_ns: 0,
            share_of_lost_ppm: 0,
            detail: Vec::new(),
            raisers,
            unknown_raisers: 0,
            advice: Vec::new(),
        }
    }

    fn report(interrupts: Vec<Interrupt>) -> WhoReport {
        WhoReport { interrupts, ..WhoReport::default() }
    }

    #[test]
    fn a_report_with_room_is_left_alone() {
        let mut who = report(vec![interrupt(0, vec![raiser(1, 5, Certainty::Certain, 9)])]);
        let before = who.clone();
        let bytes = who_bytes(&who);
        fit(&mut who, bytes);
        assert_eq!(who, before);
    }

    #[test]
    fn rare_raisers_are_counted_together_and_no_count_is_lost() {
        let certainty = |tid| if tid % 3 == 0 { Certainty::Probable } else { Certainty::Certain };
        let raisers = |cpu: u32| -> Vec<Raiser> {
            (0..5_000).map(|tid| raiser(tid, u64::from(tid % 7 + cpu), certainty(tid), 30)).collect()
        };
        let mut who = report(vec![interrupt(1, raisers(1)), interrupt(2, raisers(2))]);
        let sums = |who: &WhoReport, wanted: Certainty| -> Vec<u64> {
            let of = |interrupt: &Interrupt| {
                interrupt.raisers.iter().filter(|raiser| raiser.certainty == wanted).map(|raiser| raiser.count).sum()
            };
            who.interrupts.iter().map(of).collect()
        };
        let before = [sums(&who, Certainty::Certain), sums(&who, Certainty::Probable)];
        assert!(who_bytes(&who) > WHO_BYTES_MAX * 3);
        fit(&mut who, WHO_BYTES_MAX);
        assert!(who_bytes(&who) <= WHO_BYTES_MAX, "{} bytes", who_bytes(&who));
        assert!(who_bytes(&who) > WHO_BYTES_MAX / 3, "there was room for more: {} bytes", who_bytes(&who));
        assert_eq!([sums(&who, Certainty::Certain), sums(&who, Certainty::Probable)], before);
        let named = || who.interrupts.iter().flat_map(|interrupt| &interrupt.raisers).filter(|raiser| raiser.tid > 0);
        assert!(named().all(|raiser| raiser.count >= 6), "the most frequent stay");
        let gone = 10_000 - named().count();
        assert_eq!(who.missing, [format!("{gone} rare raisers are counted together, for lack of room")]);
        for interrupt in &who.interrupts {
            assert!(interrupt.raisers.is_sorted_by_key(|raiser| Reverse(raiser.count)));
        }
    }

    #[test]
    fn lists_of_any_length_are_cut_and_said() {
        let mut who = report((0..50_000).map(|cpu| interrupt(cpu, Vec::new())).collect());
        who.missing = vec!["x".repeat(100_000); 20];
        who.notices = vec![Notice { at_ns: 0, text: "y".repeat(100_000) }; 50];
        fit(&mut who, WHO_BYTES_MAX);
        assert!(who_bytes(&who) <= WHO_BYTES_MAX);
        assert_eq!(who.interrupts[0].cpu, CpuId(0), "the costliest stay");
        let gone = 50_000 - who.interrupts.len();
        let said = format!("{gone} kinds of interrupt, the cheapest, are left out, for lack of room");
        assert!(who.missing.contains(&said), "{:?}", who.missing.last());
        assert!(
            who.missing.iter().any(|text| text.ends_with("words about what is missing are left out, for lack of room"))
        );
    }
}
