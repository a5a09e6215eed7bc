/* SPDX-License-Identifier: MIT */
/*
 * Indexes of contexts: from a handle to the context
 *
 * These are the two that kernel AIO had, or was offered, before it had a table.
 * They are measured beside the engine's (aio/ctxtab.h), in a program of their own
 * (index.c) and in its place in the library (ctx-index.c).
 *
 *   list    listindex.c: one list of all, newest first
 *   radix   radixindex.c: a radix tree over the page numbers of the handles
 *
 *   I1  Memory keeps its type for ever (base/slab.h), so a reader that comes
 *       late reads something old, and no nonsense.
 *   I2  What was there before find() began and is there when it ends is found,
 *       whatever comes and goes meanwhile.
 *   I3  For a handle that is not there find() returns NULL, or anything that
 *       was ever there: the caller compares, as the engine does.
 *
 * Exclusion           find  reserve, insert, remove, bytes
 *   find                -             -	X: under the caller's lock
 *   all the others      -             X	-: free to run at the same time
 *
 * There is one of each in a process.
 */
#ifndef BENCH_CONTEXTINDEX_H
#define BENCH_CONTEXTINDEX_H

#include <stddef.h>
#include <stdint.h>

#define CONTEXTINDEX_FUNCTIONS(index)                              \
	/* Begin empty. */                                         \
	void index##_init(void);                                   \
	/* Memory for the next insert. Return: 0 or -ENOMEM. */    \
	int index##_reserve(void);                                 \
	/* After a reserve; the handle is not there, nor NULL. */  \
	void index##_insert(uint64_t handle, void *context);       \
	/* The handle is there. */                                 \
	void index##_remove(uint64_t handle);                      \
	/* Return: what I2 and I3 say. Context: any thread. */     \
	void *index##_find(uint64_t handle);                       \
	/* Return: of what is there, but for what was reserved. */ \
	size_t index##_bytes(void)

CONTEXTINDEX_FUNCTIONS(list_index);
CONTEXTINDEX_FUNCTIONS(radix_index);

/* The same for who has several. */
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
