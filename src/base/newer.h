/* SPDX-License-Identifier: MIT */
/*
 * Declarations that the headers of older kernels and C libraries lack
 *
 * The oldest supported headers are those of Linux 5.10 and glibc 2.31, as in Debian 11.
 * The declarations for io_uring are in io_uring.h.
 */
#ifndef UAIO_BASE_NEWER_H
#define UAIO_BASE_NEWER_H

#include <linux/magic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/*
 * The system calls close_range (Linux 5.9) and epoll_pwait2 (5.11) have the same number
 * on all architectures.
 */
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif

/* close_range(2), Linux 5.9 and 5.11 */
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1u << 2)
#endif

/* mremap(2), Linux 5.7 */
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

/* P_PIDFD of waitid(2), Linux 5.4; #ifdef cannot detect it, as it is in an enum */
enum { UAIO_P_PIDFD = 3 };

/*
 * File system types that statfs(2) returns in f_type; some installed headers lack these
 * names.
 */
#ifndef CIFS_SUPER_MAGIC
#define CIFS_SUPER_MAGIC 0xff534d42
#endif
#ifndef SMB2_SUPER_MAGIC
#define SMB2_SUPER_MAGIC 0xfe534d42
#endif
#ifndef CEPH_SUPER_MAGIC
#define CEPH_SUPER_MAGIC 0x00c36400
#endif
#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* statx(2): the mount id (Linux 5.8), the alignment for direct I/O (6.1) */
enum { UAIO_STATX_MNT_ID = 0x1000, UAIO_STATX_DIOALIGN = 0x2000 };

struct uaio_statx {
	uint32_t mask;
	uint32_t unused[35];
	uint64_t mnt_id;
	uint32_t dio_mem_align;
	uint32_t dio_offset_align;
	uint32_t unused_end[24];
};
_Static_assert(offsetof(struct uaio_statx, dio_mem_align) == 152 &&
		       sizeof(struct uaio_statx) == 256,
	       "as the kernel's");

/* struct futex_waitv of futex_waitv(2), Linux 5.16 */
struct uaio_futex_waitv {
	uint64_t val;
	uint64_t uaddr;
	uint32_t flags;
	uint32_t reserved;
};

/*
 * Symbols of glibc 2.32. They are weak, since the process may have another C library
 * (libc.h).
 */
extern char __libc_single_threaded __attribute__((weak));
const char *strerrordesc_np(int error) __attribute__((weak));

#endif /* UAIO_BASE_NEWER_H */
