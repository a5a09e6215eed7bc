/* SPDX-License-Identifier: MIT */
/*
 * scale - measures random reads by several threads, with one context for all or a
 * context for each thread
 *
 *	scale FILE hot|direct THREADS CONTEXTS DEPTH MS
 *
 * This is an ordinary libaio program, to be run on the kernel and under `uaio run`.
 * "hot" means reads of 1 KiB through the page cache, "direct" reads of 4 KiB with
 * O_DIRECT. Each thread has DEPTH reads in flight. CONTEXTS is 1 or THREADS. MS is the
 * duration. The program prints one JSON object:
 *
 *	ios, usecs		number of measured reads, and their time
 *	requests		all reads, including those after the measurement
 *	rings_of_kernel_aio	mapped rings of the kernel's AIO: above 0 only if the
 *				kernel was measured
 *	added_threads		number of threads that the program did not create
 *
 * If threads share a context, each may reap events of the others' reads. A thread that
 * has reaped an iocb submits the iocb again, whichever thread submitted it first. So
 * there are always THREADS * DEPTH reads in flight, and at the end each thread reaps
 * DEPTH of them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "handles.h"

enum { HOT_BYTES = 1024, DIRECT_BYTES = 4096, MAX_DEPTH = 64 };

static struct {
	int fd;
	size_t bytes;  /* per read */
	size_t blocks; /* of the file */
	size_t depth;
	atomic_bool is_over;
	pthread_barrier_t begin;
} work;

struct reader {
	pthread_t thread;
	io_context_t context;
	struct iocb *iocbs;
	char *buffers;
	uint64_t random;
	/* when the first measured read began, and when the last one ended */
	uint64_t begun, ended;
	uint64_t ios; /* reads from `begun` to `ended` */
	uint64_t requests;
};

static void fail(const char *what, int error)
{
	fprintf(stderr, "scale: %s: %s\n", what, strerror(error));
	exit(1);
}

static long long random_offset(struct reader *reader)
{
	reader->random =
		reader->random * 6364136223846793005u + 1442695040888963407u;
	return (long long)((reader->random >> 33) % work.blocks * work.bytes);
}

/*
 * The kernel's context may be short of free slots. io_submit() then accepts only some
 * requests, so call it again for the others.
 */
static void submit(struct reader *reader, struct iocb **iocbs, long nr)
{
	while (nr > 0) {
		int ret = io_submit(reader->context, nr, iocbs);

		if (ret < 0 && ret != -EAGAIN)
			fail("io_submit", -ret);
		if (ret > 0) {
			iocbs += ret;
			nr -= ret;
		}
	}
}

/*
 * Reap events, store their iocbs in `again`, and prepare these iocbs as the next
 * requests.
 * Return: how many events there were.
 */
static long reap(struct reader *reader, long most, struct iocb **again)
{
	struct io_event events[MAX_DEPTH];
	int nr = io_getevents(reader->context, 1, most, events, NULL);

	if (nr < 1)
		fail("io_getevents", nr < 0 ? -nr : EPROTO);
	for (int i = 0; i < nr; i++) {
		if (events[i].res != work.bytes)
			fail("read", (long)events[i].res < 0
					     ? (int)-(long)events[i].res
					     : EIO);
		again[i] = events[i].obj;
		again[i]->u.c.offset = random_offset(reader);
	}
	reader->requests += (uint64_t)nr;
	return nr;
}

static void *read_all(void *arg)
{
	struct reader *reader = arg;
	struct iocb *iocbs[MAX_DEPTH];
	long left = (long)work.depth;

	for (size_t i = 0; i < work.depth; i++) {
		iocbs[i] = &reader->iocbs[i];
		io_prep_pread(iocbs[i], work.fd,
			      reader->buffers + i * work.bytes, work.bytes,
			      random_offset(reader));
	}
	pthread_barrier_wait(&work.begin);
	reader->begun = now_ns();
	submit(reader, iocbs, left);
	while (!atomic_load_explicit(&work.is_over, memory_order_relaxed)) {
		long nr = reap(reader, left, iocbs);

		reader->ios += (uint64_t)nr;
		submit(reader, iocbs, nr);
	}
	reader->ended = now_ns();
	while (left > 0)
		left -= reap(reader, left, iocbs);
	return NULL;
}

static void open_file(const char *path, bool is_direct)
{
	struct stat about;

	work.bytes = is_direct ? DIRECT_BYTES : HOT_BYTES;
	work.fd = open(path, O_RDONLY | O_CLOEXEC | (is_direct ? O_DIRECT : 0));
	if (work.fd < 0 || fstat(work.fd, &about) < 0)
		fail(path, errno);
	work.blocks = (size_t)about.st_size / work.bytes;
	if (!work.blocks)
		fail(path, EINVAL);
}

/* Reader i uses context i; if there is only one context, all readers use it. */
static struct reader *make_readers(size_t threads, size_t contexts)
{
	struct reader *readers = calloc(threads, sizeof(*readers));

	if (!readers)
		fail("memory", ENOMEM);
	for (size_t i = 0; i < threads; i++) {
		struct reader *reader = &readers[i];
		int ret;

		reader->random = i;
		reader->iocbs = calloc(work.depth, sizeof(*reader->iocbs));
		reader->buffers =
			aligned_alloc(DIRECT_BYTES, work.depth * DIRECT_BYTES);
		if (!reader->iocbs || !reader->buffers)
			fail("memory", ENOMEM);
		reader->context = readers[0].context;
		if (i >= contexts)
			continue;
		reader->context = NULL;
		ret = io_setup((int)(work.depth * threads / contexts),
			       &reader->context);
		if (ret < 0)
			fail("io_setup", -ret);
	}
	return readers;
}

static size_t nr_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	size_t nr = 0;

	if (!tasks)
		fail("/proc/self/task", errno);
	while ((entry = readdir(tasks)))
		nr += entry->d_name[0] != '.';
	closedir(tasks);
	return nr;
}

static struct reader *start_readers(size_t threads, size_t contexts)
{
	struct reader *readers = make_readers(threads, contexts);

	pthread_barrier_init(&work.begin, NULL, (unsigned int)threads);
	for (size_t i = 0; i < threads; i++)
		if (pthread_create(&readers[i].thread, NULL, read_all,
				   &readers[i]))
			fail("a thread", EAGAIN);
	return readers;
}

static void sleep_ms(size_t ms)
{
	struct timespec left = { (time_t)(ms / 1000),
				 (long)(ms % 1000) * 1000000 };

	while (nanosleep(&left, &left) < 0)
		;
}

/*
 * Wait for all readers.
 * Return: a reader with the sums of ios and requests, the earliest `begun` and the
 * latest `ended`.
 */
static struct reader end_readers(struct reader *readers, size_t threads)
{
	struct reader all = { .begun = UINT64_MAX };

	atomic_store_explicit(&work.is_over, true, memory_order_relaxed);
	for (size_t i = 0; i < threads; i++) {
		const struct reader *reader = &readers[i];

		pthread_join(reader->thread, NULL);
		all.ios += reader->ios;
		all.requests += reader->requests;
		if (reader->begun < all.begun)
			all.begun = reader->begun;
		if (reader->ended > all.ended)
			all.ended = reader->ended;
	}
	return all;
}

int main(int argc, char **argv)
{
	size_t threads, contexts, rings, others;
	struct reader *readers, all;
	bool is_direct;

	is_direct = argc == 7 && strcmp(argv[2], "direct") == 0;
	if (argc != 7 || (!is_direct && strcmp(argv[2], "hot") != 0)) {
		fputs("usage: "
		      "scale FILE hot|direct THREADS CONTEXTS DEPTH MS\n",
		      stderr);
		return 2;
	}
	threads = count_argument(argv[3]);
	contexts = count_argument(argv[4]);
	work.depth = count_argument(argv[5]);
	if ((contexts != 1 && contexts != threads) || work.depth > MAX_DEPTH)
		fail("contexts, depth", EINVAL);
	open_file(argv[1], is_direct);

	readers = start_readers(threads, contexts);
	sleep_ms(count_argument(argv[6]));
	rings = nr_kernel_rings();
	others = nr_threads() - threads - 1;
	all = end_readers(readers, threads);
	printf("{\"ios\": %llu, \"usecs\": %llu, \"requests\": %llu, "
	       "\"rings_of_kernel_aio\": %zu, \"added_threads\": %zu}\n",
	       (unsigned long long)all.ios,
	       (unsigned long long)(all.ended - all.begun) / 1000,
	       (unsigned long long)all.requests, rings, others);
	return 0;
}
