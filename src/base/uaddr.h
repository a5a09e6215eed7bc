/* SPDX-License-Identifier: MIT */
/*
 * User addresses: checks whether a range of addresses is in user space, as the kernel
 * does
 *
 * The check does not find out whether memory is mapped at the addresses; only an access
 * shows this.
 *
 * Tested by test/conform/rows-memory.c and test/host/addresses.c.
 */
#ifndef UAIO_BASE_UADDR_H
#define UAIO_BASE_UADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/atomic.h"
#include "base/check.h"

/* The size of a page; 0: not known yet. Only tests write it directly. */
extern size_t uaio_page_known __attribute__((visibility("hidden")));
size_t uaio_page_find(void);

/* Return: the size of a page: 4096; on some aarch64 machines 16384 or 65536. */
static inline size_t uaio_page_bytes(void)
{
	/* relaxed: all threads find the same value */
	const size_t known = load_relaxed(&uaio_page_known);

	return likely(known) ? known : uaio_page_find();
}

/*
 * Copy memory that another thread of the program may change meanwhile. The caller then
 * uses only the copy `to`. The asm statement keeps the compiler from reading `from`
 * again in place of `to`.
 */
static inline void uaio_copy_once(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
	__asm__ volatile("" : : "r"(to) : "memory");
}

#if defined(__x86_64__)
/* The kernel excludes the last page of the lower half of the address space. */
#define UAIO_USER_END 0x7ffffffff000ull
#else
#define UAIO_USER_END 0x1000000000000ull
#endif

static inline bool uaio_is_user_range(uint64_t addr, uint64_t bytes)
{
	return bytes <= UAIO_USER_END && addr <= UAIO_USER_END - bytes;
}

/*
 * Like uaio_is_user_range(), but also refuses addresses below 4096 (such as NULL),
 * where nothing is mapped. For memory that the library itself accesses.
 */
static inline bool uaio_is_accessible(uint64_t addr, uint64_t bytes)
{
	return addr >= 4096 && uaio_is_user_range(addr, bytes);
}

/*
 * Return: whether all bytes of the range are readable, or writable. The functions make
 * a system call for each page, so only callers that must not cause a SIGSEGV use them.
 */
bool uaio_can_read(uint64_t addr, uint64_t bytes);
bool uaio_can_write(uint64_t addr, uint64_t bytes);

/*
 * Store 0 in the eight bytes at addr, which need not be aligned.
 * Return: false if these bytes are not writable.
 */
bool uaio_store_zero(uint64_t addr);

#endif /* UAIO_BASE_UADDR_H */
