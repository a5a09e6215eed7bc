/* SPDX-License-Identifier: MIT */
/*
 * The system call seam: the only code of the library that makes system calls
 *
 * Each function makes a system call by its own syscall instruction. So a call does not
 * set errno, is no cancellation point, and cannot be interposed. A function returns the
 * kernel's result, which is a negative errno on failure. If calls.h lists a system
 * call, the function makes it only if a sandbox allows it; otherwise the function
 * returns -ENOSYS.
 *
 * Builds with UAIO_TESTING call a hook before each system call. The hook may return a
 * result in the kernel's place, so a test can produce each failure.
 *
 * Context: any thread, async-signal-safe.
 */
#ifndef UAIO_BASE_SYS_H
#define UAIO_BASE_SYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <time.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/calls.h"
#include "base/instruction.h"

#ifdef UAIO_TESTING
/* Return: true if the kernel is not called; then *ret_res is the call's result. */
typedef bool uaio_sys_hook_fn(long nr, const long args[6], long *ret_res);
extern uaio_sys_hook_fn *uaio_sys_hook;
#endif

static inline long uaio_sys6(long nr, long a, long b, long c, long d, long e,
			     long f)
{
#ifdef UAIO_TESTING
	uaio_sys_hook_fn *hook = uaio_sys_hook;
	long res;

	if (hook && hook(nr, (const long[6]){ a, b, c, d, e, f }, &res))
		return res;
#endif
	return uaio_sys_raw(nr, a, b, c, d, e, f);
}

/*
 * Make a system call if uaio_may_call() allows it (calls.h); otherwise return -ENOSYS.
 */
static inline long uaio_sys_if(enum uaio_call call, long nr, long a, long b,
			       long c, long d, long e, long f)
{
	return __builtin_expect(uaio_may_call(call), 1)
		       ? uaio_sys6(nr, a, b, c, d, e, f)
		       : -38 /* ENOSYS */;
}

/* system calls that transfer data */

static inline ssize_t sys_pread(int fd, void *buf, size_t len, int64_t off)
{
	return uaio_sys6(SYS_pread64, fd, (long)buf, (long)len, off, 0, 0);
}

static inline ssize_t sys_pwrite(int fd, const void *buf, size_t len,
				 int64_t off)
{
	return uaio_sys6(SYS_pwrite64, fd, (long)buf, (long)len, off, 0, 0);
}

/*
 * On 64-bit processors the kernel ignores the argument for the offset's high half.
 */
static inline ssize_t sys_preadv2(int fd, const struct iovec *iov, int nr,
				  int64_t off, int flags)
{
	return uaio_sys_if(UAIO_CALL_PREADV2, SYS_preadv2, fd, (long)iov, nr,
			   off, 0, flags);
}

static inline ssize_t sys_pwritev2(int fd, const struct iovec *iov, int nr,
				   int64_t off, int flags)
{
	return uaio_sys_if(UAIO_CALL_PWRITEV2, SYS_pwritev2, fd, (long)iov, nr,
			   off, 0, flags);
}

static inline ssize_t sys_preadv(int fd, const struct iovec *iov, int nr,
				 int64_t off)
{
	return uaio_sys6(SYS_preadv, fd, (long)iov, nr, off, 0, 0);
}

static inline ssize_t sys_pwritev(int fd, const struct iovec *iov, int nr,
				  int64_t off)
{
	return uaio_sys6(SYS_pwritev, fd, (long)iov, nr, off, 0, 0);
}

static inline ssize_t sys_readv(int fd, const struct iovec *iov, int nr)
{
	return uaio_sys6(SYS_readv, fd, (long)iov, nr, 0, 0, 0);
}

static inline ssize_t sys_writev(int fd, const struct iovec *iov, int nr)
{
	return uaio_sys6(SYS_writev, fd, (long)iov, nr, 0, 0, 0);
}

static inline ssize_t sys_read(int fd, void *buf, size_t len)
{
	return uaio_sys6(SYS_read, fd, (long)buf, (long)len, 0, 0, 0);
}

static inline ssize_t sys_write(int fd, const void *buf, size_t len)
{
	return uaio_sys6(SYS_write, fd, (long)buf, (long)len, 0, 0, 0);
}

static inline ssize_t sys_vmsplice(int fd, const struct iovec *iov, int nr,
				   int flags)
{
	return uaio_sys_if(UAIO_CALL_VMSPLICE, SYS_vmsplice, fd, (long)iov, nr,
			   flags, 0, 0);
}

static inline ssize_t sys_send(int fd, const void *buf, size_t len, int flags)
{
	return uaio_sys_if(UAIO_CALL_SENDTO, SYS_sendto, fd, (long)buf,
			   (long)len, flags, 0, 0);
}

/*
 * Type of the calls that copy between memory of the caller (mine) and of another
 * process (its).
 */
typedef ssize_t sys_process_vm_fn(int pid, const struct iovec *mine,
				  const struct iovec *its, int nr_its);

static inline ssize_t sys_process_vm_readv(int pid, const struct iovec *mine,
					   const struct iovec *its, int nr_its)
{
	return uaio_sys_if(UAIO_CALL_PROCESS_VM_READV, SYS_process_vm_readv,
			   pid, (long)mine, 1, (long)its, nr_its, 0);
}

static inline ssize_t sys_process_vm_writev(int pid, const struct iovec *mine,
					    const struct iovec *its, int nr_its)
{
	return uaio_sys_if(UAIO_CALL_PROCESS_VM_WRITEV, SYS_process_vm_writev,
			   pid, (long)mine, 1, (long)its, nr_its, 0);
}

static inline int sys_ftruncate(int fd, int64_t length)
{
	return (int)uaio_sys_if(UAIO_CALL_FTRUNCATE, SYS_ftruncate, fd, length,
				0, 0, 0, 0);
}

static inline int sys_fallocate(int fd, int mode, int64_t off, int64_t len)
{
	return (int)uaio_sys_if(UAIO_CALL_FALLOCATE, SYS_fallocate, fd, mode,
				off, len, 0, 0);
}

static inline int sys_fsync(int fd)
{
	return (int)uaio_sys6(SYS_fsync, fd, 0, 0, 0, 0, 0);
}

static inline int sys_fdatasync(int fd)
{
	return (int)uaio_sys6(SYS_fdatasync, fd, 0, 0, 0, 0, 0);
}

/* system calls on descriptors */

/* Return: the length of the path in bytes, including the terminating null byte. */
static inline long sys_getcwd(char *buf, size_t len)
{
	return uaio_sys_if(UAIO_CALL_GETCWD, SYS_getcwd, (long)buf, (long)len,
			   0, 0, 0, 0);
}

static inline int sys_fstat(int fd, struct stat *ret_st)
{
#if defined(SYS_fstat)
	return (int)uaio_sys6(SYS_fstat, fd, (long)ret_st, 0, 0, 0, 0);
#else
	return (int)uaio_sys6(SYS_newfstatat, fd, (long)"", (long)ret_st,
			      0x1000 /* AT_EMPTY_PATH */, 0, 0);
#endif
}

static inline int sys_fstatat(int dir, const char *path, struct stat *ret_st)
{
	return (int)uaio_sys6(SYS_newfstatat, dir, (long)path, (long)ret_st, 0,
			      0, 0);
}

/* Like sys_fstatat(), but does not follow a symbolic link. */
static inline int sys_lstatat(int dir, const char *path, struct stat *ret_st)
{
	return (int)uaio_sys6(SYS_newfstatat, dir, (long)path, (long)ret_st,
			      0x100 /* AT_SYMLINK_NOFOLLOW */, 0, 0);
}

/*
 * ret_answer: a struct statx of the kernel; the struct in older headers lacks members.
 */
static inline int sys_statx_path(int dir, const char *path, int flags,
				 unsigned mask, void *ret_answer)
{
	return (int)uaio_sys_if(UAIO_CALL_STATX, SYS_statx, dir, (long)path,
				flags, mask, (long)ret_answer, 0);
}

static inline int sys_statx(int fd, int flags, unsigned mask, void *ret_answer)
{
	return sys_statx_path(fd, "", 0x1000 /* AT_EMPTY_PATH */ | flags, mask,
			      ret_answer);
}

static inline int sys_fstatfs(int fd, struct statfs *ret_st)
{
	return (int)uaio_sys_if(UAIO_CALL_FSTATFS, SYS_fstatfs, fd,
				(long)ret_st, 0, 0, 0, 0);
}

static inline int sys_fcntl(int fd, int cmd, long arg)
{
	return (int)uaio_sys6(SYS_fcntl, fd, cmd, arg, 0, 0, 0);
}

static inline int sys_ioctl_terminal(int fd, unsigned long request, void *arg)
{
	return (int)uaio_sys_if(UAIO_CALL_IOCTL_TERMINAL, SYS_ioctl, fd,
				(long)request, (long)arg, 0, 0, 0);
}

static inline int sys_ioctl_block(int fd, unsigned long request, void *arg)
{
	return (int)uaio_sys_if(UAIO_CALL_IOCTL_BLOCK, SYS_ioctl, fd,
				(long)request, (long)arg, 0, 0, 0);
}

/*
 * range: offset and length. ret_nr: five counts of pages in the range; the first is the
 * number of pages in the page cache.
 */
static inline int sys_cachestat(int fd, const uint64_t range[2],
				uint64_t ret_nr[5])
{
	/* not in most installed headers */
	enum { NR_CACHESTAT = 451 };

	return (int)uaio_sys_if(UAIO_CALL_CACHESTAT, NR_CACHESTAT, fd,
				(long)range, (long)ret_nr, 0, 0, 0);
}

/*
 * Each offset is one argument: x86-64 and aarch64 pass a 64-bit offset in one register.
 */
static inline int sys_fadvise(int fd, int64_t off, int64_t len, int advice)
{
	return (int)uaio_sys_if(UAIO_CALL_FADVISE, SYS_fadvise64, fd, off, len,
				advice, 0, 0);
}

static inline int64_t sys_lseek(int fd, int64_t off, int whence)
{
	return uaio_sys_if(UAIO_CALL_LSEEK, SYS_lseek, fd, off, whence, 0, 0,
			   0);
}

static inline int sys_openat(int dir, const char *path, int flags, int mode)
{
	return (int)uaio_sys_if(UAIO_CALL_OPENAT, SYS_openat, dir, (long)path,
				flags, mode, 0, 0);
}

static inline int sys_unlinkat(int dir, const char *path, int flags)
{
	return (int)uaio_sys_if(UAIO_CALL_UNLINKAT, SYS_unlinkat, dir,
				(long)path, flags, 0, 0, 0);
}

static inline int sys_mkdirat(int dir, const char *path, unsigned mode)
{
	return (int)uaio_sys_if(UAIO_CALL_MKDIRAT, SYS_mkdirat, dir, (long)path,
				mode, 0, 0, 0);
}

static inline int sys_close(int fd)
{
	return (int)uaio_sys6(SYS_close, fd, 0, 0, 0, 0, 0);
}

static inline int sys_readlinkat(int dir, const char *path, char *ret_buf,
				 size_t len)
{
	return (int)uaio_sys_if(UAIO_CALL_READLINKAT, SYS_readlinkat, dir,
				(long)path, (long)ret_buf, (long)len, 0, 0);
}

/* Create a memfd that can be sealed, with close-on-exec. */
static inline int sys_memfd(const char *name)
{
	const long cloexec_and_sealing = 1 | 2;

	return (int)uaio_sys_if(UAIO_CALL_MEMFD, SYS_memfd_create, (long)name,
				cloexec_and_sealing, 0, 0, 0, 0);
}

/*
 * Return: 1 if both descriptors refer to one open file, 0 if not; -EINVAL before Linux
 * 6.10.
 */
static inline int sys_is_duplicate(int fd, int other)
{
	enum { DUPFD_QUERY = 1027 };

	return sys_fcntl(fd, DUPFD_QUERY, other);
}

/* Forbid changes of the memfd's size, and further seals. */
static inline int sys_seal_size(int fd)
{
	enum { ADD_SEALS = 1033, SEAL_SHRINK_GROW = 1 | 2 | 4 };

	return sys_fcntl(fd, ADD_SEALS, SEAL_SHRINK_GROW);
}

/*
 * Forbid all that sys_seal_size() forbids, and also writing and writable mappings.
 */
static inline int sys_seal_all(int fd)
{
	enum { ADD_SEALS = 1033, SEAL_ALL = 1 | 2 | 4 | 8 };

	return sys_fcntl(fd, ADD_SEALS, SEAL_ALL);
}

static inline int sys_eventfd(unsigned init, int flags)
{
	return (int)uaio_sys_if(UAIO_CALL_EVENTFD, SYS_eventfd2, init, flags, 0,
				0, 0, 0);
}

static inline int sys_epoll_create(int flags)
{
	return (int)uaio_sys_if(UAIO_CALL_EPOLL_CREATE, SYS_epoll_create1,
				flags, 0, 0, 0, 0, 0);
}

static inline int sys_epoll_ctl(int epoll, int op, int fd,
				struct epoll_event *event)
{
	return (int)uaio_sys_if(UAIO_CALL_EPOLL_CTL, SYS_epoll_ctl, epoll, op,
				fd, (long)event, 0, 0);
}

/*
 * timeout_ms: -1 means no timeout. The call does not change the thread's signal mask.
 */
static inline int sys_epoll_pwait(int epoll, struct epoll_event *ret_events,
				  int max, int timeout_ms)
{
	return (int)uaio_sys_if(UAIO_CALL_EPOLL_PWAIT, SYS_epoll_pwait, epoll,
				(long)ret_events, max, timeout_ms, 0, 0);
}

static inline int sys_epoll_pwait2(int epoll, struct epoll_event *ret_events,
				   int max, const struct timespec *timeout,
				   const void *mask, size_t mask_bytes)
{
	/* not in some installed headers */
	enum { NR_EPOLL_PWAIT2 = 441 };

	return (int)uaio_sys_if(UAIO_CALL_EPOLL_PWAIT2, NR_EPOLL_PWAIT2, epoll,
				(long)ret_events, max, (long)timeout,
				(long)mask, (long)mask_bytes);
}

static inline int sys_ppoll(struct pollfd *fds, unsigned nr,
			    const struct timespec *timeout, const void *mask,
			    size_t mask_bytes)
{
	struct timespec rest;

	/*
	 * Pass a copy of the timeout, since ppoll() writes the remaining time to it.
	 */
	if (timeout)
		rest = *timeout;
	return (int)uaio_sys6(SYS_ppoll, (long)fds, nr,
			      (long)(timeout ? &rest : NULL), (long)mask,
			      (long)mask_bytes, 0);
}

static inline int sys_pselect(int nr, void *reads, void *writes, void *excepts,
			      struct timespec *timeout)
{
	return (int)uaio_sys_if(UAIO_CALL_PSELECT, SYS_pselect6, nr,
				(long)reads, (long)writes, (long)excepts,
				(long)timeout, 0);
}

/* system calls of kernel AIO, for contexts that the kernel creates */

static inline int sys_io_setup(unsigned nr, uint64_t *ret_ctx)
{
	return (int)uaio_sys_if(UAIO_CALL_IO_SETUP, SYS_io_setup, nr,
				(long)ret_ctx, 0, 0, 0, 0);
}

static inline int sys_io_destroy(uint64_t ctx)
{
	return (int)uaio_sys_if(UAIO_CALL_IO_DESTROY, SYS_io_destroy, (long)ctx,
				0, 0, 0, 0, 0);
}

struct iocb;

static inline int sys_io_submit(uint64_t ctx, long nr, struct iocb **list)
{
	return (int)uaio_sys_if(UAIO_CALL_IO_SUBMIT, SYS_io_submit, (long)ctx,
				nr, (long)list, 0, 0, 0);
}

/* system calls of io_uring, for rings that the kernel creates */

struct io_uring_params;

static inline int sys_uring_setup(unsigned nr, struct io_uring_params *params)
{
	return (int)uaio_sys_if(UAIO_CALL_URING_SETUP, SYS_io_uring_setup, nr,
				(long)params, 0, 0, 0, 0);
}

static inline int sys_uring_enter(int fd, unsigned nr_submit,
				  unsigned nr_complete, unsigned flags)
{
	return (int)uaio_sys_if(UAIO_CALL_URING_ENTER, SYS_io_uring_enter, fd,
				nr_submit, nr_complete, flags, 0, 0);
}

static inline int sys_uring_register(int fd, unsigned op, void *arg,
				     unsigned nr)
{
	return (int)uaio_sys_if(UAIO_CALL_URING_REGISTER, SYS_io_uring_register,
				fd, op, (long)arg, nr, 0, 0);
}

/* system calls on memory mappings */

/*
 * ThreadSanitizer does not see the system calls below. The two macros tell
 * ThreadSanitizer that a munmap() happens before a later mmap(), which may get the same
 * address in another thread.
 */
#ifdef __SANITIZE_THREAD__
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define UAIO_IS_MAPPED() __tsan_acquire(&uaio_calls)
#define UAIO_IS_UNMAPPED() __tsan_release(&uaio_calls)
#else
#define UAIO_IS_MAPPED() ((void)0)
#define UAIO_IS_UNMAPPED() ((void)0)
#endif

static inline void *sys_mmap(void *addr, size_t len, int prot, int flags)
{
	void *memory = (void *)uaio_sys6(SYS_mmap, (long)addr, (long)len, prot,
					 flags, -1, 0);

	UAIO_IS_MAPPED();
	return memory;
}

/* Return: whether the result of sys_mmap() or sys_mremap() is an error number. */
static inline bool sys_is_map_error(const void *p)
{
	return (uintptr_t)p >= (uintptr_t)-4095;
}

/*
 * Map the file at an address that the kernel chooses. The caller passes an off that is a
 * multiple of all possible page sizes.
 */
static inline void *sys_mmap_file(size_t len, int prot, int flags, int fd,
				  int64_t off)
{
	return (void *)uaio_sys6(SYS_mmap, 0, (long)len, prot, flags, fd, off);
}

static inline int sys_munmap(void *addr, size_t len)
{
	UAIO_IS_UNMAPPED();
	return (int)uaio_sys6(SYS_munmap, (long)addr, (long)len, 0, 0, 0, 0);
}

static inline int sys_madvise(void *addr, size_t len, int advice)
{
	return (int)uaio_sys6(SYS_madvise, (long)addr, (long)len, advice, 0, 0,
			      0);
}

static inline void *sys_mremap(void *old, size_t old_len, size_t new_len,
			       int flags, void *new)
{
	return (void *)uaio_sys6(SYS_mremap, (long)old, (long)old_len,
				 (long)new_len, flags, (long)new, 0);
}

static inline int sys_mprotect_exec(void *addr, size_t len, int prot)
{
	return (int)uaio_sys_if(UAIO_CALL_MPROTECT_EXEC, SYS_mprotect,
				(long)addr, (long)len, prot, 0, 0, 0);
}

/* Zero the memory in children of fork(). Since Linux 4.14. */
static inline int sys_wipe_on_fork(void *addr, size_t len)
{
	return (int)uaio_sys_if(UAIO_CALL_WIPEONFORK, SYS_madvise, (long)addr,
				(long)len, 18 /* MADV_WIPEONFORK */, 0, 0, 0);
}

/* system calls for time, sleeping and threads */

static inline int sys_clock_gettime(int clock, struct timespec *ret_time)
{
	return (int)uaio_sys6(SYS_clock_gettime, clock, (long)ret_time, 0, 0, 0,
			      0);
}

static inline int sys_futex(uint32_t *word, int op, uint32_t val,
			    const struct timespec *timeout, uint32_t mask)
{
	return (int)uaio_sys6(SYS_futex, (long)word, op, val, (long)timeout, 0,
			      mask);
}

static inline int sys_getpid(void)
{
	return (int)uaio_sys6(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

static inline int sys_getuid(void)
{
	return (int)uaio_sys6(SYS_getuid, 0, 0, 0, 0, 0, 0);
}

static inline int sys_getresuid(uint32_t ret_ids[3])
{
	return (int)uaio_sys_if(UAIO_CALL_GETRESUID, SYS_getresuid,
				(long)&ret_ids[0], (long)&ret_ids[1],
				(long)&ret_ids[2], 0, 0, 0);
}

static inline int sys_kill(int pid, int signal)
{
	return (int)uaio_sys6(SYS_kill, pid, signal, 0, 0, 0, 0);
}

static inline int sys_rt_sigqueueinfo(int pid, int signal,
				      const siginfo_t *info)
{
	return (int)uaio_sys6(SYS_rt_sigqueueinfo, pid, signal, (long)info, 0,
			      0, 0);
}

/*
 * Return: the I/O priority of the calling thread. A new thread inherits its creator's
 * I/O priority.
 */
static inline int sys_ioprio_get(void)
{
	return (int)uaio_sys_if(UAIO_CALL_IOPRIO_GET, SYS_ioprio_get,
				1 /* IOPRIO_WHO_PROCESS */, 0, 0, 0, 0, 0);
}

/* Set the I/O priority of the calling thread. */
static inline int sys_ioprio_set(int ioprio)
{
	return (int)uaio_sys_if(UAIO_CALL_IOPRIO_SET, SYS_ioprio_set,
				1 /* IOPRIO_WHO_PROCESS */, 0, ioprio, 0, 0, 0);
}

/* Set the nice value of the calling thread. */
static inline int sys_setpriority(int nice)
{
	return (int)uaio_sys_if(UAIO_CALL_SETPRIORITY, SYS_setpriority,
				0 /* PRIO_PROCESS */, 0, nice, 0, 0, 0);
}

/* Set the name of the calling thread; the kernel keeps 15 characters. */
static inline int sys_set_name(const char *name)
{
	return (int)uaio_sys_if(UAIO_CALL_PRCTL_NAME, SYS_prctl,
				15 /* PR_SET_NAME */, (long)name, 0, 0, 0, 0);
}

/* Return: the scheduling class of the calling thread, such as SCHED_OTHER. */
static inline int sys_sched_getscheduler(void)
{
	return (int)uaio_sys_if(UAIO_CALL_SCHED_GETSCHEDULER,
				SYS_sched_getscheduler, 0, 0, 0, 0, 0, 0);
}

/* Give the calling thread the scheduling class SCHED_OTHER. */
static inline int sys_sched_set_other(void)
{
	const int priority = 0;

	return (int)uaio_sys_if(UAIO_CALL_SCHED_SETSCHEDULER,
				SYS_sched_setscheduler, 0, 0 /* SCHED_OTHER */,
				(long)&priority, 0, 0, 0);
}

static inline int sys_capget(void *header, void *ret_data)
{
	return (int)uaio_sys_if(UAIO_CALL_CAPGET, SYS_capget, (long)header,
				(long)ret_data, 0, 0, 0, 0);
}

/* Query the resource usage of the calling thread. */
static inline int sys_getrusage(struct rusage *ret_usage)
{
	return (int)uaio_sys_if(UAIO_CALL_GETRUSAGE, SYS_getrusage,
				1 /* RUSAGE_THREAD */, (long)ret_usage, 0, 0, 0,
				0);
}

static inline int sys_sigaltstack(const stack_t *stack, stack_t *ret_old)
{
	return (int)uaio_sys6(SYS_sigaltstack, (long)stack, (long)ret_old, 0, 0,
			      0, 0);
}

static inline int sys_gettid(void)
{
	return (int)uaio_sys6(SYS_gettid, 0, 0, 0, 0, 0, 0);
}

/* Query the robust futex list of the calling thread. */
struct robust_list_head;
static inline int sys_get_robust_list(struct robust_list_head **ret_head,
				      size_t *ret_bytes)
{
	return (int)uaio_sys_if(UAIO_CALL_GET_ROBUST_LIST, SYS_get_robust_list,
				0, (long)ret_head, (long)ret_bytes, 0, 0, 0);
}

static inline int sys_tgkill(int pid, int tid, int signal)
{
	return (int)uaio_sys_if(UAIO_CALL_TGKILL, SYS_tgkill, pid, tid, signal,
				0, 0, 0);
}

/*
 * Queue a signal to a thread of this process. info: a siginfo_t, which may have any
 * si_code.
 */
static inline int sys_tgsigqueueinfo(int pid, int tid, int signal,
				     const void *info)
{
	return (int)uaio_sys_if(UAIO_CALL_TGSIGQUEUEINFO, SYS_rt_tgsigqueueinfo,
				pid, tid, signal, (long)info, 0, 0);
}

/*
 * The sigaction structs and signal masks have the kernel's layout, not the C library's.
 */
static inline int sys_sigaction(int signal, const void *action, void *ret_old)
{
	enum { MASK_BYTES = 8 };

	return (int)uaio_sys6(SYS_rt_sigaction, signal, (long)action,
			      (long)ret_old, MASK_BYTES, 0, 0);
}

static inline int sys_sigmask(int how, const uint64_t *set, uint64_t *ret_old)
{
	return (int)uaio_sys6(SYS_rt_sigprocmask, how, (long)set, (long)ret_old,
			      sizeof(*set), 0, 0);
}

static inline int sys_sigpending(uint64_t *ret_set)
{
	return (int)uaio_sys_if(UAIO_CALL_SIGPENDING, SYS_rt_sigpending,
				(long)ret_set, sizeof(*ret_set), 0, 0, 0, 0);
}

static inline int sys_sigtimedwait(const uint64_t *set,
				   const struct timespec *timeout)
{
	return (int)uaio_sys_if(UAIO_CALL_SIGTIMEDWAIT, SYS_rt_sigtimedwait,
				(long)set, 0, (long)timeout, sizeof(*set), 0,
				0);
}

static inline int sys_dup3(int old, int new, int flags)
{
	return (int)uaio_sys_if(UAIO_CALL_DUP3, SYS_dup3, old, new, flags, 0, 0,
				0);
}

static inline int sys_getsockopt(int fd, int level, int name, void *ret_value,
				 uint32_t *size)
{
	return (int)uaio_sys_if(UAIO_CALL_GETSOCKOPT, SYS_getsockopt, fd, level,
				name, (long)ret_value, (long)size, 0);
}

static inline int sys_getrlimit(int resource, struct rlimit *ret)
{
	return (int)uaio_sys_if(UAIO_CALL_PRLIMIT, SYS_prlimit64, 0, resource,
				0, (long)ret, 0, 0);
}

static inline int sys_sched_getaffinity(int tid, size_t len, void *ret_mask)
{
	return (int)uaio_sys_if(UAIO_CALL_SCHED_GETAFFINITY,
				SYS_sched_getaffinity, tid, (long)len,
				(long)ret_mask, 0, 0, 0);
}

static inline int sys_sched_setaffinity(int tid, size_t len, const void *mask)
{
	return (int)uaio_sys_if(UAIO_CALL_SCHED_SETAFFINITY,
				SYS_sched_setaffinity, tid, (long)len,
				(long)mask, 0, 0, 0);
}

/*
 * Return: whether the eight bytes at addr are readable. The call is rt_sigprocmask()
 * with an invalid "how": the kernel reads the mask at addr, then refuses the call, and
 * changes nothing.
 */
static inline bool sys_can_read8(const void *addr)
{
	return uaio_sys6(SYS_rt_sigprocmask, 0x7fff, (long)addr, 0, 8, 0, 0) !=
	       -14 /* EFAULT */;
}

/*
 * Have the kernel write the calling thread's signal mask to the eight bytes at addr. A
 * sandbox always allows this call, as every program that starts threads makes it.
 *
 * Return: whether the eight bytes were writable. If so, their old contents are lost.
 */
static inline bool sys_overwrite8(void *addr)
{
	return uaio_sys6(SYS_rt_sigprocmask, 0, 0, (long)addr, 8, 0, 0) !=
	       -14 /* EFAULT */;
}

/*
 * Return: whether the four aligned bytes at addr are writable. FUTEX_WAKE_OP makes the
 * kernel atomically OR zero into the word, which needs write access but does not change
 * the word. FUTEX_WAKE_OP must also name a value for which it wakes a waiter: if the word
 * happens to be -2047, a waiter on the word is woken needlessly.
 */
static inline bool sys_can_write4(void *addr)
{
	enum {
		WAKE_OP = 5,
		PRIVATE = 128,
		OR_ZERO = 2 << 28,
		IF_MINUS_2047 = 0x801,
	};
	uint32_t unused = 0;

	return uaio_sys6(SYS_futex, (long)&unused, WAKE_OP | PRIVATE, 0, 0,
			 (long)addr,
			 OR_ZERO | IF_MINUS_2047) != -14 /* EFAULT */;
}

/* Return: whether nr is the number of the system call that sys_read() makes. */
static inline bool sys_is_read(uint64_t nr)
{
	return nr == SYS_read;
}

static inline bool sys_is_io_submit(uint64_t nr)
{
	return nr == SYS_io_submit;
}

/*
 * Return: whether nr is one of the system calls by which the library executes requests on
 * a regular file. Their first argument is the file's descriptor.
 */
static inline bool sys_is_on_file(uint64_t nr)
{
	switch (nr) {
	case SYS_pread64:
	case SYS_preadv:
	case SYS_preadv2:
	case SYS_pwrite64:
	case SYS_pwritev:
	case SYS_pwritev2:
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_fallocate:
	case SYS_ftruncate:
	case SYS_fadvise64:
	case SYS_sync_file_range:
	case SYS_fgetxattr:
	case SYS_fsetxattr: return true;
	default: return false;
	}
}

#endif /* UAIO_BASE_SYS_H */
