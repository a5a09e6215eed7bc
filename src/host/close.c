/* SPDX-License-Identifier: MIT */
/*
 * Functions that close or replace descriptors, and fcntl(2)
 *
 * The #undef keeps the headers from renaming freopen to freopen64: this file defines
 * both.
 *
 * Tested by test/host/numbers.c, ways.c, held.c and lingering.c.
 */
#undef _FILE_OFFSET_BITS
#include "host/host.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "base/newer.h"
#include "base/sleep.h"
#include "base/symver.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "file/file.h"
#include "life/life.h"
#include "life/report.h"
#include "uring/uring.h"

/* Included last: it undefines macros. */
#include "host/lfs.h"

/*
 * The next definitions of these functions (RTLD_NEXT); NULL until the library is
 * loaded.
 */
static struct {
	int (*close)(int);
	int (*mq_close)(int);
	int (*dup2)(int, int);
	int (*dup3)(int, int, int);
	int (*fclose)(FILE *);
	int (*pclose)(FILE *);
	int (*closedir)(void *);
	FILE *(*freopen)(const char *, const char *, FILE *);
	FILE *(*freopen64)(const char *, const char *, FILE *);
	int (*fcntl)(int, int, ...);
	int (*fcntl64)(int, int, ...);
} next;

void uaio_host_find(const char *name, void *ret_function)
{
	*(void **)ret_function = dlsym(RTLD_NEXT, name);
}

void uaio_host_load(void)
{
	uaio_host_find("close", &next.close);
	uaio_host_find("mq_close", &next.mq_close);
	uaio_host_find("dup2", &next.dup2);
	uaio_host_find("dup3", &next.dup3);
	uaio_host_find("fclose", &next.fclose);
	uaio_host_find("pclose", &next.pclose);
	uaio_host_find("closedir", &next.closedir);
	uaio_host_find("freopen", &next.freopen);
	uaio_host_find("freopen64", &next.freopen64);
	uaio_host_find("fcntl", &next.fcntl);
	uaio_host_find("fcntl64", &next.fcntl64);
}

static bool is_ours(int fd)
{
	unsigned own;

	return uaio_own_fd((unsigned)fd, (unsigned)fd, &own);
}

void uaio_host_closing(unsigned first, unsigned last)
{
	if (!uaio_engine_is_here() || !uaio_enter())
		return;
	uaio_fds_closing(first, last);
	uaio_leave();
}

void uaio_host_closed(unsigned first, unsigned last)
{
	if (!uaio_engine_is_here() || !uaio_enter())
		return;
	uaio_fds_closed(first, last);
	uaio_leave();
}

long uaio_host_raw_close(int fd)
{
	long ret;

	if (is_ours(fd))
		return -EBADF;
	uaio_host_closing((unsigned)fd, (unsigned)fd);
	uaio_uring_closing(fd);
	ret = sys_close(fd);
	/*
	 * Between uaio_host_closing() and sys_close(), another thread may have
	 * submitted requests on fd. So notify the engine again.
	 */
	uaio_host_closed((unsigned)fd, (unsigned)fd);
	return ret;
}

/*
 * dup2(2). If both descriptors are equal, dup2(2) only checks that the descriptor is
 * open. aarch64 has only dup3(2), which fails in that case.
 */
static long raw_dup2(int from, int to)
{
#ifdef SYS_dup2
	return uaio_sys6(SYS_dup2, from, to, 0, 0, 0, 0);
#else
	int ret;

	if (from != to)
		return uaio_sys6(SYS_dup3, from, to, 0, 0, 0, 0);
	ret = sys_fcntl(from, F_GETFD, 0);
	return ret < 0 ? ret : to;
#endif
}

static long dup_raw(int from, int to, const int *flags)
{
	return flags ? uaio_sys6(SYS_dup3, from, to, *flags, 0, 0, 0)
		     : raw_dup2(from, to);
}

/*
 * A call of dup2() or dup3(): by the function's next definition (RTLD_NEXT), or, if the
 * program called syscall(2), by the system call
 *
 * If `to` is open, the call closes the program's file. This may take long: a socket may
 * linger, a file server may be slow. So the library's threads may open descriptors
 * during the call. This is safe, because a new descriptor never gets the number of an
 * open one. If `to` is free, a thread of the library might open a descriptor with this
 * number, so uaio_own_fds_quiesce() prevents that. The call then closes no file, and is
 * fast.
 */
struct replacing {
	int (*dup2)(int, int); /* NULL: call dup3 instead */
	int (*dup3)(int, int, int);
	int from;
	int to;
	const int *flags; /* NULL: the call is dup2() */
};

static long call_dup(const struct replacing *how)
{
	int ret;

	if (how->dup2)
		ret = how->dup2(how->from, how->to);
	else if (how->dup3)
		ret = how->dup3(how->from, how->to, *how->flags);
	else
		return dup_raw(how->from, how->to, how->flags);
	return ret < 0 ? -errno : ret;
}

/*
 * The library's threads move each new descriptor to a high number. Give them time to move
 * a descriptor that they have just opened.
 */
static void let_appear(void)
{
	enum { SOON_NS = 20000 };
	uint32_t word = 0;

	if (uaio_own_fds_quiesce())
		uaio_own_fds_resume();
	else
		/*
		 * This code may run in a signal handler that interrupted the opening
		 * thread. Waiting for that thread would never end, so only sleep for a
		 * moment.
		 */
		(void)uaio_sleep(&word, 0, uaio_now_ns() + SOON_NS);
}

/*
 * dup2() fails with EBUSY if another thread's open() has reserved the descriptor, but has
 * not yet opened its file. If the other thread is one of the library, let_appear() waits
 * for that thread. If it is one of the program, its open() may block for long, so the
 * caller gets EBUSY.
 * Return: the call's result; -EAGAIN, with nothing done, if the descriptor is now the
 * library's own.
 */
static long replace_unheld(const struct replacing *how)
{
	enum { TRIES = 16 };
	long ret = call_dup(how);

	for (unsigned i = 0; i < TRIES && ret == -EBUSY; i++) {
		let_appear();
		ret = is_ours(how->to) ? -EAGAIN : call_dup(how);
	}
	return ret;
}

/*
 * Do the dup2() or dup3().
 * Return: the call's result; -EAGAIN, with nothing done, if `to` is the library's own
 * descriptor.
 */
static long replace(const struct replacing *how)
{
	bool is_quiesced = uaio_own_fds_quiesce(), is_free;
	long ret;

	is_free = is_quiesced && sys_fcntl(how->to, F_GETFD, 0) < 0;
	if (is_free)
		ret = call_dup(how);
	else
		ret = is_quiesced && is_ours(how->to) ? -EAGAIN : 0;
	if (is_quiesced)
		uaio_own_fds_resume();
	return is_free || ret < 0 ? ret : replace_unheld(how);
}

/*
 * Replace `to`, which is a descriptor of the library, but which the program believes to
 * be free. The library first moves its own file to another descriptor.
 */
static long dup_onto_ours(int from, int to, const int *flags)
{
	long ret = sys_fcntl(from, F_GETFD, 0);

	if (ret < 0)
		return ret;
	do {
		if (!uaio_enter())
			return -EBUSY;
		ret = uaio_own_fd_yield(to);
		uaio_leave();
		if (ret == -EAGAIN) {
			ret = replace(&(const struct replacing){
				.from = from, .to = to, .flags = flags });
			if (ret != -EAGAIN)
				return ret;
		}
	} while (ret == -EAGAIN);
	if (ret < 0)
		return ret;
	ret = dup_raw(from, to, flags);
	if (ret < 0)
		(void)sys_close(to);
	return ret;
}

/*
 * If dup2() or dup3() fails, `to` stays open, and so must its requests. So find out
 * beforehand whether the call fails.
 * Return: the call's error; 0 if it may replace `to`, or if the library does not know
 * `to`.
 */
static long refuses(const struct replacing *how)
{
	struct rlimit limit;

	if (how->to < 0 || !uaio_engine_is_here() ||
	    !uaio_file_may_know(how->to))
		return 0;
	/* -1 is no descriptor, so only wrong flags make this call fail with EINVAL. */
	if (how->flags && dup_raw(-1, how->to, how->flags) == -EINVAL)
		return -EINVAL;
	if (sys_fcntl(how->from, F_GETFD, 0) == -EBADF)
		return -EBADF;
	return sys_getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
			       (rlim_t)how->to >= limit.rlim_cur
		       ? -EBADF
		       : 0;
}

static long dup_onto(const struct replacing *how)
{
	int from = how->from, to = how->to;
	long ret;

	if (from == to)
		return dup_raw(from, to, how->flags);
	if (is_ours(to))
		return dup_onto_ours(from, to, how->flags);
	ret = refuses(how);
	if (ret < 0)
		return ret;
	uaio_host_closing((unsigned)to, (unsigned)to);
	ret = replace(how);
	uaio_host_closed((unsigned)to, (unsigned)to);
	return ret == -EAGAIN ? dup_onto_ours(from, to, how->flags) : ret;
}

long uaio_host_raw_dup(int from, int to, const int *flags)
{
	return dup_onto(&(const struct replacing){
		.from = from, .to = to, .flags = flags });
}

static long close_some(unsigned first, unsigned last, int flags)
{
	return uaio_sys6(SYS_close_range, first, last, flags, 0, 0, 0);
}

/*
 * Close the open descriptors in [first, last] up to LAST_EACH, each as close() does.
 * The thread holds no lock, as a close may take long.
 * Return: the first descriptor that remains to be closed. Few programs have descriptors
 * above LAST_EACH; close_rest() closes those.
 */
static uint64_t close_each(unsigned first, unsigned last)
{
	enum { LAST_EACH = 4095 };
	uint64_t fd = first;

	if (!uaio_engine_is_here())
		return first;
	for (; fd <= last && fd <= LAST_EACH; fd++)
		/*
		 * is_ours() comes first: it waits until no thread of the library still
		 * moves a new descriptor away from a low number (ownfd.h, I2). So a low
		 * descriptor that is open afterwards, and not the library's, is the
		 * program's.
		 */
		if (!is_ours((int)fd) && sys_fcntl((int)fd, F_GETFD, 0) >= 0)
			(void)uaio_host_raw_close((int)fd);
	return fd;
}

/*
 * Close the descriptors [first, last], except the library's own. Meanwhile no thread of
 * the library opens or closes a descriptor.
 */
static long close_rest(unsigned first, unsigned last, int flags)
{
	bool is_quiesced = uaio_own_fds_quiesce();
	unsigned from = first, own;
	long ret = 0;

	while (ret == 0 && uaio_own_fd(from, last, &own)) {
		if (own > from)
			ret = close_some(from, own - 1, flags);
		from = own + 1;
	}
	if (ret == 0 && from <= last)
		ret = close_some(from, last, flags);
	if (is_quiesced)
		uaio_own_fds_resume();
	return ret;
}

long uaio_host_raw_close_range(unsigned first, unsigned last, int flags)
{
	const int known = CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE;
	uint64_t rest;
	long ret = 0;

	if (flags & ~known || first > last)
		return close_some(first, last, flags);
	if (flags & CLOSE_RANGE_UNSHARE) {
		ret = uaio_host_part();
		flags &= ~CLOSE_RANGE_UNSHARE;
	}
	if (ret < 0)
		return ret;
	if (flags & CLOSE_RANGE_CLOEXEC)
		return close_some(first, last, flags);
	/*
	 * Give close_rest() only the descriptors that close_each() has left: another
	 * thread may already have opened new files at the numbers that are closed.
	 */
	rest = close_each(first, last);
	if (rest > last)
		return 0;
	first = (unsigned)rest;
	uaio_host_closing(first, last);
	ret = close_rest(first, last, flags);
	uaio_host_closed(first, last);
	return ret;
}

UAIO_EXPORT int close(int fd);
UAIO_EXPORT int mq_close(int fd);
UAIO_EXPORT int dup2(int from, int to);
UAIO_EXPORT int dup3(int from, int to, int flags);
UAIO_EXPORT int close_range(unsigned first, unsigned last, int flags);
UAIO_EXPORT void closefrom(int first);
UAIO_EXPORT int login_tty(int fd);
UAIO_EXPORT int fclose(FILE *file);
UAIO_EXPORT int pclose(FILE *file);
/* In <dirent.h> the arguments are nonnull, but closedir() of glibc accepts NULL. */
UAIO_EXPORT int closedir(void *dir);
int dirfd(void *dir);
UAIO_EXPORT FILE *freopen(const char *path, const char *mode, FILE *file);
UAIO_EXPORT FILE *freopen64(const char *path, const char *mode, FILE *file);

/* Close fd by real(); if real is NULL, by the system call. */
static __attribute__((noinline)) int close_told(int (*real)(int), int fd)
{
	int ret;

	if (!real || is_ours(fd))
		return (int)uaio_host_error(uaio_host_raw_close(fd));
	uaio_host_closing((unsigned)fd, (unsigned)fd);
	uaio_uring_closing(fd);
	ret = real(fd);
	uaio_host_closed((unsigned)fd, (unsigned)fd);
	return ret;
}

int close(int fd)
{
	int ret;

	/*
	 * Once the library is started, fd may have requests, so close_told() notifies the
	 * engine. close_told() also handles an unknown next.close.
	 */
	if (uaio_engine_is_up() || unlikely(!next.close))
		return close_told(next.close, fd);
	ret = next.close(fd);
	/*
	 * Since the check above, another thread may have started the library, and
	 * submitted requests on fd. So notify the engine.
	 */
	uaio_host_closed((unsigned)fd, (unsigned)fd);
	return ret;
}

int mq_close(int fd)
{
	return close_told(next.mq_close, fd);
}

int dup2(int from, int to)
{
	return (int)uaio_host_error(dup_onto(&(const struct replacing){
		.dup2 = next.dup2, .from = from, .to = to }));
}

int dup3(int from, int to, int flags)
{
	return (int)uaio_host_error(dup_onto(&(const struct replacing){
		.dup3 = next.dup3, .from = from, .to = to, .flags = &flags }));
}

int close_range(unsigned first, unsigned last, int flags)
{
	return (int)uaio_host_error(
		uaio_host_raw_close_range(first, last, flags));
}

void closefrom(int first)
{
	int saved = errno;

	(void)close_range(first < 0 ? 0 : (unsigned)first, ~0u, 0);
	errno = saved;
}

/*
 * The C library's login_tty() calls its own dup2(), which is not interposed. So here
 * this file's functions replace the standard descriptors.
 */
int login_tty(int fd)
{
	(void)setsid();
	if (ioctl(fd, TIOCSCTTY, NULL) < 0)
		return -1;
	for (int to = STDIN_FILENO; to <= STDERR_FILENO; to++)
		while (dup2(fd, to) < 0 && errno == EBUSY)
			;
	if (fd > STDERR_FILENO)
		(void)close(fd);
	return 0;
}

/*
 * Return: the stream's descriptor; ~0u if it has none. fclose() closes the descriptor
 * inside the C library, where close() is not interposed. So the callers notify the
 * engine.
 */
static unsigned fd_of(FILE *file)
{
	int saved = errno;
	int fd = fileno_unlocked(file);

	errno = saved;
	return fd < 0 ? ~0u : (unsigned)fd;
}

typedef int close_stream_fn(FILE *);
typedef FILE *reopen_fn(const char *, const char *, FILE *);

static int close_stream(close_stream_fn *real, FILE *file)
{
	unsigned fd = fd_of(file);
	int ret;

	uaio_host_closing(fd, fd);
	ret = real(file);
	uaio_host_closed(fd, fd);
	return ret;
}

static FILE *reopen(reopen_fn *real, const char *path, const char *mode,
		    FILE *file)
{
	unsigned fd = fd_of(file);
	FILE *ret;

	uaio_host_closing(fd, fd);
	ret = real(path, mode, file);
	uaio_host_closed(fd, fd);
	return ret;
}

int fclose(FILE *file)
{
	/*
	 * Many programs, such as those of coreutils, close stderr in an exit handler.
	 * The library's destructor runs later, and could not write the report to
	 * stderr. So write it now.
	 */
	if (fd_of(file) == STDERR_FILENO && uaio_enter()) {
		uaio_report_before_close();
		uaio_leave();
	}
	return close_stream(UAIO_HOST_NEXT(fclose), file);
}

int pclose(FILE *file)
{
	return close_stream(UAIO_HOST_NEXT(pclose), file);
}

int closedir(void *dir)
{
	unsigned fd = dir ? (unsigned)dirfd(dir) : ~0u;
	int ret;

	uaio_host_closing(fd, fd);
	ret = UAIO_HOST_NEXT(closedir)(dir);
	uaio_host_closed(fd, fd);
	return ret;
}

FILE *freopen(const char *path, const char *mode, FILE *file)
{
	return reopen(UAIO_HOST_NEXT(freopen), path, mode, file);
}

FILE *freopen64(const char *path, const char *mode, FILE *file)
{
	/* Some C libraries lack freopen64(). */
	FILE *(*real)(const char *, const char *, FILE *) =
		UAIO_HOST_NEXT(freopen64);

	return reopen(real ? real : UAIO_HOST_NEXT(freopen), path, mode, file);
}

/*
 * The kernel reads O_APPEND and O_DIRECT when it executes a write, so pending writes
 * would be executed with the new flags. So if F_SETFL changes one of these flags,
 * fcntl() first waits for the file's requests. Other flags do not affect requests.
 *
 * The third argument has various types. The argument is read as a pointer, as in the C
 * library.
 */
UAIO_EXPORT int fcntl(int fd, int cmd, ...);
UAIO_EXPORT int fcntl64(int fd, int cmd, ...);

/* Those flags that matter to the library (uaio_file_flags_change()). */
enum { KNOWN_FLAGS = O_APPEND | O_DIRECT | O_NONBLOCK };

/* Notify the engine before F_SETFL sets open_flags, and afterwards with -1. */
static void flags_change(int fd, int open_flags)
{
	if (!uaio_engine_is_here() || !uaio_enter())
		return;
	uaio_fd_flags_change(fd, open_flags);
	uaio_leave();
}

long uaio_host_raw_fcntl(const long a[3])
{
	int fd = (int)a[0], cmd = (int)a[1];
	long ret;

	if (cmd == F_SETFL)
		flags_change(fd, (int)a[2] & KNOWN_FLAGS);
	ret = uaio_sys6(SYS_fcntl, a[0], a[1], a[2], 0, 0, 0);
	if (cmd == F_SETFL)
		flags_change(fd, -1);
	return ret;
}

static int change(int (*real)(int, int, ...), int fd, int cmd, void *arg)
{
	int ret;

	if (cmd == F_SETFL)
		flags_change(fd, (int)(long)arg & KNOWN_FLAGS);
	ret = real ? real(fd, cmd, arg)
		   : (int)uaio_host_error(sys_fcntl(fd, cmd, (long)arg));
	if (cmd == F_SETFL)
		flags_change(fd, -1);
	return ret;
}

int fcntl(int fd, int cmd, ...)
{
	va_list args;
	void *arg;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	return change(next.fcntl, fd, cmd, arg);
}

int fcntl64(int fd, int cmd, ...)
{
	va_list args;
	void *arg;

	va_start(args, cmd);
	arg = va_arg(args, void *);
	va_end(args);
	return change(next.fcntl64, fd, cmd, arg);
}
