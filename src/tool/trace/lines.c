/* SPDX-License-Identifier: MIT */
/* Tested by test/run/trace.py. */
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "options/names.h"
#include "tool/trace/tracing.h"

enum {
	DIGITS_MAX = 20, /* the most digits of a 64-bit number */
	US_WIDTH =
		11, /* width of a time in microseconds, and a blank before it */
	NAME_MAX_BYTES = UAIO_TRACE_NAME_BYTES,
	/*
	 * The fields of a line: nine numbers; four names that the tool defines, each
	 * shorter than 32 bytes; and the name of the file.
	 */
	LINE_MAX_BYTES = 9 * DIGITS_MAX + 4 * 32 + NAME_MAX_BYTES,
};

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

/*
 * These functions format a field as printf() would, but seven times as fast, so that
 * the tool keeps up with the traced program. Each returns the address after the field.
 */

/* Like "%-*s", for names that the tool defines. */
static char *put_name(char *at, const char *text, size_t width)
{
	const size_t len = strlen(text);

	memset(at, ' ', width);
	memcpy(at, text, len);
	return at + (len < width ? width : len);
}

/* Like %*s. */
static char *put_right(char *at, const char *text, size_t width)
{
	const size_t len = strlen(text), before = len < width ? width - len : 0;

	memset(at, ' ', before);
	memcpy(at + before, text, len);
	return at + before + len;
}

/* Like "%*u", for a number that is longer than the width. */
static __attribute__((noinline)) char *put_long(char *at, uint64_t number)
{
	char text[DIGITS_MAX + 1];

	(void)snprintf(text, sizeof(text), "%" PRIu64, number);
	return put_name(at, text, 0);
}

/*
 * Like "%*u", filled with blanks or zeros. The width is constant, so memset() becomes a
 * single store.
 */
static inline __attribute__((always_inline)) char *
put_digits(char *at, uint64_t number, unsigned width, char filling)
{
	char *const end = at + width, *digit = end;
	uint64_t left = number;

	memset(at, filling, width);
	do {
		*--digit = (char)('0' + left % 10);
		left /= 10;
	} while (left && digit != at);
	return likely(!left) ? end : put_long(at, number);
}

static inline __attribute__((always_inline)) char *
put_number(char *at, uint64_t number, unsigned width)
{
	return put_digits(at, number, width, ' ');
}

static char *put_us(char *at, int64_t ns)
{
	*at++ = ' ';
	at = put_number(at, (uint64_t)ns / 1000, 8);
	*at++ = '.';
	*at++ = (char)('0' + (uint64_t)ns % 1000 / 100);
	return at;
}

/* Show times before the trace began as 0: a thread's clock may be slightly late. */
static char *put_moment(char *at, int64_t ns)
{
	const uint64_t us = ns > 0 ? (uint64_t)ns / 1000 : 0;

	at = put_number(at, us / 1000000, 5);
	*at++ = '.';
	return put_digits(at, us % 1000000, 6, '0');
}

static char *put_result(char *at, int32_t result)
{
	const char *error = uaio_error_name(-result);
	char text[DIGITS_MAX];

	*at++ = ' ';
	if (likely(result >= 0))
		return put_number(at, (uint64_t)result, 10);
	if (error)
		return put_right(at, error, 10);
	(void)snprintf(text, sizeof(text), "%" PRId32, result);
	return put_right(at, text, 10);
}

/* Write all fields of a line except the file's name. */
static char *put_request(char *at, const struct uaio_traced *traced)
{
	const struct uaio_trace_record *record = traced->record;

	at = put_moment(at, traced->ended_ns);
	*at++ = ' ';
	at = put_number(at, traced->tid, 7);
	*at++ = ' ';
	at = put_name(at, uaio_door_names[record->door % UAIO_NR_DOORS], 8);
	*at++ = ' ';
	at = put_name(at, op_name(record->op), 10);
	*at++ = ' ';
	at = record->off >= 0 ? put_number(at, (uint64_t)record->off, 12)
			      : put_right(at, "-", 12);
	*at++ = ' ';
	at = record->len ? put_number(at, record->len, 9)
			 : put_right(at, "-", 9);
	at = put_result(at, record->res);
	at = record->submitted ? put_us(at, uaio_traced_wait(traced))
			       : put_right(at, "-", US_WIDTH);
	at = record->submitted ? put_us(at, uaio_traced_service(traced))
			       : put_right(at, "-", US_WIDTH);
	*at++ = ' ';
	return put_name(at, uaio_by_names[record->by % UAIO_NR_BYS], 6);
}

void uaio_line(FILE *to, const struct uaio_traced *traced)
{
	char line[LINE_MAX_BYTES], *at = put_request(line, traced);
	size_t len = strlen(traced->file);

	if (len > NAME_MAX_BYTES)
		len = NAME_MAX_BYTES;
	if (len) {
		*at++ = ' ';
		memcpy(at, traced->file, len);
		at += len;
	} else if (traced->record->fd >= 0) {
		memcpy(at, " fd ", 4);
		at = put_long(at + 4, (uint64_t)traced->record->fd);
	}
	*at++ = '\n';
	(void)fwrite_unlocked(line, 1, (size_t)(at - line), to);
}

void uaio_line_lost(FILE *to, uint64_t nr)
{
	fprintf(to, "# %" PRIu64 " lost\n", nr);
}
