/* SPDX-License-Identifier: MIT */
/*
 * The exec family, and daemon(3), whose parent ends inside the C library
 *
 * Accepted writes are finished before the program is replaced. If the exec
 * fails, the engine's work goes on; no request was refused meanwhile. A child
 * of vfork() runs in our memory but is not the process that owns the engine, so
 * its calls go straight on. The C library's exec functions call one another
 * internally, where they cannot be interposed, so each of them is interposed by
 * itself.
 *
 * <unistd.h> is not included: it promises the compiler that no argument is
 * NULL, but programs do call execl(path, NULL).
 *
 * Context: async-signal-safe, as the functions themselves are. A function that
 * is called before the library is loaded looks up the next one first.
 *
 * Tested by test/host/leaving.c.
 */
#include "host/host.h"

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "base/sleepcall.h"
#include "base/symver.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "proc/table.h"
#include "life/life.h"

/* <unistd.h>'s. */
extern char **environ;

/* The next in line, usually the C library's; NULL until loaded. */
static struct {
	int (*execve)(const char *, char *const *, char *const *);
	int (*execveat)(int, const char *, char *const *, char *const *, int);
	int (*fexecve)(int, char *const *, char *const *);
	int (*execv)(const char *, char *const *);
	int (*execvp)(const char *, char *const *);
	int (*execvpe)(const char *, char *const *, char *const *);
	int (*daemon)(int, int);
} next;

void uaio_host_load_exec(void)
{
	uaio_host_find("execve", &next.execve);
	uaio_host_find("execveat", &next.execveat);
	uaio_host_find("fexecve", &next.fexecve);
	uaio_host_find("execv", &next.execv);
	uaio_host_find("execvp", &next.execvp);
	uaio_host_find("execvpe", &next.execvpe);
	uaio_host_find("daemon", &next.daemon);
}

/*
 * Finish what was accepted, with all signals blocked, so that no handler leaves
 * in the middle by siglongjmp(). The kernel, too, finishes I/O in an exec
 * without letting signals in.
 * Return: whether stay() has to undo it if the process goes on.
 */
static bool leave(void)
{
	sigset_t all, old;
	bool has_left = false;

	if (!uaio_engine_is_up())
		return false;
	(void)uaio_table_is_other();
	/* First: inside, the mask may be that of a deferred handler (handlers.h). */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, &old);
	if (uaio_enter()) {
		has_left = uaio_engine_is_ours() && uaio_engine_leave();
		uaio_leave();
	}
	/* The signals come now, when we hold nothing. */
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return has_left;
}

/* The exec has failed with ret, so the engine goes on. Return: ret. */
static int stay(bool has_left, int ret)
{
	if (has_left)
		uaio_engine_stay();
	return ret;
}

long uaio_host_raw_exec(long nr, const long a[5])
{
	bool has_left;

	if (nr == SYS_execve)
		uaio_host_tell_lost(AT_FDCWD, (const char *)a[0],
				    (char *const *)a[2]);
	else
		uaio_host_tell_lost((int)a[0], (const char *)a[1],
				    (char *const *)a[3]);
	has_left = leave();
	/* Under the trap, a handler that is yet to be called comes first. */
	return stay(has_left, (int)uaio_sys_sleeping(nr, a[0], a[1], a[2], a[3],
						     a[4], 0));
}

UAIO_EXPORT int execve(const char *path, char *const *argv, char *const *envp);
UAIO_EXPORT int execveat(int dir, const char *path, char *const *argv,
			 char *const *envp, int flags);
UAIO_EXPORT int fexecve(int fd, char *const *argv, char *const *envp);
UAIO_EXPORT int execv(const char *path, char *const *argv);
UAIO_EXPORT int execvp(const char *file, char *const *argv);
UAIO_EXPORT int execvpe(const char *file, char *const *argv, char *const *envp);
UAIO_EXPORT int execl(const char *path, const char *arg, ...);
UAIO_EXPORT int execlp(const char *file, const char *arg, ...);
UAIO_EXPORT int execle(const char *path, const char *arg, ...);
UAIO_EXPORT int daemon(int no_chdir, int no_close);

int execve(const char *path, char *const *argv, char *const *envp)
{
	bool has_left;

	uaio_host_tell_lost(AT_FDCWD, path, envp);
	has_left = leave();
	return stay(has_left, UAIO_HOST_NEXT(execve)(path, argv, envp));
}

int execveat(int dir, const char *path, char *const *argv, char *const *envp,
	     int flags)
{
	bool has_left;

	uaio_host_tell_lost(dir, path, envp);
	has_left = leave();
	return stay(has_left,
		    UAIO_HOST_NEXT(execveat)(dir, path, argv, envp, flags));
}

int fexecve(int fd, char *const *argv, char *const *envp)
{
	bool has_left;

	uaio_host_tell_lost(fd, "", envp);
	has_left = leave();
	return stay(has_left, UAIO_HOST_NEXT(fexecve)(fd, argv, envp));
}

int execv(const char *path, char *const *argv)
{
	bool has_left;

	uaio_host_tell_lost(AT_FDCWD, path, environ);
	has_left = leave();
	return stay(has_left, UAIO_HOST_NEXT(execv)(path, argv));
}

int execvp(const char *file, char *const *argv)
{
	bool has_left;

	uaio_host_tell_lost_named(file, environ);
	has_left = leave();
	return stay(has_left, UAIO_HOST_NEXT(execvp)(file, argv));
}

int execvpe(const char *file, char *const *argv, char *const *envp)
{
	bool has_left;

	uaio_host_tell_lost_named(file, envp);
	has_left = leave();
	return stay(has_left, UAIO_HOST_NEXT(execvpe)(file, argv, envp));
}

/* Return: the size of an array of the arguments and the final NULL. */
static size_t bytes_of(const char *first, va_list args)
{
	size_t nr = 1;

	for (const char *arg = first; arg; arg = va_arg(args, char *))
		nr++;
	return nr * sizeof(char *);
}

static void gather(char **argv, const char *first, va_list *args)
{
	*argv = (char *)first;
	while (*argv)
		*++argv = va_arg(*args, char *);
}

/*
 * The array of arguments is on the stack, because the caller may be a child of
 * vfork() or a signal handler, where memory cannot be allocated.
 */
int execl(const char *path, const char *arg, ...)
{
	va_list args;
	char **argv;

	va_start(args, arg);
	argv = __builtin_alloca(bytes_of(arg, args));
	va_end(args);
	va_start(args, arg);
	gather(argv, arg, &args);
	va_end(args);
	return execv(path, argv);
}

int execlp(const char *file, const char *arg, ...)
{
	va_list args;
	char **argv;

	va_start(args, arg);
	argv = __builtin_alloca(bytes_of(arg, args));
	va_end(args);
	va_start(args, arg);
	gather(argv, arg, &args);
	va_end(args);
	return execvp(file, argv);
}

int execle(const char *path, const char *arg, ...)
{
	va_list args;
	char **argv, **envp;

	va_start(args, arg);
	argv = __builtin_alloca(bytes_of(arg, args));
	va_end(args);
	va_start(args, arg);
	gather(argv, arg, &args);
	envp = va_arg(args, char **);
	va_end(args);
	return execve(path, argv, envp);
}

int daemon(int no_chdir, int no_close)
{
	/* The parent ends inside the C library, by a call that we do not see. */
	bool has_left = leave();

	return stay(has_left, UAIO_HOST_NEXT(daemon)(no_chdir, no_close));
}
