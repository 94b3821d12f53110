//! The fault-tolerant protocol, checked in every state of a model; and the shortest counterexample of each variant that
//! lacks one of its measures, printed in words.
//!
//! ```text
//! cargo test -p surefoot-nic --test protocol_model -- --nocapture
//! SUREFOOT_NIC_MODEL=large cargo test -p surefoot-nic --test protocol_model holds -- --nocapture --test-threads=1
//! ```

#![allow(clippy::unwrap_used)]

mod model;

use model::state::{Event, State, Violation};
use model::{
    CHECKS, COMMITTED, COMPLETES, END_TO_END, EndToEnd, IN_ORDER, INTACT, PAPER, Protocol, Size, Step, System, TOKENS,
    story,
};
use stateright::{Checker, HasDiscoveries, Model, Path};

/// One stream of two messages, which is enough for every counterexample.
const TWO: Size =
    Size { ports: 1, messages: 2, parts: 1, window: 2, buffers: 2, crashes_a: 0, crashes_b: 0, corruptions: 0 };

/// Visits every state; every property holds, and the exploration has been where it should.
fn holds(protocol: Protocol, size: Size) {
    let checker =
        System::new(protocol, size).checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    assert!(checker.is_done());
    println!("{} unique states, {} deep: {size:?}", checker.unique_state_count(), checker.max_depth());
    for (property, path) in checker.discoveries() {
        if !property.starts_with("reached") {
            panic!("{}", story::of(checker.model(), property, path));
        }
    }
    checker.assert_properties();
}

/// As `holds`, for what takes minutes: only where the environment asks for it, and said otherwise.
fn holds_at_large(protocol: Protocol, sizes: &[Size]) {
    if std::env::var_os("SUREFOOT_NIC_MODEL").is_none_or(|wish| wish != "large") {
        println!("not run: {} larger sizes; SUREFOOT_NIC_MODEL=large runs them", sizes.len());
        return;
    }
    sizes.iter().for_each(|size| holds(protocol, *size));
}

/// No counterexample here is longer.
const DEPTH_MAX: usize = 50;

/// A variant without one of the measures violates this property; returns the shortest way there, after printing it.
fn fails(name: &str, protocol: Protocol, size: Size, property: &'static str) -> Path<State, Step> {
    // The checker alone stops at some violation near the start; one depth after the other gives the nearest.
    for depth in 1..=DEPTH_MAX {
        let checker = System::new(protocol, size).checker().target_max_depth(depth).spawn_bfs().join();
        if let Some(path) = checker.discovery(property) {
            println!("Without {name}: {}", story::of(checker.model(), property, path.clone()));
            return path;
        }
    }
    panic!("without {name}, '{property}' holds all the same");
}

fn has_step(path: &Path<State, Step>, wanted: impl Fn(&Step) -> bool) -> bool {
    path.clone().into_actions().iter().any(wanted)
}

#[test]
fn the_protocol_holds_for_one_stream() {
    holds(PAPER, Size { messages: 3, parts: 2, window: 3, crashes_a: 2, crashes_b: 2, ..TWO });
    // Fewer tokens than messages: a token is used again.
    holds(PAPER, Size { messages: 3, parts: 1, window: 2, buffers: 1, crashes_a: 2, crashes_b: 2, ..TWO });
}

#[test]
fn the_protocol_holds_for_two_ports() {
    holds(PAPER, Size { ports: 2, messages: 1, parts: 2, buffers: 1, crashes_a: 1, crashes_b: 1, ..TWO });
    holds(PAPER, Size { ports: 2, messages: 1, parts: 1, buffers: 1, crashes_a: 2, crashes_b: 2, ..TWO });
    holds_at_large(
        PAPER,
        &[
            Size { ports: 2, crashes_a: 1, crashes_b: 1, ..TWO },
            Size { ports: 2, buffers: 1, crashes_a: 0, crashes_b: 2, ..TWO },
        ],
    );
}

#[test]
fn end_to_end_mode_holds_through_crashes_and_corruption() {
    holds(END_TO_END, Size { parts: 2, crashes_a: 2, crashes_b: 2, ..TWO });
    holds(END_TO_END, Size { crashes_a: 1, crashes_b: 1, corruptions: 1, ..TWO });
    holds_at_large(
        END_TO_END,
        &[
            Size { parts: 2, crashes_a: 1, crashes_b: 1, corruptions: 1, ..TWO },
            Size { messages: 3, window: 3, crashes_a: 1, crashes_b: 1, corruptions: 1, ..TWO },
            Size { corruptions: 2, ..TWO },
        ],
    );
}

#[test]
fn numbers_made_by_the_interface_deliver_a_message_twice() {
    let protocol = Protocol { numbers_in_host: false, ..PAPER };
    let path = fails("numbers made in the host (Figure 7)", protocol, Size { crashes_a: 1, ..TWO }, IN_ORDER);
    assert!(matches!(path.last_state().violation, Some(Violation::Duplicate { .. })));
    assert!(has_step(&path, |step| *step == Step::CrashA));
}

#[test]
fn an_ack_before_the_dma_loses_a_message() {
    let protocol = Protocol { late_ack: false, ..PAPER };
    let size = Size { crashes_b: 1, ..TWO };
    let path = fails("the late ACK (Figure 8)", protocol, size, COMPLETES);
    assert!(has_step(&path, |step| *step == Step::CrashB));
    // The interface of the sender has given the token back, and the receiving host has nothing.
    let stream = &path.last_state().streams[0];
    assert!(stream.sending.acknowledged > stream.committed);
    assert!(stream.sender.ring.events().iter().any(|event| matches!(event, Event::Sent { .. })));
    fails("the late ACK (Figure 8)", protocol, size, COMMITTED);
}

#[test]
fn a_restore_before_the_drain_delivers_a_message_twice() {
    let protocol = Protocol { drain: false, ..PAPER };
    let path = fails("draining the posted events first", protocol, Size { crashes_b: 1, ..TWO }, IN_ORDER);
    assert!(matches!(path.last_state().violation, Some(Violation::Duplicate { .. })));
}

#[test]
fn a_suspected_interface_that_is_not_fenced_delivers_a_message_twice() {
    let protocol = Protocol { fence: false, ..PAPER };
    let path = fails("the fence", protocol, Size { crashes_b: 1, ..TWO }, IN_ORDER);
    assert!(matches!(path.last_state().violation, Some(Violation::Duplicate { .. })));
    assert!(has_step(&path, |step| *step == Step::Ghost));
}

#[test]
fn a_restore_that_names_no_epoch_delivers_a_message_twice() {
    let protocol = Protocol { restore_names_epoch: false, ..PAPER };
    let path = fails("the epoch in a restore", protocol, Size { crashes_b: 2, ..TWO }, IN_ORDER);
    assert!(matches!(path.last_state().violation, Some(Violation::Duplicate { .. })));
}

#[test]
fn a_reloaded_interface_that_says_closed_too_early_loses_a_message() {
    let protocol = Protocol { silent_until_restored: false, ..PAPER };
    fails("silence until the port is restored", protocol, Size { crashes_b: 1, ..TWO }, COMMITTED);
}

#[test]
fn corruption_without_the_end_to_end_mode_reaches_the_application() {
    let path = fails("the end-to-end mode", PAPER, Size { corruptions: 1, ..TWO }, INTACT);
    assert!(has_step(&path, |step| matches!(step, Step::Corrupt(_))));
}

fn without(change: impl Fn(&mut EndToEnd)) -> Protocol {
    let mut checks = CHECKS;
    change(&mut checks);
    Protocol { end_to_end: Some(checks), ..PAPER }
}

#[test]
fn a_checksum_that_leaves_out_the_number_delivers_out_of_order() {
    let protocol = without(|checks| checks.checksum_covers_number = false);
    fails("the number in the checksum", protocol, Size { corruptions: 1, ..TWO }, IN_ORDER);
}

#[test]
fn an_ack_without_proof_tells_the_sender_of_what_never_arrived() {
    let protocol = without(|checks| checks.proof = false);
    fails("the proof in the ACK", protocol, Size { corruptions: 1, ..TWO }, COMMITTED);
}

#[test]
fn a_restore_that_does_not_repeat_the_accept_never_ends() {
    let protocol = without(|checks| checks.restore_repeats_accept = false);
    fails("the last ACCEPT in a restore", protocol, Size { crashes_b: 1, ..TWO }, COMPLETES);
}

#[test]
fn an_interface_that_is_not_told_what_is_awaited_never_ends() {
    let protocol = without(|checks| checks.restates_next = false);
    fails("the library saying what it waits for", protocol, Size { corruptions: 1, ..TWO }, COMPLETES);
}

/// The receiving library drops what it had, so that without the drain no message comes twice; but the new interface gets
/// buffers with messages that the library has not read yet, and fills them again.
#[test]
fn end_to_end_mode_without_the_drain_gives_buffers_away_twice() {
    let protocol = Protocol { drain: false, ..END_TO_END };
    let size = Size { crashes_b: 1, ..TWO };
    fails("draining the posted events first, in end-to-end mode", protocol, size, TOKENS);
    let checker = System::new(protocol, size).checker().spawn_bfs().join();
    for property in [IN_ORDER, INTACT, COMMITTED, COMPLETES] {
        assert!(checker.discovery(property).is_none(), "{property}");
    }
}
