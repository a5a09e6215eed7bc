/* SPDX-License-Identifier: MIT */
/*
 * No bug: a coroutine reads into a buffer on its own stack, which stays valid while
 * other coroutines run.
 *
 * expect: nothing
 */
#include <liburing.h>
#include <stdlib.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK_BYTES = 256 << 10 };

static ucontext_t scheduler, coroutine;
static struct io_uring ring;
static int ends[2], result;

static void read_line(void)
{
	char line[64];

	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], line, sizeof(line),
			   0);
	io_uring_submit(&ring);
	swapcontext(&coroutine, &scheduler);
	result = line[0];
}

int main(void)
{
	struct io_uring_cqe *cqe;

	if (pipe(ends) || io_uring_queue_init(4, &ring, 0) ||
	    getcontext(&coroutine))
		return 1;
	coroutine.uc_stack.ss_sp = malloc(STACK_BYTES);
	coroutine.uc_stack.ss_size = STACK_BYTES;
	coroutine.uc_link = &scheduler;
	makecontext(&coroutine, read_line, 0);
	swapcontext(&scheduler, &coroutine);
	io_uring_prep_write(io_uring_get_sqe(&ring), ends[1], "line\n", 5, 0);
	io_uring_submit(&ring);
	for (int i = 0; i < 2; i++) {
		if (io_uring_wait_cqe(&ring, &cqe) || cqe->res != 5)
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	swapcontext(&scheduler, &coroutine);
	free(coroutine.uc_stack.ss_sp);
	io_uring_queue_exit(&ring);
	return result != 'l';
}
