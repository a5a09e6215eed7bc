/* SPDX-License-Identifier: MIT */
/*
 * The process that the library is in, and whether it is up there
 *
 * That is noted in a page which the kernel wipes in a child of fork(), however
 * the fork was made: so the child finds the library down, with nothing of its
 * parent's in it, and brings it up again when it needs it. What the parent had is left
 * where it is in the child: threads that held its locks do not exist there.
 *
 *   I1  The library comes up at most once in a process, under a lock; who finds
 *       it up finds all of its parts.
 *   I2  A child of vfork() runs in its parent's memory and is not its process:
 *       it brings nothing up, starts no thread, and is asked for by its process
 *       id where there is something to lose.
 *   I3  While fork() copies the table of descriptors none of ours is opened or
 *       closed, so that the child closes them all.
 *
 * Context: any thread.
 */
#ifndef UAIO_PROC_PROCESS_H
#define UAIO_PROC_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* When the library is loaded. */
void uaio_process_load(void);

/*
 * Bring the library up if it is not: what is below first, then by start_parts(),
 * under the lock, all else.
 * Return: 0; what start_parts() returns; -ENOMEM; -EAGAIN in a child of vfork().
 */
int uaio_process_start(int (*start_parts)(void));

/*
 * Between the two it does not come up if it is not.
 * Return: 0 with whether it is; -EAGAIN in a child of vfork(): do not release.
 */
int uaio_engine_hold(bool *ret_is_up);
void uaio_engine_release(void);

/* Return: whether this is the process where it is up, or would be. */
bool uaio_engine_is_of_process(void);

/*
 * Return: whether it is up and this is the process it was brought up in: a
 * child of vfork() or a bare clone() runs in our memory, but is not.
 */
bool uaio_engine_is_ours(void);

/* Return: its number of all that this program started, its parent's included. */
uint32_t uaio_engine_start_nr(void);

/* Return: the same of an engine that is up or is to be. */
bool uaio_engine_is_owner(void);

/* Return: whether it is up; one load. */
bool uaio_engine_is_up(void);

/*
 * Return: the same; SPLIT: threads may have descriptor tables of their own, and
 * are to be asked (table.h) before they go on.
 */
enum uaio_engine_state {
	UAIO_ENGINE_DOWN,
	UAIO_ENGINE_UP,
	UAIO_ENGINE_SPLIT,
};

enum uaio_engine_state uaio_engine_state(void);

/*
 * Return: whether it is up and what it knows of descriptors goes for this
 * thread, which is no child of vfork() either as far as is known.
 */
bool uaio_engine_is_here(void);

/* Return: whether threads may have tables of their own; one load. */
bool uaio_engine_has_many_tables(void);
/* They may from now on. Return: 0, or -EAGAIN if there can be no agent. */
int uaio_engine_part_tables(void);

/* Return: whether the engine owns one in the range, the lowest in ret_fd. */
bool uaio_own_fd(unsigned first, unsigned last, unsigned *ret_fd);

/*
 * Between the two no descriptor of the library's is opened or closed.
 * Return: false if that cannot be had; then it is not to be released.
 */
bool uaio_own_fds_hold(void);
void uaio_own_fds_release(void);

#endif /* UAIO_PROC_PROCESS_H */
