//! What the slides found, each as a row of its own.

use super::simulated::Simulated;
use super::{NEAR, NO_PUBLISHED, RATES, collectives};
use crate::preset::row::{Number, View};
use crate::preset::{Extra, Row, Verdict};

/// A finding in words.
fn finding(name: &str, published: &str, found: Result<(bool, String), String>, differs: &'static str) -> Row {
    let (ours, verdict) = match found {
        Ok((is_so, ours)) => (ours, Verdict::of(is_so)),
        Err(why) => (why, Verdict::CannotBeTested),
    };
    let (row, published) = (name.to_owned(), published.to_owned());
    Row { table: "Findings", row, published, ours, value: None, interval: None, differs, verdict: Some(verdict) }
}

pub(super) fn rows(view: &View<'_>, extras: &[Extra], simulated: &Simulated) -> Vec<Row> {
    let change =
        |case: &str, treatment: &str, measure: &str| view.change(case, treatment, measure).map(|(number, _)| number);
    // A finding is not judged by what others on this machine did.
    let clear = |number: Number| match number.is_too_wide() {
        false => Ok(number),
        true => Err(format!("{}: too noisy here to tell", number.words(1, " %"))),
    };
    let tcp = |treatment: &str| clear(change("tcp", treatment, "received_bit_per_s")?);
    let speed = |treatment: &str| clear(collectives(view, "mpi-2", treatment)?);
    let slower = |case: &str, measure: &str| -> Result<(bool, String), String> {
        let number = clear(change(case, "long", measure)?)?;
        Ok((number.high < 0.0, number.words(1, " %")))
    };
    let multi = || -> Result<(bool, String), String> {
        let (one, all) = (
            clear(change("cpu-integer", "long", "events_per_s")?)?,
            clear(change("cpu-integer-all", "long", "events_per_s")?)?,
        );
        Ok((all.high < one.low, format!("{:.1} % on one core, {:.1} % on all", one.value, all.value)))
    };
    let each_takes_its_share = || -> Result<(bool, String), String> {
        let all = RATES.map(|rate| tcp(&format!("sender-{rate}")).map(|number| number.value));
        let all = all.into_iter().collect::<Result<Vec<f64>, String>>()?;
        let falls = all.windows(2).all(|pair| pair[1] < pair[0]) && (-all[3] / 4.0 - 10.0).abs() < NEAR;
        Ok((falls, format!("{} % with 1 to 4 a second", list(&all))))
    };
    let receiving_is_worse = || -> Result<(bool, String), String> {
        let of = |treatment: &str| clear(change("tcp-ring", treatment, "received_bit_per_s")?);
        let (sends, receives) = (of("sender-2")?, of("receiver-2")?);
        let (again, _) = view.rise("tcp-ring", "receiver-2", "retransmits")?;
        let is_worse = receives.high < sends.low && again.low > 0.0;
        Ok((
            is_worse,
            format!(
                "{:.1} % sending, {:.1} % receiving at 2 a second; {:.0} more sent again",
                sends.value, receives.value, again.value
            ),
        ))
    };
    let loss_is_the_share = || -> Result<(bool, String), String> {
        let all =
            RATES.map(|rate| view.rise("udp", &format!("receiver-{rate}"), "lost_percent").map(|(rise, _)| rise.value));
        let all = all.into_iter().collect::<Result<Vec<f64>, String>>()?;
        let is_share = RATES.iter().zip(&all).all(|(rate, loss)| (loss - 10.5 * *rate as f64).abs() < NEAR);
        Ok((is_share, format!("{} % with 1 to 4 a second, of which 10.5 % each are stalled", list(&all))))
    };
    let short_are_not_seen = || -> Result<(bool, String), String> {
        let (ten, hundred) = (tcp("receiver-short-10")?, tcp("receiver-short-100")?);
        let is_so = ten.value > -NEAR && hundred.value > -NEAR;
        Ok((is_so, format!("{:.1} % at 10 a second, {:.1} % at 100", ten.value, hundred.value)))
    };
    let all_is_worse_than_one = || -> Result<(bool, String), String> {
        let (one, all) = (speed("one")?, speed("all")?);
        Ok((all.value < one.value, format!("speed {:.1} % with one, {:.1} % with both", one.value, all.value)))
    };
    let more_machines = || -> Result<(bool, String), String> {
        let all = simulated.few.iter().map(|found| found.clone().map(|speed| speed.value));
        let all = all.collect::<Result<Vec<f64>, String>>()?;
        Ok((all.windows(2).all(|pair| pair[1] < pair[0]), format!("{} % with 2, 4 and 8, of a simulation", list(&all))))
    };
    let spread = || -> Result<(bool, String), String> {
        let spread = view.spread("mpi-2")?;
        Ok((spread > 1.1, format!("undisturbed runs of a collective lie up to {:.0} % apart", (spread - 1.0) * 100.0)))
    };
    let coordinated = || -> Result<(bool, String), String> {
        let [apart, at_once] = simulated.many.clone();
        let (apart, at_once) = (apart?, at_once?);
        let (here, together) = (speed("all")?, speed("all-at-once")?);
        let ours = format!(
            "2 machines here: speed {:.1} % apart, {:.1} % at once; 64 simulated: {:.1} % and {:.0} %",
            here.value, together.value, apart.value, at_once.value
        );
        Ok((at_once.value > 2.0 * apart.value, ours))
    };
    let lengths = || -> Result<(bool, String), String> {
        let mut all = Vec::new();
        for extra in extras {
            if let Extra::Length { asked_ns, found } = extra {
                let found = found.clone()?;
                all.push((*asked_ns as f64 / 1e6, found.length_ns / 1e6));
            }
        }
        if all.is_empty() {
            return Err("the length was not measured".into());
        }
        let is_near =
            all.iter().all(|(asked, found)| (found / asked - 1.0).abs() < 0.02 || (found - asked).abs() < 0.05);
        let words: Vec<String> = all.iter().map(|(asked, found)| format!("{found:.3} ms of {asked} ms")).collect();
        Ok((is_near, words.join(", ")))
    };
    let drift = || -> Result<(bool, String), String> {
        let found =
            extras.iter().find_map(|extra| if let Extra::Drift { found } = extra { Some(found.clone()) } else { None });
        let (drift, clocksource) = found.unwrap_or_else(|| Err("it was not measured".into()))?;
        let us = |ns: f64| ns / 1e3;
        let (middle, low, high) = (us(drift.ns_per_thousand), us(drift.low_ns), us(drift.high_ns));
        let words = format!(
            "{middle:.0} us ({low:.0} to {high:.0}) per thousand stalls; the kernel's clock source is {clocksource}"
        );
        Ok((drift.is_shown(), words))
    };
    vec![
        finding(
            "long SMIs slow one core's work",
            "-2 % (nbench), -12 % (kernel)",
            slower("cpu-integer", "events_per_s"),
            "the slides' nbench lost less than the share of time",
        ),
        finding("long SMIs slow a compile", "-12 %", slower("compile", "compile_ns"), NO_PUBLISHED),
        finding(
            "work on all cores loses much more than on one",
            "much worse",
            multi(),
            "here all cores lose the same share as one",
        ),
        finding(
            "each long SMI a second takes a tenth of what a TCP sender sends",
            "5.60 to 5.05, 4.43, 3.82, 3.21 GB",
            each_takes_its_share(),
            NO_PUBLISHED,
        ),
        finding(
            "a TCP receiver loses more than a sender, with many packets sent again",
            "4.53, 3.95, 3.32, 2.71 GB; 28,000 to 50,000 sent again",
            receiving_is_worse(),
            "a ring of 256 packets stands for the network card's; how much more is lost depends on its size",
        ),
        finding(
            "UDP loss at a receiver is the share of time in SMIs",
            "10.9, 21.5, 32.4, 44.1 %",
            loss_is_the_share(),
            NO_PUBLISHED,
        ),
        finding(
            "short SMIs, up to 500 a second, do not show in TCP",
            "no visible effect",
            short_are_not_seen(),
            "2 ms 100 times a second are a fifth of the time here, independent of the network",
        ),
        finding(
            "MPI loses more with SMIs on all machines than on one",
            "66 % and 96 %",
            all_is_worse_than_one(),
            "66 % is the mean of 2, 4 and 8 machines",
        ),
        finding(
            "the more machines, the more an MPI program loses",
            "90, 61, 47 % with 2, 4, 8",
            more_machines(),
            "4 and 8 machines take as many cores",
        ),
        finding(
            "runs differ by up to a half, and some are faster with SMIs",
            "up to 50 %",
            spread(),
            "a machine that does nothing else differs less",
        ),
        finding(
            "to coordinate SMIs would help (left open by the slides)",
            "open",
            coordinated(),
            "a simulation says it for many machines",
        ),
        finding(
            "counting SMIs tells their length",
            "1 to 3 ms and 100 to 110 ms",
            lengths(),
            "the stalls here are known",
        ),
        finding(
            "wall clocks drift apart",
            "they did",
            drift(),
            "kernels that read a counter lose no time; those that count ticks do",
        ),
    ]
}

fn list(values: &[f64]) -> String {
    values.iter().map(|value| format!("{value:.1}")).collect::<Vec<_>>().join(", ")
}
