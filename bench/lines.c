/* SPDX-License-Identifier: MIT */
/*
 * lines - runs two threads, each with a ring and a file of its own, so that valgrind
 * can trace the threads' memory accesses
 *
 *	lines nop|read|pipe REQUESTS
 *
 * The program runs under `valgrind --tool=lackey --trace-mem=yes`. The requests are
 * no-ops, reads of a file in memory, or reads of an empty pipe, to which the thread
 * then writes. After some warm-up requests each thread makes the REQUESTS to be traced.
 * Before the first and after the last of these requests, the thread writes to its half
 * of `marks`. In the trace, the two writes show where the requests begin and end.
 * Finally the program prints the address of `marks` and the memory map.
 */
#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#include "handles.h"
#include "ring.h"

enum { SETTLING = 60, BYTES = 512 };

static struct {
	bool is_read, is_pipe;
	size_t nr;
	pthread_barrier_t settled, done;
} job;

/*
 * Thread i writes to marks[i][0] before the traced requests and to marks[i][1] after
 * them.
 */
static volatile uint64_t marks[2][2];

_Noreturn void fail(const char *what, int error)
{
	fprintf(stderr, "lines: %s: %s\n", what, strerror(error));
	exit(1);
}

static int open_file(int *writer)
{
	int ends[2], fd;

	if (job.is_pipe) {
		if (pipe(ends) < 0)
			fail("pipe", errno);
		*writer = ends[1];
		return ends[0];
	}
	fd = memfd_create("lines", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, BYTES) < 0)
		fail("memfd_create", errno);
	return fd;
}

static void request(struct ring *ring, int fd, int writer)
{
	char buffer[BYTES];
	bool is_nop = !job.is_read && !job.is_pipe;
	struct io_uring_sqe *sqe =
		ring_sqe(ring, is_nop ? IORING_OP_NOP : IORING_OP_READ, fd, 0);
	int res;

	if (!is_nop) {
		sqe->addr = (uintptr_t)buffer;
		sqe->len = job.is_pipe ? 1 : BYTES;
	}
	if (job.is_pipe) {
		ring_enter(ring, 0);
		if (write(writer, "", 1) != 1)
			fail("write", errno);
	}
	ring_enter(ring, 1);
	ring_take(ring, &res);
	if (res < 0)
		fail("a request", -res);
}

static void *run(void *arg)
{
	volatile uint64_t *own = arg;
	struct ring ring;
	int writer = -1, fd = open_file(&writer);

	ring_open(&ring, 8, 0);
	for (size_t i = 0; i < SETTLING; i++)
		request(&ring, fd, writer);
	pthread_barrier_wait(&job.settled);
	own[0] = 1;
	for (size_t i = 0; i < job.nr; i++)
		request(&ring, fd, writer);
	own[1] = 1;
	pthread_barrier_wait(&job.done);
	return NULL;
}

static void print_map(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];

	if (!maps)
		fail("/proc/self/maps", errno);
	while (fgets(line, sizeof(line), maps))
		fputs(line, stdout);
	fclose(maps);
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	if (argc != 3) {
		fputs("usage: lines nop|read|pipe REQUESTS\n", stderr);
		return 2;
	}
	job.is_read = strcmp(argv[1], "read") == 0;
	job.is_pipe = strcmp(argv[1], "pipe") == 0;
	job.nr = count_argument(argv[2]);
	pthread_barrier_init(&job.settled, NULL, 2);
	pthread_barrier_init(&job.done, NULL, 2);
	for (size_t i = 0; i < 2; i++) {
		int error = pthread_create(&threads[i], NULL, run,
					   (void *)marks[i]);

		if (error)
			fail("pthread_create", error);
	}
	for (size_t i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%p\n", (void *)marks);
	print_map();
	return 0;
}
