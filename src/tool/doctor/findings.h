/* SPDX-License-Identifier: MIT */
/*
 * What the doctor finds: a list of findings, each with its level, the ways in which it is
 * printed, and the files that add to it what they find
 *
 * judge.c and limits.c, which add what they find of the machine, are in machine.h.
 *
 * Tested by test/run/doctor.py and test/run/doctor_programs.py.
 */
#ifndef UAIO_TOOL_DOCTOR_FINDINGS_H
#define UAIO_TOOL_DOCTOR_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

struct uaio_machine;

/* findings.c */

/* The numbers are the exit statuses of the doctor. */
enum uaio_level {
	UAIO_PASS,
	UAIO_WARN, /* something does not work, or not as well, without the fix */
	UAIO_FAIL, /* uaio cannot do its work here, or for this program */
};

/* Findings that are not about an argument. */
extern const char UAIO_SECTION_MACHINE[], UAIO_SECTION_UAIO[];

struct uaio_finding {
	enum uaio_level level;
	const char *section; /* borrows: UAIO_SECTION_...; or an argument */
	const char *subject; /* borrows: what was looked at */
	const char *cause;   /* a word for scripts, a constant; or NULL */
	int error;           /* an errno; 0: none */
	char *text;          /* owns */
	char *fix;           /* owns; NULL if it passed */
};

struct uaio_findings {
	struct uaio_finding *all; /* owns */
	size_t nr, room;
	const char *section; /* of the findings that are added now */
};

/*
 * Add a finding. The pointer is valid until the next one is added. Ends the process
 * if there is no memory.
 */
struct uaio_finding *uaio_find(struct uaio_findings *findings,
			       enum uaio_level level, const char *subject,
			       const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Say what causes the finding, and what the user can do about it. */
void uaio_finding_fix(struct uaio_finding *finding, const char *cause,
		      const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void uaio_findings_free(struct uaio_findings *findings);

/* Return: the worst level there is. */
enum uaio_level uaio_findings_worst(const struct uaio_findings *findings);

/*
 * Print lines for people. is_brief: leave out findings about the machine and about uaio
 * that passed.
 */
void uaio_findings_print(const struct uaio_findings *findings, bool is_brief);

/* Print one object, as include/doctor.schema.json has it. */
void uaio_findings_print_json(const struct uaio_findings *findings);

/* settings.c */

/* Add a finding for each option that the environment sets, in the current section. */
void uaio_settings_judge(struct uaio_findings *findings);

/* filesystem.c */

/*
 * Add findings about the file system of path, which is their section. To try direct I/O,
 * a file of one block is made there. It has no name, or is unlinked at once.
 */
void uaio_filesystem_judge(const char *path, struct uaio_findings *findings);

/* program.c */

/* Add findings about a command. argument: its name or path, and the findings' section. */
void uaio_program_judge(const char *argument,
			const struct uaio_machine *machine,
			struct uaio_findings *findings);

#endif /* UAIO_TOOL_DOCTOR_FINDINGS_H */
