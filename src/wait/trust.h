/* SPDX-License-Identifier: MIT */
/*
 * Trust: when the submitting thread may read from a file that refuses RWF_NOWAIT
 *
 * Some file systems refuse RWF_NOWAIT (overlayfs, FUSE, network file systems). So the
 * library cannot know whether a read would block. Workers execute the reads of such a
 * file, and measure their time. After enough reads in a row that took no longer than
 * copying the data, the file is trusted. Then the submitting thread executes the file's
 * reads by plain calls (without RWF_NOWAIT), and measures them, too.
 *
 *   I1  If an inode has no trust yet, the trust of its device is used. So a small file
 *       need not earn trust each time it is opened. This does not hold for file systems
 *       whose server may never answer.
 *   I2  One slow read proves nothing: its thread may have been preempted. After a slow
 *       read the next reads are checked closely. Their number is 64 times the time of the
 *       slow read, divided by the time that a fast read may take (20 us if it is small).
 *       The first of these reads that is slow, and in which the thread sleeps, ends
 *       the trust. If a worker executed it, the count of fast reads starts again. A slow
 *       read in which the thread did not sleep is not counted. Otherwise trust would never
 *       return on a busy machine, where one read in some hundred is preempted.
 *   I3  Each time trust ends, twice as many fast reads are needed to regain it. Suppose
 *       that only part of a file is cached. After 64 fast reads by workers, the
 *       submitter executes reads, and waits in two of them, which ends the trust. Then
 *       128 fast reads by workers are needed, and so on up to 2^16. Slow reads may be
 *       too rare to end the trust. They take less than 40 % of the submitter's time:
 *       less than 40 us for each 64 fast reads of 1 us.
 *   I4  All counts are hints: lost or mixed up counts cost time, and nothing else.
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

/* Called each time the engine starts, also in a child of fork(): resets all state. */
void uaio_trust_init(void);

/*
 * Return: the trust that permits the submitter to read without RWF_NOWAIT: the inode's
 * or its device's. NULL if a worker must execute the read. The caller needs no reference
 * to file and inode (I2 of file.h).
 */
struct uaio_trust *uaio_trust_find(const struct uaio_file *file,
				   struct uaio_inode *inode);

/*
 * State of a read whose time is measured. The thread that reads makes these calls:
 *
 *   thread      before the read                            after the read
 *   submitter   uaio_trust_find(), uaio_trust_begin()      uaio_trust_end()
 *   worker      uaio_trust_begin() for the inode's trust   uaio_trust_tell()
 */
struct uaio_trial_read {
	bool is_close; /* the read is checked closely (I2) */
	/* if is_close: how often the thread had slept before the read */
	uint64_t nr_sleeps;
};

void uaio_trust_begin(const struct uaio_trust *trust,
		      struct uaio_trial_read *ret_read);
void uaio_trust_end(struct uaio_trust *trust, struct uaio_inode *inode,
		    const struct uaio_trial_read *read,
		    const struct uaio_sqe *sqe, uint64_t cycles);

/* Return: whether a worker must measure the time of its read of the file. */
bool uaio_trust_is_sought(const struct uaio_file *file,
			  const struct uaio_sqe *sqe);
/*
 * A worker's read has taken this many cycles: update the file's trust. The caller has a
 * reference to file.
 */
void uaio_trust_tell(struct uaio_file *file, const struct uaio_trial_read *read,
		     const struct uaio_sqe *sqe, uint64_t cycles);

#endif /* UAIO_WAIT_TRUST_H */
