/* SPDX-License-Identifier: MIT */
/*
 * Leaving: the end of the process, or of the program that it runs (exec)
 *
 * Accepted writes and syncs of regular files delay the exit: they are finished first, however
 * long the disk takes, as the kernel would finish them. Reads, and requests that wait for
 * their file to be ready, are dropped. While a thread leaves, writes and syncs are no longer
 * queued: the thread that starts one executes it, so that none waits behind reads that never
 * end.
 *
 * These writes and syncs may allow requests of chains, or behind drains, to start. Such
 * requests are finished too, up to the first request of another kind that has to wait; the
 * rest is dropped. (The kernel's io_uring drops all requests that have not started. But it
 * writes to the page cache before the submission returns.) If an exec fails, the chains
 * continue.
 *
 * Submitting threads pass a gate before they hand over a request, or begin a chain. The
 * thread that leaves closes the gate.
 *
 *   I1  A request that delays the exit is counted from before it is queued until its event is
 *       posted. The thread that leaves closes the gate, then executes what is queued, then
 *       waits until the count is 0. A held request (link.h) is counted from its release until
 *       it is issued. So a chain in which one write starts the next is counted all the time;
 *       but not until its submission ends, as the submitting thread may wait at the gate.
 *   I2  At the end of the process the gate stays closed. Until the count is 0, submitting
 *       threads wait at the gate, so that the count reaches 0. After that, the submitting
 *       thread executes its request itself (destructors that write, threads that run until
 *       the kernel ends them).
 *   I3  At an exec, which may fail, other threads wait at the gate until the program is gone
 *       or the exec has failed. So in neither case is a request refused.
 *   I4  The gate may stay closed for long: the kernel may be slow to find a program, and a
 *       signal handler that interrupts an exec may never return (siglongjmp). So a thread
 *       that has waited for long, with nothing pending, continues, and executes its request
 *       as at the end of the process. From then on all other threads do so, too. No write is
 *       queued that the exec would lose, except a write that waits for another thread's
 *       write.
 *
 * Thread-safety: any thread. A thread that waits at the gate holds no lock.
 *
 * Tested by test/host/leaving*.c and by test-held.c.
 */
#ifndef UAIO_FLOW_GATE_H
#define UAIO_FLOW_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_handover;

/* Called each time the engine starts, also in a child of fork(): opens the gate. */
void uaio_gate_init(void);

/*
 * Called before a request is handed over. If another thread leaves, gives the work items of
 * handover to the work queue, and waits.
 */
void uaio_gate_pass(struct uaio_handover *handover);

/* Count an accepted request that delays the exit. */
void uaio_gate_delay(void);
/* A request that delays the exit is complete. */
void uaio_gate_delay_over(void);

/* Return: whether a thread leaves: requests that delay the exit must not be queued. */
bool uaio_gate_is_closed(void);

/* The process ends: close the gate for good, and finish accepted requests. */
void uaio_gate_end(void);

/*
 * Close the gate for an exec by this thread, and finish accepted requests.
 * Return: false if this thread had closed the gate already: a signal handler inside its exec
 * calls exec again.
 */
bool uaio_gate_leave(void);
/*
 * For the thread that has closed the gate: if waiting threads have timed out meanwhile (I4),
 * close the gate and finish accepted requests again.
 */
void uaio_gate_leave_again(void);
/* The exec has failed: open the gate. */
void uaio_gate_stay(void);

/* For tests: how long a thread waits at the gate while no request is pending. */
void uaio_gate_have_patience(int64_t ns);

#endif /* UAIO_FLOW_GATE_H */
