/* SPDX-License-Identifier: MIT */
/*
 * Read the beginning of a file by a ring made by syscall(2). io_uring_enter is an
 * inline instruction of this program, in code without unwind information, with the
 * call's number in a register.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client.h"

long enter_kept(int fd, unsigned nr, unsigned min, unsigned flags);

__asm__(".text\n.globl enter_kept\n.type enter_kept, @function\n"
	"enter_kept:\n\t"
	"push %rbx\n\t"
	"mov $426, %ebx\n\t"
	"mov %rcx, %r10\n\t"
	"xor %r8d, %r8d\n"
	"1:	mov %ebx, %eax\n\t"
	"syscall\n\t"
	"cmp $-4, %rax\n\t" /* EINTR */
	"je 1b\n\t"
	"pop %rbx\n\t"
	"ret\n");

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;
	static char read_by_ring[4096], wanted[4096];
	struct uring ring;
	long ret;

	if (fd < 0 ||
	    pread(fd, wanted, sizeof(wanted), 0) != (ssize_t)sizeof(wanted)) {
		perror("file");
		return 1;
	}
	if (ring_open(&ring) < 0) {
		perror("no ring");
		return 2;
	}
	ring_prepare_read(&ring, fd, read_by_ring, sizeof(read_by_ring), 0);
	ret = enter_kept(ring.fd, 1, 1, IORING_ENTER_GETEVENTS);
	printf("entered: %ld, read: %d, right: %d\n", ret,
	       uring_ready(&ring) ? ring_result(&ring) : 0,
	       !memcmp(read_by_ring, wanted, sizeof(wanted)));
	return 0;
}
