/* SPDX-License-Identifier: MIT */
/*
 * The parts of the engine, brought up in their order, and what of the host's
 * descriptors concerns several of them
 */
#include "engine/engine.h"

#include <errno.h>
#include <stdlib.h>

#include "base/calls.h"
#include "base/check.h"
#include "base/cycles.h"
#include "base/lock.h"
#include "base/sys.h"
#include "options/config.h"
#include "proc/entry.h"
#include "proc/ownfd.h"
#include "proc/table.h"
#include "proc/thread.h"
#include "file/file.h"
#include "engine/bounce.h"
#include "engine/closing.h"
#include "engine/ctx.h"
#include "engine/exit.h"
#include "engine/init.h"
#include "engine/limits.h"
#include "engine/order.h"
#include "engine/page.h"
#include "engine/ready.h"
#include "engine/report.h"
#include "engine/req.h"
#include "engine/ring.h"
#include "engine/ringmem.h"
#include "engine/stats.h"
#include "engine/width.h"

/* Under the lock that brings the library up. */
static int start_parts(void)
{
	static const struct uaio_file_ops file_ops = {
		.see_through = uaio_closing_see_through,
		.moved_locked = uaio_watches_move_locked,
		.dropped = uaio_watches_drop,
		.put_widths = uaio_widths_put,
	};

	uaio_calls_load(secure_getenv(UAIO_CALLS_VARIABLE));
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
	return uaio_ringmem_init() < 0 || uaio_files_init(&file_ops) < 0
		       ? -ENOMEM
		       : 0;
}

int uaio_engine_start(void)
{
	return likely(uaio_engine_is_up()) ? 0
					   : uaio_process_start(start_parts);
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
	uaio_process_load();
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

int uaio_look_up(int fd, struct uaio_file **ret_file)
{
	struct uaio_file *file = uaio_file_find(fd);
	int ret;

	if (unlikely(!file) && (ret = uaio_file_open(fd, &file)) < 0)
		return ret;
	if (unlikely(uaio_file_has(file, UAIO_FILE_F_PATH)))
		return -EBADF;
	*ret_file = file;
	return 0;
}
