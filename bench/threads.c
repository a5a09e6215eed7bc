/* SPDX-License-Identifier: MIT */
/*
 * threads: prints how many threads this process has when main() begins.
 *
 * Under `uaio run`, a number above 1 would show that loading the library starts
 * threads.
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
