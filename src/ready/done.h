/* SPDX-License-Identifier: MIT */
/*
 * Readiness: receives that a run has executed, and completes together
 *
 * Several sockets are asked at once whether they have more to receive (op.h: asks_rest),
 * and several completions posted under one lock.
 *
 *   I1  Those that are noted are RUNNING, and the thread's that runs. It completes them
 *       before it lets go of the list of what is kicked (ready.h, I5), and before it
 *       completes any other request: completions come in the order of the tries.
 *   I2  It completes them before it tries another request on a socket that is yet to
 *       be asked, as that may take what the last has left.
 *   I3  Between noting and completing them the thread makes tries, which do not block,
 *       and nothing that could wait for them. It completes them before it tells a
 *       canceller, and before it hands a request to a worker.
 *   I4  The number on which a socket is asked is not kept for it. If another thread closes
 *       it meanwhile it may be another file's, which is then polled: the answer is a
 *       hint, and of a socket that its client has closed.
 *
 * Tested by uring/test-uring-together.c and uring/test-uring-socket.c.
 */
#ifndef UAIO_READY_DONE_H
#define UAIO_READY_DONE_H

#include <stdbool.h>
#include <stdint.h>

#include "req/req.h"

struct uaio_done {
	unsigned nr;
	struct uaio_req *reqs[UAIO_REQS_TOGETHER];
	int64_t results[UAIO_REQS_TOGETHER];
	int fds[UAIO_REQS_TOGETHER]; /* they were executed on */
};

/*
 * The thread, which holds no lock, has executed req on fd, with the result res: note it,
 * or complete it.
 */
void uaio_done_add(struct uaio_done *done, struct uaio_req *req, int64_t res,
		   int fd);

/* Complete all that are noted. The thread holds no lock. */
void uaio_done_complete(struct uaio_done *done);

/* Return: whether file is a socket that is yet to be asked. */
bool uaio_done_asks(const struct uaio_done *done, const struct uaio_file *file);

#endif /* UAIO_READY_DONE_H */
