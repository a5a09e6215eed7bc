/* SPDX-License-Identifier: MIT */
/*
 * Instructions of an object without a table for unwinding
 *
 * Without a table nothing says where functions begin. The code is followed from the
 * addresses that the object itself names (named.c). Whatever these lead to by branches
 * and calls is an instruction.
 *
 *   I1  A pointer, an address that an instruction computes, and an entry of a table of
 *       jumps may be that of data. It is followed only if all instructions up to the
 *       ends of its function are known, and overlap nothing that was followed before.
 *   I2  A table of jumps does not say how many entries it has. It ends where another
 *       table or other data begins that an instruction computes the address of.
 *   I3  If the named functions lead to instructions that overlap, nothing is known of
 *       the object.
 *
 * Tested by test-patch.c.
 */
#ifndef UAIO_PATCH_REACH_H
#define UAIO_PATCH_REACH_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uaio_reach {
	const struct dl_phdr_info *object;
	uintptr_t start; /* of the code */
	size_t bytes;
	bool is_known; /* all below is there */
	bool is_placed; /* the loader may place it anywhere: it is linked to address 0 */
	/* Owned: a bit for each byte. */
	uint64_t *firsts; /* an instruction starts there */
	uint64_t *others; /* it is another byte of an instruction */
	uint64_t *tried;  /* it was computed, and followed */
	/* Owned: a bit for each byte from low on. */
	uint64_t *starts; /* a table or other data begins there */
	uintptr_t low;    /* the beginning of the object */
	size_t span;      /* its bytes, whether there is memory or not */
	/* Owned: distances from start, each in the order in which they were found. */
	struct uaio_reach_list {
		uint32_t *all;
		size_t nr;
	} todo, computed, undo;
};

/*
 * Follow the code in the segment that addr is in. What is then in reach must be closed,
 * whatever is returned.
 * Return: false if nothing is known of the code.
 */
bool uaio_reach_open(struct uaio_reach *reach,
		     const struct dl_phdr_info *object, uintptr_t addr);
void uaio_reach_close(struct uaio_reach *reach);

/* Return: whether addr is in the code that was followed. */
bool uaio_reach_covers(const struct uaio_reach *reach, uintptr_t addr);

enum uaio_reached {
	UAIO_REACHED_NOT,   /* nobody knows what it is */
	UAIO_REACHED_FIRST, /* an instruction starts there */
	UAIO_REACHED_OTHER, /* it is another byte of an instruction */
};

enum uaio_reached uaio_reach_at(const struct uaio_reach *reach, uintptr_t addr);

/* named.c: the addresses of code that an object names */

/*
 * Call see() for each address, perhaps more than once; is_code: an instruction starts
 * there for certain.
 */
void uaio_see_named(const struct dl_phdr_info *object,
		    void (*see)(void *arg, uintptr_t addr, bool is_code),
		    void *arg);

#endif /* UAIO_PATCH_REACH_H */
