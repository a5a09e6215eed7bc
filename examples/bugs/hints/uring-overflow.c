/* SPDX-License-Identifier: MIT */
/*
 * The mistake: main() has more requests in flight than the completion queue can hold.
 *
 * expect: cq-overflow
 */
#include <liburing.h>
#include <unistd.h>

enum { ENTRIES = 2, NR = 4 * ENTRIES };

int main(void)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	/* Right: make room for NR completions, by IORING_SETUP_CQSIZE. */
	if (io_uring_queue_init(ENTRIES, &ring, 0) < 0)
		return 1;
	for (int i = 0; i < NR; i++) {
		io_uring_prep_nop(io_uring_get_sqe(&ring));
		io_uring_submit(&ring);
	}
	for (int i = 0; i < NR; i++) {
		if (io_uring_wait_cqe(&ring, &cqe) < 0) /* expect: now */
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	return 0;
}
