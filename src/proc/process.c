/* SPDX-License-Identifier: MIT */
#include "proc/process.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/former.h"
#include "proc/identity.h"
#include "proc/handlers.h"
#include "proc/ownfd.h"
#include "proc/table.h"
#include "proc/thread.h"

/*
 * The largest page size of this processor architecture. A larger alignment would give
 * .bss a segment of its own, and valgrind reads no symbols of a library with such a
 * segment.
 */
#if defined(__x86_64__)
enum { PAGE_BYTES = 1 << 12 };
#else
enum { PAGE_BYTES = 1 << 16 };
#endif

/*
 * How often the library was started. This variable is not in the page that is wiped in
 * a child of fork(), so the child continues to count from its parent's number.
 */
/* atomic: does not change once the library has started in a process */
static uint32_t nr_starts;

/* This variable is not wiped in a child of fork(), so the child keeps the count. */
uint32_t uaio_process_nr_forks;

static union {
	struct {
		/* atomic, written under lock: enum uaio_engine_state */
		uint32_t state;
		/* under lock: threads may have different descriptor tables */
		bool are_tables_many;
		/* id of the process that this struct describes */
		int pid;
		struct uaio_lock lock; /* rank START */
	};
	char page[PAGE_BYTES];
} process __attribute__((aligned(PAGE_BYTES)));

bool uaio_engine_is_up(void)
{
	/* [MB:up] acquire: all modules are started. Pairs with start_locked(). */
	return load_acquire(&process.state) != UAIO_ENGINE_DOWN;
}

enum uaio_engine_state uaio_engine_state(void)
{
	/* [MB:up] acquire: as in uaio_engine_is_up(). */
	return load_acquire(&process.state);
}

bool uaio_engine_has_many_tables(void)
{
	/*
	 * [MB:up] acquire: the agent (table.h) is started, too. Pairs with
	 * uaio_engine_part_tables().
	 */
	return load_acquire(&process.state) == UAIO_ENGINE_SPLIT;
}

uint32_t uaio_engine_start_nr(void)
{
	return load_relaxed(&nr_starts);
}

bool uaio_engine_is_here(void)
{
	return uaio_engine_is_up() && !uaio_table_is_other();
}

bool uaio_engine_is_of_process(void)
{
	return sys_getpid() == process.pid;
}

bool uaio_engine_is_ours(void)
{
	return uaio_engine_is_up() && uaio_engine_is_of_process();
}

bool uaio_engine_is_owner(void)
{
	return !process.pid || uaio_engine_is_of_process();
}

static int start_locked(int (*start_parts)(void))
{
	int ret;

	if (!process.pid)
		process.pid = sys_getpid();
	/* A child of vfork() must not start the library in its parent's memory. */
	if (process.pid != sys_getpid())
		return -EAGAIN;
	uaio_threads_forget();
	uaio_table_init();
	ret = uaio_ownfd_init();
	if (ret == 0)
		ret = start_parts();
	if (ret < 0)
		return ret;
	if (process.are_tables_many && uaio_table_start_agent() < 0)
		return -EAGAIN;
	store_relaxed(&nr_starts, load_relaxed(&nr_starts) + 1);
	/*
	 * [MB:up] release: all modules are started. Pairs with uaio_engine_is_up().
	 */
	store_release(&process.state, process.are_tables_many
					      ? UAIO_ENGINE_SPLIT
					      : UAIO_ENGINE_UP);
	return 0;
}

int uaio_process_start(int (*start_parts)(void))
{
	int ret = 0;

	uaio_lock(&process.lock, UAIO_RANK_START);
	if (load_relaxed(&process.state) == UAIO_ENGINE_DOWN)
		ret = start_locked(start_parts);
	uaio_unlock(&process.lock, UAIO_RANK_START);
	return ret;
}

int uaio_engine_part_tables(void)
{
	int ret = 0;

	uaio_lock(&process.lock, UAIO_RANK_START);
	if (load_relaxed(&process.state) == UAIO_ENGINE_UP) {
		ret = uaio_table_start_agent();
		if (ret == 0)
			/*
			 * [MB:up] release: the agent is started. Pairs with
			 * uaio_engine_has_many_tables().
			 */
			store_release(&process.state, UAIO_ENGINE_SPLIT);
	}
	if (ret == 0)
		process.are_tables_many = true;
	uaio_unlock(&process.lock, UAIO_RANK_START);
	return ret;
}

int uaio_engine_lock_state(bool *ret_is_up)
{
	if (process.pid && process.pid != sys_getpid())
		return -EAGAIN;
	uaio_lock(&process.lock, UAIO_RANK_START);
	*ret_is_up = load_relaxed(&process.state) != UAIO_ENGINE_DOWN;
	return 0;
}

void uaio_engine_unlock_state(void)
{
	uaio_unlock(&process.lock, UAIO_RANK_START);
}

/*
 * The signal mask that the forking thread had before fork(). Signals are blocked during
 * fork(): while fork() copies the descriptor table, the library must neither open nor
 * close descriptors, so that the child can close them all. Known gap: a handler may
 * call fork() when it has interrupted the library, which was opening a descriptor. The
 * child then keeps this descriptor until it executes another program.
 */
static uint64_t forking_mask;

static void (*tell_fork)(void); /* immutable after load */

static void before_fork(void)
{
	static const uint64_t all = UINT64_MAX;
	uint64_t mask;

	/*
	 * relaxed: the child inherits the value; other threads learn of the fork only
	 * from what the child does later
	 */
	add_relaxed(&uaio_process_nr_forks, 1);
	if (uaio_entry.forking.depth++)
		return;
	uaio_entry.forking.is_quiesced = false;
	uaio_entry.forking.is_other =
		uaio_engine_is_ours() && uaio_table_is_other();
	if (!uaio_engine_is_ours())
		return;
	/*
	 * Block signals, because a handler that ran inside the library could close a
	 * descriptor, and the library would not notice. Block them before uaio_enter():
	 * inside the library, deferring a handler would change the thread's signal mask
	 * (handlers.h).
	 */
	(void)sys_sigmask(SIG_BLOCK, &all, &mask);
	uaio_entry.forking.is_quiesced = uaio_enter();
	if (!uaio_entry.forking.is_quiesced) {
		(void)sys_sigmask(SIG_SETMASK, &mask, NULL);
		return;
	}
	tell_fork();
	uaio_ownfds_quiesce();
	forking_mask = mask;
}

static void after_fork(void)
{
	uint64_t mask;

	if (--uaio_entry.forking.depth || !uaio_entry.forking.is_quiesced)
		return;
	/*
	 * Count the fork a second time: the child also has rings that were made between
	 * the first count and the fork. relaxed: other threads learn of the fork only
	 * from what the child does later
	 */
	add_relaxed(&uaio_process_nr_forks, 1);
	mask = forking_mask;
	uaio_ownfds_resume();
	uaio_leave();
	(void)sys_sigmask(SIG_SETMASK, &mask, NULL);
}

/*
 * Called in a child that the C library's fork() has created. A child that the program
 * creates in another way, such as by the clone system call, keeps the library's
 * descriptors.
 */
static void forget_in_child(void)
{
	bool is_other = uaio_entry.forking.is_other;

	uaio_handlers_forget();
	uaio_identities_forget();
	uaio_former_forget();
	after_fork();
	uaio_ownfd_drop(!is_other);
	/*
	 * The struct may still have its contents: some emulators claim to wipe the
	 * memory in a child, but do not.
	 */
	if (process.pid)
		memset(&process, 0, sizeof(process));
	process.pid = sys_getpid();
	if (uaio_identities_are_many())
		uaio_identity_note();
}

void uaio_process_load(void (*forks)(void))
{
	tell_fork = forks;
	/*
	 * If this fails, forget_in_child() clears the memory: Linux before 4.14 and
	 * some sandboxes refuse MADV_WIPEONFORK.
	 */
	(void)sys_wipe_on_fork(&process, sizeof(process));
	process.pid = sys_getpid();
	/* The main thread's identity is that of the process. */
	uaio_entry.is_sure = sys_gettid() == process.pid;
	uaio_libc_atfork(before_fork, after_fork, forget_in_child);
}

bool uaio_own_fd(unsigned first, unsigned last, unsigned *ret_fd)
{
	if (!uaio_engine_is_up())
		return false;
	/*
	 * A handler that interrupted the library must not wait: the library may be
	 * opening a descriptor.
	 */
	if (!uaio_entry.depth)
		uaio_ownfds_settle();
	/*
	 * uaio_engine_is_ours() is false in a child of vfork(): the child has its own
	 * copy of the descriptor, and may close it.
	 */
	return uaio_ownfd_find(first, last, ret_fd) && uaio_engine_is_ours() &&
	       !uaio_table_is_other();
}

bool uaio_own_fds_quiesce(void)
{
	if (!uaio_engine_is_ours() || uaio_table_is_other() || !uaio_enter())
		return false;
	uaio_ownfds_quiesce();
	return true;
}

void uaio_own_fds_resume(void)
{
	uaio_ownfds_resume();
	uaio_leave();
}
