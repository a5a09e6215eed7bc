/* SPDX-License-Identifier: MIT */
#include "trap/call.h"

#if defined(__x86_64__)
#include <errno.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/sleepcall.h"
#include "base/uaddr.h"
#include "patch/patch.h"
#include "trap/exec.h"
#include "trap/signal.h"
#include "trap/site.h"
#include "trap/thread.h"

enum {
	MASK_BYTES = 8,
	SET_GS = 0x1001, /* arch_prctl */
	SET_FS = 0x1002,
	GET_FS = 0x1003,
	GET_GS = 0x1004,
	SET_DISPATCH = 59, /* PR_SET_SYSCALL_USER_DISPATCH */
	PATH_BYTES = 32,
	NR_EPOLL_PWAIT2 = 441,
	NR_CLOSE_RANGE = 436,
	NR_LANDLOCK_RESTRICT_SELF = 446,
	NR_LSM_SET_SELF_ATTR = 460,
};

static const uint16_t numbers[] = {
	SYS_io_setup,
	SYS_io_destroy,
	SYS_io_getevents,
	SYS_io_submit,
	SYS_io_cancel,
	SYS_io_pgetevents,
	SYS_io_uring_setup,
	SYS_io_uring_enter,
	SYS_io_uring_register,
	SYS_rt_sigaction,
	SYS_rt_sigprocmask,
	SYS_rt_sigsuspend,
	SYS_sigaltstack,
	SYS_brk,
	SYS_clone,
	SYS_clone3,
	SYS_fork,
	SYS_vfork,
	SYS_execve,
	SYS_execveat,
	SYS_exit,
	SYS_exit_group,
	SYS_arch_prctl,
	SYS_prctl,
	SYS_seccomp,
	SYS_readlink,
	SYS_readlinkat,
	SYS_close,
	SYS_dup2,
	SYS_dup3,
	NR_CLOSE_RANGE,
	SYS_unshare,
	SYS_mmap,
	SYS_munmap,
	SYS_mremap,
	SYS_mprotect,
	SYS_pkey_mprotect,
	SYS_poll,
	SYS_ppoll,
	SYS_select,
	SYS_pselect6,
	SYS_epoll_ctl,
	SYS_epoll_wait,
	SYS_epoll_pwait,
	NR_EPOLL_PWAIT2,
	SYS_setuid,
	SYS_setgid,
	SYS_setreuid,
	SYS_setregid,
	SYS_setresuid,
	SYS_setresgid,
	SYS_setgroups,
	SYS_setfsuid,
	SYS_setfsgid,
	SYS_capset,
	SYS_setns,
	SYS_ioprio_set,
	SYS_keyctl,
	SYS_add_key,
	SYS_request_key,
	NR_LANDLOCK_RESTRICT_SELF,
	NR_LSM_SET_SELF_ATTR,
};

static struct {
	const struct uaio_trap_ops *ops;
	const char *exe;
} calls;

/* Let the program's thread make the call itself, with its registers unchanged. */
static long pass(struct uaio_trap_thread *self)
{
	self->target = self->pass;
	return (long)self->nr;
}

/*
 * Polling calls (poll, select, epoll_wait) that the library serves. All signals are
 * blocked until the thread sleeps. While the thread sleeps, it has the signal mask that
 * the call passes. If the call passes no mask, the thread has its own mask.
 */

struct masked {
	const uint64_t *mask;
	size_t bytes;
};

/* Return: false if the mask cannot be read. The kernel then reports the error. */
static bool read_mask(const void *mask, size_t bytes, uint64_t *ret_mask)
{
	if (bytes != MASK_BYTES || !uaio_can_read((uintptr_t)mask, MASK_BYTES))
		return false;
	*ret_mask = *(const uint64_t *)mask & ~UAIO_TRAP_SIGSYS_BIT;
	return true;
}

static long poll_masked(struct uaio_trap_thread *self, long nr, const long a[6],
			unsigned which)
{
	long b[6];
	uint64_t mask;

	memcpy(b, a, sizeof(b));
	if (a[which] &&
	    !read_mask((const void *)a[which], (size_t)a[which + 1], &mask))
		return pass(self);
	uaio_trap_block(self);
	if (!a[which])
		mask = self->mask;
	b[which] = (long)&mask;
	b[which + 1] = MASK_BYTES;
	return calls.ops->call(nr, b);
}

static long poll_ms(struct uaio_trap_thread *self, const long a[6])
{
	int ms = (int)a[2];
	struct timespec timeout = {
		.tv_sec = ms / 1000,
		.tv_nsec = ms % 1000 * 1000000l,
	};

	return poll_masked(
		self, SYS_ppoll,
		(const long[6]){ a[0], a[1], ms < 0 ? 0 : (long)&timeout }, 3);
}

static long select_masked(struct uaio_trap_thread *self, const long a[6])
{
	const struct masked *given = (const struct masked *)a[5];
	struct masked masked = { .bytes = MASK_BYTES };
	uint64_t mask;

	if (given &&
	    (!uaio_can_read((uintptr_t)given, sizeof(*given)) ||
	     (given->mask && !read_mask(given->mask, given->bytes, &mask))))
		return pass(self);
	uaio_trap_block(self);
	if (!given || !given->mask)
		mask = self->mask;
	masked.mask = &mask;
	return calls.ops->call(
		SYS_pselect6,
		(const long[6]){ a[0], a[1], a[2], a[3], a[4], (long)&masked });
}

/* select(): like the kernel, store the remaining time. */
static long select_old(struct uaio_trap_thread *self, const long a[6])
{
	struct timeval *left = (struct timeval *)a[4];
	struct timespec timeout;
	long ret;

	if (!left)
		return select_masked(self,
				     (const long[6]){ a[0], a[1], a[2], a[3] });
	if (!uaio_can_write((uintptr_t)left, sizeof(*left)) ||
	    left->tv_sec < 0 || left->tv_usec < 0 || left->tv_usec >= 1000000)
		return pass(self);
	timeout.tv_sec = left->tv_sec;
	timeout.tv_nsec = left->tv_usec * 1000;
	ret = select_masked(self, (const long[6]){ a[0], a[1], a[2], a[3],
						   (long)&timeout });
	left->tv_sec = timeout.tv_sec;
	left->tv_usec = timeout.tv_nsec / 1000;
	return ret;
}

/*
 * Return: whether the signal mask passed to the call contains SIGSYS. During such a
 * call a handler would run with SIGSYS blocked, and a trapped system call of the
 * handler would kill the process.
 */
static bool blocks_sigsys(long nr, const long a[6])
{
	const struct masked *given = (const struct masked *)a[5];
	uintptr_t mask = 0;

	switch (nr) {
	case SYS_ppoll: mask = (uintptr_t)a[3]; break;
	case SYS_epoll_pwait:
	case NR_EPOLL_PWAIT2: mask = (uintptr_t)a[4]; break;
	case SYS_pselect6:
		if (given && uaio_can_read((uintptr_t)given, sizeof(*given)))
			mask = (uintptr_t)given->mask;
		break;
	default: break;
	}
	return mask && uaio_can_read(mask, MASK_BYTES) &&
	       *(const uint64_t *)mask & UAIO_TRAP_SIGSYS_BIT;
}

static long poll_any(struct uaio_trap_thread *self, long nr, const long a[6])
{
	uaio_trap_take_back(self);
	if (!calls.ops->polls() && !blocks_sigsys(nr, a))
		return pass(self);
	switch (nr) {
	case SYS_poll: return poll_ms(self, a);
	case SYS_ppoll: return poll_masked(self, nr, a, 3);
	case SYS_select: return select_old(self, a);
	case SYS_pselect6: return select_masked(self, a);
	case SYS_epoll_wait:
		return poll_masked(self, SYS_epoll_pwait,
				   (const long[6]){ a[0], a[1], a[2], a[3] },
				   4);
	default: return poll_masked(self, nr, a, 4);
	}
}

static long suspend(struct uaio_trap_thread *self, const long a[6])
{
	uint64_t mask;

	uaio_trap_take_back(self);
	if (!read_mask((const void *)a[0], (size_t)a[1], &mask))
		return pass(self);
	uaio_trap_block(self);
	/* All signals are blocked, so no handler runs before the sleep begins. */
	return uaio_sys6(SYS_rt_sigsuspend, (long)&mask, MASK_BYTES, 0, 0, 0,
			 0);
}

static long give_stack(struct uaio_trap_thread *self, const long a[6])
{
	long ret;

	return uaio_trap_sigaltstack(self, a, &ret) ? ret : pass(self);
}

/*
 * System calls that create threads and processes
 */

static bool is_plain_fork(uint64_t flags, uint64_t stack)
{
	const uint64_t more =
		CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | CLONE_PARENT_SETTID;

	return !stack && (flags & ~more) == SIGCHLD;
}

static long clone_old(struct uaio_trap_thread *self, const long a[6])
{
	uint64_t flags = (uint64_t)a[0], stack = (uint64_t)a[1];

	if (is_plain_fork(flags, stack))
		return uaio_trap_fork(self, flags, (int *)a[2], (int *)a[3]);
	return uaio_trap_clone(self, flags, stack);
}

static long clone_new(struct uaio_trap_thread *self, const long a[6])
{
	const struct clone_args *args = (const struct clone_args *)a[0];
	uint64_t flags, stack;

	if ((size_t)a[1] < offsetof(struct clone_args, tls) + 8 ||
	    !uaio_can_read((uintptr_t)args, (size_t)a[1]))
		return pass(self);
	flags = args->flags | (args->exit_signal & 0xff);
	stack = args->stack ? args->stack + args->stack_size : 0;
	if (is_plain_fork(flags, stack) &&
	    (size_t)a[1] <= offsetof(struct clone_args, tls) + 8)
		return uaio_trap_fork(self, flags,
				      (int *)(uintptr_t)args->parent_tid,
				      (int *)(uintptr_t)args->child_tid);
	return uaio_trap_clone(self, flags, stack);
}

/*
 * Make a process or a thread: fork, vfork, clone, clone3.
 * Return: the result of the call; or nr, if the thread must make the call by the code
 * at self->target.
 */
static long start_child(struct uaio_trap_thread *self, long nr, const long a[6])
{
	const long fork_args[6] = { SIGCHLD };
	const uint64_t usual = self->target;
	long ret;

	/* Enable the alternate stack, as the child inherits it; block all signals. */
	if (self->is_off_alternate)
		uaio_trap_return_alternate(self);
	switch (nr) {
	case SYS_clone: ret = clone_old(self, a); break;
	case SYS_clone3: ret = clone_new(self, a); break;
	case SYS_fork: ret = clone_old(self, fork_args); break;
	default: ret = uaio_trap_clone(self, CLONE_VM | CLONE_VFORK, 0); break;
	}
	return self->target == usual ? ret : (long)self->nr;
}

static long end_thread(struct uaio_trap_thread *self, const long a[6])
{
	long code = a[0];

	if (uaio_trap_exit(self, &code)) {
		calls.ops->exiting();
		(void)uaio_sys6(SYS_exit_group, code, 0, 0, 0, 0, 0);
	}
	return uaio_sys6(SYS_exit, a[0], 0, 0, 0, 0, 0);
}

/* System calls that concern only the calling thread */

static long registers(struct uaio_trap_thread *self, const long a[6])
{
	switch (a[0]) {
	case SET_FS:
		if ((uint64_t)a[1] >= UAIO_USER_END)
			return -EPERM;
		self->fs = (uint64_t)a[1];
		return 0;
	case GET_FS:
		if (!uaio_can_write((uint64_t)a[1], 8))
			return -EFAULT;
		*(uint64_t *)a[1] = self->fs;
		return 0;
	case GET_GS: return uaio_store_zero((uint64_t)a[1]) ? 0 : -EFAULT;
	/* refused: register gs belongs to the library (thread.h) */
	case SET_GS: return -EINVAL;
	default: return pass(self);
	}
}

static long filter(long nr, const long a[6])
{
	uaio_trap_exec_filtered();
	return calls.ops->call(nr, a);
}

static long control(struct uaio_trap_thread *self, const long a[6])
{
	switch (a[0]) {
	/* fail like a kernel without syscall user dispatch */
	case SET_DISPATCH: return -EINVAL;
	case PR_SET_SECCOMP: return filter(SYS_prctl, a);
	case PR_SET_SECUREBITS: return calls.ops->call(SYS_prctl, a);
	default: return pass(self);
	}
}

/*
 * The kernel changes the credentials of the calling thread only. If the program has a
 * single thread, call the C library's function instead of the system call. This
 * function, such as setuid(), also changes the library's threads. If the program has
 * several threads, change only this thread, which thus gets an identity of its own
 * (proc/identity.h).
 */
static long change_ids(long nr, const long a[6])
{
	int ret;

	if (!uaio_trap_is_alone())
		return calls.ops->call(nr, a);
	switch (nr) {
	case SYS_setuid: ret = setuid((uid_t)a[0]); break;
	case SYS_setgid: ret = setgid((gid_t)a[0]); break;
	case SYS_setreuid: ret = setreuid((uid_t)a[0], (uid_t)a[1]); break;
	case SYS_setregid: ret = setregid((gid_t)a[0], (gid_t)a[1]); break;
	case SYS_setresuid:
		ret = setresuid((uid_t)a[0], (uid_t)a[1], (uid_t)a[2]);
		break;
	case SYS_setresgid:
		ret = setresgid((gid_t)a[0], (gid_t)a[1], (gid_t)a[2]);
		break;
	default: ret = setgroups((size_t)a[0], (const gid_t *)a[1]); break;
	}
	return ret < 0 ? -errno : 0;
}

/*
 * Return: whether the string at addr is /proc/self/exe. For the kernel this path names
 * the file of `uaio`, so the library must answer with the program's path.
 */
static bool is_own_exe(uintptr_t addr)
{
	char path[PATH_BYTES], own[PATH_BYTES];

	if (!calls.exe || !uaio_is_accessible(addr, sizeof(path)) ||
	    !uaio_can_read(addr, sizeof(path)))
		return false;
	memcpy(path, (const void *)addr, sizeof(path));
	(void)snprintf(own, sizeof(own), "/proc/%d/exe", sys_getpid());
	return !strncmp(path, "/proc/self/exe", sizeof(path)) ||
	       !strncmp(path, own, sizeof(path));
}

static long read_link(struct uaio_trap_thread *self, const long a[6],
		      unsigned path)
{
	size_t bytes;

	if (!is_own_exe((uintptr_t)a[path]) || (int)a[path + 2] <= 0)
		return pass(self);
	bytes = strlen(calls.exe);
	if (bytes > (size_t)a[path + 2])
		bytes = (size_t)a[path + 2];
	if (!uaio_can_write((uintptr_t)a[path + 1], bytes))
		return -EFAULT;
	memcpy((void *)a[path + 1], calls.exe, bytes);
	return (long)bytes;
}

/* Memory mappings: which code the library may change */

/*
 * Return: how many bytes of the mapping are in the file. Access to pages of the mapping
 * after the file's end raises SIGBUS.
 */
static uint64_t file_bytes(const long a[6])
{
	const uint64_t bytes = (uint64_t)a[1], offset = (uint64_t)a[5];
	struct stat st;

	if (sys_fstat((int)a[4], &st) < 0 || offset >= (uint64_t)st.st_size)
		return 0;
	return (uint64_t)st.st_size - offset < bytes
		       ? (uint64_t)st.st_size - offset
		       : bytes;
}

static long map(const long a[6])
{
	const long protection = PROT_READ | PROT_WRITE | PROT_EXEC;
	long ret;

	if (a[3] & MAP_FIXED)
		uaio_trap_may_not_change((uint64_t)a[0],
					 (uint64_t)a[0] + (uint64_t)a[1]);
	ret = calls.ops->call(SYS_mmap, a);
	if (!sys_is_map_error((void *)ret) &&
	    (a[2] & protection) == (PROT_READ | PROT_EXEC) &&
	    (a[3] & MAP_TYPE) == MAP_PRIVATE && !(a[3] & MAP_ANONYMOUS))
		uaio_trap_may_change((uint64_t)ret,
				     (uint64_t)ret + file_bytes(a));
	return ret;
}

static long unmap(struct uaio_trap_thread *self, const long a[6])
{
	long ret;

	uaio_trap_may_not_change((uint64_t)a[0],
				 (uint64_t)a[0] + (uint64_t)a[1]);
	ret = calls.ops->call(SYS_munmap, a);
	if (ret == 0)
		uaio_trap_lend_if_unmapped(self, (uint64_t)a[0],
					   (uint64_t)a[1]);
	return ret;
}

static long change_memory(struct uaio_trap_thread *self, long nr,
			  const long a[6])
{
	uaio_trap_may_not_change((uint64_t)a[0],
				 (uint64_t)a[0] + (uint64_t)a[1]);
	if (nr == SYS_mremap && a[3] & MREMAP_FIXED)
		uaio_trap_may_not_change((uint64_t)a[4],
					 (uint64_t)a[4] + (uint64_t)a[2]);
	return nr == SYS_mremap ? calls.ops->call(nr, a) : pass(self);
}

/* Return: whether nr is a system call of kernel AIO or io_uring. */
static bool is_aio(long nr)
{
	return (nr >= SYS_io_setup && nr <= SYS_io_cancel) ||
	       nr == SYS_io_pgetevents ||
	       (nr >= SYS_io_uring_setup && nr <= SYS_io_uring_register);
}

static long answer_call(struct uaio_trap_thread *self, long nr, const long a[6])
{
	switch (nr) {
	case SYS_rt_sigaction: return uaio_trap_sigaction(a);
	case SYS_rt_sigprocmask: return uaio_trap_sigprocmask(self, a);
	case SYS_rt_sigsuspend: return suspend(self, a);
	case SYS_sigaltstack: return give_stack(self, a);
	case SYS_munmap: return unmap(self, a);
	case SYS_brk: return (long)uaio_trap_brk((uint64_t)a[0]);
	case SYS_clone:
	case SYS_clone3:
	case SYS_fork:
	case SYS_vfork: return start_child(self, nr, a);
	case SYS_execve:
	case SYS_execveat: return uaio_trap_exec(self, nr, a);
	case SYS_exit: return end_thread(self, a);
	case SYS_arch_prctl: return registers(self, a);
	case SYS_prctl: return control(self, a);
	case SYS_seccomp: return filter(nr, a);
	case SYS_readlink: return read_link(self, a, 0);
	case SYS_readlinkat: return read_link(self, a, 1);
	case SYS_mmap: return map(a);
	case SYS_mremap:
	case SYS_mprotect:
	case SYS_pkey_mprotect: return change_memory(self, nr, a);
	case SYS_poll:
	case SYS_ppoll:
	case SYS_select:
	case SYS_pselect6:
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case NR_EPOLL_PWAIT2: return poll_any(self, nr, a);
	case SYS_setuid:
	case SYS_setgid:
	case SYS_setreuid:
	case SYS_setregid:
	case SYS_setresuid:
	case SYS_setresgid:
	case SYS_setgroups: return change_ids(nr, a);
	default:
		/* The slot checks only 16 bits of nr (uaio_trap_served): check all. */
		if (nr < 0 || nr >= UAIO_TRAP_SERVED_BYTES)
			return pass(self);
		/*
		 * Refuse AIO to a process that shares the program's memory: the process
		 * may have another descriptor table than the library.
		 */
		if (unlikely(self->is_process) && is_aio(nr))
			return -EAGAIN;
		return calls.ops->call(nr, a);
	}
}

static long answer(int low, const long a[6])
{
	struct uaio_trap_thread *self = uaio_trap_self();
	long ret;

	(void)low;
	uaio_trap_look(self);
	/* The handler of a fault (signal.h, I3) is over: use the whole stack again. */
	if (unlikely(self->nested_below) && !uaio_trap_is_nested(self)) {
		self->stack = self->top;
		self->nested_below = 0;
	}
	if (unlikely(self->is_off_alternate))
		uaio_trap_leave_alternate(self);
	ret = answer_call(self, (long)self->nr, a);
	if (unlikely(self->is_off_alternate))
		uaio_trap_return_alternate(self);
	return ret;
}

void uaio_trap_calls_begin(const struct uaio_trap_ops *ops, const char *exe)
{
	calls.ops = ops;
	calls.exe = exe;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		uaio_trap_served[numbers[i]] = 1;
	uaio_patch_save_load();
	uaio_patch_other = answer;
}
#endif
