/* SPDX-License-Identifier: MIT */
/*
 * scale-uring - measures several threads that do the same work, with one ring for all
 * or a ring for each thread
 *
 *	scale-uring nop|read|pipe|echo THREADS RINGS MS
 *
 * RINGS is 1 or THREADS. Each thread has its own file, and one operation at a time.
 * "nop" is a no-op; "read" a read of 1 KiB from a file in memory; "pipe" a read of an
 * empty pipe, to which the thread then writes. "echo" is a receive that waits until the
 * thread sends a byte, and a send of the answer. The program prints one JSON object:
 *
 *	ios, usecs	number of operations, and their time
 *	cpu_us		processor time of all threads in that time
 *	rings		number of descriptors that are rings of the kernel
 *
 * If all threads share one ring, a lock protects the ring. Each thread may then reap
 * completions of other threads' requests. A thread stops when it has reaped as many
 * completions as it has submitted requests.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "handles.h"
#include "ring.h"

enum { SMALL = 64, BYTES = 1024 };
enum work { NOP, READ, PIPE, ECHO, NR_WORKS };

static const char *const names[] = { "nop", "read", "pipe", "echo" };

static struct {
	enum work work;
	bool is_shared;
	struct ring ring; /* the shared ring */
	pthread_mutex_t lock;
	atomic_bool is_over;
	pthread_barrier_t begin;
} job = { .lock = PTHREAD_MUTEX_INITIALIZER };

struct worker {
	pthread_t thread;
	struct ring *ring, own;
	/* The thread reads from fd; writing to `other` makes fd ready. */
	int fd, other;
	uint64_t ios;
	char buffer[BYTES];
};

_Noreturn void fail(const char *what, int error)
{
	fprintf(stderr, "scale-uring: %s: %s\n", what, strerror(error));
	exit(1);
}

static void lock(void)
{
	if (job.is_shared)
		pthread_mutex_lock(&job.lock);
}

static void unlock(void)
{
	if (job.is_shared)
		pthread_mutex_unlock(&job.lock);
}

static void submit(struct worker *worker, int op, unsigned bytes)
{
	struct io_uring_sqe *sqe;

	lock();
	sqe = ring_sqe(worker->ring, op, worker->fd, 0);
	sqe->addr = (uintptr_t)worker->buffer;
	sqe->len = bytes;
	ring_enter(worker->ring, 0);
	unlock();
}

/*
 * Wait for a completion and consume it. While the thread sleeps, it does not hold the
 * ring's lock, so other threads can submit.
 */
static void take(struct worker *worker)
{
	for (;;) {
		int res = 0;
		bool is_there;

		lock();
		is_there = ring_has(worker->ring);
		if (is_there)
			ring_take(worker->ring, &res);
		unlock();
		if (res < 0)
			fail("a request", -res);
		if (is_there)
			return;
		ring_wait(worker->ring);
	}
}

static void write_byte(int fd)
{
	if (write(fd, "", 1) != 1)
		fail("write", errno);
}

static void operate(struct worker *worker)
{
	char byte;

	switch (job.work) {
	case NOP: submit(worker, IORING_OP_NOP, 0); break;
	case READ: submit(worker, IORING_OP_READ, BYTES); break;
	case PIPE:
		submit(worker, IORING_OP_READ, 1);
		write_byte(worker->other);
		break;
	default:
		submit(worker, IORING_OP_RECV, 1);
		write_byte(worker->other);
		take(worker);
		submit(worker, IORING_OP_SEND, 1);
	}
	take(worker);
	if (job.work == ECHO && read(worker->other, &byte, 1) != 1)
		fail("read", errno);
}

static void *run(void *arg)
{
	struct worker *worker = arg;

	if (!job.is_shared)
		ring_open(worker->ring, SMALL, 0);
	pthread_barrier_wait(&job.begin);
	do {
		operate(worker);
		worker->ios++;
	} while (!atomic_load_explicit(&job.is_over, memory_order_relaxed));
	return NULL;
}

static void open_files(struct worker *worker)
{
	int ends[2];

	if (job.work == READ) {
		worker->fd = memfd_create("scale", MFD_CLOEXEC);
		if (worker->fd < 0 || ftruncate(worker->fd, BYTES) < 0)
			fail("memfd_create", errno);
	} else if (job.work != NOP) {
		if (job.work == PIPE
			    ? pipe(ends)
			    : socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
			fail("a pair", errno);
		worker->fd = ends[0];
		worker->other = ends[1];
	}
}

static struct worker *start(size_t threads)
{
	struct worker *workers = calloc(threads, sizeof(*workers));

	if (!workers)
		fail("memory", ENOMEM);
	pthread_barrier_init(&job.begin, NULL, (unsigned)threads + 1);
	if (job.is_shared)
		ring_open(&job.ring, SMALL, 0);
	for (size_t i = 0; i < threads; i++) {
		int error;

		open_files(&workers[i]);
		workers[i].ring = job.is_shared ? &job.ring : &workers[i].own;
		error = pthread_create(&workers[i].thread, NULL, run,
				       &workers[i]);
		if (error)
			fail("pthread_create", error);
	}
	pthread_barrier_wait(&job.begin);
	return workers;
}

static unsigned nr_rings(void)
{
	DIR *fds = opendir("/proc/self/fd");
	const struct dirent *entry;
	unsigned nr = 0;

	while (fds && (entry = readdir(fds))) {
		char to[64];
		ssize_t bytes = readlinkat(dirfd(fds), entry->d_name, to,
					   sizeof(to) - 1);

		to[bytes < 0 ? 0 : bytes] = '\0';
		nr += strcmp(to, "anon_inode:[io_uring]") == 0;
	}
	if (fds)
		closedir(fds);
	return nr;
}

static uint64_t cpu_us(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) *
		       1000000u +
	       (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(int argc, char **argv)
{
	struct worker *workers;
	size_t threads, rings;
	uint64_t ios = 0, began, used, took;
	unsigned there;

	while (argc == 5 && job.work < NR_WORKS &&
	       strcmp(argv[1], names[job.work]) != 0)
		job.work++;
	if (argc != 5 || job.work == NR_WORKS) {
		fputs("usage: scale-uring nop|read|pipe|echo THREADS RINGS "
		      "MS\n",
		      stderr);
		return 2;
	}
	threads = count_argument(argv[2]);
	rings = count_argument(argv[3]);
	if (rings != 1 && rings != threads)
		fail("rings", EINVAL);
	job.is_shared = rings != threads;

	workers = start(threads);
	began = now_ns();
	used = cpu_us();
	usleep((useconds_t)count_argument(argv[4]) * 1000);
	there = nr_rings();
	atomic_store_explicit(&job.is_over, true, memory_order_relaxed);
	for (size_t i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		ios += workers[i].ios;
	}
	took = now_ns() - began;
	used = cpu_us() - used;
	printf("{\"ios\": %llu, \"usecs\": %llu, \"cpu_us\": %llu, "
	       "\"rings\": %u}\n",
	       (unsigned long long)ios, (unsigned long long)took / 1000,
	       (unsigned long long)used, there);
	return 0;
}
