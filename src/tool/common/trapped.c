/* SPDX-License-Identifier: MIT */
#include "tool/common/trapped.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/sys.h"
#include "tool/common/library.h"
#include "tool/tool.h"

#if defined(__x86_64__)

int uaio_trapped_try(void)
{
	enum {
		HAS_FSGSBASE = 1 << 1, /* in AT_HWCAP2 */
		SET_DISPATCH = 59,     /* PR_SET_SYSCALL_USER_DISPATCH */
	};

	if (!(getauxval(AT_HWCAP2) & HAS_FSGSBASE))
		return ENOSYS;
	return prctl(SET_DISPATCH, 0, 0, 0, 0) < 0 ? errno : 0;
}

#else

int uaio_trapped_try(void)
{
	return ENOSYS;
}

#endif

int uaio_trapped_exec(const char *path, char **argv)
{
	char ours[PATH_MAX];

	/*
	 * Execute this command again, with the library. The caller has put the library
	 * in LD_PRELOAD.
	 */
	if (!uaio_dynamic_own(ours))
		return -ELIBACC;
	if (setenv(UAIO_TRAP_PROGRAM, path, 1) == 0)
		(void)execv(ours, argv);
	return -errno;
}

bool uaio_trapped_is_asked(void)
{
	return getenv(UAIO_TRAP_PROGRAM) || getenv(UAIO_TRAP_CHILD);
}

/*
 * Remove a variable from envp.
 * Return: its value, or NULL.
 */
static const char *take_variable(char **envp, const char *name)
{
	const size_t len = strlen(name);
	const char *value = NULL;
	char **to = envp;

	for (char **from = envp; *from; from++)
		if (!strncmp(*from, name, len) && (*from)[len] == '=')
			value = *from + len + 1;
		else
			*to++ = *from;
	*to = NULL;
	return value;
}

static char **copy(char **vector)
{
	size_t nr = 1;
	char **to;

	for (char **at = vector; *at; at++)
		nr++;
	to = malloc(nr * sizeof(*to));
	return to ? memcpy(to, vector, nr * sizeof(*to)) : NULL;
}

static const char *become(const char *path, char **argv, char **envp)
{
	const char *(*program)(const char *, char **, char **) = NULL;

	*(void **)&program = dlsym(RTLD_DEFAULT, "uaio_trap_program");
	return program ? program(path, argv, envp)
		       : "the library was not loaded";
}

/*
 * text: "mask:path". Set the signal mask of this process to `mask`.
 * Return: the path.
 */
static const char *take_mask(const char *text)
{
	char *end;
	uint64_t mask = strtoull(text, &end, 16);

	/*
	 * Make the system call: the C library's sigprocmask() does not block the
	 * signals that the C library itself uses.
	 */
	(void)sys_sigmask(SIG_SETMASK, &mask, NULL);
	return end + (*end == ':');
}

int uaio_trapped_main(char **argv, char **envp)
{
	char **env = copy(envp);
	const char *child, *path, *cause;

	if (!env)
		return uaio_diag(EXIT_REFUSED, "--trap: %s", strerror(ENOMEM));
	path = take_variable(env, UAIO_TRAP_PROGRAM);
	child = take_variable(env, UAIO_TRAP_CHILD);
	if (child)
		path = child = take_mask(child);
	cause = become(path, argv, env);
	if (child)
		(void)execve(child, argv, env);
	return uaio_diag(EXIT_REFUSED, "%s: --trap: %s", path, cause);
}
