/* SPDX-License-Identifier: MIT */
/*
 * Doors: the functions of a door that the core calls
 *
 * A door translates the ABI of its clients into calls of the core (life.h,
 * queue.h). UAIO_DOOR registers a row of functions of the door. The linker collects
 * the rows of all doors in one section, so the core names none of them, and they
 * are there before any code runs: a program may call us before constructors run.
 */
#ifndef UAIO_LIFE_DOOR_H
#define UAIO_LIFE_DOOR_H

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
};

/* Register a row, once, in any of the door's sources that is linked in. */
#define UAIO_DOOR(row)                                        \
	static const struct uaio_door *const row##_registered \
		__attribute__((section("uaio_doors"), used)) = &(row)

/* Call the function of that name of each door; start stops at the first error. */
void uaio_doors_load(void);
int uaio_doors_start(void);
void uaio_doors_count(struct uaio_counters *counters);

/* Return: the first call of the nth door, from 0; NULL if there are no more. */
const char *uaio_door_first_call(unsigned n);

#endif /* UAIO_LIFE_DOOR_H */
