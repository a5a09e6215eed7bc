/* SPDX-License-Identifier: MIT */
#include "tool/doctor/findings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options/names.h"
#include "tool/common/json.h"
#include "tool/tool.h"

enum { SUBJECT_COLUMNS = 17 };

const char UAIO_SECTION_MACHINE[] = "machine";
const char UAIO_SECTION_UAIO[] = "uaio";

static const struct {
	const char *name;
	const char *colour;
} levels[] = {
	[UAIO_PASS] = { "PASS", "\033[32m" },
	[UAIO_WARN] = { "WARN", "\033[33m" },
	[UAIO_FAIL] = { "FAIL", "\033[31m" },
};

static _Noreturn void give_up(void)
{
	exit(uaio_diag(EXIT_REFUSED, "%s", strerror(ENOMEM)));
}

static char *text_of(const char *format, va_list args)
{
	char *text;

	if (vasprintf(&text, format, args) < 0)
		give_up();
	return text;
}

struct uaio_finding *uaio_find(struct uaio_findings *findings,
			       enum uaio_level level, const char *subject,
			       const char *format, ...)
{
	struct uaio_finding *finding;
	va_list args;

	if (findings->nr == findings->room) {
		findings->room = findings->room * 2 + 32;
		findings->all = realloc(findings->all,
					findings->room * sizeof(*finding));
		if (!findings->all)
			give_up();
	}
	finding = &findings->all[findings->nr++];
	*finding = (struct uaio_finding){
		.level = level,
		.section = findings->section,
		.subject = subject,
	};
	va_start(args, format);
	finding->text = text_of(format, args);
	va_end(args);
	return finding;
}

void uaio_finding_fix(struct uaio_finding *finding, const char *cause,
		      const char *format, ...)
{
	va_list args;

	finding->cause = cause;
	free(finding->fix);
	va_start(args, format);
	finding->fix = text_of(format, args);
	va_end(args);
}

void uaio_findings_free(struct uaio_findings *findings)
{
	for (size_t i = 0; i < findings->nr; i++) {
		free(findings->all[i].text);
		free(findings->all[i].fix);
	}
	free(findings->all);
	*findings = (struct uaio_findings){ 0 };
}

enum uaio_level uaio_findings_worst(const struct uaio_findings *findings)
{
	enum uaio_level worst = UAIO_PASS;

	for (size_t i = 0; i < findings->nr; i++)
		if (findings->all[i].level > worst)
			worst = findings->all[i].level;
	return worst;
}

/* Output for people */

static bool has_colours(void)
{
	const char *terminal = getenv("TERM");

	return isatty(STDOUT_FILENO) && !getenv("NO_COLOR") && terminal &&
	       strcmp(terminal, "dumb");
}

/*
 * Print text, with '?' in place of control characters, which a terminal would
 * interpret.
 */
static void put_plain(const char *text)
{
	for (; *text; text++)
		putchar((unsigned char)*text < ' ' || *text == 0x7f ? '?'
								    : *text);
}

static void print_one(const struct uaio_finding *finding, bool is_coloured)
{
	const char *colour = is_coloured ? levels[finding->level].colour : "";

	printf("%s%s%s  %-*s ", colour, levels[finding->level].name,
	       is_coloured ? "\033[0m" : "", SUBJECT_COLUMNS, finding->subject);
	put_plain(finding->text);
	if (finding->fix) {
		printf("\n      %-*s fix: ", SUBJECT_COLUMNS, "");
		put_plain(finding->fix);
	}
	putchar('\n');
}

/* Return: whether the section is about an argument of the doctor's command line. */
static bool is_argument(const char *section)
{
	return section != UAIO_SECTION_MACHINE && section != UAIO_SECTION_UAIO;
}

/* Print the headline of a section. */
static void print_head(const char *section, bool is_first)
{
	if (!is_first)
		putchar('\n');
	put_plain(section);
	putchar('\n');
}

void uaio_findings_print(const struct uaio_findings *findings, bool is_brief)
{
	const char *section = NULL;
	bool is_coloured = has_colours();

	for (size_t i = 0; i < findings->nr; i++) {
		const struct uaio_finding *finding = &findings->all[i];

		if (is_brief && finding->level == UAIO_PASS &&
		    !is_argument(finding->section))
			continue;
		if (finding->section != section)
			print_head(finding->section, !section);
		section = finding->section;
		print_one(finding, is_coloured);
	}
}

/*
 * JSON
 */

static void put_member(const char *name, const char *text)
{
	printf(", \"%s\": ", name);
	uaio_json_text(stdout, text);
}

void uaio_findings_print_json(const struct uaio_findings *findings)
{
	printf("{\"schema\": 1, \"version\": \"%s\", \"level\": \"%s\", "
	       "\"findings\": [",
	       UAIO_VERSION, levels[uaio_findings_worst(findings)].name);
	for (size_t i = 0; i < findings->nr; i++) {
		const struct uaio_finding *finding = &findings->all[i];

		printf("%s\n{\"level\": \"%s\"", i ? "," : "",
		       levels[finding->level].name);
		put_member("section", finding->section);
		put_member("subject", finding->subject);
		put_member("text", finding->text);
		put_member("fix", finding->fix);
		put_member("cause", finding->cause);
		put_member("errno", finding->error
					    ? uaio_error_name(finding->error)
					    : NULL);
		putchar('}');
	}
	puts("\n]}");
}
