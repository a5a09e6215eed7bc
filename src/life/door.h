/* SPDX-License-Identifier: MIT */
/*
 * Doors: the functions of a front-end (kernel AIO, io_uring or POSIX AIO) that the core calls
 *
 * A front-end ("door" in names) translates the ABI of its clients into calls of the core
 * (life.h lists them), and registers a struct of functions (its row) by UAIO_DOOR. The linker
 * collects the rows of all front-ends in one section. So the core need not name any front-end,
 * and the rows exist before any code runs: a program may call the library before constructors
 * run.
 */
#ifndef UAIO_LIFE_DOOR_H
#define UAIO_LIFE_DOOR_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_counters;

struct uaio_door {
	/* The call by which a client begins to use the front-end, for example "io_setup". */
	const char *first_call;

	/* The library is loaded. Creates no thread and allocates no memory. */
	void (*load)(void);

	/*
	 * The engine comes up. Called under the lock that brings the engine up, also in a
	 * child of fork(): resets all inherited state. Calls no part of the core.
	 * Return: 0; or -ENOMEM: the engine stays down, and start() is called again when the
	 * engine next comes up.
	 */
	int (*start)(void);

	/* Add the counts of the front-end's queues. The engine is up. */
	void (*count)(struct uaio_counters *counters);

	/*
	 * Descriptors [first, last] were closed or replaced; another thread may already have
	 * opened them again. The engine is up, and no lock is held. NULL: the front-end keeps
	 * no descriptors.
	 */
	void (*closed)(unsigned first, unsigned last);

	/*
	 * The process is about to fork, and has counted the fork: wait for operations that
	 * threads began before they could see the count. The engine is up, and no lock is
	 * held. NULL: the front-end has no operation that a fork could disturb.
	 */
	void (*forks)(void);

	/*
	 * The client is about to open its own file at fd, which is one of the library's
	 * descriptors: if the front-end uses fd, use a duplicate instead.
	 * Return: 0; -ENOENT: the front-end does not use fd; -EBUSY: no duplicate can be made.
	 * NULL: the front-end has no descriptors.
	 */
	int (*yield)(int fd);

	/*
	 * Return: whether the file with this device and inode number is a ring of the
	 * front-end's. Called without a lock, by any thread. NULL: the front-end has no such
	 * files.
	 */
	bool (*has_ring)(uint64_t dev, uint64_t ino);
};

/*
 * Register a row. Used once by each front-end, in a source file of it that is always linked
 * in.
 */
#define UAIO_DOOR(row)                                        \
	static const struct uaio_door *const row##_registered \
		__attribute__((section("uaio_doors"), used)) = &(row)

/*
 * Call the function of this name of each front-end. uaio_doors_start() stops at the first
 * error.
 */
void uaio_doors_load(void);
int uaio_doors_start(void);
void uaio_doors_count(struct uaio_counters *counters);
void uaio_doors_closed(unsigned first, unsigned last);
void uaio_doors_fork(void);
/* Return: the first result of a front-end's yield() that is not -ENOENT; or -ENOENT. */
int uaio_doors_yield(int fd);

/* Return: whether the file is a ring of any door. */
bool uaio_doors_have_ring(uint64_t dev, uint64_t ino);

/* Return: the first call of the nth front-end, from 0; NULL if there are no more. */
const char *uaio_door_first_call(unsigned n);

#endif /* UAIO_LIFE_DOOR_H */
