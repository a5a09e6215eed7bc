/* SPDX-License-Identifier: MIT */
/*
 * Leaving: what happens to requests when the process exits, or executes another program
 *
 * Accepted writes and syncs of regular files delay the exit: they are finished first,
 * however long the disk takes, as the kernel would finish them. Reads, and requests that
 * wait for their file to be ready, are dropped. A thread is "leaving" while it is in exit
 * or exec. Writes and syncs that are started meanwhile are not queued: the thread that
 * starts such a request executes it. In a queue, the request would wait behind reads that
 * never end.
 *
 * When a write or sync that delays the exit completes, a linked request, or a request
 * behind a drain, may start. Such requests are finished too. But if such a request is no
 * write or sync, and has to wait, it and the rest of its chain are dropped. (The kernel's
 * io_uring drops all requests that have not started. But its buffered writes reach the
 * page cache before the submission returns.) If an exec fails, the chains continue.
 *
 * Submitting threads pass a gate before they hand over a request to workers, or begin a
 * chain. The leaving thread closes the gate: submitting threads then wait there.
 *
 *   I1  A request that delays the exit is counted from before it is queued until its event
 *       is posted. The leaving thread closes the gate, executes the queued requests, then
 *       waits until the count is 0. A held request (link.h) is counted from its release
 *       until it is issued. So a chain in which one write starts the next is counted
 *       without interruption from the end of its submission. A chain is not counted before
 *       that, because its submitting thread may itself wait at the gate.
 *   I2  At the end of the process the gate stays closed. Until the count is 0, submitting
 *       threads wait at the gate, so that the count reaches 0. After that, each submitting
 *       thread executes its requests itself. Such requests come from destructors that write,
 *       and from threads that run until the kernel ends them.
 *   I3  At an exec, which may fail, other threads wait at the gate until the program is
 *       replaced or the exec has failed. So no request is refused in either case.
 *   I4  The gate may stay closed for long: the kernel may be slow to find a program, and
 *       a signal handler that interrupts an exec may never return (siglongjmp). So if a
 *       thread has waited for long, and no request is pending, it continues, and executes
 *       its request itself, as at the end of the process. From then on no other thread
 *       waits at the gate either. Therefore no queued write is lost by the exec, except a
 *       write that waits for another thread's write.
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
 * Called before a request is handed over to workers. If another thread is in exit or
 * exec, gives the work items of the handover to the work queue, and waits at the gate.
 */
void uaio_gate_pass(struct uaio_handover *handover);

/* Count an accepted request that delays the exit. */
void uaio_gate_delay(void);
/* Stop counting a request that delays the exit, as it is complete. */
void uaio_gate_delay_over(void);

/*
 * Return: whether a thread is in exit or exec. Requests that delay the exit must then not
 * be queued.
 */
bool uaio_gate_is_closed(void);

/* The process ends: close the gate for good, and finish accepted requests. */
void uaio_gate_end(void);

/*
 * Close the gate for an exec by this thread, and finish accepted requests.
 * Return: false if this thread had closed the gate already: a signal handler that interrupted
 * its exec calls exec again.
 */
bool uaio_gate_leave(void);
/*
 * For the thread that has closed the gate. If threads that waited at the gate have timed
 * out (I4), close the gate again, and finish the requests that they submitted meanwhile.
 */
void uaio_gate_leave_again(void);
/* The exec has failed: open the gate. */
void uaio_gate_stay(void);

/* For tests: set how long a thread waits at the gate while no request is pending. */
void uaio_gate_have_patience(int64_t ns);

#endif /* UAIO_FLOW_GATE_H */
