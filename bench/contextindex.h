/* SPDX-License-Identifier: MIT */
/*
 * Indexes of contexts, which lead from a handle to the context
 *
 * These are two indexes from before kernel AIO had a table: the list that it used, and the
 * radix tree that was proposed. The benchmark compares them with the library's
 * (aio/ctxtab.h), in a separate program (index.c) and within the library (ctx-index.c).
 *
 *   list    listindex.c: one list of all contexts, newest first
 *   radix   radixindex.c: a radix tree over the page numbers of the handles
 *
 *   I1  Freed memory is reused only for the same type (base/slab.h), so a late
 *       reader finds old data of the right type.
 *   I2  find() finds a context that was there from before its call until after it,
 *       whatever other threads insert and remove meanwhile.
 *   I3  For an unknown handle find() returns NULL or any context that was ever
 *       there: its caller compares the handle, as the library does.
 *
 * Exclusion           find  reserve, insert, remove, bytes
 *   find                -             -	   X: under the caller's lock
 *   all the others      -             X	   -: free to run at the same time
 *
 * There is one index of each kind in a process.
 */
#ifndef BENCH_CONTEXTINDEX_H
#define BENCH_CONTEXTINDEX_H

#include <stddef.h>
#include <stdint.h>

#define CONTEXTINDEX_FUNCTIONS(index)                             \
	/* Start with no contexts. */                             \
	void index##_init(void);                                  \
	/* Allocate for the next insert. Return: 0 or -ENOMEM. */ \
	int index##_reserve(void);                                \
	/* Follows a reserve; handle is not NULL, and is new. */  \
	void index##_insert(uint64_t handle, void *context);      \
	/* The handle must be in the index. */                    \
	void index##_remove(uint64_t handle);                     \
	/* Return: by I2 and I3. Context: any thread. */          \
	void *index##_find(uint64_t handle);                      \
	/* Return: size, without what is only reserved. */        \
	size_t index##_bytes(void)

CONTEXTINDEX_FUNCTIONS(list_index);
CONTEXTINDEX_FUNCTIONS(radix_index);

/* The functions of an index, for programs that use several. */
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
