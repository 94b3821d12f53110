//! The scenes of a fault movie in words, for terminals and the page, and where each happens.

use schemars::JsonSchema;
use serde::Serialize;
use surefoot_nic::campaign::movie::What;
use surefoot_nic::host::port::SendFailure;

/// Where something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The program that sends and receives.
    Application,
    /// What links it with the interface, in its own process.
    Library,
    /// The interface with its processor.
    Interface,
    /// The fault-tolerance daemon of a host.
    Daemon,
    /// A host as a whole.
    Host,
    /// The run itself.
    Run,
}

/// Where it happens.
pub fn part(what: &What) -> Part {
    match what {
        What::Struck { .. } | What::Diverged { .. } | What::NotDiverged { .. } | What::Halted { .. } => Part::Interface,
        What::Crashed => Part::Host,
        What::Daemon { .. } => Part::Daemon,
        What::Delivered { .. } => Part::Application,
        What::Refused { .. } => Part::Library,
        What::Ended => Part::Run,
    }
}

/// The name of a scene in JSON.
pub fn scene(what: &What) -> &'static str {
    match what {
        What::Struck { .. } => "struck",
        What::Diverged { .. } => "diverged",
        What::NotDiverged { .. } => "not_diverged",
        What::Halted { .. } => "halted",
        What::Crashed => "crashed",
        What::Daemon { .. } => "daemon",
        What::Delivered { .. } => "delivered",
        What::Refused { .. } => "refused",
        What::Ended => "ended",
    }
}

/// What happens, with both instructions where there are two.
pub fn words(what: &What, duration: fn(u64) -> String) -> String {
    match what {
        What::Struck { was: Some(was), is: Some(is), .. } => {
            format!("{}: '{was}' becomes '{is}'", short_words(what, duration))
        }
        What::Diverged { done, usually, .. } => format!("{}: {done}; usually: {usually}", short_words(what, duration)),
        _ => short_words(what, duration),
    }
}

/// The same without the instructions.
pub fn short_words(what: &What, duration: fn(u64) -> String) -> String {
    let of = |function: &Option<String>| function.as_ref().map_or_else(String::new, |name| format!(" in {name}"));
    match what {
        What::Struck { place, function, was: Some(_), is: Some(_), .. } => {
            format!("the fault strikes {place}{}", of(function))
        }
        What::Struck { place, .. } => format!("the fault strikes {place}"),
        What::Diverged { pc, function, after_instructions, .. } => {
            format!("first difference after {after_instructions} instructions, at {pc:#06x}{}", of(function))
        }
        What::NotDiverged { watched_instructions } => {
            format!("the next {watched_instructions} instructions are done as without the fault")
        }
        What::Halted { cause, pc, function } => format!("the processor halts at {pc:#06x}{}: {cause}", of(function)),
        What::Crashed => "the interface accesses memory that is not its own, and the host goes down".to_owned(),
        What::Daemon { step, by, finding, epoch } => {
            let mut text = format!("daemon: {}", step_words(step));
            for (before, word) in [(" by ", by), (", ", finding)] {
                text += &word.map_or_else(String::new, |word| format!("{before}{}", word.replace('_', "-")));
            }
            text + &epoch.map_or_else(String::new, |epoch| format!(", epoch {epoch}"))
        }
        What::Delivered { message, from, how, late_ns } => {
            let late = late_ns.map_or_else(String::new, |ns| format!(" by {}", duration(ns)));
            format!("message {message} of host {from} is delivered {how}{late}")
        }
        What::Refused { message, why } => {
            format!("the sender learns that message {message} did not arrive: {}", why_name(*why).replace('_', " "))
        }
        What::Ended => "the end of the run".to_owned(),
    }
}

/// What a daemon did.
fn step_words(step: &str) -> String {
    match step {
        "suspected" => "a failure is suspected",
        "dismissed" => "the suspicion is dismissed, the control program answers",
        "detected" => "a failure is detected",
        "passed" => "the self-test passed",
        "told" => "the other node's daemon was notified",
        "recovered" => "all ports are back",
        "given_up" => "the interface is given up",
        other => return other.replace('_', " "),
    }
    .to_owned()
}

/// The name of a failure in outputs.
pub fn why_name(why: SendFailure) -> &'static str {
    match why {
        SendFailure::Closed => "closed",
        SendFailure::Refused => "refused",
        SendFailure::BadAddress => "bad_address",
        SendFailure::TimedOut => "timed_out",
        SendFailure::Changed => "changed",
        SendFailure::GivenUp => "given_up",
    }
}
