/* SPDX-License-Identifier: MIT */
/* Prints the text of a report. Tested by test/run/stats.py. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "options/config.h"
#include "options/names.h"
#include "life/door.h"
#include "life/reportint.h"

static const char *const time_names[UAIO_NR_TIMES] = {
	[UAIO_TIME_SUBMIT] = "submit",   [UAIO_TIME_WAIT] = "queue wait",
	[UAIO_TIME_PAGES] = "page wait", [UAIO_TIME_SERVICE] = "service",
	[UAIO_TIME_TOTAL] = "total",
};

void uaio_text_add(struct uaio_text *text, const char *format, ...)
{
	size_t room = sizeof(text->buf) - text->len;
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(text->buf + text->len, room, format, args);
	va_end(args);
	if (len > 0)
		text->len += (size_t)len < room ? (size_t)len : room - 1;
}

/* The block of text (--stats) */

static void add_us(struct uaio_text *text, uint64_t ns)
{
	uaio_text_add(text, " %10" PRIu64 ".%" PRIu64, ns / 1000,
		      ns % 1000 / 100);
}

static void add_times(struct uaio_text *text, const char *name,
		      const struct uaio_time_sum *time)
{
	uaio_text_add(text, "  %-12s", name);
	if (!time->nr) {
		uaio_text_add(text, " %12s %12s %12s %12s\n", "-", "-", "-",
			      "-");
		return;
	}
	add_us(text, time->p50);
	add_us(text, time->p99);
	add_us(text, time->p999);
	add_us(text, time->max);
	uaio_text_add(text, "\n");
}

static void add_ways(struct uaio_text *text, const char *name,
		     const uint64_t nr[UAIO_NR_WAYS])
{
	uint64_t sum = 0;

	for (unsigned way = 0; way < UAIO_NR_WAYS; way++)
		sum += nr[way];
	if (!sum)
		return;
	uaio_text_add(text, "  %-12s", name);
	for (unsigned way = 0; way < UAIO_NR_WAYS; way++)
		uaio_text_add(text, " %12" PRIu64, nr[way]);
	uaio_text_add(text, "\n");
}

static void add_direct(struct uaio_text *text, const uint64_t *nr)
{
	if (nr[UAIO_DIRECT_CUT] + nr[UAIO_DIRECT_BOUNCED])
		uaio_text_add(text,
			      "  direct: %" PRIu64 " in %" PRIu64
			      " segments, bounced %" PRIu64 "\n",
			      nr[UAIO_DIRECT_CUT], nr[UAIO_DIRECT_SEGMENTS],
			      nr[UAIO_DIRECT_BOUNCED]);
	if (nr[UAIO_DIRECT_KERNEL])
		uaio_text_add(text, "  direct: %" PRIu64 " by kernel AIO\n",
			      nr[UAIO_DIRECT_KERNEL]);
	if (nr[UAIO_DIRECT_URING])
		uaio_text_add(text, "  by io_uring: %" PRIu64 "\n",
			      nr[UAIO_DIRECT_URING]);
}

/* Add a warning that injected faults have changed results and times. */
static void add_faults(struct uaio_text *text, const uint64_t *nr)
{
	if (!uaio_config.has_faults)
		return;
	uaio_text_add(text, "  FAULTS ON PURPOSE:");
	for (unsigned i = 0; i < UAIO_NR_FAULT_KINDS; i++)
		uaio_text_add(text, "%s %s %" PRIu64, i ? "," : "",
			      uaio_fault_names[i], nr[i]);
	uaio_text_add(text, "; results and times are not the files' own\n");
}

/*
 * The process used no front-end. Add which calls it did not make: "made no a, b or c
 * call", where a, b and c are the first calls of the front-ends, such as io_setup.
 */
static void add_unused(struct uaio_text *text)
{
	const char *call;

	uaio_text_add(text, "made no");
	for (unsigned n = 0; (call = uaio_door_first_call(n)); n++)
		uaio_text_add(text, "%s %s",
			      !n                            ? ""
			      : uaio_door_first_call(n + 1) ? ","
							    : " or",
			      call);
	uaio_text_add(text,
		      " call; programs that it starts are named if they make "
		      "one\n");
}

/*
 * Add who made the rings, for example "33 by the kernel, 967 by uaio: RLIMIT_MEMLOCK".
 */
static void add_rings(struct uaio_text *text, uint64_t nr_ours)
{
	uint64_t nr;
	const char *limit = uaio_unserved_limit(&nr);

	if (limit)
		uaio_text_add(text,
			      "  rings: %" PRIu64 " by the kernel, %" PRIu64
			      " by uaio: %s\n",
			      nr, nr_ours, limit);
}

static void add_unserved(struct uaio_text *text)
{
	const char *why = uaio_unserved_why();

	if (why)
		uaio_text_add(text, "  not served: %s\n", why);
}

/* Add a number and a noun. Unless the number is 1, the noun gets an s. */
static void add_number(struct uaio_text *text, uint64_t nr, const char *noun,
		       const char *after)
{
	uaio_text_add(text, "%" PRIu64 " %s%s%s", nr, noun, nr == 1 ? "" : "s",
		      after);
}

static uint64_t nr_contexts(const struct uaio_subject *s)
{
	return s->counters.nr_setups - s->stats.nr_rings;
}

/* Add how many contexts and rings were created; "0 contexts" if there were none. */
static void add_setups(struct uaio_text *text, const struct uaio_subject *s)
{
	const uint64_t nr = nr_contexts(s), nr_rings = s->stats.nr_rings;

	if (nr || !nr_rings)
		add_number(text, nr, "context", nr_rings ? " and " : "\n");
	if (nr_rings)
		add_number(text, nr_rings, "ring", "\n");
}

void uaio_print_block(struct uaio_text *text, const struct uaio_subject *s)
{
	const struct uaio_stats_sum *stats = &s->stats;
	/* With POSIX AIO, a process has requests without a context or ring. */
	bool is_used = s->counters.nr_setups || stats->nr_accepted;

	/*
	 * LD_PRELOAD may load the library into hundreds of processes that do not use
	 * it. Such a process writes no report.
	 */
	if (!is_used && !s->is_started && !uaio_unserved_why())
		return;
	uaio_text_add(text, "uaio: %s[%d]: ", s->comm, s->pid);
	if (!is_used) {
		add_unused(text);
		add_unserved(text);
		return;
	}
	add_number(text, stats->nr_accepted, "request", " in ");
	add_number(text, stats->nr_submits, "call", ", ");
	add_setups(text, s);
	uaio_text_add(text,
		      "  completed %" PRIu64 ", in flight at most %" PRIu32
		      ", threads %" PRIu32 ", at once at most %" PRIu32 "\n",
		      stats->nr_completed, stats->peak_in_flight,
		      stats->nr_threads, stats->peak_threads);
	add_rings(text, stats->nr_rings);
	uaio_text_add(text, "  %-12s %12s %12s %12s\n", "requests",
		      uaio_way_names[0], uaio_way_names[1], uaio_way_names[2]);
	for (unsigned op = 0; op < UAIO_NR_OPS; op++)
		add_ways(text, uaio_op_names[op], stats->nr_by_way[op]);
	add_direct(text, stats->nr_direct);
	add_faults(text, stats->nr_faults);
	uaio_text_add(text, "  %-12s %12s %12s %12s %12s\n", "time in us",
		      "p50", "p99", "p99.9", "max");
	for (unsigned time = 0; time < UAIO_NR_TIMES; time++)
		add_times(text, time_names[time], &stats->times[time]);
	add_unserved(text);
}

/* The line of JSON (--stats-json) */

static void add_json_times(struct uaio_text *text,
			   const struct uaio_time_sum *time)
{
	uaio_text_add(text,
		      "{\"count\": %" PRIu64 ", \"p50\": %" PRIu64
		      ", \"p99\": %" PRIu64 ", \"p99.9\": %" PRIu64
		      ", \"max\": %" PRIu64 "}",
		      time->nr, time->p50, time->p99, time->p999, time->max);
}

void uaio_print_json(struct uaio_text *text, const struct uaio_subject *s)
{
	const struct uaio_stats_sum *stats = &s->stats;

	uaio_text_add(text,
		      "{\"schema\": 2, \"pid\": %d, \"comm\": \"%s\", "
		      "\"contexts\": %" PRIu64 ", \"rings\": %" PRIu64
		      ", \"submits\": %" PRIu64 ", \"accepted\": %" PRIu64
		      ", \"completed\": %" PRIu64 ", \"wakeups\": %" PRIu64
		      ", \"peak_in_flight\": %" PRIu32
		      ", \"threads\": {\"started\": %" PRIu32
		      ", \"peak\": %" PRIu32 "}, \"requests\": {",
		      s->pid, s->comm, nr_contexts(s), stats->nr_rings,
		      stats->nr_submits, stats->nr_accepted,
		      stats->nr_completed, s->counters.nr_wakeups,
		      stats->peak_in_flight, stats->nr_threads,
		      stats->peak_threads);
	for (unsigned op = 0; op < UAIO_NR_OPS; op++) {
		uaio_text_add(text, "%s\"%s\": {", op ? ", " : "",
			      uaio_op_names[op]);
		for (unsigned way = 0; way < UAIO_NR_WAYS; way++)
			uaio_text_add(text, "%s\"%s\": %" PRIu64,
				      way ? ", " : "", uaio_way_names[way],
				      stats->nr_by_way[op][way]);
		uaio_text_add(text, "}");
	}
	uaio_text_add(text,
		      "}, \"direct\": {\"cut\": %" PRIu64
		      ", \"segments\": %" PRIu64 ", \"bounced\": %" PRIu64
		      ", \"kernel_aio\": %" PRIu64 ", \"io_uring\": %" PRIu64
		      "}, \"faults\": {",
		      stats->nr_direct[UAIO_DIRECT_CUT],
		      stats->nr_direct[UAIO_DIRECT_SEGMENTS],
		      stats->nr_direct[UAIO_DIRECT_BOUNCED],
		      stats->nr_direct[UAIO_DIRECT_KERNEL],
		      stats->nr_direct[UAIO_DIRECT_URING]);
	for (unsigned i = 0; i < UAIO_NR_FAULT_KINDS; i++)
		uaio_text_add(text, "%s\"%s\": %" PRIu64, i ? ", " : "",
			      uaio_fault_names[i], stats->nr_faults[i]);
	uaio_text_add(text, "}, \"ns\": {");
	for (unsigned time = 0; time < UAIO_NR_TIMES; time++) {
		uaio_text_add(text, "%s\"%s\": ", time ? ", " : "",
			      uaio_time_names[time]);
		add_json_times(text, &stats->times[time]);
	}
	uaio_text_add(text, "}}\n");
}

/* The line of counters (UAIO_COUNTERS) */

void uaio_print_counters(struct uaio_text *text, const struct uaio_subject *s)
{
	const struct uaio_counters *c = &s->counters;

	uaio_text_add(text,
		      "{\"pid\": %d, \"comm\": \"%s\", \"requests\": %" PRIu64
		      ", \"inline\": %" PRIu64 ", \"worker\": %" PRIu64
		      ", \"contexts\": %" PRIu64 ", \"wakeups\": %" PRIu64
		      "}\n",
		      s->pid, s->comm, c->nr_requests, c->nr_inline,
		      c->nr_worker, c->nr_setups, c->nr_wakeups);
}
