/* SPDX-License-Identifier: MIT */
/*
 * No bug: main() frees, grows and unmaps memory directly beside the buffers of reads in
 * flight.
 *
 * expect: nothing
 */
#include <liburing.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SMALL_BYTES = 48, PAGE_BYTES = 4096 };

int main(void)
{
	char *blocks[3], *pages;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	for (int i = 0; i < 3; i++)
		blocks[i] = malloc(SMALL_BYTES);
	pages = mmap(NULL, 3 * PAGE_BYTES, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (pages == MAP_FAILED || pipe(ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], blocks[1],
			   SMALL_BYTES, 0);
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], pages + PAGE_BYTES,
			   PAGE_BYTES, 0);
	io_uring_submit(&ring);
	free(blocks[0]);
	blocks[2] = realloc(blocks[2], 100 * SMALL_BYTES);
	munmap(pages, PAGE_BYTES);
	munmap(pages + 2 * PAGE_BYTES, PAGE_BYTES);
	close(ends[1]);
	for (int i = 0; i < 2; i++) {
		if (io_uring_wait_cqe(&ring, &cqe) || cqe->res != 0)
			return 1;
		io_uring_cqe_seen(&ring, cqe);
	}
	free(blocks[1]);
	free(blocks[2]);
	munmap(pages + PAGE_BYTES, PAGE_BYTES);
	io_uring_queue_exit(&ring);
	return 0;
}
