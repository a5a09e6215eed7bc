/* SPDX-License-Identifier: MIT */
/*
 * nop VARIANT ROUNDS DEPTH FIXED: measures how many no-ops per second worker threads
 * execute.
 *
 * This program first came with a proposed kernel change: fixed (permanent) workers for
 * io_uring. A round submits DEPTH no-ops for workers by one call, then DEPTH times
 * waits for one event and reaps it. The program links the library, and sets up the
 * library's work queue in one of these ways:
 *
 *   single, single+batches   FIXED + 1 normal workers, which share one list
 *   round-robin              FIXED workers with a private list each, to which no-ops
 *                            are added in turn, as in the proposal; and one normal
 *                            worker
 *   packed, packed+batches   like round-robin, but each no-op goes to the
 *                            first fixed worker that is awake
 *
 * With "batches", a worker posts several events at a time. One more variant, with the
 * same number of workers, is for comparison:
 *
 *   io_uring                 the kernel's io-wq; only if built with liburing
 *
 * The program prints one JSON object: the time and the rate; the processor time that
 * idle workers use; and the work queue's counters, which prove that the variant was
 * used. The idle workers are measured for IDLE_MS, from QUIET_MS after the last no-op.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "proc/entry.h"
#include "wq/wq.h"
#include "issue/submit.h"
#include "life/life.h"
#include "aio/ctx.h"
#include "aio/handle.h"
#include "nop.h"

enum {
	QUIET_MS = 10,
	IDLE_MS = 100,
	BATCH_EVENTS = 16,
	COUNTED_ROUNDS = 100,
	/* room in the private list of a fixed worker, as in the proposal */
	LIST_ITEMS = 10000000,
};

static uint64_t handle;

void nop_fail(const char *what, int error)
{
	fprintf(stderr, "nop: %s: %s\n", what, strerror(-error));
	exit(1);
}

/* The library's work queue */

static const struct variant {
	const char *name;
	bool has_fixed;
	struct uaio_wq_tuning tuning;
} variants[] = {
	{ "single", false, { UAIO_PLACE_PUBLIC, 1, true } },
	{ "single+batches", false, { UAIO_PLACE_PUBLIC, BATCH_EVENTS, true } },
	{ "round-robin", true, { UAIO_PLACE_ROUND_ROBIN, 1, true } },
	{ "packed", true, { UAIO_PLACE_PACKED, 1, true } },
	{ "packed+batches", true, { UAIO_PLACE_PACKED, BATCH_EVENTS, true } },
};
enum { NR_VARIANTS = sizeof(variants) / sizeof(variants[0]) };

static const struct variant *find_variant(const char *name)
{
	for (unsigned i = 0; i < NR_VARIANTS; i++)
		if (!strcmp(variants[i].name, name))
			return &variants[i];
	return NULL;
}

static void set_up_queue(const struct nop_plan *plan)
{
	const struct variant *variant = find_variant(plan->variant);
	const struct uaio_wq_fixed_limits fixed = {
		.nr_workers = variant->has_fixed ? (int)plan->nr_fixed : 0,
		.max_items = LIST_ITEMS,
	};
	struct uaio_wq_fixed_limits old;
	int ret;

	uaio_wq_tune(&variant->tuning);
	/*
	 * The limit counts normal and fixed workers together. So a variant with fixed
	 * workers has one normal worker; a variant without them has nr_fixed + 1 normal
	 * workers.
	 */
	ret = uaio_wq_limit_workers(UAIO_BOUNDED, (int)plan->nr_fixed + 1);
	if (ret < 0)
		nop_fail("limit of workers", ret);
	ret = uaio_wq_limit_fixed(UAIO_BOUNDED, &fixed, &old);
	if (ret < 0)
		nop_fail("limit of fixed workers", ret);
}

static void round_of(unsigned depth);

/* Counters before the first round. */
static struct uaio_wq_counters at_start;

/* The first work item creates the fixed workers. Wait until all of them exist. */
static void warm_up(void)
{
	struct uaio_wq_fixed_limits asked = { -1, -1 };
	struct uaio_wq_counters nr;

	(void)uaio_wq_limit_fixed(UAIO_BOUNDED, &asked, &asked);
	do {
		round_of(1);
		uaio_wq_count(UAIO_BOUNDED, &nr);
	} while (nr.nr_fixed < (unsigned)asked.nr_workers);
	uaio_wq_count(UAIO_BOUNDED, &at_start);
}

static void begin(const struct nop_plan *plan)
{
	int ret;

	uaio_engine_load();
	ret = uaio_engine_start();
	if (ret < 0)
		nop_fail("the engine", ret);
	set_up_queue(plan);
	ret = uaio_ctx_setup(NOP_RING_ENTRIES, &handle);
	if (ret < 0)
		nop_fail("io_setup", ret);
	warm_up();
}

static void submit(unsigned depth)
{
	struct uaio_submission submission;
	long room;

	(void)uaio_enter();
	room = uaio_submission_begin(&submission, handle, depth);
	if (room != (long)depth)
		nop_fail("io_submit", room < 0 ? (int)room : -EAGAIN);
	for (unsigned i = 0; i < depth; i++) {
		const struct uaio_sqe sqe = {
			.op = UAIO_OP_NOP,
			.is_async = true,
			.fd = -1,
			.data = i,
		};
		int ret = uaio_batch_add(&submission.batch, NULL, &sqe);

		if (ret < 0)
			nop_fail("a no-op", ret);
	}
	uaio_submission_end(&submission, depth);
	uaio_leave();
}

static void round_of(unsigned depth)
{
	static const struct uaio_getevents call = {
		.min_nr = 1,
		.nr = 1,
		.wait.deadline_ns = UAIO_FOREVER,
	};
	uint64_t missing = 0;

	submit(depth);
	for (unsigned i = 0; i < depth; i++) {
		struct uaio_event event;
		long ret;

		(void)uaio_enter();
		do
			ret = uaio_ctx_getevents(handle, &event, &call);
		while (ret == -EINTR);
		uaio_leave();
		if (ret != 1 || event.res != 0)
			nop_fail("io_getevents", ret < 0 ? (int)ret : -EPROTO);
		missing += i - event.data;
	}
	if (missing)
		nop_fail("not one event for each request", -EPROTO);
}

static void print_nr(const char *name, uint64_t nr)
{
	printf(", \"%s\": %" PRIu64, name, nr);
}

/*
 * A sink is the struct of functions by which the library posts events. In separate
 * rounds, which are not timed, count_post() replaces post() of the sink `counted`: it
 * counts the call, then calls the replaced function.
 */
static const struct uaio_sink *counted;
static uint64_t nr_posts; /* atomic */

static void count_post(struct uaio_queue *queue, const struct uaio_post *post)
{
	/* relaxed: nr_posts is read only after all events have arrived */
	add_relaxed(&nr_posts, 1);
	counted->post(queue, post);
}

static void count_posts(unsigned depth)
{
	struct uaio_queue *queue = &uaio_ctx_find(handle)->queue;
	struct uaio_sink counting;

	/* Replace the sink now, as no request is in flight and no other thread submits. */
	counted = queue->sink;
	counting = *counted;
	counting.post = count_post;
	queue->sink = &counting;
	for (unsigned i = 0; i < COUNTED_ROUNDS; i++)
		round_of(depth);
	queue->sink = counted;
	print_nr("posted", (uint64_t)COUNTED_ROUNDS * depth);
	print_nr("posts", load_relaxed(&nr_posts));
}

static void print(unsigned depth)
{
	struct uaio_wq_counters nr;

	uaio_wq_count(UAIO_BOUNDED, &nr);
	count_posts(depth);
	print_nr("workers", nr.nr_workers);
	print_nr("fixed", nr.nr_fixed);
	print_nr("private", nr.nr_private - at_start.nr_private);
	print_nr("switches", nr.nr_switches - at_start.nr_switches);
	print_nr("public", nr.nr_public - at_start.nr_public);
	print_nr("shared", nr.nr_shared - at_start.nr_shared);
	print_nr("stolen", nr.nr_stolen - at_start.nr_stolen);
	print_nr("late", nr.nr_late - at_start.nr_late);
	print_nr("locked", nr.nr_locked - at_start.nr_locked);
	print_nr("contended", nr.nr_contended - at_start.nr_contended);
	print_nr("wakes", nr.nr_wakes - at_start.nr_wakes);
	fputs(", \"placed\": [", stdout);
	for (unsigned i = 0; i < nr.nr_fixed && i < UAIO_WQ_FIXED_MAX; i++)
		printf("%s%" PRIu64, i ? ", " : "",
		       nr.nr_placed[i] - at_start.nr_placed[i]);
	putchar(']');
}

static void end(void)
{
	int ret;

	(void)uaio_enter();
	ret = uaio_ctx_destroy(handle);
	uaio_leave();
	if (ret < 0)
		nop_fail("io_destroy", ret);
}

static const struct nop_side engine = {
	.begin = begin,
	.round = round_of,
	.print = print,
	.end = end,
};

/* the program */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void sleep_ms(long ms)
{
	struct timespec rest = { 0, ms * 1000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, &rest) == EINTR)
		;
}

/* Return: processor time of all threads except this one. */
static uint64_t others_cpu_ns(void)
{
	uint64_t own = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	uint64_t all = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	/*
	 * The two readings of this thread's time enclose the reading of the process's
	 * time, so use their mean.
	 */
	own = (own + clock_ns(CLOCK_THREAD_CPUTIME_ID)) / 2;
	return all > own ? all - own : 0;
}

static uint64_t idle_cpu_ns(void)
{
	uint64_t before, after;

	sleep_ms(QUIET_MS);
	before = others_cpu_ns();
	sleep_ms(IDLE_MS);
	after = others_cpu_ns();
	return after > before ? after - before : 0;
}

static void run(const struct nop_plan *plan, const struct nop_side *side)
{
	uint64_t start, took_ns, idle_ns;

	side->begin(plan);
	start = clock_ns(CLOCK_MONOTONIC);
	for (unsigned long i = 0; i < plan->nr_rounds; i++)
		side->round(plan->depth);
	took_ns = clock_ns(CLOCK_MONOTONIC) - start;
	idle_ns = idle_cpu_ns();

	printf("{\"variant\": \"%s\", \"rounds\": %lu, \"depth\": %u, "
	       "\"usecs\": %" PRIu64 ", \"items_per_s\": %.0f, "
	       "\"idle_cpu_us\": %.1f",
	       plan->variant, plan->nr_rounds, plan->depth, took_ns / 1000,
	       (double)plan->nr_rounds * plan->depth * 1e9 / (double)took_ns,
	       (double)idle_ns / 1000);
	side->print(plan->depth);
	puts("}");
	side->end();
}

/* Return: the number, or 0 if it lies outside of [1, max]. */
static unsigned long number(const char *text, unsigned long max)
{
	char *rest;
	unsigned long nr = strtoul(text, &rest, 10);

	return *rest || nr > max ? 0 : nr;
}

int main(int argc, char **argv)
{
	struct nop_plan plan = { 0 };

	if (argc == 5) {
		plan.variant = argv[1];
		plan.nr_rounds = number(argv[2], 1ul << 40);
		plan.depth = (unsigned)number(argv[3], NOP_RING_ENTRIES);
		plan.nr_fixed = (unsigned)number(argv[4], UAIO_WQ_FIXED_MAX);
	}
	if (!plan.nr_rounds || !plan.depth || !plan.nr_fixed) {
		fputs("usage: nop VARIANT ROUNDS DEPTH FIXED\n", stderr);
		return 2;
	}
	if (find_variant(plan.variant)) {
		run(&plan, &engine);
		return 0;
	}
	if (strcmp(plan.variant, "io_uring") != 0) {
		fprintf(stderr, "nop: no such variant: %s\n", plan.variant);
		return 2;
	}
#ifdef HAVE_LIBURING
	run(&plan, &nop_uring);
	return 0;
#else
	fputs("nop: built without liburing (apt-get install liburing-dev)\n",
	      stderr);
	return 1;
#endif
}
