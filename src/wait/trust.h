/* SPDX-License-Identifier: MIT */
/*
 * Trust: plain reads inside io_submit where the page cache cannot be asked
 *
 * Some file systems refuse RWF_NOWAIT (overlayfs, FUSE, network file systems),
 * so there is no way to ask whether a read would wait. There workers execute
 * the reads, and time them. After enough reads in a row that took no longer
 * than a copy does, the file is trusted: its reads are executed by the
 * submitting thread, as plain calls, and are timed as well.
 *
 *   I1  Where nothing is known of an inode yet, the reads of its device count,
 *       so that a small file need not earn trust each time it is opened; but
 *       not on file systems that may never answer.
 *   I2  One read that took longer than a copy proves nothing: its thread may
 *       have been preempted. It has the next 64 reads, and as many again for
 *       each 20 us that it took, looked at closely: the first of those that
 *       takes long, and in which the thread sleeps, ends the trust. A worker's
 *       read that does so has the count of fast reads start again. A slow read
 *       in which no thread slept is not counted: on a busy machine one of some
 *       hundred reads is preempted, and trust would never come back.
 *   I3  Each time trust ends, twice as many fast reads are needed to get it
 *       back. So a file that is cold in part makes its submitter wait twice for
 *       64 reads by workers, then twice for 128, and so on up to 2^16. Waiting
 *       so rare that it is never noticed takes at most a quarter of the
 *       submitter's time: for 20 us of waiting there are 64 reads of a
 *       microsecond.
 *   I4  All of it is advice: counts that are lost or mixed up cost time, and
 *       nothing else.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_WAIT_TRUST_H
#define UAIO_WAIT_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include "file/inode.h"

struct uaio_file;
struct uaio_sqe;

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_trust_init(void);

/*
 * Return: the trust that allows the submitter a plain read of the inode, of the
 * inode or of its device; NULL if a worker is to execute the read. file and
 * inode are borrowed under I2 of file.h.
 */
struct uaio_trust *uaio_trust_find(const struct uaio_file *file,
				   struct uaio_inode *inode);

/*
 * A plain read by the submitter. Call begin before it and end after it, with
 * the trust that was found and the cycles the read took. Before a worker's read
 * call begin with the trust of the inode, and after it tell.
 */
struct uaio_trial_read {
	bool is_close;
	uint64_t nr_sleeps;
};

void uaio_trust_begin(const struct uaio_trust *trust,
		      struct uaio_trial_read *ret_read);
void uaio_trust_end(struct uaio_trust *trust, struct uaio_inode *inode,
		    const struct uaio_trial_read *read,
		    const struct uaio_sqe *sqe, uint64_t cycles);

/* Return: whether a read of the file that a worker executes is to be timed. */
bool uaio_trust_is_sought(const struct uaio_file *file,
			  const struct uaio_sqe *sqe);
/*
 * The worker's read took so many cycles. The caller has a reference to the
 * file.
 */
void uaio_trust_tell(struct uaio_file *file, const struct uaio_trial_read *read,
		     const struct uaio_sqe *sqe, uint64_t cycles);

#endif /* UAIO_WAIT_TRUST_H */
