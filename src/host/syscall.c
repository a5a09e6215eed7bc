/* SPDX-License-Identifier: MIT */
/*
 * Executes system calls by their numbers, for syscall(2) and for `uaio run --trap`
 *
 * Tested by test/abi/passthrough.c and test/conform/rows-raw.c.
 */
#include "host/host.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "base/newer.h"
#include "base/sys.h"
#include "aio/aio.h"

long uaio_host_error(long res)
{
	if ((unsigned long)res < (unsigned long)-4095)
		return res;
	errno = (int)-res;
	return -1;
}

static long raw_exit_group(long status)
{
	uaio_host_exiting();
	return uaio_sys6(SYS_exit_group, status, 0, 0, 0, 0, 0);
}

static long raw_unshare(const long a[6])
{
	return uaio_host_changes_identity(SYS_unshare, a)
		       ? uaio_host_raw_identity(SYS_unshare, a)
		       : uaio_host_raw_unshare((int)a[0]);
}

/*
 * Handles all system calls, except the frequent calls that the callers handle first:
 * io_submit, io_getevents and io_uring_enter.
 */
static __attribute__((noinline)) long answer(long nr, const long a[6])
{
	switch (nr) {
	case SYS_io_setup:
		return uaio_aio_setup((uint32_t)a[0], (uint64_t *)a[1]);
	case SYS_io_destroy: return uaio_aio_destroy((uint64_t)a[0]);
	case SYS_io_cancel:
		return uaio_aio_cancel((uint64_t)a[0], (struct iocb *)a[1]);
	case SYS_io_pgetevents:
		return uaio_aio_pgetevents(
			(uint64_t)a[0], a[1], a[2], (struct uaio_event *)a[3],
			(const struct timespec *)a[4],
			(const struct uaio_aio_sigset *)a[5]);
	case SYS_io_uring_setup: return uaio_host_uring_setup(a[0], a[1]);
	case SYS_io_uring_register: return uaio_host_uring_register(a);
	case SYS_epoll_ctl: return uaio_host_raw_epoll_ctl(a);
#ifdef SYS_epoll_wait
	case SYS_epoll_wait:
#endif
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2: return uaio_host_raw_epoll(nr, a);
#ifdef SYS_poll
	case SYS_poll:
#endif
	case SYS_ppoll: return uaio_host_raw_poll(nr, a);
#ifdef SYS_select
	case SYS_select:
#endif
	case SYS_pselect6: return uaio_host_raw_select(nr, a);
	case SYS_mmap: return uaio_host_raw_mmap(a);
	case SYS_execve:
	case SYS_execveat: return uaio_host_raw_exec(nr, a);
	case SYS_exit_group: return raw_exit_group(a[0]);
	case SYS_prctl:
	case SYS_seccomp: return uaio_host_raw_filter(nr, a);
	case SYS_close: return uaio_host_raw_close((int)a[0]);
#ifdef SYS_dup2
	case SYS_dup2: return uaio_host_raw_dup((int)a[0], (int)a[1], NULL);
#endif
	case SYS_dup3:
		return uaio_host_raw_dup((int)a[0], (int)a[1],
					 &(const int){ (int)a[2] });
	case SYS_close_range:
		return uaio_host_raw_close_range((unsigned)a[0], (unsigned)a[1],
						 (int)a[2]);
	case SYS_fcntl: return uaio_host_raw_fcntl(a);
	case SYS_unshare: return raw_unshare(a);
	case SYS_munmap:
		return uaio_host_raw_munmap((void *)a[0], (unsigned long)a[1]);
	case SYS_mremap:
		return uaio_host_raw_mremap((void *)a[0], (unsigned long)a[1],
					    (unsigned long)a[2], (int)a[3],
					    (void *)a[4]);
	default:
		if (uaio_host_changes_identity(nr, a))
			return uaio_host_raw_identity(nr, a);
		return uaio_sys6(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	}
}

long uaio_host_answer(long nr, const long a[6])
{
	switch (nr) {
	case SYS_io_submit:
		return uaio_aio_submit((uint64_t)a[0], a[1],
				       (struct iocb **)a[2]);
	case SYS_io_getevents:
		return uaio_aio_getevents((uint64_t)a[0], a[1], a[2],
					  (struct uaio_event *)a[3],
					  (const struct timespec *)a[4]);
	case SYS_io_uring_enter: return uaio_host_uring_enter(a);
	default: return answer(nr, a);
	}
}

long uaio_host_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	if (nr == SYS_io_submit)
		return uaio_host_error(
			uaio_aio_submit((uint64_t)a, b, (struct iocb **)c));
	if (nr == SYS_io_getevents)
		return uaio_host_error(uaio_aio_getevents(
			(uint64_t)a, b, c, (struct uaio_event *)d,
			(const struct timespec *)e));
	if (nr == SYS_io_uring_enter)
		return uaio_host_error(uaio_host_uring_enter(
			(const long[6]){ a, b, c, d, e, f }));
	if (nr == SYS_io_uring_setup)
		/*
		 * syscall.S jumps to this function. So the return address is in the
		 * code of the program that called syscall().
		 */
		return uaio_host_error(uaio_host_uring_setup_from(
			__builtin_return_address(0), a, b));
	return uaio_host_error(answer(nr, (const long[6]){ a, b, c, d, e, f }));
}
