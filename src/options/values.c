/* SPDX-License-Identifier: MIT */
/*
 * Parses values of options, and writes the message about an invalid value
 *
 * Tested by test-options.c.
 */
#include "options/options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sys.h"
#include "options/faults.h"

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

enum {
	/* bytes for two valid numbers and a separator */
	PART_MAX = 24,
	WORD_BITS = 8 * sizeof(unsigned long),
};

/*
 * Return: 1 for "1", "yes" or "on"; 0 for "0", "no" or "off"; -EINVAL for other text.
 */
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
 * Parse decimal digits. strtoull() is not used: it accepts signs, blanks and, in some
 * locales, separators. It would also set errno, which belongs to the program.
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

/*
 * Copy the text before the first character @end to @part, which has PART_MAX bytes. If
 * @end is not found, copy all text. *text becomes the text after @end, or NULL if all
 * text was copied.
 * Return: 0; -EINVAL if the part is too long for @part, and thus no valid number.
 */
static int next_part(const char **text, char end, char *part)
{
	const char *at = strchr(*text, end);
	size_t len = at ? (size_t)(at - *text) : strlen(*text);

	if (len >= PART_MAX)
		return -EINVAL;
	memcpy(part, *text, len);
	part[len] = '\0';
	*text = at ? at + 1 : NULL;
	return 0;
}

/* Each count is stored plus one, since 0 means that this count is not given. */
static int parse_counts(const struct uaio_option *opt, const char *text,
			uint64_t *ret_value)
{
	uint64_t first, second = 0;
	char part[PART_MAX];

	if (next_part(&text, ',', part) < 0 ||
	    parse_count(part, opt->max, &first) < 0 ||
	    (text && parse_count(text, opt->max, &second) < 0))
		return -EINVAL;
	*ret_value = first + 1;
	if (text)
		*ret_value |= (second + 1) << 32;
	return 0;
}

int uaio_option_count(enum uaio_option_id id, uint64_t value, int which)
{
	uint32_t count = (uint32_t)(which ? value >> 32 : value);

	return count ? (int)count - 1 : uaio_options[id].usual[which];
}

/*
 * *ret_value becomes the number minus the option's minimum, plus one: the value 0 must
 * mean that the option is not given.
 */
static int parse_number(const struct uaio_option *opt, const char *text,
			uint64_t *ret_value)
{
	bool is_negative = *text == '-';
	int64_t min = (int64_t)opt->min, number;
	uint64_t amount;
	int r = parse_count(text + is_negative, UINT32_MAX, &amount);

	if (r < 0)
		return r;
	number = is_negative ? -(int64_t)amount : (int64_t)amount;
	if (number < min || number > (int64_t)opt->max)
		return -EINVAL;
	*ret_value = (uint64_t)(number - min + 1);
	return 0;
}

bool uaio_option_number(const struct uaio_option *opt, uint64_t value,
			int *ret_number)
{
	if (value)
		*ret_number = (int)((int64_t)value + (int64_t)opt->min - 1);
	return value;
}

/* Parse one processor, such as 5, or a range of processors, such as 0-2. */
static int parse_range(const char *text, uint64_t *ret_first,
		       uint64_t *ret_last)
{
	char part[PART_MAX];

	if (next_part(&text, '-', part) < 0 ||
	    parse_count(part, UAIO_CPUS_MAX - 1, ret_first) < 0)
		return -EINVAL;
	*ret_last = *ret_first;
	if (text && parse_count(text, UAIO_CPUS_MAX - 1, ret_last) < 0)
		return -EINVAL;
	return *ret_last < *ret_first ? -EINVAL : 0;
}

int uaio_option_cpus(const char *text, struct uaio_cpus *ret_cpus)
{
	struct uaio_cpus cpus = { { 0 } };

	while (text) {
		uint64_t first, last;
		char range[PART_MAX];

		if (next_part(&text, ',', range) < 0 ||
		    parse_range(range, &first, &last) < 0)
			return -EINVAL;
		for (uint64_t cpu = first; cpu <= last; cpu++)
			cpus.words[cpu / WORD_BITS] |= 1ul << cpu % WORD_BITS;
	}
	*ret_cpus = cpus;
	return 0;
}

bool uaio_cpus_cut(struct uaio_cpus *cpus, const struct uaio_cpus *allowed)
{
	unsigned long left = 0;

	for (size_t i = 0; i < NR_ELEMENTS(cpus->words); i++)
		left |= cpus->words[i] &= allowed->words[i];
	return left;
}

bool uaio_option_fixed_fit(uint64_t workers, uint64_t fixed)
{
	for (int i = 0; i < 2; i++)
		if (uaio_option_count(UAIO_OPTION_FIXED, fixed, i) >
		    uaio_option_count(UAIO_OPTION_WORKERS, workers, i))
			return false;
	return true;
}

/*
 * Return: 0 if the text means "off"; 1 if it is a valid path; -EINVAL if it is invalid.
 */
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

/*
 * Write the path of the working directory, and a slash.
 * Return: the number of bytes; 0 if the directory is unknown or its path does not fit.
 */
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

	if (opt->bare && parse_switch(text) == 1)
		text = opt->bare;
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

static int parse_bounded(const struct uaio_option *opt, const char *text,
			 uint64_t *ret_value)
{
	uint64_t value;
	int r = parse_count(text, opt->max, &value);

	if (r == 0 && value < opt->min)
		return -EINVAL;
	if (r == 0)
		*ret_value = value;
	return r;
}

static int parse_cpus(const char *text)
{
	struct uaio_cpus cpus;
	int r = uaio_option_cpus(text, &cpus);

	return r < 0 ? r : 1;
}

/*
 * Return: the index of the word `text` in opt->words; -EINVAL if it is not there.
 */
static int parse_word(const struct uaio_option *opt, const char *text)
{
	int value = opt->bare ? parse_switch(text) : -EINVAL;

	if (value == 0)
		return 0;
	if (value == 1)
		text = opt->bare;
	for (int i = 0; opt->words[i]; i++)
		if (!strcmp(text, opt->words[i]))
			return i;
	return -EINVAL;
}

/*
 * Return: 0 if the text means "off"; 1 if it describes faults; -EINVAL if it is
 * invalid: then `expected` gets a message that says what is valid.
 */
static int parse_faults(const char *text, char *expected, size_t len)
{
	struct uaio_faults faults = { .nr = 0 };

	if (parse_switch(text) == 0)
		return 0;
	return uaio_faults_parse(text, &faults, expected, len) < 0 ? -EINVAL
								   : 1;
}

int uaio_option_parse(const struct uaio_option *opt, const char *text,
		      uint64_t *ret_value)
{
	int r = -EINVAL;

	switch (opt->kind) {
	case UAIO_OPTION_COUNT: return parse_bounded(opt, text, ret_value);
	case UAIO_OPTION_COUNTS: return parse_counts(opt, text, ret_value);
	case UAIO_OPTION_NUMBER: return parse_number(opt, text, ret_value);
	case UAIO_OPTION_SWITCH: r = parse_switch(text); break;
	case UAIO_OPTION_FILE: r = parse_file(text); break;
	case UAIO_OPTION_CPUS_LIST: r = parse_cpus(text); break;
	case UAIO_OPTION_WORD: r = parse_word(opt, text); break;
	case UAIO_OPTION_FAULTS: r = parse_faults(text, NULL, 0); break;
	}
	if (r < 0)
		return r;
	*ret_value = (uint64_t)r;
	return 0;
}

/*
 * Copy a value for a one-line message: each control character becomes '?', and a long
 * value is cut.
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

void uaio_option_complaint_of(const char *given_as, const char *text,
			      const char *expected, char *buf, size_t len)
{
	char shown[40];

	copy_printable(shown, sizeof(shown), text);
	snprintf(buf, len, "uaio: %s=%s: expected %s", given_as, shown,
		 expected);
}

/* Write a list of words with commas and "or", as in "one, two or three". */
static void put_words(const char *const *words, char *buf, size_t len)
{
	size_t used = 0;

	for (int i = 0; words[i] && used < len; i++) {
		const char *before = !i ? "" : words[i + 1] ? ", " : " or ";
		int more = snprintf(buf + used, len - used, "%s%s", before,
				    words[i]);

		used += more > 0 ? (size_t)more : 0;
	}
}

/* Write which values the option accepts. text: the value that the user gave. */
static void put_expected(const struct uaio_option *opt, const char *text,
			 char *buf, size_t len)
{
	switch (opt->kind) {
	case UAIO_OPTION_SWITCH:
		snprintf(buf, len, "yes, no, on, off, 1 or 0");
		break;
	case UAIO_OPTION_FILE:
		snprintf(buf, len,
			 "the path of a file, with %%p for the process id and "
			 "%%%% for a %%");
		break;
	case UAIO_OPTION_COUNT:
		snprintf(buf, len, "a number from %" PRIu64 " to %" PRIu64,
			 opt->min, opt->max);
		break;
	case UAIO_OPTION_COUNTS:
		snprintf(buf, len,
			 "a number from %" PRIu64 " to %" PRIu64
			 ", or two as in 2,1",
			 opt->min, opt->max);
		break;
	case UAIO_OPTION_NUMBER:
		snprintf(buf, len, "a number from %" PRId64 " to %" PRId64,
			 (int64_t)opt->min, (int64_t)opt->max);
		break;
	case UAIO_OPTION_CPUS_LIST:
		snprintf(buf, len, "numbers of processors, as in 0-2,5");
		break;
	case UAIO_OPTION_WORD: put_words(opt->words, buf, len); break;
	case UAIO_OPTION_FAULTS: (void)parse_faults(text, buf, len); break;
	}
}

void uaio_option_complaint(const struct uaio_option *opt, const char *given_as,
			   const char *text, char *buf, size_t len)
{
	char expected[96];

	put_expected(opt, text, expected, sizeof(expected));
	uaio_option_complaint_of(given_as, text, expected, buf, len);
}
