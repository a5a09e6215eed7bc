/* SPDX-License-Identifier: MIT */
/*
 * Leaving: the end of the process, or of the program that it runs (exec)
 *
 * Accepted writes and syncs of regular files delay the exit: they are finished
 * first, however long the disk takes, as the kernel would finish them. Reads, and
 * requests that wait for their file to be ready, are dropped. While a thread
 * leaves, writes and syncs are not queued any more: the thread that starts one
 * executes it, so that none waits behind reads that never end.
 *
 * Of chains, and of what drains hold, is finished what these writes and syncs let
 * start, up to the first request of another kind that has to wait; the rest is
 * dropped. (The kernel's io_uring drops all that has not started. But it writes to
 * the page cache before the submission returns.) If an exec fails, they go on.
 *
 * Submitting threads pass a gate before they hand over a request, or begin a chain.
 * The thread that leaves closes the gate.
 *
 *   I1  A request that delays the exit is counted before it is queued, and until
 *       its event is posted. The thread that leaves closes the gate first, then
 *       executes what is queued, then waits until the count is 0.
 *       A held request (link.h) is counted from when it is let go until it is
 *       issued, so that a chain in which one write starts the next is counted all
 *       the time; but not until its submission ends, as that may wait at the gate.
 *   I2  At the end of the process the gate stays closed. Until the count is 0,
 *       threads that submit wait at the gate, so that it gets to 0. After that
 *       (destructors that write, threads that go on until the kernel ends them)
 *       the submitting thread executes its request.
 *   I3  At an exec, which may fail, other threads wait at the gate until the
 *       program is gone or the exec has failed. So in neither case is a request
 *       refused.
 *   I4  The kernel may take long to find a program, and a signal handler that
 *       interrupts an exec may never return (siglongjmp), so that the gate stays
 *       closed. So a thread that has waited for long, with nothing pending, goes on,
 *       and executes its request as at the end of the process, and so do others
 *       from then on. No write is queued that the exec would lose; but one that waits
 *       for another thread's write then may be.
 *
 * Thread-safety: any thread. A thread that waits at the gate holds no lock.
 *
 * Tested by test/host/leaving.c and its like, and by test-held.c.
 */
#ifndef UAIO_FLOW_GATE_H
#define UAIO_FLOW_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_handover;

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_gate_init(void);

/*
 * Called before a request is handed over. If another thread leaves, gives handover
 * to the work queue and waits.
 */
void uaio_gate_pass(struct uaio_handover *handover);

/* Count a request that delays the exit: it is accepted. */
void uaio_gate_delay(void);
/* Such a request is complete. */
void uaio_gate_delay_over(void);

/*
 * Return: whether a thread leaves, so that requests that delay the exit must not
 * be queued.
 */
bool uaio_gate_is_closed(void);

/* The process ends: finish what was accepted. The gate stays closed. */
void uaio_gate_end(void);

/*
 * Close the gate for an exec by this thread, and finish what was accepted.
 * Return: false if this thread had done so before: a signal handler does it again.
 */
bool uaio_gate_leave(void);
/* Since then others may have lost patience: the same again. */
void uaio_gate_leave_again(void);
/* The exec has failed: open it. */
void uaio_gate_stay(void);

/* For tests: how long a thread waits at the gate while nothing is pending. */
void uaio_gate_have_patience(int64_t ns);

#endif /* UAIO_FLOW_GATE_H */
