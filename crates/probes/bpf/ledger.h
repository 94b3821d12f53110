/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The ledger of each core: a state machine that partitions wall time.
 *
 * At any moment a core is in one context: its base (idle, a task, a kernel thread) or the innermost interrupt on top
 * of it. Each event charges the time since the previous event to the context that was innermost, then changes the
 * context. So no time is counted twice and none is left out:
 *
 *     sum of all causes' total_ns = (last_ns - start_ns) + deferred_ns
 *
 * User space checks this sum on every snapshot; a snapshot that fails it was torn by a concurrent update and is
 * read again.
 *
 * A core's slot is written by that core alone. Most events arrive with interrupts off; softirq entry and exit do not,
 * so an interrupt can land inside an update. It then sees `seq` odd and takes the side road: it measures itself as a
 * whole, books its time under its cause, and adds it to `deferred_ns`, which the next ordinary charge leaves out.
 * NMIs report their length afterwards and are booked backwards in the same way.
 *
 * Nothing here wakes anybody or sends anything: user space maps the arrays and reads them from another core.
 */
#ifndef SUREFOOT_LEDGER_H
#define SUREFOOT_LEDGER_H

#include "layout.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the loader sets the number of possible cores */
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct histogram);
} histograms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TAPE_TURNS); /* per core; the loader multiplies */
	__type(key, u32);
	__type(value, struct turn);
} tape SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, LATE_RECORDS);
	__type(key, u32);
	__type(value, struct late);
} late_ring SEC(".maps");

/* Kernel threads' and workload processes' numbers, where the task itself cannot be read (plain tracepoints). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, u8);
} kernel_threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u8);
} workload_ids SEC(".maps");

enum {
	WORKLOAD_NONE = 0,
	WORKLOAD_PROCESS = 1, /* workload_ids: thread group numbers, or thread numbers with plain tracepoints */
	WORKLOAD_COMM = 2,
	WORKLOAD_CORES = 3, /* whoever is preempted is the workload */
};

/* Set by the loader before loading; the verifier then drops what is switched off. */
struct config {
	u64 late_threshold_ns;
	u64 workload_comm[2];
	u32 workload_by;
	u32 self_tgid;
	u32 cpu_count;
	u32 reserved;
};

const volatile struct config config SEC(".rodata.config") = {};

#define barrier() asm volatile("" ::: "memory")

static __always_inline struct slot *this_slot(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&slots, &cpu);
}

static __always_inline bool busy(const struct slot *slot)
{
	return *(volatile const u64 *)&slot->seq & 1;
}

static __always_inline void begin(struct slot *slot)
{
	(*(volatile u64 *)&slot->seq)++;
	barrier();
}

/* Ends an update; one run in 64 measures itself. */
static __always_inline void end(struct slot *slot, u32 program, u64 now)
{
	struct program *own = &slot->programs[program % PROGRAMS];

	own->count++;
	if (!(own->count & 63))
		own->sampled_ns += bpf_ktime_get_ns() - now;
	barrier();
	(*(volatile u64 *)&slot->seq)++;
}

static __always_inline u32 bucket_of(u64 duration_ns)
{
	u64 rest = duration_ns;
	u32 log = 0, bucket;

	if (duration_ns < 16)
		return duration_ns / 4;
	if (rest >> 32) { log += 32; rest >>= 32; }
	if (rest >> 16) { log += 16; rest >>= 16; }
	if (rest >> 8) { log += 8; rest >>= 8; }
	if (rest >> 4) { log += 4; rest >>= 4; }
	if (rest >> 2) { log += 2; rest >>= 2; }
	if (rest >> 1) log += 1;
	bucket = 4 + (log - 4) * 4 + ((duration_ns >> ((log - 2) & 63)) & 3);
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static __always_inline void count_one(struct slot *slot, u32 cause, u64 own_ns)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct histogram *histogram;

	if (cause >= CAUSES)
		return;
	slot->causes[cause].count++;
	if (own_ns > slot->causes[cause].max_ns)
		slot->causes[cause].max_ns = own_ns;
	histogram = bpf_map_lookup_elem(&histograms, &cpu);
	if (histogram)
		histogram->buckets[cause][bucket_of(own_ns) & (BUCKETS - 1)]++;
}

/* Charges the time since the previous event to the innermost context. */
static __always_inline void charge(struct slot *slot, u64 now)
{
	u32 top = slot->depth & (FRAMES - 1);
	u64 elapsed = now - slot->last_ns, deferred = *(volatile u64 *)&slot->deferred_ns;
	u32 cause = slot->frames[top].cause;

	if ((s64)elapsed <= 0)
		return;
	if (deferred) {
		u64 used = deferred < elapsed ? deferred : elapsed;

		__sync_fetch_and_add(&slot->deferred_ns, -used);
		elapsed -= used;
	}
	slot->last_ns = now;
	if (cause >= CAUSES)
		cause = CAUSE_UNKNOWN;
	slot->causes[cause].total_ns += elapsed;
	slot->frames[top].own_ns += elapsed;
	if (top && slot->frames[0].cause == CAUSE_IDLE)
		slot->causes[cause].idle_ns += elapsed;
}

static __always_inline void write_turn(struct slot *slot, u64 now, u32 cause)
{
	u32 cpu = bpf_get_smp_processor_id();
	u32 index = cpu * TAPE_TURNS + (slot->tape_turns & WINDOW_MASK);
	struct turn *turn = bpf_map_lookup_elem(&tape, &index);

	if (turn) {
		turn->at_ns = now;
		turn->cause = cause;
		turn->depth = slot->depth;
		turn->pid = slot->base_pid;
	}
	barrier();
	slot->tape_turns++;
}

/* The first event of a core tells what it has been doing since the start. */
static __always_inline void set_first_base(struct slot *slot, u32 cause, u32 pid)
{
	if (slot->frames[0].cause != CAUSE_UNKNOWN)
		return;
	slot->frames[0].cause = cause;
	slot->base_pid = pid;
}

static __always_inline void first_base_of_current(struct slot *slot)
{
	u32 pid;

	if (slot->frames[0].cause != CAUSE_UNKNOWN)
		return;
	pid = bpf_get_current_pid_tgid();
	set_first_base(slot, pid ? CAUSE_WORK : CAUSE_IDLE, pid);
}

/*
 * Not every switch is reported: a program that would recurse is skipped, and the kernel of some guests has none to tell
 * for the threads of its agent. The tick finds who runs instead, if it did not interrupt a context above the base; what
 * went before has been charged to whoever was switched away from.
 */
static __always_inline void heal_base(struct slot *slot, u64 now)
{
	if (slot->depth || slot->frames[0].cause == CAUSE_UNKNOWN || slot->base_pid == (u32)bpf_get_current_pid_tgid())
		return;
	charge(slot, now);
	count_one(slot, slot->frames[0].cause, slot->frames[0].own_ns);
	slot->frames[0].cause = CAUSE_UNKNOWN;
	slot->frames[0].own_ns = 0;
	first_base_of_current(slot);
	slot->heals++;
	write_turn(slot, now, slot->frames[0].cause);
}

/* Closes contexts of this level and above, which lost their exit. */
static __always_inline void heal(struct slot *slot, u32 level)
{
	int i;

	for (i = 0; i < FRAMES; i++) {
		u32 depth = slot->depth;

		if (!depth || slot->frames[depth & (FRAMES - 1)].level < level)
			break;
		slot->depth = depth - 1;
		slot->heals++;
	}
}

static __always_inline void push(struct slot *slot, u64 now, u32 cause, u32 level)
{
	u32 depth;

	first_base_of_current(slot);
	charge(slot, now);
	heal(slot, level);
	depth = ++slot->depth & (FRAMES - 1);
	slot->frames[depth].cause = cause;
	slot->frames[depth].level = level;
	slot->frames[depth].own_ns = 0;
	write_turn(slot, now, cause);
}

static __always_inline void pop(struct slot *slot, u64 now, u32 level)
{
	u32 depth;

	charge(slot, now);
	heal(slot, level + 1);
	depth = slot->depth & (FRAMES - 1);
	if (!depth || slot->frames[depth].level != level) {
		slot->heals++;
		return;
	}
	count_one(slot, slot->frames[depth].cause, slot->frames[depth].own_ns);
	slot->depth = depth - 1;
	write_turn(slot, now, slot->frames[(depth - 1) & (FRAMES - 1)].cause);
}

/* Finds a cause by its key; makes room for it when `name` is given and a place is free. */
static __always_inline u32 find(struct slot *slot, u64 key, u32 other, const u64 *name, bool insert)
{
	u32 hash = (key * 0x9E3779B97F4A7C15ULL) >> 50;
	int i;

	for (i = 0; i < 8; i++) {
		u32 index = CAUSE_FIRST_DYNAMIC + ((hash + i) & (DYNAMIC_CAUSES - 1));
		u64 have = slot->causes[index].key;

		if (have == key)
			return index;
		if (!have) {
			if (!insert)
				return other;
			slot->causes[index].name[0] = name ? name[0] : 0;
			slot->causes[index].name[1] = name ? name[1] : 0;
			slot->causes[index].key = key;
			return index;
		}
	}
	return other;
}

#define KEY(kind, value) (((u64)(kind) << 56) | ((u64)(value) & 0x00FFFFFFFFFFFFFFULL))

/* Kernel threads of one family (kworker/1:2, ksoftirqd/0) share a name: up to the slash. "irq/24-ahci" stays whole. */
static __always_inline u32 find_thread(struct slot *slot, u32 kind, u32 other, char *comm)
{
	u64 name[2] = {}, hash;
	bool whole = kind == KEY_TASK || (comm[0] == 'i' && comm[1] == 'r' && comm[2] == 'q' && comm[3] == '/');
	bool cut = false;
	int i;

	for (i = 0; i < 16; i++) {
		if (!comm[i] || (comm[i] == '/' && !whole))
			cut = true;
		if (!cut)
			((char *)name)[i] = comm[i];
	}
	hash = (name[0] ^ (name[1] * 0xFF51AFD7ED558CCDULL)) * 0xC4CEB9FE1A85EC53ULL;
	return find(slot, KEY(kind, hash >> 8), other, name, true);
}

/* The side road of an interrupt that landed inside an update. */
static __always_inline void shadow_enter(struct slot *slot, u64 now, u32 cause)
{
	if (!slot->shadow_depth++) {
		slot->shadow_start_ns = now;
		slot->shadow_cause = cause;
		slot->shadowed++;
	}
}

static __always_inline void shadow_book(struct slot *slot, u32 cause, u64 duration_ns)
{
	if (cause >= CAUSES)
		return;
	slot->causes[cause].total_ns += duration_ns;
	if (slot->frames[0].cause == CAUSE_IDLE)
		slot->causes[cause].idle_ns += duration_ns;
	__sync_fetch_and_add(&slot->deferred_ns, duration_ns);
	count_one(slot, cause, duration_ns);
}

static __always_inline void shadow_exit(struct slot *slot, u64 now)
{
	if (!slot->shadow_depth)
		return;
	if (!--slot->shadow_depth)
		shadow_book(slot, slot->shadow_cause, now - slot->shadow_start_ns);
}

static __always_inline int on_entry(u32 program, u32 cause, u32 level)
{
	u64 now = bpf_ktime_get_ns();
	struct slot *slot = this_slot();

	if (!slot)
		return 0;
	if (busy(slot)) {
		shadow_enter(slot, now, cause);
		return 0;
	}
	begin(slot);
	if (cause == CAUSE_LOCAL_TIMER)
		heal_base(slot, now);
	push(slot, now, cause, level);
	if (cause == CAUSE_LOCAL_TIMER)
		slot->timer_entry_ns = now;
	end(slot, program, now);
	return 0;
}

static __always_inline int on_exit(u32 program, u32 level)
{
	u64 now = bpf_ktime_get_ns();
	struct slot *slot = this_slot();

	if (!slot)
		return 0;
	if (busy(slot)) {
		shadow_exit(slot, now);
		return 0;
	}
	begin(slot);
	pop(slot, now, level);
	end(slot, program, now);
	return 0;
}

static __always_inline int on_keyed_entry(u32 program, u64 key, u32 other, u32 level)
{
	u64 now = bpf_ktime_get_ns();
	struct slot *slot = this_slot();

	if (!slot)
		return 0;
	if (busy(slot)) {
		shadow_enter(slot, now, find(slot, key, other, 0, false));
		return 0;
	}
	begin(slot);
	push(slot, now, find(slot, key, other, 0, true), level);
	end(slot, program, now);
	return 0;
}

/* An NMI handler reports its length when it is done. */
static __always_inline int on_nmi(u32 program, u64 handler, s64 duration_ns)
{
	u64 now = bpf_ktime_get_ns(), key = KEY(KEY_NMI, handler);
	struct slot *slot = this_slot();

	if (!slot || duration_ns <= 0)
		return 0;
	if (busy(slot)) {
		shadow_book(slot, find(slot, key, CAUSE_OTHER_NMI, 0, false), duration_ns);
		return 0;
	}
	begin(slot);
	first_base_of_current(slot);
	shadow_book(slot, find(slot, key, CAUSE_OTHER_NMI, 0, true), duration_ns);
	end(slot, program, now);
	return 0;
}

struct task_view {
	u64 comm[2];
	u32 pid;
	u32 tgid;
	bool kernel_thread;
	bool runnable;
};

static __always_inline bool is_workload(const struct task_view *task)
{
	switch (config.workload_by) {
	case WORKLOAD_PROCESS:
		return bpf_map_lookup_elem(&workload_ids, &task->tgid) != 0;
	case WORKLOAD_COMM:
		return task->comm[0] == config.workload_comm[0] && task->comm[1] == config.workload_comm[1];
	default:
		return !task->kernel_thread && task->pid;
	}
}

static __always_inline bool anybody_waits(const struct slot *slot)
{
	return slot->waiting[0] | slot->waiting[1] | slot->waiting[2] | slot->waiting[3];
}

static __always_inline void forget_waiting(struct slot *slot, u32 pid)
{
	int i;

	for (i = 0; i < WAITERS; i++)
		if (slot->waiting[i] == pid)
			slot->waiting[i] = 0;
}

static __always_inline void add_waiting(struct slot *slot, u32 pid)
{
	int i;

	for (i = 0; i < WAITERS; i++) {
		if (!slot->waiting[i] || slot->waiting[i] == pid) {
			slot->waiting[i] = pid;
			break;
		}
	}
}

/* Where only cores are named, a core belongs to the first task that was preempted on it, until that has not run there
 * for a second: of two that share a core one is the workload and the other what preempts it. */
#define OWNER_FORGOTTEN_NS 1000000000ULL

static __always_inline void note_waiting(struct slot *slot, const struct task_view *prev, const struct task_view *next,
					 u64 now)
{
	bool preempted = prev->runnable && prev->pid && prev->pid != next->pid && is_workload(prev);

	forget_waiting(slot, next->pid);
	if (config.workload_by == WORKLOAD_CORES) {
		if (prev->pid == slot->owner_pid || next->pid == slot->owner_pid)
			slot->owner_seen_ns = now;
		if (preempted && !anybody_waits(slot) &&
		    (!slot->owner_pid || now - slot->owner_seen_ns > OWNER_FORGOTTEN_NS)) {
			slot->owner_pid = prev->pid;
			slot->owner_seen_ns = now;
		}
		preempted &= prev->pid == slot->owner_pid;
	}
	if (preempted)
		add_waiting(slot, prev->pid);
}

static __always_inline u32 base_of(struct slot *slot, struct task_view *next)
{
	if (!next->pid) {
		/* A core with somebody waiting does not idle. */
		__builtin_memset(slot->waiting, 0, sizeof(slot->waiting));
		return CAUSE_IDLE;
	}
	if (next->kernel_thread)
		return find_thread(slot, KEY_THREAD, CAUSE_OTHER_THREAD, (char *)next->comm);
	if (config.workload_by != WORKLOAD_NONE && anybody_waits(slot) &&
	    (config.workload_by == WORKLOAD_CORES || !is_workload(next)))
		return find_thread(slot, KEY_TASK, CAUSE_OTHER_TASK, (char *)next->comm);
	return CAUSE_WORK;
}

static __always_inline int on_switch(u32 program, struct task_view *prev, struct task_view *next)
{
	u64 now = bpf_ktime_get_ns();
	struct slot *slot = this_slot();
	u32 cause;

	if (!slot || busy(slot))
		return 0;
	begin(slot);
	set_first_base(slot, prev->pid ? CAUSE_WORK : CAUSE_IDLE, prev->pid);
	charge(slot, now);
	if (slot->depth) {
		slot->heals += slot->depth;
		slot->depth = 0;
	}
	if (slot->frames[0].cause > CAUSE_UNKNOWN)
		count_one(slot, slot->frames[0].cause, slot->frames[0].own_ns);
	if (config.workload_by != WORKLOAD_NONE)
		note_waiting(slot, prev, next, now);
	cause = base_of(slot, next);
	slot->frames[0].cause = cause;
	slot->frames[0].own_ns = 0;
	slot->base_pid = next->pid;
	write_turn(slot, now, cause);
	end(slot, program, now);
	return 0;
}

static __always_inline void copy_tape(struct slot *slot, struct late *late)
{
	u32 cpu = bpf_get_smp_processor_id();
	u64 have = slot->tape_turns;
	u64 wanted = have < LATE_TURNS ? have : LATE_TURNS;
	int i;

	late->turns = wanted;
	for (i = 0; i < LATE_TURNS; i++) {
		u32 index = cpu * TAPE_TURNS + ((have - wanted + i) & WINDOW_MASK);
		struct turn *turn;

		if ((u64)i >= wanted)
			break;
		turn = bpf_map_lookup_elem(&tape, &index);
		if (turn)
			late->tape[i] = *turn;
	}
}

/* Called for a timer that fired `late_ns` after it was due. */
static __always_inline void record_late(struct slot *slot, s64 late_ns)
{
	u32 cpu = bpf_get_smp_processor_id();
	u32 index = cpu * LATE_RECORDS + (slot->late_records % LATE_RECORDS);
	struct late *late = bpf_map_lookup_elem(&late_ring, &index);

	if (!late)
		return;
	late->fired_ns = slot->timer_entry_ns;
	late->due_ns = slot->timer_entry_ns - late_ns;
	late->base_cause = slot->frames[0].cause;
	late->base_pid = slot->base_pid;
	copy_tape(slot, late);
	barrier();
	slot->late_records++;
}

#endif
