//! One experiment: what was done, the effect, the runs, the stalls core by core, and what to keep in mind.

use super::{charts, interval, said, text, value};
use crate::run::text::CONFIDENCE_ENOUGH;
use std::collections::BTreeSet;
use std::fmt::Write;
use surefoot_console::units::{counted, duration};
use surefoot_model::{ExperimentEffect, ExperimentRow, ExperimentRun};
use surefoot_rooms::disturb::{CoreStalls, Experiment};

pub fn section(one: &Experiment) -> String {
    let done = one.began.what().replacen("holds", "held", 1).replacen("disturbs", "disturbed", 1);
    let mut page = format!("<p>Surefoot {}.</p>\n", text(&done));
    let effect = one.ended.as_ref().and_then(|ended| ended.effect.as_deref());
    match effect {
        Some(effect) => page += &result(one, effect),
        None if one.standing() == "finished" => page += &format!("<p><strong>{}.</strong></p>\n", text(&said(one))),
        None => {
            let _ = writeln!(page, "<p class=\"bad\">{}</p>", text(&said(one)));
        }
    }
    page += &rows(one);
    page += &charts::runs(one);
    page += &runs(one, effect.map_or(&[][..], |effect| &effect.outlier_runs));
    page += &cores(one);
    let own = effect.map(|effect| effect.notes.iter().chain(&effect.warnings)).into_iter().flatten();
    let warnings = own.chain(one.ended.iter().flat_map(|ended| &ended.warnings));
    let warnings: String = warnings.map(|warning| format!("<li>{}</li>\n", text(warning))).collect();
    if !warnings.is_empty() {
        page += &format!("<h3>To keep in mind</h3>\n<ul>\n{warnings}</ul>\n");
    }
    page
}

fn result(one: &Experiment, effect: &ExperimentEffect) -> String {
    let mut page = String::new();
    let metric = &effect.metric;
    let verdict = if effect.effect_shown && effect.confidence < CONFIDENCE_ENOUGH {
        "The interval excludes 1; but 6 pairs of runs are needed to show an effect.".to_owned()
    } else if effect.effect_shown {
        "An effect is shown: the interval excludes 1.".to_owned()
    } else {
        let mut words = said(one);
        words.replace_range(..1, "N");
        words + "."
    };
    let _ = writeln!(
        page,
        "<p><strong>{:.3} times as large</strong> disturbed as undisturbed ({:.1} % interval {}). {}</p>",
        effect.ratio,
        effect.confidence * 100.0,
        interval(effect),
        text(&verdict)
    );
    page += "<table>\n";
    let mut row = |what: &str, words: String| {
        let _ = writeln!(page, "<tr><th class=\"w\">{what}</th><td class=\"w any\">{}</td></tr>", text(&words));
    };
    row("workload", effect.workload.clone());
    row("number", metric.clone());
    row("undisturbed, median", value(metric, effect.undisturbed_median));
    row("disturbed, median", value(metric, effect.disturbed_median));
    row("method", format!("{}: {}", effect.method, effect.method_words));
    let share = effect.injected_share * 100.0;
    row("stalled", format!("{share:.3} % of the disturbed runs' time, {} stalls", effect.stall_count));
    if let Some(late) = effect.end_late_median_ns.filter(|_| effect.length_ns > 0) {
        let p90 = effect.end_late_p90_ns.map_or(String::new(), |ns| format!("; nine of ten {} or less", late_by(ns)));
        row("ends, against their times", format!("{} late (median){p90}", late_by(late)));
    }
    if let Some(skew) = effect.end_skew_median_ns {
        row("cores end apart", format!("{} (median)", late_by(skew)));
    }
    row("pairs of runs, seed", format!("{}, {}", effect.repetitions, effect.seed));
    page + "</table>\n"
}

/// Of an experiment with several workloads or disturbances: what was published beside what was found, and each number.
fn rows(one: &Experiment) -> String {
    let rows = &one.rows;
    let (published, own): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| !row.published.is_empty() || !row.verdict.is_empty());
    let mut page = String::new();
    if !published.is_empty() {
        page += "<h3>Published, and found here</h3>\n";
        page += &published_tables(&published);
    }
    if !own.is_empty() {
        page += "<h3>Each number</h3>\n";
        page += &charts::ratios(own.iter().filter_map(|row| charts::Ratio::of_row(row)));
        let head = [
            "workload",
            "disturbance",
            "number",
            "undisturbed",
            "disturbed",
            "effect",
            "interval",
            "stalled",
            "stalls",
            "ended late",
        ];
        page += &table(&head, own.iter().map(|row| own_cells(row)));
    }
    if one.rows_left_out > 0 {
        let _ = writeln!(page, "<p class=\"faint\">{} more rows are not kept.</p>", one.rows_left_out);
    }
    page
}

/// A table for each of the source's own, and below it where this emulation is expected to differ.
fn published_tables(rows: &[&ExperimentRow]) -> String {
    let mut page = String::new();
    for rows in rows.chunk_by(|one, next| one.case == next.case) {
        let Some(first) = rows.first() else { continue };
        let _ = writeln!(page, "<h4>{}</h4>", text(&first.case));
        page += &table(&["row", "published", "here", "verdict"], rows.iter().map(|row| published_cells(row)));
        let differs: BTreeSet<&str> = rows.iter().map(|row| row.expected_to_differ.as_str()).collect();
        for words in differs.into_iter().filter(|words| !words.is_empty()) {
            let _ = writeln!(page, "<p class=\"faint\">Expected to differ: {}.</p>", text(words));
        }
    }
    page
}

fn published_cells(row: &ExperimentRow) -> Vec<String> {
    let verdict = if row.verdict.is_empty() { "nothing to compare with" } else { row.verdict.as_str() };
    [row.measure.as_str(), &row.published, &row.ours, verdict].map(str::to_owned).into()
}

fn own_cells(row: &ExperimentRow) -> Vec<String> {
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
    let interval = match (row.interval_low, row.interval_high) {
        (Some(low), Some(high)) => format!("{low:.4} to {high:.4}"),
        _ => String::new(),
    };
    let effect = match row.effect {
        Some(effect) if row.compared == "ratio" => format!("{effect:.4} times"),
        Some(effect) => format!("{effect:+.4}"),
        None => row.why.clone(),
    };
    vec![
        row.case.clone(),
        row.treatment.clone(),
        row.measure.clone(),
        number(row.undisturbed_median),
        number(row.disturbed_median),
        effect,
        interval,
        if row.effect.is_some() { format!("{:.2} %", row.injected_share * 100.0) } else { String::new() },
        if row.effect.is_some() { row.stall_count.to_string() } else { String::new() },
        row.end_late_median_ns.map_or(String::new(), late_by),
    ]
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = String::from("<div class=\"wide\"><table><tr>");
    head.iter().for_each(|word| table += &format!("<th class=\"w\">{word}</th>"));
    table += "</tr>\n";
    for cells in rows {
        table += "<tr>";
        cells.iter().for_each(|cell| table += &format!("<td class=\"w\">{}</td>", text(cell)));
        table += "</tr>\n";
    }
    table + "</table></div>\n"
}

fn late_by(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "" }, duration(ns.unsigned_abs()))
}

fn runs(one: &Experiment, far: &[u64]) -> String {
    if one.runs.is_empty() {
        return String::new();
    }
    let mut table = String::from(
        "<details><summary>Each run</summary><div class=\"wide\"><table><tr><th>run</th><th class=\"w\">kind</th><th>value</th>\
         <th>time</th><th>stalls</th><th>stalled</th><th>load</th><th class=\"w\"></th></tr>\n",
    );
    for run in &one.runs {
        let _ = writeln!(
            table,
            "<tr><td>{}</td><td class=\"w\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.2} %</td><td>{}</td>\
             <td class=\"w\">{}</td></tr>",
            run.run,
            text(&kind(run)),
            text(&value(&one.began.metric, run.value)),
            duration(run.wall_ns),
            run.stall_count,
            run.injected_share * 100.0,
            run.load.map_or(String::new(), |load| format!("{load:.2}")),
            text(&notes(run, far))
        );
    }
    if one.runs_left_out > 0 {
        let _ = writeln!(table, "<tr><td colspan=\"8\" class=\"w\">{} more</td></tr>", one.runs_left_out);
    }
    table + "</table></div></details>\n"
}

/// Which of several workloads it is of, and what was done to it.
fn kind(run: &ExperimentRun) -> String {
    let condition = run.condition.replace('_', " ");
    let of = if run.case.is_empty() { condition } else { format!("{}, {condition}", run.case) };
    if run.treatment.is_empty() { of } else { format!("{of}: {}", run.treatment) }
}

fn notes(run: &ExperimentRun, far: &[u64]) -> String {
    let counts = [(run.missed_stalls, "missed"), (run.dropped_stalls, "not recorded"), (run.cut_stalls, "cut short")];
    let told = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{} {words}", counted(count, "stall", "stalls")));
    let outlier = far.contains(&run.run).then(|| "outlier, counted all the same".to_owned());
    outlier.into_iter().chain(told).collect::<Vec<_>>().join("; ")
}

fn cores(one: &Experiment) -> String {
    let cores = one.stalls_by_core();
    if cores.is_empty() {
        return String::new();
    }
    let mut page = String::from(
        "<h3>Stalls, asked for and done</h3>\n<div class=\"wide\"><table><tr><th class=\"w\">core</th><th>stalls</th><th>asked</th>\
         <th>median</th><th>9 of 10</th><th>longest</th><th>started late</th><th>ended late</th></tr>\n",
    );
    for CoreStalls {
        core,
        count,
        asked_ns,
        length_median_ns,
        length_p90_ns,
        length_most_ns,
        start_late_median_ns,
        end_late_median_ns,
        ..
    } in cores
    {
        let core = core.map_or("the workload".to_owned(), |core| core.to_string());
        let _ = writeln!(
            page,
            "<tr><td class=\"w\">{core}</td><td>{count}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            duration(asked_ns),
            duration(length_median_ns),
            duration(length_p90_ns),
            duration(length_most_ns),
            late_by(start_late_median_ns),
            late_by(end_late_median_ns)
        );
    }
    page += "</table></div>\n";
    if one.stalls_left_out > 0 {
        let _ = writeln!(page, "<p class=\"faint\">{} more stalls are counted and not kept.</p>", one.stalls_left_out);
    }
    page + &charts::stalls(one)
}
