/* SPDX-License-Identifier: MIT */
/*
 * User addresses: the kernel's range check
 *
 * It tells addresses that can be a user's from those that cannot. Whether
 * anything is mapped there shows only when the address is used.
 *
 * Tested by test/conform/rows-memory.c and test/host/addresses.c.
 */
#ifndef UAIO_BASE_UADDR_H
#define UAIO_BASE_UADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/check.h"

/* In bytes; 0 until it is known. Only tests set it. */
extern size_t uaio_page_known __attribute__((visibility("hidden")));
size_t uaio_page_find(void);

/* Return: the bytes of a page of memory: 4096, on some machines 16384 or 65536. */
static inline size_t uaio_page_bytes(void)
{
	/* relaxed: all find the same */
	const size_t known = load_relaxed(&uaio_page_known);

	return likely(known) ? known : uaio_page_find();
}

#if defined(__x86_64__)
/* One page below the end of the lower half, as the kernel has it. */
#define UAIO_USER_END 0x7ffffffff000ull
#else
#define UAIO_USER_END 0x1000000000000ull
#endif

static inline bool uaio_is_user_range(uint64_t addr, uint64_t bytes)
{
	return bytes <= UAIO_USER_END && addr <= UAIO_USER_END - bytes;
}

/*
 * The same for memory that we read or write ourselves: in addition, nothing is
 * mapped at NULL.
 */
static inline bool uaio_is_accessible(uint64_t addr, uint64_t bytes)
{
	return addr >= 4096 && uaio_is_user_range(addr, bytes);
}

/*
 * Return: whether all of the memory can be read, or written. The kernel is
 * asked about each page, so this is only for callers that must not fault.
 */
bool uaio_can_read(uint64_t addr, uint64_t bytes);
bool uaio_can_write(uint64_t addr, uint64_t bytes);

/*
 * Store 0 at addr, eight bytes of any alignment.
 * Return: false if it cannot be written.
 */
bool uaio_store_zero(uint64_t addr);

#endif /* UAIO_BASE_UADDR_H */
