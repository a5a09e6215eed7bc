/* SPDX-License-Identifier: MIT */
/*
 * Finds the instructions of an object that has no unwind table
 *
 * Without an unwind table, an object does not say where its functions begin. So reach.c
 * follows the code from the addresses that the object names (named.c), for example by
 * symbols. The bytes to which branches and calls lead from there are instructions.
 *
 *   I1  Three kinds of addresses may lead to data instead of code: those in pointers,
 *       those that instructions compute, and those in jump tables. Such an address counts
 *       as code only if all instructions from there to the ends of the function are
 *       known, and overlap no instruction that was found before.
 *   I2  A jump table does not say how many entries it has. The search ends it at the
 *       next address that an instruction computes, because another table or other data
 *       may begin there.
 *   I3  The object names functions, for example by symbols. If these lead to
 *       instructions that overlap, all code of the object counts as unknown.
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
	/* the code was followed, and the members below are valid */
	bool is_known;
	/*
	 * the loader chooses the object's address: the object is linked to address 0
	 */
	bool is_placed;
	/*
	 * owns: three bitmaps, with one bit for each byte of the code; bit 0 is for the
	 * byte at `start`
	 */
	/* bit set: an instruction begins at this byte */
	uint64_t *firsts;
	/* bit set: this byte is inside an instruction */
	uint64_t *others;
	/* bit set: this byte is at a computed address, whose code was followed */
	uint64_t *tried;
	/* owns: bitmap with a bit for each byte of the object, beginning at `low` */
	/* bit set: a table or other data begins at this byte */
	uint64_t *starts;
	/* the lowest address of the object in memory */
	uintptr_t low;
	/* how many bytes the object spans from `low` to its end, mapped or not */
	size_t span;
	/*
	 * owns: lists of code addresses, as offsets from `start`, in the order of
	 * discovery
	 */
	struct uaio_reach_list {
		uint32_t *all;
		size_t nr;
	} todo, computed, undo;
};

/*
 * Follow the code in the segment that contains addr. The caller must call
 * uaio_reach_close(), whatever the result.
 * Return: false if the code counts as unknown (I3).
 */
bool uaio_reach_open(struct uaio_reach *reach,
		     const struct dl_phdr_info *object, uintptr_t addr);
void uaio_reach_close(struct uaio_reach *reach);

/* Return: whether addr is in the ELF segment whose code the analysis has traced. */
bool uaio_reach_covers(const struct uaio_reach *reach, uintptr_t addr);

enum uaio_reached {
	/* unknown: perhaps code, perhaps data */
	UAIO_REACHED_NOT,
	/* an instruction begins at this byte */
	UAIO_REACHED_FIRST,
	/* this byte is inside an instruction */
	UAIO_REACHED_OTHER,
};

enum uaio_reached uaio_reach_at(const struct uaio_reach *reach, uintptr_t addr);

/* named.c: the addresses of code that an object names, for example by symbols */

/*
 * Call see() for each address that the object names, perhaps several times for one
 * address. is_code: an instruction certainly begins at addr.
 */
void uaio_see_named(const struct dl_phdr_info *object,
		    void (*see)(void *arg, uintptr_t addr, bool is_code),
		    void *arg);

#endif /* UAIO_PATCH_REACH_H */
