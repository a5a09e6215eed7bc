/* SPDX-License-Identifier: MIT */
/*
 * The end of the process, and of the program it runs
 *
 * Accepted writes and syncs of regular files are finished first, however long
 * the disk takes: the kernel would have finished them, too. Reads, and what
 * waits for its file to be ready, are dropped. While somebody leaves such
 * requests are not queued any more: who is to start one makes it, so that none
 * waits behind reads that never end.
 *
 *   I1  A request that is held is counted before it is queued, and until its
 *       event is posted. Who leaves closes the door first, then makes what is
 *       queued, then waits for the count.
 *   I2  At the end of the process the door stays closed; what comes while the
 *       count is awaited waits at the door, so that the count comes to 0; what
 *       comes later (destructors that write, threads that go on until the
 *       kernel ends them) is made by its submitter.
 *   I3  At an exec, which may fail, others wait at the door until the program
 *       is gone or the exec has failed. So in neither case is anybody refused
 *       anything.
 *
 * Thread-safety: any thread. Who waits at the door holds no lock.
 */
#ifndef UAIO_ENGINE_EXIT_H
#define UAIO_ENGINE_EXIT_H

#include <stdbool.h>

struct uaio_kick;

/* From nothing. */
void uaio_exit_init(void);

/*
 * A request is to be handed over. May wait for another thread that leaves; what
 * the caller owes in kick is delivered first.
 */
void uaio_exit_gate(struct uaio_kick *kick);

/* A write or sync of a regular file is accepted. */
void uaio_exit_hold(void);
/* And it is finished. */
void uaio_exit_release(void);

/* Return: whether requests that are held are to be made by who starts them. */
bool uaio_exit_is_near(void);

#endif /* UAIO_ENGINE_EXIT_H */
