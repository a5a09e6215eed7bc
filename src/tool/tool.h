/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the `uaio` command: a main function for each subcommand, exit
 * statuses, messages on stderr, and parsing of flags.
 */
#ifndef UAIO_TOOL_TOOL_H
#define UAIO_TOOL_TOOL_H

#include <getopt.h>
#include <stddef.h>

/*
 * Exit statuses of `uaio`: 2 for its own errors; 126 and 127 with the same meaning as
 * for env(1).
 */
enum {
	/* wrong usage, or the library cannot do what was asked */
	EXIT_REFUSED = 2,
	EXIT_CANNOT_RUN = 126, /* the command exists, but cannot be executed */
	EXIT_NOT_FOUND = 127,  /* no such command */
};

/*
 * The main function of each subcommand; argv[0] is the subcommand's name.
 * Return: the exit status. Does not return if it executes another program.
 */
int uaio_run_main(int argc, char **argv);
int uaio_trace_main(int argc, char **argv);
int uaio_check_main(int argc, char **argv);
int uaio_bench_main(int argc, char **argv);
int uaio_doctor_main(int argc, char **argv);
int uaio_stat_main(int argc, char **argv);
int uaio_top_main(int argc, char **argv);

/*
 * Print the version, and for which C library this build is. A release also prints the
 * commit.
 */
void uaio_version_print(void);

/*
 * Write one line to stderr, which begins with "uaio: ". Control characters, which may
 * be in names of files, are replaced by '?'.
 *
 * Return: @status, so that callers can `return uaio_diag(EXIT_REFUSED, ...)`.
 */
int uaio_diag(int status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * Make uaio_diag() store its line in @buf, without "uaio: " and without a newline. If
 * @buf is NULL, uaio_diag() writes to stderr again.
 */
void uaio_diag_into(char *buf, size_t len);

/*
 * common/flags.c: like getopt_long(), but its message for a refused flag is one line
 */

/*
 * Get the next flag. @argv[0] is the subcommand. @letters are those of getopt_long(),
 * without the leading ':'.
 *
 * Return: as getopt_long(). If a flag is refused, this function prints a message and
 * returns '?'.
 */
int uaio_flags_next(int argc, char **argv, const char *letters,
		    const struct option *flags);

#endif /* UAIO_TOOL_TOOL_H */
