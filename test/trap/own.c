/* SPDX-License-Identifier: MIT */
/* To be loaded: a read by io_uring, by instructions of this object's own. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline __attribute__((always_inline)) long
own(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	/* The number next to the instruction, as inlined functions mostly have it. */
	__asm__ volatile("movl %[nr], %%eax\n\tsyscall"
			 : "=&a"(ret)
			 : [nr] "i"(nr), "D"(a), "S"(b), "d"(c), "r"(r10),
			   "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	if (ret >= 0)
		return ret;
	errno = (int)-ret;
	return -1;
}

#define OWN(nr, a, b, c, d, e, f, ...)                                   \
	own((nr), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), \
	    (long)(f))
#define syscall(...) OWN(__VA_ARGS__, 0, 0, 0, 0, 0)

#include "client.h"

int own_read(int fd, void *buf, unsigned bytes);

/* Return: the bytes read, or a negative error number. */
int own_read(int fd, void *buf, unsigned bytes)
{
	struct ring ring;
	int ret;

	if (ring_open(&ring) < 0)
		return -errno;
	ret = ring_read(&ring, fd, buf, bytes, 0);
	(void)close(ring.fd);
	return ret;
}
