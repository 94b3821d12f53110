//! One experiment: what was done, the effect, the runs, the stalls core by core, and what to keep in mind.

use super::{charts, interval, said, text, value};
use crate::units::duration;
use std::fmt::Write;
use surefoot_daemon::rooms::disturb::{CoreStalls, Experiment, by_core};
use surefoot_model::{ExperimentEffect, ExperimentRow, ExperimentRun};

pub fn section(one: &Experiment) -> String {
    let done = one.began.what().replacen("holds", "held", 1).replacen("disturbs", "disturbed", 1);
    let mut page = format!("<p>Surefoot {}.</p>\n", text(&done));
    let effect = one.ended.as_ref().and_then(|ended| ended.effect.as_deref());
    match effect {
        Some(effect) => page += &result(one, effect),
        None if !one.rows.is_empty() => {}
        None => {
            let _ = writeln!(page, "<p class=\"bad\">{}</p>", text(&said(one)));
        }
    }
    page += &rows(&one.rows);
    page += &charts::runs(one);
    page += &runs(one, effect.map_or(&[][..], |effect| &effect.outlier_runs));
    page += &cores(one);
    if let Some(effect) = effect.filter(|effect| !(effect.warnings.is_empty() && effect.notes.is_empty())) {
        page += "<h3>To keep in mind</h3>\n<ul>\n";
        effect
            .notes
            .iter()
            .chain(&effect.warnings)
            .for_each(|warning| page += &format!("<li>{}</li>\n", text(warning)));
        page += "</ul>\n";
    }
    page
}

fn result(one: &Experiment, effect: &ExperimentEffect) -> String {
    let mut page = String::new();
    let metric = &effect.metric;
    let verdict = if effect.effect_shown {
        "An effect is shown: the interval does not hold 1.".to_owned()
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
        let _ = writeln!(page, "<tr><th class=\"w\">{what}</th><td class=\"w\">{}</td></tr>", text(&words));
    };
    row("workload", effect.workload.clone());
    row("number", metric.clone());
    row("undisturbed, median", value(metric, effect.undisturbed_median));
    row("disturbed, median", value(metric, effect.disturbed_median));
    row("method", format!("{}: {}", effect.method, effect.method_words));
    let share = effect.injected_share * 100.0;
    row("stood still", format!("{share:.3} % of the disturbed runs' time, {} stalls", effect.stall_count));
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
fn rows(rows: &[ExperimentRow]) -> String {
    let (published, own): (Vec<_>, Vec<_>) =
        rows.iter().partition(|row| !row.published.is_empty() || !row.verdict.is_empty());
    let mut page = String::new();
    if !published.is_empty() {
        page += "<h3>Published, and found here</h3>\n";
        let head = ["table", "row", "published", "here", "verdict", "expected to differ"];
        page += &table(&head, published.iter().map(|row| published_cells(row)));
    }
    if !own.is_empty() {
        page += "<h3>Each number</h3>\n";
        let head =
            ["workload", "disturbance", "number", "undisturbed", "disturbed", "effect", "interval", "stood still"];
        page += &table(&head, own.iter().map(|row| own_cells(row)));
    }
    page
}

fn published_cells(row: &ExperimentRow) -> Vec<String> {
    [&row.case, &row.measure, &row.published, &row.ours, &row.verdict, &row.expected_to_differ].map(Clone::clone).into()
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
        format!("{:.2} %", row.injected_share * 100.0),
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
         <th>time</th><th>stalls</th><th>stood still</th><th>load</th><th class=\"w\"></th></tr>\n",
    );
    for run in &one.runs {
        let _ = writeln!(
            table,
            "<tr><td>{}</td><td class=\"w\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.2} %</td><td>{}</td>\
             <td class=\"w\">{}</td></tr>",
            run.run,
            text(&run.condition.replace('_', " ")),
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

fn notes(run: &ExperimentRun, far: &[u64]) -> String {
    let counts = [(run.missed_stalls, "missed"), (run.dropped_stalls, "not recorded"), (run.cut_stalls, "cut short")];
    let told =
        counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, words)| format!("{count} stalls {words}"));
    let outlier = far.contains(&run.run).then(|| "outlier, counted all the same".to_owned());
    outlier.into_iter().chain(told).collect::<Vec<_>>().join("; ")
}

fn cores(one: &Experiment) -> String {
    let cores = by_core(&one.stalls, one.began.length_ns);
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
