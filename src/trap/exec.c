/* SPDX-License-Identifier: MIT */
#include "trap/exec.h"

#if defined(__x86_64__)
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "trap/signal.h"

enum {
	INSTRUCTION_BYTES = 2,
	MASK_DIGITS = 16,
	ENTRIES_MAX =
		8192, /* maximum of entries in an environment that is changed */
};

static const char own_file[] = "/proc/self/exe";
static const char child_variable[] = "UAIO_TRAP_CHILD=";

static struct {
	const struct uaio_trap_ops *ops;
	/* atomic: the program has installed a seccomp filter */
	uint32_t is_filtered;
} execs;

void uaio_trap_exec_begin(const struct uaio_trap_ops *ops, char **envp)
{
	execs.ops = ops;
	uaio_trap_environ_begin(envp);
	uaio_trap_fit_begin();
}

void uaio_trap_exec_filtered(void)
{
	/* relaxed: a thread that has the filter has also seen this store */
	store_relaxed(&execs.is_filtered, 1);
}

static char *put_hex(char *to, uint64_t value)
{
	for (int shift = 60; shift >= 0; shift -= 4)
		*to++ = "0123456789abcdef"[value >> shift & 15];
	return to;
}

/*
 * Execute this process's own file, which then becomes the program. All signals stay
 * blocked until then, so that they go to the new program. An environment variable holds
 * the new program's signal mask.
 * Return: -errno; then signals stay blocked until the thread leaves the library.
 */
static long execute_ours(struct uaio_trap_thread *self, const char *path,
			 long argv, const struct uaio_trap_environ *env)
{
	char variable[sizeof(child_variable) + MASK_DIGITS + 1 + PATH_MAX];
	char **envp = __builtin_alloca((env->nr + 2) * sizeof(*envp)), *to;
	long ret;

	uaio_trap_block(self);
	to = put_hex(stpcpy(variable, child_variable), self->mask);
	*to++ = ':';
	(void)strcpy(to, path);
	uaio_trap_environ_fill(envp, env, variable);
	/* No handler is pending any more: all signals are blocked. */
	self->is_pending = 0;
	ret = execs.ops->call(SYS_execve, (const long[6]){ (long)own_file, argv,
							   (long)envp });
	self->is_pending = 1;
	return ret;
}

static long execute_as_it_is(long nr, const long a[6], unsigned which,
			     const struct uaio_trap_environ *env)
{
	char **envp = __builtin_alloca((env->nr + 1) * sizeof(*envp));
	long b[6];

	memcpy(b, a, sizeof(b));
	uaio_trap_environ_fill(envp, env, NULL);
	b[which] = (long)envp;
	return execs.ops->call(nr, b);
}

/* Return: whether the call is execve, or an execveat that does the same. */
static bool is_by_path(long nr, const long a[6], const char **ret_path)
{
	*ret_path = (const char *)a[nr == SYS_execve ? 0 : 1];
	return nr == SYS_execve || ((int)a[0] == AT_FDCWD && !(int)a[4]);
}

/*
 * Let pending signal handlers run, then repeat the call, and execute the program
 * directly this time. So the expensive checks are done only once, however many signals
 * arrive.
 */
static long once_more(struct uaio_trap_thread *self, const long a[6])
{
	memcpy(self->executed, a, sizeof(self->executed));
	self->target -= INSTRUCTION_BYTES;
	return (long)self->nr;
}

/* Return: whether once_more() has prepared this call. */
static bool is_once_more(struct uaio_trap_thread *self, const long a[6])
{
	bool is_it = !memcmp(self->executed, a, sizeof(self->executed));

	memset(self->executed, 0, sizeof(self->executed));
	return is_it;
}

/* Execute a program. Return: -errno. */
static long execute(struct uaio_trap_thread *self, long nr, const long a[6],
		    bool is_again)
{
	const unsigned which = nr == SYS_execve ? 2 : 3;
	struct uaio_trap_environ env;
	const char *path;

	if (is_again && !uaio_trap_environ_has_hidden())
		return execs.ops->call(nr, a);
	uaio_trap_environ_look((char **)a[which], &env);
	if (!env.is_readable || env.nr > ENTRIES_MAX)
		return execs.ops->call(nr, a);
	/*
	 * If the program has a seccomp filter, avoid the system calls by which
	 * uaio_trap_fits() decides.
	 */
	if (!is_again && env.is_served && !load_relaxed(&execs.is_filtered) &&
	    is_by_path(nr, a, &path) &&
	    uaio_trap_length_of(path, PATH_MAX) > 0 && uaio_trap_fits(path)) {
		(void)execute_ours(self, path, a[which - 1], &env);
		return -EINTR;
	}
	return env.has_hidden ? execute_as_it_is(nr, a, which, &env)
			      : execs.ops->call(nr, a);
}

long uaio_trap_exec(struct uaio_trap_thread *self, long nr, const long a[6])
{
	long ret = execute(self, nr, a, is_once_more(self, a));

	/*
	 * A pending handler must run first, because it does not exist in the new
	 * program.
	 */
	return ret == -EINTR && self->is_pending ? once_more(self, a) : ret;
}
#endif
