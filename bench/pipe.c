/* SPDX-License-Identifier: MIT */
/*
 * pipe WORK VARIANT ROUNDS [COUNT]: measures how much it costs to wait for pipes and
 * sockets.
 *
 *   pipe	one thread moves 4 KiB through a pipe: a round submits a read,
 *		which finds the pipe empty, and a write, and waits for both.
 *		If a read of an empty pipe would block the thread, the variant
 *		submits the write first.
 *   ping-pong	two processes send 64 bytes to and fro through two pipes: a
 *		round submits a write, and the read of the answer. If COUNT is
 *		1, both processes run on one processor; if 2, each has its own.
 *   parked	a read waits on each of COUNT socket pairs: a round makes one
 *		pair ready, waits for the read's event, and reads again.
 *   parked-hot	like parked, but only 100 of the pairs ever become ready, at
 *		equal distances. 100 pairs are few enough to stay in the cache.
 *
 * VARIANT names what executes a request when its file becomes ready. With this library:
 * a worker thread (worker-for-each); or the program's thread that waits for the event
 * (caller-runs). With caller-runs+delayed-kick, the default, the library's fallback
 * thread also leaves the program's thread time to begin. Other variants are for
 * comparison: io_uring, io_uring+deferred, kernel (the kernel's AIO), and plain (read()
 * and write()). With "threads", only for WORK pipe, one thread reads and one writes.
 *
 * The program prints one JSON object: the time, the process's context switches in that
 * time, the number of mapped rings, and the library's counters, which prove that the
 * variant was used. For ping-pong, the member "other" has the counters of the second
 * process.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handles.h"
#include "pipe.h"

enum {
	BLOCK = 4096,
	BALL = 64,
	WARM_ROUNDS = 500,
	HOT_PAIRS = 100,
	SPARE_FDS = 100, /* descriptors besides those of the socket pairs */
	/* seconds after which SIGALRM ends a process that hangs */
	PATIENCE_S = 120,
};

struct plan {
	const struct work *work;
	const struct pipe_side *side;
	bool has_threads;
	unsigned long nr_rounds;
	unsigned count;
};

struct work {
	const char *name;
	/*
	 * Runs before the library starts, so that the library need not handle the
	 * descriptors that this function closes.
	 */
	void (*prepare)(struct plan *plan);
	void (*start)(const struct plan *plan);
	void (*rounds)(const struct plan *plan, unsigned long nr);
	/* Called at the end: prints counters as members of a JSON object. */
	void (*print)(const struct plan *plan);
};

void pipe_fail(const char *what, int error)
{
	fprintf(stderr, "pipe: %s: %s\n", what, strerror(-error));
	exit(1);
}

unsigned pipe_take(const struct pipe_request *requests, unsigned nr,
		   const struct pipe_request *request, long long res)
{
	if (request < requests || request >= requests + nr)
		pipe_fail("the event of another request", -EPROTO);
	if (res != (long long)request->len)
		pipe_fail(request->is_write ? "a write" : "a read",
			  res < 0 ? (int)res : -EPROTO);
	return 1u << (request - requests);
}

void pipe_check_taken(unsigned mask, unsigned nr)
{
	if (mask != (1u << nr) - 1)
		pipe_fail("not one event for each request", -EPROTO);
}

static void count_from_here(const struct pipe_side *side)
{
	if (side->count)
		side->count();
}

static void print_counters(const struct pipe_side *side, FILE *file)
{
	if (side->print)
		side->print(file);
}

/* Check that the data begins with the number of its round. */
static void check_number(const void *block, uint64_t wanted)
{
	uint64_t number;

	memcpy(&number, block, sizeof(number));
	if (number != wanted)
		pipe_fail("other bytes than were written", -EPROTO);
}

/* the work pipe */

static int ends[2];
static uint64_t next_number;

static void make_pipe(struct plan *plan)
{
	(void)plan;
	if (pipe(ends) < 0)
		pipe_fail("pipe", -errno);
}

static void start_nothing(const struct plan *plan)
{
	(void)plan;
}

static void print_nothing(const struct plan *plan)
{
	(void)plan;
}

static void *write_blocks(void *arg)
{
	unsigned char block[BLOCK] = { 0 };
	const unsigned long *nr = arg;

	for (uint64_t i = 0; i < *nr; i++) {
		uint64_t number = next_number + i;

		memcpy(block, &number, sizeof(number));
		if (write(ends[1], block, sizeof(block)) != sizeof(block))
			pipe_fail("write", -errno);
	}
	return NULL;
}

static void read_block(unsigned char *block)
{
	for (size_t nr = 0; nr < BLOCK;) {
		ssize_t ret = read(ends[0], block + nr, BLOCK - nr);

		if (ret <= 0)
			pipe_fail("read", ret < 0 ? -errno : -EPROTO);
		nr += (size_t)ret;
	}
}

static void move_by_threads(unsigned long nr)
{
	unsigned char block[BLOCK];
	pthread_t writer;
	int ret = pthread_create(&writer, NULL, write_blocks, &nr);

	if (ret)
		pipe_fail("pthread_create", -ret);
	for (uint64_t i = 0; i < nr; i++) {
		read_block(block);
		check_number(block, next_number + i);
	}
	pthread_join(writer, NULL);
	next_number += nr;
}

static void move_blocks(const struct plan *plan, unsigned long nr)
{
	unsigned char out[BLOCK] = { 0 }, in[BLOCK];
	struct pipe_request pair[PIPE_PAIR] = {
		{ .fd = ends[0], .buf = in, .len = sizeof(in) },
		{ .fd = ends[1],
		  .is_write = true,
		  .buf = out,
		  .len = sizeof(out) },
	};

	if (plan->has_threads) {
		move_by_threads(nr);
		return;
	}
	if (plan->side->blocks) {
		struct pipe_request first = pair[0];

		pair[0] = pair[1];
		pair[1] = first;
	}
	for (; nr; nr--, next_number++) {
		memcpy(out, &next_number, sizeof(next_number));
		plan->side->submit(pair, PIPE_PAIR);
		plan->side->wait(pair, PIPE_PAIR);
		check_number(in, next_number);
	}
}

/* the work ping-pong */

/*
 * The two pipes of ping-pong; and `report`, a pipe by which the other process sends its
 * counters.
 */
static int from_other, to_other, report;
static unsigned char ball_out[BALL], ball_in[BALL];

static const struct pipe_request *serve_and_return(void)
{
	static struct pipe_request pair[PIPE_PAIR];

	pair[0] = (struct pipe_request){
		.fd = to_other,
		.is_write = true,
		.buf = ball_out,
		.len = sizeof(ball_out),
	};
	pair[1] = (struct pipe_request){
		.fd = from_other,
		.buf = ball_in,
		.len = sizeof(ball_in),
	};
	return pair;
}

static void exchange(const struct plan *plan,
		     const struct pipe_request *requests, unsigned nr)
{
	plan->side->submit(requests, nr);
	plan->side->wait(requests, nr);
}

/*
 * Run the second process of ping-pong. It first reads a message. Then in each round it
 * writes the answer and reads the next message; in the last round it only writes.
 */
static void answer(const struct plan *plan)
{
	const struct pipe_request *pair = serve_and_return();
	const unsigned long nr_rounds = WARM_ROUNDS + plan->nr_rounds;
	FILE *file = fdopen(report, "w");

	if (!file)
		pipe_fail("fdopen", -errno);
	plan->side->begin(plan->side, PIPE_PAIR);
	exchange(plan, &pair[1], 1);
	for (unsigned long i = 0; i < nr_rounds; i++) {
		if (i == WARM_ROUNDS)
			count_from_here(plan->side);
		check_number(ball_in, i);
		memcpy(ball_out, ball_in, sizeof(ball_out));
		exchange(plan, pair, i + 1 < nr_rounds ? PIPE_PAIR : 1);
	}
	fputs("\"side\": \"other\"", file);
	print_counters(plan->side, file);
	fclose(file);
	plan->side->end();
	exit(0);
}

/* Bind this process to the n-th of the processors that it may use. */
static void run_on(unsigned nth)
{
	cpu_set_t mask, one;

	if (sched_getaffinity(0, sizeof(mask), &mask) < 0)
		pipe_fail("sched_getaffinity", -errno);
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &mask) || nth--)
			continue;
		CPU_SET(cpu, &one);
		if (sched_setaffinity(0, sizeof(one), &one) < 0)
			pipe_fail("sched_setaffinity", -errno);
		return;
	}
	pipe_fail("there are not so many processors", -ENODEV);
}

static void make_other(struct plan *plan)
{
	int there[2], back[2], tells[2];
	pid_t other;

	if (pipe(there) < 0 || pipe(back) < 0 || pipe(tells) < 0)
		pipe_fail("pipe", -errno);
	other = fork();
	if (other < 0)
		pipe_fail("fork", -errno);
	/*
	 * Close the pipe ends that belong to the other process, so that this process
	 * reads end of file when the other process ends.
	 */
	close(there[other != 0 ? 0 : 1]);
	close(back[other != 0 ? 1 : 0]);
	close(tells[other != 0 ? 1 : 0]);
	from_other = other ? back[0] : there[0];
	to_other = other ? there[1] : back[1];
	report = other ? tells[0] : tells[1];
	if (plan->count)
		run_on(other ? 0 : plan->count - 1);
	if (other)
		return;
	alarm(PATIENCE_S);
	answer(plan);
}

static void play(const struct plan *plan, unsigned long nr)
{
	const struct pipe_request *pair = serve_and_return();

	for (; nr; nr--, next_number++) {
		memcpy(ball_out, &next_number, sizeof(next_number));
		exchange(plan, pair, PIPE_PAIR);
		check_number(ball_in, next_number);
	}
}

static void print_other(const struct plan *plan)
{
	char text[1024];
	size_t nr = 0;
	ssize_t ret;
	int status;

	(void)plan;
	while ((ret = read(report, text + nr, sizeof(text) - 1 - nr)) > 0)
		nr += (size_t)ret;
	text[nr] = '\0';
	if (wait(&status) < 0 || status || !nr)
		pipe_fail("the other process", -ECHILD);
	printf(", \"other\": {%s}", text);
}

/* the work parked */

static struct pipe_request *reads; /* one per pair */
static int *far_ends;

/* Raise the limit of descriptors. If that fails, reduce the number of pairs. */
static void limit_pairs(struct plan *plan)
{
	const rlim_t needed = 2 * (rlim_t)plan->count + SPARE_FDS;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		pipe_fail("getrlimit", -errno);
	if (limit.rlim_cur >= needed)
		return;
	limit.rlim_cur = needed;
	if (limit.rlim_max < needed) {
		const struct rlimit more = { needed, needed };

		if (setrlimit(RLIMIT_NOFILE, &more) == 0)
			return;
		/* Only root may raise the hard limit, so reduce the number of pairs. */
		limit.rlim_cur = limit.rlim_max;
		plan->count = (unsigned)(limit.rlim_max - SPARE_FDS) / 2;
	}
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
		pipe_fail("setrlimit", -errno);
}

static void make_pairs(struct plan *plan)
{
	uint64_t *numbers;

	if (plan->count < 2)
		pipe_fail("not so few pairs", -EINVAL);
	limit_pairs(plan);
	reads = calloc(plan->count, sizeof(*reads));
	far_ends = calloc(plan->count, sizeof(*far_ends));
	numbers = calloc(plan->count, sizeof(*numbers));
	if (!reads || !far_ends || !numbers)
		pipe_fail("memory", -ENOMEM);
	for (unsigned i = 0; i < plan->count; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0)
			pipe_fail("socketpair", -errno);
		reads[i] = (struct pipe_request){
			.fd = pair[0],
			.buf = &numbers[i],
			.len = sizeof(numbers[i]),
		};
		far_ends[i] = pair[1];
	}
}

static void park(const struct plan *plan)
{
	for (unsigned i = 0; i < plan->count; i++)
		plan->side->submit(&reads[i], 1);
}

/* Return: a random index from 0 to count - 1, other than `last`. */
static unsigned other_than(unsigned last, unsigned count)
{
	static uint64_t seed = 1;

	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (last + 1 + (unsigned)((seed >> 33) % (count - 1))) % count;
}

static void serve_parked_of(const struct plan *plan, unsigned nr_hot,
			    unsigned long nr)
{
	static unsigned last;

	for (; nr; nr--, next_number++) {
		size_t ready;

		last = other_than(last, nr_hot);
		ready = (size_t)last * (plan->count - 1) / (nr_hot - 1);
		if (write(far_ends[ready], &next_number, sizeof(next_number)) !=
		    sizeof(next_number))
			pipe_fail("write", -errno);
		plan->side->wait(&reads[ready], 1);
		check_number(reads[ready].buf, next_number);
		plan->side->submit(&reads[ready], 1);
	}
}

static void serve_parked(const struct plan *plan, unsigned long nr)
{
	serve_parked_of(plan, plan->count, nr);
}

static void serve_hot(const struct plan *plan, unsigned long nr)
{
	serve_parked_of(plan, plan->count < HOT_PAIRS ? plan->count : HOT_PAIRS,
			nr);
}

static void print_parked(const struct plan *plan)
{
	printf(", \"count\": %u", plan->count);
}

/* the program */

static const struct work works[] = {
	{ "pipe", make_pipe, start_nothing, move_blocks, print_nothing },
	{ "ping-pong", make_other, start_nothing, play, print_other },
	{ "parked", make_pairs, park, serve_parked, print_parked },
	{ "parked-hot", make_pairs, park, serve_hot, print_parked },
};
enum { NR_WORKS = sizeof(works) / sizeof(works[0]) };

static const struct pipe_side *const sides[] = {
	&pipe_worker_for_each, &pipe_caller_runs,    &pipe_delayed_kick,
	&pipe_kernel,          &pipe_plain,
#ifdef HAVE_LIBURING
	&pipe_uring,           &pipe_uring_deferred,
#endif
};
enum { NR_SIDES = sizeof(sides) / sizeof(sides[0]) };

/* Return: voluntary and involuntary context switches of all threads. */
static uint64_t nr_switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

static void run(struct plan *plan, const char *variant)
{
	const struct pipe_side *side = plan->side;
	const struct work *work = plan->work;
	uint64_t start, took_ns, switches;

	alarm(PATIENCE_S);
	work->prepare(plan);
	side->begin(side, plan->count + PIPE_PAIR);
	work->start(plan);
	work->rounds(plan, WARM_ROUNDS);
	count_from_here(side);

	switches = nr_switches();
	start = now_ns();
	work->rounds(plan, plan->nr_rounds);
	took_ns = now_ns() - start;
	switches = nr_switches() - switches;

	printf("{\"work\": \"%s\", \"variant\": \"%s\", \"rounds\": %lu, "
	       "\"usecs\": %.3f, \"switches\": %" PRIu64
	       ", \"rings_of_kernel_aio\": %zu, \"rings_of_io_uring\": %zu",
	       work->name, variant, plan->nr_rounds, (double)took_ns / 1000,
	       switches, nr_kernel_rings(), nr_mapped("[io_uring]"));
	print_counters(side, stdout);
	work->print(plan);
	puts("}");
	side->end();
}

static const struct work *find_work(const char *name)
{
	for (unsigned i = 0; i < NR_WORKS; i++)
		if (!strcmp(works[i].name, name))
			return &works[i];
	return NULL;
}

/* In WORK pipe, the variant `threads` is the variant `plain` with two threads. */
static const struct pipe_side *find_side(const char *name)
{
	for (unsigned i = 0; i < NR_SIDES; i++)
		if (!strcmp(sides[i]->variant, name))
			return sides[i];
	return strcmp(name, "threads") == 0 ? &pipe_plain : NULL;
}

int main(int argc, char **argv)
{
	struct plan plan = { 0 };

	if (argc == 4 || argc == 5) {
		plan.work = find_work(argv[1]);
		plan.side = find_side(argv[2]);
		plan.has_threads = strcmp(argv[2], "threads") == 0;
		plan.nr_rounds = count_argument(argv[3]);
		plan.count = argc == 5 ? (unsigned)count_argument(argv[4]) : 0;
	}
#ifndef HAVE_LIBURING
	if (plan.work && !plan.side && !strncmp(argv[2], "io_uring", 8)) {
		fputs("pipe: built without liburing (apt-get install "
		      "liburing-dev)\n",
		      stderr);
		return 1;
	}
#endif
	if (!plan.work || !plan.side) {
		fputs("usage: pipe WORK VARIANT ROUNDS [COUNT]\n", stderr);
		return 2;
	}
	run(&plan, argv[2]);
	return 0;
}
