#![allow(clippy::unwrap_used)]
use super::*;
use std::fs;

#[test]
fn a_survey_ends_at_each_of_its_limits_and_says_so() {
    let home = crate::testing::folder();
    for number in 0..20 {
        let directory = home.path().join(format!("job/rank-{number:05}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("slot-0.manifest"), "x").unwrap();
    }
    let directories = [home.path().to_owned()];
    let whole = survey(&directories).unwrap();
    assert_eq!((whole.copies.len(), whole.is_cut), (20, false));
    let some = SurveyLimits::default();
    let late = Some(Instant::now());
    for (limits, count) in [
        (SurveyLimits { copies_max: 7, ..some }, 7..8),
        (SurveyLimits { memory_bytes_max: 6 * size_of::<Copy>(), ..some }, 1..6),
        (SurveyLimits { until: late, ..some }, 0..1),
        // The job, its twenty ranks, and one file in each of five.
        (SurveyLimits { entries_max: 26, ..some }, 5..6),
    ] {
        let found = survey_within(&directories, limits).unwrap();
        assert!(found.is_cut && count.contains(&found.copies.len()), "{limits:?}: {}", found.copies.len());
        assert!(found.problems.iter().any(|problem| problem.why.contains("left out")), "{limits:?}");
    }
}

/// The user that owns nothing.
const NOBODY: u32 = 65_534;

fn give(path: &Path) {
    std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

fn is_root(test: &str) -> bool {
    let is_root = fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0);
    if !is_root {
        surefoot_testkit::not_run::not_run(test, "giving files to another user needs root");
    }
    is_root
}

fn slot(directory: &Path) -> PathBuf {
    fs::create_dir_all(directory).unwrap();
    fs::write(directory.join("slot-0.manifest"), "x").unwrap();
    directory.join("slot-0.manifest")
}

#[test]
fn one_user_takes_a_part_of_each_limit_and_leaves_the_rest_to_others() {
    if !is_root("one_user_takes_a_part_of_each_limit_and_leaves_the_rest_to_others") {
        return;
    }
    let home = crate::testing::folder();
    fs::set_permissions(home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
    for number in 0..50 {
        // Before all others by name, and many of them directly where everybody may write.
        let job = home.path().join(format!("!{number:02}"));
        give(&slot(&job.join("rank-00000")));
        give(&job.join("rank-00000"));
        give(&job);
    }
    slot(&home.path().join("job/rank-00000"));
    let some = SurveyLimits { part_of_user: 2, ..SurveyLimits::default() };
    for limits in [
        SurveyLimits { copies_max: 20, ..some },
        SurveyLimits { entries_max: 90, ..some },
        SurveyLimits { memory_bytes_max: 20 * size_of::<Copy>(), ..some },
    ] {
        let found = survey_within(&[home.path().to_owned()], limits).unwrap();
        let of = |owner: u32| found.copies.iter().filter(|copy| copy.owner == owner).count();
        assert!(found.is_cut && of(0) == 1 && of(NOBODY) < 50, "{limits:?}: {} of nobody", of(NOBODY));
        let said = found.problems.iter().find(|problem| problem.owner == NOBODY).unwrap();
        assert!(said.why.contains("65534"), "{}", said.why);
    }
}

#[test]
fn what_another_user_put_into_a_job_is_a_problem_and_no_copy() {
    if !is_root("what_another_user_put_into_a_job_is_a_problem_and_no_copy") {
        return;
    }
    let home = crate::testing::folder();
    give(&slot(&home.path().join("job/rank-00000")));
    slot(&home.path().join("job/rank-00001"));
    give(&home.path().join("job/rank-00001"));
    let found = survey(&[home.path().to_owned()]).unwrap();
    assert_eq!(found.copies.len(), 1, "{found:?}");
    assert!(found.copies[0].manifest.as_ref().unwrap_err().contains("65534"), "{found:?}");
    assert!(found.problems[0].why.contains("65534") && found.problems[0].owner == NOBODY, "{found:?}");
}

#[test]
fn a_tree_without_an_end_takes_little_memory() {
    let home = crate::testing::folder();
    let mut at = home.path().to_owned();
    let mut open = fs::File::open(&at).unwrap();
    for _ in 0..40 {
        let beside = |name: String| {
            let path = format!("/proc/self/fd/{}/{name}", std::os::fd::AsRawFd::as_raw_fd(&open));
            fs::create_dir(&path).unwrap();
            path
        };
        for number in 0..20 {
            beside(format!("{number:0>250}"));
        }
        let below = fs::File::open(beside("z".repeat(250))).unwrap();
        at.push("z".repeat(250));
        open = below;
    }
    let found = survey(&[home.path().to_owned()]).unwrap();
    let lengths: Vec<usize> = found.problems.iter().map(|problem| problem.path.as_os_str().len()).collect();
    assert!(!lengths.is_empty() && lengths.len() <= 21 && lengths.iter().all(|&bytes| bytes < 4096), "{lengths:?}");
    assert!(found.problems.iter().all(|problem| problem.why.contains("too long")));
}

#[test]
fn only_the_one_name_of_a_rank_is_its_name() {
    assert_eq!(rank_of(Path::new("rank-00003.image"), ".image"), Some(3));
    assert_eq!(rank_of(Path::new("rank-100000"), ""), Some(100_000));
    for name in ["rank-3", "rank-000003", "rank-+0003", "rank-99999999999", "rank-00003.imagex", "rank-"] {
        assert_eq!(rank_of(Path::new(name), ""), None, "{name}");
    }
    assert!(rank_of_files(Path::new("files-00001")) && !rank_of_files(Path::new("files")));
}
