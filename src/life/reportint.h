/* SPDX-License-Identifier: MIT */
/*
 * Internals of the report, shared by report.c (when and where), reportprint.c (the text) and
 * unserved.c (clients that were not served)
 *
 * Tested by test/run/stats.py.
 */
#ifndef UAIO_LIFE_REPORTINT_H
#define UAIO_LIFE_REPORTINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "req/stats.h"
#include "uaio.h"

enum { UAIO_COMM_MAX = 16 };

/* The data of a report. */
struct uaio_subject {
	int pid;
	bool is_started; /* `uaio run` started this program */
	char comm[UAIO_COMM_MAX];
	struct uaio_counters counters;
	struct uaio_stats_sum stats;
};

struct uaio_text {
	char buf[8192];
	size_t len;
};

/* reportprint.c */

/* Append to the text, which is cut if the buffer is full. */
__attribute__((format(printf, 2, 3))) void
uaio_text_add(struct uaio_text *text, const char *format, ...);

typedef void uaio_print_fn(struct uaio_text *text,
			   const struct uaio_subject *subject);

uaio_print_fn uaio_print_block; /* for people */
uaio_print_fn uaio_print_json;  /* one line of JSON, as in stats.schema.json */
uaio_print_fn uaio_print_counters; /* one line of counters, for benchmarks */

/* unserved.c */

/* Return: why the first unserved client was not served; or NULL. */
const char *uaio_unserved_why(void);

/*
 * Return: the limit because of which the kernel refused this process a ring; or NULL.
 * *ret_nr: how many rings the kernel made.
 */
const char *uaio_unserved_limit(uint64_t *ret_nr);

#endif /* UAIO_LIFE_REPORTINT_H */
