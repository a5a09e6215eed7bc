/* SPDX-License-Identifier: MIT */
/*
 * Faults that a user asks for: the language of --fault
 *
 *   OPERATION:FAULT[@KEY=VALUE[,KEY=VALUE...]]
 *
 * Several stand beside each other, separated by blanks or semicolons.
 * man/uaio-fault.7.scd describes it; issue/fault.h makes the faults.
 *
 * The functions allocate nothing and keep no state, as those of options.h.
 */
#ifndef UAIO_OPTIONS_FAULTS_H
#define UAIO_OPTIONS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum uaio_fault_kind {
	UAIO_FAULT_ERROR,   /* it ends with an error, and is not executed */
	UAIO_FAULT_SHORT,   /* it moves only part of its bytes */
	UAIO_FAULT_DELAY,   /* it ends later than it would */
	UAIO_FAULT_REORDER, /* the same, by a time that chance decides */
	UAIO_FAULT_DEFER,   /* it begins later than it would */
	UAIO_NR_FAULT_KINDS,
};

extern const char *const uaio_fault_names[UAIO_NR_FAULT_KINDS];

enum {
	UAIO_FAULTS_MAX = 16,
	UAIO_FAULT_PATH_MAX = 256,
	UAIO_FAULT_RANGES_MAX = 256,     /* of all faults together */
	UAIO_FAULT_CERTAIN = 1000000000, /* the chance of what always happens */
};

struct uaio_fault {
	uint64_t ops; /* a bit for each enum uaio_op */
	enum uaio_fault_kind kind;
	int error;        /* of ERROR */
	int64_t time_ns;  /* of DELAY and DEFER, and at most of REORDER */
	uint32_t chance;  /* of so many: UAIO_FAULT_CERTAIN */
	uint64_t seed;    /* what chance starts from */
	uint64_t after;   /* so many requests are left alone first */
	uint64_t every;   /* then one of so many may have it */
	uint64_t count;   /* so many have it at most; 0: no limit */
	uint64_t min_len; /* only those that move so many bytes */
	char path[UAIO_FAULT_PATH_MAX]; /* of its file: a pattern; "": any */
	unsigned only;    /* the first range of numbers that may have it */
	unsigned nr_only; /* how many ranges there are; 0: all numbers may */
};

/* Numbers of requests. */
struct uaio_fault_range {
	uint64_t first, last;
};

struct uaio_faults {
	unsigned nr, nr_ranges;
	struct uaio_fault faults[UAIO_FAULTS_MAX];
	struct uaio_fault_range ranges[UAIO_FAULT_RANGES_MAX];
};

/*
 * Read text into *ret, which is all 0.
 * Return: 0; or -EINVAL, with what would have been right in @expected, of len bytes.
 */
int uaio_faults_parse(const char *text, struct uaio_faults *ret, char *expected,
		      size_t len);

/*
 * Read names of operations, or of groups of them, separated by commas: a bit for each.
 * Return: 0 or -EINVAL.
 */
int uaio_operations_parse(const char *text, uint64_t *ret_ops);

/* Read a time such as 5ms. Return: 0 or -EINVAL. */
int uaio_time_parse(const char *text, int64_t *ret_ns);

/*
 * Return: whether all of text is as pattern, in which * stands for any characters,
 * of slashes too, and ? for one.
 */
bool uaio_fault_matches(const char *pattern, const char *text);

#endif /* UAIO_OPTIONS_FAULTS_H */
