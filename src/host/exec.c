/* SPDX-License-Identifier: MIT */
/*
 * execve(2) and all other functions that execute a program, and daemon(3)
 *
 * The library finishes accepted writes before an exec replaces the program, or before
 * the parent of daemon(3) ends. If the exec fails, the library continues to work, and
 * no request was refused because of the exec. A child of vfork() shares the parent's
 * memory, but not the library's threads, so its calls go to the C library only. The
 * exec functions of the C library call one another directly, and these inner calls
 * cannot be interposed. So this file interposes each of the functions.
 *
 * <unistd.h> is not included: it promises the compiler that no argument is NULL, but
 * some programs call execl(path, NULL).
 *
 * Context: async-signal-safe, like execve(2); also before the library is loaded.
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

/* Declared here, as <unistd.h> is not included. */
extern char **environ;

/*
 * The next definitions of these functions (RTLD_NEXT); NULL until the library is
 * loaded.
 */
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
 * Finish the accepted requests. Meanwhile all signals are blocked, so no handler can
 * leave this function by siglongjmp(). This is as in the kernel, where an exec waits
 * uninterruptibly for I/O.
 * Return: whether the library now holds up new submissions. The caller passes the value
 * to stay(), which lets the submissions continue if the exec has failed.
 */
static bool leave(void)
{
	sigset_t all, old;
	bool has_left = false;

	if (!uaio_engine_is_up())
		return false;
	(void)uaio_table_is_other();
	/*
	 * Block signals before uaio_enter(), so that `old` is the program's mask.
	 * Inside the library, the mask may be another one: the library sets its own
	 * mask while it defers a signal handler (handlers.h).
	 */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, &old);
	if (uaio_enter()) {
		has_left = uaio_engine_is_ours() && uaio_engine_leave();
		uaio_leave();
	}
	/*
	 * The kernel delivers pending signals during this call. Their handlers may run,
	 * as this thread holds no lock.
	 */
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	return has_left;
}

/*
 * The exec has failed with ret: let the library continue.
 * Return: ret.
 */
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
	/*
	 * Under `uaio run --trap`, this call fails with EINTR if a deferred signal
	 * handler waits (trap/signal.h). trap/exec.c then lets the handler run, and
	 * repeats the exec.
	 */
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

/* Return: the size in bytes of an array of `first`, all `args` and a final NULL. */
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
 * execl(), execle() and execlp() build argv on the stack, not by malloc(): the caller
 * may be a child of vfork(), or a signal handler.
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
	/*
	 * daemon() ends the parent by _exit() inside the C library, where this call
	 * cannot be interposed. So finish the requests before calling daemon().
	 */
	bool has_left = leave();

	return stay(has_left, UAIO_HOST_NEXT(daemon)(no_chdir, no_close));
}
