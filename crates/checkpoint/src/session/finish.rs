//! The end of a job: its newest checkpoint made durable, the job marked as completed, or all of it removed.

use crate::config::AfterCompletion;
use crate::controller::Place;
use crate::generation::{Age, GenerationId};
use crate::session::outcomes::{Finished, Saved};
use crate::session::ranks::{Call, told_on_all};
use crate::session::redundancy::Redundancy;
use crate::session::schedule::decide::asked_for;
use crate::session::tiers::drain::{Content, Drain};
use crate::session::tiers::{Target, Which};
use crate::session::{Checkpointer, clock};
use crate::tier::{COMPLETED, Completed, Removed, remove_own};
use crate::{Disk, Error, Storage};
use std::path::{Path, PathBuf};
use std::time::Instant;
use surefoot_model::CheckpointTier as Tier;

impl Checkpointer {
    /// Waits until what is on its way to the durable tiers is written and marked as complete. Nothing else is written:
    /// the newest checkpoint may be in memory only, see [`Checkpointer::finish`].
    ///
    /// # Errors
    /// [`Error::Group`]; that something could not be written is a notice.
    pub fn wait_for_copies(&mut self) -> Result<(), Error> {
        self.collective(Call::Wait, |job| {
            let begun = Instant::now();
            let finished = job.end_drains();
            job.schedule.course.checkpoint_s += begun.elapsed().as_secs_f64();
            finished
        })
    }

    /// Makes the newest checkpoint durable, whatever the policy says, and waits for it: for the end of the program, and
    /// whenever memory may be lost. Without a durable tier the result says that it is in memory only. It may be called
    /// again, and the job goes on from there.
    ///
    /// # Errors
    /// On all ranks, [`Error::Storage`] or [`Error::NoRoom`] with the file when the durable tier does not take it: it stays
    /// in memory. [`Error::Group`].
    pub fn finish(&mut self) -> Result<Finished, Error> {
        self.last(Call::Finish, Self::finish_all)
    }

    /// A call after which the program may end, also where it fails: the other ranks are to hear the reason.
    fn last<T>(&mut self, call: Call, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let done = self.collective(call, work);
        self.ranks.settle();
        done
    }

    fn finish_all(&mut self) -> Result<Finished, Error> {
        let begun = Instant::now();
        let finished = self.end_drains().and_then(|()| self.make_newest_durable());
        let finished = finished.map(|finished| Finished { said: self.with_weakness(finished.said), ..finished });
        self.schedule.course.checkpoint_s += begun.elapsed().as_secs_f64();
        finished
    }

    fn make_newest_durable(&mut self) -> Result<Finished, Error> {
        let told = |generation, is_durable, said: String| Finished { generation, is_durable, said };
        let there = |target: &Target, generation: GenerationId, took: &str| {
            let said = format!("generation {} is {}{took}", generation.number, target.place());
            told(Some(generation), target.is_durable(), said)
        };
        let Some((generation, taken)) = self.run.newest else {
            return Ok(told(None, Some(false), "this session took no checkpoint and came back to none".into()));
        };
        let number = generation.number;
        if let Some(target) = &mut self.tiers.durable {
            let medium = target.look();
            target.told(self.ranks.most(medium)?);
        }
        let Some(target) = &self.tiers.durable else {
            let said = format!(
                "generation {number} is in memory only, which the loss of power or a restart of the machine takes: no \
                 durable tier is set (durable or shared)"
            );
            return Ok(told(Some(generation), Some(false), said));
        };
        let is_written =
            target.tier.manifest(generation, self.ranks.rank()).is_ok_and(|found| self.tiers.is_ours(&found));
        let is_there = is_written && target.tier.is_committed(generation);
        let missing = self.ranks.sum(u64::from(!is_there))?;
        let kept = self.ranks.sum(u64::from(target.tier.is_committed(generation)))?;
        if missing == 0 {
            return Ok(there(target, generation, ""));
        }
        let place = target.place();
        // What is in memory no more, because a restart had it from elsewhere, cannot be written from here.
        let content = if is_written { Ok(Content::There(generation)) } else { self.tiers.content_of(generation) };
        let content = match told_on_all(self.ranks.all_or_none(content))? {
            Ok(content) => content,
            Err(error) => {
                let said = match kept {
                    0 => format!("generation {number} is not {place}: {error}; save once more"),
                    _ => format!(
                        "generation {number} stays {place} as it was saved, and cannot be written again by these ranks: {error}; \
                         save once more"
                    ),
                };
                return Ok(told(Some(generation), Some(false), said));
            }
        };
        if !is_written && let Some(durable) = &self.tiers.durable {
            // What a run that was killed left of it; only now that every rank has what takes its place. A checkpoint of another
            // number of ranks looks the same from here, and may be the only one.
            durable.tier.abandon(generation, self.ranks.rank());
        }
        // Nobody writes before all have abandoned, because the directory goes when it is empty.
        self.ranks.all_or_none(Ok(()))?;
        let bytes = self.tiers.durable.as_ref().map_or(0, |durable| content.bytes_for(&durable.tier));
        let drive = self.look_at_drive();
        let (schedule, around) = self.scheduling();
        let situation = schedule.situation_of_late(&around, bytes, drive)?;
        let left = self.schedule.spend(&situation);
        if let Some(durable) = &mut self.tiers.durable {
            durable.drain = Some(Drain::start_late(&durable.tier, content, taken, left));
        }
        let failed = self.end_drain(Which::Durable)?;
        match (failed, &self.tiers.durable) {
            (Some(error), _) => Err(error),
            // What it lies on was looked at once more after the write.
            (None, Some(target)) => Ok(there(target, generation, ", written by this call")),
            (None, None) => Err(Error::Option { option: "durable", why: "it was closed during a write".into() }),
        }
    }

    /// As [`Checkpointer::finish`], and marks the job as completed: its next run begins anew instead of going on from its
    /// end, unless the setting `after_completion` is `continue`. The checkpoints stay until that run's take their place;
    /// [`Checkpointer::discard`] and `surefoot checkpoint remove` give their room back.
    ///
    /// # Errors
    /// As [`Checkpointer::finish`], and then the job is not marked; [`Error::Storage`] when the mark cannot be written.
    pub fn complete(&mut self) -> Result<Finished, Error> {
        self.last(Call::Complete, Self::complete_all)
    }

    fn complete_all(&mut self) -> Result<Finished, Error> {
        let finished = self.finish_all()?;
        let realtime_ns = self.ranks.of_root(clock::realtime_ns())?;
        let (job, epoch) = (self.config.job.clone(), self.run.epoch);
        let mark = Completed { job, number: self.run.number, epoch, realtime_ns };
        let directories = self.marked_directories();
        let put = match self.run.number {
            0 => Ok(()),
            _ => directories.iter().try_for_each(|directory| mark.put(&Disk, directory)),
        };
        if let Err(error) = self.ranks.all_or_none(put) {
            // Marked somewhere would be marked: the job is to go on from here.
            directories.iter().for_each(|directory| drop(Completed::remove(&Disk, directory)));
            return Err(error);
        }
        self.run.completed = mark.age();
        Ok(finished)
    }

    /// The directories of this job where this rank puts the mark, one of each tier that no other rank here does. The tier that
    /// fails rather goes first.
    fn marked_directories(&self) -> Vec<PathBuf> {
        let mut directories = self.tiers.job_directories();
        directories.retain(|(tier, _)| self.nodes.is_first_at(*tier));
        directories.sort_by_key(|(tier, _)| *tier == Tier::Memory);
        directories.into_iter().map(|(_, directory)| directory).collect()
    }

    /// Finds out whether the job was completed before, and takes the mark away where it is to go on from its end.
    pub(super) fn find_completion(&mut self) -> Result<(), Error> {
        let directories: Vec<PathBuf> =
            self.tiers.job_directories().into_iter().map(|(_, directory)| directory).collect();
        if self.config.after_completion == AfterCompletion::Continue {
            let removed = directories.iter().try_for_each(|directory| Completed::remove(&Disk, directory));
            return self.ranks.all_or_none(removed);
        }
        for directory in &directories {
            let mark = directory.join(COMPLETED);
            if mark.symlink_metadata().is_ok() && Completed::read(&Disk, directory, &self.config.job).is_none() {
                let why = match Completed::other_version(&Disk, directory) {
                    Some(other) => other.said(),
                    None => format!("{} cannot be read", mark.display()),
                };
                self.journal.note(format!(
                    "{why}: whether this job was completed is not known, and it goes on from its newest checkpoint"
                ));
            }
        }
        let marks = directories.iter().filter_map(|directory| Completed::read(&Disk, directory, &self.config.job));
        let own = marks.map(|mark| mark.age()).max().unwrap_or(Age::default());
        let epoch = self.ranks.most(own.epoch)?;
        let number = if own.epoch == epoch { own.generation.number } else { 0 };
        let number = self.ranks.most(number)?;
        self.run.completed = Age { epoch, generation: GenerationId { number, nonce: u64::MAX } };
        if number > 0 {
            // The mark may be all that is left of that run, and its clock may have been ahead.
            self.run.epoch = self.run.epoch.max(epoch.saturating_add(1));
        }
        Ok(())
    }

    /// Takes a checkpoint to this place, whatever the policy says: [`Place::Memory`]; [`Place::Both`], into memory and on its
    /// way to the durable tier; or [`Place::Durable`], which is durable when this returns. [`Place::Skip`] leaves it to
    /// the policy, as [`Checkpointer::checkpoint`] does.
    ///
    /// # Errors
    /// As [`Checkpointer::checkpoint`]; [`Error::Option`] when there is no such tier.
    pub fn checkpoint_to(&mut self, place: Place) -> Result<Saved, Error> {
        self.collective(Call::Save(Some(place)), |job| job.take_checkpoint_to(place))
    }

    fn take_checkpoint_to(&mut self, place: Place) -> Result<Saved, Error> {
        let needs_memory = matches!(place, Place::Memory | Place::Both);
        let missing = match () {
            () if needs_memory && self.tiers.memory.is_none() => Some(("memory", "no memory tier is set")),
            () if place.is_durable() && self.tiers.durable.is_none() => Some(("durable", "no durable tier is set")),
            () => None,
        };
        let possible = missing.map_or(Ok(()), |(option, why)| Err(Error::Option { option, why: why.into() }));
        self.ranks.all_or_none(possible)?;
        self.take_checkpoint((place != Place::Skip).then(|| asked_for(place, "the program asked for it")))
    }

    /// Removes every checkpoint of the job in all its tiers, of all ranks, and ends it: for a job whose result is
    /// elsewhere. What this session is asked afterwards is refused; drop it.
    ///
    /// Refused where another process takes the job's name at this moment. What is not the job's, in its directories, stays.
    ///
    /// # Errors
    /// On all ranks, [`Error::Storage`] when something cannot be removed; what is left is removed by
    /// `surefoot checkpoint remove`. [`Error::Group`].
    pub fn discard(&mut self) -> Result<Removed, Error> {
        self.last(Call::Discard, Self::discard_all)
    }

    fn discard_all(&mut self) -> Result<Removed, Error> {
        let marked = self.marked_directories();
        // The writes that are under way end first, and the locks are given up on all ranks before one removes.
        self.redundancy = Redundancy::Own;
        self.journal.close();
        self.tiers.close();
        self.run.newest = None;
        self.ranks.all_or_none(Ok(()))?;
        let mut removed = Removed::default();
        let mut own = Ok(());
        for base in self.config.directories() {
            if marked.contains(&base.join(&self.config.job)) {
                match remove_own(base, &self.config.job) {
                    Ok(found) => removed.add(found),
                    Err(error) => own = own.and(Err(error)),
                }
            }
        }
        self.ranks.all_or_none(own)?;
        removed.bytes = self.ranks.sum(removed.bytes)?;
        Ok(removed)
    }
}

/// What an earlier release kept of a job where nobody had said where, if there is anything.
pub(super) fn of_earlier_release(memory: &Path, job: &str) -> Option<String> {
    if memory != crate::config::memory_default() {
        return None;
    }
    let base = memory.parent()?;
    let former = base.join(job);
    let rooms = Disk.expect_own_directory(&former).and_then(|()| Disk.list_directory(&former)).ok()?;
    let has_ranks = rooms.iter().any(|name| name.to_str().is_some_and(|name| name.starts_with("rank-")));
    has_ranks.then(|| {
        let (base, former) = (base.display(), former.display());
        format!(
            "an earlier release kept this job in {former}, which is not looked at: memory={base} goes on from there"
        )
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::medium::{Kind, Medium};
    use crate::testing::{Home, make_memory};
    use crate::{Alone, Config, StoredFile};
    use std::fs;
    use std::io;
    use std::os::unix::fs::symlink;
    use std::sync::Arc;
    use surefoot_testkit::not_run::not_run;

    /// A drive in whose place memory is mounted when a rank's part of a checkpoint has been written.
    struct Replaced {
        ssd: PathBuf,
        memory: PathBuf,
    }

    impl Replaced {
        fn replace(&self) -> io::Result<()> {
            let (job, away) = (self.ssd.join("job"), self.ssd.join("away"));
            if away.exists() {
                return Ok(());
            }
            for entry in fs::read_dir(&job)? {
                let from = entry?.path();
                let to = self.memory.join(from.file_name().unwrap());
                if from.is_dir() {
                    fs::create_dir(&to)?;
                    fs::read_dir(&from)?.try_for_each(|file| {
                        let file = file?;
                        fs::copy(file.path(), to.join(file.file_name())).map(drop)
                    })?;
                } else {
                    fs::copy(&from, &to)?;
                }
            }
            fs::rename(&job, &away)?;
            symlink(&self.memory, &job)
        }
    }

    impl Storage for Replaced {
        fn create_directory(&self, path: &Path) -> io::Result<()> {
            Disk.create_directory(path)
        }

        fn expect_own_directory(&self, path: &Path) -> io::Result<()> {
            Disk.expect_own_directory(path)
        }

        fn create_file(&self, path: &Path, bytes: u64, direct: bool) -> io::Result<Box<dyn StoredFile>> {
            Disk.create_file(path, bytes, direct)
        }

        fn open_file(&self, path: &Path, writable: bool) -> io::Result<Box<dyn StoredFile>> {
            Disk.open_file(path, writable)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            Disk.rename(from, to)?;
            if to.extension().is_some_and(|kind| kind == "manifest") { self.replace() } else { Ok(()) }
        }

        fn remove_file(&self, path: &Path) -> io::Result<()> {
            Disk.remove_file(path)
        }

        fn remove_directory(&self, path: &Path) -> io::Result<()> {
            Disk.remove_directory(path)
        }

        fn sync_directory(&self, path: &Path) -> io::Result<()> {
            Disk.sync_directory(path)
        }

        fn list_directory(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
            Disk.list_directory(path)
        }

        fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
            Disk.lock(path)
        }

        fn free_bytes(&self, path: &Path) -> io::Result<u64> {
            Disk.free_bytes(path)
        }
    }

    #[test]
    fn what_the_durable_tier_lies_on_counts_as_it_is_when_the_checkpoint_is_written() {
        let home = Home::new();
        let [memory, mounted] = ["memory", "mounted"].map(|name| home.path().join(name));
        let ssd = home.path().join("ssd");
        [&memory, &mounted].into_iter().for_each(|path| make_memory(path));
        fs::create_dir(&ssd).unwrap();
        let kind = |path: &Path| Medium::of(path).unwrap().kind;
        if kind(&mounted) != Kind::Memory || kind(&ssd) == Kind::Memory {
            let why = "it needs /dev/shm on tmpfs, and the folder of the build on none";
            return not_run("what_the_durable_tier_lies_on_counts_as_it_is_when_the_checkpoint_is_written", why);
        }
        let mut config = Config { drive_file: None, ..Config::new("job", &memory, Some(ssd.clone())) };
        config.set("policy", "memory").unwrap();
        let memory = fs::canonicalize(&mounted).unwrap();
        let storage: Arc<dyn Storage> = Arc::new(Replaced { ssd, memory });
        let mut state = vec![7u8; 50_000];
        let mut job = Checkpointer::open_with(&storage, clock::host(), "here", config, Box::new(Alone)).unwrap();
        // SAFETY: `state` outlives the job, and is left alone during its calls.
        unsafe { job.protect("state", state.as_mut_ptr(), state.len()).unwrap() };
        job.checkpoint().unwrap();
        let finished = job.finish().unwrap();
        assert!(finished.is_durable == Some(false) && finished.said.contains("in memory (tmpfs)"), "{finished:?}");
    }
}
