/* SPDX-License-Identifier: MIT */
/*
 * lookup N...: measures how long it takes to find one of N contexts, for each N in
 * turn. Each N is larger than the one before; the program keeps its contexts and adds
 * new ones.
 *
 * This is an ordinary libaio program. Run plainly it measures the kernel; under `uaio
 * run` it measures uaio. The program times io_submit() of 0 requests, which looks up
 * the context and returns 0. To save time, the program does not call io_destroy(),
 * which waits for an RCU grace period in the kernel.
 *
 * The program prints N, nanoseconds per lookup, and how many kernel AIO rings were
 * mapped during the measurement. If there was one mapped ring for each context, the
 * kernel was measured; if there was none, uaio was measured.
 */
#include <libaio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handles.h"

struct hot_set {
	io_context_t contexts[HOT];
};

static void look_up(void *arg)
{
	const struct hot_set *hot = arg;

	for (size_t i = 0; i < HOT; i++) {
		if (io_submit(hot->contexts[i], 0, NULL)) {
			fputs("lookup: io_submit failed\n", stderr);
			exit(1);
		}
	}
}

static io_context_t *contexts;
static size_t nr_contexts;

static void set_up(size_t nr)
{
	contexts = realloc(contexts, nr * sizeof(*contexts));
	if (!contexts) {
		perror("lookup");
		exit(1);
	}
	for (size_t i = nr_contexts; i < nr; i++) {
		int ret;

		contexts[i] = NULL;
		ret = io_setup(1, &contexts[i]);
		if (ret < 0) {
			fprintf(stderr, "lookup: io_setup %zu of %zu: %s\n",
				i + 1, nr, strerror(-ret));
			exit(1);
		}
	}
	nr_contexts = nr;
}

static void measure(size_t nr)
{
	struct hot_set hot;
	size_t rings;

	set_up(nr);
	for (size_t i = 0; i < HOT; i++)
		hot.contexts[i] = contexts[hot_index(i, nr)];
	rings = nr_kernel_rings();
	printf("%zu %.2f %zu\n", nr, time_rounds(look_up, &hot, HOT), rings);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		size_t nr = count_argument(argv[i]);

		if (nr < nr_contexts) {
			fputs("usage: lookup N..., rising\n", stderr);
			return 2;
		}
		measure(nr);
	}
	return 0;
}
