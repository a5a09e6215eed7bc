/* SPDX-License-Identifier: MIT */
/*
 * The system calls that can fail, and the hook that lets one of them fail
 *
 * The table contains an error of a call if the call's manual page lists the error and a
 * correct program can get it. So the table has no EBADF and no EFAULT. EINVAL is there
 * only where the arguments are right but the kernel may refuse them. ENOSYS is the
 * error of a kernel or a sandbox without the call (base/calls.h): with ENOSYS, all
 * calls with this number fail. A call without errors in the table cannot fail; it is
 * only delayed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "proc/ownfd.h"
#include "unit.h"
#include "fail-each.h"

enum {
	RWF_NOWAIT_ = 8,
	WIPE_ON_FORK = 18,
	ADD_SEALS = 1033,
	DUPFD_QUERY = 1027,
	OFD_SETLK = 37,
	NR_CACHESTAT = 451,
	NR_EPOLL_PWAIT2 = 441,
	NR_FUTEX_WAITV = 449,
	NR_PIDFD_OPEN = 434,
	NR_THREAD =
		-1, /* stands for pthread_create(), which is no system call */
	DELAY_NS = 2000000,
};

/*
 * Kinds
 */

/*
 * Return: whether the library opened the call's descriptor for its own use. A write
 * to such a descriptor is taken for a write to an eventfd by which the library's threads
 * wake each other. The kernel never fails such a write, so no fault may fail it.
 */
static bool is_of_own(const long args[6])
{
	return uaio_ownfd_has((int)args[0]);
}

/*
 * Return: whether the call writes 8 bytes. Only the length is checked: each write of 8
 * bytes is taken for a write to an eventfd. As the counters of the eventfds never get
 * full, the kernel would not fail such a write, so no fault may fail it.
 */
static bool is_count(const long args[6])
{
	return args[2] == sizeof(uint64_t);
}

static bool never_waits(const long args[6])
{
	return uaio_sys_raw(SYS_fcntl, args[0], F_GETFL, 0, 0, 0, 0) &
	       O_NONBLOCK;
}

static bool is_nowait(const long args[6])
{
	return args[5] & RWF_NOWAIT_;
}

static bool is_message_nowait(const long args[6])
{
	return args[3] & MSG_DONTWAIT || never_waits(args);
}

static bool is_msghdr_nowait(const long args[6])
{
	return args[2] & MSG_DONTWAIT || never_waits(args);
}

static bool is_duplication(const long args[6])
{
	return args[1] == F_DUPFD_CLOEXEC || args[1] == F_DUPFD;
}

static bool is_query(const long args[6])
{
	return args[1] == DUPFD_QUERY;
}

static bool is_seal(const long args[6])
{
	return args[1] == ADD_SEALS;
}

static bool is_lock(const long args[6])
{
	return args[1] == OFD_SETLK;
}

static bool is_removal(const long args[6])
{
	return args[1] == EPOLL_CTL_DEL;
}

static bool is_addition(const long args[6])
{
	return args[1] == EPOLL_CTL_ADD;
}

static bool is_futex_wait(const long args[6])
{
	long op = args[1] & FUTEX_CMD_MASK;

	return op == FUTEX_WAIT || op == FUTEX_WAIT_BITSET;
}

static bool is_wipe(const long args[6])
{
	return args[2] == WIPE_ON_FORK;
}

static bool is_of_file(const long args[6])
{
	return (int)args[4] >= 0;
}

enum {
	DATA = FAIL_IS_DATA,
	MADE = FAIL_IS_MADE,
	BYTES = FAIL_CUT_BYTES,
	VECTOR = FAIL_CUT_VECTOR,
};

/* How calls may fail. For each call, only the first row that matches the call holds. */
const struct fail_kind fail_kinds[] = {
	/* data */
	{ "pread64", SYS_pread64, NULL, DATA | BYTES, { EINTR, EIO } },
	{ "pwrite64",
	  SYS_pwrite64,
	  NULL,
	  DATA | BYTES,
	  { EINTR, EIO, ENOSPC, EDQUOT, EFBIG, EPERM } },
	{ "preadv", SYS_preadv, NULL, DATA | VECTOR, { EINTR, EIO } },
	{ "pwritev",
	  SYS_pwritev,
	  NULL,
	  DATA | VECTOR,
	  { EINTR, EIO, ENOSPC, EDQUOT, EFBIG, EPERM } },
	{ "preadv2-nowait",
	  SYS_preadv2,
	  is_nowait,
	  DATA | VECTOR,
	  { EAGAIN, EOPNOTSUPP, EINTR, EIO, ENOSYS } },
	{ "preadv2", SYS_preadv2, NULL, DATA | VECTOR, { EINTR, EIO } },
	{ "pwritev2-nowait",
	  SYS_pwritev2,
	  is_nowait,
	  DATA | VECTOR,
	  { EAGAIN, EOPNOTSUPP, EINTR, EIO, ENOSPC, ENOSYS } },
	{ "pwritev2",
	  SYS_pwritev2,
	  NULL,
	  DATA | VECTOR,
	  { EINTR, EIO, ENOSPC, EDQUOT, EFBIG } },
	{ "read-own", SYS_read, is_of_own, 0, { EAGAIN } },
	{ "read-nonblock",
	  SYS_read,
	  never_waits,
	  DATA | BYTES,
	  { EAGAIN, EINTR, EIO } },
	{ "read", SYS_read, NULL, DATA | BYTES, { EINTR, EIO } },
	{ "readv-nonblock",
	  SYS_readv,
	  never_waits,
	  DATA | VECTOR,
	  { EAGAIN, EINTR, EIO } },
	{ "readv", SYS_readv, NULL, DATA | VECTOR, { EINTR, EIO } },
	{ "write-own", SYS_write, is_of_own, 0, { 0 } },
	{ "write-count", SYS_write, is_count, 0, { 0 } },
	{ "write-nonblock",
	  SYS_write,
	  never_waits,
	  DATA | BYTES,
	  { EAGAIN, EINTR, EIO } },
	{ "write", SYS_write, NULL, DATA | BYTES, { EINTR, EIO } },
	{ "writev-nonblock",
	  SYS_writev,
	  never_waits,
	  DATA | VECTOR,
	  { EAGAIN, EINTR, EIO } },
	{ "writev", SYS_writev, NULL, DATA | VECTOR, { EINTR, EIO } },
	{ "vmsplice", SYS_vmsplice, NULL, DATA, { EAGAIN, ENOMEM, ENOSYS } },
	{ "splice", SYS_splice, NULL, DATA, { EAGAIN, ENOMEM } },
	{ "recvfrom-nowait",
	  SYS_recvfrom,
	  is_message_nowait,
	  DATA | BYTES,
	  { EAGAIN, EINTR, ENOMEM } },
	{ "recvfrom", SYS_recvfrom, NULL, DATA | BYTES, { EINTR, ENOMEM } },
	{ "recvmsg-nowait",
	  SYS_recvmsg,
	  is_msghdr_nowait,
	  DATA,
	  { EAGAIN, EINTR, ENOMEM } },
	{ "recvmsg", SYS_recvmsg, NULL, DATA, { EINTR, ENOMEM } },
	{ "sendto-nowait",
	  SYS_sendto,
	  is_message_nowait,
	  DATA | BYTES,
	  { EAGAIN, EINTR, ENOBUFS, ENOMEM, ECONNRESET } },
	{ "sendto",
	  SYS_sendto,
	  NULL,
	  DATA | BYTES,
	  { EINTR, ENOBUFS, ENOMEM, ECONNRESET } },
	{ "sendmsg-nowait",
	  SYS_sendmsg,
	  is_msghdr_nowait,
	  DATA,
	  { EAGAIN, EINTR, ENOBUFS, ENOMEM, ECONNRESET } },
	{ "sendmsg",
	  SYS_sendmsg,
	  NULL,
	  DATA,
	  { EINTR, ENOBUFS, ENOMEM, ECONNRESET } },
	{ "fsync", SYS_fsync, NULL, DATA, { EINTR, EIO, ENOSPC, EDQUOT } },
	{ "fdatasync",
	  SYS_fdatasync,
	  NULL,
	  DATA,
	  { EINTR, EIO, ENOSPC, EDQUOT } },
	{ "fallocate",
	  SYS_fallocate,
	  NULL,
	  DATA,
	  { EINTR, EIO, ENOSPC, EFBIG, EPERM } },
	{ "ftruncate",
	  SYS_ftruncate,
	  NULL,
	  DATA,
	  { EINTR, EIO, EFBIG, EPERM } },
	{ "process_vm_readv",
	  SYS_process_vm_readv,
	  NULL,
	  0,
	  { EPERM, ENOMEM, ENOSYS } },
	{ "process_vm_writev",
	  SYS_process_vm_writev,
	  NULL,
	  0,
	  { EPERM, ENOMEM, ENOSYS } },
	/* descriptors, and queries about a file */
	{ "fcntl-dupfd", SYS_fcntl, is_duplication, 0, { EMFILE } },
	{ "fcntl-query", SYS_fcntl, is_query, 0, { EINVAL } },
	{ "fcntl-seal", SYS_fcntl, is_seal, 0, { EPERM } },
	{ "fcntl-lock", SYS_fcntl, is_lock, 0, { EAGAIN, ENOLCK } },
	{ "fcntl", SYS_fcntl, NULL, 0, { 0 } },
	{ "dup3", SYS_dup3, NULL, 0, { EBUSY, EINTR, ENOSYS } },
	{ "close", SYS_close, NULL, MADE, { EINTR, EIO, ENOSPC, EDQUOT } },
	{ "openat",
	  SYS_openat,
	  NULL,
	  0,
	  { EMFILE, ENFILE, ENOMEM, EACCES, ENOENT, EINTR } },
	{ "readlinkat",
	  SYS_readlinkat,
	  NULL,
	  0,
	  { EACCES, EIO, ENOMEM, ENOENT } },
	{ "memfd_create",
	  SYS_memfd_create,
	  NULL,
	  0,
	  { EMFILE, ENFILE, ENOMEM } },
#ifdef SYS_fstat
	{ "fstat", SYS_fstat, NULL, 0, { ENOMEM } },
#endif
	{ "newfstatat", SYS_newfstatat, NULL, 0, { EACCES, ENOMEM } },
	{ "statx", SYS_statx, NULL, 0, { ENOMEM, ENOSYS } },
	{ "fstatfs", SYS_fstatfs, NULL, 0, { EINTR, EIO, ENOMEM, ENOSYS } },
	{ "lseek", SYS_lseek, NULL, 0, { 0 } },
	{ "ioctl", SYS_ioctl, NULL, 0, { 0 } },
	{ "fadvise64", SYS_fadvise64, NULL, 0, { 0 } },
	{ "cachestat", NR_CACHESTAT, NULL, 0, { EOPNOTSUPP, ENOSYS } },
	{ "getsockopt", SYS_getsockopt, NULL, 0, { 0 } },
	/* waiting */
	{ "eventfd2",
	  SYS_eventfd2,
	  NULL,
	  0,
	  { EMFILE, ENFILE, ENOMEM, ENODEV } },
	{ "epoll_create1",
	  SYS_epoll_create1,
	  NULL,
	  0,
	  { EMFILE, ENFILE, ENOMEM } },
	{ "epoll_ctl-del", SYS_epoll_ctl, is_removal, 0, { 0 } },
	{ "epoll_ctl-add", SYS_epoll_ctl, is_addition, 0, { ENOMEM, ENOSPC } },
	{ "epoll_ctl", SYS_epoll_ctl, NULL, 0, { ENOMEM } },
	{ "epoll_pwait", SYS_epoll_pwait, NULL, 0, { EINTR } },
	{ "epoll_pwait2", NR_EPOLL_PWAIT2, NULL, 0, { EINTR, ENOSYS } },
	{ "ppoll", SYS_ppoll, NULL, FAIL_IS_POLL, { EINTR, ENOMEM } },
	{ "pselect6", SYS_pselect6, NULL, 0, { EINTR, ENOMEM, ENOSYS } },
	{ "futex-wait", SYS_futex, is_futex_wait, 0, { EAGAIN, EINTR } },
	{ "futex", SYS_futex, NULL, 0, { 0 } },
	/* the kernel's own AIO and io_uring */
	{ "io_setup", SYS_io_setup, NULL, 0, { EAGAIN, ENOMEM, ENOSYS } },
	{ "io_submit", SYS_io_submit, NULL, 0, { EAGAIN, ENOSYS } },
	{ "io_destroy", SYS_io_destroy, NULL, 0, { 0 } },
	{ "io_uring_setup",
	  SYS_io_uring_setup,
	  NULL,
	  0,
	  { EMFILE, ENFILE, ENOMEM, EPERM, ENOSYS } },
	{ "io_uring_enter",
	  SYS_io_uring_enter,
	  NULL,
	  0,
	  { EAGAIN, EBUSY, EINTR } },
	{ "io_uring_register",
	  SYS_io_uring_register,
	  NULL,
	  0,
	  { ENOMEM, EBUSY } },
	/* memory */
	{ "mmap-file", SYS_mmap, is_of_file, 0, { ENOMEM, EAGAIN, ENFILE } },
	{ "mmap", SYS_mmap, NULL, 0, { ENOMEM, EAGAIN } },
	{ "mremap", SYS_mremap, NULL, 0, { ENOMEM, EAGAIN } },
	{ "munmap", SYS_munmap, NULL, 0, { ENOMEM } },
	{ "madvise-wipe", SYS_madvise, is_wipe, 0, { EINVAL } },
	{ "madvise", SYS_madvise, NULL, 0, { EAGAIN, ENOMEM } },
	/* threads and signals */
	{ "pthread_create", NR_THREAD, NULL, 0, { EAGAIN } },
	{ "sched_setaffinity",
	  SYS_sched_setaffinity,
	  NULL,
	  0,
	  { EPERM, EINVAL } },
	{ "ioprio_get", SYS_ioprio_get, NULL, 0, { ENOSYS } },
	{ "ioprio_set", SYS_ioprio_set, NULL, 0, { EPERM, ENOSYS } },
	{ "get_robust_list", SYS_get_robust_list, NULL, 0, { EPERM, ENOSYS } },
	{ "tgkill", SYS_tgkill, NULL, 0, { EAGAIN } },
	{ "rt_sigqueueinfo", SYS_rt_sigqueueinfo, NULL, 0, { EAGAIN } },
	{ "rt_tgsigqueueinfo", SYS_rt_tgsigqueueinfo, NULL, 0, { EAGAIN } },
	{ "pidfd_open", NR_PIDFD_OPEN, NULL, 0, { EMFILE, ENFILE, ENOMEM } },
	{ "waitid", SYS_waitid, NULL, DATA, { EINTR } },
	{ "futex_waitv", NR_FUTEX_WAITV, NULL, 0, { EAGAIN, EINTR, ENOSYS } },
};

const unsigned fail_nr_kinds = NR_ELEMENTS(fail_kinds);

/* Return: the index of the first row that matches the call; -1 if none does. */
static int kind_of(long nr, const long args[6])
{
	for (unsigned i = 0; i < NR_ELEMENTS(fail_kinds); i++)
		if (fail_kinds[i].nr == nr &&
		    (!fail_kinds[i].is || fail_kinds[i].is(args)))
			return (int)i;
	return -1;
}

/*
 * Short counts
 */

static size_t vector_bytes(const struct iovec *iov, long nr)
{
	size_t bytes = 0;

	for (long i = 0; i < nr; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

static bool can_be_cut(const struct fail_kind *kind, const long args[6])
{
	if (kind->flags & FAIL_CUT_BYTES)
		return args[2] > 1;
	return kind->flags & FAIL_CUT_VECTOR &&
	       vector_bytes((const struct iovec *)args[1], args[2]) > 1;
}

/*
 * Make the call with at most half of its bytes.
 * Return: its result.
 */
static long cut(const struct fail_kind *kind, long nr, const long args[6])
{
	enum { NR_MAX = 8 };
	const struct iovec *from = (const struct iovec *)args[1];
	struct iovec iov[NR_MAX];
	long own[6] = { args[0], args[1], args[2], args[3], args[4], args[5] };
	size_t left;

	if (kind->flags & FAIL_CUT_BYTES) {
		own[2] = args[2] / 2;
		return unit_make_call(nr, own);
	}
	left = vector_bytes(from, args[2]) / 2;
	own[1] = (long)iov;
	for (own[2] = 0; left && own[2] < NR_MAX; own[2]++) {
		struct iovec *last = &iov[own[2]];

		*last = from[own[2]];
		if (last->iov_len > left)
			last->iov_len = left;
		left -= last->iov_len;
	}
	return unit_make_call(nr, own);
}

/*
 * Return: whether ppoll() would return at once. Then no signal can interrupt the call.
 */
static bool is_ready(const long args[6])
{
	struct timespec zero = { 0, 0 };

	return uaio_sys_raw(SYS_ppoll, args[0], args[1], (long)&zero, 0, 0,
			    0) != 0;
}

/*
 * Return: whether the call reads from or writes to a stream that is ready. Then the
 * call would not block, so it cannot fail with EAGAIN.
 */
static bool is_on_ready_stream(long nr, const long args[6])
{
	struct pollfd pfd = { .fd = (int)args[0], .events = POLLOUT };
	struct stat st;

	switch (nr) {
	case SYS_read:
	case SYS_readv:
	case SYS_preadv2:
	case SYS_recvfrom:
	case SYS_recvmsg: pfd.events = POLLIN;
	}
	return fstat(pfd.fd, &st) == 0 && !S_ISREG(st.st_mode) &&
	       poll(&pfd, 1, 0) > 0;
}

/* Return: whether the kernel could not return this error in the present state. */
static bool is_impossible(const struct fail_kind *kind, const long args[6])
{
	switch (fail_shared->fault.how) {
	case EINTR: return kind->flags & FAIL_IS_POLL && is_ready(args);
	case EAGAIN:
		return kind->flags & FAIL_IS_DATA &&
		       is_on_ready_stream(kind->nr, args);
	default: return false;
	}
}

/*
 * The hook
 */

struct fail_shared *fail_shared;

extern const char __executable_start[]; /* set by the linker */

/*
 * Count a call of the site (instruction that makes system calls) that `key` names. Use
 * no locks, because any thread of any process may call this function.
 */
static void count(uint64_t key, bool has_cut)
{
	struct fail_site *sites = fail_shared->sites;
	uint64_t at = key * 0x9e3779b97f4a7c15u >> 54;

	static_assert(FAIL_SITES_MAX == 1 << (64 - 54), "as shifted");
	for (unsigned i = 0; i < FAIL_SITES_MAX; i++) {
		struct fail_site *site = &sites[(at + i) % FAIL_SITES_MAX];
		uint64_t old = 0;

		if (load_relaxed(&site->key) != key &&
		    !cas_relaxed(&site->key, &old, key) && old != key)
			continue;
		add_relaxed(&site->nr_calls, 1);
		add_relaxed(&site->nr_cuts, has_cut);
		return;
	}
	fail_with("there are more than %d sites", (int)FAIL_SITES_MAX);
}

/*
 * A call is about to be made at the site that `key` names.
 * Return: whether the fault is for this call. The fault is for the n-th call of its
 * site. For FAIL_SHORT, only calls that can return a short count are counted.
 */
static bool is_next(uint64_t key, bool has_cut)
{
	const struct fail_fault *fault = &fail_shared->fault;

	/*
	 * ENOSYS: fail each call with this number, as a kernel or a sandbox without the
	 * call does.
	 */
	if (fault->how == ENOSYS)
		return fail_kinds[fault->key & 0xffff].nr ==
		       fail_kinds[key & 0xffff].nr;
	return fault->key == key && (fault->how != FAIL_SHORT || has_cut) &&
	       add_relaxed(&fail_shared->nr_seen, 1) + 1 == fault->n;
}

/*
 * Apply the fault to the call.
 * Return: whether *ret_res is the call's result. If not, the caller makes the call.
 */
static bool fail_call(const struct fail_kind *kind, const long args[6],
		      long *ret_res)
{
	static const struct timespec delay = { 0, DELAY_NS };
	const int how = fail_shared->fault.how;

	if (how > 0 && is_impossible(kind, args))
		return false;
	if (how == FAIL_SHORT) {
		*ret_res = cut(kind, kind->nr, args);
		/*
		 * With O_DIRECT a call for a part of a block fails: make the full call.
		 */
		if (*ret_res == -EINVAL)
			return false;
	} else if (how == FAIL_DELAY) {
		(void)uaio_sys_raw(SYS_nanosleep, (long)&delay, 0, 0, 0, 0, 0);
	} else {
		if (kind->flags & FAIL_IS_MADE)
			(void)unit_make_call(kind->nr, args);
		*ret_res = -how;
	}
	store_relaxed(&fail_shared->is_done, 1);
	return how != FAIL_DELAY;
}

/*
 * Count a system call of the library, and let it fail if the fault is for this call.
 * Return: true if the call is not to be made; *ret_res is its result.
 */
static bool answer(long nr, const long args[6], uintptr_t caller, long *ret_res)
{
	const struct fail_kind *kind;
	uint64_t key;
	bool has_cut;
	int i;

	if (!load_relaxed(&fail_shared->is_on) || (i = kind_of(nr, args)) < 0)
		return false;
	kind = &fail_kinds[i];
	key = fail_key((uint32_t)(caller - (uintptr_t)__executable_start),
		       (unsigned)i);
	has_cut = can_be_cut(kind, args);
	if (!fail_shared->fault.key)
		count(key, has_cut);
	return is_next(key, has_cut) && fail_call(kind, args, ret_res);
}

/*
 * The library's system call function is inlined, so this hook's return address tells
 * which site made the call.
 */
static __attribute__((noinline)) bool hook(long nr, const long args[6],
					   long *ret_res)
{
	return answer(nr, args, (uintptr_t)__builtin_return_address(0),
		      ret_res);
}

void fail_hook(void)
{
	uaio_sys_hook = hook;
}

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr,
			  void *(*main)(void *), void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
			  void *(*main)(void *), void *arg);

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
			  void *(*main)(void *), void *arg)
{
	static const long none[6];
	long res;

	if (answer(NR_THREAD, none, (uintptr_t)__builtin_return_address(0),
		   &res))
		return (int)-res;
	return __real_pthread_create(id, attr, main, arg);
}
