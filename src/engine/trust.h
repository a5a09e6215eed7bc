/* SPDX-License-Identifier: MIT */
/*
 * Trust: plain reads inside io_submit where the page cache cannot be asked
 *
 * Some file systems refuse RWF_NOWAIT (overlayfs, FUSE, the network's), so that
 * nobody can tell whether a read would wait. Workers make their reads, and time
 * them; after enough in a row that took no longer than a copy does, plain ones
 * are made by who submits them, timed as well.
 *
 *   I1  Of an inode of which nothing is known yet, reads of its device count, so
 *       that small files need not begin anew each time they are opened; but not
 *       on file systems of which an answer may never come.
 *   I2  One read that took longer than a copy proves nothing: its thread may have
 *       been preempted. For 64 reads, and as many again for each 20 us that it
 *       took, others are looked at closely: the next that took long, and slept,
 *       ends the trust.
 *   I3  Each time trust ends twice as many fast reads are needed for it. So a file
 *       that is cold in part makes its submitter wait twice for 64 reads by
 *       workers, then twice for 128, and so on up to 2^16. What waits so seldom
 *       that it is never found out takes at most a quarter of the submitter's
 *       time: for 20 us of waiting there are 64 reads of a microsecond.
 *   I4  All of it is advice: numbers that are lost or mixed up cost time.
 *
 * Thread-safety: any thread.
 */
#ifndef UAIO_ENGINE_TRUST_H
#define UAIO_ENGINE_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include "file/inode.h"

struct uaio_file;
struct uaio_sqe;

/* From nothing. */
void uaio_trust_init(void);

/*
 * Return: what allows a plain read of the inode by its submitter, or NULL: a
 * worker is to make it. file and inode are borrowed under I2 of file.h.
 */
struct uaio_trust *uaio_trust_find(const struct uaio_file *file,
				   struct uaio_inode *inode);

/* Such a read, about to be made, and what came of it. */
struct uaio_trial_read {
	bool is_close;
	uint64_t nr_sleeps;
};

void uaio_trust_begin(const struct uaio_trust *trust,
		      struct uaio_trial_read *ret_read);
void uaio_trust_end(struct uaio_trust *trust, struct uaio_inode *inode,
		    const struct uaio_trial_read *read,
		    const struct uaio_sqe *sqe, uint64_t cycles);

/* Return: whether a read that a worker makes of the file is to be timed. */
bool uaio_trust_is_sought(const struct uaio_file *file,
			  const struct uaio_sqe *sqe);
/* And how long it took. The caller has a reference to the file. */
void uaio_trust_tell(struct uaio_file *file, const struct uaio_sqe *sqe,
		     uint64_t cycles);

#endif /* UAIO_ENGINE_TRUST_H */
