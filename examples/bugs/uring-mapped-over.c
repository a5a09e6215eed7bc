/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() replaces a buffer by a new, empty mapping while a write of the
 * buffer is in flight. So zeros are written instead of the text.
 * To mend it: reap the write's completion before mapping over the buffer, or clearing
 * it.
 *
 * expect: unmapped-in-flight
 */
#define _GNU_SOURCE 1
#include <fcntl.h>
#include <liburing.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 4096 };

static char drain[BYTES];

static char *map(void *where, int flags)
{
	int access = PROT_READ | PROT_WRITE;

	flags |= MAP_PRIVATE | MAP_ANONYMOUS;
	return mmap(where, BYTES, access, flags, -1, 0); /* expect: now */
}

int main(void)
{
	char *mapping = map(NULL, 0);
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	int ends[2];

	if (mapping == MAP_FAILED || pipe(ends) ||
	    fcntl(ends[1], F_SETPIPE_SZ, BYTES) < 0 ||
	    write(ends[1], mapping, BYTES) != BYTES || /* full */
	    io_uring_queue_init(4, &ring, 0))
		return 1;
	strcpy(mapping, "text");
	io_uring_prep_write(io_uring_get_sqe(&ring), ends[1], mapping, BYTES,
			    0);
	io_uring_submit(&ring); /* expect: submitted */
	map(mapping, MAP_FIXED);
	if (read(ends[0], drain, sizeof(drain)) < 0 ||
	    io_uring_wait_cqe(&ring, &cqe))
		return 1;
	io_uring_cqe_seen(&ring, cqe);
	io_uring_queue_exit(&ring);
	return 0;
}
