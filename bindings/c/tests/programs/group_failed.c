/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * In place of the library: prints why a function of a group fails.
 */
#include <stdio.h>

int surefoot_group_failed(const char *why)
{
	printf("cause: %s\n", why);
	return fflush(stdout);
}
