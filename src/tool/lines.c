/* SPDX-License-Identifier: MIT */
/* Tested by test/run/trace.py. */
#include <inttypes.h>

#include "options/errors.h"
#include "options/operations.h"
#include "tool/tracing.h"

void uaio_lines_begin(FILE *to)
{
	fprintf(to, "#%11s %7s %-8s %-10s %12s %9s %10s %10s %10s %-6s %s\n",
		"seconds", "thread", "door", "operation", "offset", "length",
		"result", "wait us", "service us", "by", "file");
}

static const char *op_name(unsigned op)
{
	return op < UAIO_NR_OPS ? uaio_op_names[op] : "?";
}

static void put_number(FILE *to, bool is_known, int width, uint64_t number)
{
	if (is_known)
		fprintf(to, " %*" PRIu64, width, number);
	else
		fprintf(to, " %*s", width, "-");
}

static void put_us(FILE *to, int64_t ns)
{
	fprintf(to, " %8" PRId64 ".%" PRId64, ns / 1000, ns % 1000 / 100);
}

void uaio_line(FILE *to, const struct uaio_traced *traced)
{
	const struct uaio_trace_record *record = traced->record;
	const char *error = uaio_error_name(-record->res);
	int64_t us = traced->ended_ns / 1000;

	fprintf(to, "%5" PRId64 ".%06" PRId64 " %7u %-8s %-10s", us / 1000000,
		us % 1000000, traced->tid,
		uaio_door_names[record->door % UAIO_NR_DOORS],
		op_name(record->op));
	put_number(to, record->off >= 0, 12, (uint64_t)record->off);
	put_number(to, record->len, 9, record->len);
	if (error)
		fprintf(to, " %10s", error);
	else
		fprintf(to, " %10d", record->res);
	put_us(to, uaio_traced_wait(traced));
	put_us(to, uaio_traced_service(traced));
	fprintf(to, " %-6s", uaio_by_names[record->by % UAIO_NR_BYS]);
	if (traced->file[0])
		fprintf(to, " %s", traced->file);
	else if (record->fd >= 0)
		fprintf(to, " fd %d", record->fd);
	putc('\n', to);
}

void uaio_line_lost(FILE *to, uint64_t nr)
{
	fprintf(to, "# %" PRIu64 " lost\n", nr);
}
