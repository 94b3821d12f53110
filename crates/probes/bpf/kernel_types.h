/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The few kernel types that the programs read, named as the kernel names them. The loader relocates every
 * access to the running kernel's layout (CO-RE), so only names matter here, neither offsets nor completeness.
 */
#ifndef SUREFOOT_KERNEL_TYPES_H
#define SUREFOOT_KERNEL_TYPES_H

typedef unsigned char __u8;
typedef signed short __s16;
typedef unsigned short __u16;
typedef signed int __s32;
typedef unsigned int __u32;
typedef signed long long __s64;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum {
	BPF_ANY = 0,
	BPF_F_MMAPABLE = 1 << 10,
	BPF_F_USER_STACK = 1 << 8,
	BPF_RB_NO_WAKEUP = 1,
};

#define PF_KTHREAD 0x00200000
#define TASK_ON_RQ_MIGRATING 2
#define MAX_RT_PRIO 100

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct thread_info {
	u32 cpu;
};

/* Its size is used, too: the mask of the cores that it runs on follows it. */
struct mm_struct {
	unsigned long start_stack;
};

struct rq {
	u64 clock;
};

struct cfs_rq {
	struct rq *rq;
	int throttle_count;
};

struct sched_entity {
	unsigned char sched_delayed;
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	unsigned long long last_queued;
};

struct task_struct {
	struct thread_info thread_info;
	struct sched_entity se;
	struct sched_info sched_info;
	int prio;
	struct mm_struct *mm;
	struct mm_struct *active_mm;
	int pid;
	int tgid;
	unsigned int flags;
	int on_cpu;
	int on_rq;
	int nr_cpus_allowed;
	unsigned int __state;
	char comm[16];
};

/* Before 5.16 the core number lay in the task itself. */
struct task_struct___before_5_16 {
	unsigned int cpu;
};

/* Before 5.14 the state was a long of another name. */
struct task_struct___before_5_14 {
	long state;
};

/* From 6.18 on each task is throttled by itself, on its way back to user mode. */
struct task_struct___throttled {
	bool throttled;
};

struct timerqueue_node {
	s64 expires;
};

struct hrtimer {
	struct timerqueue_node node;
	u8 is_soft;
};

/* From 7.x on the node is of another type; whichever has an `expires` serves. */
struct timerqueue_linked_node {
	s64 expires;
};

struct hrtimer___linked {
	struct timerqueue_linked_node node;
};

struct pt_regs {
	unsigned long r15;
	unsigned long r14;
	unsigned long r13;
	unsigned long r12;
	unsigned long bp;
	unsigned long bx;
	unsigned long si;
	unsigned long di;
	unsigned long orig_ax;
	unsigned long ip;
	unsigned long cs;
	unsigned long sp;
};

struct hrtimer_cpu_base {
	unsigned int cpu;
};

struct hrtimer_clock_base {
	struct hrtimer_cpu_base *cpu_base;
};

struct hrtimer___armed {
	struct hrtimer_clock_base *base;
	void *function;
};

struct work_struct {
	void *func;
};

struct worker_pool {
	int cpu;
};

struct pool_workqueue {
	struct worker_pool *pool;
};

struct cpumask {
	unsigned long bits[1];
};

#pragma clang attribute pop

#endif
