/* SPDX-License-Identifier: MIT */
/*
 * What tools of valgrind are not to report under `uaio check`
 *
 * Of helgrind and drd: races whose second access the library makes. Its own atomic accesses
 * are none to them. Those of a request are made in libuaio-check.so (check/access.c).
 *
 * Of memcheck:
 *
 * The library marks the memory into which a request in flight reads as no access, so that
 * memcheck reports a program that touches the memory. The library's own calls, which fill
 * it, and those that probe memory, are no errors. (The library has had memcheck look at the
 * memory when the request was submitted.) VALGRIND_OPTS names a file that says so.
 *
 * Tested by test/run/checkers.py.
 */
#include "tool/check/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VECTORS = 1024 }; /* as many as a call can have */

/* Parameters of system calls, as versions of valgrind name them. */
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
	/* Probes: base/uaddr.c. */
	"futex(futex2)",
	"futex(uaddr2)",
	"rt_sigprocmask(set)",
	"rt_sigprocmask(oset)",
};

/* These have a number, and a parenthesis, behind them. */
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

/* Where the library makes an access: by itself, or by functions that it calls. */
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
	/* It takes apart at spaces what the variable says. */
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
