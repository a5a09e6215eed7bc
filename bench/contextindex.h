/* SPDX-License-Identifier: MIT */
/*
 * A list and a radix tree of kernel AIO contexts: each is an index, which finds the
 * context that belongs to a handle
 *
 * The library now uses a table (aio/ctxtab.h), and earlier used the list; the radix
 * tree was only proposed. Two benchmarks compare the list and the radix tree with the
 * table: index.c in a program of its own, ctx-index.c inside the library.
 *
 *   list    listindex.c: one list of all contexts, newest first
 *   radix   radixindex.c: a radix tree; a context's key is the page number of its
 *           handle, which is an address
 *
 *   I1  Freed memory is reused only for objects of the same type (base/slab.h). So a
 *       find() that still reads a removed object reads an object of the right type.
 *   I2  find() finds a context that is in the index during the whole call, whatever
 *       other threads insert and remove meanwhile.
 *   I3  For a handle that is not in the index, find() returns NULL or any context
 *       that was ever in the index. So the caller of find() compares the context's
 *       handle, as the library does.
 *
 * Exclusion: find() needs no lock, and may run at the same time as any function. The
 * callers of reserve(), insert(), remove() and bytes() hold a lock, so that only one of
 * these four runs at a time.
 *
 * A process has at most one list and one radix tree.
 */
#ifndef BENCH_CONTEXTINDEX_H
#define BENCH_CONTEXTINDEX_H

#include <stddef.h>
#include <stdint.h>

#define CONTEXTINDEX_FUNCTIONS(index)                                \
	/* Make the index empty. */                                  \
	void index##_init(void);                                     \
	/* Allocate what insert() needs. Return: 0 or -ENOMEM. */    \
	int index##_reserve(void);                                   \
	/* Call reserve() before. handle is new, and not 0. */       \
	void index##_insert(uint64_t handle, void *context);         \
	/* The handle must be in the index. */                       \
	void index##_remove(uint64_t handle);                        \
	/* Return: NULL, or a context, maybe a wrong one (I3). */    \
	void *index##_find(uint64_t handle);                         \
	/* Return: bytes of all entries or nodes that are in use. */ \
	size_t index##_bytes(void)

CONTEXTINDEX_FUNCTIONS(list_index);
CONTEXTINDEX_FUNCTIONS(radix_index);

/* The functions of one index as pointers, for programs that use several indexes. */
struct contextindex {
	const char *name;
	void (*init)(void);
	int (*reserve)(void);
	void (*insert)(uint64_t handle, void *context);
	void (*remove)(uint64_t handle);
	void *(*find)(uint64_t handle);
	size_t (*bytes)(void);
};

extern const struct contextindex list_index;
extern const struct contextindex radix_index;

#define CONTEXTINDEX(index, of_name)                                  \
	{                                                             \
		.name = (of_name), .init = index##_init,              \
		.reserve = index##_reserve, .insert = index##_insert, \
		.remove = index##_remove, .find = index##_find,       \
		.bytes = index##_bytes,                               \
	}

#endif /* BENCH_CONTEXTINDEX_H */
