/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() moves a mapping by mremap() while a receive into it is in flight. At
 * the old address the receive finds no memory.
 * To mend it: reap the completion before moving the mapping.
 *
 * expect: unmapped-in-flight
 */
#define _GNU_SOURCE 1
#include <liburing.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { MAPPING_BYTES = 64 << 10 };

int main(void)
{
	char *room = mmap(NULL, MAPPING_BYTES, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *mapping = mmap(NULL, MAPPING_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (room == MAP_FAILED || mapping == MAP_FAILED ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, ends) ||
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	io_uring_prep_recv(io_uring_get_sqe(&ring), ends[0], mapping,
			   MAPPING_BYTES, 0);
	io_uring_submit(&ring); /* expect: submitted */
	mapping =
		mremap(mapping, MAPPING_BYTES, MAPPING_BYTES, /* expect: now */
		       MREMAP_MAYMOVE | MREMAP_FIXED, room);
	if (mapping == MAP_FAILED)
		return 1;
	if (send(ends[1], "late", 4, 0) != 4 || io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
