/* SPDX-License-Identifier: MIT */
/*
 * Doors: the functions of a door that the core calls
 *
 * A door translates the ABI of its clients into calls of the core
 * (life.h has the list). UAIO_DOOR registers a row of functions of the door. The linker collects
 * the rows of all doors in one section, so the core names none of them, and they
 * are there before any code runs: a program may call us before constructors run.
 */
#ifndef UAIO_LIFE_DOOR_H
#define UAIO_LIFE_DOOR_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_counters;

struct uaio_door {
	/* By which a client begins to use the door: "io_setup", for example. */
	const char *first_call;

	/* The library is loaded. Creates no thread and allocates no memory. */
	void (*load)(void);

	/*
	 * The engine comes up. Called under the lock that brings it up, also in
	 * a child of fork(): resets all that was inherited. Calls no part of the
	 * core.
	 * Return: 0; or -ENOMEM: the engine stays down, and this is called again
	 * the next time it is to come up.
	 */
	int (*start)(void);

	/* Add the counts of the door's queues. The engine is up. */
	void (*count)(struct uaio_counters *counters);

	/*
	 * Descriptors [first, last] were closed or replaced; by now another thread
	 * may have opened them again. The engine is up, and holds no lock. NULL: the
	 * door knows no descriptors.
	 */
	void (*closed)(unsigned first, unsigned last);

	/*
	 * The process is about to fork, which is counted by now: wait until what
	 * threads began before they could know that is over. The engine is up, and
	 * holds no lock. NULL: they begin nothing that a child could be in the way of.
	 */
	void (*forks)(void);

	/*
	 * The client is about to put a file of its own at fd, which is one of the
	 * library's own descriptors: if it is used by the door, use a duplicate.
	 * Return: 0; -ENOENT: the door does not; -EBUSY: there is no duplicate. NULL:
	 * the door has no descriptors.
	 */
	int (*yield)(int fd);

	/*
	 * Return: whether the file with these numbers is a ring of the door's.
	 * Called without a lock, by any thread. NULL: the door has no such files.
	 */
	bool (*has_ring)(uint64_t dev, uint64_t ino);
};

/* Register a row, once, in any of the door's sources that is linked in. */
#define UAIO_DOOR(row)                                        \
	static const struct uaio_door *const row##_registered \
		__attribute__((section("uaio_doors"), used)) = &(row)

/* Call the function of that name of each door; start stops at the first error. */
void uaio_doors_load(void);
int uaio_doors_start(void);
void uaio_doors_count(struct uaio_counters *counters);
void uaio_doors_closed(unsigned first, unsigned last);
void uaio_doors_fork(void);
/* Return: of the first that does not say -ENOENT. */
int uaio_doors_yield(int fd);

/* Return: whether one of the doors says so. */
bool uaio_doors_have_ring(uint64_t dev, uint64_t ino);

/* Return: the first call of the nth door, from 0; NULL if there are no more. */
const char *uaio_door_first_call(unsigned n);

#endif /* UAIO_LIFE_DOOR_H */
