/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The marks that a watched core leaves. */
#ifndef SUREFOOT_MARKS_H
#define SUREFOOT_MARKS_H

#include "watched.h"

static __always_inline void mark(u64 now, u32 kind, u64 key, u64 value)
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
	mark->at_ns = now;
	mark->key = key;
	mark->value = value;
	asm volatile("" ::: "memory");
	mark->kind = (number + 1) << MARK_KIND_BITS | kind;
}

#endif
