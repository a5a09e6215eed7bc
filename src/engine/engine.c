/* SPDX-License-Identifier: MIT */
/*
 * Bringing the engine up, once per process
 *
 * Whether it is up is noted in a page that the kernel wipes in a child of
 * fork(), however the fork was made: so the child finds the engine down, has
 * no contexts, and brings up one of its own when it needs one. What the parent
 * had is left where it is in the child: threads that held its locks do not
 * exist there.
 */
#include "engine/engine.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/calls.h"
#include "base/check.h"
#include "base/cycles.h"
#include "base/lock.h"
#include "base/sys.h"
#include "options/config.h"
#include "engine/attend.h"
#include "engine/bounce.h"
#include "engine/closing.h"
#include "engine/ctx.h"
#include "engine/entry.h"
#include "engine/exit.h"
#include "engine/file.h"
#include "engine/init.h"
#include "engine/limits.h"
#include "engine/order.h"
#include "engine/ownfd.h"
#include "engine/page.h"
#include "engine/ready.h"
#include "engine/report.h"
#include "engine/req.h"
#include "engine/ring.h"
#include "engine/ringmem.h"
#include "engine/stats.h"
#include "engine/table.h"
#include "engine/thread.h"

enum { LIFE_BYTES = 1 << 16 }; /* a page, on any machine */

_Thread_local struct uaio_entry uaio_entry
	__attribute__((tls_model("initial-exec"), visibility("hidden")));
_Thread_local uint32_t uaio_attended
	__attribute__((tls_model("initial-exec"), visibility("hidden")));

/* In a child of fork() its parent's number and those since. */
static uint32_t nr_starts; /* atomic: constant while the engine is up */

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

static int start_locked(void)
{
	static const struct uaio_file_ops file_ops = {
		.see_through = uaio_closing_see_through,
		.moved_locked = uaio_watches_move_locked,
		.dropped = uaio_watches_drop,
	};

	uaio_calls_load(secure_getenv(UAIO_CALLS_VARIABLE));
	if (!life.pid)
		life.pid = sys_getpid();
	/* A child of vfork() cannot bring up its parent's. */
	if (life.pid != sys_getpid())
		return -EAGAIN;
	uaio_cycles_start();
	uaio_order_init();
	uaio_reqs_init();
	uaio_bounce_init();
	uaio_req_wq_init();
	uaio_limits_apply();
	uaio_ready_init();
	uaio_page_init();
	uaio_exit_init();
	uaio_stats_init();
	uaio_report_init();
	uaio_ctxs_init();
	uaio_table_init();
	if (uaio_ownfd_init() < 0 || uaio_ringmem_init() < 0 ||
	    uaio_files_init(&file_ops) < 0)
		return -ENOMEM;
	if (life.are_tables_many && uaio_table_start_agent() < 0)
		return -EAGAIN;
	store_relaxed(&nr_starts, load_relaxed(&nr_starts) + 1);
	/* [MB:up] release: pairs with uaio_engine_is_up(). */
	store_release(&life.state, life.are_tables_many ? UAIO_ENGINE_SPLIT
							: UAIO_ENGINE_UP);
	return 0;
}

int uaio_engine_start(void)
{
	int ret = 0;

	if (likely(uaio_engine_is_up()))
		return 0;
	uaio_lock(&life.lock, UAIO_RANK_START);
	if (load_relaxed(&life.state) == UAIO_ENGINE_DOWN)
		ret = start_locked();
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
	bool is_other; /* the table that is copied is not the engine's */
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

/* A program that calls before constructors run has an engine without options. */
static void load_limits(void)
{
	bool is_up;

	if (uaio_engine_hold(&is_up) < 0)
		return;
	if (is_up)
		uaio_limits_apply();
	uaio_engine_release();
}

void uaio_engine_load(void)
{
	uaio_calls_load(secure_getenv(UAIO_CALLS_VARIABLE));
	uaio_config_load();
	load_limits();
	uaio_report_load();
	uaio_threads_init();
	/* The C library opens a file for it. */
	(void)uaio_ring_events_per_cpus();
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

static int yield_once(int fd)
{
	int ret = uaio_file_yield(fd);

	return ret == -ENOENT ? uaio_pollers_yield(fd) : ret;
}

/*
 * What is ours and known to nobody is about to be used for the first time, or to
 * be closed, by a thread that comes to it when it has a processor. A call on it
 * may last for ever.
 */
int uaio_own_fd_yield(int fd)
{
	enum { BUSY_TRIES = 64, SOON_NS = 20000 };
	const int64_t patience_ns = 5000000000;
	int64_t deadline = uaio_now_ns() + patience_ns, now;
	uint32_t word = 0;
	unsigned nr_busy = 0;
	int ret;

	while ((ret = yield_once(fd)) < 0) {
		/* Closed since, and maybe opened anew. */
		if (!uaio_ownfd_has(fd))
			return -EAGAIN;
		now = uaio_now_ns();
		if ((ret == -EBUSY && ++nr_busy > BUSY_TRIES) ||
		    now >= deadline)
			return -EBUSY;
		(void)uaio_sleep(&word, 0, now + SOON_NS);
	}
	uaio_ownfd_give_up(fd);
	return 0;
}

/*
 * A child of vfork() runs in our memory, but its descriptors are its own. Asked
 * only where there is something to lose.
 */
static bool are_known(unsigned first, unsigned last)
{
	if (first == last && !uaio_file_may_know((int)first))
		return false;
	return uaio_engine_is_ours();
}

void uaio_fds_closing(unsigned first, unsigned last)
{
	if (!are_known(first, last))
		return;
	if (first == last)
		uaio_file_closing((int)first);
	else
		uaio_file_closing_range(first, last);
}

void uaio_fds_closed(unsigned first, unsigned last)
{
	if (!are_known(first, last))
		return;
	if (first == last)
		uaio_file_closed((int)first);
	else
		uaio_file_closed_range(first, last);
}

int uaio_look_up(int fd, bool has_resfd, int resfd, struct uaio_file **ret_file)
{
	struct uaio_file *file = uaio_file_find(fd), *event;
	int ret;

	if (unlikely(!file) && (ret = uaio_file_open(fd, &file)) < 0)
		return ret;
	if (unlikely(uaio_file_has(file, UAIO_FILE_F_PATH)))
		return -EBADF;
	*ret_file = file;
	if (likely(!has_resfd))
		return 0;
	event = uaio_file_find(resfd);
	if (!event && (ret = uaio_file_open(resfd, &event)) < 0)
		return ret;
	if (uaio_file_has(event, UAIO_FILE_F_PATH))
		return -EBADF;
	return uaio_file_has(event, UAIO_FILE_F_EVENTFD) ? 0 : -EINVAL;
}
