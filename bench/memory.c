/* SPDX-License-Identifier: MIT */
/*
 * memory N...: measures the memory of a kernel AIO context that has room for one event.
 *
 * This is an ordinary libaio program. Start it by `uaio run`, because the program
 * cannot measure the kernel's own contexts, which are kernel memory. For each N a child
 * process creates N contexts, then reads once in each.
 *
 * The program prints a line for each N: N, and three numbers of bytes per context. The
 * first is the memory, with page tables, after the contexts were created; the second
 * after each context was used. The third is the library's index (table of ids, and
 * index of addresses), as the library reports it. If the library reports no index, "-"
 * stands for the third number.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handles.h"
#include "uaio.h"

/* Return: the value in KiB of a line "Name:  123 kB" of a file, or -1. */
static long kib_of(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	char line[256];
	long kib = -1;

	while (file && kib < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			kib = strtol(line + strlen(name), NULL, 10);
	if (file)
		fclose(file);
	return kib;
}

/*
 * Only smaps_rollup counts the resident set exactly: statm and status may be wrong by
 * dozens of pages per CPU.
 */
static double bytes_used(void)
{
	long rss = kib_of("/proc/self/smaps_rollup", "Rss:");
	long tables = kib_of("/proc/self/status", "VmPTE:");

	if (rss < 0)
		rss = kib_of("/proc/self/status", "VmRSS:");
	if (rss < 0 || tables < 0) {
		perror("memory: /proc/self");
		exit(1);
	}
	return 1024.0 * (double)(rss + tables);
}

static void fail(const char *what, int error)
{
	fprintf(stderr, "memory: %s: %s\n", what, strerror(error));
	exit(1);
}

static void use(io_context_t context, int fd)
{
	struct iocb cb, *list[] = { &cb };
	struct io_event event;
	char byte;
	int ret;

	io_prep_pread(&cb, fd, &byte, 1, 0);
	ret = io_submit(context, 1, list);
	if (ret != 1)
		fail("io_submit", -ret);
	ret = io_getevents(context, 1, 1, &event, NULL);
	if (ret != 1 || event.res != 1)
		fail("io_getevents", -ret);
}

/*
 * Find uaio_get_counters() by dlsym(), because the program is linked to libaio only.
 */
static void print_index_bytes(size_t nr)
{
	int (*get_counters)(struct uaio_counters *);
	struct uaio_counters counters;

	get_counters = (int (*)(struct uaio_counters *))dlsym(
		RTLD_DEFAULT, "uaio_get_counters");
	if (get_counters && !get_counters(&counters)) {
		printf(" %.1f\n",
		       (double)(counters.table_bytes + counters.index_bytes) /
			       (double)nr);
		return;
	}
	puts(" -");
}

static void measure(size_t nr)
{
	io_context_t *contexts = calloc(nr, sizeof(*contexts));
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	double before, made, used;
	int ret;

	if (!contexts || fd < 0)
		fail("setup", ENOMEM);
	/*
	 * Before the first measurement, write to the array, and call bytes_used(),
	 * which makes stdio allocate its buffers. So this memory is not counted as
	 * memory of contexts.
	 */
	for (size_t i = 0; i < nr; i++)
		*(volatile io_context_t *)&contexts[i] = NULL;
	bytes_used();
	before = bytes_used();
	for (size_t i = 0; i < nr; i++) {
		ret = io_setup(1, &contexts[i]);
		if (ret < 0)
			fail("io_setup", -ret);
	}
	made = bytes_used();
	if (nr_kernel_rings())
		fail("these are contexts of the kernel", EINVAL);
	for (size_t i = 0; i < nr; i++)
		use(contexts[i], fd);
	used = bytes_used();
	printf("%zu %.0f %.0f", nr, (made - before) / (double)nr,
	       (used - before) / (double)nr);
	print_index_bytes(nr);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		size_t nr = count_argument(argv[i]);
		pid_t child = fork();
		int status;

		if (!child) {
			measure(nr);
			exit(0);
		}
		if (child < 0 || waitpid(child, &status, 0) < 0 || status) {
			fprintf(stderr, "memory: %zu contexts failed\n", nr);
			return 1;
		}
	}
	return 0;
}
