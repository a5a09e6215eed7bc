/* SPDX-License-Identifier: MIT */
/*
 * uaio doctor: says what works here, what does not, and why
 *
 * It changes nothing and risks nothing: what may end a process is tried by
 * children.
 *
 * Tested by test/run/doctor.py.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tool/findings.h"
#include "tool/machine.h"
#include "tool/tool.h"

static void print_help(void)
{
	puts("usage: uaio doctor [option...]\n"
	     "\n"
	     "Says what works here of asynchronous I/O, what does not, why, "
	     "and what helps.\n"
	     "Each line is a PASS, a WARN or a FAIL.\n"
	     "\n"
	     "  --json         print one JSON object; see uaio-doctor(1)\n"
	     "  -h, --help     show this\n"
	     "\n"
	     "The status is 0 if all passes, 1 if there is a WARN, and 2 if "
	     "there is a FAIL.");
}

struct orders {
	bool is_json;
};

/*
 * Return: 0 with the arguments from argv[optind] on; -1 if all is done, with the
 * exit status in *ret_status.
 */
static int read_flags(int argc, char **argv, struct orders *orders,
		      int *ret_status)
{
	static const struct option flags[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	int c;

	argv[0] = (char[]){ "uaio" }; /* the prefix of getopt's messages */
	*ret_status = EXIT_SUCCESS;
	while ((c = getopt_long(argc, argv, "+h", flags, NULL)) != -1) {
		switch (c) {
		case 'j': orders->is_json = true; break;
		case 'h': print_help(); return -1;
		default: *ret_status = EXIT_REFUSED; return -1;
		}
	}
	return 0;
}

int uaio_doctor_main(int argc, char **argv)
{
	struct uaio_findings findings = { 0 };
	static struct uaio_machine machine;
	struct orders orders = { 0 };
	int status;

	if (read_flags(argc, argv, &orders, &status) < 0)
		return status;
	if (optind < argc)
		return uaio_diag(EXIT_REFUSED, "doctor: %s: too many arguments",
				 argv[optind]);
	(void)signal(SIGCHLD, SIG_DFL); /* children are waited for */
	uaio_machine_read(&machine);
	uaio_machine_judge(&machine, &findings);
	if (orders.is_json)
		uaio_findings_print_json(&findings);
	else
		uaio_findings_print(&findings, NULL);
	status = (int)uaio_findings_worst(&findings);
	uaio_findings_free(&findings);
	return status;
}
