/* SPDX-License-Identifier: MIT */
/*
 * The table of run-time options
 *
 * When the library is loaded, it reads each option from an environment variable. For
 * each option the command `uaio` has a flag. The flag `--foo-bar` and the variable
 * `UAIO_FOO_BAR` always mean the same option. An option that is not given has the value
 * 0.
 *
 * The functions allocate no memory, keep no state and do not depend on the locale: the
 * library calls them in any program before main().
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
	/* "1", "yes", "on": value 1; "0", "no", "off": value 0 */
	UAIO_OPTION_SWITCH,
	/* a number in decimal digits from min to max */
	UAIO_OPTION_COUNT,
	/*
	 * Text that describes faults (faults.h): value 1; "0", "no", "off": value 0. If
	 * the flag is given several times, the texts are joined.
	 */
	UAIO_OPTION_FAULTS,
	/*
	 * A path, in which %p stands for the process id: value 1; "0", "no", "off":
	 * value 0. If the flag may be given without a value, "yes" also means value 1.
	 */
	UAIO_OPTION_FILE,
	/*
	 * One count, or two counts separated by a comma, packed into the value.
	 * uaio_option_count() extracts them.
	 */
	UAIO_OPTION_COUNTS,
	/*
	 * A number that may be negative. The value 0 means that the option is not given,
	 * so the number is stored in a form that is never 0. uaio_option_number()
	 * extracts the number.
	 */
	UAIO_OPTION_NUMBER,
	/*
	 * A list of processors such as 0-2,5: value 1. uaio_option_cpus() parses the
	 * list.
	 */
	UAIO_OPTION_CPUS_LIST,
	/*
	 * One of several words; the value is the index of the word in `words`. If the
	 * flag may be given without a value, "1", "yes" and "on" have the value of the
	 * bare flag, and "0", "no" and "off" have the value 0.
	 */
	UAIO_OPTION_WORD,
};

/* The values of the option --uring. */
enum uaio_uring_when {
	/* the library makes io_uring rings only if the kernel cannot make them */
	UAIO_URING_AUTO,
	UAIO_URING_ALWAYS,
	UAIO_URING_NEVER,
};

/* The values of the option --posix. */
enum uaio_posix_when {
	UAIO_POSIX_ON,
	/* the program gets the C library's POSIX AIO functions */
	UAIO_POSIX_OFF,
};

/* The values of the option --live. */
enum uaio_live_when {
	/* other processes of the same user may read the counts */
	UAIO_LIVE_YES,
	UAIO_LIVE_NO,
};

/* The values of the option --trap. */
enum uaio_trap_when {
	UAIO_TRAP_OFF,
	/*
	 * trap system calls only of programs into which LD_PRELOAD cannot load the
	 * library
	 */
	UAIO_TRAP_AUTO,
	UAIO_TRAP_ALWAYS,
};

/* The values of the option --backend. */
enum uaio_backend {
	/*
	 * kernel AIO; if it is refused, the kernel's io_uring for small requests, and
	 * worker threads
	 */
	UAIO_BACKEND_AUTO,
	UAIO_BACKEND_THREADS, /* only worker threads */
	/* kernel AIO; if it is refused, worker threads */
	UAIO_BACKEND_AIO,
	/* the kernel's io_uring; if it is refused, worker threads */
	UAIO_BACKEND_URING,
};

enum { UAIO_CPUS_MAX = 8192 };

/* A set of processors, one bit each, as in sched_setaffinity(2). */
struct uaio_cpus {
	unsigned long words[UAIO_CPUS_MAX / (8 * sizeof(unsigned long))];
};

struct uaio_option {
	/* name of the flag, without leading dashes */
	const char *name;
	const char *variable; /* environment variable */
	enum uaio_option_kind kind;
	/* bounds of a COUNT; for a NUMBER they are of type int64_t */
	uint64_t min, max;
	/* for COUNTS: the default values of the two counts */
	int usual[2];
	/* for WORD: the valid words; the last element is NULL */
	const char *const *words;
	/* what --help shows as the value, such as "N"; or NULL */
	const char *placeholder;
	/* the meaning of the flag without a value; NULL: the flag needs a value */
	const char *bare;
	/* text for --help, at most 40 columns wide */
	const char *help;
};

extern const struct uaio_option uaio_options[UAIO_NR_OPTIONS];

/*
 * Parse @text as a value of @opt.
 * Return: 0 with *ret_value; -EINVAL if @text is not a valid value.
 */
int uaio_option_parse(const struct uaio_option *opt, const char *text,
		      uint64_t *ret_value);

/*
 * value: the parsed value of an option of kind COUNTS.
 * Return: its first count (if which is 0) or its second count (if which is 1).
 */
int uaio_option_count(enum uaio_option_id id, uint64_t value, int which);

/*
 * value: the parsed value of an option of kind NUMBER.
 * Return: false if the option was not given; otherwise *ret_number is its number.
 */
bool uaio_option_number(const struct uaio_option *opt, uint64_t value,
			int *ret_number);

/*
 * Parse @text as a list of processors.
 * Return: 0; -EINVAL if @text is no valid list.
 */
int uaio_option_cpus(const char *text, struct uaio_cpus *ret_cpus);

/*
 * Remove from *cpus the processors that are not in *allowed.
 * Return: whether any processor is left.
 */
bool uaio_cpus_cut(struct uaio_cpus *cpus, const struct uaio_cpus *allowed);

/*
 * The options --fixed and --workers have a count for each of the two kinds of workers.
 * Return: whether no count of --fixed is above that of --workers.
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
 * is the name that the user typed: "--max-nr" or "UAIO_MAX_NR".
 * UAIO_OPTION_COMPLAINT_MAX bytes are enough for any line; a long @text is cut.
 */
void uaio_option_complaint(const struct uaio_option *opt, const char *given_as,
			   const char *text, char *buf, size_t len);

/*
 * Like uaio_option_complaint(), but @text may be a valid value, and the line says that
 * @expected was needed.
 */
void uaio_option_complaint_of(const char *given_as, const char *text,
			      const char *expected, char *buf, size_t len);

/*
 * @text is the value of an option of kind FILE, and not "off". Write it as an absolute
 * path to @buf, which has UAIO_OPTION_PATH_MAX bytes. "-" (standard error) is not
 * changed. If the path does not fit, @buf becomes the empty string.
 */
void uaio_option_absolute(const struct uaio_option *opt, const char *text,
			  char *buf);

/*
 * @text is the value of an option of kind FILE. Write the path to @buf, which has
 * UAIO_OPTION_PATH_MAX bytes, and replace each %p by @pid.
 * Return: 0 or -ENAMETOOLONG.
 */
int uaio_option_path(const char *text, int pid, char *buf);

#endif
