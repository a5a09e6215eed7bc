/* SPDX-License-Identifier: MIT */
/*
 * tls: a program with more thread-local storage than fits on a worker's usual stack. The
 * C library puts thread-local storage on each thread's stack, so the library must create
 * its workers with larger stacks.
 */
#undef NDEBUG
#include <assert.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Thread_local char large[4 << 20];

int main(void)
{
	aio_context_t ctx = 0;
	int fd = open("f", O_CREAT | O_RDWR | O_CLOEXEC, 0644), ends[2];
	struct iocb write_one = {
		.aio_lio_opcode = IOCB_CMD_PWRITE,
		.aio_fildes = (uint32_t)fd,
		.aio_buf = (uintptr_t)large,
		.aio_nbytes = 4096,
	};
	struct iocb sync = {
		.aio_lio_opcode = IOCB_CMD_FSYNC,
		.aio_fildes = (uint32_t)fd,
	};
	struct iocb poll = {
		.aio_lio_opcode = IOCB_CMD_POLL,
		.aio_buf = 1 /* POLLIN */,
	};
	struct iocb *list[] = { &write_one, &sync, &poll };
	struct io_event events[3];

	assert(fd >= 0 && pipe(ends) == 0);
	poll.aio_fildes = (uint32_t)ends[0];
	memset(large, 'x', sizeof(large));
	assert(syscall(SYS_io_setup, 8, &ctx) == 0);
	assert(syscall(SYS_io_submit, ctx, 3l, list) == 3);
	assert(write(ends[1], "x", 1) == 1);
	assert(syscall(SYS_io_getevents, ctx, 3l, 3l, events, NULL) == 3);
	assert(lseek(fd, 0, SEEK_END) == 4096);
	assert(syscall(SYS_io_destroy, ctx) == 0);
	return 0;
}
