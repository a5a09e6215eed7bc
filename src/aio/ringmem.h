/* SPDX-License-Identifier: MIT */
/*
 * Ring memory: memory for completion rings, and checking whether an address is in it
 *
 * A handle is the address of a ring, and a lookup reads the ring's id at that address. A
 * client may pass any value as a handle. So the lookup first checks, in an index of all
 * ring memory, that the address can be read.
 *
 *   I1  Memory in the index is readable for ever: it is reused, but never unmapped.
 *   I2  Index entries are only added, never changed or removed, so readers need no lock.
 *
 * A ring consists of whole pages (base/uaddr.h). Small rings share chunks of 1 MiB; a ring
 * of more than half a chunk has its own mapping. Chunks are mapped when needed: one huge
 * reservation would fail in programs that lock their memory or limit their address space.
 */
#ifndef UAIO_AIO_RINGMEM_H
#define UAIO_AIO_RINGMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Set up an empty index. A child of fork() calls this again. Return: 0 or -ENOMEM. */
int uaio_ringmem_init(void);

/*
 * uaio_ringmem_get(): allocate memory for a ring. The memory still contains earlier
 * rings, which threads that found these rings before may still read.
 * Return: memory of nr_pages pages, or NULL if memory is refused. uaio_ringmem_put()
 * frees it.
 */
void *uaio_ringmem_get(size_t nr_pages);
void uaio_ringmem_put(void *ring, size_t nr_pages);

/*
 * Return: whether addr can be read as a ring's header. Even then there may be no ring at
 * addr; the caller compares handles to find out. Context: any thread, wait-free.
 */
bool uaio_ringmem_contains(uint64_t addr);

/* Return: how many pages are in use by rings; how many bytes the index takes. */
size_t uaio_ringmem_nr_pages(void);
size_t uaio_ringmem_index_bytes(void);

#endif /* UAIO_AIO_RINGMEM_H */
