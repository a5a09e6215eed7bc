/* SPDX-License-Identifier: MIT */
/*
 * The mistake: main() prepares two writes, but submits one. io_uring_enter(2) submits
 * only as many requests as its argument to_submit says.
 *
 * expect: sqe-not-submitted
 */
#include <liburing.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
	FILE *file = tmpfile();
	struct io_uring_cqe *cqe;
	struct io_uring ring;

	if (!file || io_uring_queue_init(8, &ring, 0) < 0)
		return 1;
	for (int i = 0; i < 2; i++)
		io_uring_prep_write(io_uring_get_sqe(&ring), fileno(file), "x",
				    1, i);
	for (unsigned i = 0; i < 2; i++)
		ring.sq.array[i] = i;
	__atomic_store_n(ring.sq.ktail, 2, __ATOMIC_RELEASE);
	/* Right: set to_submit to 2. */
	if (syscall(__NR_io_uring_enter, ring.ring_fd, 1, 1,
		    IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		return 1;
	if (io_uring_wait_cqe(&ring, &cqe) < 0)
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring); /* expect: now */
	return 0;
}
