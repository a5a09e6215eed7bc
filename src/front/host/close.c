/* SPDX-License-Identifier: MIT */
/* Both freopen and freopen64 are defined here, under their own names. */
#undef _FILE_OFFSET_BITS
#include "front/host/host.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/close_range.h>
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
} next;

/* Return: the next definition of a name, as a pointer of any type. */
static void find(const char *name, void *ret_function)
{
	*(void **)ret_function = dlsym(RTLD_NEXT, name);
}

void uaio_host_load(void)
{
	find("close", &next.close);
	find("dup2", &next.dup2);
	find("dup3", &next.dup3);
	find("fclose", &next.fclose);
	find("pclose", &next.pclose);
	find("freopen", &next.freopen);
	find("freopen64", &next.freopen64);
}

void uaio_host_closing(unsigned first, unsigned last)
{
	if (!uaio_engine_is_up() || !uaio_enter())
		return;
	uaio_fds_closing(first, last);
	uaio_leave();
}

long uaio_host_raw_close(int fd)
{
	long ret;

	if (uaio_owns_fd(fd))
		return -EBADF;
	uaio_host_closing((unsigned)fd, (unsigned)fd);
	ret = sys_close(fd);
	/* What was submitted on the number meanwhile must not outlive it. */
	uaio_host_closing((unsigned)fd, (unsigned)fd);
	return ret;
}

long uaio_host_raw_dup(int from, int to, int flags)
{
	long ret;

	if (uaio_owns_fd(to))
		return -EBADF;
	if (from == to)
		flags = flags < 0 ? 0 : flags;
	else
		uaio_host_closing((unsigned)to, (unsigned)to);
#ifdef SYS_dup2
	if (flags < 0)
		ret = uaio_sys6(SYS_dup2, from, to, 0, 0, 0, 0);
	else
#endif
		ret = uaio_sys6(SYS_dup3, from, to, flags, 0, 0, 0);
	if (from != to)
		uaio_host_closing((unsigned)to, (unsigned)to);
	return ret;
}

static long close_some(unsigned first, unsigned last, int flags)
{
	return first > last ? 0
			    : uaio_sys6(SYS_close_range, first, last, flags, 0,
					0, 0);
}

long uaio_host_raw_close_range(unsigned first, unsigned last, int flags)
{
	long ret = 0;
	unsigned own;

	if (flags & CLOSE_RANGE_CLOEXEC || first > last)
		return uaio_sys6(SYS_close_range, first, last, flags, 0, 0, 0);
	uaio_host_closing(first, last);
	if (uaio_own_fd(&own) && own >= first && own <= last) {
		/* Step over what is ours. */
		ret = own ? close_some(first, own - 1, flags) : 0;
		if (ret == 0)
			ret = close_some(own + 1, last, flags);
	} else {
		ret = close_some(first, last, flags);
	}
	uaio_host_closing(first, last);
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

	if (!next.close || uaio_owns_fd(fd))
		return (int)uaio_host_error(uaio_host_raw_close(fd));
	uaio_host_closing((unsigned)fd, (unsigned)fd);
	ret = next.close(fd);
	uaio_host_closing((unsigned)fd, (unsigned)fd);
	return ret;
}

int dup2(int from, int to)
{
	int ret;

	if (!next.dup2 || from == to || uaio_owns_fd(to))
		return (int)uaio_host_error(uaio_host_raw_dup(from, to, -1));
	uaio_host_closing((unsigned)to, (unsigned)to);
	ret = next.dup2(from, to);
	uaio_host_closing((unsigned)to, (unsigned)to);
	return ret;
}

int dup3(int from, int to, int flags)
{
	int ret;

	if (!next.dup3 || from == to || uaio_owns_fd(to))
		return (int)uaio_host_error(uaio_host_raw_dup(from, to, flags));
	uaio_host_closing((unsigned)to, (unsigned)to);
	ret = next.dup3(from, to, flags);
	uaio_host_closing((unsigned)to, (unsigned)to);
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

int fclose(FILE *file)
{
	unsigned fd = fd_of(file);
	int ret;

	if (!next.fclose)
		find("fclose", &next.fclose);
	uaio_host_closing(fd, fd);
	ret = next.fclose(file);
	uaio_host_closing(fd, fd);
	return ret;
}

int pclose(FILE *file)
{
	unsigned fd = fd_of(file);
	int ret;

	if (!next.pclose)
		find("pclose", &next.pclose);
	uaio_host_closing(fd, fd);
	ret = next.pclose(file);
	uaio_host_closing(fd, fd);
	return ret;
}

FILE *freopen(const char *path, const char *mode, FILE *file)
{
	unsigned fd = fd_of(file);
	FILE *ret;

	if (!next.freopen)
		find("freopen", &next.freopen);
	uaio_host_closing(fd, fd);
	ret = next.freopen(path, mode, file);
	uaio_host_closing(fd, fd);
	return ret;
}

FILE *freopen64(const char *path, const char *mode, FILE *file)
{
	unsigned fd = fd_of(file);
	FILE *ret;

	if (!next.freopen64)
		find("freopen64", &next.freopen64);
	uaio_host_closing(fd, fd);
	ret = next.freopen64(path, mode, file);
	uaio_host_closing(fd, fd);
	return ret;
}
