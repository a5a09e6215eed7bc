/* SPDX-License-Identifier: MIT */
/* Prints doc/differences.md from the rows and the table of differences. */
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
	"What is not listed here is meant to be as the kernel has it, and is "
	"held to it by `test/conform`: the same program runs on the kernel and "
	"on uaio, row by row, and what it sees is compared. A difference that "
	"is not listed fails there, and so does one that is listed and gone. "
	"POSIX AIO is held to glibc's in the same way.\n"
	"The tables have what those rows see. An answer is what a call "
	"returned, an error by its name; `event:` stands before what the event "
	"of an accepted request carried, `*` for anything. What follows from "
	"an event in the ring is left out.";

/* Prints text as wide as a page. A newline in it starts a paragraph. */
static void print_text(const char *text)
{
	size_t column = 0, len;

	putchar('\n');
	for (; *text; text += len) {
		if (*text == '\n') {
			printf("\n\n");
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
 * Return: whether the document shows the pair. It leaves out fields of the ring and of
 * data, which only repeat the results.
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
	/* The first of the settings in with, which are separated by blanks. */
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

static bool print_row(const struct row *row, const char *reference,
		      const struct difference *difference, bool is_first)
{
	const struct showing *showing = row->differs;
	bool is_shown = false;

	for (; showing && showing->difference; showing++) {
		if (showing->difference != difference)
			continue;
		if (is_first && !is_shown)
			printf("\n| row | answer | %s | uaio |\n"
			       "|---|---|---|---|\n",
			       reference);
		print_showing(row, showing);
		is_shown = true;
	}
	return is_shown;
}

static const char *reference_of(const struct group *group)
{
	return strncmp(group->name, "posix-", 6) == 0 ? "glibc" : "kernel";
}

/* Return: whether any row shows the difference. */
static bool print_rows(const struct difference *difference)
{
	const struct group *group;
	const struct row *row;
	bool is_shown = false;

	for (group = groups; group->name; group++)
		for (row = group->rows; row->name; row++)
			is_shown |= print_row(row, reference_of(group),
					      difference, !is_shown);
	return is_shown;
}

static bool print_difference(const struct difference *difference,
			     bool is_observable)
{
	printf("\n### %s\n", difference->title);
	print_text(difference->text);
	if (print_rows(difference) == is_observable)
		return true;
	fprintf(stderr, "conform: \"%s\": %s\n", difference->title,
		is_observable ? "no row shows it" : "rows do show it");
	return false;
}

int print_differences(void)
{
	const struct difference *const *difference;
	const struct chapter *chapter;
	bool is_observable, is_good = true;

	fputs(head, stdout);
	print_text(introduction);
	for (chapter = chapters; chapter->title; chapter++) {
		printf("\n## %s\n", chapter->title);
		is_observable = strcmp(chapter->title, NOT_OBSERVABLE) != 0;
		difference = chapter->differences;
		for (; *difference; difference++)
			is_good &= print_difference(*difference, is_observable);
	}
	print_uring();
	return is_good ? EXIT_SUCCESS : EXIT_FAILURE;
}
