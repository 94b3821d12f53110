//! Experiments as one page of HTML that needs nothing else: no script, no font, no request. Workloads, warnings and names are what
//! strangers wrote: whatever is put in goes through `text`.

mod charts;
mod one;
mod predictions;

pub use predictions::picture;

use std::fmt::Write as _;
use std::io::Write as _;
use surefoot_console::destination::Destination;
use surefoot_console::units::{counted, duration};
use surefoot_console::words::utc;
use surefoot_model::{ExperimentBegan, ExperimentEffect, one_line};
use surefoot_rooms::disturb::{Experiment, PredictionView, State};

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#d0d7de;--faint:#57606a;--bad:#a40e26}\
@media(prefers-color-scheme:dark){:root{--line:#3a424c;--faint:#9aa4b0;--bad:#ff8182}}\
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.5rem;border-top:1px solid var(--line);padding-top:1rem}\
h3{font-size:1rem}h4{font-size:.95rem;margin-bottom:.2rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
.wide{overflow-x:auto}th,td{padding:.2rem .8rem .2rem 0;text-align:right;vertical-align:top;border-bottom:1px solid var(--line)}\
th{font-weight:600}td{white-space:nowrap}.w{text-align:left;white-space:normal;overflow-wrap:break-word}\
h1,h2,p,li,code,td.any{overflow-wrap:anywhere}\
@media(max-width:30rem){table{font-size:.8rem;line-height:1.3}th,td{padding-right:.45rem}}\
.faint{color:var(--faint)}.bad{color:var(--bad)}svg{max-width:100%;height:auto}summary{cursor:pointer}";

/// Writes the page.
///
/// # Errors
/// It cannot be written.
pub fn write(destination: Destination, state: &State, predictions: &[PredictionView]) -> anyhow::Result<()> {
    let page = page(state, predictions);
    destination.write(|out| out.write_all(page.as_bytes()))
}

/// The page of all experiments, oldest first, and of predictions.
pub fn page(state: &State, predicted: &[PredictionView]) -> String {
    let all: Vec<&Experiment> = state.experiments().collect();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
         <title>{}</title><style>{STYLE}</style></head>\n<body>\n<h1>{}</h1>\n",
        text(&title(&all)),
        text(&title(&all))
    );
    // Lines of JSON do not say when they were.
    let first = all.first().map_or(0, |one| one.began.at_realtime_ns);
    let since = if first == 0 { String::new() } else { format!(" from {} UTC on", utc(first)) };
    let count = counted(all.len() as u64, "experiment", "experiments");
    let _ = writeln!(page, "<p class=\"faint\">{count}{since}; Surefoot {}</p>", env!("CARGO_PKG_VERSION"));
    if all.len() > 1 {
        page += &summary(&all);
        page += &charts::ratios(all.iter().filter_map(|one| {
            let effect = one.ended.as_ref()?.effect.as_deref()?;
            Some(charts::Ratio::of(name(one), effect.ratio, effect.interval_low, effect.interval_high))
        }));
    }
    for (number, one) in all.iter().enumerate() {
        // Of a single one the page's own heading says it.
        if all.len() > 1 {
            let _ = writeln!(page, "<h2 id=\"e{number}\">{}</h2>", text(name(one)));
        }
        page += &one::section(one);
    }
    if !predicted.is_empty() {
        page += &predictions::section(predicted);
    }
    page += "</body></html>\n";
    page
}

fn title(all: &[&Experiment]) -> String {
    match all {
        [] => "No experiment".into(),
        [one] if one.is_of_several() => format!("What disturbances do: {}", name(one)),
        [one] => format!("What a disturbance does to: {}", name(one)),
        [first, ..] if !first.began.series.is_empty() => format!("Experiments of {}", first.began.series),
        _ => "Experiments".into(),
    }
}

/// What an experiment is called: its part, the file or preset that it does, or what it runs.
fn name(one: &Experiment) -> &str {
    let ExperimentBegan { part, series, workload, .. } = &one.began;
    [part, series].into_iter().find(|name| !name.is_empty()).unwrap_or(workload)
}

fn summary(all: &[&Experiment]) -> String {
    let mut table = String::from(
        "<div class=\"wide\"><table><tr><th class=\"w\">workload</th><th class=\"w\">disturbance</th><th>ratio</th>\
         <th>interval</th><th>stalled</th><th class=\"w\">result</th></tr>\n",
    );
    for (number, one) in all.iter().enumerate() {
        let effect = one.ended.as_ref().and_then(|ended| ended.effect.as_deref());
        let [ratio, interval, share] = effect.map_or_else(Default::default, |effect| {
            [format!("{:.3}", effect.ratio), interval(effect), format!("{:.2} %", effect.injected_share * 100.0)]
        });
        let _ = writeln!(
            table,
            "<tr><td class=\"w\"><a href=\"#e{number}\">{}</a></td><td class=\"w\">{}</td><td>{ratio}</td><td>{interval}</td>\
             <td>{share}</td><td class=\"w\">{}</td></tr>",
            text(name(one)),
            text(&one.began.what()),
            text(&said(one))
        );
    }
    table + "</table></div>\n"
}

fn interval(effect: &ExperimentEffect) -> String {
    format!("{:.3} to {:.3}", effect.interval_low, effect.interval_high)
}

/// How it went, in a few words.
fn said(one: &Experiment) -> String {
    let Some(ended) = &one.ended else { return "running".into() };
    match &ended.effect {
        Some(effect) if effect.effect_shown => "an effect is shown".into(),
        Some(effect) => {
            let least = (effect.minimum_detectable_ratio - 1.0) * 100.0;
            format!("no effect shown; one of {least:.1} % would have been, in 4 of 5 such experiments")
        }
        None if !ended.summary.is_empty() => ended.summary.clone(),
        None if ended.why.is_empty() => ended.outcome.as_str().to_owned(),
        None => format!("{}: {}", ended.outcome.as_str(), ended.why),
    }
}

/// A value of the experiment's number.
fn value(metric: &str, value: f64) -> String {
    match metric {
        "wall" => duration(value.max(0.0) as u64),
        _ => format!("{value}"),
    }
}

/// A stranger's words as text of a page, on one line.
fn text(words: &str) -> String {
    let mut safe = String::with_capacity(words.len() + 16);
    for letter in one_line(words).chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use surefoot_model::{CpuId, DisturbEvent, ExperimentEnded, ExperimentOutcome, ExperimentRow, InjectedStall};

    const HOSTILE: &str = "</title><script>alert(1)</script>\"'&\u{202e}\u{1b}[2J";

    fn told(name: &str) -> Vec<DisturbEvent> {
        let began = ExperimentBegan {
            experiment: name.into(),
            at_realtime_ns: 1_795_620_887_000_000_000,
            disturbance: "freeze".into(),
            is_of_cores: true,
            cores: vec![CpuId(0), CpuId(1)],
            length_ns: 2_000_000,
            period_ns: 1_000_000_000,
            workload: HOSTILE.into(),
            metric: HOSTILE.into(),
            series: HOSTILE.into(),
            run_count: 5,
            ..ExperimentBegan::default()
        };
        let run = |number: u64, condition: &str, value: f64| {
            let run = json!({
                "run": number, "repetition": 0, "condition": condition, "value": value, "start_ns": 1_000 * number,
                "wall_ns": 900, "stall_count": 2, "injected_share": 0.1, "missed_stalls": 0, "dropped_stalls": 0,
                "cut_stalls": 0, "left_behind": 0, "dropped_bytes": 0, "load": 0.5,
            });
            DisturbEvent::Run { experiment: name.into(), run: serde_json::from_value(run).unwrap() }
        };
        let stall = |core, start_ns| InjectedStall {
            run: 2,
            core: Some(CpuId(core)),
            start_ns,
            length_ns: 2_000_100,
            target_ns: start_ns,
        };
        let effect = json!({
            "ratio": 1.2, "interval_low": 1.1, "interval_high": 1.3, "confidence": 0.96, "effect_shown": true,
            "minimum_detectable_ratio": 1.1, "injected_share": 0.004, "stall_count": 2, "missed_stalls": 0,
            "dropped_stalls": 0, "cut_stalls": 0, "start_late_median_ns": 50, "end_late_median_ns": 150,
            "end_late_p90_ns": 150, "start_skew_median_ns": null, "end_skew_median_ns": 7, "outlier_runs": [2],
            "method": HOSTILE, "method_words": HOSTILE, "cores": [0, 1], "length_ns": 2_000_000, "period_ns": 1_000_000_000,
            "workload": HOSTILE, "metric": HOSTILE, "repetitions": 2, "seed": 1, "undisturbed_median": 1e9,
            "disturbed_median": 1.2e9, "warnings": [HOSTILE],
        });
        let stalls = vec![stall(0, 2_000), stall(1, 2_050), stall(0, 5_000)];
        vec![
            DisturbEvent::Began(began.into()),
            run(0, "warm_up", 3.0),
            run(1, "undisturbed", 1.0),
            DisturbEvent::Stalls { experiment: name.into(), stalls, left_out_count: 3 },
            run(2, "disturbed", 1.2),
            DisturbEvent::Ended(ExperimentEnded {
                effect: Some(serde_json::from_value(effect).unwrap()),
                ..ExperimentEnded::new(name.into(), (9, 9), ExperimentOutcome::Finished, String::new())
            }),
        ]
    }

    fn of(names: &[&str]) -> String {
        let mut state = State::default();
        names.iter().flat_map(|name| told(name)).for_each(|event| state.take(&event));
        page(&state, &[])
    }

    #[test]
    fn a_page_says_the_result_and_loads_nothing() {
        let page = of(&["a"]);
        for wanted in
            ["1.200", "1.100 to 1.300", "An effect is shown", "held cores 0-1 for 2 ms every 1 s", "<svg", "2 ms"]
        {
            assert!(page.contains(wanted), "{wanted}: {page}");
        }
        for loaded in ["http://", "https://", "src=", "url(", "@import"] {
            let page = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!page.contains(loaded), "{loaded}");
        }
        assert_eq!(of(&["a", "b"]).matches("<h2").count(), 2);
        assert!(super::page(&State::default(), &[]).contains("No experiment"));
    }

    /// One of several workloads, with a published row, a number of its own and one that there is not.
    fn several() -> String {
        let mut events = told("a");
        events.truncate(3);
        let DisturbEvent::Began(began) = &mut events[0] else { unreachable!() };
        (began.length_ns, began.period_ns, began.metric, began.part) = (0, 0, String::new(), String::new());
        let words = HOSTILE.to_owned();
        let row = |row: ExperimentRow| DisturbEvent::Row { experiment: "a".into(), row: row.into() };
        let (case, measure) = (words.clone(), words.clone());
        let number = ExperimentRow { case, measure, compared: "ratio".into(), ..ExperimentRow::default() };
        let bounds = |low, high| (Some(low), Some(high));
        for (effect, (interval_low, interval_high)) in [(0.5, bounds(0.4, 0.6)), (2.0, bounds(1.9, 2.1))] {
            events.push(row(ExperimentRow { effect: Some(effect), interval_low, interval_high, ..number.clone() }));
        }
        events.push(row(ExperimentRow { why: words.clone(), ..number.clone() }));
        let verdict = "cannot be tested here".to_owned();
        events.push(row(ExperimentRow { published: "-2 %".into(), ours: words.clone(), verdict, ..number }));
        let ended = ExperimentEnded::new("a".into(), (9, 9), ExperimentOutcome::Finished, String::new());
        let (summary, warnings) = (format!("3 runs {HOSTILE}"), vec![words]);
        events.push(DisturbEvent::Ended(ExperimentEnded { summary, warnings, ..ended }));
        let mut state = State::default();
        events.iter().for_each(|event| state.take(event));
        super::page(&state, &[])
    }

    #[test]
    fn one_of_several_workloads_has_what_was_published_beside_each_number() {
        let page = several();
        for wanted in [
            "in several ways, by turns",
            "Published, and found here",
            "Each number",
            "0.5000 times",
            "cannot be tested here",
        ] {
            assert!(page.contains(wanted), "{wanted}: {page}");
        }
        // The ratios as a picture; their runs have several numbers, which no one axis has.
        assert_eq!(page.matches("<svg").count(), 1, "{page}");
        assert!(page.contains("3 runs &lt;/title") && page.contains("To keep in mind"), "{page}");
        assert!(!page.contains("<script") && !page.contains("NaN") && !page.contains('\u{202e}'), "{page}");
    }

    #[test]
    fn a_long_word_of_a_stranger_makes_no_page_wider_than_its_screen() {
        let page = of(&["a"]);
        assert!(page.contains("h1,h2,p,li,code,td.any{overflow-wrap:anywhere}"));
        let rows = page.matches("<td class=\"w any\">").count();
        assert!(rows >= 8 && page.contains("workload</th><td class=\"w any\">&lt;/title"), "{rows}: {page}");
    }

    #[test]
    fn words_of_strangers_stay_words() {
        let page = of(&["a", "b"]);
        assert!(!page.contains("<script") && !page.contains('\u{202e}') && !page.contains('\u{1b}'), "{page}");
        assert_eq!(page.matches("<title>").count(), page.matches("</title>").count(), "none was closed from inside");
        assert!(page.contains("&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;??[2J"));
    }
}
