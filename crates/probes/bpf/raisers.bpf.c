// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Who interrupts the watched cores.
 *
 * The raiser's side pays: where an interrupt for a watched core is queued, its sender leaves a record with its name,
 * system call and, as far as the rate allows, its stacks. The watched core itself only leaves marks of 32 bytes in an
 * array of its own; user space joins the two. Records go through a ring buffer that wakes nobody, because waking would
 * send one of the interrupts that are being looked for.
 *
 * A record taken in interrupt context says so: the current task is then a bystander and its stack is not taken.
 */
#include "layout.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

enum {
	RAISED_FUNCTION = 1,   /* key: call-single data; function: what shall run */
	RAISED_RESCHEDULE = 2, /* key: thread that is being woken, 0 if unknown */
	RAISED_TIMER = 3,      /* key: timer; function: its callback */
	RAISED_WORK = 4,       /* key: work item; function: its function */
	RAISED_WAKE = 5,       /* key: kernel thread that is being woken */
};

enum {
	MARK_FUNCTION = 1, /* key: call-single data, 0 for a local call; value: function */
	MARK_TIMER = 2,    /* key: timer; value: callback */
	MARK_SOFTIRQ = 3,  /* key: vector; value: number of the cause in which it was raised, thread in the upper half */
	MARK_TICK = 4,     /* key: 1 if the tick stopped; value: what keeps it */
};

enum {
	STACK_FRAMES = 48,
	MARKS = 8192,
	WATCH_WORDS = 16,
};

struct raiser_config {
	u64 watched[WATCH_WORDS]; /* one bit per core */
	u64 stacks_per_s;         /* per raising core */
	u32 kernel_stacks;
	u32 user_stacks;
};

const volatile struct raiser_config raiser_config SEC(".rodata.config") = {};

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
	u16 kind;
	u16 in_interrupt;
	u16 kernel_frames;
	u16 user_frames;
	u64 user_top; /* the word on top of the user stack: where a system call's wrapper returns to */
	u64 kernel_stack[STACK_FRAMES];
	u64 user_stack[STACK_FRAMES];
};

enum { BARE_RAISED = __builtin_offsetof(struct raised, kernel_stack) };

struct bare_raised {
	char bytes[BARE_RAISED];
};

struct mark {
	u64 at_ns;
	u64 key;
	u64 value;
	u64 kind;
};

/* Of each raising core, by its number: how many stacks it has taken this second, and the task it woke last. */
struct sender {
	u64 second;
	u64 stacks;
	u64 records;
	u64 without_stack;
	u64 dropped;
	u64 marks; /* of a watched core: marks ever left */
	u32 wakee_pid;
	u32 wakee_is_kernel_thread;
	char wakee[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the ledger's own, shared by the loader */
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct sender);
} senders SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MARKS);
	__type(key, u32);
	__type(value, struct mark);
} marks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} raised_ring SEC(".maps");

static __always_inline bool is_watched(u32 cpu)
{
	u64 word = cpu >> 6;

	if (cpu >= WATCH_WORDS * 64)
		return false;
	/* The compiler drops a mask that it can prove needless; the verifier needs to see it. */
	asm volatile("%0 &= 15" : "+r"(word));
	return raiser_config.watched[word] >> (cpu & 63) & 1;
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

static __always_inline void fill(struct raised *raised, struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key,
				 u64 function)
{
	u64 id = bpf_get_current_pid_tgid();
	struct task_struct *task = (void *)bpf_get_current_task_btf();

	raised->at_ns = now;
	raised->key = key;
	raised->function = function;
	bpf_get_current_comm(raised->comm, sizeof(raised->comm));
	__builtin_memset(raised->wakee, 0, sizeof(raised->wakee));
	if (kind == RAISED_RESCHEDULE || kind == RAISED_WAKE)
		__builtin_memcpy(raised->wakee, sender->wakee, sizeof(raised->wakee));
	raised->pid = id;
	raised->tgid = id >> 32;
	raised->cpu = cpu;
	raised->kind = kind;
	raised->in_interrupt = in_interrupt();
	raised->kernel_frames = 0;
	raised->user_frames = 0;
	raised->system_call = -1;
	raised->user_top = 0;
	if (!raised->in_interrupt && !(task->flags & PF_KTHREAD)) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs((void *)task);

		raised->system_call = BPF_CORE_READ(regs, orig_ax);
		bpf_probe_read_user(&raised->user_top, sizeof(raised->user_top), (void *)BPF_CORE_READ(regs, sp));
	}
}

static __always_inline void raise(void *ctx, u32 kind, u32 cpu, u64 key, u64 function)
{
	struct sender *sender = this_sender();
	u64 now = bpf_ktime_get_ns();
	struct raised *raised;
	long bytes;

	if (!sender)
		return;
	sender->records++;
	if (!(raiser_config.kernel_stacks || raiser_config.user_stacks) || !may_take_stack(sender, now)) {
		raised = bpf_ringbuf_reserve(&raised_ring, BARE_RAISED, 0);
		if (!raised) {
			sender->dropped++;
			return;
		}
		sender->without_stack++;
		fill(raised, sender, now, kind, cpu, key, function);
		bpf_ringbuf_submit(raised, BPF_RB_NO_WAKEUP);
		return;
	}
	raised = bpf_ringbuf_reserve(&raised_ring, sizeof(*raised), 0);
	if (!raised) {
		sender->dropped++;
		return;
	}
	fill(raised, sender, now, kind, cpu, key, function);
	if (raiser_config.kernel_stacks) {
		bytes = bpf_get_stack(ctx, raised->kernel_stack, sizeof(raised->kernel_stack), 0);
		raised->kernel_frames = bytes > 0 ? (u64)bytes >> 3 : 0;
	}
	/* In an interrupt, and in a kernel thread, the user stack is a bystander's or none. */
	if (raiser_config.user_stacks && raised->system_call != -1) {
		bytes = bpf_get_stack(ctx, raised->user_stack, sizeof(raised->user_stack), BPF_F_USER_STACK);
		raised->user_frames = bytes > 0 ? (u64)bytes >> 3 : 0;
	}
	bpf_ringbuf_submit(raised, BPF_RB_NO_WAKEUP);
}

static __always_inline void mark(u32 kind, u64 key, u64 value)
{
	u32 cpu = bpf_get_smp_processor_id(), index;
	struct sender *own = this_sender();
	struct mark *mark;

	if (!own)
		return;
	index = cpu * MARKS + (own->marks & (MARKS - 1));
	mark = bpf_map_lookup_elem(&marks, &index);
	if (!mark)
		return;
	mark->at_ns = bpf_ktime_get_ns();
	mark->key = key;
	mark->value = value;
	mark->kind = kind;
	asm volatile("" ::: "memory");
	own->marks++;
}

SEC("raw_tp/csd_queue_cpu")
int raise_function(u64 *ctx)
{
	u32 cpu = ctx[0];

	if (is_watched(cpu))
		raise(ctx, RAISED_FUNCTION, cpu, ctx[3], ctx[2]);
	return 0;
}

SEC("raw_tp/csd_function_entry")
int mark_function(u64 *ctx)
{
	if (is_watched(bpf_get_smp_processor_id()))
		mark(MARK_FUNCTION, ctx[1], ctx[0]);
	return 0;
}

/* Remembers whom this core wakes; the interrupt that follows in the same wake-up is for that thread. */
SEC("tp_btf/sched_waking")
int BPF_PROG(note_waking, struct task_struct *task)
{
	struct sender *sender = this_sender();

	if (!sender)
		return 0;
	sender->wakee_pid = task->pid;
	sender->wakee_is_kernel_thread = !!(task->flags & PF_KTHREAD);
	bpf_probe_read_kernel(sender->wakee, sizeof(sender->wakee), task->comm);
	if (sender->wakee_is_kernel_thread) {
		u32 cpu = BPF_CORE_READ(task, thread_info.cpu);

		if (is_watched(cpu))
			raise(ctx, RAISED_WAKE, cpu, task->pid, 0);
	}
	return 0;
}

/* Call interrupts are known by their function; what has no callback is a reschedule. */
SEC("raw_tp/ipi_send_cpu")
int raise_reschedule(u64 *ctx)
{
	struct sender *sender = this_sender();
	u32 cpu = ctx[0];

	if (sender && !ctx[2] && is_watched(cpu))
		raise(ctx, RAISED_RESCHEDULE, cpu, sender->wakee_pid, 0);
	return 0;
}

SEC("tp_btf/hrtimer_start")
int BPF_PROG(raise_timer, struct hrtimer *timer)
{
	struct hrtimer___armed *armed = (void *)timer;
	u32 cpu = BPF_CORE_READ(armed, base, cpu_base, cpu);

	if (is_watched(cpu))
		raise(ctx, RAISED_TIMER, cpu, (u64)timer, (u64)BPF_CORE_READ(armed, function));
	return 0;
}

SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(mark_timer, struct hrtimer *timer)
{
	struct hrtimer___armed *armed = (void *)timer;

	if (is_watched(bpf_get_smp_processor_id()))
		mark(MARK_TIMER, (u64)timer, (u64)BPF_CORE_READ(armed, function));
	return 0;
}

SEC("tp_btf/workqueue_queue_work")
int BPF_PROG(raise_work, int wanted, struct pool_workqueue *queue, struct work_struct *work)
{
	s32 cpu = BPF_CORE_READ(queue, pool, cpu);

	if (cpu >= 0 && is_watched(cpu))
		raise(ctx, RAISED_WORK, cpu, (u64)work, (u64)BPF_CORE_READ(work, func));
	return 0;
}

SEC("tp_btf/softirq_raise")
int BPF_PROG(mark_softirq, u32 vector)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct slot *slot;

	if (!is_watched(cpu))
		return 0;
	slot = bpf_map_lookup_elem(&slots, &cpu);
	if (slot)
		mark(MARK_SOFTIRQ, vector,
		     slot->frames[slot->depth & (FRAMES - 1)].cause | (u64)(u32)bpf_get_current_pid_tgid() << 32);
	return 0;
}

SEC("tp_btf/tick_stop")
int BPF_PROG(mark_tick, int success, int dependency)
{
	if (is_watched(bpf_get_smp_processor_id()))
		mark(MARK_TICK, success, (u32)dependency);
	return 0;
}
