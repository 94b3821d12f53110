use super::{Source, SourceStatistics, Start, Statistics};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use surefoot_hostfs::clock;
use surefoot_model::{Event, SourceReport, SourceState};

/// Why a source could not start, as the source itself says it.
pub type StartError = Box<dyn std::error::Error + Send + Sync>;

/// Turns whose events may wait to be taken.
const TURNS_MAX: usize = 64;
/// How long a source waits for room in the channel before the events of its turn are dropped.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a waiting sender looks for room.
const ROOM_WAIT: Duration = Duration::from_millis(10);
/// A source that failed is tried again after this time at least.
const RETRY: Duration = Duration::from_secs(1);
/// What is said of a source that panicked.
const ENDED: &str =
    "it ended by a fault of Surefoot itself, which standard error has; start the watch again, and report it";
/// How often the reader looks whether the run should end when no events come. Sources that are at work see it by themselves;
/// this is for those that rest.
const WAIT: Duration = Duration::from_secs(1);

/// How often it is looked whether a source that starts is overdue.
const START_WAIT: Duration = Duration::from_millis(100);
/// How long sources may take to end after they were asked to. One that waits in the kernel then is left behind.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// The reason of a source whose turn is overdue.
const OVERDUE: &str = "it waits for a file system, a device or a program that does not answer";

/// Sources at work. Dropping it ends them.
pub struct Running {
    turns: Receiver<Vec<Event>>,
    end: End,
    /// When the end was asked for.
    closed: OnceLock<Instant>,
    threads: Vec<(&'static str, JoinHandle<()>)>,
    statistics: Statistics,
}

/// What ends a run: the user, the time, or the reader.
#[derive(Clone)]
pub struct End {
    stop: &'static AtomicBool,
    is_closed: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl End {
    /// That of a run whose time is over.
    #[cfg(test)]
    pub(crate) fn now(stop: &'static AtomicBool) -> Self {
        End { deadline: Some(Instant::now()), ..End::never(stop) }
    }

    /// That of a run that only this ends.
    #[cfg(test)]
    pub(crate) fn never(stop: &'static AtomicBool) -> Self {
        End { stop, is_closed: Arc::default(), deadline: None }
    }

    /// Whether what a source is at should end at once. The time alone lets it finish its turn.
    pub fn is_asked_for(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed)
    }

    /// The same, or the time is over.
    pub fn has_come(&self) -> bool {
        self.is_asked_for() || self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Rests until the end has come; its coming by `close` is told by unparking.
    fn rest(&self, rest: Duration) {
        let until = Instant::now() + rest;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left = self.deadline.map_or(left, |end| left.min(end.saturating_duration_since(Instant::now())));
            if left.is_zero() || self.has_come() {
                return;
            }
            std::thread::park_timeout(left);
        }
    }
}

impl Running {
    pub(super) fn start(
        planned: Vec<(&'static str, Start)>,
        statistics: &Statistics,
        stop: &'static AtomicBool,
        duration: Option<Duration>,
        start_patience: Duration,
    ) -> Result<Self, StartError> {
        let (sender, turns) = sync_channel(TURNS_MAX);
        let end = End { stop, is_closed: Arc::default(), deadline: None };
        let (closed, threads, statistics) = (OnceLock::new(), Vec::new(), statistics.clone());
        let mut running = Running { turns, end, closed, threads, statistics };
        let waiting = running.start_each(planned, sender, start_patience)?;
        // The time counts from when all of them watch.
        running.end.deadline = duration.map(|duration| Instant::now() + duration);
        for go in waiting {
            go.send(running.end.clone())?;
        }
        Ok(running)
    }

    /// Starts one source after another; each then waits for the word to go. One that hangs while it starts fails, and begins its
    /// turns when it has started.
    fn start_each(
        &mut self,
        planned: Vec<(&'static str, Start)>,
        sender: SyncSender<Vec<Event>>,
        patience: Duration,
    ) -> Result<Vec<SyncSender<End>>, StartError> {
        let mut waiting = Vec::new();
        for (at, (name, start)) in planned.into_iter().enumerate() {
            let (ready, started) = sync_channel(1);
            let (go, gone) = sync_channel::<End>(1);
            let mut worker =
                Worker { name, at, sender: sender.clone(), statistics: self.statistics.clone(), was_failed: false };
            let patience_ns = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
            worker.counts().turns_until(clock::monotonic_ns().saturating_add(patience_ns));
            let thread = Builder::new().name(format!("surefoot-{name}")).spawn(move || {
                let started = start();
                worker.was_failed = worker.counts().rests();
                let mut source = match started {
                    Ok(source) => source,
                    Err(error) => return worker.cannot_start(&ready, error),
                };
                worker.send(source.opening());
                // Nobody waits for one that is late.
                let _ = ready.send(Ok(()));
                // Where another source cannot start, no word comes.
                if let Ok(end) = gone.recv() {
                    worker.run(&mut *source, &end);
                }
            })?;
            self.threads.push((name, thread));
            self.wait_for(at, &started, &sender)?;
            waiting.push(go);
        }
        Ok(waiting)
    }

    /// Waits until a source has started, until that is overdue, or until the user wants the end.
    fn wait_for(
        &self,
        at: usize,
        started: &Receiver<Result<(), StartError>>,
        sender: &SyncSender<Vec<Event>>,
    ) -> Result<(), StartError> {
        let source = &self.statistics.sources()[at];
        while !self.end.stop.load(Ordering::Relaxed) {
            match started.recv_timeout(START_WAIT) {
                Ok(started) => return started,
                // It panicked while it started.
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("the source '{}' {ENDED}", source.name).into());
                }
                Err(RecvTimeoutError::Timeout) if source.is_overdue(clock::monotonic_ns()) => {
                    // There is room: each source has opened its part at most.
                    let failed = vec![changed(source.name, SourceState::Failed, OVERDUE.to_owned())];
                    return sender.try_send(failed).map_err(Into::into);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        Ok(())
    }

    /// The events of the next turn of any source, none where no turn ended within a second; `None` once all sources have ended, or have had
    /// their time to end.
    pub fn next_turn(&self) -> Option<Vec<Event>> {
        // A source that waits or rests does not see the user's wish by itself.
        if self.end.stop.load(Ordering::Relaxed) || self.is_late() {
            self.close();
        }
        // Asked at each turn: the other sources seldom leave a silence.
        let overdue = self.overdue();
        if !overdue.is_empty() {
            return Some(overdue);
        }
        match self.turns.recv_timeout(WAIT) {
            Ok(events) => Some(events),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                let is_late = self.closed.get().is_some_and(|closed| closed.elapsed() >= END_PATIENCE);
                (!is_late).then(Vec::new)
            }
        }
    }

    /// Whether the time is over and a source hangs. One that does not hang ends after its turn.
    fn is_late(&self) -> bool {
        let is_over = self.end.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        is_over && self.statistics.sources().iter().any(SourceStatistics::hangs)
    }

    /// Reports the sources whose turn has become overdue.
    fn overdue(&self) -> Vec<Event> {
        let now_ns = clock::monotonic_ns();
        let overdue = self.statistics.sources().iter().filter(|source| source.is_overdue(now_ns));
        overdue.map(|source| changed(source.name, SourceState::Failed, OVERDUE.to_owned())).collect()
    }

    /// Lets the sources end; what they still have to say comes from [`Running::next_turn`].
    pub fn close(&self) {
        self.closed.get_or_init(Instant::now);
        self.end.is_closed.store(true, Ordering::Relaxed);
        self.threads.iter().for_each(|(_, thread)| thread.thread().unpark());
    }

    /// Ends the sources. Returns those that did not end in time; their threads are left behind.
    pub fn end(mut self) -> Vec<&'static str> {
        self.end_all()
    }

    fn end_all(&mut self) -> Vec<&'static str> {
        self.close();
        // A source that waits for room in the channel gets it.
        while self.next_turn().is_some() {}
        let mut left = Vec::new();
        for (name, thread) in self.threads.drain(..) {
            if self.closed.get().is_some_and(|closed| closed.elapsed() >= END_PATIENCE) && !thread.is_finished() {
                left.push(name);
                continue;
            }
            // A panic was printed by its own hook; there is nobody left to tell.
            let _ = thread.join();
        }
        left
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end_all();
    }
}

/// An event about the state of a source.
fn changed(source: &str, state: SourceState, why: String) -> Event {
    Event::Source(SourceReport { at_ns: clock::monotonic_ns(), source: source.to_owned(), state, why })
}

/// A source's thread.
struct Worker {
    name: &'static str,
    at: usize,
    sender: SyncSender<Vec<Event>>,
    statistics: Statistics,
    was_failed: bool,
}

impl Worker {
    fn run(mut self, source: &mut dyn Source, end: &End) {
        while !end.has_come() {
            let begun = Instant::now();
            let patience_ns = u64::try_from(source.patience().as_nanos()).unwrap_or(u64::MAX);
            self.counts().turns_until(clock::monotonic_ns().saturating_add(patience_ns));
            let turn = catch_unwind(AssertUnwindSafe(|| source.turn(end)));
            let took = begun.elapsed();
            self.was_failed |= self.counts().rests();
            self.counts().turned(took, !matches!(turn, Ok(Ok(_))) || source.problem().is_some());
            let Ok(turn) = turn else {
                // The panic was printed by its own hook. In what state the source is nobody knows, so it is not asked again.
                self.send(self.changed(SourceState::Failed, ENDED.to_owned()).into_iter().collect());
                return;
            };
            self.counts().could_not_use(source.unread_lines());
            let rest = match turn {
                Ok(events) => {
                    let problem = source.problem();
                    let state = if problem.is_some() { SourceState::Failed } else { SourceState::Works };
                    let changed = self.changed(state, problem.unwrap_or_default());
                    self.was_failed = state == SourceState::Failed;
                    self.send(changed.into_iter().chain(events).collect());
                    source.rest(took)
                }
                Err(why) => {
                    self.send(self.changed(SourceState::Failed, why).into_iter().collect());
                    self.was_failed = true;
                    source.rest(took).max(RETRY)
                }
            };
            end.rest(rest);
        }
        self.send(source.closing());
    }

    /// Tells that the source cannot start: who starts the run, or where it is late, the stream.
    fn cannot_start(self, ready: &SyncSender<Result<(), StartError>>, error: StartError) {
        if self.was_failed {
            self.send(vec![changed(self.name, SourceState::Failed, error.to_string())]);
        } else {
            let _ = ready.send(Err(error));
        }
    }

    /// A word about the source if its state is another than before.
    fn changed(&self, state: SourceState, why: String) -> Option<Event> {
        let is_failed = state == SourceState::Failed;
        (is_failed != self.was_failed).then(|| changed(self.name, state, why))
    }

    fn counts(&self) -> &SourceStatistics {
        &self.statistics.sources()[self.at]
    }

    /// Hands events on; those of one turn stay together. Whether they found room in time.
    fn send(&self, events: Vec<Event>) -> bool {
        let count = events.len();
        if count == 0 {
            return true;
        }
        let until = Instant::now() + PATIENCE;
        let mut waiting = events;
        loop {
            match self.sender.try_send(waiting) {
                Ok(()) => {
                    self.counts().handed_on(count);
                    return true;
                }
                Err(TrySendError::Full(back)) if Instant::now() < until => {
                    waiting = back;
                    std::thread::sleep(ROOM_WAIT);
                }
                Err(_) => {
                    self.counts().dropped_some(count);
                    return false;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sources;
    use super::*;
    use surefoot_model::Notice;

    struct Counter {
        turns: u64,
        fails_at: u64,
        rest: Duration,
    }

    impl Source for Counter {
        fn opening(&mut self) -> Vec<Event> {
            vec![notice("opening")]
        }

        fn turn(&mut self, _: &End) -> Result<Vec<Event>, String> {
            self.turns += 1;
            if self.turns == self.fails_at { Err("the file is gone".into()) } else { Ok(vec![notice("turn")]) }
        }

        fn closing(&mut self) -> Vec<Event> {
            vec![notice("closing")]
        }

        fn rest(&self, _: Duration) -> Duration {
            self.rest
        }
    }

    fn notice(text: &str) -> Event {
        Event::Notice(Notice { at_ns: 0, text: text.into() })
    }

    struct Faulty;

    impl Source for Faulty {
        fn turn(&mut self, _: &End) -> Result<Vec<Event>, String> {
            panic!("a fault that this test plants");
        }
    }

    #[test]
    fn a_source_that_panics_is_failed_while_the_others_go_on() {
        let faulty: Start = Box::new(|| Ok(Box::new(Faulty)));
        let sources = Sources::new().with("good", counter(0, Duration::from_millis(20))).with("bad", faulty);
        let statistics = sources.statistics();
        let (stop, failed) = (flag(), format!("bad Failed {ENDED}"));
        let running = sources.start(&statistics, stop, None).unwrap();
        let [good, bad] = statistics.sources() else { panic!("{statistics:?}") };
        heard_until(&running, |heard| heard.contains(&failed) && good.turns() > 1);
        stop.store(true, Ordering::Relaxed);
        drop(all(&running));
        assert!(bad.is_failed() && bad.failures() == 1, "{statistics:?}");
    }

    /// Waits in its turn for what does not come until the test ends.
    struct Stuck;

    impl Source for Stuck {
        fn turn(&mut self, _: &End) -> Result<Vec<Event>, String> {
            std::thread::sleep(Duration::from_secs(3600));
            Ok(Vec::new())
        }

        fn patience(&self) -> Duration {
            Duration::from_millis(100)
        }
    }

    #[test]
    fn a_source_that_hangs_fails_and_does_not_keep_a_run_from_ending() {
        let stuck: Start = Box::new(|| Ok(Box::new(Stuck)));
        let sources = Sources::new().with("good", counter(0, Duration::from_secs(3600))).with("stuck", stuck);
        let (stop, statistics) = (flag(), sources.statistics());
        let running = sources.start(&statistics, stop, None).unwrap();
        let told = format!("stuck Failed {OVERDUE}");
        while !words(&running.next_turn().unwrap()).contains(&told) {}
        assert!(statistics.sources()[1].is_failed() && !statistics.sources()[0].is_failed());
        let begun = Instant::now();
        stop.store(true, Ordering::Relaxed);
        assert_eq!(words(&all(&running)), ["closing"], "it is told once");
        assert_eq!(running.end(), ["stuck"]);
        assert!(begun.elapsed() < END_PATIENCE * 6, "{:?}", begun.elapsed());
    }

    #[test]
    fn a_source_that_hangs_fails_also_where_others_are_never_silent() {
        let stuck: Start = Box::new(|| Ok(Box::new(Stuck)));
        let sources = Sources::new().with("busy", counter(0, Duration::from_millis(20))).with("stuck", stuck);
        let (stop, statistics) = (flag(), sources.statistics());
        let running = sources.start(&statistics, stop, None).unwrap();
        let told = format!("stuck Failed {OVERDUE}");
        heard_until(&running, |heard| heard.contains(&told));
        stop.store(true, Ordering::Relaxed);
        drop(all(&running));
        assert_eq!(running.end(), ["stuck"]);
    }

    #[test]
    fn a_source_that_hangs_while_it_starts_fails_and_the_others_start() {
        let (go_on, waits) = sync_channel::<()>(1);
        let late: Start = Box::new(move || {
            let _ = waits.recv();
            Ok(Box::new(Counter { turns: 0, fails_at: 0, rest: Duration::from_millis(20) }))
        });
        let never: Start = Box::new(|| {
            std::thread::sleep(Duration::from_secs(3600));
            Err("never".into())
        });
        let sources = Sources::new()
            .with("late", late)
            .with("never", never)
            .with("good", counter(0, Duration::from_millis(20)))
            .starting_within(Duration::from_millis(200));
        let (stop, statistics) = (flag(), sources.statistics());
        let running = sources.start(&statistics, stop, None).unwrap();
        let mut said = Vec::new();
        let mut hear = |wanted: &str| {
            while !said.iter().any(|word| word == wanted) {
                said.extend(words(&running.next_turn().unwrap()));
            }
        };
        hear(&format!("late Failed {OVERDUE}"));
        hear(&format!("never Failed {OVERDUE}"));
        hear("turn");
        assert!(statistics.sources()[0].is_failed() && statistics.sources()[2].turns() > 0);
        go_on.send(()).unwrap();
        hear("late Works ");
        stop.store(true, Ordering::Relaxed);
        drop(all(&running));
        assert_eq!(running.end(), ["never"]);
    }

    #[test]
    fn a_source_that_hangs_does_not_keep_a_run_of_a_given_time_from_ending() {
        let stuck: Start = Box::new(|| Ok(Box::new(Stuck)));
        let sources = Sources::new().with("stuck", stuck);
        let statistics = sources.statistics();
        let running = sources.start(&statistics, flag(), Some(Duration::from_secs(2))).unwrap();
        assert_eq!(words(&all(&running)), [format!("stuck Failed {OVERDUE}")]);
    }

    /// Takes long, and has a problem after it.
    struct Slow(u32);

    impl Source for Slow {
        fn turn(&mut self, _: &End) -> Result<Vec<Event>, String> {
            self.0 += 1;
            std::thread::sleep(if self.0 == 1 { 3 * WAIT } else { Duration::from_millis(10) });
            Ok(vec![notice("turn")])
        }

        fn problem(&self) -> Option<String> {
            (self.0 == 3).then(|| "a part of it does not work".to_owned())
        }

        fn patience(&self) -> Duration {
            if self.0 == 0 { Duration::from_millis(100) } else { Duration::from_secs(600) }
        }
    }

    #[test]
    fn a_source_works_again_after_a_turn_that_took_too_long_and_a_problem_is_a_failure() {
        let slow: Start = Box::new(|| Ok(Box::new(Slow(0))));
        let sources = Sources::new().with("slow", slow);
        let (stop, statistics) = (flag(), sources.statistics());
        let running = sources.start(&statistics, stop, None).unwrap();
        let mut said = Vec::new();
        while said.len() < 8 {
            said.extend(words(&running.next_turn().unwrap()));
        }
        stop.store(true, Ordering::Relaxed);
        let overdue = format!("slow Failed {OVERDUE}");
        let problem = "slow Failed a part of it does not work";
        assert_eq!(said[..8], [&overdue, "slow Works ", "turn", "turn", problem, "turn", "slow Works ", "turn"]);
    }

    fn counter(fails_at: u64, rest: Duration) -> Start {
        Box::new(move || Ok(Box::new(Counter { turns: 0, fails_at, rest })))
    }

    fn flag() -> &'static AtomicBool {
        Box::leak(Box::default())
    }

    fn words(events: &[Event]) -> Vec<String> {
        let word = |event: &Event| match event {
            Event::Notice(notice) => notice.text.clone(),
            Event::Source(report) => format!("{} {:?} {}", report.source, report.state, report.why),
            other => format!("{other:?}"),
        };
        events.iter().map(word).collect()
    }

    /// What is said until that is as wanted.
    fn heard_until(running: &Running, is_wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        let (mut heard, begun) = (Vec::new(), Instant::now());
        while !is_wanted(&heard) {
            assert!(begun.elapsed() < Duration::from_secs(60), "not all of it is said: {heard:?}");
            heard.extend(words(&running.next_turn().unwrap()));
        }
        heard
    }

    fn all(running: &Running) -> Vec<Event> {
        std::iter::from_fn(|| running.next_turn()).flatten().collect()
    }

    #[test]
    fn a_source_that_fails_says_so_and_is_tried_again_while_the_others_go_on() {
        let sources = Sources::new()
            .with("good", counter(0, Duration::from_millis(100)))
            .with("bad", counter(1, Duration::from_millis(100)));
        let statistics = sources.statistics();
        let stop = flag();
        let running = sources.start(&statistics, stop, None).unwrap();
        let [good, bad] = statistics.sources() else { panic!("{statistics:?}") };
        let has = |heard: &[String], word: &str| heard.iter().any(|one| one == word);
        let heard = heard_until(&running, |heard| has(heard, "bad Works ") && good.turns() > 1);
        assert_eq!(heard[..2], ["opening", "opening"], "all openings come first");
        let failed_at = heard.iter().position(|word| word == "bad Failed the file is gone");
        assert!(failed_at < heard.iter().position(|word| word == "bad Works "), "{heard:?}");
        stop.store(true, Ordering::Relaxed);
        assert_eq!(words(&all(&running)).iter().filter(|word| *word == "closing").count(), 2);
        assert_eq!(good.failures(), 0, "{statistics:?}");
        assert_eq!((bad.failures(), bad.is_failed(), bad.dropped()), (1, false, 0));
        assert!(good.events() >= good.turns());
    }

    #[test]
    fn a_source_that_cannot_start_ends_the_others_with_its_own_error() {
        let refuses: Start = Box::new(|| Err("no such core".into()));
        let sources = Sources::new().with("good", counter(0, Duration::from_secs(3600))).with("bad", refuses);
        let begun = Instant::now();
        let statistics = sources.statistics();
        let error = sources.start(&statistics, flag(), None).err().unwrap();
        assert_eq!(error.to_string(), "no such core");
        assert!(begun.elapsed() < Duration::from_secs(60), "the one that rests was woken");
    }

    #[test]
    fn the_users_wish_ends_a_source_that_rests() {
        let stop = flag();
        let sources = Sources::new().with("slow", counter(0, Duration::from_secs(3600)));
        let statistics = sources.statistics();
        let running = sources.start(&statistics, stop, None).unwrap();
        let next = || std::iter::from_fn(|| running.next_turn()).find(|events| !events.is_empty()).unwrap();
        assert_eq!(words(&next()), ["opening"]);
        assert_eq!(words(&next()), ["turn"]);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(words(&all(&running)), ["closing"]);
    }

    #[test]
    fn a_reader_that_takes_nothing_loses_events_which_are_counted() {
        let sources = Sources::new().with("fast", counter(0, Duration::ZERO));
        let statistics = sources.statistics();
        let running = sources.start(&statistics, flag(), None).unwrap();
        let begun = Instant::now();
        while statistics.dropped() == 0 && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(statistics.dropped() > 0);
        drop(running);
        let fast = &statistics.sources()[0];
        assert_eq!(fast.events() + fast.dropped(), fast.turns() + 2, "each event was handed on or counted");
    }
}
