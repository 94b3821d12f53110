//! A fault movie for people.

use crate::nic::campaign::lines::FaultLine;
use surefoot_console::table::Table;
use surefoot_console::units::duration;
use surefoot_nic::campaign::movie::Movie;
use surefoot_rooms::nic::campaign::words::words;

pub fn of(movie: &Movie, line: &FaultLine) -> String {
    let mut text = format!("{}\n\n", line.id);
    let mut table = Table::new(&["since the fault", "host", "what happened"], &[1, 2]);
    for scene in &movie.scenes {
        let host = scene.place.map_or_else(|| "-".to_owned(), |place| place.to_string());
        let since = format!("{:.3} us", scene.since_ns as f64 / 1000.0);
        table.row(vec![since, host, words(&scene.what, duration)]);
    }
    text += &table.text();
    if movie.missed_count > 0 {
        text += &format!("{} more scenes are not shown; raise --scenes to see them.\n", movie.missed_count);
    }
    let by = match (&line.detected_by, line.detection_ns) {
        (Some(by), Some(ns)) => format!("detected by {} after {}", by.replace('_', "-"), duration(ns)),
        _ => "not detected".to_owned(),
    };
    let recovered = line.recovery_ns.map_or_else(String::new, |ns| format!(", recovered within {}", duration(ns)));
    text += &format!(
        "\nOutcome: {} ({}), {by}{recovered}.\n",
        line.outcome.replace('_', " "),
        line.standard.replace('_', " ")
    );
    text
}
