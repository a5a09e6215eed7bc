/* SPDX-License-Identifier: MIT */
/*
 * uring - measures requests by io_uring: run it on the kernel, and under `uaio run
 * --uring=always`. The same work by plain system calls is for comparison.
 *
 *	uring WORK [-f PATH] [-d DEPTH] [-m MS] [-w WORKERS] [-a] [-s] [-b] [-t]
 *	      [-p]
 *
 * WORK is "nop" (no-ops) or "read": reads of 4 KiB at random offsets of PATH, which the
 * program creates and which is in the page cache. A round submits DEPTH requests by one
 * system call, which waits for all of them.
 *
 * -a: worker threads execute the requests (IOSQE_ASYNC), at most -w of them; a round
 * submits all requests, then waits for each completion separately. -s: the ring has
 * SQPOLL. -b (needs -s): the program never sleeps, but polls for completions. -t: the
 * kernel's cheapest ring (SINGLE_ISSUER and DEFER_TASKRUN). -p: no ring, but a plain
 * system call for each request: pread for read; for nop getppid, which does almost
 * nothing.
 *
 * The program calls io_uring by syscall(2), without liburing. It prints one JSON
 * object:
 *
 *	requests, usecs		number of measured requests, and their time
 *	cpu_us			processor time of all threads in that time
 *	all_requests		number of measured and warm-up requests
 *	rings			number of descriptors that are rings of the kernel
 *	pollers			number of the kernel's SQPOLL threads
 *	threads			number of all threads, the SQPOLL threads included
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "handles.h"

/* Flags of io_uring_setup() that older headers lack. */
#define SINGLE_ISSUER (1u << 12)
#define DEFER_TASKRUN (1u << 13)
#define MAX_WORKERS 19

enum {
	MAX_DEPTH = 1024,
	BLOCK = 4096,
	FILE_BYTES = 16 << 20,
	/* ms for which an SQPOLL thread polls an idle ring before it sleeps */
	POLLER_MS = 1000,
	/*
	 * The program executes about this many requests before it reads the clock
	 * again.
	 */
	BETWEEN_LOOKS = 64,
};

static struct job {
	bool is_read, is_async, is_polled, is_busy, is_cheap, is_plain;
	unsigned depth, ms, nr_workers;
	const char *path;
	int fd;
	char *buffers;
	uint64_t random;
} job = { .depth = 1, .ms = 300, .fd = -1 };

static struct ring {
	int fd;
	_Atomic unsigned *sq_tail, *sq_flags, *cq_head, *cq_tail;
	unsigned sq_mask, cq_mask;
	unsigned *array;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
} ring;

static _Noreturn void fail(const char *what, int error)
{
	fprintf(stderr, "uring: %s: %s\n", what, strerror(error));
	exit(1);
}

/*
 * The ring
 */

static char *map(size_t bytes, off_t at)
{
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_POPULATE, ring.fd, at);

	if (memory == MAP_FAILED)
		fail("mmap", errno);
	return memory;
}

static void map_ring(const struct io_uring_params *params)
{
	const struct io_sqring_offsets *sq = &params->sq_off;
	const struct io_cqring_offsets *cq = &params->cq_off;
	size_t sq_bytes = sq->array + params->sq_entries * sizeof(unsigned);
	size_t cq_bytes =
		cq->cqes + params->cq_entries * sizeof(struct io_uring_cqe);
	char *rings = map(sq_bytes > cq_bytes ? sq_bytes : cq_bytes,
			  IORING_OFF_SQ_RING);

	ring.sq_tail = (_Atomic unsigned *)(rings + sq->tail);
	ring.sq_flags = (_Atomic unsigned *)(rings + sq->flags);
	ring.sq_mask = *(unsigned *)(rings + sq->ring_mask);
	ring.array = (unsigned *)(rings + sq->array);
	ring.cq_head = (_Atomic unsigned *)(rings + cq->head);
	ring.cq_tail = (_Atomic unsigned *)(rings + cq->tail);
	ring.cq_mask = *(unsigned *)(rings + cq->ring_mask);
	ring.cqes = (struct io_uring_cqe *)(rings + cq->cqes);
	ring.sqes = (struct io_uring_sqe *)map(
		params->sq_entries * sizeof(*ring.sqes), IORING_OFF_SQES);
}

static void set_up_ring(void)
{
	struct io_uring_params params = { 0 };
	unsigned limits[2] = { job.nr_workers, 0 };

	if (job.is_polled) {
		params.flags = IORING_SETUP_SQPOLL;
		params.sq_thread_idle = POLLER_MS;
	}
	if (job.is_cheap)
		params.flags |= SINGLE_ISSUER | DEFER_TASKRUN;
	ring.fd = (int)syscall(SYS_io_uring_setup, job.depth, &params);
	if (ring.fd < 0)
		fail("io_uring_setup", errno);
	if (!(params.features & IORING_FEAT_SINGLE_MMAP))
		fail("io_uring", ENOSYS);
	map_ring(&params);
	if (job.nr_workers &&
	    syscall(SYS_io_uring_register, ring.fd, MAX_WORKERS, limits, 2) < 0)
		fail("io_uring_register", errno);
}

/* Return: whether the SQPOLL thread is asleep. */
static bool needs_wakeup(void)
{
	/*
	 * This thread stores the tail, then reads the flags. Before the SQPOLL thread
	 * sleeps, it sets NEED_WAKEUP in the flags, then reads the tail. The fence
	 * makes at least one of the two threads see the other's store.
	 */
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(ring.sq_flags, memory_order_relaxed) &
	       IORING_SQ_NEED_WAKEUP;
}

static void enter(unsigned nr, unsigned nr_wanted)
{
	unsigned flags = nr_wanted ? IORING_ENTER_GETEVENTS : 0;
	long ret;

	if (job.is_polled && nr && needs_wakeup())
		flags |= IORING_ENTER_SQ_WAKEUP;
	do
		ret = syscall(SYS_io_uring_enter, ring.fd, nr, nr_wanted, flags,
			      NULL, 0);
	while (ret < 0 && errno == EINTR);
	if (ret != (long)nr)
		fail("io_uring_enter", ret < 0 ? errno : EAGAIN);
}

/*
 * Requests
 */

static uint64_t next_offset(void)
{
	job.random = job.random * 6364136223846793005u + 1442695040888963407u;
	return (job.random >> 33) % (FILE_BYTES / BLOCK) * BLOCK;
}

static void prepare(struct io_uring_sqe *sqe, unsigned i)
{
	*sqe = (struct io_uring_sqe){
		.opcode = IORING_OP_NOP,
		.flags = job.is_async ? IOSQE_ASYNC : 0,
		.fd = -1,
		.user_data = i,
	};
	if (job.is_read) {
		sqe->opcode = IORING_OP_READ;
		sqe->fd = job.fd;
		sqe->addr = (uintptr_t)(job.buffers + (size_t)i * BLOCK);
		sqe->len = BLOCK;
		sqe->off = next_offset();
	}
}

static void put_all(void)
{
	unsigned tail =
		atomic_load_explicit(ring.sq_tail, memory_order_relaxed);

	for (unsigned i = 0; i < job.depth; i++, tail++) {
		unsigned place = tail & ring.sq_mask;

		prepare(&ring.sqes[place], i);
		ring.array[place] = place;
	}
	atomic_store_explicit(ring.sq_tail, tail, memory_order_release);
}

/*
 * Consume up to nr completions. *missing is the sum of the indexes of all uncompleted
 * requests of the round, so it ends at 0 if each request completes once.
 * Return: how many completions there were.
 */
static unsigned take(unsigned nr, uint64_t *missing)
{
	unsigned head =
		atomic_load_explicit(ring.cq_head, memory_order_relaxed);
	unsigned there =
		atomic_load_explicit(ring.cq_tail, memory_order_acquire) - head;

	if (nr > there)
		nr = there;
	for (unsigned i = 0; i < nr; i++) {
		const struct io_uring_cqe *cqe =
			&ring.cqes[(head + i) & ring.cq_mask];

		if (cqe->res != (job.is_read ? BLOCK : 0))
			fail("a request", cqe->res < 0 ? -cqe->res : EIO);
		*missing -= cqe->user_data;
	}
	atomic_store_explicit(ring.cq_head, head + nr, memory_order_release);
	return nr;
}

/*
 * Submit a round's requests. Without -a and -b, also wait for all completions. With -a
 * or -b the caller waits. With -b, the SQPOLL thread submits, so a system call is
 * needed only to wake that thread.
 */
static void submit(void)
{
	if (!job.is_busy)
		enter(job.depth, job.is_async ? 0 : job.depth);
	else if (needs_wakeup())
		enter(job.depth, 0);
}

static void round_of_ring(void)
{
	unsigned nr_each = job.is_async ? 1 : job.depth, nr_taken = 0;
	uint64_t missing = (uint64_t)job.depth * (job.depth - 1) / 2;

	put_all();
	submit();
	while (nr_taken < job.depth) {
		unsigned nr = take(nr_each, &missing);

		if (!nr && !job.is_busy)
			enter(0, 1);
		nr_taken += nr;
	}
	if (missing)
		fail("not one completion for each request", EPROTO);
}

static void round_of_calls(void)
{
	for (unsigned i = 0; i < job.depth; i++)
		if (!job.is_read)
			(void)syscall(SYS_getppid);
		else if (pread(job.fd, job.buffers + (size_t)i * BLOCK, BLOCK,
			       (off_t)next_offset()) != BLOCK)
			fail("pread", EIO);
}

/*
 * The measurement
 */

struct used {
	uint64_t requests, usecs, cpu_us;
};

static uint64_t cpu_now_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) *
		       1000000 +
	       (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static struct used make_rounds(unsigned ms)
{
	unsigned nr_rounds = 1 + (BETWEEN_LOOKS - 1) / job.depth;
	uint64_t start = now_ns(), cpu = cpu_now_us(), took;
	struct used used = { 0 };

	do {
		for (unsigned i = 0; i < nr_rounds; i++)
			if (job.is_plain)
				round_of_calls();
			else
				round_of_ring();
		used.requests += (uint64_t)nr_rounds * job.depth;
		took = now_ns() - start;
	} while (took < ms * 1000000ull);
	used.usecs = took / 1000;
	used.cpu_us = cpu_now_us() - cpu;
	return used;
}

/* Return: how many descriptors are rings of the kernel. */
static unsigned nr_rings(void)
{
	DIR *fds = opendir("/proc/self/fd");
	struct dirent *fd;
	unsigned nr = 0;

	if (!fds)
		fail("/proc/self/fd", errno);
	while ((fd = readdir(fds))) {
		char target[64];
		ssize_t bytes = readlinkat(dirfd(fds), fd->d_name, target,
					   sizeof(target) - 1);

		if (bytes < 0)
			continue;
		target[bytes] = '\0';
		nr += !strcmp(target, "anon_inode:[io_uring]");
	}
	closedir(fds);
	return nr;
}

/* Return: how many threads of this process have names that begin with this text. */
static unsigned nr_threads(const char *begin)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	unsigned nr = 0;

	if (!tasks)
		fail("/proc/self/task", errno);
	while ((task = readdir(tasks))) {
		char path[300], name[32] = "";
		FILE *file;

		if (task->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm",
			 task->d_name);
		file = fopen(path, "re");
		if (!file)
			continue;
		nr += fgets(name, sizeof(name), file) &&
		      !strncmp(name, begin, strlen(begin));
		fclose(file);
	}
	closedir(tasks);
	return nr;
}

static void measure(void)
{
	struct used before = make_rounds(job.ms / 10 + 1);
	struct used used = make_rounds(job.ms);

	printf("{\"requests\": %llu, \"usecs\": %llu, \"cpu_us\": %llu, "
	       "\"all_requests\": %llu, \"rings\": %u, \"pollers\": %u, "
	       "\"threads\": %u}\n",
	       (unsigned long long)used.requests,
	       (unsigned long long)used.usecs, (unsigned long long)used.cpu_us,
	       (unsigned long long)(before.requests + used.requests),
	       nr_rings(), nr_threads("iou-sqp-"), nr_threads(""));
}

/*
 * Arguments
 */

static void lay_out(void)
{
	job.fd = open(job.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (job.fd < 0)
		fail(job.path, errno);
	memset(job.buffers, 'u', BLOCK);
	for (off_t at = 0; at < FILE_BYTES; at += BLOCK)
		if (pread(job.fd, job.buffers, BLOCK, at) != BLOCK &&
		    pwrite(job.fd, job.buffers, BLOCK, at) != BLOCK)
			fail(job.path, errno);
	if (fdatasync(job.fd) < 0)
		fail(job.path, errno);
}

static _Noreturn void end_with_usage(void)
{
	fputs("usage: uring nop|read [-f PATH] [-d DEPTH] [-m MS] [-w WORKERS] "
	      "[-a] [-s] [-b] [-t] [-p]\n",
	      stderr);
	exit(2);
}

static void take_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "f:d:m:w:asbtp")) != -1)
		switch (option) {
		case 'f': job.path = optarg; break;
		case 'd': job.depth = (unsigned)count_argument(optarg); break;
		case 'm': job.ms = (unsigned)count_argument(optarg); break;
		case 'w':
			job.nr_workers = (unsigned)count_argument(optarg);
			break;
		case 'a': job.is_async = true; break;
		case 's': job.is_polled = true; break;
		case 'b': job.is_busy = true; break;
		case 't': job.is_cheap = true; break;
		case 'p': job.is_plain = true; break;
		default: end_with_usage();
		}
	if (optind + 1 != argc || job.depth > MAX_DEPTH)
		end_with_usage();
	job.is_read = !strcmp(argv[optind], "read");
	if (job.is_read != !!job.path ||
	    (!job.is_read && strcmp(argv[optind], "nop") != 0))
		end_with_usage();
}

int main(int argc, char **argv)
{
	take_options(argc, argv);
	job.buffers = aligned_alloc(BLOCK, (size_t)job.depth * BLOCK);
	if (!job.buffers)
		fail("memory", ENOMEM);
	if (job.is_read)
		lay_out();
	if (!job.is_plain)
		set_up_ring();
	measure();
	return 0;
}
