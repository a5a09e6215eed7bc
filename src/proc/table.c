/* SPDX-License-Identifier: MIT */
#include "proc/table.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>

#include "base/check.h"
#include "base/eventcount.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/sys.h"
#include "base/threads.h"
#include "proc/entry.h"
#include "proc/ownfd.h"
#include "proc/process.h"
#include "proc/thread.h"

enum { IDLE_S = 5 };

struct call {
	/* node in the agent's list of calls, under the agent's lock */
	struct list node;
	uaio_table_act *act;
	const void *arg;
	bool may_wait;
	long ret;
	/* atomic: set when the call has returned; the caller sleeps on it */
	uint32_t is_done;
};

static struct {
	struct uaio_lock lock; /* rank AGENT */
	struct list calls;     /* under lock */
	bool has_thread;       /* under lock */
	struct uaio_eventcount asked;
} agent;

void uaio_table_init(void)
{
	agent.lock = (struct uaio_lock){ 0 };
	list_init(&agent.calls);
	agent.has_thread = false;
	agent.asked = (struct uaio_eventcount){ 0 };
}

/*
 * Record this thread's id, and in the lowest bit whether the thread's descriptor table
 * is not the library's. If the recorded id is not the thread's own, the thread has
 * inherited the record, by fork() or a bare clone(). Then the library tests the
 * thread's table again.
 */
static void note(bool is_other)
{
	uaio_entry.table = (uint32_t)sys_gettid() << 1 | is_other;
}

void uaio_table_is_mine(void)
{
	note(false);
}

/* The agent: executes calls for threads whose descriptor table is not the library's */

static void end_call(struct call *call)
{
	/* [MB:agent] release: the call's result. Pairs with uaio_table_call(). */
	store_release(&call->is_done, 1);
	uaio_wake(&call->is_done, 1);
}

static void *make_long_call(void *arg)
{
	struct call *call = arg;

	uaio_thread_begin("uaio-call");
	call->ret = call->act(call->arg);
	end_call(call);
	uaio_thread_end();
	return NULL;
}

static void answer(struct call *call)
{
	if (call->may_wait) {
		if (uaio_thread_start(make_long_call, call) == 0)
			return;
		call->ret = -EAGAIN;
	} else {
		call->ret = call->act(call->arg);
	}
	end_call(call);
}

static struct call *next_call(void)
{
	struct list *node;

	uaio_lock(&agent.lock, UAIO_RANK_AGENT);
	node = list_pop(&agent.calls);
	uaio_unlock(&agent.lock, UAIO_RANK_AGENT);
	return node ? container_of(node, struct call, node) : NULL;
}

static void *serve(void *arg)
{
	const int64_t idle_ns = IDLE_S * 1000000000ll;
	bool is_idle = false;

	(void)arg;
	uaio_thread_begin("uaio-agent");
	/*
	 * If only threads of the library are left, the agent ends, so that the process
	 * can end.
	 */
	while (!is_idle || !uaio_threads_are_last()) {
		uint32_t key = uaio_ec_prepare(&agent.asked);
		struct call *call = next_call();

		is_idle = false;
		if (call) {
			uaio_ec_cancel(&agent.asked);
			answer(call);
		} else {
			is_idle = uaio_ec_wait(&agent.asked, key,
					       uaio_now_ns() + idle_ns) ==
				  -ETIMEDOUT;
		}
	}
	uaio_lock(&agent.lock, UAIO_RANK_AGENT);
	agent.has_thread = false;
	uaio_unlock(&agent.lock, UAIO_RANK_AGENT);
	uaio_thread_end();
	return NULL;
}

int uaio_table_start_agent(void)
{
	int ret = 0;

	note(false);
	uaio_lock(&agent.lock, UAIO_RANK_AGENT);
	/*
	 * The agent tests which descriptor tables threads have (ask()). Without an
	 * agent, each test would find that the thread's table is not the library's.
	 */
	if (!agent.has_thread)
		ret = uaio_thread_start(serve, NULL);
	if (ret == 0)
		agent.has_thread = true;
	uaio_unlock(&agent.lock, UAIO_RANK_AGENT);
	return ret;
}

long uaio_table_call(uaio_table_act *act, const void *arg, bool may_wait)
{
	struct call call = { .act = act, .arg = arg, .may_wait = may_wait };
	bool has_agent;

	list_init(&call.node);
	uaio_lock(&agent.lock, UAIO_RANK_AGENT);
	has_agent = agent.has_thread;
	if (has_agent)
		list_add_tail(&agent.calls, &call.node);
	uaio_unlock(&agent.lock, UAIO_RANK_AGENT);
	if (!has_agent)
		return -EAGAIN;
	uaio_ec_notify(&agent.asked, 1);
	/* [MB:agent] acquire: pairs with end_call(). */
	while (!load_acquire(&call.is_done))
		(void)uaio_sleep(&call.is_done, 0, UAIO_FOREVER);
	return call.ret;
}

/* Testing which descriptor table a thread has */

static long open_one(const void *arg)
{
	(void)arg;
	return uaio_ownfd_event(EFD_NONBLOCK);
}

static long fill_one(const void *arg)
{
	const uint64_t one = 1;

	return sys_write(*(const int *)arg, &one, sizeof(one));
}

static long empty_one(const void *arg)
{
	uint64_t count;

	return sys_read(*(const int *)arg, &count, sizeof(count));
}

static long close_one(const void *arg)
{
	uaio_ownfd_close(*(const int *)arg);
	return 0;
}

/*
 * Return: whether fd is open in this thread's descriptor table, and is readable if
 * is_full, else not readable.
 */
static bool looks(int fd, bool is_full)
{
	static const struct timespec zero;
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return sys_ppoll(&pfd, 1, &zero, NULL, 0) == is_full &&
	       pfd.revents == (is_full ? POLLIN : 0);
}

enum answer { IS_ENGINES, IS_OTHER, IS_UNKNOWN };

/*
 * Find out whether this thread's table is the library's. The agent opens an eventfd,
 * writes to it and reads it. If the descriptor with the same number in this thread's
 * table becomes readable and unreadable, too, it is the same eventfd, so both threads
 * have the same table.
 */
static enum answer look(void)
{
	int fd = (int)uaio_table_call(open_one, NULL, false);
	bool is_it;

	if (fd < 0)
		return IS_UNKNOWN;
	is_it = looks(fd, false) && uaio_table_call(fill_one, &fd, false) > 0 &&
		looks(fd, true) && uaio_table_call(empty_one, &fd, false) > 0 &&
		looks(fd, false);
	(void)uaio_table_call(close_one, &fd, false);
	return is_it ? IS_ENGINES : IS_OTHER;
}

static bool ask(void)
{
	enum answer answer = look();

	/*
	 * If the agent gets no descriptor, the result is unknown, and the thread is
	 * tested again at its next call.
	 */
	if (answer != IS_UNKNOWN)
		note(answer == IS_OTHER);
	return answer != IS_ENGINES;
}

/* Not inline, so that uaio_table_is_other() saves no registers. */
static __attribute__((noinline)) bool is_other_of_many(void)
{
	bool is_other;

	if (uaio_entry.table >> 1 == (uint32_t)sys_gettid())
		return uaio_entry.table & 1;
	/*
	 * If this thread is already inside the library, it entered when there was only
	 * one descriptor table. So it has the library's table.
	 */
	if (!uaio_enter())
		return false;
	/*
	 * The agent writes to this thread's stack. No handler can leave that stack
	 * frame by siglongjmp(), because no handler runs inside the library.
	 */
	is_other = ask();
	uaio_leave();
	return is_other;
}

bool uaio_table_is_other(void)
{
	return unlikely(uaio_engine_has_many_tables()) && is_other_of_many();
}

long uaio_table_do(uaio_table_act *act, const void *arg)
{
	bool is_other = uaio_table_is_other();
	long ret;

	if (!uaio_enter())
		return -EAGAIN;
	ret = unlikely(is_other) ? uaio_table_call(act, arg, true) : act(arg);
	uaio_leave();
	return ret;
}

/* Giving a thread a descriptor table of its own */

static unsigned nr_own_threads(void)
{
	struct uaio_thread_counts counts;

	/*
	 * In a child of fork() that has not started the library, uaio_threads_count()
	 * would return the parent's count.
	 */
	if (!uaio_engine_is_up())
		return 0;
	uaio_threads_count(&counts);
	return counts.nr;
}

static bool is_only_thread(void)
{
	unsigned own = nr_own_threads();

	return uaio_has_threads(1 + own) && own == nr_own_threads();
}

bool uaio_table_is_only_mine(void)
{
	enum { SOON_NS = 1000000 };
	uint32_t word = 0;

	if (!uaio_engine_is_of_process() || uaio_table_is_other() ||
	    !is_only_thread())
		return false;
	/*
	 * Check twice: the first check may be wrong if one thread of the library ended
	 * during the check, and another began.
	 */
	(void)uaio_sleep(&word, 0, uaio_now_ns() + SOON_NS);
	return is_only_thread();
}

int uaio_table_expect(void)
{
	if (!uaio_engine_is_of_process() || uaio_entry.depth ||
	    uaio_table_is_other())
		return 0;
	return uaio_engine_part_tables() < 0 ? -ENOMEM : 0;
}

long uaio_table_part(long nr, const long args[3])
{
	bool is_quiesced;
	long ret;

	if (!uaio_engine_is_of_process() || uaio_entry.depth ||
	    uaio_table_is_other())
		return uaio_sys6(nr, args[0], args[1], args[2], 0, 0, 0);
	if (uaio_engine_part_tables() < 0)
		return -ENOMEM;
	is_quiesced = uaio_own_fds_quiesce();
	ret = uaio_sys6(nr, args[0], args[1], args[2], 0, 0, 0);
	if (ret == 0 && is_quiesced) {
		uaio_ownfds_close_copies();
		note(true);
	}
	if (is_quiesced)
		uaio_own_fds_resume();
	return ret;
}
