/* SPDX-License-Identifier: MIT */
/*
 * uaio doctor: reports what works on this machine, what does not, and why
 *
 * The doctor changes nothing on the machine. If an attempt might kill a process, the
 * doctor makes this attempt in a child process.
 *
 * Tested by test/run/doctor.py.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/common/target.h"
#include "tool/doctor/findings.h"
#include "tool/doctor/machine.h"
#include "tool/tool.h"

static void print_help(void)
{
	puts("usage: uaio doctor [option...] [command|path...]\n"
	     "\n"
	     "Says what works here of asynchronous I/O, what does not, why, "
	     "and what helps;\n"
	     "of each command, what it uses and how that is served; of each "
	     "file or directory,\n"
	     "what its file system does. Each line is a PASS, a WARN or a "
	     "FAIL.\n"
	     "\n"
	     "  --path PATH    a file or directory that could be taken for a "
	     "command\n"
	     "  --json         print one JSON object; see uaio-doctor(1)\n"
	     "  -h, --help     show this\n"
	     "\n"
	     "The status is 0 if all passes, 1 if there is a WARN, and 2 if "
	     "there is a FAIL.");
}

struct orders {
	bool is_json;
	/* owned by this struct; has room for all arguments */
	const char **paths;
	int nr_paths;
};

/*
 * Return: 0: the other arguments start at argv[optind]. -1: there is nothing to do, and
 * *ret_status is the exit status.
 */
static int read_flags(int argc, char **argv, struct orders *orders,
		      int *ret_status)
{
	static const struct option flags[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "path", required_argument, NULL, 'p' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	*ret_status = EXIT_SUCCESS;
	while ((c = uaio_flags_next(argc, argv, "+h", flags)) != -1) {
		switch (c) {
		case 'j': orders->is_json = true; break;
		case 'p': orders->paths[orders->nr_paths++] = optarg; break;
		case 'h': print_help(); return -1;
		default: *ret_status = EXIT_REFUSED; return -1;
		}
	}
	return 0;
}

/*
 * Return: whether the argument is no command, but a path to examine (a directory, or a
 * file that may not be executed).
 */
static bool is_path(const char *argument)
{
	char message[PATH_MAX], path[PATH_MAX];
	int status;

	uaio_diag_into(message, sizeof(message));
	status = uaio_search_command(argument, path);
	uaio_diag_into(NULL, 0);
	return status && access(argument, F_OK) == 0;
}

static void judge_all(const struct orders *orders, char *const *arguments,
		      const struct uaio_machine *machine,
		      struct uaio_findings *findings)
{
	uaio_machine_judge(machine, findings);
	uaio_settings_judge(findings);
	for (; *arguments; arguments++) {
		if (is_path(*arguments))
			uaio_filesystem_judge(*arguments, findings);
		else
			uaio_program_judge(*arguments, machine, findings);
	}
	for (int i = 0; i < orders->nr_paths; i++)
		uaio_filesystem_judge(orders->paths[i], findings);
}

int uaio_doctor_main(int argc, char **argv)
{
	struct uaio_findings findings = { 0 };
	static struct uaio_machine machine;
	struct orders orders = { 0 };
	int status;

	orders.paths = calloc((size_t)argc, sizeof(*orders.paths));
	if (!orders.paths)
		return uaio_diag(EXIT_REFUSED, "%s", strerror(ENOMEM));
	if (read_flags(argc, argv, &orders, &status) == 0) {
		/*
		 * if SIGCHLD were ignored, the doctor could not wait for its children
		 */
		(void)signal(SIGCHLD, SIG_DFL);
		uaio_machine_read(&machine);
		judge_all(&orders, argv + optind, &machine, &findings);
		if (orders.is_json)
			uaio_findings_print_json(&findings);
		else
			uaio_findings_print(&findings,
					    optind < argc || orders.nr_paths);
		status = (int)uaio_findings_worst(&findings);
	}
	uaio_findings_free(&findings);
	free(orders.paths);
	return status;
}
