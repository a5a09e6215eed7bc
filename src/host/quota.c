/* SPDX-License-Identifier: MIT */
/*
 * open(2) and similar functions: instead of /proc/sys/fs/aio-max-nr and aio-nr, the
 * program gets files with the library's numbers
 *
 * Some programs (Seastar, and with it ScyllaDB and Redpanda) read these two files, and
 * exit if the kernel has too few AIO events left. The library uses none of the kernel's
 * events. So if a program opens one of the files for reading, it gets a memfd instead.
 * For aio-max-nr the memfd contains the limit --max-nr, or INT_MAX without a limit; for
 * aio-nr, how many events this process uses.
 *
 * The C library opens the real file first, so the kernel checks the path and the
 * permission. For any other file, the library only compares a few bytes of the path.
 *
 * The program gets the kernel's file if it opens aio-max-nr or aio-nr by an inlined
 * system call, by another spelling of the path, by io_uring, or for writing; or if
 * memfd_create is refused.
 *
 * Context: async-signal-safe except fopen(); also before the library is loaded.
 *
 * Tested by test/abi/quota.c.
 */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#include "host/host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/check.h"
#include "base/symver.h"
#include "base/sys.h"
#include "aio/aio.h"

/* Included last: it undefines macros. */
#include "host/lfs.h"

/*
 * A sanitizer interposes open() itself, to see every call from the start of the
 * process. So with a sanitizer, these functions are not defined here.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

static const char FILES[] = "/proc/sys/fs/aio-";

enum { FILES_LEN = sizeof(FILES) - 1 };

/*
 * The next definitions, usually the C library's. Each is NULL until the library is
 * loaded, or if the C library lacks the function.
 */
static struct {
	int (*open)(const char *, int, ...);
	int (*open64)(const char *, int, ...);
	int (*openat)(int, const char *, int, ...);
	int (*openat64)(int, const char *, int, ...);
	int (*__open_2)(const char *, int);
	int (*__open64_2)(const char *, int);
	int (*__openat_2)(int, const char *, int);
	int (*__openat64_2)(int, const char *, int);
	FILE *(*fopen)(const char *, const char *);
	FILE *(*fopen64)(const char *, const char *);
} next;

void uaio_host_load_quota(void)
{
	uaio_host_find("open", &next.open);
	uaio_host_find("open64", &next.open64);
	uaio_host_find("openat", &next.openat);
	uaio_host_find("openat64", &next.openat64);
	uaio_host_find("__open_2", &next.__open_2);
	uaio_host_find("__open64_2", &next.__open64_2);
	uaio_host_find("__openat_2", &next.__openat_2);
	uaio_host_find("__openat64_2", &next.__openat64_2);
	uaio_host_find("fopen", &next.fopen);
	uaio_host_find("fopen64", &next.fopen64);
}

/*
 * If path is aio-max-nr or aio-nr in /proc/sys/fs, write to `text` what the program is to
 * read there.
 * Return: the length; 0 if path is another file, or in a signal handler that
 * interrupted the library.
 */
static int print_quota(const char *path, char text[24])
{
	bool is_max = !strcmp(path + FILES_LEN, "max-nr");
	uint64_t nr, max;

	if (!is_max && strcmp(path + FILES_LEN, "nr") != 0)
		return 0;
	if (!uaio_aio_read_quota(&nr, &max))
		return 0;
	if (!max)
		max = INT_MAX;
	return snprintf(text, 24, "%" PRIu64 "\n", is_max ? max : nr);
}

/*
 * Return: a descriptor of a sealed memfd that contains `text`, with file position 0; or
 * the error of creating, writing or sealing it.
 */
static int new_file(const char *text, int len)
{
	const int sealed =
		F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	int fd = sys_memfd("uaio-quota");

	if (fd < 0)
		return fd;
	if (sys_pwrite(fd, text, (size_t)len, 0) == len &&
	    sys_fcntl(fd, F_ADD_SEALS, sealed) == 0)
		return fd;
	(void)sys_close(fd);
	return -EIO;
}

/*
 * Put a memfd in place of fd, which the program has just opened. This is safe, because
 * no other thread uses fd yet.
 */
static __attribute__((noinline)) void replace(int fd, const char *path)
{
	int flags = sys_fcntl(fd, F_GETFL, 0), own, len;
	char text[24];

	if (flags < 0 || flags & O_PATH || (flags & O_ACCMODE) != O_RDONLY)
		return;
	len = print_quota(path, text);
	own = len > 0 ? new_file(text, len) : -1;
	if (own < 0)
		return;
	flags = sys_fcntl(fd, F_GETFD, 0) & FD_CLOEXEC ? O_CLOEXEC : 0;
	(void)uaio_sys6(SYS_dup3, own, fd, flags, 0, 0, 0);
	(void)sys_close(own);
}

/*
 * fd is the result of opening path. If path is aio-max-nr or aio-nr in /proc/sys/fs,
 * put a memfd in place of fd.
 * Return: fd.
 */
static int answer(int fd, const char *path)
{
	/*
	 * As fd is open, the kernel has read the path. So the library can read it, too.
	 */
	if (fd >= 0 && unlikely(!strncmp(path, FILES, FILES_LEN)))
		replace(fd, path);
	return fd;
}

/*
 * If path is aio-max-nr or aio-nr in /proc/sys/fs, put a memfd in place of the stream's
 * descriptor.
 * Return: file.
 */
static FILE *answer_stream(FILE *file, const char *path)
{
	if (file && unlikely(!strncmp(path, FILES, FILES_LEN)))
		replace(fileno_unlocked(file), path);
	return file;
}

/* Make the system call itself: the library is not loaded yet. */
static int open_raw(int dir, const char *path, int flags, mode_t mode)
{
	return (int)uaio_host_error(
		uaio_sys6(SYS_openat, dir, (long)path, flags, mode, 0, 0));
}

/* Callers pass a mode only if flags may create the file. */
#define MODE_OF(flags, ret_mode)                                            \
	do {                                                                \
		va_list args;                                               \
                                                                            \
		if (!((flags)&O_CREAT) && ((flags)&O_TMPFILE) != O_TMPFILE) \
			break;                                              \
		va_start(args, flags);                                      \
		*(ret_mode) = va_arg(args, mode_t);                         \
		va_end(args);                                               \
	} while (0)

UAIO_EXPORT int open(const char *path, int flags, ...);
UAIO_EXPORT int open64(const char *path, int flags, ...);
UAIO_EXPORT int openat(int dir, const char *path, int flags, ...);
UAIO_EXPORT int openat64(int dir, const char *path, int flags, ...);
UAIO_EXPORT int __open_2(const char *path, int flags);
UAIO_EXPORT int __open64_2(const char *path, int flags);
UAIO_EXPORT int __openat_2(int dir, const char *path, int flags);
UAIO_EXPORT int __openat64_2(int dir, const char *path, int flags);
UAIO_EXPORT FILE *fopen(const char *path, const char *mode);
UAIO_EXPORT FILE *fopen64(const char *path, const char *mode);

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;

	MODE_OF(flags, &mode);
	return answer(likely(next.open) ? next.open(path, flags, mode)
					: open_raw(AT_FDCWD, path, flags, mode),
		      path);
}

int open64(const char *path, int flags, ...)
{
	mode_t mode = 0;

	MODE_OF(flags, &mode);
	return answer(likely(next.open64)
			      ? next.open64(path, flags, mode)
			      : open_raw(AT_FDCWD, path, flags, mode),
		      path);
}

int openat(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;

	MODE_OF(flags, &mode);
	return answer(likely(next.openat) ? next.openat(dir, path, flags, mode)
					  : open_raw(dir, path, flags, mode),
		      path);
}

int openat64(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;

	MODE_OF(flags, &mode);
	return answer(likely(next.openat64)
			      ? next.openat64(dir, path, flags, mode)
			      : open_raw(dir, path, flags, mode),
		      path);
}

/*
 * A program built with _FORTIFY_SOURCE calls these functions instead of open() and openat().
 */

int __open_2(const char *path, int flags)
{
	return answer(likely(next.__open_2)
			      ? next.__open_2(path, flags)
			      : open_raw(AT_FDCWD, path, flags, 0),
		      path);
}

int __open64_2(const char *path, int flags)
{
	return answer(likely(next.__open64_2)
			      ? next.__open64_2(path, flags)
			      : open_raw(AT_FDCWD, path, flags, 0),
		      path);
}

int __openat_2(int dir, const char *path, int flags)
{
	return answer(likely(next.__openat_2)
			      ? next.__openat_2(dir, path, flags)
			      : open_raw(dir, path, flags, 0),
		      path);
}

int __openat64_2(int dir, const char *path, int flags)
{
	return answer(likely(next.__openat64_2)
			      ? next.__openat64_2(dir, path, flags)
			      : open_raw(dir, path, flags, 0),
		      path);
}

FILE *fopen(const char *path, const char *mode)
{
	return answer_stream(UAIO_HOST_NEXT(fopen)(path, mode), path);
}

FILE *fopen64(const char *path, const char *mode)
{
	/* Some C libraries lack fopen64(). */
	FILE *(*real)(const char *, const char *) = UAIO_HOST_NEXT(fopen64);

	return answer_stream((real ? real : UAIO_HOST_NEXT(fopen))(path, mode),
			     path);
}

#else

void uaio_host_load_quota(void)
{
}

#endif
