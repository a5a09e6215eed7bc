/* SPDX-License-Identifier: MIT */
/*
 * The table of options
 *
 * When the library is loaded, it reads each option from an environment variable. The
 * command `uaio` offers each option as a flag. `--foo-bar` and `UAIO_FOO_BAR` are
 * always the same option. An option that is not given has the value 0.
 *
 * The functions allocate nothing, keep no state and do not depend on the locale,
 * because the library calls them in any program before main().
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
	UAIO_OPTION_SEGMENTS,
	UAIO_OPTION_BOUNCE,
	UAIO_OPTION_STATS,
	UAIO_OPTION_STATS_JSON,
	UAIO_OPTION_LIVE,
	UAIO_OPTION_WORKERS,
	UAIO_OPTION_FIXED,
	UAIO_OPTION_MAX_ITEMS,
	UAIO_OPTION_CPUS,
	UAIO_OPTION_NICE,
	UAIO_OPTION_URING,
	UAIO_OPTION_POSIX,
	UAIO_OPTION_BACKEND,
	UAIO_OPTION_NO_PATCH,
	UAIO_OPTION_FAULT,
	UAIO_OPTION_TRAP,
	UAIO_OPTION_VERBOSE,
	UAIO_NR_OPTIONS,
};

enum uaio_option_kind {
	UAIO_OPTION_SWITCH, /* 1, yes, on: value 1; 0, no, off: value 0 */
	UAIO_OPTION_COUNT,  /* decimal digits, min <= value <= max */
	/*
	 * Text of faults (faults.h): value 1; 0, no, off: value 0. If the flag is given
	 * several times, the texts are joined.
	 */
	UAIO_OPTION_FAULTS,
	/*
	 * A path, in which %p stands for the process id: value 1. If the option may be
	 * given without a value, yes: value 1. 0, no, off: value 0.
	 */
	UAIO_OPTION_FILE,
	/*
	 * One count, or two counts separated by a comma; uaio_option_count() reads
	 * them.
	 */
	UAIO_OPTION_COUNTS,
	/* A number that may be negative; uaio_option_number() reads it. */
	UAIO_OPTION_NUMBER,
	/*
	 * A list of processors such as 0-2,5: value 1. uaio_option_cpus() parses the
	 * text.
	 */
	UAIO_OPTION_CPUS_LIST,
	/*
	 * One of several words: the value is the word's index in words. If the option
	 * may be given without a value, 1, yes and on stand for the flag without a
	 * value, and 0, no and off for the value 0.
	 */
	UAIO_OPTION_WORD,
};

/* The values of the option --uring. */
enum uaio_uring_when {
	UAIO_URING_AUTO, /* only if the kernel's io_uring is unavailable */
	UAIO_URING_ALWAYS,
	UAIO_URING_NEVER,
};

/* The values of the option --posix. */
enum uaio_posix_when {
	UAIO_POSIX_ON,
	UAIO_POSIX_OFF, /* do not replace the C library's functions */
};

/* The values of the option --live. */
enum uaio_live_when {
	UAIO_LIVE_YES, /* other processes of the user may read the counts */
	UAIO_LIVE_NO,
};

/* The values of the option --trap. */
enum uaio_trap_when {
	UAIO_TRAP_OFF,
	UAIO_TRAP_AUTO, /* only for programs that LD_PRELOAD cannot serve */
	UAIO_TRAP_ALWAYS,
};

/* The values of the option --backend. */
enum uaio_backend {
	UAIO_BACKEND_AUTO, /* the fastest backend that is known to be allowed */
	UAIO_BACKEND_THREADS, /* only worker threads */
	UAIO_BACKEND_AIO,     /* kernel AIO; worker threads if it is refused */
	UAIO_BACKEND_URING, /* the kernel's io_uring; worker threads if refused */
};

enum { UAIO_CPUS_MAX = 8192 };

/* A set of processors in the kernel's format. */
struct uaio_cpus {
	unsigned long words[UAIO_CPUS_MAX / (8 * sizeof(unsigned long))];
};

struct uaio_option {
	const char *name;     /* of the flag, without leading dashes */
	const char *variable; /* environment variable */
	enum uaio_option_kind kind;
	uint64_t min, max; /* bounds of a count, or of a number as int64_t */
	int usual[2];      /* defaults of counts that are not given */
	const char *const *words; /* the valid words, terminated by NULL */
	const char *placeholder;  /* name of the value in --help; or NULL */
	const char *bare; /* value of a flag given without one; or NULL */
	const char *help; /* at most 40 columns */
};

extern const struct uaio_option uaio_options[UAIO_NR_OPTIONS];

/*
 * Parse @text. Return: 0; -EINVAL if @text is no valid value of @opt: then *ret_value
 * is unchanged.
 */
int uaio_option_parse(const struct uaio_option *opt, const char *text,
		      uint64_t *ret_value);

/*
 * Return: the first count (which is 0) or the second (which is 1) of an option with
 * this value.
 */
int uaio_option_count(enum uaio_option_id id, uint64_t value, int which);

/* Return: whether the option was given; then *ret_number is set. */
bool uaio_option_number(const struct uaio_option *opt, uint64_t value,
			int *ret_number);

/* Parse @text. Return: 0; -EINVAL if @text is no list of processors. */
int uaio_option_cpus(const char *text, struct uaio_cpus *ret_cpus);

/*
 * Remove from *cpus the processors that are not in @allowed.
 * Return: whether any are left.
 */
bool uaio_cpus_cut(struct uaio_cpus *cpus, const struct uaio_cpus *allowed);

/*
 * Return: whether two valid values go together: there are not more fixed workers than
 * workers.
 */
bool uaio_option_fixed_fit(uint64_t workers, uint64_t fixed);
#define UAIO_OPTION_FIXED_EXPECTED "no more fixed workers than workers"
#define UAIO_OPTION_CALLS_EXPECTED "all, or what uaio run sets"

enum {
	UAIO_OPTION_COMPLAINT_MAX = 160,
	UAIO_OPTION_PATH_MAX = 4096,
};

/*
 * Write to @buf a line, without newline, that says what is wrong with @text. @given_as
 * is what the user typed: "--max-nr" or "UAIO_MAX_NR". UAIO_OPTION_COMPLAINT_MAX bytes
 * suffice for any line; a long @text is cut.
 */
void uaio_option_complaint(const struct uaio_option *opt, const char *given_as,
			   const char *text, char *buf, size_t len);

/* Like uaio_option_complaint(), if a valid value was given but @expected was needed. */
void uaio_option_complaint_of(const char *given_as, const char *text,
			      const char *expected, char *buf, size_t len);

/*
 * Write to @buf, of UAIO_OPTION_PATH_MAX bytes, the value @text of a UAIO_OPTION_FILE
 * as an absolute path. "-" (standard error) is not changed. @text is not "off". If the
 * path does not fit, @buf becomes the empty string.
 */
void uaio_option_absolute(const struct uaio_option *opt, const char *text,
			  char *buf);

/*
 * Write to @buf, of UAIO_OPTION_PATH_MAX bytes, the path that the value @text of a
 * UAIO_OPTION_FILE stands for: each %p is replaced by @pid.
 * Return: 0 or -ENAMETOOLONG.
 */
int uaio_option_path(const char *text, int pid, char *buf);

#endif
