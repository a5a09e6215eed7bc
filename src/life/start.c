/* SPDX-License-Identifier: MIT */
/*
 * Starts the modules of the library one after another. Also handles changes of the
 * program's descriptors, which concern several modules.
 *
 * Tested by test-door.c and test/host/children.c.
 */
#include "life/life.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/calls.h"
#include "base/check.h"
#include "base/cycles.h"
#include "base/libc.h"
#include "base/lock.h"
#include "base/sys.h"
#include "options/config.h"
#include "options/names.h"
#include "proc/entry.h"
#include "proc/former.h"
#include "proc/handlers.h"
#include "proc/ownfd.h"
#include "proc/table.h"
#include "proc/thread.h"
#include "trace/trace.h"
#include "file/file.h"
#include "file/duplicate.h"
#include "op/op.h"
#include "check/check.h"
#include "check/hint.h"
#include "req/req.h"
#include "req/stats.h"
#include "wait/order.h"
#include "wait/page.h"
#include "wait/trust.h"
#include "native/driver.h"
#include "native/native.h"
#include "ready/ready.h"
#include "ready/waiter.h"
#include "split/bounce.h"
#include "split/split.h"
#include "split/tune.h"
#include "flow/closing.h"
#include "flow/flow.h"
#include "flow/gate.h"
#include "issue/chain.h"
#include "issue/fault.h"
#include "life/door.h"
#include "life/report.h"
#include "uaio.h"

/* Start all modules. The caller holds the lock for starting the library. */
static int start_parts(void)
{
	static const struct uaio_file_ops file_ops = {
		.see_through = uaio_closing_see_through,
		.moved_locked = uaio_watches_move_locked,
		.dropped = uaio_watches_drop,
		.is_ring = uaio_doors_have_ring,
		.put_tuning = uaio_tuning_put,
	};

	uaio_calls_load(secure_getenv(UAIO_CALLS_VARIABLE));
	uaio_cycles_start();
	uaio_order_init();
	uaio_trust_init();
	uaio_flow_init();
	uaio_chain_init();
	uaio_fault_init();
	uaio_check_init();
	uaio_trace_init();
	uaio_split_init();
	uaio_bounce_init();
	uaio_req_wq_init();
	uaio_limits_apply();
	uaio_ready_init();
	uaio_page_init();
	uaio_gate_init();
	uaio_stats_init();
	uaio_report_init();
	uaio_waiters_init();
	uaio_handlers_start();
	uaio_op_close = uaio_fd_close;
	return uaio_doors_start() < 0 || uaio_files_init(&file_ops) < 0
		       ? -ENOMEM
		       : 0;
}

int uaio_engine_start(void)
{
	if (likely(uaio_engine_is_up()))
		return 0;
	uaio_identities_prove();
	uaio_former_start();
	return uaio_process_start(start_parts);
}

/*
 * Apply the limits that the options set. If the library is not started, it applies them
 * when it starts.
 */
static void load_limits(void)
{
	bool is_up;

	if (uaio_engine_lock_state(&is_up) < 0)
		return;
	if (is_up)
		uaio_limits_apply();
	uaio_engine_unlock_state();
}

/*
 * Map the ring of the `uaio trace` that started this process. If that tracer has
 * exited, this is no error.
 */
static void load_trace(void)
{
	int ret = uaio_trace_load();
	const char *why = ret == -EXDEV ? "it is in a PID namespace of its own"
					: uaio_error_name(-ret);
	char line[96];

	if (ret == 0 || ret == -ENOENT)
		return;
	(void)snprintf(line, sizeof(line),
		       "uaio: a process is not traced: %s\n", why);
	uaio_report_say(line);
}

void uaio_engine_load(void)
{
	uaio_calls_load(secure_getenv(UAIO_CALLS_VARIABLE));
	uaio_config_load();
	load_limits();
	uaio_report_load();
	uaio_check_load();
	load_trace();
	uaio_threads_init();
	uaio_doors_load();
	uaio_process_load(uaio_doors_fork);
	uaio_libc_atfork(NULL, NULL, uaio_check_forget);
}

static int yield_once(int fd)
{
	int ret = uaio_file_yield(fd);

	if (ret == -ENOENT)
		ret = uaio_pollers_yield(fd);
	if (ret == -ENOENT)
		ret = uaio_natives_yield(fd);
	return ret == -ENOENT ? uaio_doors_yield(fd) : ret;
}

/*
 * Sometimes fd is a descriptor of the library, but yield_once() finds no module that
 * uses it. Then a thread of the library is about to use fd for the first time, or to
 * close it. So try again until this is over. But if a system call uses fd (-EBUSY),
 * give up after a few tries: the call may never return.
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
		/*
		 * The library has closed fd meanwhile. The program may have opened its
		 * own file there.
		 */
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
 * Return: false if the library certainly has no data about these descriptors. Also
 * false in a child of vfork(), which uses the same memory, but has its own descriptors.
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
	if (unlikely(uaio_config.is_examined))
		uaio_hint_closing(first, last);
	if (first == last)
		uaio_file_closing((int)first);
	else
		uaio_file_closing_range(first, last);
}

void uaio_fds_closed(unsigned first, unsigned last)
{
	uaio_doors_closed(first, last);
	if (unlikely(uaio_kept_any()) && uaio_engine_is_ours())
		uaio_kept_close();
	if (!are_known(first, last))
		return;
	if (first == last)
		uaio_file_closed((int)first);
	else
		uaio_file_closed_range(first, last);
}

void uaio_fd_flags_change(int fd, int open_flags)
{
	if (are_known((unsigned)fd, (unsigned)fd))
		uaio_file_flags_change(fd, open_flags);
}

/* Close fd, a descriptor of the program, as the interposed close() does. */
static int close_and_forget(int fd)
{
	int ret;

	uaio_fds_closing((unsigned)fd, (unsigned)fd);
	ret = sys_close(fd);
	/*
	 * During the close another thread may have submitted requests on fd, so that the
	 * library has made an entry for the old file. Remove this entry, because fd no
	 * longer refers to that file.
	 */
	uaio_fds_closed((unsigned)fd, (unsigned)fd);
	return ret;
}

int uaio_fd_close(int fd, bool may_wait)
{
	unsigned own;

	/*
	 * If a thread has its own descriptor table, the library has no data about its
	 * descriptors.
	 */
	if (!uaio_engine_is_here())
		return sys_close(fd);
	if (uaio_own_fd((unsigned)fd, (unsigned)fd, &own))
		return -EBADF;
	if (!may_wait && !uaio_file_forget_idle(fd))
		return -EOPNOTSUPP;
	return close_and_forget(fd);
}

void uaio_counters_read(struct uaio_counters *ret_counters)
{
	struct uaio_counters sum = { 0 };

	for (unsigned i = 0; i < UAIO_NR_ACCOUNTS; i++)
		sum.nr_workers += uaio_wq_nr_workers(i);
	uaio_doors_count(&sum);
	sum.nr_requests = sum.nr_inline + sum.nr_worker;
	sum.nr_kernel = uaio_natives_executed();
	sum.nr_io_uring = uaio_driver_executed();
	*ret_counters = sum;
}
