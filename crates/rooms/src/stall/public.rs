//! Lost time without the names of programs, for those who may not know who runs what on this host: how much and of which
//! kind is for everybody. What the kernel itself is called (handlers, devices, its threads) is no secret.

use std::borrow::Cow;
use std::sync::Arc;
use surefoot_model::{Cause, CauseKind, Event, Gap, GapCorrection, Interrupt, Lost, WhoReport, Window};

/// What a task is called whose name is not shown.
pub const TASK: &str = "another task";
/// And messages whose writer is not.
pub const MESSAGES: &str = "messages";
/// Names of the kinds that may name a program, which name none.
const NOBODY: [&str; 6] = ["idle", "others", "other", Cause::ENTRY_AND_EXIT, MESSAGES, "messages of an interrupt"];

/// The cause without the name of a program; `None` where it names none.
pub fn cause(cause: &Cause) -> Option<Cause> {
    let name = match cause.kind {
        CauseKind::Preemption => TASK,
        CauseKind::Console => MESSAGES,
        _ => return None,
    };
    (!NOBODY.contains(&cause.name.as_str())).then(|| Cause::new(cause.kind, name))
}

/// The window without names; tasks of one core become one row.
fn window(window: &Window) -> Cow<'_, Window> {
    let names_somebody = |lost: &Lost| cause(&lost.cause).is_some();
    if !window.cores.iter().flat_map(|core| &core.lost).any(names_somebody) {
        return Cow::Borrowed(window);
    }
    let mut window = window.clone();
    for core in window.cores.iter_mut().filter(|core| core.lost.iter().any(names_somebody)) {
        for lost in &mut core.lost {
            if let Some(public) = cause(&lost.cause) {
                lost.cause = public;
            }
        }
        core.lost = Lost::by_cause(&core.lost);
    }
    Cow::Owned(window)
}

/// The gap without names. What the verdict rests on may speak of them, so it goes where there are any.
fn gap(gap: &Gap) -> Cow<'_, Gap> {
    if !gap.causes.iter().any(|part| cause(&part.cause).is_some()) {
        return Cow::Borrowed(gap);
    }
    let mut public = Gap { causes: Vec::new(), evidence: Vec::new(), ..gap.clone() };
    for part in &gap.causes {
        let mut part = part.clone();
        if let Some(public) = cause(&part.cause) {
            part.cause = public;
        }
        match public.causes.iter_mut().find(|known| known.cause == part.cause) {
            Some(known) => known.duration_ns = known.duration_ns.saturating_add(part.duration_ns),
            None => public.causes.push(part),
        }
    }
    public.causes.sort_by_key(|part| std::cmp::Reverse(part.duration_ns));
    Cow::Owned(public)
}

/// The correction without names.
fn correction(correction: &GapCorrection) -> Cow<'_, GapCorrection> {
    match gap(&correction.gap) {
        Cow::Borrowed(_) => Cow::Borrowed(correction),
        Cow::Owned(gap) => Cow::Owned(GapCorrection { gap, ..correction.clone() }),
    }
}

/// News of this room, or of the stream, without names; `None` where everything about it is for some alone.
pub fn news(news: Arc<Event>) -> Option<Arc<Event>> {
    match &*news {
        Event::Window(_) | Event::Gap(_) => Some(event(&news).map_or(news, Arc::new)),
        Event::GapCorrection(of) => Some(Arc::new(Event::GapCorrection(correction(of).into_owned()))),
        Event::Clock(_) => Some(news),
        _ => None,
    }
}

/// The event of this room without names; `None` where it has none.
pub fn event(event: &Event) -> Option<Event> {
    match event {
        Event::Window(of) => match window(of) {
            Cow::Owned(window) => Some(Event::Window(window)),
            Cow::Borrowed(_) => None,
        },
        Event::Gap(of) => match gap(of) {
            Cow::Owned(gap) => Some(Event::Gap(gap)),
            Cow::Borrowed(_) => None,
        },
        _ => None,
    }
}

/// Rows of a report of raisers without names. Their percentiles cannot be joined, so each task keeps a row, and a number
/// in the place of its name.
pub fn interrupts(interrupts: &mut [Interrupt]) {
    let mut count = 0;
    for interrupt in interrupts {
        if let Some(public) = cause(&interrupt.cause) {
            count += 1;
            interrupt.cause = Cause::new(public.kind, format!("{} ({count})", public.name));
            interrupt.handler.clear();
        }
    }
}

/// What everybody may see of a report: how often and how long, and not by whom.
pub fn sums(mut who: WhoReport) -> WhoReport {
    for interrupt in &mut who.interrupts {
        interrupt.raisers.clear();
        interrupt.advice.clear();
        interrupt.intruders.clear();
        interrupt.detail.clear();
    }
    interrupts(&mut who.interrupts);
    who.fix_first.clear();
    who.workload_pid = None;
    who.loops.clear();
    who.loop_gaps.clear();
    who.notices.clear();
    who.timeline = None;
    who.missing.push("who raised them, with stacks: not shown to this user".to_owned());
    who
}

#[cfg(test)]
mod tests {
    use super::*;
    use surefoot_model::{
        Advice, Certainty, CoreLedger, CpuId, Fix, GapCause, GapSource, Intruder, Raiser, SelfCost, Verdict,
    };

    fn causes() -> Vec<Cause> {
        vec![
            Cause::new(CauseKind::Preemption, "SECRET-1"),
            Cause::new(CauseKind::Preemption, "SECRET-2"),
            Cause::new(CauseKind::Console, "messages of SECRET-3"),
            Cause::new(CauseKind::Preemption, "idle"),
            Cause::new(CauseKind::KernelThread, "kworker"),
        ]
    }

    #[test]
    fn tasks_and_writers_have_no_name_and_the_sums_stay() {
        let lost = causes().into_iter().map(|cause| Lost::new(cause, 1, 10, 4)).collect();
        let core = CoreLedger {
            cpu: CpuId(1),
            wall_ns: 100,
            idle_ns: 0,
            user_ns: 50,
            kernel_ns: 0,
            lost,
            unexplained_ns: 0,
            waiting: None,
        };
        let cores = vec![core];
        let cost = SelfCost::default();
        let all = Window {
            start_ns: 0,
            end_ns: 100,
            cores,
            faulty: Vec::new(),
            untimed: Vec::new(),
            completeness: Vec::new(),
            cost,
        };
        let public = window(&all);
        let names: Vec<&str> = public.cores[0].lost.iter().map(|lost| lost.cause.name.as_str()).collect();
        assert_eq!(names, [TASK, "kworker", "idle", MESSAGES]);
        assert_eq!((public.cores[0].lost[0].count, public.cores[0].lost[0].total_ns), (2, 20));
        assert_eq!(public.cores[0].lost.iter().map(|lost| lost.total_ns).sum::<u64>(), 50);
    }

    #[test]
    fn gaps_keep_their_lengths_and_lose_their_names() {
        let parts = |causes: Vec<Cause>| causes.into_iter().map(|cause| GapCause { cause, duration_ns: 10 }).collect();
        let all = Gap {
            cpu: CpuId(1),
            source: GapSource::TimerLateness,
            start_ns: 0,
            duration_ns: 50,
            causes: parts(causes()),
            unexplained_ns: 0,
            verdict: Verdict::Traced,
            certainty: Certainty::Certain,
            evidence: vec!["SECRET-1 ran".to_owned()],
        };
        let public = gap(&all);
        assert!(!format!("{public:?}").contains("SECRET"), "{public:?}");
        assert_eq!(public.causes.iter().map(|part| part.duration_ns).sum::<u64>(), 50);
        assert_eq!(public.causes[0].duration_ns, 20);
        let harmless = Gap { causes: parts(vec![Cause::new(CauseKind::Timer, "tick")]), ..all };
        assert!(matches!(gap(&harmless), Cow::Borrowed(_)));
    }

    #[test]
    fn what_everybody_sees_names_nobody() {
        let secret = || "SECRET".to_owned();
        let mut interrupt = Interrupt::new(CpuId(1), Cause::new(CauseKind::TlbShootdown, "flush_tlb_func"), 7, 70);
        interrupt.raisers.push(Raiser {
            certainty: Certainty::Certain,
            function: String::new(),
            syscall: String::new(),
            comm: secret(),
            pid: 7,
            tid: 7,
            wakee: String::new(),
            count: 1,
            kernel_stack: Vec::new(),
            user_stack: vec![secret()],
            is_sum: false,
        });
        interrupt.advice.push(Advice { evidence: secret(), ..Advice::default() });
        interrupt.intruders.push(Intruder { comm: secret(), cgroup: secret(), ..Intruder::default() });
        interrupt.detail.push(secret());
        let mut task = Interrupt::new(CpuId(1), Cause::new(CauseKind::Preemption, secret()), 1, 10);
        task.handler = secret();
        let fix = Fix {
            cpus: vec![CpuId(1)],
            cause: Cause::new(CauseKind::TlbShootdown, "flush_tlb_func"),
            total_ns: 1,
            share_of_lost_ppm: 1,
            count: 1,
            rule: String::new(),
            evidence: secret(),
            remedy: secret(),
            source: String::new(),
            verify: secret(),
            expect: String::new(),
        };
        let report = WhoReport {
            interrupts: vec![interrupt, task],
            fix_first: vec![fix],
            workload_pid: Some(4242),
            ..WhoReport::default()
        };
        let text = serde_json::to_string(&sums(report)).unwrap();
        assert!(!text.contains("SECRET") && !text.contains("4242"), "{text}");
        assert!(text.contains("flush_tlb_func"), "{text}");
    }
}
