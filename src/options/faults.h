/* SPDX-License-Identifier: MIT */
/*
 * Faults that the user asks for: the language of the option --fault
 *
 *   OPERATION:FAULT[@KEY=VALUE[,KEY=VALUE...]]
 *
 * In the text, blanks or semicolons separate faults. man/uaio-fault.7.scd describes the
 * syntax; issue/fault.h injects the faults.
 *
 * The functions below allocate no memory and keep no state, so the library may call
 * them before main().
 */
#ifndef UAIO_OPTIONS_FAULTS_H
#define UAIO_OPTIONS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum uaio_fault_kind {
	/* the request fails with an error, without being executed */
	UAIO_FAULT_ERROR,
	/* only part of the bytes are transferred */
	UAIO_FAULT_SHORT,
	UAIO_FAULT_DELAY, /* complete late */
	/* complete late: each request gets its own random delay */
	UAIO_FAULT_REORDER,
	UAIO_FAULT_DEFER, /* start late */
	UAIO_NR_FAULT_KINDS,
};

extern const char *const uaio_fault_names[UAIO_NR_FAULT_KINDS];

enum {
	UAIO_FAULTS_MAX = 16,
	UAIO_FAULT_PATH_MAX = 256,
	/* how many ranges of requests all faults together may have at most */
	UAIO_FAULT_RANGES_MAX = 256,
	/* value of `chance` that means probability 1 */
	UAIO_FAULT_CERTAIN = 1000000000,
};

struct uaio_fault {
	uint64_t ops; /* bits: enum uaio_op */
	enum uaio_fault_kind kind;
	int error; /* for ERROR: the error number */
	/* for DELAY and DEFER: the delay; for REORDER: the longest delay */
	int64_t time_ns;
	uint32_t chance; /* parts of UAIO_FAULT_CERTAIN */
	/* seed of the random numbers for `chance` and REORDER */
	uint64_t seed;
	/* the first `after` requests do not get the fault */
	uint64_t after;
	/*
	 * of the requests after the first `after` ones, only one in `every` may get the
	 * fault
	 */
	uint64_t every;
	/* at most this number of requests get the fault; 0: no limit */
	uint64_t count;
	/* only requests of at least this length may get the fault */
	uint64_t min_len;
	/* pattern for the path of the request's file; "": any file */
	char path[UAIO_FAULT_PATH_MAX];
	/* index of the fault's first range of requests in struct uaio_faults */
	unsigned only;
	/*
	 * how many ranges the fault has; 0: any request may get the fault; else only
	 * requests in these ranges
	 */
	unsigned nr_only;
};

/* A range of request numbers. Each fault numbers the requests that it applies to, from 1. */
struct uaio_fault_range {
	uint64_t first, last;
};

struct uaio_faults {
	unsigned nr, nr_ranges;
	struct uaio_fault faults[UAIO_FAULTS_MAX];
	struct uaio_fault_range ranges[UAIO_FAULT_RANGES_MAX];
};

/*
 * Parse text into *ret, which the caller has zeroed.
 * Return: 0; -EINVAL, and the valid syntax in expected, a buffer of len bytes.
 */
int uaio_faults_parse(const char *text, struct uaio_faults *ret, char *expected,
		      size_t len);

/*
 * Parse names of operations or groups, separated by commas. *ret_ops: a bit for each
 * operation.
 * Return: 0 or -EINVAL.
 */
int uaio_operations_parse(const char *text, uint64_t *ret_ops);

/* Parse a time such as 5ms. Return: 0 or -EINVAL. */
int uaio_time_parse(const char *text, int64_t *ret_ns);

/*
 * Return: whether pattern matches all of text. A * matches any number of characters,
 * including slashes; a ? matches one character.
 */
bool uaio_fault_matches(const char *pattern, const char *text);

#endif /* UAIO_OPTIONS_FAULTS_H */
