/* SPDX-License-Identifier: MIT */
/*
 * System calls that the library makes only because a request asks for exactly this call
 *
 * The functions here are part of the system call seam (sys.h), which makes all system
 * calls of the library. calls.h lists the calls that a sandbox may forbid. If a sandbox
 * forbids a call, a request for this call fails with ENOSYS.
 *
 * Context: any thread, async-signal-safe.
 */
#ifndef UAIO_BASE_ASKED_H
#define UAIO_BASE_ASKED_H

#include "base/sys.h"

/* system calls on files */

static inline int sys_sync_file_range(int fd, int64_t off, int64_t len,
				      int flags)
{
	return (int)uaio_sys_if(UAIO_CALL_SYNC_FILE_RANGE, SYS_sync_file_range,
				fd, off, len, flags, 0, 0);
}

/*
 * in_off and out_off: NULL for a pipe. For a file NULL means that the call uses and
 * advances the file's own position.
 */
static inline ssize_t sys_splice(int in, int64_t *in_off, int out,
				 int64_t *out_off, size_t len, int flags)
{
	return uaio_sys_if(UAIO_CALL_SPLICE, SYS_splice, in, (long)in_off, out,
			   (long)out_off, (long)len, flags);
}

static inline ssize_t sys_tee(int in, int out, size_t len, int flags)
{
	return uaio_sys_if(UAIO_CALL_TEE, SYS_tee, in, out, (long)len, flags, 0,
			   0);
}

static inline int sys_pipe2(int *ret_ends, int flags)
{
	return (int)uaio_sys_if(UAIO_CALL_PIPE2, SYS_pipe2, (long)ret_ends,
				flags, 0, 0, 0, 0);
}

/* system calls on futexes of the program */

/*
 * until: an absolute time of CLOCK_MONOTONIC; NULL: no timeout.
 * Return: the index of the futex by which the thread was woken.
 */
static inline int sys_futex_waitv(const void *futexes, uint32_t nr,
				  const struct timespec *until)
{
	const long nr_futex_waitv = 449;

	return (int)uaio_sys_if(UAIO_CALL_FUTEX_WAITV, nr_futex_waitv,
				(long)futexes, nr, 0, (long)until,
				CLOCK_MONOTONIC, 0);
}

/*
 * Do what futex_wake(2) does, but by the older call FUTEX_WAKE_BITSET. nr must not be 0,
 * because FUTEX_WAKE_BITSET would then wake one thread.
 */
static inline int sys_futex_wake(void *word, bool is_private, uint32_t nr,
				 uint32_t mask)
{
	return (int)uaio_sys6(SYS_futex, (long)word,
			      10 | (is_private ? 128 : 0), nr, 0, 0, mask);
}

/*
 * Check the address as FUTEX_WAKE_BITSET does, but wake no thread. FUTEX_WAKE_BITSET
 * with nr 0 would wake one thread. So instead call FUTEX_REQUEUE, from the futex to
 * itself, with both counts 0. FUTEX_REQUEUE then wakes no thread, and moves none.
 * Return: 0; or the error of FUTEX_WAKE_BITSET for this address.
 */
static inline int sys_futex_wake_none(void *word, bool is_private)
{
	return (int)uaio_sys6(SYS_futex, (long)word, 3 | (is_private ? 128 : 0),
			      0, 0, (long)word, 0);
}

/* Wake by the system call futex_wake(2). flags: as in struct futex_waitv. */
static inline int sys_futex_wake_by(void *word, uint32_t flags, uint32_t nr,
				    uint32_t mask)
{
	const long nr_futex_wake = 454;

	return (int)uaio_sys_if(UAIO_CALL_FUTEX_WAKE, nr_futex_wake, (long)word,
				mask, nr, flags, 0, 0);
}

/*
 * Move one waiter of the futex `from` to the futex `to`, by FUTEX_CMP_REQUEUE. Both
 * *from and *to must be 0 and private to this process.
 * Return: how many waiters were moved.
 */
static inline int sys_futex_requeue(uint32_t *from, uint32_t *to)
{
	return (int)uaio_sys6(SYS_futex, (long)from, 4 | 128, 0, 1, (long)to,
			      0);
}

/* system calls on child processes */

static inline int sys_waitid(int which, int id, void *ret_info, int options)
{
	return (int)uaio_sys_if(UAIO_CALL_WAITID, SYS_waitid, which, id,
				(long)ret_info, options, 0, 0);
}

static inline int sys_pidfd_open(int pid)
{
	const long nr_pidfd_open = 434;

	return (int)uaio_sys_if(UAIO_CALL_PIDFD_OPEN, nr_pidfd_open, pid, 0, 0,
				0, 0, 0);
}

/* system calls that read or set credentials */

/* Get the calling thread's group ids: real, effective and saved. */
static inline int sys_getresgid(uint32_t ret_ids[3])
{
	return (int)uaio_sys_if(UAIO_CALL_GETRESGID, SYS_getresgid,
				(long)&ret_ids[0], (long)&ret_ids[1],
				(long)&ret_ids[2], 0, 0, 0);
}

static inline int sys_getgroups(int nr, uint32_t *ret_ids)
{
	return (int)uaio_sys_if(UAIO_CALL_GETGROUPS, SYS_getgroups, nr,
				(long)ret_ids, 0, 0, 0, 0);
}

/*
 * Return: the user id by which the kernel checks the calling thread's access to files.
 * setfsuid(-1) returns the id and changes nothing.
 */
static inline long sys_getfsuid(void)
{
	return uaio_sys_if(UAIO_CALL_SETFSUID, SYS_setfsuid, -1, 0, 0, 0, 0, 0);
}

static inline long sys_getfsgid(void)
{
	return uaio_sys_if(UAIO_CALL_SETFSGID, SYS_setfsgid, -1, 0, 0, 0, 0, 0);
}

/*
 * Set the user id by which the kernel checks the calling thread's access to files;
 * other threads keep theirs. setfsuid(2) does not report whether it succeeds.
 */
static inline void sys_setfsuid(uint32_t id)
{
	(void)uaio_sys_if(UAIO_CALL_SETFSUID, SYS_setfsuid, id, 0, 0, 0, 0, 0);
}

static inline void sys_setfsgid(uint32_t id)
{
	(void)uaio_sys_if(UAIO_CALL_SETFSGID, SYS_setfsgid, id, 0, 0, 0, 0, 0);
}

/* Set the supplementary groups of the calling thread. */
static inline int sys_setgroups(uint32_t nr, const uint32_t *ids)
{
	return (int)uaio_sys_if(UAIO_CALL_SETGROUPS, SYS_setgroups, nr,
				(long)ids, 0, 0, 0, 0);
}

static inline int sys_capset(const void *header, const void *data)
{
	return (int)uaio_sys_if(UAIO_CALL_CAPSET, SYS_capset, (long)header,
				(long)data, 0, 0, 0, 0);
}

/* system calls that take paths */

/* `how`: the kernel's struct open_how, which is `bytes` long. */
static inline int sys_openat2(int dir, const char *path, const void *how,
			      size_t bytes)
{
	/*
	 * NR_OPENAT2 is defined here, as some installed headers lack SYS_openat2.
	 */
	enum { NR_OPENAT2 = 437 };

	return (int)uaio_sys_if(UAIO_CALL_OPENAT2, NR_OPENAT2, dir, (long)path,
				(long)how, (long)bytes, 0, 0);
}

static inline int sys_renameat2(int from_dir, const char *from, int to_dir,
				const char *to, unsigned flags)
{
	return (int)uaio_sys_if(UAIO_CALL_RENAMEAT2, SYS_renameat2, from_dir,
				(long)from, to_dir, (long)to, flags, 0);
}

static inline int sys_symlinkat(const char *target, int dir, const char *path)
{
	return (int)uaio_sys_if(UAIO_CALL_SYMLINKAT, SYS_symlinkat,
				(long)target, dir, (long)path, 0, 0, 0);
}

static inline int sys_linkat(int from_dir, const char *from, int to_dir,
			     const char *to, int flags)
{
	return (int)uaio_sys_if(UAIO_CALL_LINKAT, SYS_linkat, from_dir,
				(long)from, to_dir, (long)to, flags, 0);
}

/* system calls on sockets */

struct uaio_msghdr; /* op/args.h */

static inline ssize_t sys_sendmsg(int fd, const struct uaio_msghdr *msg,
				  int flags)
{
	return uaio_sys_if(UAIO_CALL_SENDMSG, SYS_sendmsg, fd, (long)msg, flags,
			   0, 0, 0);
}

static inline ssize_t sys_recv(int fd, void *buf, size_t len, int flags)
{
	return uaio_sys_if(UAIO_CALL_RECVFROM, SYS_recvfrom, fd, (long)buf,
			   (long)len, flags, 0, 0);
}

static inline ssize_t sys_recvmsg(int fd, struct uaio_msghdr *msg, int flags)
{
	return uaio_sys_if(UAIO_CALL_RECVMSG, SYS_recvmsg, fd, (long)msg, flags,
			   0, 0, 0);
}

/* addr and len: memory of the program, which the kernel writes; or NULL. */
static inline int sys_accept4(int fd, void *addr, void *len, int flags)
{
	return (int)uaio_sys_if(UAIO_CALL_ACCEPT, SYS_accept4, fd, (long)addr,
				(long)len, flags, 0, 0);
}

static inline int sys_connect(int fd, const void *addr, uint32_t len)
{
	return (int)uaio_sys_if(UAIO_CALL_CONNECT, SYS_connect, fd, (long)addr,
				len, 0, 0, 0);
}

static inline int sys_shutdown(int fd, int how)
{
	return (int)uaio_sys_if(UAIO_CALL_SHUTDOWN, SYS_shutdown, fd, how, 0, 0,
				0, 0);
}

static inline int sys_socket(int domain, int type, int protocol)
{
	return (int)uaio_sys_if(UAIO_CALL_SOCKET, SYS_socket, domain, type,
				protocol, 0, 0, 0);
}

static inline int sys_bind(int fd, const void *addr, uint32_t len)
{
	return (int)uaio_sys_if(UAIO_CALL_BIND, SYS_bind, fd, (long)addr, len,
				0, 0, 0);
}

static inline int sys_listen(int fd, int backlog)
{
	return (int)uaio_sys_if(UAIO_CALL_LISTEN, SYS_listen, fd, backlog, 0, 0,
				0, 0);
}

static inline int sys_setsockopt(int fd, int level, int name, const void *value,
				 uint32_t size)
{
	return (int)uaio_sys_if(UAIO_CALL_SETSOCKOPT, SYS_setsockopt, fd, level,
				name, (long)value, size, 0);
}

/*
 * `request`: SIOCINQ or SIOCOUTQ. *ret: how many bytes the socket has queued to receive,
 * or to send.
 */
static inline int sys_ioctl_socket(int fd, unsigned long request, int *ret)
{
	return (int)uaio_sys_if(UAIO_CALL_IOCTL_SOCKET, SYS_ioctl, fd,
				(long)request, (long)ret, 0, 0, 0);
}

/* system calls on extended attributes */

static inline ssize_t sys_getxattr(const char *path, const char *name,
				   void *ret_value, size_t bytes)
{
	return uaio_sys_if(UAIO_CALL_GETXATTR, SYS_getxattr, (long)path,
			   (long)name, (long)ret_value, (long)bytes, 0, 0);
}

static inline int sys_setxattr(const char *path, const char *name,
			       const void *value, size_t bytes, int flags)
{
	return (int)uaio_sys_if(UAIO_CALL_SETXATTR, SYS_setxattr, (long)path,
				(long)name, (long)value, (long)bytes, flags, 0);
}

static inline ssize_t sys_fgetxattr(int fd, const char *name, void *ret_value,
				    size_t bytes)
{
	return uaio_sys_if(UAIO_CALL_FGETXATTR, SYS_fgetxattr, fd, (long)name,
			   (long)ret_value, (long)bytes, 0, 0);
}

static inline int sys_fsetxattr(int fd, const char *name, const void *value,
				size_t bytes, int flags)
{
	return (int)uaio_sys_if(UAIO_CALL_FSETXATTR, SYS_fsetxattr, fd,
				(long)name, (long)value, (long)bytes, flags, 0);
}

#endif /* UAIO_BASE_ASKED_H */
