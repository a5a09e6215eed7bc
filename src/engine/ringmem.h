/* SPDX-License-Identifier: MIT */
/*
 * Ring memory: where completion rings live, and whether an address is one
 *
 * A handle is the address of a ring, and lookup reads the ring's id through
 * it. Handles are whatever a client passes, so before that read the address
 * is checked against an index of the memory that rings can be in.
 *
 *   I1  Memory that the index knows is mapped readable and stays so: it is
 *       never unmapped, only used again.
 *   I2  Index entries are only added, never changed or removed; so readers
 *       need no lock.
 *
 * Small rings share chunks of 1 MiB; a ring of more than half a chunk gets a
 * mapping of its own. Chunks are mapped when needed: one huge reservation
 * makes hosts fail that lock their memory or limit their address space.
 */
#ifndef UAIO_ENGINE_RINGMEM_H
#define UAIO_ENGINE_RINGMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UAIO_PAGE_BYTES = 4096 };

/* From nothing. Return: 0 or -ENOMEM. */
int uaio_ringmem_init(void);

/*
 * Return: nr_pages of memory, or NULL if it is refused. What they hold is left
 * over from others; late readers of those may still look.
 */
void *uaio_ringmem_get(size_t nr_pages);
void uaio_ringmem_put(void *ring, size_t nr_pages);

/*
 * Return: whether addr may be dereferenced as a ring's header. It may be
 * another thing than a live ring's start all the same; the caller compares.
 * Context: any thread, wait-free.
 */
bool uaio_ringmem_contains(uint64_t addr);

/* Pages handed out and not put back, and bytes used by the index. */
size_t uaio_ringmem_nr_pages(void);
size_t uaio_ringmem_index_bytes(void);

#endif /* UAIO_ENGINE_RINGMEM_H */
