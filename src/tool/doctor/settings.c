/* SPDX-License-Identifier: MIT */
/*
 * Adds findings about options that the environment sets
 *
 * Tested by test/run/doctor.py.
 */
#include "tool/doctor/findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/options.h"

/* Return: what the option does that a user may not expect; or NULL. */
static const char *surprise_of(int id, uint64_t value)
{
	if (id == UAIO_OPTION_FAULT)
		return "requests fail, or are short or late, on purpose";
	if (id == UAIO_OPTION_URING && value == UAIO_URING_NEVER)
		return "io_uring is left to the kernel";
	if (id == UAIO_OPTION_POSIX && value == UAIO_POSIX_OFF)
		return "aio_read and its like are left to the C library";
	return NULL;
}

static void judge_one(int id, const char *text, struct uaio_findings *findings)
{
	const struct uaio_option *option = &uaio_options[id];
	char complaint[UAIO_OPTION_COMPLAINT_MAX];
	struct uaio_finding *finding;
	const char *surprise;
	uint64_t value;

	if (uaio_option_parse(option, text, &value) < 0) {
		uaio_option_complaint(option, option->variable, text, complaint,
				      sizeof(complaint));
		finding = uaio_find(findings, UAIO_FAIL, "option", "%s",
				    complaint + strlen("uaio: "));
		uaio_finding_fix(finding, "option", "correct or unset %s",
				 option->variable);
		return;
	}
	surprise = surprise_of(id, value);
	finding =
		uaio_find(findings, surprise ? UAIO_WARN : UAIO_PASS, "option",
			  "%s=%s is set%s%s", option->variable, text,
			  surprise ? ": " : "", surprise ? surprise : "");
	if (!surprise)
		return;
	uaio_finding_fix(finding, "option", "unset %s", option->variable);
}

void uaio_settings_judge(struct uaio_findings *findings)
{
	for (int id = 0; id < UAIO_NR_OPTIONS; id++) {
		const char *text = getenv(uaio_options[id].variable);

		if (text)
			judge_one(id, text, findings);
	}
}
