// SPDX-License-Identifier: Apache-2.0 OR MIT
/* Keeps the calling thread on a core; it takes _GNU_SOURCE. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static void pin(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("sched_setaffinity");
		exit(1);
	}
}
