//! Memory that the kernel gives up: pages below a slot that can no longer be read. This machine's kernel may not be able
//! to lose a page; the one of a guest can, so these tests run there.

use super::session::{Tiers, always_both, flip, job, restarted};
use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use surefoot_checkpoint::controller::Fixed;
use surefoot_checkpoint::{Alone, Checkpointer, Place, Policy};
use surefoot_testkit::guest::Guest;
use surefoot_testkit::not_run::not_run;

const PAGE_BYTES: usize = 4096;

/// Has the kernel take a page of a file in memory for broken, as a machine check would (`madvise(2)`, `MADV_HWPOISON`).
fn lose(path: &Path, page: usize) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    // SAFETY: a new mapping of one page of an open file, which is touched and let go here and nowhere else.
    unsafe {
        let offset = (page * PAGE_BYTES) as i64;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let start =
            libc::mmap(std::ptr::null_mut(), PAGE_BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), offset);
        assert_ne!(start, libc::MAP_FAILED);
        start.cast::<u8>().read_volatile();
        let lost = libc::madvise(start, PAGE_BYTES, libc::MADV_HWPOISON);
        assert_eq!(lost, 0, "{}: {}", path.display(), std::io::Error::last_os_error());
        libc::munmap(start, PAGE_BYTES);
    }
    use std::os::unix::fs::FileExt;
    let error = file.read_exact_at(&mut [0; PAGE_BYTES], (page * PAGE_BYTES) as u64).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO), "{}: {error}", path.display());
}

/// The page of a column of a row of the image of rank 0 or 1: both have five rows.
fn page(column: usize, row: usize) -> usize {
    column * 5 + row
}

fn report(back: &(Option<u64>, Result<Option<surefoot_checkpoint::Restored>, String>)) -> &str {
    back.1.as_ref().unwrap().as_ref().map_or("nothing", |restored| &restored.report)
}

#[test]
fn what_memory_loses_is_repaired_and_never_ends_the_program() {
    let guest = match Guest::find() {
        Ok(guest) => guest.with_memory_mib(768),
        Err(why) => return not_run("poison::what_memory_loses_is_repaired_and_never_ends_the_program", &why),
    };
    let arguments = ["poison::inside_", "--ignored", "--nocapture", "--test-threads=1"];
    let environment = [("TMPDIR", "/dev/shm"), ("RUST_BACKTRACE", "0")];
    let ran = guest.run(&std::env::current_exe().unwrap(), &arguments, &environment).unwrap();
    println!("{}", ran.text);
    assert!(ran.code == Some(0) && ran.text.contains("0 failed"), "{:?}: {}\n{}", ran.code, ran.text, ran.console);
    let lost = ran.console.matches("recovery action").count();
    assert!(lost > 20, "the kernel gave up {lost} pages only:\n{}", ran.console);
}

#[test]
#[ignore = "runs in a child process, in a guest"]
fn inside_lost_pages_are_repaired_and_their_slot_is_used_again() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    job(2, &config, |mut rank| (1..=3).for_each(|step| _ = rank.save(step)));
    // Three slots; the newest is in the third. Three pages of each of two rows: as much as the code repairs.
    let image = &tiers.memory_files(0, "image")[2];
    for (column, row) in [(0, 0), (7, 0), (18, 0), (3, 2), (4, 2), (5, 2)] {
        lose(image, page(column, row));
    }
    let back = restarted(2, &config, 3);
    assert!(back.iter().all(|(step, _)| *step == Some(3)), "{back:?}");
    assert!(report(&back[0]).contains("6 bad (6 of them refused by the kernel), 6 repaired"), "{back:?}");
    // The next ones go round all slots.
    job(2, &config, |mut rank| {
        rank.job.restart().unwrap().unwrap();
        (4..=9).for_each(|step| _ = rank.save(step));
    });
    let back = restarted(2, &config, 9);
    assert!(back.iter().all(|back| back.0 == Some(9) && report(back).contains("pages, intact")), "{back:?}");
}

#[test]
#[ignore = "runs in a child process, in a guest"]
fn inside_what_is_beyond_the_code_comes_from_elsewhere_or_is_refused() {
    let tiers = Tiers::new();
    let config = tiers.config(always_both());
    job(1, &config, |mut rank| {
        for step in 1..=3 {
            assert_eq!(rank.save(step), Place::Both);
            rank.job.wait_for_copies().unwrap();
        }
    });
    let images = tiers.memory_files(0, "image");
    (0..4).for_each(|column| lose(&images[2], page(column, 1)));
    let back = restarted(1, &config, 3);
    assert!(back[0].0 == Some(3) && report(&back[0]).contains("from the SSD"), "{back:?}");
    assert!(report(&back[0]).contains("4 of the 19 pages of row 1 are bad"), "{back:?}");
    // Without the SSD's: the one before it, and at last none, and it says so.
    fs::remove_dir_all(tiers.home.path().join("ssd/job")).unwrap();
    let back = restarted(1, &config, 3);
    assert!(back[0].0 == Some(2) && report(&back[0]).contains("refused before: generation 3"), "{back:?}");
    for image in &images[..2] {
        (0..4).for_each(|column| lose(image, page(column, 0)));
    }
    let refused = restarted(1, &config, 3)[0].1.clone().unwrap_err();
    assert!(refused.contains("no checkpoint can be restored") && refused.contains("of row 0 are bad"), "{refused}");
    // All of it is bad, and can be written to again.
    job(1, &config, |mut rank| (4..=7).for_each(|step| _ = rank.save(step)));
    assert_eq!(restarted(1, &config, 7)[0].0, Some(7));
}

#[test]
#[ignore = "runs in a child process, in a guest"]
fn inside_a_page_that_is_lost_below_a_running_job_does_not_end_it() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    job(1, &config, |mut rank| {
        for step in 1..=12 {
            rank.save(step);
            // The slot that comes next, which the job has mapped already, and the one that it has just written to.
            let images = tiers.memory_files(0, "image");
            lose(&images[step as usize % images.len()], page(step as usize, 3));
            lose(&images[(step as usize + images.len() - 1) % images.len()], page(2, 2));
        }
        rank.state.fill(0);
        let restored = rank.job.restart().unwrap().unwrap();
        assert!(rank.is_at(12) && restored.report.contains("1 repaired"), "{restored:?}");
    });
}

/// The thread that makes slots ahead has brought a page in, and it is lost before the save that takes the slot over from the thread.
#[test]
#[ignore = "runs in a child process, in a guest"]
fn inside_a_page_that_is_lost_after_its_slot_was_made_ahead_does_not_end_the_job() {
    let mut caught = 0;
    for _ in 0..20 {
        let tiers = Tiers::new();
        let mut state = vec![7u8; 16 << 20];
        let mut job = Checkpointer::open(tiers.config(Policy::Fixed(Fixed::Memory)), Box::new(Alone)).unwrap();
        // SAFETY: the state lives as long as the job, and is left alone during calls.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
        assert!(job.checkpoint().unwrap().generation.is_some());
        let lengths = || -> Vec<u64> {
            tiers
                .memory_files(0, "image")
                .iter()
                .map(|path| fs::metadata(path).map_or(0, |about| about.len()))
                .collect()
        };
        let begun = std::time::Instant::now();
        let seen = loop {
            let seen = lengths();
            // The second slot is made, and the thread is at the third.
            if seen.len() == 3 && seen[2] > 0 {
                break seen;
            }
            assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{seen:?}");
        };
        lose(&tiers.memory_files(0, "image")[1], 100);
        caught += u32::from(seen[2] < seen[0]);
        assert!(job.checkpoint().unwrap().generation.is_some());
        state.fill(0);
        job.restart().unwrap().unwrap();
        assert!(state.iter().all(|byte| *byte == 7));
        if caught > 0 {
            return;
        }
    }
    panic!("the thread was never seen at the third slot");
}

#[test]
#[ignore = "runs in a child process, in a guest"]
fn inside_lost_manifests_and_tables_are_read_from_their_copies() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    job(1, &config, |mut rank| (1..=3).for_each(|step| _ = rank.save(step)));
    lose(&tiers.memory_files(0, "manifest")[2], 0);
    let image = &tiers.memory_files(0, "image")[2];
    let table = page(19, 0);
    lose(image, table);
    lose(image, page(1, 1));
    let back = restarted(1, &config, 3);
    assert!(back[0].0 == Some(3) && report(&back[0]).contains("1 copies of the table bad"), "{back:?}");
    // Both: the pages themselves give the table, and which of them is bad the kernel says.
    lose(image, table + 1);
    let back = restarted(1, &config, 3);
    assert!(back[0].0 == Some(3) && report(&back[0]).contains("2 copies of the table bad"), "{back:?}");
    // A page that is bad and can be read is not found without them.
    flip(image, page(2, 1) as u64 * 4096);
    let back = restarted(1, &config, 3);
    assert!(back[0].0 == Some(2) && report(&back[0]).contains("refused before: generation 3"), "{back:?}");
}

#[test]
#[ignore = "runs in a child process, in a guest"]
fn inside_a_partners_copy_is_repaired_on_its_way_back() {
    let tiers = Tiers::new();
    let mut config = tiers.config(Policy::Fixed(Fixed::Memory));
    config.partner = true;
    job(2, &config, |mut rank| (1..=3).for_each(|step| _ = rank.save(step)));
    let memory = tiers.home.path().join("memory/job");
    fs::remove_dir_all(memory.join("rank-00001")).unwrap();
    let held = memory.join("partner-00000/slot-2.image");
    [(0, 0), (9, 0), (17, 0), (6, 4)].into_iter().for_each(|(column, row)| lose(&held, page(column, row)));
    let back = restarted(2, &config, 3);
    assert!(back.iter().all(|(step, _)| *step == Some(3)), "{back:?}");
    assert!(report(&back[1]).contains("from its partner"), "{back:?}");
    job(2, &config, |mut rank| {
        rank.job.restart().unwrap().unwrap();
        (4..=8).for_each(|step| _ = rank.save(step));
        let notices = rank.job.take_notices();
        // The guest has memory alone.
        let known = ["partner=yes does not protect", "durable.allow_memory permits"];
        let is_known = |notice: &String| known.iter().any(|known| notice.contains(known));
        assert!(notices.iter().all(is_known), "{notices:?}");
    });
    assert!(restarted(2, &config, 8).iter().all(|(step, _)| *step == Some(8)));
}

#[test]
#[ignore = "runs in a child process, in a guest"]
fn inside_a_scrub_gives_lost_pages_new_memory() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    job(1, &config, |mut rank| {
        rank.save(1);
        let image = &tiers.memory_files(0, "image")[0];
        lose(image, page(5, 1));
        lose(image, page(16, 1));
        flip(image, page(5, 4) as u64 * 4096);
        let lines = rank.job.scrub();
        assert!(lines[0].contains("3 bad (2 of them refused by the kernel), 3 repaired"), "{lines:?}");
        let lines = rank.job.scrub();
        assert!(lines[0].contains("pages, intact"), "{lines:?}");
        (2..=5).for_each(|step| _ = rank.save(step));
    });
}

#[test]
#[ignore = "runs in a child process, in a guest"]
fn inside_a_program_s_own_file_that_is_lost_is_an_error() {
    let tiers = Tiers::new();
    let config = tiers.config(Policy::Fixed(Fixed::Memory));
    job(1, &config, |mut rank| {
        let path = rank.job.route_file("output").unwrap();
        fs::write(&path, vec![7; 50_000]).unwrap();
        rank.save(1);
        lose(&path, 3);
        rank.compute(2);
        let error = rank.job.checkpoint().unwrap_err().to_string();
        assert!(error.contains("output"), "{error}");
        rank.job.restart().unwrap().unwrap();
        assert!(rank.is_at(1) && fs::read(&path).unwrap() == [7; 50_000]);
    });
}

#[test]
#[ignore = "runs in a child process, in a guest"]
fn inside_a_page_that_is_lost_on_the_way_to_the_ssd_is_repaired_there() {
    let tiers = Tiers::new();
    let mut config = tiers.config(always_both());
    if let Some(durable) = &mut config.durable {
        // 160 KB take two seconds: the pages are lost while the image is on its way.
        durable.options.limit_bytes_per_s = Some(80_000);
    }
    job(1, &config, |mut rank: super::session::Rank| {
        rank.job.take_notices();
        assert_eq!(rank.save(1), Place::Both);
        let image = &tiers.memory_files(0, "image")[0];
        [(15, 4), (3, 0), (18, 0)].into_iter().for_each(|(column, row)| lose(image, page(column, row)));
        let job: &mut Checkpointer = &mut rank.job;
        job.wait_for_copies().unwrap();
        let notices = job.take_notices();
        assert_eq!(notices.len(), 1, "{notices:?}");
        assert!(notices[0].contains("durable"), "{notices:?}");
    });
    let back = restarted(1, &config, 1);
    assert!(back[0].0 == Some(1), "{back:?}");
}
