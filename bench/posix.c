/* SPDX-License-Identifier: MIT */
/*
 * posix - measures reads by POSIX AIO. Run it twice: plainly, to measure the C
 * library's POSIX AIO, and under `uaio run`. Other ways to read the same data are for
 * comparison.
 *
 *	posix WAY -f PATH [-d DEPTH] [-m MS]
 *
 * The program reads 4 KiB at random offsets of PATH, which it creates and which is in
 * the page cache. WAY is how it waits for the reads. Unless WAY is "suspend", a round
 * submits DEPTH reads and waits for all of them:
 *
 *	suspend			aio_suspend, with DEPTH reads in flight: each completed
 *				read is submitted again
 *	listio			one lio_listio call, which waits for all reads
 *	signal			each read sends a signal; sigwaitinfo waits for them
 *	thread			each read starts a callback (SIGEV_THREAD)
 *	libaio			no POSIX AIO, but one io_submit and one io_getevents
 *	pread			no AIO
 *
 * It prints one JSON object:
 *
 *	requests, usecs		number of measured reads, and their time
 *	cpu_us			processor time of all threads in that time
 *	all_requests		number of all reads, measured or not
 *	threads			number of the process's threads at the end
 */
#include <aio.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libaio.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <unistd.h>

#include "handles.h"

enum {
	MAX_DEPTH = 256,
	BLOCK = 4096,
	FILE_BYTES = 16 << 20,
	/*
	 * The program executes about this many requests before it reads the clock
	 * again.
	 */
	BETWEEN_LOOKS = 64,
};

static struct job {
	const char *path;
	unsigned depth, ms;
	int fd;
	char *buffers;
	uint64_t random, nr_submitted;
	struct aiocb aiocbs[MAX_DEPTH];
	sem_t called; /* each callback posts this semaphore */
	sigset_t signals;
	io_context_t context;
} job = { .depth = 1, .ms = 300 };

static _Noreturn void fail(const char *what, int error)
{
	fprintf(stderr, "posix: %s: %s\n", what, strerror(error));
	exit(1);
}

static off_t next_offset(void)
{
	job.random = job.random * 6364136223846793005u + 1442695040888963407u;
	return (off_t)((job.random >> 33) % (FILE_BYTES / BLOCK) * BLOCK);
}

static char *buffer(unsigned i)
{
	return job.buffers + (size_t)i * BLOCK;
}

/*
 * POSIX AIO
 */

static void prepare(unsigned i)
{
	job.aiocbs[i].aio_offset = next_offset();
	job.nr_submitted++;
}

static void submit(unsigned i)
{
	prepare(i);
	if (aio_read(&job.aiocbs[i]) < 0)
		fail("aio_read", errno);
}

static void submit_each(void)
{
	for (unsigned i = 0; i < job.depth; i++)
		submit(i);
}

static void check(unsigned i)
{
	int error = aio_error(&job.aiocbs[i]);

	if (error || aio_return(&job.aiocbs[i]) != BLOCK)
		fail("a request", error ? error : EIO);
}

static void check_each(void)
{
	for (unsigned i = 0; i < job.depth; i++)
		check(i);
}

/*
 * Wait until at least one read is complete, and submit the completed reads again.
 */
static void round_of_suspend(void)
{
	const struct aiocb *list[MAX_DEPTH];

	if (!job.nr_submitted)
		submit_each();
	for (unsigned i = 0; i < job.depth; i++)
		list[i] = &job.aiocbs[i];
	if (aio_suspend(list, (int)job.depth, NULL) < 0)
		fail("aio_suspend", errno);
	for (unsigned i = 0; i < job.depth; i++)
		if (aio_error(&job.aiocbs[i]) != EINPROGRESS) {
			check(i);
			submit(i);
		}
}

/* Wait for the reads that are still in flight. */
static void drain(void)
{
	for (unsigned i = 0; i < job.depth; i++) {
		const struct aiocb *const list[] = { &job.aiocbs[i] };

		while (aio_error(list[0]) == EINPROGRESS)
			if (aio_suspend(list, 1, NULL) < 0)
				fail("aio_suspend", errno);
		check(i);
	}
}

static void round_of_listio(void)
{
	struct aiocb *list[MAX_DEPTH];

	for (unsigned i = 0; i < job.depth; i++) {
		prepare(i);
		list[i] = &job.aiocbs[i];
	}
	if (lio_listio(LIO_WAIT, list, (int)job.depth, NULL) < 0)
		fail("lio_listio", errno);
	check_each();
}

static void round_of_signals(void)
{
	submit_each();
	for (unsigned i = 0; i < job.depth; i++)
		if (sigwaitinfo(&job.signals, NULL) < 0)
			fail("sigwaitinfo", errno);
	check_each();
}

static void is_called(union sigval value)
{
	(void)value;
	sem_post(&job.called);
}

static void round_of_calls(void)
{
	submit_each();
	for (unsigned i = 0; i < job.depth; i++)
		while (sem_wait(&job.called) < 0)
			;
	check_each();
}

static void set_up_aiocbs(int notify)
{
	for (unsigned i = 0; i < job.depth; i++)
		job.aiocbs[i] = (struct aiocb){
			.aio_fildes = job.fd,
			.aio_buf = buffer(i),
			.aio_nbytes = BLOCK,
			.aio_lio_opcode = LIO_READ,
			.aio_sigevent = {
				.sigev_notify = notify,
				.sigev_signo = SIGRTMIN,
				.sigev_notify_function =
					notify == SIGEV_THREAD ? is_called
							       : NULL,
			},
		};
	sigemptyset(&job.signals);
	sigaddset(&job.signals, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &job.signals, NULL);
	sem_init(&job.called, 0, 0);
}

/* Ways without POSIX AIO */

static void round_of_libaio(void)
{
	struct iocb iocbs[MAX_DEPTH], *list[MAX_DEPTH];
	struct io_event events[MAX_DEPTH];
	int nr = (int)job.depth;

	for (int i = 0; i < nr; i++) {
		io_prep_pread(&iocbs[i], job.fd, buffer((unsigned)i), BLOCK,
			      next_offset());
		list[i] = &iocbs[i];
	}
	if (io_submit(job.context, nr, list) != nr ||
	    io_getevents(job.context, nr, nr, events, NULL) != nr)
		fail("libaio", EIO);
	for (int i = 0; i < nr; i++)
		if (events[i].res != BLOCK)
			fail("a request", EIO);
	job.nr_submitted += job.depth;
}

static void round_of_preads(void)
{
	for (unsigned i = 0; i < job.depth; i++)
		if (pread(job.fd, buffer(i), BLOCK, next_offset()) != BLOCK)
			fail("pread", EIO);
	job.nr_submitted += job.depth;
}

static const struct way {
	const char *name;
	int notify;
	void (*round)(void);
} ways[] = {
	{ "suspend", SIGEV_NONE, round_of_suspend },
	{ "listio", SIGEV_NONE, round_of_listio },
	{ "signal", SIGEV_SIGNAL, round_of_signals },
	{ "thread", SIGEV_THREAD, round_of_calls },
	{ "libaio", SIGEV_NONE, round_of_libaio },
	{ "pread", SIGEV_NONE, round_of_preads },
};

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

static struct used make_rounds(const struct way *way, unsigned ms)
{
	unsigned nr_rounds = 1 + (BETWEEN_LOOKS - 1) / job.depth;
	uint64_t start = now_ns(), cpu = cpu_now_us(), took;
	uint64_t before = job.nr_submitted;
	struct used used;

	do {
		for (unsigned i = 0; i < nr_rounds; i++)
			way->round();
		took = now_ns() - start;
	} while (took < ms * 1000000ull);
	used.requests = job.nr_submitted - before;
	used.usecs = took / 1000;
	used.cpu_us = cpu_now_us() - cpu;
	return used;
}

static unsigned nr_threads(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	unsigned nr = 0;

	if (!tasks)
		fail("/proc/self/task", errno);
	while ((task = readdir(tasks)))
		nr += task->d_name[0] != '.';
	closedir(tasks);
	return nr;
}

static void measure(const struct way *way)
{
	struct used used;

	(void)make_rounds(way, job.ms / 10 + 1);
	used = make_rounds(way, job.ms);
	if (way->round == round_of_suspend)
		drain();
	printf("{\"requests\": %llu, \"usecs\": %llu, \"cpu_us\": %llu, "
	       "\"all_requests\": %llu, \"threads\": %u}\n",
	       (unsigned long long)used.requests,
	       (unsigned long long)used.usecs, (unsigned long long)used.cpu_us,
	       (unsigned long long)job.nr_submitted, nr_threads());
}

/*
 * Arguments
 */

static void lay_out(void)
{
	job.fd = open(job.path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (job.fd < 0)
		fail(job.path, errno);
	memset(job.buffers, 'p', BLOCK);
	for (off_t at = 0; at < FILE_BYTES; at += BLOCK)
		if (pread(job.fd, job.buffers, BLOCK, at) != BLOCK &&
		    pwrite(job.fd, job.buffers, BLOCK, at) != BLOCK)
			fail(job.path, errno);
	if (fdatasync(job.fd) < 0)
		fail(job.path, errno);
}

static _Noreturn void end_with_usage(void)
{
	fputs("usage: posix suspend|listio|signal|thread|libaio|pread -f PATH "
	      "[-d DEPTH] [-m MS]\n",
	      stderr);
	exit(2);
}

static const struct way *take_options(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "f:d:m:")) != -1)
		switch (option) {
		case 'f': job.path = optarg; break;
		case 'd': job.depth = (unsigned)count_argument(optarg); break;
		case 'm': job.ms = (unsigned)count_argument(optarg); break;
		default: end_with_usage();
		}
	if (optind + 1 != argc || job.depth > MAX_DEPTH || !job.path)
		end_with_usage();
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, argv[optind]))
			return &ways[i];
	end_with_usage();
}

int main(int argc, char **argv)
{
	const struct way *way = take_options(argc, argv);

	job.buffers = aligned_alloc(BLOCK, (size_t)job.depth * BLOCK);
	if (!job.buffers)
		fail("memory", ENOMEM);
	lay_out();
	set_up_aiocbs(way->notify);
	if (way->round == round_of_libaio &&
	    io_setup((int)job.depth, &job.context) < 0)
		fail("io_setup", EAGAIN);
	measure(way);
	return 0;
}
