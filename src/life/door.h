/* SPDX-License-Identifier: MIT */
/*
 * Doors: front-ends (kernel AIO, io_uring, POSIX AIO), and their functions that the
 * core calls
 *
 * A front-end (named "door" in the code) translates system calls and functions of the
 * program into calls of the core (life.h lists them). By UAIO_DOOR it registers its
 * functions, as a struct uaio_door. The linker collects pointers to these structs in
 * one section. So the source files of the core contain no name of a front-end. The
 * table of front-ends exists before any code runs, as a program may call the library
 * before constructors run.
 */
#ifndef UAIO_LIFE_DOOR_H
#define UAIO_LIFE_DOOR_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_counters;

struct uaio_door {
	/*
	 * The call by which a program begins to use the front-end, for example
	 * "io_setup".
	 */
	const char *first_call;

	/*
	 * Called when the library is loaded. Creates no thread and allocates no memory.
	 */
	void (*load)(void);

	/*
	 * Called when the library starts, under the lock for starting; also in a child of
	 * fork(). Resets all inherited state. Calls no function of the core.
	 * Return: 0; or -ENOMEM: the library does not start now. When the program next
	 * needs the library, start() is called again.
	 */
	int (*start)(void);

	/*
	 * Add the counters of all the front-end's queues to *counters. Called only
	 * while the library is started.
	 */
	void (*count)(struct uaio_counters *counters);

	/*
	 * Called when descriptors [first, last] were closed or replaced; another thread
	 * may already have opened them again. Called only while the library is started,
	 * and without a lock. NULL: the front-end keeps no descriptors.
	 */
	void (*closed)(unsigned first, unsigned last);

	/*
	 * The process is about to fork, and has incremented the count of forks. Some
	 * threads may have begun operations before they could see the new count: wait
	 * until these operations have ended. Called only while the library is started,
	 * and without a lock. NULL: a fork disturbs no operation of this front-end.
	 */
	void (*forks)(void);

	/*
	 * The program is about to open its own file at fd, a descriptor of the library.
	 * If the front-end uses fd, it must use a duplicate instead. NULL: the
	 * front-end has no descriptors.
	 * Return: 0; -ENOENT: the front-end does not use fd; -EBUSY: no duplicate can
	 * be made.
	 */
	int (*yield)(int fd);

	/*
	 * Return: whether the file with this device and inode number is a ring of the
	 * front-end. Any thread may call it; the caller holds no lock. NULL: the
	 * front-end has no such files.
	 */
	bool (*has_ring)(uint64_t dev, uint64_t ino);
};

/*
 * Register the struct uaio_door of a front-end. Each front-end uses this macro once, in
 * a source file that is always linked.
 */
#define UAIO_DOOR(row)                                        \
	static const struct uaio_door *const row##_registered \
		__attribute__((section("uaio_doors"), used)) = &(row)

/*
 * uaio_doors_X() calls the function X of each front-end. uaio_doors_start() stops at
 * the first error.
 */
void uaio_doors_load(void);
int uaio_doors_start(void);
void uaio_doors_count(struct uaio_counters *counters);
void uaio_doors_closed(unsigned first, unsigned last);
void uaio_doors_fork(void);
/*
 * Call yield() of the front-ends in turn, until a call returns anything but -ENOENT.
 * Return: the result of that call; -ENOENT if no front-end uses fd.
 */
int uaio_doors_yield(int fd);

/* Return: whether the file is a ring of any front-end. */
bool uaio_doors_have_ring(uint64_t dev, uint64_t ino);

/* Return: first_call of the nth front-end, from 0; NULL if there are no more. */
const char *uaio_door_first_call(unsigned n);

#endif /* UAIO_LIFE_DOOR_H */
