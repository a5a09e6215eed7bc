/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "unit.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "proc/ownfd.h"

/* system calls */

static uaio_sys_hook_fn *current; /* atomic */

/*
 * State of the injector, which lets the nth system call fail. Atomic, because workers
 * read it.
 */
static struct {
	uint32_t nth;
	uint32_t nr_calls;
	uint32_t has_failed;
	/* id of the thread whose calls are counted; 0: all threads */
	uint32_t tid;
} injector;

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;
/* atomic; 0: unit_gate_close() holds no calls, so hold() need not be called */
static uint32_t gate_is_closed;

/* under gate_lock */
static struct {
	int fd;
	pthread_t owner;
	bool holds;
	unsigned nr_held;
	uint64_t held;
	uint64_t passes;
	struct unit_call log[512];
	unsigned nr_log;
} gate;

/*
 * Return: an error with which the kernel may fail this call; 0 if the call cannot fail.
 */
static int failure_of(long nr, const long args[6])
{
	switch (nr) {
	case SYS_pread64:
	case SYS_pwrite64: return -EIO;
	case SYS_preadv2:
	case SYS_pwritev2: return args[5] & 8 ? -EAGAIN : -EINTR;
	case SYS_recvfrom:
	case SYS_sendto: return args[3] & MSG_DONTWAIT ? -EAGAIN : 0;
	case SYS_read: return -EAGAIN;
	/*
	 * Let no write to the library's own eventfd fail. The kernel fails such a write
	 * only if the eventfd is full. Then the eventfd is readable already, so the
	 * thread that waits for it is awake.
	 */
	case SYS_write: return uaio_ownfd_has((int)args[0]) ? 0 : -EAGAIN;
	case SYS_fsync:
	case SYS_fdatasync: return -EIO;
	case SYS_fstat: return -EBADF;
	case SYS_fstatfs: return -ENOSYS;
	case SYS_fcntl: return args[1] == F_GETFL ? -EBADF : -EMFILE;
	case SYS_lseek: return -EBADF;
	case SYS_openat:
	case SYS_epoll_create1:
	case SYS_eventfd2: return -EMFILE;
	case SYS_epoll_ctl: return args[1] == EPOLL_CTL_DEL ? 0 : -ENOSPC;
	case SYS_readlinkat: return -EACCES;
	case SYS_ppoll: return -ENOMEM;
	case SYS_mmap:
	case SYS_mremap:
	case SYS_madvise: return -ENOMEM;
	case SYS_getrusage: return -EFAULT;
	case SYS_prctl:
	case SYS_sched_setaffinity: return -EPERM;
	default: return 0;
	}
}

static bool inject(long nr, const long args[6], long *ret_res)
{
	uint32_t tid = load_relaxed(&injector.tid);
	int failure;

	if (tid && tid != (uint32_t)gettid())
		return false;
	failure = failure_of(nr, args);
	if (!failure || add_relaxed(&injector.nr_calls, 1) + 1 !=
				load_relaxed(&injector.nth))
		return false;
	store_relaxed(&injector.has_failed, 1);
	/*
	 * Set the thread's name although the call is to fail: the tests tell the
	 * library's threads from leaked threads by the name.
	 */
	if (nr == SYS_prctl)
		(void)uaio_sys_raw(nr, args[0], args[1], args[2], args[3],
				   args[4], args[5]);
	*ret_res = failure;
	return true;
}

static bool is_data_call(long nr)
{
	return nr == SYS_pread64 || nr == SYS_pwrite64 || nr == SYS_preadv2 ||
	       nr == SYS_pwritev2 || nr == SYS_fsync || nr == SYS_fdatasync;
}

static unsigned key_of(long nr, const long args[6])
{
	return nr == SYS_fsync || nr == SYS_fdatasync
		       ? UNIT_KEY_SYNC
		       : (unsigned)(args[3] / UNIT_KEY_BYTES) % UNIT_KEY_SYNC;
}

static void log_locked(unsigned key, bool is_end)
{
	if (gate.nr_log < NR_ELEMENTS(gate.log))
		gate.log[gate.nr_log++] = (struct unit_call){ key, is_end };
}

/*
 * If this is another thread's call on the file of the gate, wait at the gate, then make
 * the call. The gate's owner, the thread that closed it, is never held.
 * Return: whether the call was made; if not, the caller makes it.
 */
static bool hold(long nr, const long args[6], long *ret_res)
{
	unsigned key;

	if (!is_data_call(nr))
		return false;
	key = key_of(nr, args);
	pthread_mutex_lock(&gate_lock);
	if (gate.fd != (int)args[0] ||
	    pthread_equal(gate.owner, pthread_self())) {
		pthread_mutex_unlock(&gate_lock);
		return false;
	}
	log_locked(key, false);
	gate.nr_held++;
	gate.held |= 1ull << key;
	pthread_cond_broadcast(&gate_changed);
	while (gate.holds && !(gate.passes >> key & 1))
		pthread_cond_wait(&gate_changed, &gate_lock);
	gate.nr_held--;
	gate.held &= ~(1ull << key);
	pthread_mutex_unlock(&gate_lock);
	*ret_res = uaio_sys_raw(nr, args[0], args[1], args[2], args[3], args[4],
				args[5]);
	pthread_mutex_lock(&gate_lock);
	log_locked(key, true);
	pthread_mutex_unlock(&gate_lock);
	return true;
}

static bool dispatch(long nr, const long args[6], long *ret_res)
{
	uaio_sys_hook_fn *hook = load_acquire(&current);

	if (load_relaxed(&injector.nth) && inject(nr, args, ret_res))
		return true;
	if (hook && hook(nr, args, ret_res))
		return true;
	return load_acquire(&gate_is_closed) && hold(nr, args, ret_res);
}

/*
 * A constructor runs before there is any other thread. Afterwards uaio_sys_hook never
 * changes, so that threads can read it without atomic accesses.
 */
__attribute__((constructor)) static void install(void)
{
	uaio_sys_hook = dispatch;
}

void unit_take_time(uint32_t us, bool sleeps)
{
	int64_t end = uaio_now_ns() + us * 1000ll;
	const struct timespec time = { 0, us * 1000l };

	if (sleeps)
		(void)uaio_sys_raw(SYS_nanosleep, (long)&time, 0, 0, 0, 0, 0);
	while (uaio_now_ns() < end)
		;
}

long unit_say_ext4(const long args[6])
{
	long res = uaio_sys_raw(SYS_fstatfs, args[0], args[1], 0, 0, 0, 0);

	((struct statfs *)args[1])->f_type = 0xef53;
	return res;
}

void unit_hook(uaio_sys_hook_fn *hook)
{
	store_release(&current, hook);
}

static uint32_t nr_counted; /* atomic */

static bool count_call(long nr, const long args[6], long *ret_res)
{
	(void)nr;
	(void)args;
	(void)ret_res;
	add_relaxed(&nr_counted, 1);
	return false;
}

unsigned unit_count_calls(void (*act)(void *arg), void *arg)
{
	store_relaxed(&nr_counted, 0);
	unit_hook(count_call);
	act(arg);
	unit_hook(NULL);
	return load_relaxed(&nr_counted);
}

void unit_fail_nth(unsigned n, bool of_this_thread)
{
	store_relaxed(&injector.nth, 0);
	store_relaxed(&injector.nr_calls, 0);
	store_relaxed(&injector.has_failed, 0);
	store_relaxed(&injector.tid, of_this_thread ? (uint32_t)gettid() : 0);
	store_relaxed(&injector.nth, n);
}

bool unit_has_failed(void)
{
	return load_relaxed(&injector.has_failed);
}

void unit_gate_close(int fd)
{
	pthread_mutex_lock(&gate_lock);
	gate.fd = fd;
	gate.owner = pthread_self();
	gate.holds = true;
	gate.passes = 0;
	gate.nr_log = 0;
	pthread_mutex_unlock(&gate_lock);
	store_release(&gate_is_closed, 1);
}

void unit_gate_await(unsigned nr)
{
	pthread_mutex_lock(&gate_lock);
	while (gate.nr_held < nr)
		pthread_cond_wait(&gate_changed, &gate_lock);
	pthread_mutex_unlock(&gate_lock);
}

void unit_gate_await_key(unsigned key)
{
	pthread_mutex_lock(&gate_lock);
	while (!(gate.held >> key & 1))
		pthread_cond_wait(&gate_changed, &gate_lock);
	pthread_mutex_unlock(&gate_lock);
}

void unit_gate_pass(unsigned key)
{
	pthread_mutex_lock(&gate_lock);
	gate.passes |= 1ull << key;
	pthread_cond_broadcast(&gate_changed);
	pthread_mutex_unlock(&gate_lock);
}

void unit_gate_open(void)
{
	pthread_mutex_lock(&gate_lock);
	gate.holds = false;
	pthread_cond_broadcast(&gate_changed);
	pthread_mutex_unlock(&gate_lock);
}

unsigned unit_gate_log(const struct unit_call **ret_log)
{
	unsigned nr;

	pthread_mutex_lock(&gate_lock);
	nr = gate.nr_log;
	pthread_mutex_unlock(&gate_lock);
	*ret_log = gate.log;
	return nr;
}

static int find_in_log(unsigned key, bool is_end)
{
	int at = -1;

	pthread_mutex_lock(&gate_lock);
	for (unsigned i = 0; i < gate.nr_log && at < 0; i++)
		if (gate.log[i].key == key && gate.log[i].is_end == is_end)
			at = (int)i;
	pthread_mutex_unlock(&gate_lock);
	return at;
}

int unit_gate_began(unsigned key)
{
	return find_in_log(key, false);
}

int unit_gate_ended(unsigned key)
{
	return find_in_log(key, true);
}

long unit_make_call(long nr, const long args[6])
{
	return uaio_sys_raw(nr, args[0], args[1], args[2], args[3], args[4],
			    args[5]);
}

bool unit_refuse_memory(long nr, const long args[6], long *ret_res)
{
	(void)args;
	*ret_res = -ENOMEM;
	return nr == SYS_mmap;
}
