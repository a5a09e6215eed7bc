/* SPDX-License-Identifier: MIT */
/*
 * The options of a run, in one table: the library reads them from environment
 * variables when it is loaded, and the tool offers each as a flag. `--foo-bar`
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
	 * Faults (faults.h): value 1; 0, no, off: value 0. If the flag is given more
	 * than once, the texts stand behind each other.
	 */
	UAIO_OPTION_FAULTS,
	/*
	 * A path, in which %p stands for the process id; or yes, if the option
	 * may be given without a value: value 1. 0, no, off: value 0.
	 */
	UAIO_OPTION_FILE,
	/* One count, or two separated by a comma: see uaio_option_count(). */
	UAIO_OPTION_COUNTS,
	/* A number that may be negative: see uaio_option_number(). */
	UAIO_OPTION_NUMBER,
	/* A list of processors such as 0-2,5: value 1; uaio_option_cpus(). */
	UAIO_OPTION_CPUS_LIST,
	/*
	 * One of some words: the value is its place among them, from 0. If the option
	 * may be given without a value, also 1, yes, on: that of the flag; 0, no,
	 * off: value 0.
	 */
	UAIO_OPTION_WORD,
};

/* The values of the option --uring. */
enum uaio_uring_when {
	UAIO_URING_AUTO, /* where the kernel's io_uring is refused */
	UAIO_URING_ALWAYS,
	UAIO_URING_NEVER,
};

/* The values of the option --posix. */
enum uaio_posix_when {
	UAIO_POSIX_ON,
	UAIO_POSIX_OFF, /* the C library's functions are left as they are */
};

/* The values of the option --live. */
enum uaio_live_when {
	UAIO_LIVE_YES, /* others of the same user may read the counts */
	UAIO_LIVE_NO,
};

/* The values of the option --trap. */
enum uaio_trap_when {
	UAIO_TRAP_OFF,
	UAIO_TRAP_AUTO, /* what a library in front of it would not serve */
	UAIO_TRAP_ALWAYS,
};

/* The values of the option --backend. */
enum uaio_backend {
	UAIO_BACKEND_AUTO,    /* the best that is known to be allowed */
	UAIO_BACKEND_THREADS, /* workers alone */
	UAIO_BACKEND_AIO,     /* kernel AIO; where it is refused, workers */
	UAIO_BACKEND_URING,   /* io_uring; where it is refused, workers */
};

enum { UAIO_CPUS_MAX = 8192 };

/* A set of processors, in the kernel's format. */
struct uaio_cpus {
	unsigned long words[UAIO_CPUS_MAX / (8 * sizeof(unsigned long))];
};

struct uaio_option {
	const char *name;     /* of the flag, without the dashes */
	const char *variable; /* in the environment */
	enum uaio_option_kind kind;
	uint64_t min, max;        /* of a count; of a number, as int64_t */
	int usual[2];             /* the values of counts that are not given */
	const char *const *words; /* of a word; NULL behind the last */
	const char *placeholder;  /* for the value in --help; NULL: none */
	const char *bare;         /* the value of a flag without one; or NULL */
	const char *help;         /* what it does, in at most 40 columns */
};

extern const struct uaio_option uaio_options[UAIO_NR_OPTIONS];

/*
 * Return: 0, or -EINVAL if @text is not a value of @opt; then *ret_value does
 * not change.
 */
int uaio_option_parse(const struct uaio_option *opt, const char *text,
		      uint64_t *ret_value);

/* Return: of an option with this value, the first (0) or second (1) count. */
int uaio_option_count(enum uaio_option_id id, uint64_t value, int which);

/*
 * Return: whether an option with this value was given; then *ret_number is its
 * number.
 */
bool uaio_option_number(const struct uaio_option *opt, uint64_t value,
			int *ret_number);

/* Return: 0, or -EINVAL if @text is not a list of processors. */
int uaio_option_cpus(const char *text, struct uaio_cpus *ret_cpus);

/*
 * Remove from *cpus those that are not in @allowed.
 * Return: whether any are left.
 */
bool uaio_cpus_cut(struct uaio_cpus *cpus, const struct uaio_cpus *allowed);

/*
 * Two values may each be valid and still not fit each other.
 * Return: whether there are no more fixed workers than workers.
 */
bool uaio_option_fixed_fit(uint64_t workers, uint64_t fixed);
#define UAIO_OPTION_FIXED_EXPECTED "no more fixed workers than workers"
#define UAIO_OPTION_CALLS_EXPECTED "all, or what uaio run sets"

enum {
	UAIO_OPTION_COMPLAINT_MAX = 160,
	UAIO_OPTION_PATH_MAX = 4096,
};

/*
 * Write into @buf a line, without the newline, that tells the user what is
 * wrong with @text. @given_as is the name that the user gave: "--max-nr" or
 * "UAIO_MAX_NR". If @buf has UAIO_OPTION_COMPLAINT_MAX bytes, nothing is cut
 * but an overlong @text.
 */
void uaio_option_complaint(const struct uaio_option *opt, const char *given_as,
			   const char *text, char *buf, size_t len);

/* The same for a value that is valid in itself, where @expected was needed. */
void uaio_option_complaint_of(const char *given_as, const char *text,
			      const char *expected, char *buf, size_t len);

/*
 * @text is a value of a UAIO_OPTION_FILE, and not "off". Write it into @buf,
 * which has UAIO_OPTION_PATH_MAX bytes, as an absolute path; but "-", the
 * standard error, stays "-". If it does not fit, @buf becomes the empty string.
 */
void uaio_option_absolute(const struct uaio_option *opt, const char *text,
			  char *buf);

/*
 * Write the path that @text, a value of a UAIO_OPTION_FILE, stands for into
 * @buf, which has UAIO_OPTION_PATH_MAX bytes. Each %p becomes @pid.
 * Return: 0, or -ENAMETOOLONG.
 */
int uaio_option_path(const char *text, int pid, char *buf);

#endif
