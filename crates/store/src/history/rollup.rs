//! Seconds summed up into minutes.

use super::sums::{self, CoreSum};
use super::waiting::SECOND_NS;
use super::write::{MINUTE, SECOND, SpanWriter};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::collections::BTreeMap;
use surefoot_model::{CpuId, FaultySum};

const MINUTE_NS: i64 = MINUTE * SECOND_NS;

/// Seconds taken into one transaction.
const SPANS_PER_TRANSACTION: usize = 600;

/// The sums of a minute.
#[derive(Default)]
struct Sums {
    /// Causes by their number in the database.
    cores: BTreeMap<CpuId, CoreSum<i64>>,
    faulty: BTreeMap<CpuId, FaultySum>,
}

/// Sums up the minutes that have become whole since the last time.
///
/// A minute is whole when a second of another minute was written after it. The seconds themselves carry the running
/// minute through a crash: `state` says how far they were summed up, in the same transaction as the sums.
pub(super) fn roll_up(connection: &mut Connection) -> rusqlite::Result<()> {
    loop {
        let seconds = seconds_to_roll_up(connection)?;
        let whole = whole_minutes(&seconds);
        if !whole.is_empty() {
            roll_up_seconds(connection, whole)?;
        }
        if seconds.len() < SPANS_PER_TRANSACTION {
            return Ok(());
        }
    }
}

/// A span of a second.
struct Second {
    id: i64,
    /// The minute that it begins in, counted since 1970.
    minute: i64,
}

fn seconds_to_roll_up(connection: &Connection) -> rusqlite::Result<Vec<Second>> {
    connection
        .prepare(
            "SELECT id, start_ns FROM span
             WHERE resolution_s = ?1 AND id > (SELECT value FROM state WHERE name = 'rolled_up_span')
             ORDER BY id LIMIT ?2",
        )?
        .query_map([SECOND, SPANS_PER_TRANSACTION as i64], |row| {
            Ok(Second { id: row.get(0)?, minute: row.get::<_, i64>(1)?.div_euclid(MINUTE_NS) })
        })?
        .collect()
}

/// All seconds but those of the running minute, which are the last ones.
///
/// If those are all there are, and too many for one transaction, they are summed up nevertheless; the rest of their
/// minute is added to it later.
fn whole_minutes(seconds: &[Second]) -> &[Second] {
    let running = seconds.last().map(|second| second.minute);
    match seconds.iter().rposition(|second| Some(second.minute) != running) {
        Some(last) => &seconds[..=last],
        None if seconds.len() == SPANS_PER_TRANSACTION => seconds,
        None => &[],
    }
}

fn roll_up_seconds(connection: &mut Connection, seconds: &[Second]) -> rusqlite::Result<()> {
    let mut minutes: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
    for second in seconds {
        minutes.entry(second.minute).or_default().push(second.id);
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (minute, spans) in &minutes {
        let mut sums = Sums::default();
        for &span in spans {
            add_span(&transaction, span, &mut sums)?;
        }
        write_minute(&transaction, *minute, sums)?;
    }
    let last = seconds.last().map(|second| second.id);
    transaction.execute("UPDATE state SET value = ?1 WHERE name = 'rolled_up_span'", [last])?;
    transaction.commit()
}

/// Adds what one span holds.
fn add_span(transaction: &Transaction<'_>, span: i64, sums: &mut Sums) -> rusqlite::Result<()> {
    let Sums { cores, faulty } = sums;
    let mut select = transaction.prepare(&format!("SELECT {} FROM core WHERE span = ?1", sums::TIMES))?;
    let mut rows = select.query([span])?;
    while let Some(row) = rows.next()? {
        let Some(times) = sums::times(row)? else { continue };
        cores.entry(times.cpu).or_insert_with(|| CoreSum::empty(times.cpu)).times.add_times(&times);
    }
    let mut select = transaction.prepare(&format!("SELECT {} FROM waited WHERE span = ?1", sums::WAITED))?;
    let mut rows = select.query([span])?;
    while let Some(row) = rows.next()? {
        let Some((cpu, waited)) = sums::waited(row)? else { continue };
        let sum = cores.entry(cpu).or_insert_with(|| CoreSum::empty(cpu));
        sum.times.waiting.get_or_insert_default().add(&waited);
    }
    let mut select =
        transaction.prepare("SELECT cpu, cause, count, total_ns, max_ns, while_idle_ns FROM lost WHERE span = ?1")?;
    let mut rows = select.query([span])?;
    while let Some(row) = rows.next()? {
        let Some(cpu) = sums::cpu(row, 0)? else { continue };
        cores.entry(cpu).or_insert_with(|| CoreSum::empty(cpu)).add_lost(row.get(1)?, sums::lost(row, 2)?);
    }
    let mut select = transaction.prepare(sums::FAULTY)?;
    let mut rows = select.query([span])?;
    while let Some(row) = rows.next()? {
        let Some(one) = sums::faulty(row)? else { continue };
        faulty.entry(one.cpu).and_modify(|sum| sum.add(&one)).or_insert(one);
    }
    Ok(())
}

/// Writes a minute, together with what an earlier run of the program has written of it.
fn write_minute(transaction: &Transaction<'_>, minute: i64, mut sums: Sums) -> rusqlite::Result<()> {
    let start_ns = minute.saturating_mul(MINUTE_NS);
    let earlier: Vec<i64> = transaction
        .prepare("SELECT id FROM span WHERE resolution_s = ?1 AND start_ns = ?2")?
        .query_map([MINUTE, start_ns], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    for span in earlier {
        add_span(transaction, span, &mut sums)?;
        delete_span(transaction, span)?;
    }
    let mut writer = SpanWriter::new(transaction)?;
    let id = writer.span(MINUTE, start_ns, start_ns.saturating_add(MINUTE_NS))?;
    for core in sums.cores.values() {
        writer.core(id, core)?;
    }
    sums.faulty.values().try_for_each(|faulty| writer.faulty(id, faulty))
}

/// Deletes a span and what it holds.
pub(super) fn delete_span(transaction: &Transaction<'_>, span: i64) -> rusqlite::Result<()> {
    transaction.execute("DELETE FROM faulty WHERE span = ?1", [span])?;
    transaction.execute("DELETE FROM waited WHERE span = ?1", [span])?;
    transaction.execute("DELETE FROM lost WHERE span = ?1", [span])?;
    transaction.execute("DELETE FROM core WHERE span = ?1", [span])?;
    transaction.execute("DELETE FROM span WHERE id = ?1", [span])?;
    Ok(())
}
