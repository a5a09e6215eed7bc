/* SPDX-License-Identifier: MIT */
/*
 * Suppressions for valgrind's tools under `uaio check`
 *
 * For helgrind and drd: races whose second access is made by the library, because these
 * tools do not recognise the library's atomic accesses. Accesses that a request makes
 * to the program's memory are made in libuaio-check.so (check/access.c), so races with
 * these are reported.
 *
 * For memcheck: the library marks the memory that a request in flight reads into as
 * inaccessible, so that memcheck reports a program that touches it. The library's own
 * system calls that fill the memory, and those that probe memory, are not errors. (The
 * library has memcheck check the memory at submission.) VALGRIND_OPTS names the file of
 * suppressions.
 *
 * Tested by test/run/checkers.py.
 */
#include "tool/check/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VECTORS = 1024 }; /* maximum of vectors in a call */

/* Parameters of system calls, as valgrind's versions name them. */
static const char *const parameters[] = {
	"read(buf)",
	"pread64(buf)",
	"recvfrom(buf)",
	"socketcall.recvfrom(buf)",
	"recvmsg(msg.msg_name)",
	"recvmsg(msg.msg_control)",
	"statx(statxbuf)",
	"statx(buf)",
	"getxattr(value)",
	"fgetxattr(value)",
	/* Calls that probe memory: base/uaddr.c. */
	"futex(futex2)",
	"futex(uaddr2)",
	"rt_sigprocmask(set)",
	"rt_sigprocmask(oset)",
};

/* Parameters whose name is followed by a number and a parenthesis. */
static const char *const vectors[] = {
	"readv(vector[",
	"preadv(vector[",
	"preadv2(vector[",
	"recvmsg(msg.msg_iov[",
};

static void print(FILE *to, const char *parameter, const char *number,
		  const char *end)
{
	fprintf(to,
		"{\n   uaio\n   Memcheck:Param\n   %s%s%s\n"
		"   obj:*/libuaio.so*\n}\n",
		parameter, number, end);
}

static const char *const races[] = { "Helgrind:Race", "drd:ConflictingAccess" };

/*
 * Functions in which the library accesses memory: its own, or functions that it calls.
 */
static const char *const accesses[] = {
	"obj:*/libuaio.so*",
	"obj:*/vgpreload_*\n   obj:*/libuaio.so*",
	"obj:*/libc.so*\n   obj:*/libuaio.so*",
	"obj:*/libgcc_s.so*\n   ...\n   obj:*/libuaio.so*",
};

static void print_races(FILE *to)
{
	for (size_t i = 0; i < sizeof(races) / sizeof(*races); i++)
		for (size_t j = 0; j < sizeof(accesses) / sizeof(*accesses);
		     j++)
			fprintf(to, "{\n   uaio\n   %s\n   %s\n}\n", races[i],
				accesses[j]);
}

static int write_file(const char *path)
{
	FILE *to = fopen(path, "we");
	char number[16];

	if (!to)
		return -errno;
	print_races(to);
	for (size_t i = 0; i < sizeof(parameters) / sizeof(*parameters); i++)
		print(to, parameters[i], "", "");
	for (size_t i = 0; i < sizeof(vectors) / sizeof(*vectors); i++)
		for (unsigned nr = 0; nr < VECTORS; nr++) {
			(void)snprintf(number, sizeof(number), "%u", nr);
			print(to, vectors[i], number, "])");
		}
	return fclose(to) ? -errno : 0;
}

int uaio_check_tell_valgrind(const char *dir)
{
	static const char variable[] = "VALGRIND_OPTS";
	const char *old = getenv(variable);
	char path[PATH_MAX], *text;
	int r;

	(void)snprintf(path, sizeof(path), "%s/valgrind", dir);
	/* valgrind splits the variable VALGRIND_OPTS at spaces. */
	if (strpbrk(path, " \t\n"))
		return 0;
	r = write_file(path);
	if (r < 0)
		return r;
	if (asprintf(&text, "%s%s--suppressions=%s", old ? old : "",
		     old ? " " : "", path) < 0)
		return -ENOMEM;
	r = setenv(variable, text, 1) < 0 ? -errno : 0;
	free(text);
	return r;
}
