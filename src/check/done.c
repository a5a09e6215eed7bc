/* SPDX-License-Identifier: MIT */
/*
 * What happens to the memory records of a request when the request completes. Tested by
 * test-check.c.
 */
#include "check/check.h"

#include "base/atomic.h"
#include "base/check.h"
#include "op/op.h"
#include "check/checker.h"
#include "check/checkint.h"
#include "check/hint.h"

struct span {
	uintptr_t at;
	size_t bytes;
};

enum { SPANS_MAX = 64 };

/*
 * Store in ret the pieces of memory that the hash covers.
 * Return: their number; 0: the request has no hash, or too many pieces.
 */
static unsigned spans_of_locked(const struct uaio_check_record *record,
				struct span *ret)
{
	unsigned nr = 0;

	for (uint32_t i = record->parts; record->has_hash && i;
	     i = uaio_check_part(i)->next) {
		if (uaio_check_part(i)->is_control)
			continue;
		if (nr == SPANS_MAX)
			return 0;
		ret[nr++] = (struct span){ uaio_check_part(i)->at,
					   uaio_check_part(i)->bytes };
	}
	return nr;
}

/*
 * Return: the request's first piece of memory that is not an aiocb; if there is none,
 * the first piece.
 */
static const struct uaio_check_part *
first_locked(const struct uaio_check_record *record)
{
	const struct uaio_check_part *part = uaio_check_part(record->parts);

	while (part->is_control && part->next)
		part = uaio_check_part(part->next);
	return part;
}

/*
 * Compute the hash again. If it differs from the hash at the submission, report that
 * the program has changed the data. The calling thread owns the request, so no other
 * thread drops the record.
 */
static void look_for_change(const struct uaio_check_record *record)
{
	struct uaio_check_report report;
	struct span spans[SPANS_MAX];
	uint64_t hash = 0;
	unsigned nr;

	uaio_check_lock();
	nr = spans_of_locked(record, spans);
	report = uaio_check_report_of_locked(record, first_locked(record),
					     UAIO_CHECK_KIND_CHANGED);
	uaio_check_unlock();
	for (unsigned i = 0; i < nr; i++)
		/*
		 * The memory is not mapped: uaio_check_memory_ends() reports this.
		 */
		if (!uaio_check_hash(spans[i].at, spans[i].bytes, &hash))
			return;
	if (nr && hash != report.record.hash)
		uaio_check_report(&report);
}

/*
 * Under valgrind: report memory that was freed while the request was in flight. memcheck
 * itself reports where the memory was freed.
 */
static void look_for_freed(const struct uaio_check_record *record)
{
	struct uaio_check_report report;
	bool is_wrong = false;
	uintptr_t byte;

	uaio_check_lock();
	for (uint32_t i = record->parts; i && !is_wrong;
	     i = uaio_check_part(i)->next) {
		struct uaio_check_part *part = uaio_check_part(i);

		/*
		 * Skip memory on the stack: gone.c reports that a stack frame has
		 * ended.
		 */
		is_wrong = !part->is_gone && !part->is_on_stack &&
			   uaio_memcheck_has_ended(part);
		if (is_wrong)
			report = uaio_check_report_of_locked(
				record, part, UAIO_CHECK_KIND_FREED);
	}
	uaio_check_unlock();
	if (!is_wrong)
		return;
	report.at = report.part.at;
	report.bytes = report.part.bytes;
	report.did = "free, or the end of a stack frame";
	/*
	 * Make memcheck print its own report, about the byte before the memory. memcheck
	 * would print none about the memory, which it marks as addressable when the
	 * kernel writes it.
	 */
	(void)uaio_memcheck_look(report.at - 1, 1, true, &byte);
	uaio_check_report(&report);
}

/*
 * Return: how many bytes a request with this result has written to memory at most.
 */
static uint64_t written_bytes(const struct uaio_check_record *record,
			      int64_t res)
{
	if (res < 0)
		return 0;
	/*
	 * The results of other operations do not count all bytes that the kernel
	 * writes.
	 */
	if (record->op != UAIO_OP_READ && record->op != UAIO_OP_READV &&
	    record->op != UAIO_OP_RECV)
		return UINT64_MAX;
	return (uint64_t)res;
}

/* The kernel has written memory of the request: mark this memory as initialised. */
static void note_written(const struct uaio_check_record *record, int64_t res)
{
	uint64_t left = written_bytes(record, res);

	uaio_check_lock();
	for (uint32_t i = record->parts; i && left;
	     i = uaio_check_part(i)->next) {
		struct uaio_check_part *part = uaio_check_part(i);
		size_t bytes = part->bytes < left ? part->bytes : left;

		if (!part->is_written || part->is_gone)
			continue;
		uaio_memcheck_unprotect(part);
		uaio_memcheck_initialised(part->at, bytes);
		uaio_msan_initialised(part->at, bytes);
		if (!part->is_control && left != UINT64_MAX)
			left -= bytes;
	}
	uaio_check_unlock();
}

void uaio_check_complete(uint32_t number, int64_t res)
{
	struct uaio_check_record *record = uaio_check_record(number), past;

	if (!number)
		return;
	if (unlikely(uaio_memcheck_is_here()))
		look_for_freed(record);
	if (unlikely(uaio_msan_is_here() || uaio_memcheck_is_here()))
		note_written(record, res);
	if (record->thread == uaio_check_me())
		uaio_check_look_at_stack();
	/* relaxed: look_for_change() reads has_hash again under the lock */
	if (load_relaxed(&record->has_hash))
		look_for_change(record);
	if (unlikely(uaio_hint_is_on()))
		uaio_hint_end(number);
	uaio_check_lock();
	past = *record;
	if (unlikely(uaio_checker_has_threads()))
		uaio_check_race_note_locked(record);
	uaio_check_record_drop_locked(number);
	uaio_check_unlock();
	if (unlikely(uaio_tsan_is_here()))
		uaio_check_race_end(&past);
}
