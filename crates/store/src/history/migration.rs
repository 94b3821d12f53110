//! The tables, one step per version of the schema.
//!
//! A step is SQL that leads from the version before to its own. A step that was released never changes; a new version
//! is a new step, a file of the version before among the fixtures of the tests, and a line in `TABLES`. Each step is one
//! transaction together with `user_version`, so that a file is of one version or of the next, whatever ends the process.
//!
//! Written here, because no kept library fits: rusqlite_migration 2.6 is bound to rusqlite 0.40, and refinery 0.10 needs a
//! newer compiler than this workspace asks for and counts in a table of its own, which files of version 1 do not have.

use super::schema::APPLICATION_ID;
use rusqlite::{Connection, TransactionBehavior};

const STEPS: [&str; 5] = [VERSION_1, VERSION_2, VERSION_3, VERSION_4, VERSION_5];

/// The version of the schema that this release writes, in `user_version`.
pub const SCHEMA_VERSION: i64 = STEPS.len() as i64;

/// Every table, with the version that brought it.
const TABLES: [(i64, &str); 13] = [
    (1, "host"),
    (1, "cause"),
    (1, "span"),
    (1, "core"),
    (1, "lost"),
    (1, "gap"),
    (1, "notice"),
    (1, "state"),
    (2, "finding"),
    (2, "record"),
    (3, "clock"),
    (4, "waited"),
    (5, "faulty"),
];

/// Lost time: spans, gaps and notices.
const VERSION_1: &str = "
CREATE TABLE host (
    id INTEGER PRIMARY KEY,
    since_ns INTEGER NOT NULL,
    hostname TEXT NOT NULL,
    description TEXT NOT NULL
) STRICT;
CREATE TABLE cause (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (kind, name)
) STRICT;
-- AUTOINCREMENT, so that a number is never given twice: `state` remembers the last one rolled up.
CREATE TABLE span (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    resolution_s INTEGER NOT NULL,
    start_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX span_by_time ON span (resolution_s, start_ns);
CREATE TABLE core (
    span INTEGER NOT NULL,
    cpu INTEGER NOT NULL,
    wall_ns INTEGER NOT NULL,
    idle_ns INTEGER NOT NULL,
    user_ns INTEGER NOT NULL,
    kernel_ns INTEGER NOT NULL,
    unexplained_ns INTEGER NOT NULL,
    PRIMARY KEY (span, cpu)
) STRICT, WITHOUT ROWID;
CREATE TABLE lost (
    span INTEGER NOT NULL,
    cpu INTEGER NOT NULL,
    cause INTEGER NOT NULL,
    count INTEGER NOT NULL,
    total_ns INTEGER NOT NULL,
    max_ns INTEGER NOT NULL,
    while_idle_ns INTEGER NOT NULL,
    PRIMARY KEY (span, cpu, cause)
) STRICT, WITHOUT ROWID;
CREATE TABLE gap (
    id INTEGER PRIMARY KEY,
    day INTEGER NOT NULL,
    start_ns INTEGER NOT NULL,
    cpu INTEGER NOT NULL,
    duration_ns INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    description TEXT NOT NULL
) STRICT;
CREATE INDEX gap_by_length ON gap (day, duration_ns);
CREATE INDEX gap_by_time ON gap (start_ns);
CREATE TABLE notice (
    id INTEGER PRIMARY KEY,
    at_ns INTEGER NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE TABLE state (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO state VALUES ('rolled_up_span', 0);
";

/// Findings that came and went, and what rooms record: of every room, so that a new one needs no tables to begin.
const VERSION_2: &str = "
CREATE TABLE finding (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    room TEXT NOT NULL,
    subject_kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    severity TEXT NOT NULL,
    certainty TEXT NOT NULL,
    sentence TEXT NOT NULL,
    body TEXT NOT NULL,
    from_ns INTEGER NOT NULL,
    last_seen_ns INTEGER NOT NULL,
    until_ns INTEGER
) STRICT;
CREATE INDEX finding_by_time ON finding (from_ns);
CREATE INDEX finding_that_holds ON finding (id) WHERE until_ns IS NULL;
CREATE TABLE record (
    id INTEGER PRIMARY KEY,
    room TEXT NOT NULL,
    kind TEXT NOT NULL,
    subject_kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    at_ns INTEGER NOT NULL,
    dedupe TEXT NOT NULL UNIQUE,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX record_by_time ON record (at_ns);
CREATE INDEX record_by_subject ON record (room, subject, at_ns);
";

/// Changes of the wall clock, each as it was shown after and before, and the offset from the monotonic clock from then on.
const VERSION_3: &str = "
CREATE TABLE clock (
    id INTEGER PRIMARY KEY,
    at_ns INTEGER NOT NULL,
    former_ns INTEGER NOT NULL,
    monotonic_ns INTEGER NOT NULL,
    offset_ns INTEGER NOT NULL,
    slept_ns INTEGER NOT NULL,
    -- The same change, told again.
    UNIQUE (monotonic_ns, offset_ns)
) STRICT;
CREATE INDEX clock_by_time ON clock (at_ns);
";

/// How long tasks waited for each core of a span, where the source knew.
const VERSION_4: &str = "
CREATE TABLE waited (
    span INTEGER NOT NULL,
    cpu INTEGER NOT NULL,
    count INTEGER NOT NULL,
    total_ns INTEGER NOT NULL,
    throttled_count INTEGER NOT NULL,
    throttled_ns INTEGER NOT NULL,
    moved_away INTEGER NOT NULL,
    not_followed INTEGER NOT NULL,
    PRIMARY KEY (span, cpu)
) STRICT, WITHOUT ROWID;
";

/// Cores of a span whose ledgers could not be true and are in no sum: in how many windows, and the first fault as JSON.
const VERSION_5: &str = "
CREATE TABLE faulty (
    span INTEGER NOT NULL,
    cpu INTEGER NOT NULL,
    count INTEGER NOT NULL,
    fault TEXT NOT NULL,
    PRIMARY KEY (span, cpu)
) STRICT, WITHOUT ROWID;
";

/// The tables that a file of this version has.
pub(super) fn tables_of(version: i64) -> Vec<&'static str> {
    TABLES.iter().filter(|table| table.0 <= version).map(|table| table.1).collect()
}

/// Brings the tables from this version, 0 for none, to [`SCHEMA_VERSION`].
pub(super) fn migrate(connection: &mut Connection, version: i64) -> rusqlite::Result<()> {
    for (step, next) in STEPS.iter().zip(1..).filter(|&(_, next)| next > version) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", next)?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_has_the_tables_that_are_listed_for_it() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, 0).unwrap();
        let laid: Vec<String> = connection
            .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid")
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(laid, tables_of(SCHEMA_VERSION));
        assert_eq!(tables_of(1).len(), 8);
    }
}
