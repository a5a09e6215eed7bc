/* SPDX-License-Identifier: MIT */
/*
 * growth - measures the processor time of an operation on one object, such as a request
 * or a ring, while n other objects exist
 *
 *	growth ROW OPERATIONS N...
 *	growth
 *
 * The program runs on the kernel, and under `uaio run --uring=always`. ROW names a
 * measurement. For each N, a separate process creates N objects and times OPERATIONS
 * operations, or as many as it can do in about two seconds. Without arguments the
 * program prints the names of all rows. With arguments it prints one JSON object per N
 * on a line:
 *
 *	n		the number of other objects
 *	ns, ops		processor time per operation, and how many were timed
 *	error		instead of ns and ops: what failed because N is too large
 *	has_library	whether libuaio is mapped
 *	has_kernel_ring	whether the process has a ring of the kernel
 */
#include <dirent.h>
#include <errno.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "growth.h"
#include "handles.h"

enum { LATE_NS = 2000 * 1000 * 1000, HUNG_S = 30, MOST_FILES = 250 * 1000 };

_Noreturn void fail(const char *what, int error)
{
	printf("\"error\": \"%s: %s\"}\n", what, strerror(error));
	fflush(stdout);
	_exit(1);
}

void *room_for(size_t nr, size_t bytes)
{
	void *memory = calloc(nr, bytes);

	if (!memory)
		fail("memory", ENOMEM);
	return memory;
}

size_t random_below(size_t n)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (size_t)((state >> 33) % n);
}

size_t *indices(size_t n, enum order order)
{
	size_t *all = room_for(n, sizeof(*all));

	for (size_t i = 0; i < n; i++)
		all[i] = n - 1 - i;
	for (size_t i = n; order == AT_RANDOM && i > 1; i--) {
		size_t other = random_below(i), was = all[other];

		all[other] = all[i - 1];
		all[i - 1] = was;
	}
	return all;
}

int file_in_memory(void)
{
	int fd = memfd_create("growth", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 1 << 16) < 0)
		fail("memfd_create", errno);
	return fd;
}

/*
 * The meter
 */

static uint64_t processor_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * Return: how many ns of processor time one reading of the clock takes. meter_end()
 * subtracts this time.
 */
static uint64_t clock_ns(void)
{
	static uint64_t least;

	for (int i = 0; !least || i < 50; i++) {
		uint64_t start = processor_ns(), took = processor_ns() - start;

		if (took && (!least || took < least))
			least = took;
		if (least && i >= 50)
			break;
	}
	return least;
}

void meter_begin(struct meter *meter)
{
	if (!meter->late) {
		clock_ns();
		meter->late = now_ns() + LATE_NS;
	}
	meter->began = processor_ns();
}

void meter_end(struct meter *meter, uint64_t ops)
{
	static uint64_t own;
	uint64_t took = processor_ns() - meter->began;

	if (!own)
		own = clock_ns();
	meter->ns += took > own ? took - own : 0;
	meter->ops += ops;
}

bool meter_is_late(const struct meter *meter)
{
	return now_ns() > meter->late;
}

bool meter_wants(const struct meter *meter)
{
	return meter->ops < meter->wanted && !meter_is_late(meter);
}

/*
 * The command
 */

static const struct row *const all_rows[] = { uring_rows, ring_rows, aio_rows };
enum { NR_GROUPS = sizeof(all_rows) / sizeof(all_rows[0]) };

static const struct row *row_of(const char *name)
{
	for (size_t i = 0; i < NR_GROUPS; i++)
		for (const struct row *row = all_rows[i]; row->name; row++)
			if (!name)
				puts(row->name);
			else if (strcmp(row->name, name) == 0)
				return row;
	return NULL;
}

/* Return: whether the process has a descriptor or a mapping of a ring of the kernel. */
static bool has_kernel_ring(void)
{
	DIR *fds = opendir("/proc/self/fd");
	const struct dirent *entry;
	bool has = nr_kernel_rings() != 0;

	while (fds && !has && (entry = readdir(fds))) {
		char to[64];
		ssize_t nr = readlinkat(dirfd(fds), entry->d_name, to,
					sizeof(to) - 1);

		to[nr < 0 ? 0 : nr] = '\0';
		has = strcmp(to, "anon_inode:[io_uring]") == 0;
	}
	if (fds)
		closedir(fds);
	return has;
}

static _Noreturn void measure(const struct row *row, size_t wanted, size_t n)
{
	struct meter meter = { .wanted = wanted };

	/* If the measurement hangs, SIGALRM ends the process. */
	alarm(HUNG_S);
	row->measure(row, &meter, n);
	printf("\"ns\": %.1f, \"ops\": %llu, \"has_library\": %s, "
	       "\"has_kernel_ring\": %s}\n",
	       (double)meter.ns / (double)meter.ops,
	       (unsigned long long)meter.ops,
	       nr_mapped("libuaio") ? "true" : "false",
	       has_kernel_ring() ? "true" : "false");
	fflush(stdout);
	_exit(0);
}

int main(int argc, char **argv)
{
	struct rlimit files = { MOST_FILES, MOST_FILES }, had;
	const struct row *row;

	if (argc == 1)
		return row_of(NULL) ? 1 : 0;
	row = row_of(argv[1]);
	if (argc < 4 || !row) {
		fputs("usage: growth ROW OPERATIONS N...\n", stderr);
		return 2;
	}
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 &&
	    getrlimit(RLIMIT_NOFILE, &had) == 0) {
		had.rlim_cur = had.rlim_max;
		setrlimit(RLIMIT_NOFILE, &had);
	}
	for (int i = 3; i < argc; i++) {
		size_t n = count_argument(argv[i]);
		int status = 0;
		pid_t child;

		printf("{\"n\": %zu, ", n);
		fflush(stdout);
		child = fork();
		if (child == 0)
			measure(row, count_argument(argv[2]), n);
		if (child < 0)
			fail("fork", errno);
		waitpid(child, &status, 0);
		if (WIFSIGNALED(status))
			printf("\"error\": \"ended by signal %d\"}\n",
			       WTERMSIG(status));
		if (status)
			break;
	}
	return 0;
}
