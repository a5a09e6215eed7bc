/* SPDX-License-Identifier: MIT */
/* Prints a report as text and as JSON. Tested by test/run/check.py. */
#include "tool/check/check.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tool/common/json.h"

/* Output for people */

enum { COLUMNS = 80, LABEL = 9 };

/* Print the words from column `indent` on; break lines that would be too long. */
static void print_words(FILE *to, size_t indent, const char *text)
{
	size_t column = indent;

	while (*text) {
		size_t len = strcspn(text, " ");
		bool is_first = column == indent;

		if (column + len >= COLUMNS && !is_first) {
			fprintf(to, "\n%*s", (int)indent, "");
			column = indent;
			is_first = true;
		}
		fprintf(to, "%s%.*s", is_first ? "" : " ", (int)len, text);
		column += len + !is_first;
		text += len;
		text += strspn(text, " ");
	}
	putc('\n', to);
}

static void print_text(FILE *to, const char *label, const char *text)
{
	fprintf(to, "%-*s", LABEL, label);
	print_words(to, LABEL, text);
}

static void print_module(FILE *to, const struct uaio_check_frame *frame)
{
	if (frame->module)
		fprintf(to, " (%s+0x%" PRIx64 ")", frame->module,
			frame->offset);
}

static void print_place(FILE *to, const struct uaio_check_frame *frame,
			const struct uaio_check_line *line)
{
	if (!line->file)
		print_module(to, frame);
	else if (line->line)
		fprintf(to, " %s:%u", line->file, line->line);
	else
		fprintf(to, " %s", line->file);
}

static void print_frame(FILE *to, const struct uaio_check_frame *frame,
			unsigned *number)
{
	for (unsigned i = 0; i < frame->nr_lines; i++) {
		fprintf(to, "    #%u 0x%" PRIx64 " in %s", (*number)++,
			frame->pc, frame->lines[i].function);
		print_place(to, frame, &frame->lines[i]);
		putc('\n', to);
	}
	if (frame->nr_lines)
		return;
	fprintf(to, "    #%u 0x%" PRIx64, (*number)++, frame->pc);
	if (frame->symbol)
		fprintf(to, " in %s", frame->symbol);
	print_module(to, frame);
	putc('\n', to);
}

/*
 * Return: whether the frame is main(). The frames that called main() are not the
 * program's.
 */
static bool is_main(const struct uaio_check_frame *frame)
{
	return frame->nr_lines &&
	       !strcmp(frame->lines[frame->nr_lines - 1].function, "main");
}

void uaio_check_print_stack(FILE *to, const char *heading,
			    const struct uaio_check_stack *stack)
{
	unsigned number = 0;

	if (!stack->nr)
		return;
	fprintf(to, "  %s:\n", heading);
	for (unsigned i = 0; i < stack->nr; i++) {
		print_frame(to, &stack->frames[i], &number);
		if (is_main(&stack->frames[i]))
			break;
	}
}

static bool is_same(const struct uaio_check_stack *one,
		    const struct uaio_check_stack *other)
{
	if (one->nr != other->nr)
		return false;
	for (unsigned i = 0; i < one->nr; i++)
		if (one->frames[i].pc != other->frames[i].pc)
			return false;
	return true;
}

static void print_stacks(FILE *to, const struct uaio_report *report,
			 const struct uaio_check_kind *kind)
{
	const struct uaio_check_stack *stacks = report->stacks;

	uaio_check_print_stack(to, kind ? kind->now : "found here",
			       &stacks[UAIO_CHECK_NOW]);
	/*
	 * If the error was found during the submission, both stacks are the same: print
	 * only one.
	 */
	if (!is_same(&stacks[UAIO_CHECK_NOW], &stacks[UAIO_CHECK_SUBMITTED]))
		uaio_check_print_stack(
			to,
			kind && kind->submitted
				? kind->submitted
				: "the request was submitted here",
			&stacks[UAIO_CHECK_SUBMITTED]);
	uaio_check_print_stack(to, "the other request was submitted here",
			       &stacks[UAIO_CHECK_OTHER]);
}

static void print_request(FILE *to, const char *label,
			  const struct uaio_check_request *request)
{
	char *text;

	if (!request->operation ||
	    asprintf(&text, "%s %s", request->operation, request->fields) < 0)
		return;
	print_text(to, label, text);
	free(text);
}

void uaio_check_print(FILE *to, const struct uaio_report *report)
{
	const struct uaio_check_kind *kind = uaio_check_kind_find(report->kind);

	fprintf(to,
		"=============================================================="
		"===\n==%d==%s: uaio check: %s",
		report->pid, kind && kind->is_hint ? "HINT" : "ERROR",
		report->kind);
	if (report->thread || report->tid)
		fprintf(to, " (thread %s%s%s)", report->tid ? report->tid : "?",
			report->thread ? " " : "",
			report->thread ? report->thread : "");
	putc('\n', to);
	if (report->what || kind)
		print_words(to, 0,
			    report->what ? report->what : kind->explanation);
	print_stacks(to, report, kind);
	print_request(to, "request:", &report->request);
	print_request(to, "other:", &report->other);
	if (kind) {
		print_text(to, "rule:", kind->rule);
		print_text(to, "help:", kind->help);
	}
	if (report->is_cut)
		print_text(to, "note:",
			   "the process ended while it wrote this report, "
			   "which is not complete.");
}

/* JSON output: one object of check.schema.json per line */

static void json_member(FILE *to, const char *name, const char *text)
{
	fprintf(to, ", \"%s\": ", name);
	uaio_json_text(to, text);
}

/*
 * Return: whether the digits are a number of at most 15 digits, which every JSON parser
 * represents exactly.
 */
static bool is_number(const char *text)
{
	size_t len = strlen(text);

	return len && len <= 15 && strspn(text, "0123456789") == len &&
	       (*text != '0' || len == 1);
}

static void json_request(FILE *to, const char *name,
			 const struct uaio_check_request *request)
{
	char *fields, *rest, *field, *value;

	fprintf(to, ", \"%s\": ", name);
	if (!request->operation) {
		fputs("null", to);
		return;
	}
	fputs("{\"operation\": ", to);
	uaio_json_text(to, request->operation);
	rest = fields = uaio_check_memory(strdup(request->fields));
	while ((field = strsep(&rest, " "))) {
		value = strchr(field, '=');
		if (!value || value == field)
			continue;
		*value++ = '\0';
		fputs(", ", to);
		uaio_json_text(to, field);
		fputs(": ", to);
		if (is_number(value))
			fputs(value, to);
		else
			uaio_json_text(to, value);
	}
	free(fields);
	putc('}', to);
}

static void json_frame(FILE *to, const struct uaio_check_frame *frame,
		       const struct uaio_check_line *line)
{
	fprintf(to, "{\"pc\": \"0x%" PRIx64 "\", \"module\": ", frame->pc);
	uaio_json_text(to, frame->module);
	fprintf(to, ", \"offset\": \"0x%" PRIx64 "\"", frame->offset);
	json_member(to, "function", line ? line->function : frame->symbol);
	json_member(to, "file", line ? line->file : NULL);
	if (line && line->line)
		fprintf(to, ", \"line\": %u}", line->line);
	else
		fputs(", \"line\": null}", to);
}

static void json_stack(FILE *to, const char *name,
		       const struct uaio_check_stack *stack)
{
	const char *separator = "";

	fprintf(to, "\"%s\": [", name);
	for (unsigned i = 0; i < stack->nr; i++) {
		const struct uaio_check_frame *frame = &stack->frames[i];

		for (unsigned nr = 0; nr < frame->nr_lines || !nr; nr++) {
			fputs(separator, to);
			json_frame(to, frame,
				   frame->nr_lines ? &frame->lines[nr] : NULL);
			separator = ", ";
		}
	}
	putc(']', to);
}

void uaio_check_print_json(FILE *to, const struct uaio_report *report)
{
	const struct uaio_check_kind *kind = uaio_check_kind_find(report->kind);

	fprintf(to, "{\"schema\": 1, \"kind\": \"%s\", \"pid\": %d",
		report->kind, report->pid);
	json_member(to, "severity", kind && kind->is_hint ? "hint" : "error");
	json_member(to, "tid", report->tid);
	json_member(to, "thread", report->thread);
	json_member(to, "what", report->what);
	json_request(to, "request", &report->request);
	json_request(to, "other", &report->other);
	fputs(", \"stacks\": {", to);
	json_stack(to, "now", &report->stacks[UAIO_CHECK_NOW]);
	fputs(", ", to);
	json_stack(to, "submitted", &report->stacks[UAIO_CHECK_SUBMITTED]);
	fputs(", ", to);
	json_stack(to, "other", &report->stacks[UAIO_CHECK_OTHER]);
	putc('}', to);
	json_member(to, "rule", kind ? kind->rule : NULL);
	json_member(to, "help", kind ? kind->help : NULL);
	fprintf(to, ", \"complete\": %s}\n", report->is_cut ? "false" : "true");
}

void uaio_check_print_seed_json(FILE *to, const char *what, const char *command)
{
	fputs("{\"schema\": 1, \"kind\": \"seed-failed\", \"pid\": 0", to);
	json_member(to, "severity", "error");
	json_member(to, "tid", NULL);
	json_member(to, "thread", NULL);
	json_member(to, "what", what);
	fputs(", \"request\": null, \"other\": null, \"stacks\": "
	      "{\"now\": [], \"submitted\": [], \"other\": []}",
	      to);
	json_member(to, "rule", NULL);
	json_member(to, "help", "Run the command again.");
	json_member(to, "command", command);
	fputs(", \"complete\": true}\n", to);
}
