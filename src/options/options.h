/* SPDX-License-Identifier: MIT */
/*
 * The options of a run: one table for the library, which reads the variables
 * when it is loaded, and for the tool, which offers each as a flag. `--foo-bar`
 * and `UAIO_FOO_BAR` are always the same option. An option that is not given
 * has the value 0.
 *
 * The functions allocate nothing, keep no state and do not depend on the
 * locale: the library calls them inside other people's processes before main().
 */
#ifndef UAIO_OPTIONS_OPTIONS_H
#define UAIO_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum uaio_option_id {
	UAIO_OPTION_MAX_NR,
	UAIO_OPTION_NEVER_BLOCK,
	UAIO_OPTION_FORCE_WORKER,
	UAIO_OPTION_STRICT,
	UAIO_OPTION_DIRECT_WIDTH,
	UAIO_OPTION_BOUNCE,
	UAIO_OPTION_STATS,
	UAIO_OPTION_STATS_JSON,
	UAIO_OPTION_WORKERS,
	UAIO_OPTION_FIXED,
	UAIO_OPTION_MAX_WORKS,
	UAIO_OPTION_CPUS,
	UAIO_OPTION_NICE,
	UAIO_OPTION_VERBOSE,
	UAIO_NR_OPTIONS,
};

enum uaio_option_kind {
	UAIO_OPTION_SWITCH, /* 1, yes, on: value 1; 0, no, off: value 0 */
	UAIO_OPTION_COUNT,  /* decimal digits, min <= value <= max */
	/* A path, in which %p is the process id, or yes where a name alone will
	 * do: value 1; 0, no, off: value 0. */
	UAIO_OPTION_FILE,
	/* One count, or two with a comma between: see uaio_option_count(). */
	UAIO_OPTION_COUNTS,
	/* A number with its sign: see uaio_option_number(). */
	UAIO_OPTION_NUMBER,
	/* Processors, as in 0-2,5: value 1, see uaio_option_cpus(). */
	UAIO_OPTION_CPUS_LIST,
};

enum { UAIO_CPUS_MAX = 8192 };

/* A set of processors, as the kernel has it. */
struct uaio_cpus {
	unsigned long words[UAIO_CPUS_MAX / (8 * sizeof(unsigned long))];
};

struct uaio_option {
	const char *name;     /* of the flag, without the dashes */
	const char *variable; /* of the environment */
	enum uaio_option_kind kind;
	uint64_t min, max;       /* of a count; of a number as int64_t */
	int usual[2];            /* counts that are not given */
	const char *placeholder; /* for the value in --help; NULL: none */
	const char *alone;       /* what the flag without a value means */
	const char *help;        /* what it does, in at most 40 columns */
};

extern const struct uaio_option uaio_options[UAIO_NR_OPTIONS];

/*
 * Return: 0, or -EINVAL when @text is not a value of @opt; then *ret_value is
 * left as it was.
 */
int uaio_option_parse(const struct uaio_option *opt, const char *text,
		      uint64_t *ret_value);

/* Return: the first (0) or second (1) count of an option of such a value. */
int uaio_option_count(enum uaio_option_id id, uint64_t value, int which);

/* Return: whether an option of such a value is given, with its number. */
bool uaio_option_number(const struct uaio_option *opt, uint64_t value,
			int *ret_number);

/* Return: 0, or -EINVAL when @text is no list of processors. */
int uaio_option_cpus(const char *text, struct uaio_cpus *ret_cpus);

/* Return: whether any is left of *cpus when only those of @allowed are. */
bool uaio_cpus_cut(struct uaio_cpus *cpus, const struct uaio_cpus *allowed);

/*
 * Values that are each right need not fit each other.
 * Return: whether there are no more fixed workers than workers.
 */
bool uaio_option_fixed_fit(uint64_t workers, uint64_t fixed);
#define UAIO_OPTION_FIXED_EXPECTED "no more fixed workers than workers"

enum {
	UAIO_OPTION_COMPLAINT_MAX = 160,
	UAIO_OPTION_PATH_MAX = 4096,
};

/*
 * Writes into @buf the line, without its newline, that tells a user what is
 * wrong with @text. @given_as is the name he used, "--max-nr" or "UAIO_MAX_NR".
 * With UAIO_OPTION_COMPLAINT_MAX bytes nothing is cut but an overlong @text.
 */
void uaio_option_complaint(const struct uaio_option *opt, const char *given_as,
			   const char *text, char *buf, size_t len);

/* The same for a value that is right, and has to be @expected otherwise. */
void uaio_option_complaint_of(const char *given_as, const char *text,
			      const char *expected, char *buf, size_t len);

/*
 * Writes @text, a value of a UAIO_OPTION_FILE that is not off, into @buf of
 * UAIO_OPTION_PATH_MAX bytes so that it means the same in any working
 * directory. What does not fit becomes the empty text.
 */
void uaio_option_absolute(const struct uaio_option *opt, const char *text,
			  char *buf);

/*
 * Writes the path that a UAIO_OPTION_FILE means into @buf of
 * UAIO_OPTION_PATH_MAX bytes, with @pid for each %p.
 * Return: 0, or -ENAMETOOLONG.
 */
int uaio_option_path(const char *text, int pid, char *buf);

#endif
