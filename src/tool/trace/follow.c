/* SPDX-License-Identifier: MIT */
/*
 * uaio trace --pid: traces processes that are already running
 *
 * Tested by test/run/attach.py.
 */
#include <errno.h>
#include <stdlib.h>

#include "tool/tool.h"
#include "tool/trace/attach.h"
#include "tool/trace/tracing.h"

static const int64_t LOOK_NS = 50000000, IDLE_NS = 1000000000;

struct followed {
	struct uaio_attached attached;
	int64_t asked_ns; /* when the tool asked the process for a trace */
	bool is_told; /* the user was told that the process has not answered */
};

static int attach(struct followed *to, const struct uaio_pages *pages, int pid)
{
	for (unsigned i = 0; i < pages->nr; i++) {
		int error;

		if (pages->pages[i].pid != pid)
			continue;
		error = uaio_attach(&to->attached, &pages->pages[i]);
		to->asked_ns = uaio_trace_now_ns();
		return error ? uaio_diag(EXIT_FAILURE,
					 "trace: %d: not traced: %s", pid,
					 uaio_attach_why(error))
			     : 0;
	}
	return uaio_diag(EXIT_FAILURE,
			 "trace: %d: no counts of such a running process; does "
			 "it use the library, without --live=off, as this "
			 "user?",
			 pid);
}

/*
 * Look whether the process has answered or ended.
 * Return: whether it may write more records. *ret_status: 1 if it cannot be traced.
 */
static bool look(struct followed *followed, int *ret_status)
{
	struct uaio_attached *attached = &followed->attached;

	switch (uaio_attach_look(attached)) {
	case UAIO_ATTACH_REFUSED:
		*ret_status = uaio_diag(
			EXIT_FAILURE, "trace: %d: not traced: %s",
			attached->pid, uaio_attach_why(attached->error));
		uaio_attach_end(attached);
		return false;
	case UAIO_ATTACH_LEFT:
		/*
		 * The process executes another program, whose answer the tool now
		 * awaits.
		 */
		followed->asked_ns = uaio_trace_now_ns();
		return true;
	case UAIO_ATTACH_ASKED:
		if (!followed->is_told &&
		    uaio_trace_now_ns() - followed->asked_ns > IDLE_NS) {
			followed->is_told = true;
			uaio_diag(0,
				  "trace: %d makes no requests now, and is "
				  "traced from the next one on",
				  attached->pid);
		}
		return true;
	case UAIO_ATTACH_OVER: return false;
	default: return true;
	}
}

static uint64_t take(const struct followed *all, unsigned nr,
		     uint64_t *ret_lost)
{
	uint64_t nr_taken = 0;

	*ret_lost = 0;
	for (unsigned i = 0; i < nr; i++) {
		nr_taken += uaio_trace_write(all[i].attached.ring);
		*ret_lost += uaio_records_lost(all[i].attached.ring);
	}
	return nr_taken;
}

/*
 * Write records to the output until all processes have ended.
 * Return: 0; 1 if a process cannot be traced.
 */
static int go_on(struct followed *all, unsigned nr, uint64_t *ret_lost)
{
	int64_t looked_ns = 0;
	bool is_running = true;
	int status = 0;

	while (is_running && !uaio_trace_is_stopped()) {
		bool is_due = uaio_trace_now_ns() - looked_ns >= LOOK_NS;
		uint64_t nr_taken;

		if (is_due) {
			looked_ns = uaio_trace_now_ns();
			is_running = false;
		}
		/*
		 * Look for ended processes before taking records: if look() finds that
		 * a process has ended, all its records are in the ring.
		 */
		for (unsigned i = 0; is_due && i < nr; i++)
			is_running |= look(&all[i], &status);
		nr_taken = take(all, nr, ret_lost);
		uaio_trace_tell_lost(*ret_lost);
		if (!uaio_trace_flush(nr_taken))
			break;
		if (is_running)
			uaio_trace_nap(nr_taken);
	}
	for (unsigned i = 0; i < nr; i++)
		uaio_attach_end(&all[i].attached);
	(void)take(all, nr, ret_lost);
	return status;
}

int uaio_follow(const int *pids, unsigned nr, uint64_t *ret_lost)
{
	struct followed *all = calloc(nr, sizeof(*all));
	struct uaio_pages pages;
	unsigned nr_attached = 0;
	int status = 0;

	*ret_lost = 0;
	if (!all || uaio_pages_read(&pages, true) < 0) {
		free(all);
		return uaio_diag(EXIT_REFUSED, "trace: no memory");
	}
	while (!status && nr_attached < nr) {
		status = attach(&all[nr_attached], &pages, pids[nr_attached]);
		nr_attached += !status;
	}
	uaio_pages_free(&pages);
	if (!status) {
		uaio_trace_begin();
		status = go_on(all, nr, ret_lost);
	}
	for (unsigned i = 0; i < nr_attached; i++) {
		uaio_attach_end(&all[i].attached);
		uaio_attach_free(&all[i].attached);
	}
	free(all);
	return status;
}
