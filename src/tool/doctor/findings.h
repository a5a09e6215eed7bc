/* SPDX-License-Identifier: MIT */
/*
 * Findings of the doctor, each with a level. Declares functions that add findings, and
 * functions that print them
 *
 * The functions of judge.c and limits.c, which add findings about the machine, are
 * declared in machine.h.
 *
 * Tested by test/run/doctor.py and test/run/doctor_programs.py.
 */
#ifndef UAIO_TOOL_DOCTOR_FINDINGS_H
#define UAIO_TOOL_DOCTOR_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>

struct uaio_machine;

/* findings.c */

/* The level of a finding. The doctor's exit status is the worst level. */
enum uaio_level {
	UAIO_PASS,
	/* something does not work or is slower; the finding says how to fix it */
	UAIO_WARN,
	UAIO_FAIL, /* uaio cannot work on this machine, or with this program */
};

/*
 * The names of the sections about the machine and about uaio. Any other section is
 * about an argument of the command line, and the argument is the section's name.
 */
extern const char UAIO_SECTION_MACHINE[], UAIO_SECTION_UAIO[];

struct uaio_finding {
	enum uaio_level level;
	const char *section; /* borrowed: a constant above, or an argument */
	const char *subject; /* borrows: what was examined */
	/* a word by which scripts recognise the cause; or NULL */
	const char *cause;
	int error;  /* an errno; 0: none */
	char *text; /* owns */
	char *fix;  /* owns; NULL for UAIO_PASS */
};

struct uaio_findings {
	struct uaio_finding *all; /* owns */
	size_t nr, room;
	const char *section; /* section to which uaio_find() adds findings */
};

/*
 * Add a finding to the current section.
 * Return: the finding, valid until another one is added. If there is no memory, the
 * doctor exits.
 */
struct uaio_finding *uaio_find(struct uaio_findings *findings,
			       enum uaio_level level, const char *subject,
			       const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/*
 * Set the cause of a finding, and a text that says what the user can do about it.
 */
void uaio_finding_fix(struct uaio_finding *finding, const char *cause,
		      const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void uaio_findings_free(struct uaio_findings *findings);

/* Return: the worst level of all findings. */
enum uaio_level uaio_findings_worst(const struct uaio_findings *findings);

/*
 * Print the findings. is_brief: leave out a finding of level UAIO_PASS if it is about
 * the machine or uaio.
 */
void uaio_findings_print(const struct uaio_findings *findings, bool is_brief);

/*
 * Print the findings as one JSON object, described by include/doctor.schema.json.
 */
void uaio_findings_print_json(const struct uaio_findings *findings);

/* settings.c */

/*
 * For each uaio option that the environment sets, add a finding to the current section.
 */
void uaio_settings_judge(struct uaio_findings *findings);

/* filesystem.c */

/*
 * Add findings about the file system of a path, in a section with the path's name. To
 * measure fsync and, for a directory, to try direct I/O, the function makes a file of
 * one block. The file has no name, or its name is removed at once.
 */
void uaio_filesystem_judge(const char *path, struct uaio_findings *findings);

/* program.c */

/*
 * Add findings about a command. argument: its name or path, as the user has given it;
 * it is also the name of the findings' section.
 */
void uaio_program_judge(const char *argument,
			const struct uaio_machine *machine,
			struct uaio_findings *findings);

#endif /* UAIO_TOOL_DOCTOR_FINDINGS_H */
