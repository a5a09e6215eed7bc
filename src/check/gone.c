/* SPDX-License-Identifier: MIT */
/*
 * Finds requests in flight whose memory the program frees, or whose memory is in the
 * frame of a function that returns
 *
 * Tested by test-check.c.
 */
#include "check/check.h"

#include "base/atomic.h"
#include "op/op.h"
#include "check/checker.h"
#include "check/checkint.h"
#include "check/hint.h"

/*
 * Return: a part (piece of a request's memory) in the frame of a function that has
 * returned in this thread; or NULL.
 */
static struct uaio_check_part *
find_dead_locked(uintptr_t thread, const struct uaio_check_walk *walk)
{
	list_for_each (pos, &uaio_checked.in_flight) {
		const struct uaio_check_record *record =
			container_of(pos, struct uaio_check_record, in_flight);

		if (record->thread != thread)
			continue;
		for (uint32_t i = record->parts; i;
		     i = uaio_check_part(i)->next)
			if (uaio_check_part(i)->is_on_stack &&
			    uaio_check_has_returned(
				    walk, &uaio_check_part(i)->holder))
				return uaio_check_part(i);
	}
	return NULL;
}

void uaio_check_look_at_stack(void)
{
	struct uaio_check_report report;
	struct uaio_check_part *part;
	struct uaio_check_walk walk;
	struct uaio_check_span stack;

	/*
	 * relaxed: this thread sees at least the requests that it has submitted itself;
	 * here it looks only for such requests
	 */
	if (!uaio_check_is_on() ||
	    (!load_relaxed(&uaio_checked.nr_stack_parts) &&
	     !uaio_check_provided_has_stack()))
		return;
	uaio_check_walk_now(&walk);
	stack = uaio_check_my_stack(uaio_check_sp(&walk));
	if (!stack.end)
		return;
	if (uaio_check_provided_has_stack())
		uaio_check_provided_look_at_stack(&walk, &stack);
	uaio_check_lock();
	while ((part = find_dead_locked(uaio_check_me(), &walk))) {
		report = uaio_check_report_of_locked(uaio_check_record_of(part),
						     part,
						     UAIO_CHECK_KIND_STACK);
		report.now = walk.number;
		part->is_on_stack = false;
		uaio_checker_give_back(part);
		sub_relaxed(&uaio_checked.nr_stack_parts, 1);
		/*
		 * Functions that the program calls later change this memory, so its
		 * hash becomes invalid.
		 */
		store_relaxed(&uaio_check_record_of(part)->has_hash, false);
		uaio_check_unlock();
		uaio_check_report(&report);
		uaio_check_lock();
	}
	uaio_check_unlock();
}

static bool is_of_request(const void *arg, const struct uaio_check_part *part)
{
	(void)arg;
	return !part->is_provided;
}

bool uaio_check_may_have(uintptr_t at, size_t bytes)
{
	return uaio_check_is_on() && (uaio_check_index_may_have(at, bytes) ||
				      uaio_hint_may_have(at, bytes));
}

bool uaio_check_memory_ends(enum uaio_check_end end, uintptr_t at, size_t bytes)
{
	static const struct {
		enum uaio_check_kind kind;
		const char *did;
	} says[] = {
		[UAIO_CHECK_FREED] = { UAIO_CHECK_KIND_FREED, "free" },
		[UAIO_CHECK_UNMAPPED] = { UAIO_CHECK_KIND_UNMAPPED,
					  "unmapped" },
	};
	struct uaio_check_report report;
	struct uaio_check_part *part;
	bool is_in_flight = false;

	uaio_check_provided_memory_ends(end, at, bytes);
	if (end == UAIO_CHECK_FREED)
		uaio_hint_freed(at, bytes);
	for (;; is_in_flight = true) {
		uaio_check_lock();
		part = uaio_check_index_find(at, bytes, is_of_request, NULL);
		if (part) {
			report = uaio_check_report_of_locked(
				uaio_check_record_of(part), part,
				says[end].kind);
			/*
			 * From now on, memory at this address does not belong to the
			 * request.
			 */
			uaio_checker_give_back(part);
			uaio_check_index_remove(part);
			part->is_gone = true;
			store_relaxed(&uaio_check_record_of(part)->has_hash,
				      false);
		}
		uaio_check_unlock();
		if (!part)
			return is_in_flight;
		report.at = at;
		report.bytes = bytes;
		report.did = says[end].did;
		report.now = uaio_check_here();
		uaio_check_report(&report);
	}
}

bool uaio_check_is_written(uint32_t number)
{
	const struct uaio_check_record *record = uaio_check_record(number);
	bool is_written;

	uaio_check_lock();
	is_written = record->is_in_use && record->parts &&
		     uaio_check_part(record->parts)->is_written;
	uaio_check_unlock();
	return is_written;
}

void uaio_check_say_closed(uint32_t number)
{
	struct uaio_check_record *record = uaio_check_record(number);
	struct uaio_check_report report;
	bool is_in_use;

	if (!number)
		return;
	uaio_check_lock();
	is_in_use = record->is_in_use;
	report = uaio_check_report_of_locked(
		record, uaio_check_part(record->parts), UAIO_CHECK_KIND_CLOSED);
	uaio_check_unlock();
	/*
	 * Report nothing if the request is complete or cancelled by now, or if it only
	 * reads memory: such a request cannot overwrite memory of the program.
	 */
	if (!is_in_use || !report.part.is_written)
		return;
	report.now = uaio_check_here();
	uaio_check_report(&report);
}
