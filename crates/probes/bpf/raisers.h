/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the raisers' programs and user space share: records, copied stacks, marks. build/numbers.rs takes every number,
 * size and offset from here to Rust, as from layout.h.
 */
#ifndef SUREFOOT_RAISERS_H
#define SUREFOOT_RAISERS_H

#include "layout.h"

/* What is raised. */
enum raised_kind {
	RAISED_FUNCTION = 1,   /* key: call-single data; function: what shall run */
	RAISED_RESCHEDULE = 2, /* key: thread that is being woken, 0 if unknown */
	RAISED_TIMER = 3,      /* key: timer; function: its callback */
	RAISED_WORK = 4,       /* key: work item; function: its function */
	RAISED_WAKE = 5,       /* key: thread that is woken onto the core; function: the cause number of the interrupt in it */
	RAISED_CALL = 6,       /* key: 1 for a TLB shootdown; function: the callback that the sender names */
	RAISED_FLUSH = 7,      /* key: pages; the targets are those of the process, so cpu is NO_CORE */
	RAISED_MOVE = 8,       /* key: thread that is moved to the core; function: as of a wake-up, and above FROM_SHIFT its core */
	RAISED_NEW = 9,        /* key: thread that begins on the core */
	RAISED_MESSAGE = 10,   /* a message was logged on the core */
};

/* What a watched core meets. */
enum mark_kind {
	MARK_FUNCTION = 1, /* key: call-single data, 0 for a local call; value: function */
	MARK_TIMER = 2,    /* key: timer; value: callback */
	MARK_SOFTIRQ = 3,  /* key: vector; value: number of the cause in which it was raised, thread in the upper half */
	MARK_TICK = 4,     /* key: 1 if the tick stopped; value: what keeps it */
	MARK_FLUSH = 5,    /* key: pages that another core had flushed here; value: process that was running */
};

/* How a called function's raiser is found, best first; the loader chooses by which tracepoints there are. */
enum call_evidence {
	CALLS_EXACT = 0,  /* csd_queue_cpu and csd_function_entry */
	CALLS_SENT = 1,   /* ipi_send_cpu and ipi_send_cpumask, joined by target and order */
	CALLS_FLUSH = 2,  /* tlb_flush on both sides, joined by time */
	CALLS_UNSEEN = 3,
};

/* User stacks: by frame pointers; the bytes as well where those give too little; the bytes always. */
enum user_stacks {
	USER_NONE = 0,
	USER_FRAME_POINTERS = 1,
	USER_AUTO = 2,
	USER_COPIED = 3,
};

enum {
	STACK_FRAMES = 48,
	SHORT_STACK_FRAMES = 4, /* fewer from a walk along frame pointers are not believed to be all */
	COPY_BYTES = 8192,
	IMAGE_CHANGES = 1, /* for where no stack begins: in execve, with the memory of the new program and the registers of the old one */
	PAGE_BYTES = 4096,
	STACK_BYTES_MAX = 32768, /* of a task's kernel stack */
	MARKS = 8192,
	MARK_KIND_BITS = 8,
	FROM_SHIFT = 32,
	WATCH_WORDS = 16,
	TASK_BYTES_MAX = 32768, /* of a task's structure */
	NO_CORE = 0xffffffff,
	LAID_WORDS = 192, /* of a kernel stack that are looked at, from the probe's context on */
	KNOWN_WORDS = 48,
	KNOWN_WAYS = 32,
	KNOWN_SETS = 16, /* a power of two */
	TELL_EVERY_NS = 20000, /* between two kernel stacks that one core offers to be remembered */
	REPEAT_NS = 50000, /* calls of one request to several cores follow each other within this */
	USER32_CS = 0x23, /* of code of 32 bits, with every x86-64 kernel */
	TLB_REMOTE_SHOOTDOWN = 1,
	TLB_REMOTE_SEND_IPI = 4,
};

struct raiser_config {
	u64 watched[WATCH_WORDS]; /* one bit per core */
	u64 stacks_per_s;         /* per raising core */
	u32 kernel_stacks;
	u32 user_stacks;
	u32 calls;
	u32 with_ledger; /* the programs on tracepoints that the ledger has as well do its part, too */
	u32 reserved;
	u32 check_every; /* of remembered kernel stacks one in so many is walked all the same; 0: none is remembered */
};

struct raised {
	u64 at_ns;
	u64 key;
	u64 function;
	char comm[16];
	char wakee[16];
	u32 pid;
	u32 tgid;
	s32 system_call; /* -1 outside one */
	u32 cpu;         /* target */
	u32 from;        /* the raiser's core */
	u8 kind;
	u8 in_interrupt;
	u8 as_before; /* the stacks are those of the record before it from the same core */
	u8 reserved;
	u32 kernel_frames;
	u32 user_frames;
	u64 user_top; /* the word on top of the user stack: where a system call's wrapper returns to */
	u64 known_id; /* of the remembered kernel stack that it has; 0 for none */
	u64 image;    /* the program that the user stack is of, as its mm->start_stack tells; 0 without one */
	u64 user_stack[STACK_FRAMES];
	u64 kernel_stack[STACK_FRAMES];
};

enum {
	BARE_RAISED = __builtin_offsetof(struct raised, image),
	RECALLED_RAISED = __builtin_offsetof(struct raised, kernel_stack),
};

/* The kernel stack of whoever raises. */
struct words {
	u64 tag;   /* where to look for it among those that are known */
	u64 count; /* of `words` */
	u64 depth; /* words up to where the kernel was entered */
	u64 top;   /* the last of these: where a system call's entry is returned to */
	u64 words[LAID_WORDS];
};

/* A record whose kernel stack may be learnt. */
struct laid {
	struct raised raised;
	struct words words;
};

/*
 * A kernel stack that user space has learnt from such a record: where its return addresses lie, in words from the
 * probe's context on. A walk begins at one place of one program and goes from each return address to the next; so where
 * all of them are what and where they were, it would find the same again. Only the entry of a system call may lie at
 * any distance, because the kernel leaves room of random size below it; it is known as the topmost word.
 */
struct known {
	u64 id; /* 0 while it is being written */
	u64 tag;
	u64 count; /* of `values` and `at` */
	u64 depth; /* words up to where the kernel was entered; 0 for any */
	u64 top;   /* with any depth */
	u64 values[KNOWN_WORDS];
	u16 at[KNOWN_WORDS];
};

/* The bytes of a user stack from its top on, for the record of the same time and core; told apart by its length. */
struct copied {
	u64 at_ns;
	u32 from;
	u32 bytes;
	u64 ip;
	u64 sp;
	u64 bp;
	u64 bx;
	u64 r12;
	u64 r13;
	u64 r14;
	u64 r15;
	u8 stack[COPY_BYTES];
};

struct mark {
	u64 at_ns;
	u64 key;
	u64 value;
	u64 kind; /* and above its lowest MARK_KIND_BITS the number of the mark, from 1 on; written last, 0 meanwhile */
};

/* What tells that a record is for the next target of the request that the record before it was for. */
struct request {
	u64 at_ns;
	u64 function;
	u64 site;
	u64 ip;
	u64 sp;
	u64 di;
	u64 si;
	u32 pid;
	u32 cpu;
};

/* Of each raising core, by its number; whole cache lines, because other cores write theirs at the same time. */
struct sender {
	u64 second;
	u64 stacks;
	u64 records;
	u64 without_stack;
	u64 dropped;
	u64 marks; /* of a watched core: marks ever begun */
	u64 wakee; /* the task that it woke last, and when, in jiffies */
	u64 wakee_jiffies;
	u32 wakee_pid;
	u32 flush_sent; /* a shootdown was announced, its interrupts follow */
	u64 copies_dropped;
	struct request request;
	u64 recalled; /* records with a remembered kernel stack */
	u64 told_ns;  /* when a kernel stack was last offered to be remembered */
	u64 reserved[4];
};

_Static_assert(sizeof(struct sender) % 64 == 0, "senders share no cache line");

#endif
