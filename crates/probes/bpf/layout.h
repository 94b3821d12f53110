/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the programs and user space share. build/numbers.rs takes every number, size and offset from here to Rust: a
 * struct that user space reads differently, or a kind that it does not know, does not compile.
 */
#ifndef SUREFOOT_LAYOUT_H
#define SUREFOOT_LAYOUT_H

#include "kernel_types.h"

/* Causes with a number of their own; src/layout.rs gives them names. */
enum cause_number {
	CAUSE_IDLE = 0,
	CAUSE_WORK = 1,
	CAUSE_UNKNOWN = 2, /* before the first event of this core */
	CAUSE_LOCAL_TIMER = 3,
	CAUSE_RESCHEDULE = 4,
	CAUSE_CALL_FUNCTION = 5,
	CAUSE_CALL_FUNCTION_SINGLE = 6,
	CAUSE_IRQ_WORK = 7,
	CAUSE_X86_PLATFORM_IPI = 8,
	CAUSE_ERROR_APIC = 9,
	CAUSE_SPURIOUS_APIC = 10,
	CAUSE_THERMAL_APIC = 11,
	CAUSE_THRESHOLD_APIC = 12,
	CAUSE_DEFERRED_ERROR_APIC = 13,
	CAUSE_SOFTIRQ = 14, /* and the nine vectors after it */
	/* Where a cause goes that finds no room in the table. */
	CAUSE_OTHER_NMI = 24,
	CAUSE_OTHER_DEVICE = 25,
	CAUSE_OTHER_FUNCTION = 26,
	CAUSE_OTHER_THREAD = 27,
	CAUSE_OTHER_TASK = 28,
	CAUSE_CONSOLE = 29, /* a message was logged and is printed here; on the tape: may be printed */
	CAUSE_FIRST_DYNAMIC = 32,
	DYNAMIC_CAUSES = 128, /* a power of two */
	CAUSES = CAUSE_FIRST_DYNAMIC + DYNAMIC_CAUSES,
};

/* What a dynamic cause's key is of; it stands above the lower KEY_SHIFT bits. */
enum key_kind {
	KEY_DEVICE = 1,   /* key: interrupt number */
	KEY_FUNCTION = 2, /* key: address of the function called */
	KEY_THREAD = 3,   /* key: hash of the kernel thread's name up to the first '/' */
	KEY_TASK = 4,     /* key: hash of the task's name */
	KEY_NMI = 5,      /* key: address of the handler */
};

enum {
	KEY_SHIFT = 56,
	FRAMES = 8,    /* a power of two above the number of levels */
	BUCKETS = 128, /* as in surefoot-model */
	TAPE_TURNS = 8192,
	LATE_RECORDS = 64,
	LATE_TURNS = 24,
	SEEN_NAMES = 64, /* tasks whose names a core remembers, by the low bits of their numbers; a power of two */
	NAME_RECORDS = 2048, /* a power of two */
	PROGRAMS = 48,
	SAMPLE_EVERY = 64, /* of so many runs of a program one measures itself; a power of two */
	WAITERS = 4,
	RUNS = 8, /* of threads that took the core, kept until it is known who waited; a power of two */
	THROTTLED = 8,
	HELD_DURATIONS = 30,
	WINDOW_MASK = TAPE_TURNS - 1,
	LOGGED = 256, /* in the level of a frame: a message was logged in it, and nothing has happened on the core since */
	PRINTED_NS = 500000, /* what follows a message and is shorter than this is not taken for its printing */
};

/*
 * What may interrupt what: a context lies above lower levels only. An event whose level is not above the innermost
 * context shows that the latter's exit was lost (the kernel skips a program that would recurse), and closes it.
 */
enum level {
	LEVEL_BASE = 0,
	LEVEL_SOFTIRQ = 1,
	LEVEL_INTERRUPT = 2,
	LEVEL_FUNCTION = 3,
};

struct cause {
	u64 key; /* 0: free */
	u64 count;
	u64 total_ns;
	u64 max_ns;
	u64 idle_ns; /* the part of total_ns that fell on an idle core */
	u64 name[2];
	u64 taken_ns; /* the part of a thread's own time in which somebody waited for the core */
};

struct frame {
	u32 cause;
	u32 level;
	u64 own_ns;
};

/*
 * A thread that ran while nobody was known to wait. Who was woken meanwhile is known when he gets the core: the scheduler
 * keeps since when each task waits. The runs that lie in that time are then counted as taken.
 */
struct run {
	u64 start_ns;
	u64 end_ns;
	u64 taken_from_ns; /* somebody waited from here on */
	u64 rest_ns;       /* own time that is not counted as taken */
	u64 name[2];       /* of another task, which counts as work unless the workload waits for it */
	u32 cause;
	u32 realtime;
};

struct program {
	u64 count;
	u64 sampled_ns; /* of one run in SAMPLE_EVERY */
};

/*
 * What a core keeps. Its first three cache lines are what every event reads and writes, the innermost contexts in the
 * second; they lie with the counters and the fixed causes in one page, so that an event after a long pause, such as
 * the tick, finds few lines cold.
 */
struct slot {
	u64 seq; /* odd while an update is under way */
	u64 last_ns;
	u64 deferred_ns;
	u64 tape_turns; /* turns ever written */
	u32 depth;
	u32 base_pid;
	u32 shadow_depth;
	u32 shadow_cause;
	u64 timer_entry_ns;
	u32 owner_pid; /* with WORKLOAD_CORES: whose core this is */
	u32 behind;    /* a task is known to wait behind the base thread */
	struct frame frames[FRAMES];
	u64 start_ns;
	u64 shadow_start_ns;
	u64 late_records;
	u64 heals;     /* contexts closed because their end was not reported */
	u64 owner_seen_ns;
	u64 shadowed;  /* interrupts that landed inside an update */
	u64 self_interrupts; /* that this process raised on this core */
	u32 waiting[WAITERS]; /* the workload's threads that were preempted here */
	u64 base_start_ns;
	u32 throttled[THROTTLED]; /* threads that left because their cgroup's quota was used up */
	u64 waits;        /* of user tasks for this core, each until it got it */
	u64 waited_ns;
	u64 throttles;
	u64 throttled_ns;
	u64 moved_away;   /* tasks that waited here and were moved to another core, whose waiting is not known */
	u64 not_followed; /* waits that reach back beyond the runs that are kept, or whose tasks were lost sight of */
	u64 runs_closed;
	struct run runs[RUNS];
	u64 timer_before_ns; /* the timer interrupt before the newest */
	u64 logged_ip;   /* where the task that logged the newest message entered the kernel, */
	u64 logged_call; /* and by which system call; -1 for none */
	/*
	 * The newest durations, each the number of its bucket among those of all causes, before they are counted in the
	 * histogram all at once: that lies in pages of its own, which an event after a pause finds cold.
	 */
	u16 held_durations[HELD_DURATIONS];
	u32 held;
	struct program programs[PROGRAMS];
	struct cause causes[CAUSES];
} __attribute__((aligned(4096)));

_Static_assert(__builtin_offsetof(struct slot, frames) == 64 && __builtin_offsetof(struct slot, causes) % 64 == 0,
	       "whole cache lines");
_Static_assert(__builtin_offsetof(struct slot, causes) + CAUSE_FIRST_DYNAMIC * sizeof(struct cause) <= 4096,
	       "what every event uses lies in one page");

/* Why a thread left the core. */
enum left {
	LEFT_UNKNOWN = 0, /* no switch, or one that was not reported */
	LEFT_WAITING = 1, /* it could run on and waits */
	LEFT_ASLEEP = 2,
	LEFT_BLOCKED = 3, /* asleep and not to be woken by a signal */
	LEFT_STOPPED = 4, /* by a signal */
	LEFT_TRACED = 5,
	LEFT_THROTTLED = 6, /* its cgroup's quota was used up */
	LEFT_FROZEN = 7,    /* with its cgroup, or for a suspension of the machine */
	LEFT_ENDED = 8,
};

/* What `left` of a turn tells beside the reason, of a run that counts as work until it is known who waited meanwhile. */
enum {
	LEFT_REASON = 0x0f,
	RAN_BESIDE = 0x10,   /* who leaves is none of the workload, and may have kept that waiting */
	RAN_REALTIME = 0x20, /* and is a real-time task */
	KEPT_WAITING = 0x40, /* who gets the core was kept waiting by such runs: as many as lie in the time that he waited, */
	KEPT_BY_ANY = 0x80,  /* of all tasks; without this of real-time ones only */
};

/* One change of context. The context lasts until the next turn. */
struct turn {
	u64 at_ns;
	u16 cause;
	u8 depth;
	u8 left; /* why the base thread before this one left: one of `enum left`, and who kept whom waiting */
	u32 pid; /* of the base task */
};

/* A timer that fired late, with what the core did until then. */
struct late {
	u64 due_ns;
	u64 fired_ns;
	u32 base_cause;
	u32 base_pid;
	u32 turns;
	u32 reserved;
	struct turn tape[LATE_TURNS]; /* oldest first */
};

/* The name of a task when this core saw it last. */
struct seen_name {
	u64 comm[2];
	u32 pid; /* 0: free */
	u32 reserved;
};

struct core_names {
	u64 written; /* records ever written */
	struct seen_name seen[SEEN_NAMES];
};

/* A name that a core had not seen, or not of this task. */
struct name_record {
	u64 at_ns;
	u64 comm[2];
	u32 pid;
	u32 reserved;
};

struct histogram {
	u32 buckets[CAUSES][BUCKETS];
};

/* Whose preemption counts. */
enum workload_by {
	WORKLOAD_NONE = 0,
	WORKLOAD_PROCESS = 1, /* workload_ids: thread group numbers, or thread numbers with plain tracepoints */
	WORKLOAD_COMM = 2,
	WORKLOAD_CORES = 3, /* whoever is preempted is the workload */
};

/* Set by the loader before loading; the verifier then drops what is switched off. */
struct config {
	u64 late_threshold_ns; /* 0: late timers are not recorded */
	u64 workload_comm[2];
	u32 workload_by;
	u32 self_tgid;
	u32 cpu_count;
	u32 console; /* what follows a message is looked at */
};

#endif
