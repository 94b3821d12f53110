/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A polling thread that notes its own gaps.
 *
 *     cc -O2 -o example_poller example_poller.c
 *     ./example_poller          polls for 10 s and says how many gaps there were
 *     ./example_poller cost     measures what a turn costs beyond the counter read
 */
#include "surefoot_inloop.h"

#include <signal.h>

#define THRESHOLD_NS 10000
#define RUN_S 10
#define TURNS 20000
#define ROUNDS 2000

static volatile sig_atomic_t stop;

static void on_signal(int signal_number)
{
	(void)signal_number;
	stop = 1;
}

static uint64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int by_size(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static int measure_cost(struct sf_loop *gaps)
{
	static double beyond[ROUNDS];
	volatile uint64_t sink = 0;
	int round, turn;

	for (round = 0; round < ROUNDS; round++) {
		uint64_t start = now_ns(), middle, end;

		for (turn = 0; turn < TURNS; turn++)
			sink = sf_loop_ticks();
		middle = now_ns();
		for (turn = 0; turn < TURNS; turn++) {
			sf_loop_turn(gaps);
			/* As in a real loop, the compiler cannot keep the loop in registers from turn to turn. */
			__asm__ volatile("" : : "r"(gaps) : "memory");
		}
		end = now_ns();
		beyond[round] = ((double)(end - middle) - (double)(middle - start)) / TURNS;
	}
	(void)sink;
	qsort(beyond, ROUNDS, sizeof(beyond[0]), by_size);
	printf("C header: a turn costs %.2f ns beyond the counter read (median; quartiles %.2f to %.2f)\n",
	       beyond[ROUNDS / 2], beyond[ROUNDS / 4], beyond[ROUNDS * 3 / 4]);
	return 0;
}

int main(int count, char **words)
{
	static struct sf_loop gaps;
	uint64_t end = now_ns() + (uint64_t)RUN_S * 1000000000u;
	int error = sf_loop_open(&gaps, "example", THRESHOLD_NS);
	unsigned turns = 0;

	if (error)
		fprintf(stderr, "gaps are not noted: %s\n", sf_loop_error(error));
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	if (count > 1 && !strcmp(words[1], "cost")) {
		error = measure_cost(&gaps);
		sf_loop_close(&gaps);
		return error;
	}
	while (!stop) {
		/* Here a real loop looks whether something has come. This one looks at the time now and then. */
		if (++turns % 65536 == 0 && now_ns() > end)
			break;
		sf_loop_turn(&gaps);
	}
	printf("%llu gaps of %d us or more\n", (unsigned long long)gaps.noted, THRESHOLD_NS / 1000);
	sf_loop_close(&gaps);
	return 0;
}
