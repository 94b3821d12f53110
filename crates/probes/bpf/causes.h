/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The table of a core's causes: how an occurrence is counted, and how a cause is found by its key. */
#ifndef SUREFOOT_CAUSES_H
#define SUREFOOT_CAUSES_H

#include "maps.h"

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

/* Has the line of a word in the cache before it is needed: reading the clock waits for it. */
static __always_inline void fetch(const u64 *word)
{
	u64 value = *(const volatile u64 *)word;

	asm volatile("" : : "r"(value));
}

static __always_inline void count_occurrence(struct slot *slot, u32 cause, u64 own_ns)
{
	slot->causes[cause].count++;
	if (own_ns > slot->causes[cause].max_ns)
		slot->causes[cause].max_ns = own_ns;
}

/* Counts the durations that a core holds in its histogram. Verified once, not wherever something is counted. */
__noinline int book_held(void)
{
	u32 cpu = bpf_get_smp_processor_id(), at;
	struct slot *slot = this_slot();
	struct histogram *histogram = bpf_map_lookup_elem(&histograms, &cpu);

	if (!slot || !histogram)
		return 0;
	for (at = 0; at < HELD_DURATIONS; at++) {
		u32 number = slot->held_durations[at];

		if (at < slot->held && number < CAUSES * BUCKETS)
			((u32 *)histogram->buckets)[number]++;
	}
	slot->held = 0;
	return 0;
}

static __always_inline void make_room(const struct slot *slot)
{
	if (slot->held >= HELD_DURATIONS)
		book_held();
}

/* Counts an occurrence for which there is room. */
static __always_inline void count_held(struct slot *slot, u32 cause, u64 own_ns)
{
	u32 held = slot->held;

	if (cause >= CAUSES)
		return;
	count_occurrence(slot, cause, own_ns);
	if (held < HELD_DURATIONS) {
		slot->held_durations[held] = cause * BUCKETS + bucket_of(own_ns);
		slot->held = held + 1;
	}
}

static __always_inline void count_one(struct slot *slot, u32 cause, u64 own_ns)
{
	make_room(slot);
	count_held(slot, cause, own_ns);
}

/* Of an interrupt that landed inside an update, which may be holding a duration at this moment. */
static __always_inline void count_at_once(struct slot *slot, u32 cause, u64 own_ns)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct histogram *histogram = bpf_map_lookup_elem(&histograms, &cpu);

	if (cause >= CAUSES)
		return;
	count_occurrence(slot, cause, own_ns);
	if (histogram)
		histogram->buckets[cause][bucket_of(own_ns) & (BUCKETS - 1)]++;
}

#define KEY(kind, value) (((u64)(kind) << KEY_SHIFT) | ((u64)(value) & ((1ULL << KEY_SHIFT) - 1)))

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

/*
 * Whether a cause is another task. Of a task only what it took from somebody who waited is an occurrence, counted when that is
 * known; the rest of its run is work.
 */
static __always_inline bool is_task(const struct slot *slot, u32 cause)
{
	/* The verifiers of kernels up to 6.1 do not follow what the compiler knows of it. */
	asm volatile("" : "+r"(cause));
	if (config.workload_by == WORKLOAD_NONE || cause >= CAUSES)
		return false;
	return cause == CAUSE_OTHER_TASK || slot->causes[cause].key >> KEY_SHIFT == KEY_TASK;
}

#define EACH_BYTE(value) ((value) * 0x0101010101010101ULL)

/* The high bit of each byte that is zero, and perhaps of bytes after the first of them. */
static __always_inline u64 zeros(u64 word)
{
	return (word - EACH_BYTE(1)) & ~word & EACH_BYTE(0x80ULL);
}

/* All bytes before the first that is marked by its high bit; the first byte is the lowest. */
static __always_inline u64 before(u64 marks)
{
	return ((marks & -marks) >> 7) - 1;
}

/*
 * Kernel threads of one family (kworker/1:2, ksoftirqd/0) share a name: up to the slash. "irq/24-ahci" stays whole. Eight
 * bytes at a time: a loop over them is more work, and one that the verifier of Linux 6.1 takes for endless.
 */
static __always_inline u32 find_thread(struct slot *slot, u32 kind, u32 other, const void *comm)
{
	u64 name[2], ends, hash;
	bool whole;

	__builtin_memcpy(name, comm, sizeof(name));
	whole = kind == KEY_TASK || (u32)name[0] == ('i' | 'r' << 8 | 'q' << 16 | '/' << 24);
	ends = zeros(name[0]) | (whole ? 0 : zeros(name[0] ^ EACH_BYTE((u64)'/')));
	name[0] &= before(ends);
	/* A name that has ended goes on no further. */
	if (ends)
		name[1] = 0;
	ends = zeros(name[1]) | (whole ? 0 : zeros(name[1] ^ EACH_BYTE((u64)'/')));
	name[1] &= before(ends);
	hash = (name[0] ^ (name[1] * 0xFF51AFD7ED558CCDULL)) * 0xC4CEB9FE1A85EC53ULL;
	return find(slot, KEY(kind, hash >> 8), other, name, true);
}

#endif
