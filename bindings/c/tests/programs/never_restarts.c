/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A program that saves and never asks for what it saved before. Prints the notices of a run.
 */
#include "surefoot_checkpoint.h"

#include <stdio.h>

static char state[100000];

int main(int argc, char **argv)
{
	surefoot_config *config = surefoot_config_new("forgetful");
	surefoot_checkpoint *job;
	const char *notice;
	int i;

	if (argc != 2 || surefoot_config_set(config, "memory", argv[1]) || surefoot_checkpoint_open(config, NULL, &job) ||
	    surefoot_checkpoint_protect(job, "state", state, sizeof(state))) {
		fprintf(stderr, "%s\n", surefoot_error_text(NULL));
		return 2;
	}
	for (i = 0; i < 3; i++)
		if (surefoot_checkpoint_save(job, NULL))
			return 1;
	while ((notice = surefoot_checkpoint_notice(job)))
		printf("%s\n", notice);
	surefoot_config_free(config);
	surefoot_checkpoint_close(job);
	return 0;
}
