/* SPDX-License-Identifier: MIT */
#include "tool/check/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/tool.h"

void *uaio_check_memory(void *memory)
{
	if (!memory)
		exit(uaio_diag(EXIT_REFUSED, "%s", strerror(ENOMEM)));
	return memory;
}

/*
 * Replace control characters, because a terminal would interpret them. Keep newlines
 * and tabs, which separate the parts of a report.
 */
static void make_plain(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (((unsigned char)text[i] < ' ' && text[i] != '\n' &&
		     text[i] != '\t') ||
		    text[i] == 0x7f)
			text[i] = '?';
}

static bool is_kind_name(const char *name)
{
	size_t len = strlen(name);

	return len && len <= UAIO_CHECK_KIND_MAX &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

/*
 * Return: the next part of the line, which may be empty; NULL after the last part.
 */
static const char *take(char **line)
{
	return *line ? strsep(line, "\t") : NULL;
}

/*
 * Return: the next part of the line; NULL if the part is "-" or "" (unknown), or after
 * the last part.
 */
static const char *take_known(char **line)
{
	const char *part = take(line);

	return part && *part && strcmp(part, "-") ? part : NULL;
}

static uint64_t take_number(char **line)
{
	const char *part = take(line);

	return part ? strtoull(part, NULL, 16) : 0;
}

static void take_frame(struct uaio_check_stack *stack, char **line)
{
	struct uaio_check_frame *frame;

	if (!stack || stack->nr == UAIO_CHECK_FRAMES_MAX)
		return;
	if (!stack->frames)
		stack->frames = uaio_check_memory(
			calloc(UAIO_CHECK_FRAMES_MAX, sizeof(*frame)));
	frame = &stack->frames[stack->nr++];
	frame->pc = take_number(line);
	frame->module = take_known(line);
	frame->offset = take_number(line);
	frame->symbol = take_known(line);
	frame->text = take_known(line);
}

static struct uaio_check_stack *find_stack(struct uaio_report *report,
					   const char *name)
{
	static const char *const names[] = {
		[UAIO_CHECK_NOW] = "now",
		[UAIO_CHECK_SUBMITTED] = "submitted",
		[UAIO_CHECK_OTHER] = "other",
	};

	for (unsigned i = 0; name && i < UAIO_CHECK_NR_STACKS; i++)
		if (!strcmp(names[i], name))
			return &report->stacks[i];
	return NULL;
}

static void take_request(struct uaio_check_request *request, char **line)
{
	const char *fields;

	request->operation = take_known(line);
	fields = take_known(line);
	request->fields = fields ? fields : "";
}

/*
 * Parse one line of a report. Ignore unknown fields, which a newer library may write.
 */
static void take_line(struct uaio_report *report, char *line,
		      struct uaio_check_stack **stack)
{
	const char *field = take(&line);

	if (!strcmp(field, "what")) {
		report->what = take_known(&line);
	} else if (!strcmp(field, "thread")) {
		report->tid = take_known(&line);
		report->thread = take_known(&line);
	} else if (!strcmp(field, "request")) {
		take_request(&report->request, &line);
	} else if (!strcmp(field, "other")) {
		take_request(&report->other, &line);
	} else if (!strcmp(field, "stack")) {
		*stack = find_stack(report, take(&line));
	} else if (!strcmp(field, "frame")) {
		take_frame(*stack, &line);
	}
}

bool uaio_report_parse(struct uaio_report *ret_report, const char *text,
		       size_t len)
{
	struct uaio_report report = { .is_cut = true };
	struct uaio_check_stack *stack = NULL;
	char *rest, *line;

	report.text = uaio_check_memory(malloc(len + 1));
	memcpy(report.text, text, len);
	report.text[len] = '\0';
	make_plain(report.text, len);
	rest = report.text;
	line = strsep(&rest, "\n");
	if (strcmp(take(&line), "report") || !line ||
	    !is_kind_name(report.kind = line)) {
		free(report.text);
		return false;
	}
	while (rest && report.is_cut) {
		line = strsep(&rest, "\n");
		report.is_cut = strcmp(line, "end");
		take_line(&report, line, &stack);
	}
	*ret_report = report;
	return true;
}

void uaio_check_frame_free(struct uaio_check_frame *frame)
{
	for (unsigned i = 0; i < frame->nr_lines; i++) {
		free(frame->lines[i].function);
		free(frame->lines[i].file);
	}
	free(frame->lines);
}

void uaio_report_free(struct uaio_report *report)
{
	for (unsigned i = 0; i < UAIO_CHECK_NR_STACKS; i++) {
		for (unsigned nr = 0; nr < report->stacks[i].nr; nr++)
			uaio_check_frame_free(&report->stacks[i].frames[nr]);
		free(report->stacks[i].frames);
	}
	free(report->text);
	*report = (struct uaio_report){ 0 };
}
