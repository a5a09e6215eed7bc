/* SPDX-License-Identifier: MIT */
/*
 * `uaio check`: runs a command in which the library looks for wrong uses of
 * asynchronous I/O, and prints the library's reports
 *
 * Each process of the command appends reports to its own file, named by its process id,
 * in one directory. The tool, which is the command's parent, follows the files, shows
 * the first report of each place, and removes the directory at the end.
 *
 * A report is text: a line per field, tabs between the parts of a line, and a last line
 * `end`. The checked program may have overwritten the report, or been killed while it
 * wrote the report. So the tool trusts no length, number or name in a report.
 *
 * reports.c, files.c, places.c and suppressions.c are tested by test-reports.c. All
 * files are tested by test/run/check.py.
 */
#ifndef UAIO_TOOL_CHECK_CHECK_H
#define UAIO_TOOL_CHECK_CHECK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* kinds.c */

/* A kind of error. The names are in the man page and in doc/check.md. */
struct uaio_check_kind {
	const char *name;
	const char *explanation; /* one sentence: what the error is */
	const char *now; /* heading of the stack where the error was found */
	/* heading of the submission's stack; NULL: the usual one */
	const char *submitted;
	const char *rule; /* what a manual page requires */
	const char *help; /* how to fix it */
	bool is_hint;     /* a hint, not an error */
};

/* Return: NULL if no kind has that name. */
const struct uaio_check_kind *uaio_check_kind_find(const char *name);

/* Return: the kind at index i, or NULL after the last. */
const struct uaio_check_kind *uaio_check_kind_at(unsigned i);

/* reports.c: parsing a report */

enum {
	UAIO_CHECK_KIND_MAX = 40,
	UAIO_CHECK_FRAMES_MAX = 64,      /* maximum of a stack's frames */
	UAIO_CHECK_REPORT_MAX = 1 << 18, /* maximum of a report in bytes */
};

enum uaio_check_stack_id {
	UAIO_CHECK_NOW,       /* where the error was found */
	UAIO_CHECK_SUBMITTED, /* where the request was submitted */
	UAIO_CHECK_OTHER,     /* where the other request was submitted */
	UAIO_CHECK_NR_STACKS,
};

/* A source line; a frame has several if functions are inlined. */
struct uaio_check_line {
	char *function; /* owns */
	char *file;     /* owns; NULL: not known */
	unsigned line;  /* 0: not known */
};

struct uaio_check_frame {
	uint64_t pc, offset; /* offset: position of the pc within its module */
	const char *module;  /* path; NULL: not known */
	const char *symbol;  /* NAME+0xOFFSET; NULL: not known */
	const char *
		text; /* what the symbolizer of a sanitizer has printed, or NULL */
	struct uaio_check_line *lines; /* owns; filled by symbols.c */
	unsigned nr_lines;
};

struct uaio_check_stack {
	struct uaio_check_frame *frames; /* owns */
	unsigned nr;
};

struct uaio_check_request {
	const char *operation; /* NULL: the report has no such request */
	const char *fields;    /* texts NAME=VALUE, separated by spaces */
};

struct uaio_report {
	char *text; /* owns; the strings in the report point into it */
	int pid;
	bool is_cut; /* the end of the report is missing */
	const char *kind, *what, *tid, *thread;
	struct uaio_check_request request, other;
	struct uaio_check_stack stacks[UAIO_CHECK_NR_STACKS];
};

/*
 * Parse a report of len bytes, not necessarily NUL-terminated. Return: false if the
 * text is not a report; otherwise true, and the caller frees *ret_report.
 */
bool uaio_report_parse(struct uaio_report *ret_report, const char *text,
		       size_t len);
void uaio_report_free(struct uaio_report *report);
void uaio_check_frame_free(struct uaio_check_frame *frame);

/* Return: memory. If memory is NULL, exit with a message. */
void *uaio_check_memory(void *memory);

/* files.c: the files of the processes */

/* Sums of the counts that processes report when they end. */
struct uaio_check_sums {
	uint64_t nr_processes; /* number of processes that made a request */
	/* number of those processes that reported their counts, which follow */
	uint64_t nr_ended;
	uint64_t nr_requests, nr_checked;
	char checkers
		[64]; /* names of checkers, such as sanitizers; empty: none */
};

typedef void uaio_check_report_fn(struct uaio_report *report, void *arg);

struct uaio_check_files {
	void *dir;                        /* a DIR, which is open */
	struct uaio_check_file **buckets; /* owns; hashed by process id */
	struct uaio_check_sums sums;
	uaio_check_report_fn *report; /* called for each report */
	void *arg;
};

/* Return: 0 or -errno. */
int uaio_check_files_open(struct uaio_check_files *files, const char *path);

/*
 * Read what processes have written since the last call. @is_last: also report an
 * incomplete report at the end of a file.
 */
void uaio_check_files_read(struct uaio_check_files *files, bool is_last);
void uaio_check_files_close(struct uaio_check_files *files);

/* suppressions.c: reports that the user does not want to see */

struct uaio_suppression {
	char *kind, *pattern; /* owns */
	/* borrows: the name of the file that has the suppression */
	const char *file;
	unsigned line;
	uint64_t nr; /* how many reports it has suppressed */
};

struct uaio_suppressions {
	struct uaio_suppression *all; /* owns */
	unsigned nr;
};

/* Add the suppressions of a file. Return: 0, or the exit status after a message. */
int uaio_suppressions_read(struct uaio_suppressions *to, const char *path);

/*
 * Return: the index of the first suppression that matches the report, whose frames have
 * lines; or -1.
 */
int uaio_suppressions_find(const struct uaio_suppressions *suppressions,
			   const struct uaio_report *report);
void uaio_suppressions_free(struct uaio_suppressions *suppressions);

/* places.c: the places of reports so far */

enum {
	UAIO_CHECK_SHOWN = -1, /* not suppressed */
	UAIO_CHECK_PLACES_MAX = 1000,
};

struct uaio_check_place {
	uint64_t
		hash; /* hash of the report's kind, operation and innermost frames */
	int verdict; /* UAIO_CHECK_SHOWN, or the index of a suppression */
};

struct uaio_check_places {
	struct uaio_check_place *all; /* owns */
	unsigned nr;
};

/*
 * Return: the hash of a report's place, which is its kind, its operation and the
 * innermost frames in the report itself.
 */
uint64_t uaio_check_place_of(const struct uaio_report *report);

/* Return: the place with that hash, or NULL if none was seen. */
struct uaio_check_place *
uaio_check_places_find(const struct uaio_check_places *places, uint64_t hash);

/* Remember a place. Return: false if there are too many places already. */
bool uaio_check_places_add(struct uaio_check_places *places, uint64_t hash,
			   int verdict);

/*
 * symbols.c: find the source lines of a report's frames. Removes the innermost frames
 * if they belong to a sanitizer.
 */

void uaio_check_symbolize(struct uaio_report *report);

/* Reports of this kind are not errors, but changes on purpose. */
#define UAIO_CHECK_CHANGE "change"

/* print.c */

/* Print the frames up to main() under a heading. Prints nothing if there are none. */
void uaio_check_print_stack(FILE *to, const char *heading,
			    const struct uaio_check_stack *stack);

void uaio_check_print(FILE *to, const struct uaio_report *report);
void uaio_check_print_json(FILE *to, const struct uaio_report *report);
/* Print a failing seed as JSON. */
void uaio_check_print_seed_json(FILE *to, const char *what,
				const char *command);

/* follow.c: running the command, and following its processes */

/* How to run the command. */
struct uaio_check_how {
	const char *faults; /* argument of --fault for `uaio run`; NULL: none */
	bool has_hints;
	int64_t limit_ns; /* the command is killed after this time; 0: never */
	/*
	 * Where the command's output goes; -1: the tool's input and output. Otherwise
	 * the command gets an empty input and its own process group, and processes that
	 * it leaves behind are killed.
	 */
	int output;
};

struct uaio_check_run {
	char dir[64]; /* the directory in which the processes write reports */
	int status;   /* the command's status, as from waitpid() */
	bool is_refused; /* the command was not executed, and a message says why */
	bool leaves_some; /* some processes of the command have not ended */
	bool is_late;     /* the command was killed at its limit */
	/* the terminating signal that the tool has received; 0: none */
	int stopped_by;
};

/*
 * Make the directory, run the command, and call files->report for each report until the
 * command has ended.
 *
 * Return: 0, and the directory still exists; or the exit status after a message.
 */
int uaio_check_follow(struct uaio_check_run *ret_run,
		      struct uaio_check_files *files, char **argv,
		      const struct uaio_check_how *how);

/* seedruns.c: runs with reordered, late and short completions (seeds.h) */

/* The user's options for seeds. */
struct uaio_check_seeds {
	uint64_t first, nr;
	int64_t limit_ns;   /* time limit of each run; 0: the tool chooses */
	const char *faults; /* NULL: the tool chooses */
	bool has_hints;
	/* See the member of the same name in struct uaio_seeds. */
	void (*tell_failed)(const char *what, const char *command);
};

/*
 * Run the command without changes, then with the changes of each seed. Calls @report
 * for each report; @report counts errors in *nr_errors.
 *
 * Return: 0; or the exit status after a message. *ret_status: from waitpid() for the
 * run without changes, or the signal that stopped the tool. *ret_has_failed: whether a
 * run has failed.
 */
int uaio_check_run_seeds(const struct uaio_check_seeds *seeds, char **argv,
			 uaio_check_report_fn *report,
			 const uint64_t *nr_errors, int *ret_status,
			 bool *ret_has_failed);

/*
 * valgrind.c: if the command runs valgrind's memcheck, suppress memcheck's reports
 * about the library's own system calls. Called in the process that becomes the command.
 * Return: 0 or -errno.
 */
int uaio_check_tell_valgrind(const char *dir);

/* Remove the reports' directory. */
void uaio_check_remove(const char *dir);

/*
 * Return: the exit status for a status of waitpid(). If a signal killed the command,
 * end by the same signal instead of returning.
 */
int uaio_check_end_as(int status);

#endif /* UAIO_TOOL_CHECK_CHECK_H */
