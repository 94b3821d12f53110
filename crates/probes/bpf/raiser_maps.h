/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The arrays and the ring of the raisers' programs, and what the loader tells them. */
#ifndef SUREFOOT_RAISER_MAPS_H
#define SUREFOOT_RAISER_MAPS_H

#include "raisers.h"
/* The ledger's own, shared by the loader. */
#include "maps.h"

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

/* Sets of ways, by tag; user space alone writes them. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, KNOWN_SETS * KNOWN_WAYS);
	__type(key, u32);
	__type(value, struct known);
} known_stacks SEC(".maps");

/* The kernel stack of whoever raises on this core; interrupts keep off it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct words);
} laid_words SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20); /* the loader may set another */
} raised_ring SEC(".maps");

const volatile struct raiser_config raiser_config SEC(".rodata.raisers") = {};

#endif
