/* SPDX-License-Identifier: MIT */
/*
 * Finds the instructions of an object that has no unwind table
 *
 * Without an unwind table, the object does not say where its functions begin. So reach.c
 * follows the code from the addresses that the object names (named.c), for example symbols.
 * Whatever branches and calls lead to from there is an instruction.
 *
 *   I1  A pointer, an address that an instruction computes, or an entry of a jump table may be
 *       the address of data. Such an address is followed only if all instructions up to the
 *       ends of its function are known, and overlap no instruction that was followed before.
 *   I2  A jump table does not say how many entries it has. It ends where another table or other
 *       data begins whose address an instruction computes.
 *   I3  If the named functions lead to instructions that overlap, the code of the object counts
 *       as unknown.
 *
 * Context: one thread uses a struct uaio_reach at a time.
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
	bool is_known; /* the code was followed; the members below are valid */
	/* linked to address 0, so that the loader chooses the address */
	bool is_placed;
	/* owns: bitmaps of the bytes from start on */
	uint64_t *firsts; /* first bytes of instructions */
	uint64_t *others; /* further bytes of instructions */
	uint64_t *tried;  /* computed addresses that were followed */
	/* owns: bitmap of the bytes from low on */
	uint64_t *starts; /* addresses at which a table or other data begins */
	uintptr_t low;    /* the lowest address of the object in memory */
	size_t span; /* bytes from low to the object's end, mapped or not */
	/* owns: offsets from start, in the order in which they were found */
	struct uaio_reach_list {
		uint32_t *all;
		size_t nr;
	} todo, computed, undo;
};

/*
 * Follow the code in the segment that contains addr. The caller must close reach, whatever the
 * result.
 * Return: false if the code counts as unknown.
 */
bool uaio_reach_open(struct uaio_reach *reach,
		     const struct dl_phdr_info *object, uintptr_t addr);
void uaio_reach_close(struct uaio_reach *reach);

/* Return: whether addr is in the segment that was followed. */
bool uaio_reach_covers(const struct uaio_reach *reach, uintptr_t addr);

enum uaio_reached {
	UAIO_REACHED_NOT,   /* not known: code or data */
	UAIO_REACHED_FIRST, /* the first byte of an instruction */
	UAIO_REACHED_OTHER, /* a further byte of an instruction */
};

enum uaio_reached uaio_reach_at(const struct uaio_reach *reach, uintptr_t addr);

/* named.c: the addresses of code that an object names */

/*
 * Call see() for each address, perhaps several times for one address. is_code: an instruction
 * certainly begins at addr.
 */
void uaio_see_named(const struct dl_phdr_info *object,
		    void (*see)(void *arg, uintptr_t addr, bool is_code),
		    void *arg);

#endif /* UAIO_PATCH_REACH_H */
