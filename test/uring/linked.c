/* SPDX-License-Identifier: MIT */
/*
 * A program with a statically linked liburing, which contains the instructions that
 * make its system calls. The program waits in several ways. Each wait must end with a
 * completion. The last line of output says that all waits ended.
 */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <stdio.h>

static struct io_uring ring;

static void start(void)
{
	struct __kernel_timespec soon = { .tv_nsec = 1000000 };
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	assert(sqe);
	io_uring_prep_timeout(sqe, &soon, 0, 0);
	assert(io_uring_submit(&ring) == 1);
}

static void take(struct io_uring_cqe *cqe)
{
	assert(cqe->res == -ETIME);
	io_uring_cqe_seen(&ring, cqe);
}

int main(void)
{
	struct __kernel_timespec long_time = { .tv_sec = 60 };
	struct io_uring_cqe *cqe;
	struct io_uring_sqe *sqe;

	assert(io_uring_queue_init(4, &ring, 0) == 0);
	start();
	assert(io_uring_wait_cqe(&ring, &cqe) == 0);
	take(cqe);
	start();
	assert(io_uring_wait_cqe_nr(&ring, &cqe, 1) == 0);
	take(cqe);
	start();
	assert(io_uring_wait_cqe_timeout(&ring, &cqe, &long_time) == 0);
	take(cqe);
	sqe = io_uring_get_sqe(&ring);
	io_uring_prep_nop(sqe);
	assert(io_uring_submit_and_wait(&ring, 1) == 1);
	assert(io_uring_peek_cqe(&ring, &cqe) == 0);
	io_uring_cqe_seen(&ring, cqe);
	assert(io_uring_register_files(&ring, (int[]){ 0 }, 1) == 0);
	io_uring_queue_exit(&ring);
	puts("all waits ended");
	return 0;
}
