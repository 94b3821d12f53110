//! From what a drive says of its wear to what it may still take. Pure.

use super::{Drive, YEAR_S};
use surefoot_model::{DriveSource, DriveWear};

/// The life that ratings are meant for, where nobody says another.
const RATED_LIFE_S: f64 = 5.0 * YEAR_S;

/// A drive that is at the end of its rated life, or beyond, is planned to last for so long, unless the user says.
const LEAST_REMAINING_S: f64 = YEAR_S;

/// What the user says of the drive; each part goes before what was read.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Endurance {
    /// Bytes that it is rated for.
    pub rated_bytes: Option<f64>,
    /// Bytes written so far.
    pub written_bytes: Option<f64>,
    /// Seconds until the end of its planned life.
    pub remaining_s: Option<f64>,
    /// How much more it writes to its flash than under the workload that the rating is meant for.
    pub amplification_factor: Option<f64>,
}

impl Endurance {
    /// The drive as the user alone describes it; `None` where its rating is not said.
    pub fn by_hand(&self) -> Option<Drive> {
        Some(Drive {
            rated_bytes: self.rated_bytes? / self.amplification_factor.unwrap_or(1.0),
            written_bytes: self.written_bytes.unwrap_or(0.0),
            remaining_s: self.remaining_s.unwrap_or(RATED_LIFE_S),
            rated_life_s: RATED_LIFE_S,
        })
    }
}

/// What a drive can still take, in bytes of hosts, and the sentence that says from what that is known. `age_s` is the
/// age of the reading, seconds.
///
/// - *Rated*: by hand; else the drive's endurance estimate over its measured write amplification (the estimate counts
///   bytes to the flash); else the maker's rating, divided by the factor by hand, because its workload has an amplification
///   of its own; else what was written over the share of life used.
/// - *Written*: by hand; else the larger of what hosts wrote and the rated share that the drive says is used, so that
///   neither warranty nor flash runs out unseen.
/// - *Remaining*: by hand; else five years less the time switched on, and a year at least.
///
/// # Errors
/// Why that is not enough to tell, a sentence without a full stop.
pub fn of_wear(wear: &DriveWear, endurance: &Endurance, age_s: f64) -> Result<(Drive, String), String> {
    let name = name(wear);
    let used_share = wear.percent_used.as_ref().map(|percent| percent.value as f64 / 100.0);
    let host_bytes = wear.written_bytes.as_ref().map(|written| written.value as f64);
    let (rated_bytes, rated_by) = rated(wear, endurance, used_share)
        .ok_or_else(|| format!("{name} has no known rating; endurance.rated_bytes says it by hand"))?;
    let known = [host_bytes, used_share.map(|share| share * rated_bytes)];
    let known = known.into_iter().flatten().reduce(f64::max);
    let written_bytes = match endurance.written_bytes.or(known) {
        Some(bytes) => bytes,
        // Who says the rating by hand and nothing more has a new drive.
        None if endurance.rated_bytes.is_some() => 0.0,
        None => return Err(format!("{name} does not tell how much was written to it")),
    };
    let on_s = wear.power_on_hours.as_ref().map(|hours| hours.value as f64 * 3_600.0 + age_s.max(0.0));
    let left_s = (RATED_LIFE_S - on_s.unwrap_or(0.0)).max(LEAST_REMAINING_S);
    let drive = Drive {
        rated_bytes,
        written_bytes,
        remaining_s: endurance.remaining_s.unwrap_or(left_s),
        rated_life_s: RATED_LIFE_S,
    };
    let is_plausible = [drive.rated_bytes, drive.written_bytes, drive.remaining_s].into_iter().all(f64::is_finite);
    if !is_plausible || rated_bytes <= 0.0 {
        return Err(format!("{name} has a rating that cannot be"));
    }
    let mut said = format!("{name}: {} of {} written ({rated_by}", terabytes(written_bytes), terabytes(rated_bytes));
    match (&wear.percent_used, endurance.written_bytes, &wear.written_bytes) {
        (_, Some(_), _) => said += "; written by hand",
        (Some(percent), ..) => said += &format!("; the drive says {} % used", percent.value),
        (None, None, Some(written)) if !written.source.covers_life() => {
            said += &format!("; at least, {}", written.source.label());
        }
        _ => {}
    }
    said += &match (endurance.remaining_s, on_s) {
        (Some(_), _) => ")".to_owned(),
        (None, Some(on_s)) => format!("; {:.1} years old)", on_s / YEAR_S),
        (None, None) => "; age not known)".to_owned(),
    };
    Ok((drive, said))
}

/// As [`of_wear`] for the drives of an array: the one with the least endurance of those that tell, as if each took every byte.
///
/// # Errors
/// Why none tells enough; `None` where there is no drive.
pub fn of_drives(
    drives: &[&DriveWear],
    endurance: &Endurance,
    age_s: f64,
    granted_share: f64,
) -> Result<(Drive, String), Option<String>> {
    let (known, unknown): (Vec<_>, Vec<_>) =
        drives.iter().map(|wear| of_wear(wear, endurance, age_s)).partition(Result::is_ok);
    let bears = |(drive, _): &(Drive, String)| drive.bearable_bytes_per_s(granted_share);
    let least = known.into_iter().flatten().min_by(|one, other| bears(one).total_cmp(&bears(other)));
    let Some((drive, mut said)) = least else { return Err(unknown.into_iter().find_map(Result::err)) };
    if drives.len() > 1 {
        said += &format!("; the one with the least endurance of {}", drives.len());
        said += if unknown.is_empty() { "" } else { ", of which some tell nothing" };
    }
    Ok((drive, said))
}

/// Bytes of hosts that the drive is rated for, and who says so.
fn rated(wear: &DriveWear, endurance: &Endurance, used_share: Option<f64>) -> Option<(f64, String)> {
    let by_hand = endurance.amplification_factor;
    let factor = by_hand.unwrap_or(1.0);
    if let Some(bytes) = endurance.rated_bytes {
        return Some((bytes / factor, "rated by hand".into()));
    }
    if let Some(rated) = wear.rated_bytes.as_ref().filter(|rated| rated.value > 0) {
        let bytes = rated.value as f64;
        if rated.source != DriveSource::NvmeEnduranceLog {
            return Some((bytes / factor, format!("rating from the {}", rated.source.label())));
        }
        let measured = wear.write_amplification.as_ref().map(|ratio| ratio.value);
        let ratio = by_hand.or(measured).filter(|ratio| (0.01..=1_000.0).contains(ratio)).unwrap_or(1.0);
        return Some((bytes / ratio, format!("{}, write amplification {ratio:.2}", rated.source.label())));
    }
    // A share of less than a percent is a rounding of anything.
    let share = used_share.filter(|&share| share >= 0.01)?;
    let written = wear.written_bytes.as_ref().filter(|written| written.source.covers_life() && written.value > 0)?;
    Some((written.value as f64 / share, format!("rating inferred from {:.0} % used", 100.0 * share)))
}

/// A name for a sentence; the text may come from a hostile file.
fn name(wear: &DriveWear) -> String {
    let clean = |text: &str| text.chars().filter(|c| !c.is_control()).take(60).collect::<String>();
    let (model, name) = (clean(&wear.model), clean(&wear.name));
    if model.is_empty() { name } else { format!("{model} ({name})") }
}

fn terabytes(bytes: f64) -> String {
    match bytes / 1e12 {
        large if large >= 9.95 => format!("{large:.0} TB"),
        small => format!("{small:.2} TB"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use surefoot_model::Sourced;

    const TB: u64 = 1_000_000_000_000;

    fn sourced(value: u64, source: DriveSource) -> Option<Sourced<u64>> {
        Some(Sourced::new(value, source, ""))
    }

    /// 600 TB rated, 150 TB written, 10 % used, half a year on.
    fn ssd() -> DriveWear {
        DriveWear {
            name: "nvme0n1".into(),
            model: "Example SSD".into(),
            rated_bytes: sourced(600 * TB, DriveSource::RatingTable),
            written_bytes: sourced(150 * TB, DriveSource::NvmeHealthLog),
            percent_used: sourced(10, DriveSource::NvmeHealthLog),
            power_on_hours: sourced(4_383, DriveSource::NvmeHealthLog),
            ..DriveWear::default()
        }
    }

    fn read(wear: &DriveWear) -> (Drive, String) {
        of_wear(wear, &Endurance::default(), 0.0).unwrap()
    }

    #[test]
    fn the_worse_of_warranty_and_flash_counts() {
        let (drive, said) = read(&ssd());
        assert_eq!((drive.rated_bytes, drive.written_bytes), (600e12, 150e12));
        assert!((drive.remaining_s - 4.5 * YEAR_S).abs() < 1.0, "{drive:?}");
        let wanted = "Example SSD (nvme0n1): 150 TB of 600 TB written (rating from the table of ratings; the drive says \
                      10 % used; 0.5 years old)";
        assert_eq!(said, wanted);
        let worn = DriveWear { percent_used: sourced(130, DriveSource::NvmeHealthLog), ..ssd() };
        assert_eq!(read(&worn).0.written_bytes, 780e12);
        assert_eq!(read(&worn).0.bearable_bytes_per_s(1.0), 0.0);
    }

    #[test]
    fn a_measured_amplification_cuts_what_the_flash_will_bear() {
        let estimate = DriveWear {
            rated_bytes: sourced(3_000 * TB, DriveSource::NvmeEnduranceLog),
            write_amplification: Some(Sourced::new(2.5, DriveSource::NvmeEnduranceLog, "")),
            percent_used: None,
            ..ssd()
        };
        let (drive, said) = read(&estimate);
        // (3,000 TB of flash - 2.5 * 150 TB) / 2.5 are left, in bytes of hosts.
        assert_eq!(drive.rated_bytes - drive.written_bytes, 1_050e12);
        assert!(said.contains("write amplification 2.50"), "{said}");
        let by_hand = Endurance { amplification_factor: Some(1.0), ..Endurance::default() };
        assert_eq!(of_wear(&estimate, &by_hand, 0.0).unwrap().0.rated_bytes, 3_000e12);
        // A maker's rating has its own workload's amplification in it.
        let factor = Endurance { amplification_factor: Some(2.0), ..Endurance::default() };
        assert_eq!(of_wear(&ssd(), &factor, 0.0).unwrap().0.rated_bytes, 300e12);
    }

    #[test]
    fn without_a_rating_the_used_share_tells_it_from_one_percent_on() {
        let unrated = |percent| DriveWear {
            rated_bytes: None,
            percent_used: sourced(percent, DriveSource::NvmeHealthLog),
            ..ssd()
        };
        assert_eq!(read(&unrated(10)).0.rated_bytes, 1_500e12);
        for wear in [
            unrated(0),
            DriveWear { percent_used: None, ..unrated(0) },
            DriveWear { written_bytes: sourced(5 * TB, DriveSource::SinceBoot), ..unrated(10) },
            DriveWear { written_bytes: None, ..unrated(10) },
            DriveWear::default(),
        ] {
            let why = of_wear(&wear, &Endurance::default(), 0.0).unwrap_err();
            assert!(why.contains("no known rating") && why.contains("endurance.rated_bytes"), "{why}");
        }
    }

    #[test]
    fn of_an_array_the_drive_that_bears_least_counts() {
        let silent = DriveWear { name: "sdc".into(), ..DriveWear::default() };
        let worn = DriveWear { percent_used: sourced(90, DriveSource::Smartctl), name: "sdb".into(), ..ssd() };
        let of = |drives: &[&DriveWear]| of_drives(drives, &Endurance::default(), 0.0, 1.0);
        assert!(!of(&[&ssd()]).unwrap().1.contains("least"));
        let (drive, said) = of(&[&ssd(), &worn, &silent, &ssd()]).unwrap();
        assert_eq!(drive.written_bytes, 540e12);
        assert!(said.ends_with("; the one with the least endurance of 4, of which some tell nothing"), "{said}");
        assert!(of(&[&silent]).unwrap_err().unwrap().contains("sdc has no known rating"));
        assert_eq!(of(&[]), Err(None));
    }

    #[test]
    fn what_covers_less_than_the_life_is_said() {
        let short = DriveWear { percent_used: None, written_bytes: sourced(5 * TB, DriveSource::SinceBoot), ..ssd() };
        let (drive, said) = read(&short);
        assert_eq!(drive.written_bytes, 5e12);
        assert!(said.contains("at least, since boot"), "{said}");
        let nothing = DriveWear { written_bytes: None, power_on_hours: None, ..short };
        assert!(of_wear(&nothing, &Endurance::default(), 0.0).unwrap_err().contains("does not tell"));
        let rated = Endurance { rated_bytes: Some(100e12), ..Endurance::default() };
        let (drive, said) = of_wear(&nothing, &rated, 0.0).unwrap();
        assert_eq!((drive.rated_bytes, drive.written_bytes, drive.remaining_s), (100e12, 0.0, 5.0 * YEAR_S));
        assert!(said.contains("age not known"), "{said}");
    }

    #[test]
    fn each_part_by_hand_goes_first_and_alone() {
        let hand = |change: fn(&mut Endurance)| {
            let mut endurance = Endurance::default();
            change(&mut endurance);
            of_wear(&ssd(), &endurance, 0.0).unwrap()
        };
        let (drive, said) = hand(|hand| hand.rated_bytes = Some(1e15));
        assert_eq!((drive.rated_bytes, drive.written_bytes), (1e15, 150e12));
        assert!(said.contains("rated by hand"), "{said}");
        let (drive, said) = hand(|hand| hand.written_bytes = Some(1e12));
        assert_eq!((drive.rated_bytes, drive.written_bytes), (600e12, 1e12));
        assert!(said.contains("written by hand"), "{said}");
        assert_eq!(hand(|hand| hand.remaining_s = Some(7.0)).0.remaining_s, 7.0);
        assert_eq!(Endurance::default().by_hand(), None);
        let alone = Endurance { rated_bytes: Some(1e15), ..Endurance::default() }.by_hand().unwrap();
        assert_eq!((alone.written_bytes, alone.remaining_s), (0.0, 5.0 * YEAR_S));
    }

    #[test]
    fn an_old_drive_is_planned_for_another_year() {
        let old = |hours, age_s| {
            let wear = DriveWear { power_on_hours: sourced(hours, DriveSource::Smartctl), ..ssd() };
            of_wear(&wear, &Endurance::default(), age_s).unwrap().0.remaining_s / YEAR_S
        };
        assert_eq!((old(100_000, 0.0), old(u64::MAX, 0.0)), (1.0, 1.0));
        assert!((old(8_766, YEAR_S) - 3.0).abs() < 1e-9, "the reading's own age counts");
        assert_eq!(old(0, -5.0), 5.0);
    }

    #[test]
    fn hostile_numbers_and_names_are_refused_or_cut() {
        let most = DriveWear {
            model: "\u{1b}[31m\n".repeat(1_000),
            rated_bytes: sourced(u64::MAX, DriveSource::RatingTable),
            written_bytes: sourced(u64::MAX, DriveSource::Smartctl),
            percent_used: sourced(u64::MAX, DriveSource::Smartctl),
            ..ssd()
        };
        let (drive, said) = read(&most);
        assert_eq!(drive.bearable_bytes_per_s(1.0), 0.0);
        assert!(said.len() < 400 && !said.contains(['\u{1b}', '\n']), "{said}");
        let zero = DriveWear { rated_bytes: sourced(0, DriveSource::RatingTable), percent_used: None, ..ssd() };
        assert!(of_wear(&zero, &Endurance::default(), 0.0).is_err());
    }
}
