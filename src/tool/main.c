/* SPDX-License-Identifier: MIT */
/*
 * The `uaio` command: finds the subcommand in a table and calls its main function.
 *
 * Tested by test/run/options.py.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options/names.h"
#include "tool/common/target.h"
#include "tool/common/trapped.h"
#include "tool/doctor/machine.h"
#include "tool/tool.h"

static int help_main(int argc, char **argv);

static const struct command {
	const char *name;
	const char *arguments;
	const char *help;
	int (*main)(int argc, char **argv);
} commands[] = {
	{ "run", "[option...] [--] command [argument...]",
	  "start a program whose asynchronous I/O the library serves",
	  uaio_run_main },
	{ "doctor", "[option...] [command|path...]",
	  "say which asynchronous I/O works here, which does not, and why",
	  uaio_doctor_main },
	{ "stat", "[option...] [pid...]",
	  "print counts of the requests of processes that use the library",
	  uaio_stat_main },
	{ "top", "[option...] [pid...]",
	  "show periodically the requests of processes that use the library",
	  uaio_top_main },
	{ "trace", "[option...] [--] command [argument...]",
	  "write a line for each request of a program, or of running processes",
	  uaio_trace_main },
	{ "check", "[option...] [--] command [argument...]",
	  "report wrong uses of asynchronous I/O by a program",
	  uaio_check_main },
	{ "bench", "[option...] [row...]",
	  "measure the library beside kernel AIO and io_uring",
	  uaio_bench_main },
	{ "help", "[subcommand]", "show this, or the help of a subcommand",
	  help_main },
};
enum { NR_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_usage(FILE *to)
{
	fputs("usage:\n", to);
	for (int i = 0; i < NR_COMMANDS; i++)
		fprintf(to, "  uaio %s %s\n      %s\n", commands[i].name,
			commands[i].arguments, commands[i].help);
	fputs("  uaio --version\n", to);
}

static const struct command *find_command(const char *name)
{
	for (int i = 0; i < NR_COMMANDS; i++) {
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	}
	return NULL;
}

static int diag_unknown(int argc, char **argv)
{
	struct uaio_like like = { .name = argv[0] };
	char path[PATH_MAX];

	if (argv[0][0] == '-') {
		uaio_like_compare(&like, "--help");
		uaio_like_compare(&like, "--version");
	} else {
		for (int i = 0; i < NR_COMMANDS; i++)
			uaio_like_compare(&like, commands[i].name);
	}

	if (argv[0][0] == '-' && like.best)
		return uaio_diag(EXIT_REFUSED,
				 "%s: no such option; did you mean %s?",
				 argv[0], like.best);
	if (argv[0][0] == '-')
		return uaio_diag(EXIT_REFUSED,
				 "%s: no such option%s; see uaio help", argv[0],
				 strcmp(argv[0], "-v")
					 ? ""
					 : " (-V shows the version, uaio run "
					   "--verbose what is done)");
	if (!uaio_search(argv[0], path))
		return uaio_diag(EXIT_REFUSED,
				 "%s: no such subcommand (to run that command: "
				 "uaio run -- %s%s); see uaio help",
				 argv[0], argv[0], argc > 1 ? " ..." : "");
	if (like.best)
		return uaio_diag(EXIT_REFUSED,
				 "%s: no such subcommand; did you mean %s?",
				 argv[0], like.best);
	return uaio_diag(EXIT_REFUSED, "%s: no such subcommand; see uaio help",
			 argv[0]);
}

static int run_command(int argc, char **argv)
{
	const struct command *command = find_command(argv[0]);

	if (!command)
		return diag_unknown(argc, argv);
	return command->main(argc, argv);
}

/*
 * Write what is left of the standard output.
 * Return: status; or, after a message, the status for an output that was not written.
 */
static int end_output(int status)
{
	/* If an earlier write failed, errno may be that of a later call. */
	bool has_failed = ferror(stdout);

	if (fflush(stdout))
		return uaio_diag(EXIT_REFUSED,
				 "cannot write the standard output: %s",
				 strerror(errno));
	return has_failed ? uaio_diag(EXIT_REFUSED,
				      "cannot write the standard output")
			  : status;
}

static int help_main(int argc, char **argv)
{
	if (argc > 1 && find_command(argv[1]) != find_command("help"))
		return run_command(2, (char *[]){ argv[1], "--help", NULL });
	print_usage(stdout);
	return EXIT_SUCCESS;
}

static bool is_one_of(const char *text, const char *a, const char *b)
{
	return !strcmp(text, a) || !strcmp(text, b);
}

int main(int argc, char **argv, char **envp)
{
	if (uaio_trapped_is_asked())
		return uaio_trapped_main(argv, envp);
	if (argc == 3 && !strcmp(argv[0], UAIO_SERVED_TRY))
		return uaio_served_try_main(argv);
	if (argc < 2) {
		print_usage(stderr);
		return EXIT_REFUSED;
	}
	if (is_one_of(argv[1], "-h", "--help"))
		return end_output(help_main(1, argv));
	if (is_one_of(argv[1], "-V", "--version")) {
		uaio_version_print();
		return end_output(EXIT_SUCCESS);
	}
	return end_output(run_command(argc - 1, argv + 1));
}
