/* SPDX-License-Identifier: MIT */
/*
 * A loadable object that reads by io_uring with system call instructions of its own.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "client.h"

static inline __attribute__((always_inline)) long
own(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	/*
	 * Set the number of the system call just before the `syscall` instruction, as
	 * compilers usually do in inlined functions.
	 */
	__asm__ volatile("movl %[nr], %%eax\n\tsyscall"
			 : "=&a"(ret)
			 : [nr] "i"(nr), "D"(a), "S"(b), "d"(c), "r"(r10),
			   "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

long uring_setup(uint32_t nr, struct io_uring_params *params)
{
	return own(SYS_io_uring_setup, nr, (long)params, 0, 0, 0, 0);
}

long uring_enter(int fd, uint32_t to_submit, uint32_t min_complete,
		 uint32_t flags, const void *arg, size_t arg_bytes)
{
	return own(SYS_io_uring_enter, fd, to_submit, min_complete, flags,
		   (long)arg, (long)arg_bytes);
}

long uring_register(int fd, uint32_t opcode, const void *arg, uint32_t nr_args)
{
	return own(SYS_io_uring_register, fd, opcode, (long)arg, nr_args, 0, 0);
}

int64_t uring_map_offset(int fd, uint64_t offset)
{
	(void)fd;
	return (int64_t)offset;
}

int own_read(int fd, void *buf, unsigned bytes);

/*
 * Read through a ring.
 * Return: how many bytes were read, or a negative errno.
 */
int own_read(int fd, void *buf, unsigned bytes)
{
	struct uring ring;
	int ret = (int)ring_open(&ring);

	if (ret < 0)
		return ret;
	ret = ring_read(&ring, fd, buf, bytes, 0);
	(void)close(ring.fd);
	return ret;
}
