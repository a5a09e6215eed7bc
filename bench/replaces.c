/* SPDX-License-Identifier: MIT */
/*
 * replaces - measures works (kinds of load) that use libaio. Run it on the kernel and
 * under `uaio run`. With -p, the program does the same work without AIO, for
 * comparison.
 *
 *	replaces WORK PATH [-b BYTES] [-d DEPTH] [-t THREADS] [-s KIB] [-m MS]
 *		 [-D] [-S] [-C] [-p]
 *
 * -b: bytes per request. -d: requests in flight per thread. -t: number of threads, each
 * with its own context. -s: size of the file. -m: duration. -D: O_DIRECT. -S: the file
 * is a hole. -C: the file is not in the page cache. -p: no AIO; instead DEPTH * THREADS
 * threads make blocking calls. Works with POLL requests replace AIO in another way,
 * which replaces-poll.c explains.
 *
 * It prints one JSON object:
 *
 *	requests, usecs		number of measured requests, and their time
 *	cpu_us, switches	processor time and context switches in that time of the
 *				process, and of the second process that ping-pong starts
 *	rings_of_kernel_aio	mapped rings of the kernel's AIO: above 0 only if the
 *				kernel was measured
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "handles.h"
#include "replaces.h"

static const struct work *const works[] = {
	&replaces_read,      &replaces_write,   &replaces_files,
	&replaces_ping_pong, &replaces_sockets,
};

static struct job job = {
	.bytes = REPLACES_BLOCK,
	.depth = 1,
	.threads = 1,
	.file_bytes = 1 << 20,
};

void fail(const char *what, int error)
{
	fprintf(stderr, "replaces: %s: %s\n", what, strerror(error));
	exit(1);
}

char *new_buffers(const struct job *of, size_t nr)
{
	size_t bytes = (nr * of->bytes + REPLACES_BLOCK - 1) / REPLACES_BLOCK *
		       REPLACES_BLOCK;
	char *buffers = aligned_alloc(REPLACES_BLOCK, bytes);

	if (!buffers)
		fail("memory", ENOMEM);
	memset(buffers, 'u', bytes);
	return buffers;
}

io_context_t new_context(const struct job *of)
{
	io_context_t context = NULL;
	int ret = io_setup((int)of->depth, &context);

	if (ret < 0)
		fail("io_setup", -ret);
	return context;
}

static pthread_barrier_t begin, counted;

void end_context(io_context_t context)
{
	/*
	 * The first wait ends when all threads have finished, the second when
	 * count_rings() has counted the rings.
	 */
	pthread_barrier_wait(&counted);
	pthread_barrier_wait(&counted);
	io_destroy(context);
}

/*
 * Count the kernel AIO rings while all threads wait in end_context(), so that no ring
 * is destroyed yet.
 */
static size_t count_rings(void)
{
	size_t nr;

	if (job.is_plain)
		return nr_kernel_rings();
	pthread_barrier_wait(&counted);
	nr = nr_kernel_rings();
	pthread_barrier_wait(&counted);
	return nr;
}

void submit_all(io_context_t context, struct iocb **iocbs, size_t nr)
{
	while (nr > 0) {
		int ret = io_submit(context, (long)nr, iocbs);

		if (ret < 0 && ret != -EAGAIN)
			fail("io_submit", -ret);
		if (ret > 0) {
			iocbs += ret;
			nr -= (size_t)ret;
		}
	}
}

size_t reap(const struct job *of, io_context_t context, struct io_event *events,
	    size_t most)
{
	int nr = io_getevents(context, 1, (long)most, events, NULL);

	if (nr < 1)
		fail("io_getevents", nr < 0 ? -nr : EPROTO);
	for (int i = 0; i < nr; i++) {
		long res = (long)events[i].res;

		if (res != (long)of->bytes)
			fail("a request", res < 0 ? (int)-res : EIO);
	}
	return (size_t)nr;
}

/* The threads, and the processor time and context switches that they use */

struct worker {
	pthread_t thread;
	size_t number;
	uint64_t requests;
};

static const struct work *work;

static void *run_one(void *arg)
{
	struct worker *worker = arg;

	pthread_barrier_wait(&begin);
	worker->requests = work->run(&job, worker->number);
	return NULL;
}

struct used {
	uint64_t usecs, cpu_us, switches;
};

static void add_usage(struct used *used, int who)
{
	struct rusage usage;

	getrusage(who, &usage);
	used->cpu_us +=
		(uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) *
			1000000 +
		(uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
	used->switches += (uint64_t)(usage.ru_nvcsw + usage.ru_nivcsw);
}

/*
 * Return: time, processor time and context switches of this process, plus those of the
 * second process once it has ended.
 */
static struct used used_now(void)
{
	struct used used = { .usecs = now_ns() / 1000 };

	add_usage(&used, RUSAGE_SELF);
	add_usage(&used, RUSAGE_CHILDREN);
	return used;
}

static struct worker *start_all(size_t nr)
{
	struct worker *workers = calloc(nr, sizeof(*workers));

	if (!workers)
		fail("memory", ENOMEM);
	pthread_barrier_init(&begin, NULL, (unsigned int)nr + 1);
	pthread_barrier_init(&counted, NULL, (unsigned int)nr + 1);
	for (size_t i = 0; i < nr; i++) {
		workers[i].number = i;
		if (pthread_create(&workers[i].thread, NULL, run_one,
				   &workers[i]))
			fail("a thread", EAGAIN);
	}
	return workers;
}

static void sleep_ms(size_t ms)
{
	struct timespec left = { (time_t)(ms / 1000),
				 (long)(ms % 1000) * 1000000 };

	while (nanosleep(&left, &left) < 0)
		;
}

static void measure(size_t ms)
{
	size_t nr = job.is_plain ? job.threads * job.depth : job.threads;
	struct worker *workers = start_all(nr);
	struct used first, last;
	uint64_t requests = 0;
	size_t rings;

	first = used_now();
	pthread_barrier_wait(&begin);
	sleep_ms(ms);
	atomic_store_explicit(&job.is_over, true, memory_order_relaxed);
	rings = count_rings();
	for (size_t i = 0; i < nr; i++) {
		pthread_join(workers[i].thread, NULL);
		requests += workers[i].requests;
	}
	last = used_now();
	if (job.other) {
		requests += job.other->requests;
		rings += job.other->rings;
	}
	printf("{\"requests\": %llu, \"usecs\": %llu, \"cpu_us\": %llu, "
	       "\"switches\": %llu, \"rings_of_kernel_aio\": %zu}\n",
	       (unsigned long long)requests,
	       (unsigned long long)(last.usecs - first.usecs),
	       (unsigned long long)(last.cpu_us - first.cpu_us),
	       (unsigned long long)(last.switches - first.switches), rings);
}

/*
 * Arguments
 */

static _Noreturn void end_with_usage(void)
{
	fputs("usage: replaces WORK PATH [-b BYTES] [-d DEPTH] [-t THREADS] "
	      "[-s KIB] [-m MS] [-D] [-S] [-C] [-p]\n",
	      stderr);
	exit(2);
}

static const struct work *find_work(const char *name)
{
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		if (strcmp(works[i]->name, name) == 0)
			return works[i];
	end_with_usage();
}

/*
 * Read the options into `job`.
 * Return: the measurement's duration in ms.
 */
static size_t take_options(int argc, char **argv)
{
	size_t ms = 300;
	int option;

	while ((option = getopt(argc, argv, "b:d:t:s:m:DSCp")) != -1)
		switch (option) {
		case 'b': job.bytes = count_argument(optarg); break;
		case 'd': job.depth = count_argument(optarg); break;
		case 't': job.threads = count_argument(optarg); break;
		case 's': job.file_bytes = count_argument(optarg) << 10; break;
		case 'm': ms = count_argument(optarg); break;
		case 'D': job.is_direct = true; break;
		case 'S': job.is_sparse = true; break;
		case 'C': job.is_cold = true; break;
		case 'p': job.is_plain = true; break;
		default: end_with_usage();
		}
	if (optind + 2 != argc || job.depth > REPLACES_MAX_DEPTH)
		end_with_usage();
	work = find_work(argv[optind]);
	job.path = argv[optind + 1];
	return ms;
}

int main(int argc, char **argv)
{
	size_t ms = take_options(argc, argv);

	work->set_up(&job);
	measure(ms);
	return 0;
}
