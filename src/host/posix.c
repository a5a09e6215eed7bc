/* SPDX-License-Identifier: MIT */
/*
 * The exported functions of POSIX AIO (aio.h)
 *
 * The functions have no symbol versions, so that a program's reference to any version
 * of the C library's functions binds to them. With --posix=off they call the C
 * library's functions.
 *
 * struct aiocb and struct aiocb64 have the same layout, as off_t has 64 bits.
 *
 * Tested by test/posix/.
 */
#undef _FILE_OFFSET_BITS
#include <aio.h>
#include <assert.h>
#include <errno.h>
#include <stddef.h>

#include "base/check.h"
#include "base/symver.h"
#include "options/config.h"
#include "life/report.h"
#include "posix/posix.h"
#include "host/memory.h"
#include "host/host.h"

/* Included last: it undefines macros. */
#include "host/lfs.h"

/*
 * Type of an element of the list of lio_listio(), which differs between C libraries.
 */
#ifdef __GLIBC__
#define MEMBER struct aiocb *const
#else
#define MEMBER struct aiocb *__restrict const
#endif

UAIO_EXPORT int aio_read(struct aiocb *aiocb);
UAIO_EXPORT int aio_write(struct aiocb *aiocb);
UAIO_EXPORT int aio_fsync(int op, struct aiocb *aiocb);
UAIO_EXPORT int aio_error(const struct aiocb *aiocb);
UAIO_EXPORT ssize_t aio_return(struct aiocb *aiocb);
UAIO_EXPORT int aio_suspend(const struct aiocb *const list[], int nr,
			    const struct timespec *timeout);
UAIO_EXPORT int aio_cancel(int fd, struct aiocb *aiocb);
UAIO_EXPORT int lio_listio(int mode, MEMBER list[], int nr,
			   struct sigevent *event);

#ifdef __GLIBC__
UAIO_EXPORT void aio_init(const struct aioinit *init);
#endif

UAIO_EXPORT int aio_read64(struct aiocb64 *aiocb);
UAIO_EXPORT int aio_write64(struct aiocb64 *aiocb);
UAIO_EXPORT int aio_fsync64(int op, struct aiocb64 *aiocb);
UAIO_EXPORT int aio_error64(const struct aiocb64 *aiocb);
UAIO_EXPORT ssize_t aio_return64(struct aiocb64 *aiocb);
UAIO_EXPORT int aio_suspend64(const struct aiocb64 *const list[], int nr,
			      const struct timespec *timeout);
UAIO_EXPORT int aio_cancel64(int fd, struct aiocb64 *aiocb);
UAIO_EXPORT int lio_listio64(int mode, struct aiocb64 *const list[], int nr,
			     struct sigevent *event);

static_assert(sizeof(struct aiocb) == sizeof(struct aiocb64) &&
		      offsetof(struct aiocb, aio_offset) ==
			      offsetof(struct aiocb64, aio_offset),
	      "one layout");

/*
 * The C library's functions, which --posix=off uses; each is NULL until it is first
 * needed.
 */
static struct {
	int (*aio_read)(struct aiocb *);
	int (*aio_write)(struct aiocb *);
	int (*aio_fsync)(int, struct aiocb *);
	int (*aio_error)(const struct aiocb *);
	ssize_t (*aio_return)(struct aiocb *);
	int (*aio_suspend)(const struct aiocb *const[], int,
			   const struct timespec *);
	int (*aio_cancel)(int, struct aiocb *);
	int (*lio_listio)(int, struct aiocb *const[], int, struct sigevent *);
#ifdef __GLIBC__
	void (*aio_init)(const struct aioinit *);
#endif
} next;

static bool is_off(void)
{
	if (likely(uaio_config.posix != UAIO_POSIX_OFF))
		return false;
	uaio_report_unserved("POSIX AIO is the C library's: --posix=off");
	return true;
}

int aio_read(struct aiocb *aiocb)
{
	if (is_off())
		return UAIO_HOST_NEXT(aio_read)(aiocb);
	return (int)uaio_host_error(uaio_posix_read(aiocb));
}

int aio_write(struct aiocb *aiocb)
{
	if (is_off())
		return UAIO_HOST_NEXT(aio_write)(aiocb);
	return (int)uaio_host_error(uaio_posix_write(aiocb));
}

int aio_fsync(int op, struct aiocb *aiocb)
{
	if (is_off())
		return UAIO_HOST_NEXT(aio_fsync)(op, aiocb);
	return (int)uaio_host_error(uaio_posix_fsync(op, aiocb));
}

int aio_error(const struct aiocb *aiocb)
{
	if (is_off())
		return UAIO_HOST_NEXT(aio_error)(aiocb);
	return uaio_posix_error(aiocb);
}

ssize_t aio_return(struct aiocb *aiocb)
{
	if (is_off())
		return UAIO_HOST_NEXT(aio_return)(aiocb);
	if (unlikely(uaio_config.is_examined))
		uaio_host_returned(aiocb);
	return aiocb->UAIO_AIOCB_RESULT;
}

int aio_suspend(const struct aiocb *const list[], int nr,
		const struct timespec *timeout)
{
	if (is_off())
		return UAIO_HOST_NEXT(aio_suspend)(list, nr, timeout);
	return (int)uaio_host_error(uaio_posix_suspend(list, nr, timeout));
}

int aio_cancel(int fd, struct aiocb *aiocb)
{
	if (is_off())
		return UAIO_HOST_NEXT(aio_cancel)(fd, aiocb);
	return (int)uaio_host_error(uaio_posix_cancel(fd, aiocb));
}

int lio_listio(int mode, MEMBER list[], int nr, struct sigevent *event)
{
	if (is_off())
		return UAIO_HOST_NEXT(lio_listio)(
			mode, (struct aiocb *const *)list, nr, event);
	return (int)uaio_host_error(uaio_posix_listio(
		mode, (struct aiocb *const *)list, nr, event));
}

#ifdef __GLIBC__
/*
 * In glibc, aio_init() tunes the threads of glibc's AIO. Here it does nothing: the
 * option `--workers` limits the library's workers.
 */
void aio_init(const struct aioinit *init)
{
	if (is_off())
		UAIO_HOST_NEXT(aio_init)(init);
}
#endif

int aio_read64(struct aiocb64 *aiocb)
{
	return aio_read((struct aiocb *)aiocb);
}

int aio_write64(struct aiocb64 *aiocb)
{
	return aio_write((struct aiocb *)aiocb);
}

int aio_fsync64(int op, struct aiocb64 *aiocb)
{
	return aio_fsync(op, (struct aiocb *)aiocb);
}

int aio_error64(const struct aiocb64 *aiocb)
{
	return aio_error((const struct aiocb *)aiocb);
}

ssize_t aio_return64(struct aiocb64 *aiocb)
{
	return aio_return((struct aiocb *)aiocb);
}

int aio_suspend64(const struct aiocb64 *const list[], int nr,
		  const struct timespec *timeout)
{
	return aio_suspend((const struct aiocb *const *)list, nr, timeout);
}

int aio_cancel64(int fd, struct aiocb64 *aiocb)
{
	return aio_cancel(fd, (struct aiocb *)aiocb);
}

int lio_listio64(int mode, struct aiocb64 *const list[], int nr,
		 struct sigevent *event)
{
	return lio_listio(mode, (struct aiocb *const *)list, nr, event);
}
