/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The stacks of whoever raises: walked, or copied to be unwound later. */
#ifndef SUREFOOT_STACKS_H
#define SUREFOOT_STACKS_H

#include "watched.h"

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
		count_up(&sender->copies_dropped);
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

/*
 * What tells the current program from those before and after it in the same process: where its stack begins, which each
 * execve draws anew. A thread that ends has given up its `mm` before some of what it raises, and borrows it still.
 */
static __always_inline u64 current_image(void)
{
	struct task_struct *task = (void *)bpf_get_current_task_btf();
	u64 begins = bpf_core_field_exists(task->active_mm) ? task->active_mm->start_stack : task->mm->start_stack;

	return begins ? begins : IMAGE_CHANGES;
}

/* In an interrupt, and in a kernel thread, the user stack is a bystander's or none. */
static __always_inline void take_user_stack(void *ctx, struct raised *raised, u64 now)
{
	struct pt_regs *regs;
	long bytes;

	raised->image = 0;
	if (!raiser_config.user_stacks || raised->system_call == -1)
		return;
	raised->image = current_image();
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

#endif
