/* SPDX-License-Identifier: MIT */
/*
 * Internals of the report, shared by report.c (when and where to report), reportprint.c
 * (the text) and unserved.c (programs that the library does not serve)
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

/* The data that a report contains. */
struct uaio_subject {
	int pid;
	/* `uaio run` started this process itself */
	bool is_started;
	char comm[UAIO_COMM_MAX];
	struct uaio_counters counters;
	struct uaio_stats_sum stats;
};

struct uaio_text {
	char buf[8192];
	size_t len;
};

/* reportprint.c: writes the text of the report */

/* Append to the text. If the buffer is full, the text is cut. */
__attribute__((format(printf, 2, 3))) void
uaio_text_add(struct uaio_text *text, const char *format, ...);

typedef void uaio_print_fn(struct uaio_text *text,
			   const struct uaio_subject *subject);

uaio_print_fn uaio_print_block; /* prints the block of text (--stats) */
/* prints one line of JSON (--stats-json), which stats.schema.json describes */
uaio_print_fn uaio_print_json;
/* prints one line of counters, for benchmarks */
uaio_print_fn uaio_print_counters;

/* unserved.c: records why the library does not serve the program */

/* Return: the first reason why the library did not serve the program; or NULL. */
const char *uaio_unserved_why(void);

/*
 * Return: the first limit because of which the kernel refused this process a ring; or
 * NULL. *ret_nr: how many rings the kernel has made.
 */
const char *uaio_unserved_limit(uint64_t *ret_nr);

#endif /* UAIO_LIFE_REPORTINT_H */
