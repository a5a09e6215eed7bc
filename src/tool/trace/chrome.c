/* SPDX-License-Identifier: MIT */
/*
 * Writes a trace in the format of Chrome's trace viewer, which Perfetto also reads: an
 * object with an array of events, whose times are in microseconds
 *
 * A request is a pair of asynchronous events ("b", "e") with the same id, at its
 * submission and its end. The system call by which a thread executes it is a slice
 * ("X") of this thread. A thread may complete several requests after it has executed
 * them all. Then each slice begins where the thread's previous slice ended, because
 * slices must not overlap. Two kinds of requests have no slice. The kernel executes
 * requests of the first kind. A fault held back the completions of requests of the
 * second kind (uaio-fault(7)), so the end of their system call is unknown.
 *
 * Tested by test/run/trace.py.
 */
#include <inttypes.h>

#include "options/names.h"
#include "tool/trace/tracing.h"

enum { NR_THREADS = 4096 };

static uint64_t nr_requests;

/*
 * When the last slice of each thread ended; hashed by thread id, so two threads may
 * have one entry.
 */
static int64_t slice_ends[NR_THREADS];

static void put_us(FILE *to, const char *key, int64_t ns)
{
	fprintf(to, "\"%s\":%s%" PRId64 ".%03" PRId64, key, ns < 0 ? "-" : "",
		(ns < 0 ? -ns : ns) / 1000, (ns < 0 ? -ns : ns) % 1000);
}

/* Write a JSON string. All but printable ASCII characters become '?'. */
static void put_string(FILE *to, const char *text)
{
	putc('"', to);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			putc('\\', to);
		putc(c < ' ' || c >= 0x7f ? '?' : c, to);
	}
	putc('"', to);
}

static void put_head(FILE *to, const struct uaio_traced *traced,
		     const char *phase, int64_t ns)
{
	const struct uaio_trace_record *record = traced->record;

	fprintf(to, "%s\n{\"ph\":\"%s\",\"cat\":\"%s\",\"name\":\"%s\",",
		nr_requests ? "," : "", phase,
		uaio_door_names[record->door % UAIO_NR_DOORS],
		record->op < UAIO_NR_OPS ? uaio_op_names[record->op] : "?");
	fprintf(to, "\"pid\":%u,\"tid\":%u,", traced->pid, traced->tid);
	put_us(to, "ts", ns);
}

static void put_arguments(FILE *to, const struct uaio_traced *traced)
{
	const struct uaio_trace_record *record = traced->record;

	fputs(",\"args\":{\"file\":", to);
	put_string(to, traced->file);
	fprintf(to,
		",\"fd\":%d,\"offset\":%" PRId64 ",\"length\":%" PRIu64
		",\"result\":%d,\"by\":\"%s\"",
		record->fd, record->off, record->len, record->res,
		uaio_by_names[record->by % UAIO_NR_BYS]);
	if (uaio_error_name(-record->res))
		fprintf(to, ",\"error\":\"%s\"", uaio_error_name(-record->res));
	putc('}', to);
}

void uaio_chrome_begin(FILE *to)
{
	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", to);
}

static void put_slice(FILE *to, const struct uaio_traced *traced)
{
	int64_t *last = &slice_ends[traced->tid % NR_THREADS];
	int64_t start = traced->started_ns;

	if (start < *last)
		start = *last;
	if (start >= traced->ended_ns)
		return;
	*last = traced->ended_ns;
	put_head(to, traced, "X", start);
	putc(',', to);
	put_us(to, "dur", traced->ended_ns - start);
	put_arguments(to, traced);
	fputs("}", to);
}

void uaio_chrome(FILE *to, const struct uaio_traced *traced)
{
	const struct uaio_trace_record *record = traced->record;
	int64_t submitted = traced->submitted_ns, ended = traced->ended_ns;

	if (submitted > ended)
		submitted = ended;
	put_head(to, traced, "b", submitted);
	nr_requests++;
	fprintf(to, ",\"id\":%" PRIu64, nr_requests);
	put_arguments(to, traced);
	fputs("}", to);
	put_head(to, traced, "e", ended);
	fprintf(to, ",\"id\":%" PRIu64 "}", nr_requests);
	if (!record->started || record->by == UAIO_BY_KERNEL || record->is_late)
		return;
	put_slice(to, traced);
}

void uaio_chrome_end(FILE *to, uint64_t nr_lost)
{
	fprintf(to, "\n],\"otherData\":{\"lost\":\"%" PRIu64 "\"}}\n", nr_lost);
}
