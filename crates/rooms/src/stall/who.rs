//! Who interrupted the watched cores: a report within its limits, and its shape in the API.

use super::filter::Filter;
use super::state::Kept;
use super::view::Origin;
use crate::moment::Now;
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;
use surefoot_model::{Event, SCHEMA, WhoReport};
use surefoot_who::limit::{Limits, limit};

/// Memory for a report of raisers: 4 MiB. Ten thousand raisers with long stacks are several times that.
const WHO_BYTES_MAX: usize = 4 << 20;

/// What to do where nobody watches raisers.
const NOT_WATCHED: &str = "who raises interrupts is not watched; start with: surefoot watch --who CORES";

/// The same of a recording.
const NOT_RECORDED: &str =
    "this recording does not hold who raised the interrupts; record with: surefoot stall record --who CORES";

/// The event itself, or a report of raisers that is cut to its limit.
pub fn fitted(mut event: Event) -> Event {
    if let Event::Who(who) = &mut event {
        // Nobody shows single arrivals here, and there can be a million of them.
        who.timeline = None;
        limit(who, &Limits { raisers: usize::MAX, bytes: WHO_BYTES_MAX });
    }
    event
}

/// Who interrupted the watched cores.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Who")]
pub struct WhoAnswer<'a> {
    schema: u32,
    /// The version of Surefoot.
    version: &'static str,
    #[serde(flatten)]
    origin: Origin<'a>,
    /// The newest report of the model, narrowed by `cpu` and `kind`; sums over all cores stay those of all cores. With `range_s` it
    /// covers the newest seconds, and begins (`start_ns`) with the last report before them; `watch_start_ns` is there then, unless the
    /// watch is not that old. `null` where raisers are not watched; then `why` says what to do.
    who: Option<Cow<'a, WhoReport>>,
    /// Why there is none, and what to do.
    #[schemars(with = "String")]
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<&'static str>,
}

impl<'a> WhoAnswer<'a> {
    /// What a filter lets through of the newest report.
    pub fn of(now: &'a Now, kept: &'a Kept, filter: &Filter) -> Self {
        let origin = Origin::of(&now.moment.mode);
        let who = kept.who().map(|who| narrowed(who, filter));
        let why = if origin.recording.is_some() { NOT_RECORDED } else { NOT_WATCHED };
        let why = who.is_none().then_some(why);
        WhoAnswer { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), origin, who, why }
    }
}

fn narrowed<'a>(who: &'a WhoReport, filter: &Filter) -> Cow<'a, WhoReport> {
    if filter.has_all_interrupts() {
        return Cow::Borrowed(who);
    }
    let mut who = who.clone();
    who.interrupts.retain(|interrupt| filter.has_cpu(interrupt.cpu) && filter.has_kind(interrupt.cause.kind));
    who.loop_gaps.retain(|gap| filter.has_loop_gap(gap));
    Cow::Owned(who)
}
