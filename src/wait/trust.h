/* SPDX-License-Identifier: MIT */
/*
 * Trust: plain reads inside io_submit where RWF_NOWAIT is refused
 *
 * Some file systems refuse RWF_NOWAIT (overlayfs, FUSE, network file systems), so the library
 * cannot know whether a read would block. On such a file, workers execute and time the reads.
 * After enough reads in a row that took no longer than copying the data, the file is trusted:
 * the submitting thread executes its reads by plain calls, and times them, too.
 *
 *   I1  If an inode has no trust yet, the trust of its device counts, so that a small file
 *       need not earn trust each time it is opened. This does not hold for file systems whose
 *       server may never answer.
 *   I2  One slow read proves nothing: its thread may have been preempted. After a slow read
 *       the next 64 reads, and 64 more for each 20 us that the slow read took, are checked
 *       closely. The first of these reads that is slow, and in which the thread sleeps, ends
 *       the trust. If a worker executed it, the count of fast reads starts again. A slow read
 *       in which the thread did not sleep is not counted: on a busy machine one of some
 *       hundred reads is preempted, and trust would never return.
 *   I3  Each time trust ends, twice as many fast reads are needed to regain it. So a file of
 *       which part is not cached makes its submitter wait twice for 64 reads by workers, then
 *       twice for 128, and so on up to 2^16. Waits that are too short to count as slow take at
 *       most a quarter of the submitter's time: 20 us of waiting for 64 reads of 1 us.
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

/* Called each time the engine starts, also in a child of fork(): resets all. */
void uaio_trust_init(void);

/*
 * Return: the trust, of the inode or of its device, that allows the submitter a plain
 * read; NULL if a worker must execute the read. file and inode are borrowed under I2 of
 * file.h.
 */
struct uaio_trust *uaio_trust_find(const struct uaio_file *file,
				   struct uaio_inode *inode);

/*
 * A timed read. The submitter calls uaio_trust_begin() before a plain read, with the trust
 * that was found, and uaio_trust_end() after it, with the cycles that the read took. A worker
 * calls uaio_trust_begin() with the trust of the inode, and uaio_trust_tell() after its read.
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

/* Return: whether a worker must time its read of the file. */
bool uaio_trust_is_sought(const struct uaio_file *file,
			  const struct uaio_sqe *sqe);
/* Count a worker's read of this many cycles. The caller has a reference to file. */
void uaio_trust_tell(struct uaio_file *file, const struct uaio_trial_read *read,
		     const struct uaio_sqe *sqe, uint64_t cycles);

#endif /* UAIO_WAIT_TRUST_H */
