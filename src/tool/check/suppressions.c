/* SPDX-License-Identifier: MIT */
/* Tested by test-reports.c. */
#include "tool/check/check.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/loader.h"
#include "tool/tool.h"

static int refuse(const char *path, unsigned line, const char *what)
{
	return uaio_diag(EXIT_REFUSED, "check: %s:%u: %s", path, line, what);
}

static void add(struct uaio_suppressions *to, const char *kind,
		const char *pattern, const char *path, unsigned line)
{
	to->all = uaio_check_memory(
		realloc(to->all, (to->nr + 1) * sizeof(*to->all)));
	to->all[to->nr++] = (struct uaio_suppression){
		.kind = uaio_check_memory(strdup(kind)),
		.pattern = uaio_check_memory(strdup(pattern)),
		.file = path,
		.line = line,
	};
}

/*
 * Parse a line of the form KIND:PATTERN, with blanks around it. Skip empty lines and
 * comments.
 */
static int take_line(struct uaio_suppressions *to, char *text, const char *path,
		     unsigned line)
{
	static const char blanks[] = " \t\r\n";
	char *pattern;
	size_t len;

	text += strspn(text, blanks);
	len = strlen(text);
	while (len && strchr(blanks, text[len - 1]))
		text[--len] = '\0';
	if (!len || *text == '#')
		return 0;
	pattern = strchr(text, ':');
	if (!pattern || !pattern[1])
		return refuse(path, line,
			      "expected KIND:PATTERN, as in "
			      "freed-in-flight:*libfoo.so*");
	*pattern++ = '\0';
	if (strcmp(text, "*") && !uaio_check_kind_find(text))
		return refuse(path, line,
			      "no such kind of error; uaio-check(1) has them, "
			      "and * is for all");
	add(to, text, pattern, path, line);
	return 0;
}

int uaio_suppressions_read(struct uaio_suppressions *to, const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t room = 0;
	unsigned line = 0;
	int status = 0;

	if (!file)
		return uaio_diag(EXIT_REFUSED, "check: --suppressions=%s: %s",
				 path, strerror(errno));
	while (!status && getline(&text, &room, file) >= 0)
		status = take_line(to, text, path, ++line);
	if (!status && ferror(file))
		status = uaio_diag(EXIT_REFUSED, "check: --suppressions=%s: %s",
				   path, strerror(errno));
	free(text);
	(void)fclose(file);
	return status;
}

/*
 * Return: whether the pattern matches the whole name, or the part after the last slash.
 */
static bool is_like(const char *pattern, const char *name)
{
	return name && (!fnmatch(pattern, name, 0) ||
			!fnmatch(pattern, uaio_base_name(name), 0));
}

/* Return: whether the pattern matches the symbol without its "+OFFSET". */
static bool is_symbol_like(const char *pattern, const char *symbol)
{
	const char *plus = symbol ? strrchr(symbol, '+') : NULL;
	char name[1024];

	if (!plus)
		return is_like(pattern, symbol);
	(void)snprintf(name, sizeof(name), "%.*s", (int)(plus - symbol),
		       symbol);
	return is_like(pattern, name);
}

static bool is_frame_like(const char *pattern,
			  const struct uaio_check_frame *frame)
{
	for (unsigned i = 0; i < frame->nr_lines; i++)
		if (is_like(pattern, frame->lines[i].function) ||
		    is_like(pattern, frame->lines[i].file))
			return true;
	return is_like(pattern, frame->module) ||
	       is_symbol_like(pattern, frame->symbol);
}

static bool suppresses(const struct uaio_suppression *suppression,
		       const struct uaio_report *report)
{
	if (strcmp(suppression->kind, "*") &&
	    strcmp(suppression->kind, report->kind))
		return false;
	for (unsigned i = 0; i < UAIO_CHECK_NR_STACKS; i++)
		for (unsigned nr = 0; nr < report->stacks[i].nr; nr++)
			if (is_frame_like(suppression->pattern,
					  &report->stacks[i].frames[nr]))
				return true;
	return false;
}

int uaio_suppressions_find(const struct uaio_suppressions *suppressions,
			   const struct uaio_report *report)
{
	for (unsigned i = 0; i < suppressions->nr; i++)
		if (suppresses(&suppressions->all[i], report))
			return (int)i;
	return -1;
}

void uaio_suppressions_free(struct uaio_suppressions *suppressions)
{
	for (unsigned i = 0; i < suppressions->nr; i++) {
		free(suppressions->all[i].kind);
		free(suppressions->all[i].pattern);
	}
	free(suppressions->all);
	*suppressions = (struct uaio_suppressions){ 0 };
}
