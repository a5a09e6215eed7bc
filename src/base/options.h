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
	UAIO_OPTION_VERBOSE,
	UAIO_NR_OPTIONS,
};

enum uaio_option_kind {
	UAIO_OPTION_SWITCH, /* 1, yes, on: value 1; 0, no, off: value 0 */
	UAIO_OPTION_COUNT,  /* decimal digits, min <= value <= max */
};

struct uaio_option {
	const char *name;     /* of the flag, without the dashes */
	const char *variable; /* of the environment */
	enum uaio_option_kind kind;
	uint64_t min, max;       /* of a count */
	const char *placeholder; /* stands for the value of a count in --help */
	const char *help;        /* what it does, in at most 40 columns */
};

extern const struct uaio_option uaio_options[UAIO_NR_OPTIONS];

/*
 * Return: 0, or -EINVAL when @text is not a value of @opt; then *ret_value is
 * left as it was.
 */
int uaio_option_parse(const struct uaio_option *opt, const char *text,
		      uint64_t *ret_value);

enum { UAIO_OPTION_COMPLAINT_MAX = 160 };

/*
 * Writes into @buf the line, without its newline, that tells a user what is
 * wrong with @text. @given_as is the name he used, "--max-nr" or "UAIO_MAX_NR".
 * With UAIO_OPTION_COMPLAINT_MAX bytes nothing is cut but an overlong @text.
 */
void uaio_option_complaint(const struct uaio_option *opt, const char *given_as,
			   const char *text, char *buf, size_t len);

#endif
