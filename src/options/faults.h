/* SPDX-License-Identifier: MIT */
/*
 * The faults that a user requests: the language of --fault
 *
 *   OPERATION:FAULT[@KEY=VALUE[,KEY=VALUE...]]
 *
 * Blanks or semicolons separate several faults. man/uaio-fault.7.scd describes the
 * language; issue/fault.h injects the faults.
 *
 * The functions allocate nothing and keep no state, like the functions of options.h.
 */
#ifndef UAIO_OPTIONS_FAULTS_H
#define UAIO_OPTIONS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum uaio_fault_kind {
	UAIO_FAULT_ERROR,   /* fail with an error, without being executed */
	UAIO_FAULT_SHORT,   /* transfer only part of the bytes */
	UAIO_FAULT_DELAY,   /* complete late */
	UAIO_FAULT_REORDER, /* complete late, by a random time */
	UAIO_FAULT_DEFER,   /* start late */
	UAIO_NR_FAULT_KINDS,
};

extern const char *const uaio_fault_names[UAIO_NR_FAULT_KINDS];

enum {
	UAIO_FAULTS_MAX = 16,
	UAIO_FAULT_PATH_MAX = 256,
	UAIO_FAULT_RANGES_MAX = 256,     /* in all faults together */
	UAIO_FAULT_CERTAIN = 1000000000, /* a chance of 1 */
};

struct uaio_fault {
	uint64_t ops; /* bits: enum uaio_op */
	enum uaio_fault_kind kind;
	int error;        /* for ERROR */
	int64_t time_ns;  /* for DELAY and DEFER; for REORDER the maximum */
	uint32_t chance;  /* parts of UAIO_FAULT_CERTAIN */
	uint64_t seed;    /* of the random numbers that chance and time use */
	uint64_t after;   /* how many requests are skipped first */
	uint64_t every;   /* after these, one of this many may get the fault */
	uint64_t count;   /* most requests that get the fault; 0: no limit */
	uint64_t min_len; /* least length of a request that may get the fault */
	char path[UAIO_FAULT_PATH_MAX]; /* pattern for its file; "": any file */
	unsigned only;    /* index of the first range; see nr_only */
	unsigned nr_only; /* ranges of requests that may get it; 0: all may */
};

/* A range of numbers of requests. */
struct uaio_fault_range {
	uint64_t first, last;
};

struct uaio_faults {
	unsigned nr, nr_ranges;
	struct uaio_fault faults[UAIO_FAULTS_MAX];
	struct uaio_fault_range ranges[UAIO_FAULT_RANGES_MAX];
};

/*
 * Parse text into *ret, all of whose bytes are 0.
 * Return: 0; -EINVAL with the valid syntax in expected, which has len bytes.
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
