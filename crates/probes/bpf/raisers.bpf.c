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
#include "tasks.h"
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
	RAISED_CALL = 6,       /* key: 1 for a TLB shootdown; function: the callback that the sender names */
	RAISED_FLUSH = 7,      /* key: pages; the targets are those of the process, so cpu is NO_CORE */
};

enum {
	MARK_FUNCTION = 1, /* key: call-single data, 0 for a local call; value: function */
	MARK_TIMER = 2,    /* key: timer; value: callback */
	MARK_SOFTIRQ = 3,  /* key: vector; value: number of the cause in which it was raised, thread in the upper half */
	MARK_TICK = 4,     /* key: 1 if the tick stopped; value: what keeps it */
	MARK_FLUSH = 5,    /* key: pages that another core had flushed here; value: process that was running */
};

/* How a called function's raiser is found, best first; the loader chooses by which tracepoints there are. */
enum {
	CALLS_EXACT = 0,  /* csd_queue_cpu and csd_function_entry */
	CALLS_SENT = 1,   /* ipi_send_cpu and ipi_send_cpumask, joined by target and order */
	CALLS_FLUSH = 2,  /* tlb_flush on both sides, joined by time */
	CALLS_UNSEEN = 3,
};

/* User stacks: by frame pointers; the bytes as well where those give too little; the bytes always. */
enum {
	USER_NONE = 0,
	USER_FRAME_POINTERS = 1,
	USER_AUTO = 2,
	USER_COPIED = 3,
};

enum {
	STACK_FRAMES = 48,
	SHORT_STACK_FRAMES = 4, /* fewer from a walk along frame pointers are not believed to be all */
	COPY_BYTES = 8192,
	PAGE_BYTES = 4096,
	MARKS = 8192,
	WATCH_WORDS = 16,
	NO_CORE = 0xffffffff,
	REPEAT_NS = 50000, /* calls of one request to several cores follow each other within this */
	TLB_REMOTE_SHOOTDOWN = 1,
	TLB_REMOTE_SEND_IPI = 4,
};

struct raiser_config {
	u64 watched[WATCH_WORDS]; /* one bit per core */
	u64 stacks_per_s;         /* per raising core */
	u32 kernel_stacks;
	u32 user_stacks;
	u32 calls;
	u32 reserved;
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
	u32 from;        /* the raiser's core */
	u8 kind;
	u8 in_interrupt;
	u8 as_before; /* the stacks are those of the record before it from the same core */
	u8 reserved;
	u32 kernel_frames;
	u32 user_frames;
	u64 user_top; /* the word on top of the user stack: where a system call's wrapper returns to */
	u64 kernel_stack[STACK_FRAMES];
	u64 user_stack[STACK_FRAMES];
};

enum { BARE_RAISED = __builtin_offsetof(struct raised, kernel_stack) };

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
	u64 kind;
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
	u64 marks; /* of a watched core: marks ever left */
	u64 wakee; /* the task that it woke last, and when, in jiffies */
	u64 wakee_jiffies;
	u32 wakee_pid;
	u32 flush_sent; /* a shootdown was announced, its interrupts follow */
	u64 copies_dropped;
	struct request request;
	u64 reserved[6];
};

_Static_assert(sizeof(struct sender) % 64 == 0, "senders share no cache line");

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
	__uint(max_entries, 4 << 20); /* the loader may set another */
} raised_ring SEC(".maps");

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
	if (kind == RAISED_RESCHEDULE && !(BPF_CORE_READ(wakee, on_rq) && state_of(wakee)))
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
		sender->copies_dropped++;
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
	if (!bpf_probe_read_user(copied->stack, first, (void *)copied->sp)) {
		copied->bytes = first;
		if (!bpf_probe_read_user(copied->stack + first, PAGE_BYTES, (void *)(copied->sp + first)))
			copied->bytes = first + PAGE_BYTES;
	}
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

/* A record without stacks of its own. */
static __always_inline void raise_bare(struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key, u64 function,
				       bool as_before)
{
	struct raised *raised = bpf_ringbuf_reserve(&raised_ring, BARE_RAISED, 0);

	if (!raised) {
		sender->dropped++;
		return;
	}
	fill(raised, sender, now, kind, cpu, key, function);
	raised->as_before = as_before;
	bpf_ringbuf_submit(raised, BPF_RB_NO_WAKEUP);
}

static __always_inline void raise_whole(void *ctx, struct sender *sender, u64 now, u32 kind, u32 cpu, u64 key,
					u64 function)
{
	struct raised *raised = bpf_ringbuf_reserve(&raised_ring, sizeof(*raised), 0);
	long bytes;

	if (!raised) {
		sender->dropped++;
		sender->request.pid = 0;
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
		if (raiser_config.user_stacks == USER_COPIED ||
		    (raiser_config.user_stacks == USER_AUTO && raised->user_frames < SHORT_STACK_FRAMES))
			copy_user_stack(now);
	}
	bpf_ringbuf_submit(raised, BPF_RB_NO_WAKEUP);
}

/*
 * Whether a core does something for itself in an interrupt or while idle, such as arming its tick anew. It is watched,
 * so it must not pay for a stack that would tell no more than that.
 */
static __always_inline bool is_own_upkeep(u32 cpu)
{
	return cpu == bpf_get_smp_processor_id() && (in_interrupt() || !(u32)bpf_get_current_pid_tgid());
}

/* `site` tells requests to several cores apart; 0 where a record always stands alone. */
static __always_inline void raise(void *ctx, u32 kind, u32 cpu, u64 key, u64 function, u64 site)
{
	struct sender *sender = this_sender();
	u64 now = bpf_ktime_get_ns();

	if (!sender)
		return;
	sender->records++;
	if (!wants_stacks() || is_own_upkeep(cpu)) {
		raise_bare(sender, now, kind, cpu, key, function, false);
		return;
	}
	if (repeats(sender, now, cpu, function, site)) {
		raise_bare(sender, now, kind, cpu, key, function, true);
		return;
	}
	if (may_take_stack(sender, now)) {
		raise_whole(ctx, sender, now, kind, cpu, key, function);
		return;
	}
	sender->without_stack++;
	sender->request.pid = 0;
	raise_bare(sender, now, kind, cpu, key, function, false);
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
		raise(ctx, RAISED_FUNCTION, cpu, ctx[3], ctx[2], ctx[1]);
	return 0;
}

SEC("raw_tp/csd_function_entry")
int mark_function(u64 *ctx)
{
	if (is_watched(bpf_get_smp_processor_id()))
		mark(MARK_FUNCTION, ctx[1], ctx[0]);
	return 0;
}

/*
 * Remembers whom this core wakes; the interrupt that follows in the same wake-up is for that thread. This runs on every
 * wake-up of the machine, so it keeps no more than where the task is.
 */
SEC("tp_btf/sched_waking")
int BPF_PROG(note_waking, struct task_struct *task)
{
	struct sender *sender = this_sender();

	if (!sender)
		return 0;
	sender->wakee = (u64)task;
	sender->wakee_pid = task->pid;
	sender->wakee_jiffies = bpf_jiffies64();
	if (task->flags & PF_KTHREAD) {
		u32 cpu = core_of(task);

		if (is_watched(cpu))
			raise(ctx, RAISED_WAKE, cpu, task->pid, 0, 0);
	}
	return 0;
}

/*
 * What has no callback is a reschedule. A call is left to csd_queue_cpu where there is one; elsewhere the callback is
 * the called function itself, or (later kernels) the one that runs the queue.
 */
SEC("raw_tp/ipi_send_cpu")
int raise_sent(u64 *ctx)
{
	u32 cpu = ctx[0];
	u64 callback = ctx[2];
	struct sender *sender;

	if (callback && raiser_config.calls != CALLS_SENT)
		return 0;
	if (!is_watched(cpu))
		return 0;
	if (!callback) {
		raise(ctx, RAISED_RESCHEDULE, cpu, 0, 0, 0);
		return 0;
	}
	sender = this_sender();
	if (sender) {
		raise(ctx, RAISED_CALL, cpu, sender->flush_sent, callback, 0);
		sender->flush_sent = 0;
	}
	return 0;
}

/* The bits of a word of a mask that are watched cores. */
static __always_inline u64 watched_targets(struct cpumask *mask, u32 word)
{
	u64 watched = watched_in_word(word), bits = 0;

	if (watched)
		bpf_probe_read_kernel(&bits, sizeof(bits), &mask->bits[word]);
	return bits & watched;
}

/* A further target of a request whose first has been recorded. Verified once, not once per turn of the loop. */
__noinline int raise_again(u64 now, u32 cpu, u64 key, u64 callback)
{
	struct sender *sender = this_sender();

	if (sender) {
		sender->records++;
		raise_bare(sender, now, RAISED_CALL, cpu, key, callback, wants_stacks());
	}
	return 0;
}

/* One record per watched target; the first carries the stacks. */
SEC("raw_tp/ipi_send_cpumask")
int raise_sent_to_many(u64 *ctx)
{
	struct cpumask *mask = (void *)ctx[0];
	struct sender *sender = this_sender();
	u32 word, bit, first = NO_CORE;
	u64 callback = ctx[2], now, key;

	if (!sender || !callback || raiser_config.calls != CALLS_SENT)
		return 0;
	key = sender->flush_sent;
	sender->flush_sent = 0;
	for (word = 0; word < WATCH_WORDS && first == NO_CORE; word++) {
		u64 bits = watched_targets(mask, word);

		for (bit = 0; bit < 64 && bits; bit++, bits >>= 1) {
			if (bits & 1) {
				first = word * 64 + bit;
				break;
			}
		}
	}
	if (first == NO_CORE)
		return 0;
	raise(ctx, RAISED_CALL, first, key, callback, 0);
	now = bpf_ktime_get_ns();
	for (word = 0; word < WATCH_WORDS; word++) {
		u64 bits = watched_targets(mask, word);

		for (bit = 0; bit < 64 && bits; bit++, bits >>= 1) {
			if (bits & 1 && word * 64 + bit > first)
				raise_again(now, word * 64 + bit, key, callback);
		}
	}
	return 0;
}

/* Whether the current process may have its translations on a watched core; true where that cannot be told. */
static __always_inline bool may_be_on_watched(void)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	struct mm_struct *mm = BPF_CORE_READ(task, mm);
	u64 bits;
	u32 word;

	if (!mm || !bpf_core_type_exists(struct mm_struct))
		return true;
	for (word = 0; word < WATCH_WORDS; word++) {
		u64 watched = watched_in_word(word);

		if (!watched)
			continue;
		bits = 0;
		/* The mask of cores follows the structure. */
		if (bpf_probe_read_kernel(&bits, sizeof(bits), (char *)mm + bpf_core_type_size(struct mm_struct) + word * 8))
			return true;
		if (bits & watched)
			return true;
	}
	return false;
}

/*
 * Used only where calls cannot be joined by their data: the sender's announcement says that the interrupts that
 * follow are a shootdown, the watched core's that one has been obeyed.
 */
SEC("raw_tp/tlb_flush")
int note_flush(u64 *ctx)
{
	u32 reason = ctx[0];
	struct sender *sender;

	if (reason == TLB_REMOTE_SHOOTDOWN) {
		if (is_watched(bpf_get_smp_processor_id()))
			mark(MARK_FLUSH, ctx[1], bpf_get_current_pid_tgid() >> 32);
		return 0;
	}
	if (reason != TLB_REMOTE_SEND_IPI)
		return 0;
	if (raiser_config.calls == CALLS_FLUSH) {
		if (may_be_on_watched())
			raise(ctx, RAISED_FLUSH, NO_CORE, ctx[1], 0, 0);
		return 0;
	}
	sender = this_sender();
	if (sender)
		sender->flush_sent = 1;
	return 0;
}

SEC("tp_btf/hrtimer_start")
int BPF_PROG(raise_timer, struct hrtimer *timer)
{
	struct hrtimer___armed *armed = (void *)timer;
	u32 cpu = BPF_CORE_READ(armed, base, cpu_base, cpu);

	if (is_watched(cpu))
		raise(ctx, RAISED_TIMER, cpu, (u64)timer, (u64)BPF_CORE_READ(armed, function), 0);
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
		raise(ctx, RAISED_WORK, cpu, (u64)work, (u64)BPF_CORE_READ(work, func), 0);
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
