/* SPDX-License-Identifier: MIT */
/*
 * Ring memory: the memory that completion rings lie in, and an index of it
 *
 * A handle is the address of a ring, and a lookup reads the ring's id from
 * there. A client may pass any value as a handle, so before that read the
 * address is checked against the index of the memory that rings lie in.
 *
 *   I1  Memory that is in the index is readable for ever: it is never unmapped,
 *       only reused.
 *   I2  Index entries are only added, never changed or removed, so readers need
 *       no lock.
 *
 * A ring has whole pages of memory (base/uaddr.h). Small rings share chunks of 1 MiB;
 * a ring of more than half a chunk gets a mapping of its own. Chunks are mapped when they are needed: with one huge
 * reservation, programs that lock their memory or limit their address space
 * would fail.
 */
#ifndef UAIO_AIO_RINGMEM_H
#define UAIO_AIO_RINGMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Set up an empty index, whatever was there before: a forked child calls it
 * again.
 * Return: 0 or -ENOMEM.
 */
int uaio_ringmem_init(void);

/*
 * Take and give back memory for a ring. It holds what earlier rings have left
 * there, and late readers of those may still look at it.
 * Return: nr_pages of memory, or NULL if there is none.
 */
void *uaio_ringmem_get(size_t nr_pages);
void uaio_ringmem_put(void *ring, size_t nr_pages);

/*
 * Return: whether addr may be read as a ring's header. It need not be the start
 * of a live ring; the caller verifies that by comparing handles.
 * Context: any thread, wait-free.
 */
bool uaio_ringmem_contains(uint64_t addr);

/* Return: pages that are in use; memory of the index. */
size_t uaio_ringmem_nr_pages(void);
size_t uaio_ringmem_index_bytes(void);

#endif /* UAIO_AIO_RINGMEM_H */
