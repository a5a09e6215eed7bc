/* SPDX-License-Identifier: MIT */
/* Both freopen and freopen64 are defined here, under their own names. */
#undef _FILE_OFFSET_BITS
#include "front/host/host.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/symver.h"
#include "base/sys.h"
#include "engine/engine.h"
#include "engine/entry.h"

/* The next in line, usually the C library's; NULL until loaded. */
static struct {
	int (*close)(int);
	int (*dup2)(int, int);
	int (*dup3)(int, int, int);
	int (*fclose)(FILE *);
	int (*pclose)(FILE *);
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
	uaio_host_find("dup2", &next.dup2);
	uaio_host_find("dup3", &next.dup3);
	uaio_host_find("fclose", &next.fclose);
	uaio_host_find("pclose", &next.pclose);
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
	ret = sys_close(fd);
	/* What was submitted on the number meanwhile must not outlive it. */
	uaio_host_closed((unsigned)fd, (unsigned)fd);
	return ret;
}

/* dup2(2); aarch64 has only dup3(2), which refuses equal numbers. */
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

/* Return: -EAGAIN if the number has become the engine's again. */
static long dup_onto_nobodys(int from, int to, const int *flags)
{
	long ret = -EAGAIN;

	if (!uaio_own_fds_hold())
		return -EBUSY;
	if (!is_ours(to))
		ret = dup_raw(from, to, flags);
	uaio_own_fds_release();
	return ret;
}

/* The number is the engine's, who knows no better than to take the next. */
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
			ret = dup_onto_nobodys(from, to, flags);
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

long uaio_host_raw_dup(int from, int to, const int *flags)
{
	bool is_held;
	long ret;

	if (from == to)
		return dup_raw(from, to, flags);
	if (is_ours(to))
		return dup_onto_ours(from, to, flags);
	uaio_host_closing((unsigned)to, (unsigned)to);
	/* A number that nobody has may be taken by a thread of ours. */
	is_held = uaio_own_fds_hold();
	if (is_held && is_ours(to)) {
		uaio_own_fds_release();
		return dup_onto_ours(from, to, flags);
	}
	ret = dup_raw(from, to, flags);
	if (is_held)
		uaio_own_fds_release();
	uaio_host_closed((unsigned)to, (unsigned)to);
	return ret;
}

static long close_some(unsigned first, unsigned last, int flags)
{
	return uaio_sys6(SYS_close_range, first, last, flags, 0, 0, 0);
}

long uaio_host_raw_close_range(unsigned first, unsigned last, int flags)
{
	const int known = CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE;
	unsigned from = first, own;
	bool is_held;
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
	uaio_host_closing(first, last);
	/* Step over what is ours; a thread of ours is not to open more. */
	is_held = uaio_own_fds_hold();
	while (ret == 0 && uaio_own_fd(from, last, &own)) {
		if (own > from)
			ret = close_some(from, own - 1, flags);
		from = own + 1;
	}
	if (ret == 0 && from <= last)
		ret = close_some(from, last, flags);
	if (is_held)
		uaio_own_fds_release();
	uaio_host_closed(first, last);
	return ret;
}

UAIO_EXPORT int close(int fd);
UAIO_EXPORT int dup2(int from, int to);
UAIO_EXPORT int dup3(int from, int to, int flags);
UAIO_EXPORT int close_range(unsigned first, unsigned last, int flags);
UAIO_EXPORT void closefrom(int first);
UAIO_EXPORT int fclose(FILE *file);
UAIO_EXPORT int pclose(FILE *file);
UAIO_EXPORT FILE *freopen(const char *path, const char *mode, FILE *file);
UAIO_EXPORT FILE *freopen64(const char *path, const char *mode, FILE *file);

int close(int fd)
{
	int ret;

	if (!next.close || is_ours(fd))
		return (int)uaio_host_error(uaio_host_raw_close(fd));
	uaio_host_closing((unsigned)fd, (unsigned)fd);
	ret = next.close(fd);
	uaio_host_closed((unsigned)fd, (unsigned)fd);
	return ret;
}

int dup2(int from, int to)
{
	bool is_held;
	int ret;

	if (!next.dup2 || from == to || is_ours(to))
		return (int)uaio_host_error(uaio_host_raw_dup(from, to, NULL));
	uaio_host_closing((unsigned)to, (unsigned)to);
	is_held = uaio_own_fds_hold();
	if (is_held && is_ours(to)) {
		uaio_own_fds_release();
		return (int)uaio_host_error(uaio_host_raw_dup(from, to, NULL));
	}
	ret = next.dup2(from, to);
	if (is_held)
		uaio_own_fds_release();
	uaio_host_closed((unsigned)to, (unsigned)to);
	return ret;
}

int dup3(int from, int to, int flags)
{
	bool is_held;
	int ret;

	if (!next.dup3 || from == to || is_ours(to))
		return (int)uaio_host_error(
			uaio_host_raw_dup(from, to, &flags));
	uaio_host_closing((unsigned)to, (unsigned)to);
	is_held = uaio_own_fds_hold();
	if (is_held && is_ours(to)) {
		uaio_own_fds_release();
		return (int)uaio_host_error(
			uaio_host_raw_dup(from, to, &flags));
	}
	ret = next.dup3(from, to, flags);
	if (is_held)
		uaio_own_fds_release();
	uaio_host_closed((unsigned)to, (unsigned)to);
	return ret;
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

/* A stream closes its descriptor by a call inside the C library. */
static unsigned fd_of(FILE *file)
{
	int saved = errno;
	int fd = fileno_unlocked(file);

	errno = saved;
	return fd < 0 ? ~0u : (unsigned)fd;
}

typedef int close_stream_fn(FILE *);
typedef FILE *reopen_fn(const char *, const char *, FILE *);

static int close_stream(close_stream_fn **real, const char *name, FILE *file)
{
	unsigned fd = fd_of(file);
	int ret;

	if (!*real)
		uaio_host_find(name, real);
	uaio_host_closing(fd, fd);
	ret = (*real)(file);
	uaio_host_closed(fd, fd);
	return ret;
}

static FILE *reopen(reopen_fn **real, const char *name, const char *path,
		    const char *mode, FILE *file)
{
	unsigned fd = fd_of(file);
	FILE *ret;

	if (!*real)
		uaio_host_find(name, real);
	uaio_host_closing(fd, fd);
	ret = (*real)(path, mode, file);
	uaio_host_closed(fd, fd);
	return ret;
}

int fclose(FILE *file)
{
	return close_stream(&next.fclose, "fclose", file);
}

int pclose(FILE *file)
{
	return close_stream(&next.pclose, "pclose", file);
}

FILE *freopen(const char *path, const char *mode, FILE *file)
{
	return reopen(&next.freopen, "freopen", path, mode, file);
}

FILE *freopen64(const char *path, const char *mode, FILE *file)
{
	return reopen(&next.freopen64, "freopen64", path, mode, file);
}

/*
 * fcntl(2): F_SETFL changes what is known of a file (O_DIRECT, O_NONBLOCK,
 * O_APPEND), so that is forgotten. The third argument fits a pointer, whatever
 * it is: the C library's own function takes it so, too.
 *
 * Writes were submitted to their place: those that are made, or whose rest is,
 * after O_APPEND is set would go to the end. So they are seen through before.
 */
UAIO_EXPORT int fcntl(int fd, int cmd, ...);
UAIO_EXPORT int fcntl64(int fd, int cmd, ...);

static int change(int (*real)(int, int, ...), int fd, int cmd, void *arg)
{
	int ret;

	if (cmd == F_SETFL && (long)arg & O_APPEND)
		uaio_host_closing((unsigned)fd, (unsigned)fd);
	ret = real ? real(fd, cmd, arg)
		   : (int)uaio_host_error(sys_fcntl(fd, cmd, (long)arg));
	if (cmd == F_SETFL)
		uaio_host_closing((unsigned)fd, (unsigned)fd);
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
