/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() unmaps memory while a read into it is in flight. If another mapping
 * gets this address, it receives the bytes.
 * To mend it: call munmap() after reaping the read's completion.
 *
 * expect: unmapped-in-flight
 */
#include <liburing.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAPPING_BYTES = 64 << 10 };

int main(void)
{
	char *mapping = mmap(NULL, MAPPING_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (mapping == MAP_FAILED || pipe(ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], mapping,
			   MAPPING_BYTES, 0);
	io_uring_submit(&ring);         /* expect: submitted */
	munmap(mapping, MAPPING_BYTES); /* expect: now */
	/*
	 * The read fails with EFAULT, unless something else is mapped at that address.
	 */
	if (write(ends[1], "late", 4) != 4 || io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
