/* SPDX-License-Identifier: MIT */
/* soak's supervisor process (soak.h) */
#include "soak.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "clock.h"

enum {
	NR_SAMPLES = 60,
	PATIENCE_MS = 60000,
	/* most descriptors of the program and of the library, not counting sockets */
	OTHER_DESCRIPTORS = 600,
};

/* What is measured, in the order of the elements of a sample */
enum figure { MEMORY, DESCRIPTORS, THREADS, MEDIAN, SLOW, NR_FIGURES };

/*
 * `times` and `more` limit a figure. In the last third of the samples, its value may be
 * at most `times` its value in the middle third, plus `more`. The limits of latencies
 * are wide, because the machine may have become busy meanwhile.
 */
static const struct {
	const char *name;
	double times, more;
	/*
	 * The value of a latency in a third of the samples is the median. For all other
	 * figures it is the minimum, because a leak raises even the minimum.
	 */
	bool is_latency;
} figures[NR_FIGURES] = {
	[MEMORY] = { "memory_kib", 1.02, 512, false },
	[DESCRIPTORS] = { "descriptors", 1, 4, false },
	[THREADS] = { "threads", 1, 16, false },
	[MEDIAN] = { "p50_us", 4, 20000, true },
	[SLOW] = { "p99_us", 4, 100000, true },
};

struct shared *shared;

static const char *program;
static FILE *samples_file; /* NULL: write no samples */
static unsigned seconds = 3;
static pid_t serving, client; /* 0: ended */
static double samples[NR_SAMPLES][NR_FIGURES];
static uint64_t echoes_before[NR_BUCKETS];

/*
 * Failing
 */

static void print_tool(void)
{
	void *symbol = dlsym(RTLD_DEFAULT, "uaio_get_counters");
	const char *slash;
	Dl_info info;

	if (!symbol || !dladdr(symbol, &info))
		return;
	slash = strrchr(info.dli_fname, '/');
	fprintf(stderr, "%.*suaio run --uring=always -- ",
		slash ? (int)(slash - info.dli_fname + 1) : 0, info.dli_fname);
}

static _Noreturn void give_up(const char *failure)
{
	fflush(stdout);
	fprintf(stderr, "failed: %s\nreplay: ", failure);
	print_tool();
	fprintf(stderr, "%s --seed %" PRIu64 " --seconds %u\n", program,
		shared->seed, seconds);
	if (serving)
		(void)kill(serving, SIGKILL);
	if (client)
		(void)kill(client, SIGKILL);
	while (wait(NULL) > 0 || errno == EINTR)
		;
	exit(1);
}

_Noreturn void fail(const char *format, ...)
{
	char text[sizeof(shared->failure)];
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (getpid() == shared->supervisor)
		give_up(text);
	/*
	 * Record the first failure. When this process has ended, the supervisor prints
	 * it.
	 */
	if (__atomic_fetch_add(&shared->has_failed, 1, __ATOMIC_ACQ_REL) == 0) {
		strcpy(shared->failure, text);
		(void)kill(getpid(), SIGKILL);
	}
	for (;;)
		pause();
}

/*
 * Samples
 */

static double count_entries(const char *what)
{
	struct dirent *entry;
	unsigned nr = 0;
	char path[64];
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)serving, what);
	dir = opendir(path);
	REQUIRE(dir);
	while ((entry = readdir(dir)))
		nr += entry->d_name[0] != '.';
	closedir(dir);
	return nr;
}

static double memory_kib(void)
{
	long resident = 0;
	char path[64];
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/statm", (int)serving);
	file = fopen(path, "re");
	REQUIRE(file);
	REQUIRE(fscanf(file, "%*d %ld", &resident) == 1);
	(void)fclose(file);
	return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/*
 * part: a share of the echoes, such as 0.99.
 * Return: the time in microseconds within which this share arrived.
 */
static double quantile(const uint64_t *echoes, double part)
{
	uint64_t nr = 0, sum = 0;
	unsigned i;

	for (i = 0; i < NR_BUCKETS; i++)
		nr += echoes[i];
	for (i = 0; i < NR_BUCKETS - 1; i++) {
		sum += echoes[i];
		if ((double)sum >= part * (double)nr)
			break;
	}
	return (double)(8 + i % 8) / 8 * (double)(UINT64_C(1) << i / 8) / 1000;
}

static void take_sample(unsigned nr, int64_t begin_ms)
{
	double *const sample = samples[nr];
	uint64_t echoes[NR_BUCKETS], sum = 0;

	for (unsigned i = 0; i < NR_BUCKETS; i++) {
		const uint64_t now = load_relaxed(&shared->echoes[i]);

		echoes[i] = now - echoes_before[i];
		sum += echoes[i];
		echoes_before[i] = now;
	}
	sample[MEMORY] = memory_kib();
	sample[DESCRIPTORS] = count_entries("fd");
	sample[THREADS] = count_entries("task");
	sample[MEDIAN] = sum ? quantile(echoes, .5) : 0;
	sample[SLOW] = sum ? quantile(echoes, .99) : 0;
	if (!samples_file)
		return;
	fprintf(samples_file, "{\"seconds\": %.3f, \"echoes\": %" PRIu64,
		(double)(now_ms() - begin_ms) / 1000, sum);
	for (unsigned i = 0; i < NR_FIGURES; i++)
		fprintf(samples_file, ", \"%s\": %.0f", figures[i].name,
			sample[i]);
	fprintf(samples_file, "}\n");
	REQUIRE(fflush(samples_file) == 0);
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/*
 * Return: the median or minimum of the figure in this third of the samples (0 to 2).
 */
static double of_third(enum figure figure, unsigned third)
{
	enum { NR = NR_SAMPLES / 3 };
	double values[NR];

	for (unsigned i = 0; i < NR; i++)
		values[i] = samples[third * NR + i][figure];
	qsort(values, NR, sizeof(values[0]), compare);
	return values[figures[figure].is_latency ? NR / 2 : 0];
}

static void judge(void)
{
	for (enum figure i = 0; i < NR_FIGURES; i++) {
		const double middle = of_third(i, 1), last = of_third(i, 2);

		printf("%s: %.0f in the middle third, %.0f in the last\n",
		       figures[i].name, middle, last);
		if (last > middle * figures[i].times + figures[i].more)
			fail("%s grew from %.0f to %.0f", figures[i].name,
			     middle, last);
	}
}

/*
 * The run
 */

static void open_sockets(void)
{
	struct rlimit limit;
	rlim_t nr;

	REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
	limit.rlim_cur = limit.rlim_max;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	REQUIRE(limit.rlim_cur > 2 * OTHER_DESCRIPTORS);
	nr = (limit.rlim_cur - OTHER_DESCRIPTORS) / 2;
	shared->nr_sockets =
		nr < NR_SOCKETS_MAX ? (unsigned)nr : NR_SOCKETS_MAX;
	for (unsigned i = 0; i < shared->nr_sockets; i++)
		REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
				   shared->ends[i]) == 0);
}

static pid_t start(void (*process)(void))
{
	const pid_t supervisor = getpid();
	pid_t pid;

	fflush(NULL);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != supervisor)
		_exit(1);
	process();
	_exit(0);
}

static void note_ends(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == serving)
			serving = 0;
		if (pid == client)
			client = 0;
		if (load_acquire(&shared->has_failed))
			fail("%s", shared->failure);
		if (status)
			fail("a process ended by status %#x", status);
	}
}

/*
 * Fail if neither an echo nor a file request has completed for a minute. The time while
 * all processes are paused (a suspended machine) does not count.
 */
static void watch(void)
{
	static uint64_t nr_before;
	static int64_t looked_ms, quiet_ms;
	const uint64_t nr = load_relaxed(&shared->nr_echoes) +
			    load_relaxed(&shared->nr_blocks);
	const int64_t now = now_ms();

	quiet_ms += now - looked_ms > 100 ? 100 : now - looked_ms;
	looked_ms = now;
	if (nr != nr_before)
		quiet_ms = 0;
	nr_before = nr;
	if (quiet_ms > PATIENCE_MS)
		fail("no request completes after %" PRIu64, nr);
}

static void play(void)
{
	int64_t begin_ms;

	open_sockets();
	serving = start(serving_process);
	client = start(client_process);
	for (unsigned i = 0; i < shared->nr_sockets; i++)
		REQUIRE(close(shared->ends[i][0]) == 0 &&
			close(shared->ends[i][1]) == 0);
	/* Begin to measure with the first echo: then all sockets exist. */
	while (!load_relaxed(&shared->nr_echoes)) {
		usleep(1000);
		note_ends();
		watch();
	}
	begin_ms = now_ms();
	for (unsigned i = 0; i < NR_SAMPLES; i++) {
		while (now_ms() < begin_ms + (i + 1) * INT64_C(1000) * seconds /
						     NR_SAMPLES) {
			usleep(5000);
			note_ends();
			watch();
		}
		take_sample(i, begin_ms);
	}
	store_release(&shared->is_over, 1);
	while (serving || client) {
		usleep(1000);
		note_ends();
		watch();
	}
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 'n' },
		{ "samples", required_argument, NULL, 'f' },
		{ 0 },
	};
	int option;

	program = argv[0];
	shared->seed = (uint64_t)now_ns();
	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (option) {
		case 's': shared->seed = strtoull(optarg, NULL, 0); break;
		case 'n': seconds = (unsigned)atoi(optarg); break;
		case 'f':
			samples_file = fopen(optarg, "we");
			REQUIRE(samples_file);
			break;
		default:
			fprintf(stderr, "usage: soak [--samples FILE] "
					"--seed S --seconds N\n");
			exit(2);
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t nr;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	shared->supervisor = getpid();
	parse(argc, argv);
	printf("seed %" PRIu64 "\n", shared->seed);
	play();
	printf("%u sockets, %" PRIu64 " echoes, %" PRIu64
	       " requests of files\n",
	       shared->nr_sockets, shared->nr_echoes, shared->nr_blocks);
	judge();
	nr = shared->nr_echoes + shared->nr_blocks;
	printf("counted %" PRIu64 " requests: 0 lost\n", nr);
	return nr ? 0 : 1;
}
