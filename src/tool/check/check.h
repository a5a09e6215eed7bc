/* SPDX-License-Identifier: MIT */
/*
 * `uaio check`: runs a command, in which the library looks for wrong uses of
 * asynchronous I/O, and prints the library's reports
 *
 * Each process of the command appends its reports to its own file, which is named by
 * the process id. All these files are in one directory. The tool is the command's
 * parent. While the command runs, the tool reads the files. Of the reports from one
 * place in the program (places.c), the tool shows only the first. At the end it removes
 * the directory.
 *
 * A report consists of text lines, one per field; tabs separate the parts of a line.
 * The last line is `end`. The checked program may have overwritten the report, or been
 * killed while it wrote the report. So the tool trusts no length, number or name in a
 * report.
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

/* A kind of error. doc/check.md and the man page list the names. */
struct uaio_check_kind {
	const char *name;
	const char *explanation; /* a sentence that explains the error */
	const char *now; /* heading above the stack where the error was found */
	/*
	 * heading above the stack of the submission; NULL: "the request was submitted
	 * here"
	 */
	const char *submitted;
	const char *rule; /* what a manual page says about the error */
	const char *help; /* how to fix it */
	/* not an error, only a hint: allowed, but seldom meant */
	bool is_hint;
};

/* Return: the kind with that name, or NULL. */
const struct uaio_check_kind *uaio_check_kind_find(const char *name);

/* Return: the kind at index i, or NULL after the last. */
const struct uaio_check_kind *uaio_check_kind_at(unsigned i);

/* reports.c: parsing a report */

enum {
	UAIO_CHECK_KIND_MAX = 40,
	UAIO_CHECK_FRAMES_MAX = 64,      /* most frames in a stack */
	UAIO_CHECK_REPORT_MAX = 1 << 18, /* most bytes in a report */
};

enum uaio_check_stack_id {
	UAIO_CHECK_NOW,       /* where the error was found */
	UAIO_CHECK_SUBMITTED, /* where the request was submitted */
	/* if the report is about two requests: where the second was submitted */
	UAIO_CHECK_OTHER,
	UAIO_CHECK_NR_STACKS,
};

/* A source line; a frame has several if functions are inlined. */
struct uaio_check_line {
	char *function; /* owns */
	char *file;     /* owns; NULL: unknown */
	unsigned line;  /* 0: not known */
};

struct uaio_check_frame {
	/* pc: address of the instruction; offset: pc's position in its module */
	uint64_t pc, offset;
	const char *module; /* path; NULL: not known */
	const char *symbol; /* NAME+0xOFFSET; NULL: not known */
	const char *
		/* what a sanitizer's symbolizer printed for the frame, or NULL */
		text;
	struct uaio_check_line *lines; /* owns; symbols.c fills in */
	unsigned nr_lines;
};

struct uaio_check_stack {
	struct uaio_check_frame *frames; /* owns */
	unsigned nr;
};

struct uaio_check_request {
	/* the operation's name; NULL: the report does not describe the request */
	const char *operation;
	const char *fields; /* texts NAME=VALUE, separated by spaces */
};

struct uaio_report {
	char *text; /* owns: the whole report; the strings below are parts of it */
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

/* memory: the result of an allocation. If NULL, exit with a message; else return it. */
void *uaio_check_memory(void *memory);

/* files.c: reads the report files that the processes write */

/* Counts of all processes of the command together. */
struct uaio_check_sums {
	uint64_t nr_processes; /* processes that made a request */
	/* how many of the processes ended normally, and so wrote a summary */
	uint64_t nr_ended;
	/*
	 * from the processes' summaries: number of requests, and of those that the
	 * library checked
	 */
	uint64_t nr_requests, nr_checked;
	char checkers
		/* checkers in the processes, such as sanitizers; empty: none */
		[64];
};

typedef void uaio_check_report_fn(struct uaio_report *report, void *arg);

struct uaio_check_files {
	void *dir;                        /* an open directory stream (DIR *) */
	struct uaio_check_file **buckets; /* owns; hashed by process id */
	struct uaio_check_sums sums;
	uaio_check_report_fn *report; /* called for each report that is read */
	void *arg;
};

/* Return: 0 or -errno. */
int uaio_check_files_open(struct uaio_check_files *files, const char *path);

/*
 * Read what processes have written since the last call. @is_last: this is the last
 * call, so also report an incomplete report at the end of a file.
 */
void uaio_check_files_read(struct uaio_check_files *files, bool is_last);
void uaio_check_files_close(struct uaio_check_files *files);

/* suppressions.c: reports that the user does not want to see */

struct uaio_suppression {
	char *kind, *pattern; /* owns */
	/* borrows: the file that contains the suppression */
	const char *file;
	unsigned line;
	uint64_t nr; /* number of reports that this suppression matched */
};

struct uaio_suppressions {
	struct uaio_suppression *all; /* owns */
	unsigned nr;
};

/*
 * Read the suppressions in a file, and add them to *to.
 * Return: 0, or the exit status after a message.
 */
int uaio_suppressions_read(struct uaio_suppressions *to, const char *path);

/*
 * Return: the index of the first suppression that matches the report; or -1. The report
 * must be symbolized (symbols.c).
 */
int uaio_suppressions_find(const struct uaio_suppressions *suppressions,
			   const struct uaio_report *report);
void uaio_suppressions_free(struct uaio_suppressions *suppressions);

/*
 * places.c: places where errors were reported, so that each place is shown only once
 */

enum {
	UAIO_CHECK_SHOWN = -1, /* not suppressed */
	UAIO_CHECK_PLACES_MAX = 1000,
};

struct uaio_check_place {
	/* what uaio_check_place_of() returns for reports of this place */
	uint64_t hash;
	int verdict; /* UAIO_CHECK_SHOWN, or the index of the matching suppression */
};

struct uaio_check_places {
	struct uaio_check_place *all; /* owns */
	unsigned nr;
};

/*
 * A report's place is its kind, its operation and the innermost frames of its stacks,
 * as the report has them (not symbolized).
 * Return: the hash of the place.
 */
uint64_t uaio_check_place_of(const struct uaio_report *report);

/* Return: the place with that hash, or NULL if it has had no report yet. */
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

/*
 * Reports of this kind are no errors: they say which requests --fault has changed.
 */
#define UAIO_CHECK_CHANGE "change"

/* print.c */

/*
 * Print a heading, and the frames from the innermost one to main(). Prints nothing if
 * there are no frames.
 */
void uaio_check_print_stack(FILE *to, const char *heading,
			    const struct uaio_check_stack *stack);

void uaio_check_print(FILE *to, const struct uaio_report *report);
void uaio_check_print_json(FILE *to, const struct uaio_report *report);
/*
 * Print as JSON that the run with a seed failed. what: a text that says how the run
 * failed; command: a command that repeats the failure.
 */
void uaio_check_print_seed_json(FILE *to, const char *what,
				const char *command);

/* follow.c: runs the command and follows its processes */

/* How to run the command. */
struct uaio_check_how {
	const char *faults; /* argument of --fault for `uaio run`; NULL: none */
	bool has_hints;
	/* the time after which to kill the command; 0: never */
	int64_t limit_ns;
	/*
	 * Descriptor for the command's output; -1: the command uses the tool's input
	 * and output. Otherwise the command gets an empty input and a process group of
	 * its own. When the command has ended, the tool kills the processes that are
	 * left in this group.
	 */
	int output;
};

struct uaio_check_run {
	char dir[64]; /* where the processes write reports */
	int status;   /* the command's status, as from waitpid() */
	/* the command was not executed; a message has said why */
	bool is_refused;
	bool leaves_some; /* some processes of the command have not ended */
	/* a process could not write a report; a message has said so */
	bool has_lost;
	bool is_late; /* the tool killed the command at its time limit */
	/* the last terminating signal that the tool received; 0: none */
	int stopped_by;
};

/*
 * From now on a write beyond the limit of `ulimit -f` fails, and does not end the tool.
 * Call this once, before uaio_check_follow().
 */
void uaio_check_ignore_xfsz(void);

/*
 * Create the directory for reports, and run the command. Until the command has ended,
 * call files->report for each report.
 *
 * Return: 0, and the caller removes the directory; or the exit status after a message.
 */
int uaio_check_follow(struct uaio_check_run *ret_run,
		      struct uaio_check_files *files, char **argv,
		      const struct uaio_check_how *how);

/* seedruns.c: runs whose completions are reordered, late or short (seeds.h) */

/* What the user has chosen for the seeds. */
struct uaio_check_seeds {
	uint64_t first, nr;
	int64_t limit_ns; /* time limit of each run; 0: the tool chooses */
	/* argument of --fault; NULL: the tool chooses the faults */
	const char *faults;
	bool has_hints;
	/*
	 * Called for a failing seed, with the arguments of tell_failed in struct
	 * uaio_seeds (seeds.h).
	 */
	void (*tell_failed)(const char *what, const char *command);
};

/*
 * Run the command without faults, then once for each seed, with faults that the seed
 * determines. Calls @report for each report; @report must count errors in *nr_errors.
 *
 * Return: 0, or the exit status after a message. *ret_status: the status of the run
 * without faults, as from waitpid(). If a signal stopped the tool, *ret_status says
 * that this signal ended the run. *ret_has_failed: whether a run has failed.
 */
int uaio_check_run_seeds(const struct uaio_check_seeds *seeds, char **argv,
			 uaio_check_report_fn *report,
			 const uint64_t *nr_errors, int *ret_status,
			 bool *ret_has_failed);

/*
 * valgrind.c: suppresses false reports of valgrind's tools, if the command runs
 * valgrind. Call this function in the process that then executes the command.
 * Return: 0, or -errno if writing the suppressions or setting VALGRIND_OPTS failed.
 */
int uaio_check_tell_valgrind(const char *dir);

/* Remove the directory for reports. */
void uaio_check_remove(const char *dir);

/*
 * Return: the exit status for `status`, from waitpid(). If a signal killed the command,
 * this process ends by the same signal and does not return.
 */
int uaio_check_end_as(int status);

#endif /* UAIO_TOOL_CHECK_CHECK_H */
