/* SPDX-License-Identifier: MIT */
/*
 * The doctor's findings: a list of findings with a level for each, functions that print
 * the list, and functions that add findings
 *
 * judge.c and limits.c, which add findings about the machine, are declared in
 * machine.h.
 *
 * Tested by test/run/doctor.py and test/run/doctor_programs.py.
 */
#ifndef UAIO_TOOL_DOCTOR_FINDINGS_H
#define UAIO_TOOL_DOCTOR_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

struct uaio_machine;

/* findings.c */

/* The levels of findings; also the doctor's exit statuses. */
enum uaio_level {
	UAIO_PASS,
	/* something does not work, or works worse, without the fix */
	UAIO_WARN,
	UAIO_FAIL, /* uaio cannot work here, or for this program */
};

/* Sections of findings that are not about an argument. */
extern const char UAIO_SECTION_MACHINE[], UAIO_SECTION_UAIO[];

struct uaio_finding {
	enum uaio_level level;
	const char *section; /* borrows: UAIO_SECTION_...; or an argument */
	const char *subject; /* borrows: what was examined */
	const char *cause;   /* a constant word for scripts; or NULL */
	int error;           /* an errno; 0: none */
	char *text;          /* owns */
	char *fix;           /* owns; NULL for UAIO_PASS */
};

struct uaio_findings {
	struct uaio_finding *all; /* owns */
	size_t nr, room;
	const char *section; /* section of the findings that are being added */
};

/*
 * Add a finding. The pointer is valid until the next finding is added. Exits if memory
 * is refused.
 */
struct uaio_finding *uaio_find(struct uaio_findings *findings,
			       enum uaio_level level, const char *subject,
			       const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Set the cause of a finding, and what the user can do about it. */
void uaio_finding_fix(struct uaio_finding *finding, const char *cause,
		      const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void uaio_findings_free(struct uaio_findings *findings);

/* Return: the worst level of all findings. */
enum uaio_level uaio_findings_worst(const struct uaio_findings *findings);

/*
 * Print the findings. is_brief: omit findings about the machine and uaio that passed.
 */
void uaio_findings_print(const struct uaio_findings *findings, bool is_brief);

/* Print the findings as one object of include/doctor.schema.json. */
void uaio_findings_print_json(const struct uaio_findings *findings);

/* settings.c */

/* Add a finding for each option set in the environment, to the current section. */
void uaio_settings_judge(struct uaio_findings *findings);

/* filesystem.c */

/*
 * Add findings about the file system of a path. Their section is the path. To try
 * direct I/O, the function makes a file of one block there, which is unnamed or
 * unlinked at once.
 */
void uaio_filesystem_judge(const char *path, struct uaio_findings *findings);

/* program.c */

/*
 * Add findings about a command. argument: the command's name or path, which is also the
 * findings' section.
 */
void uaio_program_judge(const char *argument,
			const struct uaio_machine *machine,
			struct uaio_findings *findings);

#endif /* UAIO_TOOL_DOCTOR_FINDINGS_H */
