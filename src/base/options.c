/* SPDX-License-Identifier: MIT */
#include "base/options.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

const struct uaio_option uaio_options[] = {
	[UAIO_OPTION_MAX_NR] = {
		.name = "max-nr",
		.variable = "UAIO_MAX_NR",
		.kind = UAIO_OPTION_COUNT,
		.min = 0,
		.max = UINT32_MAX,
		.placeholder = "N",
		.help = "limit on events of all contexts, 0: none",
	},
	[UAIO_OPTION_NEVER_BLOCK] = {
		.name = "never-block",
		.variable = "UAIO_NEVER_BLOCK",
		.kind = UAIO_OPTION_SWITCH,
		.help = "io_submit never waits for a disk to read",
	},
	[UAIO_OPTION_FORCE_WORKER] = {
		.name = "force-worker",
		.variable = "UAIO_FORCE_WORKER",
		.kind = UAIO_OPTION_SWITCH,
		.help = "for tests: all work in worker threads",
	},
	[UAIO_OPTION_STRICT] = {
		.name = "strict",
		.variable = "UAIO_STRICT",
		.kind = UAIO_OPTION_SWITCH,
		.help = "bad iocb addresses: EFAULT, not a fault",
	},
	[UAIO_OPTION_VERBOSE] = {
		.name = "verbose",
		.variable = "UAIO_VERBOSE",
		.kind = UAIO_OPTION_SWITCH,
		.help = "say at start what is interposed",
	},
};
static_assert(NR_ELEMENTS(uaio_options) == UAIO_NR_OPTIONS,
	      "a row for each option");

/* Returns 0 or 1, or -EINVAL. */
static int parse_switch(const char *text)
{
	static const char *const words[][3] = {
		{ "0", "no", "off" },
		{ "1", "yes", "on" },
	};

	for (int value = 0; value <= 1; value++) {
		for (size_t i = 0; i < NR_ELEMENTS(words[value]); i++) {
			if (!strcmp(text, words[value][i]))
				return value;
		}
	}
	return -EINVAL;
}

/*
 * strtoull() would take signs, blanks and in some locales separators, and
 * report through errno, which belongs to the host.
 */
static int parse_count(const char *text, uint64_t max, uint64_t *ret_value)
{
	uint64_t value = 0;

	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		unsigned int digit = (unsigned int)*text - '0';

		if (digit > 9 || digit > max || value > (max - digit) / 10)
			return -EINVAL;
		value = value * 10 + digit;
	}
	*ret_value = value;
	return 0;
}

int uaio_option_parse(const struct uaio_option *opt, const char *text,
		      uint64_t *ret_value)
{
	uint64_t value;
	int r;

	if (opt->kind == UAIO_OPTION_SWITCH) {
		r = parse_switch(text);
		if (r < 0)
			return r;
		value = (uint64_t)r;
	} else {
		r = parse_count(text, opt->max, &value);
		if (r < 0)
			return r;
		if (value < opt->min)
			return -EINVAL;
	}
	*ret_value = value;
	return 0;
}

/*
 * Copies a value so that it can stand in a one-line message: what would move
 * the cursor is shown as '?', what is too long is cut.
 */
static void copy_printable(char *to, size_t len, const char *text)
{
	size_t i;

	for (i = 0; text[i] && i < len - 1; i++) {
		unsigned char c = (unsigned char)text[i];

		to[i] = c < ' ' || c == 0x7f ? '?' : text[i];
	}
	to[i] = '\0';
	if (text[i])
		strcpy(to + len - sizeof("..."), "...");
}

void uaio_option_complaint(const struct uaio_option *opt, const char *given_as,
			   const char *text, char *buf, size_t len)
{
	char shown[40];

	copy_printable(shown, sizeof(shown), text);
	if (opt->kind == UAIO_OPTION_SWITCH)
		snprintf(buf, len,
			 "uaio: %s=%s: expected yes, no, on, off, 1 or 0",
			 given_as, shown);
	else
		snprintf(buf, len,
			 "uaio: %s=%s: expected a number from %" PRIu64
			 " to %" PRIu64,
			 given_as, shown, opt->min, opt->max);
}
