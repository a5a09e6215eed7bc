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
#ifndef UAIO_BASE_OPTIONS_H
#define UAIO_BASE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

enum uaio_option_id {
	UAIO_OPTION_MAX_NR,
	UAIO_OPTION_NEVER_BLOCK,
	UAIO_OPTION_FORCE_WORKER,
	UAIO_OPTION_STRICT,
	UAIO_OPTION_STATS,
	UAIO_OPTION_STATS_JSON,
	UAIO_OPTION_VERBOSE,
	UAIO_NR_OPTIONS,
};

enum uaio_option_kind {
	UAIO_OPTION_SWITCH, /* 1, yes, on: value 1; 0, no, off: value 0 */
	UAIO_OPTION_COUNT,  /* decimal digits, min <= value <= max */
	/* A path, in which %p is the process id, or yes where a name alone will
	 * do: value 1; 0, no, off: value 0. */
	UAIO_OPTION_FILE,
};

struct uaio_option {
	const char *name;     /* of the flag, without the dashes */
	const char *variable; /* of the environment */
	enum uaio_option_kind kind;
	uint64_t min, max;       /* of a count */
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
