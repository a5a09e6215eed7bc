/* SPDX-License-Identifier: MIT */
/*
 * The bug: one lio_listio() starts two reads whose buffers overlap, because the second
 * buffer begins half a block too early.
 * To mend it: begin the second buffer at buffer + BLOCK_BYTES.
 *
 * expect: overlap-in-flight
 */
#include <aio.h>
#include <errno.h>
#include <unistd.h>

enum { BLOCK_BYTES = 512 };

static char buffer[2 * BLOCK_BYTES];
static struct aiocb blocks[2];

static ssize_t await(struct aiocb *aiocb)
{
	const struct aiocb *list[] = { aiocb };

	while (aio_error(aiocb) == EINPROGRESS)
		aio_suspend(list, 1, NULL);
	return aio_return(aiocb);
}

int main(void)
{
	struct aiocb *list[] = { &blocks[0], &blocks[1] };
	int ends[2];

	if (pipe(ends))
		return 1;
	for (int i = 0; i < 2; i++) {
		blocks[i].aio_lio_opcode = LIO_READ;
		blocks[i].aio_fildes = ends[0];
		blocks[i].aio_buf = buffer + i * BLOCK_BYTES / 2;
		blocks[i].aio_nbytes = BLOCK_BYTES;
	}
	if (lio_listio(LIO_NOWAIT, list, 2, NULL)) /* expect: submitted */
		return 1;
	close(ends[1]); /* ends both */
	return await(&blocks[0]) < 0 || await(&blocks[1]) < 0;
}
