//! A prediction in words.

use super::lines::{About, PredictionLine};
use std::fmt::Write;
use surefoot_console::units::{counted, duration};
use surefoot_disturb::predict::DRAWS_FOR_ANY;

/// The prediction as text.
pub fn of(about: &About, result: &PredictionLine) -> String {
    let mut text = String::new();
    let nodes = counted(about.nodes, "node", "nodes");
    let ranks = counted(about.ranks_per_node, "rank", "ranks");
    let what = match (&about.goal, about.compute_ns, about.iterations) {
        (Some(goal), ..) => {
            let (ranks, operations) = (counted(goal.ranks, "rank", "ranks"), goal.operation_count);
            format!("a GOAL file of {ranks} and {}", counted(operations, "operation", "operations"))
        }
        (None, compute_ns, iterations) => {
            let work = match compute_ns {
                Some(compute_ns) if compute_ns > 0 => format!("{} of work", duration(compute_ns)),
                _ => "no work".into(),
            };
            format!("{} {work}, then {}", counted(iterations.unwrap_or(0), "time", "times"), about.pattern)
        }
    };
    // The last node has what is left.
    let is_even = about.goal.as_ref().is_none_or(|goal| goal.ranks == about.nodes * about.ranks_per_node);
    let up_to = if is_even { "" } else { "up to " };
    let _ = writeln!(text, "{nodes} with {up_to}{ranks} each: {what}");
    for noise in &about.noises {
        let _ = writeln!(text, "  {noise}");
    }
    if about.progress == "host" {
        let _ = writeln!(text, "  the cores move the bytes: a stalled node neither sends nor receives");
    }
    let _ = writeln!(text, "undisturbed  {}", duration(result.base_ns));
    let _ = writeln!(
        text,
        "disturbed    {:.3} times as long; one more run in 19 of 20 cases {:.3} to {:.3}",
        result.slowdown, result.interval_low, result.interval_high
    );
    let _ = writeln!(
        text,
        "             ({} draws from {:.3} to {:.3}, {} events, seed {})",
        about.draws, result.least, result.most, result.event_count, about.seed
    );
    if result.interval_method == "student" {
        let _ = writeln!(
            text,
            "             the interval is by Student's t, for runs spread as a normal distribution is; with --draws {DRAWS_FOR_ANY} \
             it needs no such assumption"
        );
    }
    text
}
