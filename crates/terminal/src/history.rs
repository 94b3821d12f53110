//! Moments that only the history knows.

use crate::past::{Past, Seen, Want};
use std::path::{Path, PathBuf};
use surefoot_store::history::{GapFilter, HistoryWindow, Resolution, View};

const SECOND_NS: i64 = 1_000_000_000;

/// How far from a moment the nearest span is looked for, seconds: near first, because far is long. Beyond that minutes are looked at.
const NEAR_S: [i64; 3] = [3, 60, 900];
/// As near, for minutes.
const FAR_S: [i64; 3] = [120, 3_600, 86_400];
/// A second of another time does not answer for this one: only minutes are left of it.
const SAME_NS: i64 = 60 * SECOND_NS;

/// Reads moments of this history, which a watch is writing.
pub fn reader(path: PathBuf) -> Past {
    Box::new(move |want| read(&path, want).map_err(|error| error.to_string()))
}

fn read(path: &Path, want: Want) -> surefoot_store::Result<Option<Seen>> {
    moment(&View::open(path)?, want)
}

/// The moment of a history that is wanted; `None` where it has none.
///
/// # Errors
/// As the queries of [`View`].
pub fn moment(view: &View, want: Want) -> surefoot_store::Result<Option<Seen>> {
    let Some(window) = nearest(view, want)? else { return Ok(None) };
    let range = window.start_ns..window.end_ns.max(window.start_ns.saturating_add(1));
    let mut gaps: Vec<_> =
        view.gaps(&GapFilter { range: Some(range.clone()), limit: 1_000, ..GapFilter::default() })?.rows;
    gaps.sort_by_key(|kept| std::cmp::Reverse(kept.gap.duration_ns));
    let findings = view.findings(range)?.rows;
    Ok(Some(Seen {
        start_realtime_ns: window.start_ns,
        end_realtime_ns: window.end_ns,
        cores: window.cores,
        faulty: window.faulty,
        gaps: gaps.into_iter().map(|kept| kept.gap).collect(),
        findings: {
            let mut findings: Vec<_> = findings.into_iter().map(|kept| kept.finding).collect();
            findings.sort_by(surefoot_model::by_urgency);
            findings
        },
    }))
}

fn nearest(view: &View, want: Want) -> surefoot_store::Result<Option<HistoryWindow>> {
    let at_ns = match want {
        Want::At(at_ns) | Want::Before(at_ns) | Want::From(at_ns) => at_ns,
    };
    // The one that begins nearest on the wanted side, in the finest resolution that has one near.
    for (resolution, spans_s) in [(Resolution::Second, &NEAR_S[..]), (Resolution::Minute, &FAR_S[..])] {
        for &span_s in spans_s {
            let span_ns = span_s * SECOND_NS;
            let range = match want {
                Want::At(_) => at_ns.saturating_sub(span_ns)..at_ns.saturating_add(1),
                Want::Before(_) => at_ns.saturating_sub(span_ns)..at_ns,
                Want::From(_) => at_ns..at_ns.saturating_add(span_ns),
            };
            let found = view.windows(range, resolution)?.rows;
            let nearest = match want {
                Want::From(_) => found.into_iter().find(|window| window.start_ns >= at_ns),
                Want::Before(_) => found.into_iter().rfind(|window| window.start_ns < at_ns),
                Want::At(_) => found.into_iter().rfind(|window| window.start_ns <= at_ns),
            };
            match nearest {
                Some(window)
                    if resolution == Resolution::Second && window.start_ns.abs_diff(at_ns) > SAME_NS as u64 => {}
                Some(window) => return Ok(Some(window)),
                None => {}
            }
        }
    }
    Ok(None)
}
