/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the `uaio` command: a main function for each subcommand, exit
 * statuses, error messages, and parsing of flags.
 */
#ifndef UAIO_TOOL_TOOL_H
#define UAIO_TOOL_TOOL_H

#include <getopt.h>
#include <stddef.h>

/* Exit statuses as of env(1) and nohup(1), and 2 for errors of `uaio` itself. */
enum {
	EXIT_REFUSED = 2, /* wrong usage, or not supported by the library */
	EXIT_CANNOT_RUN = 126, /* the command exists, but cannot be executed */
	EXIT_NOT_FOUND = 127,  /* no such command */
};

/*
 * Subcommands. argv[0] is the name of the subcommand.
 * Return: the exit status, unless the subcommand has executed another program.
 */
int uaio_run_main(int argc, char **argv);
int uaio_trace_main(int argc, char **argv);
int uaio_check_main(int argc, char **argv);
int uaio_bench_main(int argc, char **argv);
int uaio_doctor_main(int argc, char **argv);
int uaio_stat_main(int argc, char **argv);
int uaio_top_main(int argc, char **argv);

/* Print the version, the C library that it is for, and for a release the commit. */
void uaio_version_print(void);

/*
 * Writes one line to stderr, with "uaio: " before it. Control characters, which
 * file names may contain, are replaced by '?'.
 *
 * Return: @status, so that callers can `return uaio_diag(EXIT_REFUSED, ...)`.
 */
int uaio_diag(int status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * From now on uaio_diag() stores its line, without "uaio: " and without a newline, in
 * @buf. If @buf is NULL, it writes to stderr again.
 */
void uaio_diag_into(char *buf, size_t len);

/* common/flags.c: getopt_long() with a one-line message for a refused flag */

/*
 * Get the next flag. @argv[0] is the subcommand. @letters are those of getopt_long(),
 * without the leading ':'.
 *
 * Return: the result of getopt_long(); '?' if a flag was refused, after a message.
 */
int uaio_flags_next(int argc, char **argv, const char *letters,
		    const struct option *flags);

#endif /* UAIO_TOOL_TOOL_H */
