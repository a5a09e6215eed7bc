/* SPDX-License-Identifier: MIT */
#include "proc/process.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/lock.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/ownfd.h"
#include "proc/table.h"
#include "proc/thread.h"

enum { LIFE_BYTES = 1 << 16 }; /* a page, on any machine */

/* In a child of fork() its parent's number and those since. */
static uint32_t nr_starts; /* atomic: constant while the library is up */

static union {
	struct {
		uint32_t state;        /* atomic, written under lock */
		bool are_tables_many;  /* under lock: or may be */
		int pid;               /* whose engine this is, or would be */
		struct uaio_lock lock; /* rank START */
	};
	char page[LIFE_BYTES];
} life __attribute__((aligned(LIFE_BYTES)));

bool uaio_engine_is_up(void)
{
	/* [MB:up] acquire: all of the engine. Pairs with start_locked(). */
	return load_acquire(&life.state) != UAIO_ENGINE_DOWN;
}

enum uaio_engine_state uaio_engine_state(void)
{
	/* [MB:up] acquire: as in uaio_engine_is_up(). */
	return load_acquire(&life.state);
}

bool uaio_engine_has_many_tables(void)
{
	/* [MB:up] acquire: the agent, too. Pairs with
	 * uaio_engine_part_tables(). */
	return load_acquire(&life.state) == UAIO_ENGINE_SPLIT;
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
	return sys_getpid() == life.pid;
}

bool uaio_engine_is_ours(void)
{
	return uaio_engine_is_up() && uaio_engine_is_of_process();
}

bool uaio_engine_is_owner(void)
{
	return !life.pid || uaio_engine_is_of_process();
}

static int start_locked(int (*start_parts)(void))
{
	int ret;

	if (!life.pid)
		life.pid = sys_getpid();
	/* A child of vfork() cannot bring up its parent's. */
	if (life.pid != sys_getpid())
		return -EAGAIN;
	uaio_threads_forget();
	uaio_table_init();
	ret = uaio_ownfd_init();
	if (ret == 0)
		ret = start_parts();
	if (ret < 0)
		return ret;
	if (life.are_tables_many && uaio_table_start_agent() < 0)
		return -EAGAIN;
	store_relaxed(&nr_starts, load_relaxed(&nr_starts) + 1);
	/* [MB:up] release: pairs with uaio_engine_is_up(). */
	store_release(&life.state, life.are_tables_many ? UAIO_ENGINE_SPLIT
							: UAIO_ENGINE_UP);
	return 0;
}

int uaio_process_start(int (*start_parts)(void))
{
	int ret = 0;

	uaio_lock(&life.lock, UAIO_RANK_START);
	if (load_relaxed(&life.state) == UAIO_ENGINE_DOWN)
		ret = start_locked(start_parts);
	uaio_unlock(&life.lock, UAIO_RANK_START);
	return ret;
}

int uaio_engine_part_tables(void)
{
	int ret = 0;

	uaio_lock(&life.lock, UAIO_RANK_START);
	if (load_relaxed(&life.state) == UAIO_ENGINE_UP) {
		ret = uaio_table_start_agent();
		if (ret == 0)
			/* [MB:up] release: pairs with
			 * uaio_engine_has_many_tables(). */
			store_release(&life.state, UAIO_ENGINE_SPLIT);
	}
	if (ret == 0)
		life.are_tables_many = true;
	uaio_unlock(&life.lock, UAIO_RANK_START);
	return ret;
}

int uaio_engine_hold(bool *ret_is_up)
{
	if (life.pid && life.pid != sys_getpid())
		return -EAGAIN;
	uaio_lock(&life.lock, UAIO_RANK_START);
	*ret_is_up = load_relaxed(&life.state) != UAIO_ENGINE_DOWN;
	return 0;
}

void uaio_engine_release(void)
{
	uaio_unlock(&life.lock, UAIO_RANK_START);
}

static bool is_wiped_on_fork;

/*
 * The descriptors of the engine stand still while fork() copies the table, so
 * that the child closes them all. A handler that interrupted us and forks may
 * catch one in between: the child has that one until it executes something.
 */
static _Thread_local struct {
	uint16_t depth; /* handlers may fork while we do */
	bool is_held;
	bool is_other; /* the table that is copied is not the library's */
} forking __attribute__((tls_model("initial-exec")));

/* While descriptors are held: the signals of the thread that forks, from before. */
static uint64_t forking_mask;

static void before_fork(void)
{
	static const uint64_t all = UINT64_MAX;
	uint64_t mask;

	if (forking.depth++)
		return;
	forking.is_other = uaio_engine_is_ours() && uaio_table_is_other();
	forking.is_held = uaio_engine_is_ours() && uaio_enter();
	if (!forking.is_held)
		return;
	/* A handler that closes something now would be taken for one of ours. */
	(void)sys_sigmask(SIG_BLOCK, &all, &mask);
	uaio_ownfds_hold();
	forking_mask = mask;
}

static void after_fork(void)
{
	uint64_t mask;

	if (--forking.depth || !forking.is_held)
		return;
	mask = forking_mask;
	uaio_ownfds_release();
	uaio_leave();
	(void)sys_sigmask(SIG_SETMASK, &mask, NULL);
}

/* In the child of fork(); one made by other means keeps the descriptors. */
static void forget_in_child(void)
{
	bool is_other = forking.is_other;

	after_fork();
	uaio_ownfd_drop(!is_other);
	if (!is_wiped_on_fork)
		memset(&life, 0, sizeof(life));
	life.pid = sys_getpid();
}

void uaio_process_load(void)
{
	/* Kernels before 4.14 and some sandboxes do not know the advice. */
	is_wiped_on_fork = sys_wipe_on_fork(&life, sizeof(life)) == 0;
	life.pid = sys_getpid();
	(void)pthread_atfork(before_fork, after_fork, forget_in_child);
}

bool uaio_own_fd(unsigned first, unsigned last, unsigned *ret_fd)
{
	if (!uaio_engine_is_up())
		return false;
	/* A handler may have interrupted who opens it. */
	if (!uaio_entry.depth)
		uaio_ownfds_settle();
	/* In a child of vfork() the number is the child's to take. */
	return uaio_ownfd_find(first, last, ret_fd) && uaio_engine_is_ours() &&
	       !uaio_table_is_other();
}

bool uaio_own_fds_hold(void)
{
	if (!uaio_engine_is_ours() || uaio_table_is_other() || !uaio_enter())
		return false;
	uaio_ownfds_hold();
	return true;
}

void uaio_own_fds_release(void)
{
	uaio_ownfds_release();
	uaio_leave();
}
