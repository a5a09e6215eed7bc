/* SPDX-License-Identifier: MIT */
/*
 * threads: prints how many threads this process has before it did anything.
 *
 * Under `uaio run`, more than one would mean that the library starts a thread when it
 * is loaded.
 */
#include <stdio.h>

int main(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[256];
	int threads = 0;

	while (status && !threads && fgets(line, sizeof(line), status))
		sscanf(line, "Threads: %d", &threads);
	if (!threads) {
		perror("threads: /proc/self/status");
		return 1;
	}
	printf("%d\n", threads);
	return 0;
}
