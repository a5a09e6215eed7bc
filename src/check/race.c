/* SPDX-License-Identifier: MIT */
/*
 * Passes requests to the checkers for data races (tsan.c, helgrind.c). If
 * ThreadSanitizer reports a race, finds the request that the race is about.
 *
 * Tested by test/run/checkers.py.
 */
#include "check/check.h"

#include "base/check.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "op/op.h"
#include "check/checker.h"
#include "check/checkint.h"

/*
 * Pieces of memory of the latest completed requests. A race report may come after the
 * completion, if the program used a piece too early.
 */
enum { PASTS = 256 };

struct past {
	struct uaio_check_record record;
	struct uaio_check_part part;
};

static struct {
	/*
	 * `nr` and `all` change under the lock. `nr` counts all pieces that were ever
	 * stored in `all`, also overwritten ones.
	 */
	uint32_t nr;
	struct past all[PASTS];
} pasts;

static bool writes(uint8_t op)
{
	return op == UAIO_OP_WRITE || op == UAIO_OP_WRITEV ||
	       op == UAIO_OP_SEND || op == UAIO_OP_SENDMSG ||
	       op == UAIO_OP_SEND_ZC || op == UAIO_OP_SENDMSG_ZC;
}

static bool reads(uint8_t op)
{
	return op == UAIO_OP_READ || op == UAIO_OP_READV ||
	       op == UAIO_OP_RECV || op == UAIO_OP_RECVMSG;
}

void uaio_check_race_submit(uint8_t op, uintptr_t tail)
{
	uaio_tsan_submit(tail, writes(op));
	uaio_helgrind_submit(tail, writes(op));
}

void uaio_check_race_begin(const struct uaio_sqe *sqe,
			   struct uaio_check_record *record)
{
	struct uaio_check_report report;
	struct uaio_check_making making;

	if (!uaio_tsan_is_here()) {
		uaio_helgrind_begin(sqe);
		return;
	}
	uaio_check_lock();
	report = uaio_check_report_of_locked(
		record, uaio_check_part(record->parts), UAIO_CHECK_KIND_RACE);
	uaio_check_unlock();
	report.now = record->stack;
	uaio_check_making_begin(&making, &report);
	record->fiber = uaio_tsan_begin(sqe, record->stack);
	uaio_check_making_end(&making);
}

void uaio_check_race_note_locked(const struct uaio_check_record *record)
{
	if (!record->fiber) {
		uaio_helgrind_end_locked(record, reads(record->op));
		return;
	}
	for (uint32_t i = record->parts; i; i = uaio_check_part(i)->next)
		if (!uaio_check_part(i)->is_gone)
			pasts.all[pasts.nr++ % PASTS] =
				(struct past){ *record, *uaio_check_part(i) };
}

void uaio_check_race_end(const struct uaio_check_record *record)
{
	if (record->fiber)
		uaio_tsan_end(record->fiber, record->tail);
	if (reads(record->op))
		uaio_tsan_carry(record->tail);
}

void uaio_check_pass(uintptr_t from, uintptr_t to)
{
	uaio_tsan_pass(from, to);
	uaio_helgrind_pass(from, to);
}

void uaio_check_notified(void)
{
	uaio_tsan_notified();
	uaio_helgrind_notified();
}

void uaio_check_shared(const void *at, size_t bytes)
{
	uaio_helgrind_untrack((uintptr_t)at, bytes);
}

static bool has_fiber(const void *arg, const struct uaio_check_part *part)
{
	(void)arg;
	return uaio_check_record_of(part)->fiber;
}

/*
 * Return: of the stored pieces of memory that contain the byte, the one that was stored
 * last; or NULL.
 */
static const struct past *find_past_locked(uintptr_t at)
{
	for (uint32_t i = 1; i <= PASTS && i <= pasts.nr; i++) {
		const struct past *past = &pasts.all[(pasts.nr - i) % PASTS];

		if (at - past->part.at < past->part.bytes)
			return past;
	}
	return NULL;
}

/*
 * Return: whether a request uses the byte, or used it lately. Then *ret is a report of
 * the race.
 */
static bool find(uintptr_t at, struct uaio_check_report *ret)
{
	const struct uaio_check_part *part;
	const struct past *past = NULL;

	uaio_check_lock();
	part = uaio_check_index_find(at, 1, has_fiber, NULL);
	if (part)
		*ret = uaio_check_report_of_locked(uaio_check_record_of(part),
						   part, UAIO_CHECK_KIND_RACE);
	else if ((past = find_past_locked(at)))
		*ret = uaio_check_report_of_locked(&past->record, &past->part,
						   UAIO_CHECK_KIND_RACE);
	uaio_check_unlock();
	ret->at = at;
	return part || past;
}

void uaio_check_raced(void *sanitizers)
{
	struct uaio_check_report report;
	uintptr_t at;

	if (!uaio_tsan_get_race(sanitizers, &at))
		return;
	if (!uaio_engine_is_up())
		return;
	if (!uaio_enter()) {
		if (uaio_check_making_mine(&report)) {
			report.at = at;
			uaio_check_report(&report);
		}
		return;
	}
	if (find(at, &report))
		uaio_check_report(&report);
	uaio_leave();
}
