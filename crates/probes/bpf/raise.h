/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How a record is left: who, in which system call, with which stacks. */
#ifndef SUREFOOT_RAISE_H
#define SUREFOOT_RAISE_H

#include "raisers.h"
#include "tasks.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

static __always_inline u64 watched_in_word(u64 word)
{
	/* The compiler drops a mask that it can prove needless; the verifier needs to see it. */
	asm volatile("%0 &= 15" : "+r"(word));
	return raiser_config.watched[word];
}

static __always_inline bool is_watched(u32 cpu)
{
	if (cpu >= WATCH_WORDS * 64)
		return false;
	return watched_in_word(cpu >> 6) >> (cpu & 63) & 1;
}

static __always_inline struct sender *this_sender(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&senders, &cpu);
}

static __always_inline bool in_interrupt(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct slot *slot = bpf_map_lookup_elem(&slots, &cpu);

	return slot && (slot->depth || slot->shadow_depth);
}

/* An interrupt may count between reading and writing, so it is one step. */
static __always_inline void count_one(u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

static __always_inline bool wants_stacks(void)
{
	return raiser_config.kernel_stacks || raiser_config.user_stacks;
}

static __always_inline bool may_take_stack(struct sender *sender, u64 now)
{
	u64 second = now >> 30;

	if (sender->second != second) {
		sender->second = second;
		sender->stacks = 0;
	}
	if (sender->stacks >= raiser_config.stacks_per_s)
		return false;
	sender->stacks++;
	return true;
}

/*
 * Whom this core woke last, if that was just now; the task may be gone, so its number is compared. A reschedule is for
 * that task only within its wake-up, in which the task is in a queue already and not yet set running. Any other (a
 * process that is told to end, a new task) wakes nobody.
 */
static __always_inline u64 name_wakee(struct raised *raised, struct sender *sender, u32 kind)
{
	struct task_struct *wakee = (void *)sender->wakee;
	int pid = 0;

	if (!wakee || bpf_jiffies64() - sender->wakee_jiffies > 1)
		return 0;
	bpf_probe_read_kernel(&pid, sizeof(pid), &wakee->pid);
	if (pid != sender->wakee_pid)
		return 0;
	if (kind == RAISED_RESCHEDULE && !is_being_woken(wakee))
		return 0;
	bpf_probe_read_kernel(raised->wakee, sizeof(raised->wakee), wakee->comm);
	return pid;
}

/* The registers of the current task at its entry into the kernel, where it is the raiser and has any. */
static __always_inline struct pt_regs *user_registers(struct task_struct *task, bool interrupted)
{
	if (interrupted || task->flags & PF_KTHREAD)
		return 0;
	return (void *)bpf_task_pt_regs((void *)task);
}

static __always_inline void fill(struct raised *raised, struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key,
				 u64 function)
{
	u64 id = bpf_get_current_pid_tgid();
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	bool interrupted = in_interrupt();
	struct pt_regs *regs = user_registers(task, interrupted);

	raised->at_ns = now;
	raised->key = key;
	raised->function = function;
	bpf_get_current_comm(raised->comm, sizeof(raised->comm));
	__builtin_memset(raised->wakee, 0, sizeof(raised->wakee));
	raised->pid = id;
	raised->tgid = id >> 32;
	raised->cpu = cpu;
	raised->from = bpf_get_smp_processor_id();
	raised->kind = kind;
	raised->in_interrupt = interrupted;
	raised->as_before = 0;
	raised->reserved = 0;
	raised->kernel_frames = 0;
	raised->user_frames = 0;
	raised->system_call = -1;
	raised->user_top = 0;
	raised->known_id = 0;
	if (kind == RAISED_RESCHEDULE || kind == RAISED_WAKE)
		raised->key = name_wakee(raised, sender, kind);
	if (regs) {
		raised->system_call = regs->orig_ax;
		bpf_probe_read_user(&raised->user_top, sizeof(raised->user_top), (void *)regs->sp);
	}
}

/*
 * Copies the top of the current user stack. A read over the end of the stack fails as a whole, so it is done in
 * pieces that end where pages do.
 */
static __noinline int copy_user_stack(u64 now)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)bpf_task_pt_regs((void *)task);
	struct sender *sender = this_sender();
	struct copied *copied;
	u64 first;

	if (!sender)
		return 0;
	copied = bpf_ringbuf_reserve(&raised_ring, sizeof(*copied), 0);
	if (!copied) {
		count_one(&sender->copies_dropped);
		return 0;
	}
	copied->at_ns = now;
	copied->from = bpf_get_smp_processor_id();
	copied->bytes = 0;
	copied->ip = regs->ip;
	copied->sp = regs->sp;
	copied->bp = regs->bp;
	copied->bx = regs->bx;
	copied->r12 = regs->r12;
	copied->r13 = regs->r13;
	copied->r14 = regs->r14;
	copied->r15 = regs->r15;
	first = PAGE_BYTES - (copied->sp & (PAGE_BYTES - 1));
	asm volatile("%0 &= 8191" : "+r"(first));
	if (first > PAGE_BYTES)
		first = PAGE_BYTES;
	/* The memory of a process that is ending may be gone. */
	if (bpf_probe_read_user(copied->stack, first, (void *)copied->sp)) {
		bpf_ringbuf_discard(copied, BPF_RB_NO_WAKEUP);
		return 0;
	}
	copied->bytes = first;
	if (!bpf_probe_read_user(copied->stack + first, PAGE_BYTES, (void *)(copied->sp + first)))
		copied->bytes = first + PAGE_BYTES;
	bpf_ringbuf_submit(copied, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * A request to several cores queues one call after the other, in ascending order, from one place. The stacks of all
 * are those of the first; only that one is paid for.
 */
static __always_inline bool repeats(struct sender *sender, u64 now, u32 cpu, u64 function, u64 site)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct pt_regs *regs = user_registers(task, in_interrupt());
	struct request *last = &sender->request;
	bool same;

	if (!regs || !site) {
		last->pid = 0;
		return false;
	}
	same = last->pid == task->pid && cpu > last->cpu && now - last->at_ns < REPEAT_NS &&
	       last->function == function && last->site == site && last->ip == regs->ip && last->sp == regs->sp &&
	       last->di == regs->di && last->si == regs->si;
	last->at_ns = now;
	last->cpu = cpu;
	if (same)
		return true;
	last->pid = task->pid;
	last->function = function;
	last->site = site;
	last->ip = regs->ip;
	last->sp = regs->sp;
	last->di = regs->di;
	last->si = regs->si;
	return false;
}

/* Where to look for a kernel stack. It need not tell all apart: what is found is compared. */
static __always_inline u64 tag_of(u32 kind, u64 function, u64 site, u64 system_call)
{
	const u64 odd = 0x9e3779b97f4a7c15;
	u64 tag = (function + kind) * odd;

	tag = (tag ^ tag >> 29 ^ site) * odd;
	tag = (tag ^ tag >> 29 ^ system_call) * odd;
	return tag ^ tag >> 29;
}

/*
 * Reads the kernel stack of the raiser from the probe's context on. False where that lies elsewhere, or is of a
 * bystander.
 */
static __always_inline bool lay(void *ctx, u32 kind, u64 function, u64 site)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct pt_regs *regs = (void *)bpf_task_pt_regs((void *)task);
	u64 depth = (u64)regs, low = (u64)ctx, bytes;
	u32 zero = 0;
	struct words *words = bpf_map_lookup_elem(&laid_words, &zero);

	if (!words || in_interrupt())
		return false;
	/* The difference of two pointers, which is a number. */
	asm volatile("%0 -= %1" : "+r"(depth) : "r"(low));
	if (depth < 8 || depth > STACK_BYTES_MAX || depth & 7)
		return false;
	bytes = depth < sizeof(words->words) ? depth : sizeof(words->words);
	if (bpf_probe_read_kernel(words->words, bytes, ctx))
		return false;
	if (bpf_probe_read_kernel(&words->top, sizeof(words->top), (char *)regs - 8))
		return false;
	words->count = bytes >> 3;
	words->depth = depth >> 3;
	words->tag = tag_of(kind, function, site, task->flags & PF_KTHREAD ? 0 : regs->orig_ax);
	return true;
}

/* The number of the known stack that lies in this core's words; 0 for none. Verified once, not in each program. */
__noinline u64 recall(void)
{
	u32 zero = 0, way, word;
	struct words *words = bpf_map_lookup_elem(&laid_words, &zero);

	if (!words)
		return 0;
	for (way = 0; way < KNOWN_WAYS; way++) {
		u32 index = (words->tag & (KNOWN_SETS - 1)) * KNOWN_WAYS + way;
		struct known *known = bpf_map_lookup_elem(&known_stacks, &index);
		u64 id;

		if (!known || known->tag != words->tag)
			continue;
		id = *(volatile u64 *)&known->id;
		if (known->depth ? known->depth != words->depth : known->top != words->top)
			continue;
		for (word = 0; word < KNOWN_WORDS && word < known->count; word++) {
			u32 at = known->at[word];

			if (at >= LAID_WORDS || words->words[at] != known->values[word])
				break;
		}
		/* User space may have put another in its place meanwhile. */
		if (word && word == known->count && id && *(volatile u64 *)&known->id == id)
			return id;
	}
	return 0;
}

/* A record without stacks of its own. */
static __always_inline void raise_bare(struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key, u64 function,
				       bool as_before)
{
	struct raised *raised = bpf_ringbuf_reserve(&raised_ring, BARE_RAISED, 0);

	if (!raised) {
		count_one(&sender->dropped);
		return;
	}
	fill(raised, sender, now, kind, cpu, key, function);
	raised->as_before = as_before;
	bpf_ringbuf_submit(raised, BPF_RB_NO_WAKEUP);
}

/*
 * Walks the user stack along frame pointers, and returns how many frames there are. The kernel's own walk finds the same
 * and takes several times as long; this one also ends where a frame does not lie above the one before it.
 */
static __noinline int walk_user_stack(struct pt_regs *regs, u64 *frames)
{
	u64 frame = regs->bp, below = regs->sp, words[2];
	u32 depth;

	frames[0] = regs->ip;
	for (depth = 1; depth < STACK_FRAMES; depth++) {
		if (frame < below || frame & 7 || bpf_probe_read_user(words, sizeof(words), (void *)frame) || !words[1])
			break;
		frames[depth] = words[1];
		below = frame + sizeof(words);
		frame = words[0];
	}
	return depth;
}

/* In an interrupt, and in a kernel thread, the user stack is a bystander's or none. */
static __always_inline void take_user_stack(void *ctx, struct raised *raised, u64 now)
{
	struct pt_regs *regs;
	long bytes;

	if (!raiser_config.user_stacks || raised->system_call == -1)
		return;
	regs = (void *)bpf_task_pt_regs((void *)bpf_get_current_task_btf());
	if (regs->cs == USER32_CS) {
		/* The frames of a 32-bit program are left to the kernel. */
		bytes = bpf_get_stack(ctx, raised->user_stack, sizeof(raised->user_stack), BPF_F_USER_STACK);
		raised->user_frames = bytes > 0 ? (u64)bytes >> 3 : 0;
	} else {
		raised->user_frames = walk_user_stack(regs, raised->user_stack);
	}
	if (raiser_config.user_stacks == USER_COPIED ||
	    (raiser_config.user_stacks == USER_AUTO && raised->user_frames < SHORT_STACK_FRAMES))
		copy_user_stack(now);
}

static __always_inline void take_kernel_stack(void *ctx, struct raised *raised)
{
	long bytes = bpf_get_stack(ctx, raised->kernel_stack, sizeof(raised->kernel_stack), 0);

	raised->kernel_frames = bytes > 0 ? (u64)bytes >> 3 : 0;
}

/* A record with a remembered kernel stack. */
static __always_inline bool raise_recalled(void *ctx, struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key,
					   u64 function, u64 known_id)
{
	struct raised *raised = bpf_ringbuf_reserve(&raised_ring, RECALLED_RAISED, 0);

	if (!raised) {
		count_one(&sender->dropped);
		sender->request.pid = 0;
		return false;
	}
	fill(raised, sender, now, kind, cpu, key, function);
	raised->known_id = known_id;
	take_user_stack(ctx, raised, now);
	bpf_ringbuf_submit(raised, BPF_RB_NO_WAKEUP);
	return true;
}

/* A record with its kernel stack and the words in which that lies, so that user space can learn it. */
static __always_inline bool raise_laid(void *ctx, struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key,
				       u64 function)
{
	struct laid *laid = bpf_ringbuf_reserve(&raised_ring, sizeof(*laid), 0);
	u32 zero = 0;
	void *words = bpf_map_lookup_elem(&laid_words, &zero);

	if (!laid) {
		count_one(&sender->dropped);
		sender->request.pid = 0;
		return false;
	}
	sender->told_ns = now;
	fill(&laid->raised, sender, now, kind, cpu, key, function);
	if (!words || bpf_probe_read_kernel(&laid->words, sizeof(laid->words), words))
		laid->words.count = 0;
	take_kernel_stack(ctx, &laid->raised);
	take_user_stack(ctx, &laid->raised, now);
	bpf_ringbuf_submit(laid, BPF_RB_NO_WAKEUP);
	return true;
}

static __always_inline bool raise_whole(void *ctx, struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key,
					u64 function, u64 known_id)
{
	struct raised *raised = bpf_ringbuf_reserve(&raised_ring, sizeof(*raised), 0);

	if (!raised) {
		count_one(&sender->dropped);
		sender->request.pid = 0;
		return false;
	}
	fill(raised, sender, now, kind, cpu, key, function);
	raised->known_id = known_id;
	if (raiser_config.kernel_stacks)
		take_kernel_stack(ctx, raised);
	take_user_stack(ctx, raised, now);
	bpf_ringbuf_submit(raised, BPF_RB_NO_WAKEUP);
	return true;
}

/* With the stacks that are wanted, the kernel's from memory where it is known. */
static __always_inline bool raise_with_stacks(void *ctx, struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key,
					      u64 function, u64 site)
{
	u64 known_id, recalled;

	if (!raiser_config.kernel_stacks || !raiser_config.check_every || !lay(ctx, kind, function, site))
		return raise_whole(ctx, sender, now, kind, cpu, key, function, 0);
	known_id = recall();
	if (known_id) {
		recalled = ++sender->recalled;
		if (recalled % raiser_config.check_every)
			return raise_recalled(ctx, sender, now, kind, cpu, key, function, known_id);
		return raise_whole(ctx, sender, now, kind, cpu, key, function, known_id);
	}
	if (now - sender->told_ns < TELL_EVERY_NS)
		return raise_whole(ctx, sender, now, kind, cpu, key, function, 0);
	return raise_laid(ctx, sender, now, kind, cpu, key, function);
}

/*
 * Whether a core arms a timer for itself in an interrupt or while idle, such as its tick. It is watched, so it must not
 * pay for a stack that would tell no more than that.
 */
static __always_inline bool is_own_upkeep(u32 kind, u32 cpu)
{
	return kind == RAISED_TIMER && cpu == bpf_get_smp_processor_id() &&
	       (in_interrupt() || !(u32)bpf_get_current_pid_tgid());
}

/*
 * `site` tells requests to several cores apart; 0 where a record always stands alone. Tells whether the record has
 * stacks of its own.
 */
static __always_inline bool raise(void *ctx, u32 kind, u32 cpu, u64 key, u64 function, u64 site)
{
	struct sender *sender = this_sender();
	u64 now = bpf_ktime_get_ns();

	if (!sender)
		return false;
	count_one(&sender->records);
	if (!wants_stacks() || is_own_upkeep(kind, cpu)) {
		raise_bare(sender, now, kind, cpu, key, function, false);
		return false;
	}
	if (repeats(sender, now, cpu, function, site)) {
		raise_bare(sender, now, kind, cpu, key, function, true);
		return false;
	}
	if (may_take_stack(sender, now))
		return raise_with_stacks(ctx, sender, now, kind, cpu, key, function, site);
	count_one(&sender->without_stack);
	sender->request.pid = 0;
	raise_bare(sender, now, kind, cpu, key, function, false);
	return false;
}

static __always_inline void mark(u32 kind, u64 key, u64 value)
{
	u32 cpu = bpf_get_smp_processor_id(), index;
	struct sender *own = this_sender();
	struct mark *mark;
	u64 number;

	if (!own)
		return;
	/* An interrupt may leave marks of its own at any time from here on: this place is taken first. */
	number = __sync_fetch_and_add(&own->marks, 1);
	index = cpu * MARKS + (number & (MARKS - 1));
	mark = bpf_map_lookup_elem(&marks, &index);
	if (!mark)
		return;
	mark->kind = 0;
	asm volatile("" ::: "memory");
	mark->at_ns = bpf_ktime_get_ns();
	mark->key = key;
	mark->value = value;
	asm volatile("" ::: "memory");
	mark->kind = (number + 1) << 8 | kind;
}

#endif
