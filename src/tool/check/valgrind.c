/* SPDX-License-Identifier: MIT */
/*
 * Writes suppressions for valgrind's tools, used under `uaio check`
 *
 * helgrind and drd do not recognise the library's atomic accesses. So suppress each
 * race whose later access is made by the library. A request's accesses to the program's
 * memory are made by libuaio-check.so, not by the library (check/access.c). So valgrind
 * still reports races between the program and a request.
 *
 * memcheck: while a request that reads is in flight, the library marks the request's
 * buffer as inaccessible. So memcheck reports a program that touches the buffer.
 * Suppress reports about the library's own system calls that fill the buffer, and about
 * calls that probe memory. (memcheck still reports wrong buffers: at submission, the
 * library makes memcheck check the buffer.) The option in VALGRIND_OPTS names the file
 * of suppressions.
 *
 * Tested by test/run/checkers.py.
 */
#include "tool/check/check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VECTORS = 1024 }; /* maximum number of iovecs in a call */

/*
 * Parameters of system calls. memcheck may report errors about them, which are
 * suppressed. Some parameters have different names in different versions of valgrind.
 */
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
	/* calls by which the library probes memory (base/uaddr.c) */
	"futex(futex2)",
	"futex(uaddr2)",
	"rt_sigprocmask(set)",
	"rt_sigprocmask(oset)",
};

/* After these names, memcheck prints the index of the iovec and "])". */
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
 * Tops of the stacks of suppressed races: the access is made by the library itself, or
 * by a function that the library calls.
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
	int r;

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
	if (fclose(to) == 0)
		return 0;
	/* Leave the room to the reports. */
	r = -errno;
	(void)unlink(path);
	return r;
}

int uaio_check_tell_valgrind(const char *dir)
{
	static const char variable[] = "VALGRIND_OPTS";
	const char *old = getenv(variable);
	char path[PATH_MAX], *text;
	int r;

	(void)snprintf(path, sizeof(path), "%s/valgrind", dir);
	/*
	 * valgrind splits VALGRIND_OPTS at white space, so a path that contains any
	 * cannot be passed.
	 */
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
