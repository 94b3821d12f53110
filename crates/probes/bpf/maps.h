/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The arrays and sets of the ledger, and what the loader tells its programs. */
#ifndef SUREFOOT_MAPS_H
#define SUREFOOT_MAPS_H

#include "layout.h"
#include <bpf/bpf_helpers.h>

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

const volatile struct config config SEC(".rodata.config") = {};

#define barrier() asm volatile("" ::: "memory")

static __always_inline struct slot *this_slot(void)
{
	u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&slots, &cpu);
}

#endif
