/* SPDX-License-Identifier: MIT */
#include "base/options.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"

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
		.alone = "1",
		.help = "io_submit never waits for a disk to read",
	},
	[UAIO_OPTION_FORCE_WORKER] = {
		.name = "force-worker",
		.variable = "UAIO_FORCE_WORKER",
		.kind = UAIO_OPTION_SWITCH,
		.alone = "1",
		.help = "for tests: all work in worker threads",
	},
	[UAIO_OPTION_STRICT] = {
		.name = "strict",
		.variable = "UAIO_STRICT",
		.kind = UAIO_OPTION_SWITCH,
		.alone = "1",
		.help = "bad iocb addresses: EFAULT, not a fault",
	},
	[UAIO_OPTION_STATS] = {
		.name = "stats",
		.variable = "UAIO_STATS",
		.kind = UAIO_OPTION_FILE,
		.placeholder = "[=FILE]",
		.alone = "-",
		.help = "at exit, say what ran and how fast",
	},
	[UAIO_OPTION_STATS_JSON] = {
		.name = "stats-json",
		.variable = "UAIO_STATS_JSON",
		.kind = UAIO_OPTION_FILE,
		.placeholder = "FILE",
		.help = "the same as a line of JSON",
	},
	[UAIO_OPTION_VERBOSE] = {
		.name = "verbose",
		.variable = "UAIO_VERBOSE",
		.kind = UAIO_OPTION_SWITCH,
		.alone = "1",
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

/* Returns 0 or 1, or -EINVAL. */
static int parse_file(const char *text)
{
	size_t len = strlen(text);

	if (parse_switch(text) == 0)
		return 0;
	if (!len || len >= UAIO_OPTION_PATH_MAX)
		return -EINVAL;
	for (; *text; text++) {
		if (*text != '%')
			continue;
		text++;
		if (*text != 'p' && *text != '%')
			return -EINVAL;
	}
	return 1;
}

/* Returns the bytes written: the working directory and a slash, or nothing. */
static size_t put_directory(char *buf)
{
	char dir[UAIO_OPTION_PATH_MAX];
	size_t used = 0;

	if (sys_getcwd(dir, sizeof(dir)) < 0)
		return 0;
	for (const char *from = dir; *from; from++) {
		if (used + 3 >= UAIO_OPTION_PATH_MAX)
			return 0;
		if (*from == '%')
			buf[used++] = '%';
		buf[used++] = *from;
	}
	buf[used++] = '/';
	return used;
}

void uaio_option_absolute(const struct uaio_option *opt, const char *text,
			  char *buf)
{
	size_t used = 0;

	if (opt->alone && parse_switch(text) == 1)
		text = opt->alone;
	if (text[0] != '/' && strcmp(text, "-") != 0)
		used = put_directory(buf);
	if (used + strlen(text) >= UAIO_OPTION_PATH_MAX)
		buf[0] = '\0';
	else
		strcpy(buf + used, text);
}

int uaio_option_path(const char *text, int pid, char *buf)
{
	const char *end = buf + UAIO_OPTION_PATH_MAX;

	for (; *text; text++) {
		int len = 1;

		if (end - buf <= 12)
			return -ENAMETOOLONG;
		if (*text != '%')
			*buf = *text;
		else if (*++text == 'p')
			len = snprintf(buf, 12, "%d", pid);
		else
			*buf = '%';
		buf += len;
	}
	*buf = '\0';
	return 0;
}

int uaio_option_parse(const struct uaio_option *opt, const char *text,
		      uint64_t *ret_value)
{
	uint64_t value;
	int r;

	if (opt->kind != UAIO_OPTION_COUNT) {
		r = opt->kind == UAIO_OPTION_SWITCH ? parse_switch(text)
						    : parse_file(text);
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
	else if (opt->kind == UAIO_OPTION_FILE)
		snprintf(buf, len,
			 "uaio: %s=%s: expected the path of a file, with %%p "
			 "for the process id and %%%% for a %%",
			 given_as, shown);
	else
		snprintf(buf, len,
			 "uaio: %s=%s: expected a number from %" PRIu64
			 " to %" PRIu64,
			 given_as, shown, opt->min, opt->max);
}
