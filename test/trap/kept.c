/* SPDX-License-Identifier: MIT */
/*
 * Reads the beginning of a file through a ring. The program makes the ring by
 * syscall(2), but calls io_uring_enter by an instruction of its own. The function around
 * this instruction has no unwind information, and keeps the number of the system call in
 * a register, from which a loop copies the number to eax.
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
