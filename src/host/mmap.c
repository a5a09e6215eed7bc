/* SPDX-License-Identifier: MIT */
/*
 * mmap(2) of the library's rings of io_uring
 *
 * A program may itself map the completion ring and the submission entries, at the
 * offsets that the kernel defines. In the file of a ring of the library they are at
 * other offsets, so mmap() translates the offset.
 *
 * Context: async-signal-safe, also before the library is loaded. When the C library
 * itself maps memory, it does not call this mmap().
 *
 * Tested by test-whose.c and test/abi/early.c.
 */
#undef _FILE_OFFSET_BITS
#include "host/host.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/check.h"
#include "base/io_uring.h"
#include "base/symver.h"
#include "base/sys.h"
#include "options/config.h"
#include "uring/uring.h"
#include "host/memory.h"

/* Included last: it undefines macros. */
#include "host/lfs.h"

/* Next definitions of these functions (RTLD_NEXT); NULL until the library is loaded. */
static struct {
	void *(*mmap)(void *, size_t, int, int, int, off_t);
	void *(*mmap64)(void *, size_t, int, int, int, off64_t);
} next;

void uaio_host_load_mmap(void)
{
	uaio_host_find("mmap", &next.mmap);
	uaio_host_find("mmap64", &next.mmap64);
}

/*
 * Translate an offset that the kernel defines for io_uring. If fd is a ring of the
 * library, its file has the same data at another offset.
 * Return: that offset; for any other fd, the unchanged offset.
 */
static long real_offset(int fd, long offset)
{
	/* Lower offsets are the same in a ring of the library; fd -1 is no file. */
	if (likely(offset < (long)IORING_OFF_CQ_RING) || fd < 0)
		return offset;
	return uaio_uring_map_offset(fd, offset);
}

static void note_fixed(long addr, long bytes, long flags)
{
	if (unlikely(flags & MAP_FIXED))
		uaio_host_memory_ends(UAIO_CHECK_UNMAPPED, (void *)addr,
				      (size_t)bytes);
}

/* Tell uaio-check that fd was mapped; fd may be a ring. */
static void note_mapped(long at, int fd, long offset)
{
	if (unlikely(uaio_config.is_examined) && fd >= 0 &&
	    !sys_is_map_error((void *)at))
		uaio_host_memory_begins((void *)at, fd, offset);
}

long uaio_host_raw_mmap(const long a[6])
{
	const long offset = real_offset((int)a[4], a[5]);
	long ret;

	note_fixed(a[0], a[1], a[3]);
	ret = uaio_sys6(SYS_mmap, a[0], a[1], a[2], a[3], a[4], offset);
	note_mapped(ret, (int)a[4], offset);
	return ret;
}

/*
 * A sanitizer interposes mmap() itself, to see all mappings from the start of the
 * process. So with a sanitizer, mmap() is not defined here.
 */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

static void *map(void *(*real)(void *, size_t, int, int, int, off_t),
		 void *addr, size_t bytes, int prot, int flags, int fd,
		 long offset)
{
	void *at;

	note_fixed((long)addr, (long)bytes, flags);
	offset = real_offset(fd, offset);
	if (likely(real))
		at = real(addr, bytes, prot, flags, fd, offset);
	else
		at = (void *)uaio_host_error(uaio_sys6(SYS_mmap, (long)addr,
						       (long)bytes, prot, flags,
						       fd, offset));
	note_mapped((long)at, fd, offset);
	return at;
}

UAIO_EXPORT void *mmap(void *addr, size_t bytes, int prot, int flags, int fd,
		       off_t offset);
UAIO_EXPORT void *mmap64(void *addr, size_t bytes, int prot, int flags, int fd,
			 off64_t offset);

void *mmap(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	return map(next.mmap, addr, bytes, prot, flags, fd, offset);
}

void *mmap64(void *addr, size_t bytes, int prot, int flags, int fd,
	     off64_t offset)
{
	return map(next.mmap64, addr, bytes, prot, flags, fd, offset);
}

#endif
