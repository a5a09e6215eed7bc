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
	/* an environment with more entries is passed on unchanged */
	ENTRIES_MAX = 8192,
};

static const char own_file[] = "/proc/self/exe";
static const char child_variable[] = "UAIO_TRAP_CHILD=";

static struct {
	const struct uaio_trap_ops *ops;
	/* atomic: whether the program has installed a seccomp filter */
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
	/*
	 * relaxed: the filter is installed after this store, so each thread to which
	 * the filter applies sees the store
	 */
	store_relaxed(&execs.is_filtered, 1);
}

static char *put_hex(char *to, uint64_t value)
{
	for (int shift = 60; shift >= 0; shift -= 4)
		*to++ = "0123456789abcdef"[value >> shift & 15];
	return to;
}

/*
 * Execute the file of this process again, the command `uaio`. The new `uaio` then
 * becomes the program. All signals stay blocked until the program starts, so that they
 * go to the program. An environment variable carries the program's signal mask.
 * Return: only on failure, the error of execve(2); signals then stay blocked until the
 * thread leaves the library.
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
	/*
	 * If a signal is pending now or arrives later, it goes to the new program. So
	 * no handler of this program is pending.
	 */
	self->is_pending = 0;
	ret = execs.ops->call(SYS_execve, (const long[6]){ (long)own_file, argv,
							   (long)envp });
	self->is_pending = UAIO_TRAP_BLOCKED;
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

/*
 * Return: whether the call is execve, or an execveat that means the same as execve:
 * with AT_FDCWD and without flags.
 */
static bool is_by_path(long nr, const long a[6], const char **ret_path)
{
	*ret_path = (const char *)a[nr == SYS_execve ? 0 : 1];
	return nr == SYS_execve || ((int)a[0] == AT_FDCWD && !(int)a[4]);
}

/*
 * Called if the program could not be executed under the trap. Let pending signal
 * handlers run, then let the thread repeat the call, which then executes the program
 * directly. So the expensive checks are made only once, however many signals arrive.
 */
static long once_more(struct uaio_trap_thread *self, const long a[6])
{
	memcpy(self->executed, a, sizeof(self->executed));
	self->target -= INSTRUCTION_BYTES;
	return (long)self->nr;
}

/* Return: whether this is the repeated call that once_more() has prepared. */
static bool is_once_more(struct uaio_trap_thread *self, const long a[6])
{
	bool is_it = !memcmp(self->executed, a, sizeof(self->executed));

	memset(self->executed, 0, sizeof(self->executed));
	return is_it;
}

/*
 * Execute a program, under the trap if possible. is_again: the call is a repeated one
 * (once_more()), so execute the program directly.
 * Return: only on failure; -EINTR if the thread may have to repeat the call, or another
 * error.
 */
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
	 * If the program has a seccomp filter, do not call uaio_trap_fits(): the filter
	 * may refuse the system calls of this function.
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
	 * Run a pending handler before the call is repeated, because the new program
	 * does not have this handler.
	 */
	return ret == -EINTR && self->is_pending ? once_more(self, a) : ret;
}
#endif
