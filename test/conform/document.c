/* SPDX-License-Identifier: MIT */
/* Prints doc/differences.md from the test cases and the table of differences. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conform.h"
#include "differences.h"
#include "document.h"

enum { COLUMNS = 80 };

static const char head[] =
	"# Differences from the kernel\n"
	"\n"
	"<!-- Made from the table of test/conform by `make differences`. -->\n";

static const char introduction[] =
	"This page lists where uaio intentionally differs from the kernel, and "
	"its POSIX AIO from glibc's. Chapters begin with what programs notice "
	"most. *The library* is uaio's `libuaio.so.0`. *Library threads* are "
	"threads that it starts in the program's process; *workers* are those "
	"that execute requests. *Direct* means O_DIRECT. uaio-run(1) explains "
	"settings such as `--segments` or UAIO_SEGMENTS. "
	"`doc/compatibility.md` lists bugs of glibc that uaio lacks.\n"
	"The table below a difference shows one test case of `test/conform`. "
	"The column *result* names a value that the test case prints. The next "
	"columns have this value on the kernel (or glibc) and on uaio, with "
	"errors by name. `event:` means that the request was accepted, and its "
	"event has the value. `*` stands for any text.";

/*
 * Prints the text, broken into lines. A newline in the text starts a paragraph, or an
 * item of a list if a dash follows. There is no empty line between items.
 */
static void print_text(const char *text)
{
	size_t column = 0, len;
	bool is_item = *text == '-';

	putchar('\n');
	for (; *text; text += len) {
		if (*text == '\n') {
			printf(is_item && text[1] == '-' ? "\n" : "\n\n");
			is_item = text[1] == '-';
			column = 0;
			len = 1;
			continue;
		}
		len = strspn(text, " ");
		if (len)
			continue;
		len = strcspn(text, " \n");
		if (column && column + 1 + len > COLUMNS) {
			putchar('\n');
			column = 0;
		}
		printf("%s%.*s", column ? " " : "", (int)len, text);
		column += len + !!column;
	}
	putchar('\n');
}

/*
 * Return: whether the document shows this pair of fields. The document leaves out the
 * fields of kernel AIO's ring and of an event's data, because these only repeat the
 * results of other fields.
 */
static bool is_told(const struct pair *pair)
{
	return strncmp(pair->kernel, "ring_", 5) != 0 &&
	       strncmp(pair->uaio, "ring_", 5) != 0 &&
	       !strstr(pair->kernel, ".data=");
}

static void print_pair(const char *name, const struct pair *pair)
{
	const char *kernel = strchr(pair->kernel, '=');
	size_t key;
	bool is_same_key;

	if (!kernel++) {
		printf("| %s | | %s | %s |\n", name, pair->kernel, pair->uaio);
		return;
	}
	key = (size_t)(kernel - pair->kernel);
	is_same_key = !strncmp(pair->kernel, pair->uaio, key);
	printf("| %s | %.*s | %s | %s |\n", name, (int)key - 1, pair->kernel,
	       kernel, pair->uaio + (is_same_key ? key : 0));
}

static void print_showing(const struct row *row, const struct showing *showing)
{
	const struct pair *pair;
	/*
	 * `with` lists settings, separated by blanks. Any one of these settings causes
	 * the difference, so print only the first.
	 */
	const char *with = showing->difference->with;
	char name[256];

	snprintf(name, sizeof(name), "%s%s%s%s%.*s", row->name,
		 showing->file_system ? ", on " : "",
		 showing->file_system ?: "", with ? ", " : "",
		 with ? (int)strcspn(with, " ") : 0, with ?: "");
	for (pair = showing->pairs; pair->kernel; pair++) {
		if (!is_told(pair))
			continue;
		print_pair(name, pair);
		name[0] = '\0';
	}
}

static bool has_told(const struct showing *showing)
{
	const struct pair *pair = showing->pairs;

	while (pair->kernel && !is_told(pair))
		pair++;
	return pair->kernel;
}

/* Return: whether the test case shows the difference. */
static bool shows(const struct row *row, const struct difference *difference)
{
	const struct showing *showing = row->differs;

	while (showing && showing->difference &&
	       showing->difference != difference)
		showing++;
	return showing && showing->difference;
}

/*
 * Prints the fields by which the test case shows the difference.
 * Return: false if it printed none, because the document leaves out all these fields.
 */
static bool print_row(const struct row *row, const char *reference,
		      const struct difference *difference)
{
	const struct showing *showing = row->differs;
	bool is_printed = false;

	for (; showing && showing->difference; showing++) {
		if (showing->difference != difference || !has_told(showing))
			continue;
		if (!is_printed)
			printf("\n| test case | result | %s | uaio |\n"
			       "|---|---|---|---|\n",
			       reference);
		print_showing(row, showing);
		is_printed = true;
	}
	return is_printed;
}

static const char *reference_of(const struct group *group)
{
	return strncmp(group->name, "posix-", 6) == 0 ? "glibc" : "kernel";
}

/*
 * Prints the first test case that shows the difference by fields that the document
 * shows (is_told()).
 * Return: whether any test case shows the difference.
 */
static bool print_rows(const struct difference *difference)
{
	const struct group *group;
	const struct row *row;
	bool is_shown = false, is_printed = false;

	for (group = groups; group->name; group++)
		for (row = group->rows; row->name; row++) {
			is_shown |= shows(row, difference);
			if (!is_printed)
				is_printed = print_row(row, reference_of(group),
						       difference);
		}
	return is_shown;
}

/* Return: whether a test case must show the difference. */
static bool is_observable(const struct difference *difference)
{
	const struct difference *const *each = not_shown;

	while (*each && *each != difference)
		each++;
	return !*each;
}

static bool print_difference(const struct difference *difference)
{
	const bool is_expected = is_observable(difference);

	printf("\n### %s\n", difference->title);
	print_text(difference->text);
	if (print_rows(difference) == is_expected)
		return true;
	fprintf(stderr, "conform: \"%s\": %s\n", difference->title,
		is_expected ? "no test case shows it" : "test cases show it");
	return false;
}

int print_differences(void)
{
	const struct difference *const *difference;
	const struct chapter *chapter;
	bool is_good = true;

	fputs(head, stdout);
	print_text(introduction);
	for (chapter = chapters; chapter->title; chapter++) {
		printf("\n## %s\n", chapter->title);
		difference = chapter->differences;
		for (; *difference; difference++)
			is_good &= print_difference(*difference);
	}
	print_uring();
	return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}
