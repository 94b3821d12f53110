//! Looks at checkpoints, by a child where there can be one. What was known of a directory that does not answer stays as it was:
//! nothing there is called gone.

use super::jobs::FoundJob;
use super::look::Looker;
use super::text;
use crate::rooms::apart::{self, Apart, Question, SILENT};
use crate::sources::End;
use std::path::{Path, PathBuf};
use surefoot_hostfs::Root;
use surefoot_model::{CheckpointDirectory, CheckpointLook, CheckpointTier};

/// Looks, by a child where there can be one.
pub(super) struct Looks {
    apart: Apart<(CheckpointLook, Vec<FoundJob>)>,
    /// Looks where no child does.
    looker: Looker,
    is_host: bool,
    /// What the last look found.
    last: Vec<FoundJob>,
}

impl Looks {
    pub(super) fn new(root: Root, directories: Vec<PathBuf>) -> Self {
        let (is_host, looker) = (root.is_host(), Looker::new(root, directories.clone()));
        Looks { apart: Apart::new("looks at checkpoints", directories), looker, is_host, last: Vec::new() }
    }

    /// What there is to be seen now, and the jobs; `None` where the watch is to end.
    pub(super) fn look(&mut self, end: &End) -> Result<Option<(CheckpointLook, Vec<FoundJob>)>, String> {
        if !apart::is_possible() || !self.is_host {
            return Ok(Some(self.looker.look(&mut |_| ())));
        }
        let seen = self.apart.look(end, |directories, _| Question::Checkpoints(apart::bytes_of(directories)))?;
        Ok(seen.map(|(look, found)| self.with_silent(look, found)))
    }

    /// A look, with the directories that were left out of it, and what was known of the jobs there.
    fn with_silent(&mut self, look: CheckpointLook, found: Vec<FoundJob>) -> (CheckpointLook, Vec<FoundJob>) {
        let (mut look, mut found) = (look, found);
        let silent: Vec<&Path> = self.apart.silent().collect();
        for (at, (directory, _)) in self.apart.directories().enumerate().filter(|(_, (_, is_silent))| *is_silent) {
            let problem = Some(SILENT.to_owned());
            let view = CheckpointDirectory { path: text(directory), problem, ..CheckpointDirectory::default() };
            look.directories.insert(at.min(look.directories.len()), view);
        }
        for before in std::mem::take(&mut self.last) {
            let lies_there = |path: &String| silent.iter().any(|silent| Path::new(path).starts_with(silent));
            if before.job.directories.iter().any(lies_there) {
                keep(&mut found, before);
            }
        }
        self.last.clone_from(&found);
        (look, found)
    }
}

/// Keeps what was known of a job in tiers that did not answer.
fn keep(found: &mut Vec<FoundJob>, before: FoundJob) {
    let Some(now) = found.iter_mut().find(|now| now.job.name == before.job.name) else {
        return found.push(before);
    };
    let is_new = |path: &String| !now.job.directories.contains(path);
    let directories: Vec<String> = before.job.directories.into_iter().filter(is_new).collect();
    now.job.directories.extend(directories);
    let known: Vec<_> = now.job.generations.iter().map(|one| (one.tier, one.number, one.nonce.clone())).collect();
    let kept = before.job.generations.into_iter().filter(|one| {
        one.tier != CheckpointTier::Memory && !known.contains(&(one.tier, one.number, one.nonce.clone()))
    });
    now.job.generations.extend(kept);
    if now.entries.is_empty() {
        (now.entries, now.left_out_count, now.skipped_count) =
            (before.entries, before.left_out_count, before.skipped_count);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rooms::apart::tests::use_this_program;
    use std::sync::atomic::AtomicBool;
    use surefoot_checkpoint::{Alone, Checkpointer, Config};
    use surefoot_model::{CheckpointJob, Generation, GenerationState};
    use surefoot_testkit::hanging::HangingFileSystem;
    use surefoot_testkit::not_run::not_run;

    static STOP: AtomicBool = AtomicBool::new(false);

    fn generation(tier: CheckpointTier, number: u64) -> Generation {
        Generation {
            number,
            nonce: "0000000000000001".into(),
            tier,
            state: GenerationState::Complete,
            missing: String::new(),
            taken_realtime_ns: None,
            ranks_here: 1,
            ranks: 1,
            payload_bytes: Some(1),
            stored_bytes: 1,
            protection: String::new(),
            directory: String::new(),
        }
    }

    fn save(directory: &Path, job: &str) -> Checkpointer {
        let mut job = Checkpointer::open(Config::new(job, directory, None), Box::new(Alone)).unwrap();
        job.checkpoint().unwrap();
        job
    }

    #[test]
    fn a_directory_whose_file_system_does_not_answer_hides_no_other_and_holds_nobody_up() {
        use_this_program();
        let test = "looks::a_directory_whose_file_system_does_not_answer_hides_no_other_and_holds_nobody_up";
        let mounted = match HangingFileSystem::mount(Path::new("/bin/true")) {
            Ok(mounted) => mounted,
            Err(why) => return not_run(test, &why),
        };
        let home = tempfile::tempdir().unwrap();
        let job = save(home.path(), "job");
        let hanging = mounted.program().parent().unwrap().to_owned();
        let mut looks = Looks::new(Root::host(), vec![hanging.clone(), home.path().to_owned()]);
        let end = End::never(&STOP);
        mounted.hang();
        let (look, found) = looks.look(&end).unwrap().unwrap();
        assert!(mounted.unanswered() > 0, "it was never asked");
        let problems: Vec<Option<&str>> = look.directories.iter().map(|view| view.problem.as_deref()).collect();
        assert_eq!(problems, [Some(SILENT), None]);
        assert_eq!(look.directories[0].path, text(&hanging));
        assert_eq!(found.iter().map(|found| found.job.name.as_str()).collect::<Vec<_>>(), ["job"]);
        // Again at once, because nobody is sent there any more.
        let asked = mounted.unanswered();
        assert_eq!(looks.look(&end).unwrap().unwrap().0.directories[0].problem.as_deref(), Some(SILENT));
        assert_eq!(mounted.unanswered(), asked);
        assert!(looks.apart.is_hung_on(), "who asked it hangs, and cannot be ended");
        // It goes, and so does who hung there.
        drop(mounted);
        looks.apart.wait_for_first();
        let (look, _) = looks.look(&end).unwrap().unwrap();
        assert_ne!(look.directories[0].problem.as_deref(), Some(SILENT));
        drop(job);
    }

    #[test]
    fn what_was_known_of_a_job_in_a_directory_that_does_not_answer_stays() {
        let home = tempfile::tempdir().unwrap();
        let [there, silent] = ["there", "silent"].map(|name| home.path().join(name));
        let job = |directory: &Path, tier, number| {
            let mut found = FoundJob::default();
            found.job.name = "job".into();
            found.job.directories = vec![text(&directory.join("job"))];
            found.job.generations = vec![generation(tier, number)];
            found
        };
        let mut looks = Looks::new(Root::host(), vec![there.clone(), silent.clone()]);
        let mut before = job(&silent, CheckpointTier::Durable, 3);
        before.job.directories.push(text(&there.join("job")));
        looks.last = vec![
            before,
            FoundJob { job: CheckpointJob { name: "gone".into(), ..Default::default() }, ..FoundJob::default() },
        ];
        looks.apart.silence(&silent);
        let (look, found) = looks.with_silent(CheckpointLook::default(), vec![job(&there, CheckpointTier::Memory, 4)]);
        assert_eq!(look.directories.len(), 1);
        assert_eq!(found.len(), 1, "{found:?}");
        let generations: Vec<u64> = found[0].job.generations.iter().map(|one| one.number).collect();
        assert_eq!((generations, found[0].job.directories.len()), (vec![4, 3], 2));
        // Where nothing of the job is seen any more it is still there.
        let (_, found) = looks.with_silent(CheckpointLook::default(), Vec::new());
        assert_eq!(found.len(), 1);
    }
}
