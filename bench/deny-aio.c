/* SPDX-License-Identifier: MIT */
/*
 * deny-aio [--uring] [--errno NAME] -- command: run a program without kernel AIO.
 *
 * A seccomp filter answers the six calls of kernel AIO with an error, ENOSYS
 * unless another is named, as a sandbox or a container runtime does; or it kills
 * the process that makes one, if the name is KILL. With --uring the calls are the
 * three of io_uring. The filter is inherited by all that the command starts.
 */
#include <errno.h>
#include <getopt.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

enum { KILL = -1 }; /* in an errno's place */

static const struct {
	const char *name;
	int value;
} errnos[] = {
	{ "EACCES", EACCES }, { "EAGAIN", EAGAIN },
	{ "EINVAL", EINVAL }, { "ENOMEM", ENOMEM },
	{ "ENOSYS", ENOSYS }, { "EOPNOTSUPP", EOPNOTSUPP },
	{ "EPERM", EPERM },   { "KILL", KILL },
};

static const int aio_calls[] = {
	SCMP_SYS(io_setup),  SCMP_SYS(io_destroy),   SCMP_SYS(io_submit),
	SCMP_SYS(io_cancel), SCMP_SYS(io_getevents), SCMP_SYS(io_pgetevents),
};

static const int uring_calls[] = {
	SCMP_SYS(io_uring_setup),
	SCMP_SYS(io_uring_enter),
	SCMP_SYS(io_uring_register),
};

/* The status that env(1) and its like give when they fail themselves. */
enum { EXIT_OWN_FAILURE = 125, EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127 };

static void usage(FILE *to)
{
	fputs("usage: deny-aio [--uring] [--errno NAME] -- command "
	      "[argument...]\n",
	      to);
}

/* Return: the errno of that name, KILL, or 0. */
static int errno_named(const char *name)
{
	for (size_t i = 0; i < sizeof(errnos) / sizeof(errnos[0]); i++)
		if (!strcmp(name, errnos[i].name))
			return errnos[i].value;
	return 0;
}

/*
 * Loading sets no_new_privs too, so no privilege is needed.
 *
 * Return: 0, or a negative errno.
 */
static int deny(const int calls[], size_t nr, int error)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	uint32_t action = error == KILL ? SCMP_ACT_KILL_PROCESS
					: SCMP_ACT_ERRNO((uint16_t)error);
	int ret = 0;

	if (!filter)
		return -ENOMEM;
	for (size_t i = 0; !ret && i < nr; i++)
		ret = seccomp_rule_add(filter, action, calls[i], 0);
	if (!ret)
		ret = seccomp_load(filter);
	seccomp_release(filter);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "errno", required_argument, NULL, 'e' },
		{ "uring", no_argument, NULL, 'u' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int error = ENOSYS, opt, ret;
	bool is_uring = false;

	while ((opt = getopt_long(argc, argv, "+e:uh", options, NULL)) != -1) {
		if (opt == 'h') {
			usage(stdout);
			return 0;
		}
		if (opt == 'u') {
			is_uring = true;
			continue;
		}
		error = opt == 'e' ? errno_named(optarg) : 0;
		if (!error) {
			if (opt == 'e')
				fprintf(stderr, "deny-aio: errno %s?\n",
					optarg);
			usage(stderr);
			return EXIT_OWN_FAILURE;
		}
	}
	if (optind == argc) {
		usage(stderr);
		return EXIT_OWN_FAILURE;
	}
	ret = is_uring ? deny(uring_calls, ARRAY_LENGTH(uring_calls), error)
		       : deny(aio_calls, ARRAY_LENGTH(aio_calls), error);
	if (ret < 0) {
		fprintf(stderr, "deny-aio: seccomp: %s\n", strerror(-ret));
		return EXIT_OWN_FAILURE;
	}
	execvp(argv[optind], argv + optind);
	ret = errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
	fprintf(stderr, "deny-aio: %s: %s\n", argv[optind], strerror(errno));
	return ret;
}
