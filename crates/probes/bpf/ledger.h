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

#include "causes.h"

static __always_inline bool busy(const struct slot *slot)
{
	return *(volatile const u64 *)&slot->seq & 1;
}

static __always_inline void begin(struct slot *slot)
{
	(*(volatile u64 *)&slot->seq)++;
	barrier();
}

/* Whether this run of a program is the one in SAMPLE_EVERY that measures itself. */
static __always_inline bool is_sampled(const struct slot *slot, u32 program)
{
	return !((slot->programs[program % PROGRAMS].count + 1) & (SAMPLE_EVERY - 1));
}

/* Ends an update. A run that is sampled began at `now`. */
static __always_inline void end(struct slot *slot, u32 program, u64 now)
{
	struct program *own = &slot->programs[program % PROGRAMS];

	own->count++;
	if (!(own->count & (SAMPLE_EVERY - 1)))
		own->sampled_ns += bpf_ktime_get_ns() - now;
	barrier();
	(*(volatile u64 *)&slot->seq)++;
}

/* Threads and tasks that take the core; a base can be no other cause above these. */
static __always_inline bool takes_core(u32 cause)
{
	return cause >= CAUSE_OTHER_THREAD;
}

/* Whether an interrupt that comes now delays nobody: the core idles, or runs a thread behind which nobody is known to wait. */
static __always_inline bool delays_nobody(const struct slot *slot)
{
	u32 base = slot->frames[0].cause;

	return base == CAUSE_IDLE || (takes_core(base) && !slot->behind);
}

#ifdef WITHOUT_BTF
/* Plain tracepoints do not tell of messages, and fields of a task are found by BTF alone. */
static __always_inline bool charge_printing(struct slot *slot, u64 elapsed)
{
	return false;
}
#else
/*
 * Whether what the core has done since the newest message can only have been printing it, and what else the kernel did
 * in the same call: an interrupt, a kernel thread, or a task that has not been in user mode since.
 */
static __always_inline bool is_printing(const struct slot *slot)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct pt_regs *regs;

	if (slot->depth || task->flags & PF_KTHREAD)
		return true;
	regs = (void *)bpf_task_pt_regs((void *)task);
	return regs->ip == slot->logged_ip && regs->orig_ax == slot->logged_call;
}

/* Charges a message's printing, where that is what it was. By itself, because it is rare, and looks for an array. */
static __noinline bool charge_printing(struct slot *slot, u64 elapsed)
{
	if (elapsed < PRINTED_NS || !is_printing(slot))
		return false;
	slot->causes[CAUSE_CONSOLE].total_ns += elapsed;
	if (delays_nobody(slot))
		slot->causes[CAUSE_CONSOLE].idle_ns += elapsed;
	/* The room that is left for a duration is for what ends now. */
	count_at_once(slot, CAUSE_CONSOLE, elapsed);
	return true;
}
#endif

/* Charges the time since the previous event to the innermost context, or to the message that was logged in it. */
static __always_inline void charge(struct slot *slot, u64 now)
{
	u32 top = slot->depth & (FRAMES - 1);
	u64 elapsed = now - slot->last_ns, deferred = *(volatile u64 *)&slot->deferred_ns;
	u32 cause = slot->frames[top].cause;
	bool logged = config.console && slot->frames[top].level & LOGGED;

	if (logged)
		slot->frames[top].level &= ~LOGGED;
	if ((s64)elapsed <= 0)
		return;
	if (deferred) {
		u64 used = deferred < elapsed ? deferred : elapsed;

		__sync_fetch_and_add(&slot->deferred_ns, -used);
		elapsed -= used;
	}
	slot->last_ns = now;
	if (logged && charge_printing(slot, elapsed))
		return;
	if (cause >= CAUSES)
		cause = CAUSE_UNKNOWN;
	slot->causes[cause].total_ns += elapsed;
	slot->frames[top].own_ns += elapsed;
	if (top && delays_nobody(slot))
		slot->causes[cause].idle_ns += elapsed;
}

/* The place of the next turn on the tape. */
static __always_inline struct turn *next_turn(const struct slot *slot)
{
	u32 cpu = bpf_get_smp_processor_id();
	u32 index = cpu * TAPE_TURNS + (slot->tape_turns & WINDOW_MASK);

	return bpf_map_lookup_elem(&tape, &index);
}

static __always_inline void fill_turn(struct turn *turn, struct slot *slot, u64 now, u32 cause, u8 left)
{
	if (turn) {
		turn->at_ns = now;
		turn->cause = cause;
		turn->depth = slot->depth;
		turn->left = left;
		turn->pid = slot->base_pid;
	}
	barrier();
	slot->tape_turns++;
}

static __always_inline void write_turn(struct slot *slot, u64 now, u32 cause)
{
	fill_turn(next_turn(slot), slot, now, cause, LEFT_UNKNOWN);
}

/* The first event of a core tells what it has been doing. What an exit before it has charged stays unknown, and none of it is
 * of the run that is taken back when somebody turns out to have waited. */
static __always_inline void set_first_base(struct slot *slot, u32 cause, u32 pid)
{
	if (slot->frames[0].cause != CAUSE_UNKNOWN)
		return;
	slot->frames[0].cause = cause;
	slot->frames[0].own_ns = 0;
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
	if (!is_task(slot, slot->frames[0].cause))
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

/*
 * The place of a frame. The compiler drops a mask that it knows to change nothing; the verifiers of kernels up to 6.1, which
 * do not follow what it knows, then refuse the program.
 */
static __always_inline u32 place_of(u32 depth)
{
	_Static_assert(FRAMES == 8, "the mask below");
	asm volatile("%0 &= 7" : "+r"(depth));
	return depth;
}

/*
 * Closes the innermost context at the latest moment that its exit allows: the clock is read when all that is needed has
 * been found and fetched, because the time of this program belongs to the interrupt. What comes after the clock, and
 * the way out of the kernel, are what an interrupt is still too short by.
 */
static __always_inline void pop(struct slot *slot, u32 level)
{
	u32 top = slot->depth & (FRAMES - 1), depth;
	struct turn *turn = next_turn(slot);
	u64 now;

	make_room(slot);
	if (turn)
		fetch(&turn->at_ns);
	if (slot->frames[top].cause < CAUSES)
		fetch(&slot->causes[slot->frames[top].cause].total_ns);
	now = bpf_ktime_get_ns();
	charge(slot, now);
	heal(slot, level + 1);
	depth = slot->depth & (FRAMES - 1);
	if (!depth || slot->frames[depth].level != level) {
		slot->heals++;
		return;
	}
	count_held(slot, slot->frames[depth].cause, slot->frames[depth].own_ns);
	slot->depth = depth - 1;
	fill_turn(turn, slot, now, slot->frames[place_of(depth - 1)].cause, LEFT_UNKNOWN);
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
	if (delays_nobody(slot))
		slot->causes[cause].idle_ns += duration_ns;
	__sync_fetch_and_add(&slot->deferred_ns, duration_ns);
	count_at_once(slot, cause, duration_ns);
}

static __always_inline void shadow_exit(struct slot *slot, u64 now)
{
	if (!slot->shadow_depth)
		return;
	if (!--slot->shadow_depth)
		shadow_book(slot, slot->shadow_cause, now - slot->shadow_start_ns);
}

/* The clock is the first that an entry reads: what it does itself belongs to the interrupt. */
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
	if (cause == CAUSE_LOCAL_TIMER) {
		slot->timer_before_ns = slot->timer_entry_ns;
		slot->timer_entry_ns = now;
	}
	end(slot, program, now);
	return 0;
}

static __always_inline int on_exit(u32 program, u32 level)
{
	struct slot *slot = this_slot();
	u64 began = 0;

	if (!slot)
		return 0;
	if (busy(slot)) {
		shadow_exit(slot, bpf_ktime_get_ns());
		return 0;
	}
	begin(slot);
	if (is_sampled(slot, program))
		began = bpf_ktime_get_ns();
	pop(slot, level);
	end(slot, program, began);
	return 0;
}

static __always_inline int on_keyed_entry(u32 program, u64 now, u64 key, u32 other, u32 level)
{
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

#endif
