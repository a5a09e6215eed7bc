/* SPDX-License-Identifier: MIT */
/*
 * `uaio check`: runs a command on the library, which looks for wrong uses of asynchronous
 * I/O, and prints what the library reports
 *
 * Each process of the command appends reports to a file of its own, named by its process
 * id, in one directory. The command's parent follows the files, shows each place once, and
 * removes the directory at the end.
 *
 * A report is text: one line for each field, TAB between the parts of a line, and a last
 * line `end`. The checked program has written it, or may have overwritten it, or was killed
 * while it did. So no length, number or name in it is trusted.
 *
 * reports.c, files.c, places.c and suppressions.c are tested by test-reports.c; all by
 * test/run/check.py.
 */
#ifndef UAIO_TOOL_CHECK_CHECK_H
#define UAIO_TOOL_CHECK_CHECK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* kinds.c */

/* What a kind of error is. The names are in the man page and in doc/check.md. */
struct uaio_check_kind {
	const char *name;
	const char *explanation; /* one sentence */
	const char *now;         /* heading of the stack where it was found */
	const char *submitted; /* of that of the submission; NULL: as of most */
	const char *rule;      /* what a manual page demands */
	const char *help;      /* what mends it */
	bool is_hint;          /* it is no error */
};

/* Return: NULL if no kind has that name. */
const struct uaio_check_kind *uaio_check_kind_find(const char *name);

/* Return: the kind at index i, or NULL after the last. */
const struct uaio_check_kind *uaio_check_kind_at(unsigned i);

/* reports.c: the text of a report, taken apart */

enum {
	UAIO_CHECK_KIND_MAX = 40,
	UAIO_CHECK_FRAMES_MAX = 64,      /* of a stack */
	UAIO_CHECK_REPORT_MAX = 1 << 18, /* bytes */
};

enum uaio_check_stack_id {
	UAIO_CHECK_NOW,       /* where the error was found */
	UAIO_CHECK_SUBMITTED, /* where the request was submitted */
	UAIO_CHECK_OTHER,     /* where the other request was submitted */
	UAIO_CHECK_NR_STACKS,
};

/* A line of a source; a frame has several if functions are inlined. */
struct uaio_check_line {
	char *function; /* owns */
	char *file;     /* owns; NULL: not known */
	unsigned line;  /* 0: not known */
};

struct uaio_check_frame {
	uint64_t pc, offset; /* offset: of the pc, in its module */
	const char *module;  /* path; NULL: not known */
	const char *symbol;  /* NAME+0xOFFSET; NULL: not known */
	const char *text;    /* what a sanitizer's symbolizer says, or NULL */
	struct uaio_check_line *lines; /* owns; symbols.c */
	unsigned nr_lines;
};

struct uaio_check_stack {
	struct uaio_check_frame *frames; /* owns */
	unsigned nr;
};

struct uaio_check_request {
	const char *operation; /* NULL: the report has no such request */
	const char *fields;    /* NAME=VALUE, separated by spaces */
};

struct uaio_report {
	char *text; /* owns; the strings below point into it */
	int pid;
	bool is_cut; /* its end is missing */
	const char *kind, *what, *tid, *thread;
	struct uaio_check_request request, other;
	struct uaio_check_stack stacks[UAIO_CHECK_NR_STACKS];
};

/*
 * Take a text apart, which need not end in a NUL.
 * Return: false if it is no report. Else the caller frees *ret_report.
 */
bool uaio_report_parse(struct uaio_report *ret_report, const char *text,
		       size_t len);
void uaio_report_free(struct uaio_report *report);
void uaio_check_frame_free(struct uaio_check_frame *frame);

/* Return: the memory; does not return if there is none. */
void *uaio_check_memory(void *memory);

/* files.c: the files of the processes */

/* What processes say when they end, summed up. */
struct uaio_check_sums {
	uint64_t nr_processes; /* that have made a request */
	uint64_t nr_ended;     /* that have said how many: */
	uint64_t nr_requests, nr_checked;
	char checkers[64]; /* names; empty: none */
};

typedef void uaio_check_report_fn(struct uaio_report *report, void *arg);

struct uaio_check_files {
	void *dir;                        /* a DIR, open */
	struct uaio_check_file **buckets; /* owns; by process id */
	struct uaio_check_sums sums;
	uaio_check_report_fn *report; /* is called for each report */
	void *arg;
};

/* Return: 0 or -errno. */
int uaio_check_files_open(struct uaio_check_files *files, const char *path);

/*
 * Read what has been written since the last call. @is_last: the report that each file may
 * end in has no end, and is reported as it is.
 */
void uaio_check_files_read(struct uaio_check_files *files, bool is_last);
void uaio_check_files_close(struct uaio_check_files *files);

/* suppressions.c: reports that the user does not want to see */

struct uaio_suppression {
	char *kind, *pattern; /* owns */
	const char *file;     /* borrows */
	unsigned line;
	uint64_t nr; /* reports that it has suppressed */
};

struct uaio_suppressions {
	struct uaio_suppression *all; /* owns */
	unsigned nr;
};

/* Add those of a file. Return: 0, or the exit status after a message. */
int uaio_suppressions_read(struct uaio_suppressions *to, const char *path);

/* Return: the first that suppresses the report, whose frames have their lines; or -1. */
int uaio_suppressions_find(const struct uaio_suppressions *suppressions,
			   const struct uaio_report *report);
void uaio_suppressions_free(struct uaio_suppressions *suppressions);

/* places.c: which places were seen */

enum {
	UAIO_CHECK_SHOWN = -1, /* not suppressed */
	UAIO_CHECK_PLACES_MAX = 1000,
};

struct uaio_check_place {
	uint64_t hash; /* of the kind, operation and innermost frames */
	int verdict;   /* UAIO_CHECK_SHOWN, or the index of a suppression */
};

struct uaio_check_places {
	struct uaio_check_place *all; /* owns */
	unsigned nr;
};

/* Return: the hash of the place of a report, whose frames are those that it came with. */
uint64_t uaio_check_place_of(const struct uaio_report *report);

/* Return: the place with that hash, or NULL if none was seen. */
struct uaio_check_place *
uaio_check_places_find(const struct uaio_check_places *places, uint64_t hash);

/* Return: false if there are too many places already. */
bool uaio_check_places_add(struct uaio_check_places *places, uint64_t hash,
			   int verdict);

/*
 * symbols.c: the lines of the frames. The innermost frames are dropped if they are a
 * sanitizer's.
 */

void uaio_check_symbolize(struct uaio_report *report);

/* What the library reports under this name is no error, but a change on purpose. */
#define UAIO_CHECK_CHANGE "change"

/* print.c */

/* Print the frames, up to main(), under a heading. Nothing if there are none. */
void uaio_check_print_stack(FILE *to, const char *heading,
			    const struct uaio_check_stack *stack);

void uaio_check_print(FILE *to, const struct uaio_report *report);
void uaio_check_print_json(FILE *to, const struct uaio_report *report);
/* A seed that fails, as JSON. */
void uaio_check_print_seed_json(FILE *to, const char *what,
				const char *command);

/* follow.c: the command, and its processes */

/* How the command is run. */
struct uaio_check_how {
	const char *faults; /* for --fault of `uaio run`; NULL: none */
	bool has_hints;
	int64_t limit_ns; /* it is killed after that; 0: never */
	/*
	 * -1: it has our input and output. Else its output goes to that file, its input is
	 * empty, it has a process group of its own, and what it leaves behind is killed.
	 */
	int output;
};

struct uaio_check_run {
	char dir[64];     /* in which the processes write */
	int status;       /* of the command, as waitpid() has it */
	bool is_refused;  /* it was not executed, and a message says why */
	bool leaves_some; /* processes of it run on */
	bool is_late;     /* it was killed after its limit */
	int stopped_by; /* a signal that ends commands as a rule; 0: none has come */
};

/*
 * Make the directory, run the command, and call files->report for each report, until the
 * command has ended.
 *
 * Return: 0, with the directory still there; or the exit status after a message.
 */
int uaio_check_follow(struct uaio_check_run *ret_run,
		      struct uaio_check_files *files, char **argv,
		      const struct uaio_check_how *how);

/*
 * seedruns.c: runs with other orders, late completions and short transfers (seeds.h)
 */

/* What the user asks for. */
struct uaio_check_seeds {
	uint64_t first, nr;
	int64_t limit_ns;   /* of a run; 0: chosen */
	const char *faults; /* NULL: chosen */
	bool has_hints;
	/* As in seeds.h */
	void (*tell_failed)(const char *what, const char *command);
};

/*
 * Run the command without changes, and then with those of the seeds. @report is called for
 * each report, and counts those that are errors in *nr_errors.
 *
 * Return: 0 with the status of the run without changes or of the signal that has ended us,
 * as waitpid() has it, and whether a run has failed; or the exit status after a message.
 */
int uaio_check_run_seeds(const struct uaio_check_seeds *seeds, char **argv,
			 uaio_check_report_fn *report,
			 const uint64_t *nr_errors, int *ret_status,
			 bool *ret_has_failed);

/*
 * valgrind.c: have memcheck, if the command runs it, not report the library's own calls. In
 * the process that becomes the command. Return: 0 or -errno.
 */
int uaio_check_tell_valgrind(const char *dir);

/* Remove the directory. */
void uaio_check_remove(const char *dir);

/* Return: the exit status; or does not return, but ends by the command's signal. */
int uaio_check_end_as(int status);

#endif /* UAIO_TOOL_CHECK_CHECK_H */
