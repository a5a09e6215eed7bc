/* SPDX-License-Identifier: MIT */
/* Checks and records the memory of requests at their submission */
#include "check/check.h"

#include "base/atomic.h"
#include "base/check.h"
#include "options/config.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "op/op.h"
#include "check/checker.h"
#include "check/checkint.h"
#include "check/hint.h"

enum {
	/* number of slots of the array `calls` */
	CALLS = 1024,
	/* The module computes no hash for requests with more bytes than this. */
	HASHED_MAX = 1 << 20,
};

static bool is_on; /* immutable after init */

/*
 * atomic: for each thread, the number of its submitting calls (such as io_submit) that
 * have ended. A completion is delayed until this number changes. If two threads share a
 * slot, the other thread's call may end the delay too early.
 */
static uint32_t calls[CALLS];

void uaio_check_load(void)
{
	if (!*uaio_check_directory)
		return;
	uaio_asan_init();
	uaio_memcheck_init();
	uaio_helgrind_init();
	uaio_msan_init();
	uaio_tsan_load();
	uaio_check_stacks_load();
}

void uaio_check_init(void)
{
	if (!*uaio_check_directory)
		return;
	is_on = uaio_check_records_init() && uaio_hint_init(UAIO_CHECK_RECORDS);
	uaio_check_aiocbs_init();
	uaio_tsan_init();
	uaio_check_index_init();
	uaio_check_provided_init();
	uaio_check_stacks_init();
	uaio_check_reports_init();
}

bool uaio_check_is_on(void)
{
	return is_on;
}

/*
 * What is checked when a request is submitted
 */

/*
 * A piece of a request's memory. `byte` is the piece's first byte that the program must
 * not use, or 0 if there is none.
 */
struct bad {
	enum uaio_memory what;
	uintptr_t byte, at;
	size_t bytes;
	bool is_written;
};

/*
 * What uaio_check_submit() finds out about a request before it creates the record.
 */
struct submission {
	const struct uaio_sqe *sqe;
	struct uaio_check_walk walk;
	/* bounds of the thread's own stack, if the thread is running on it */
	struct uaio_check_span stack;
	uint32_t nr;
	/*
	 * true if the kernel only reads the request's memory; then `hash` is the hash of
	 * this memory
	 */
	bool reads_all;
	uint64_t hash;
	size_t hashed;
	/*
	 * the first piece with a byte that the program must not use; if there is none,
	 * bad.byte is 0
	 */
	struct bad bad;
};

static bool is_poisoned(const void *arg, const struct uaio_check_part *part)
{
	(void)arg;
	return part->is_poisoned;
}

/*
 * Return: the first byte that the program must not use, or 0. Skip bytes that another
 * request in flight uses: find_overlap_locked() finds such an overlap, which is another
 * kind of error.
 */
static uintptr_t find_bad(uintptr_t at, size_t bytes)
{
	uintptr_t end = at + bytes;
	const struct uaio_check_part *part;

	uaio_check_lock();
	while (at && at < end && (at = uaio_asan_find(at, end - at))) {
		part = uaio_check_index_find(at, 1, is_poisoned, NULL);
		if (!part)
			break;
		at = part->at + part->bytes;
	}
	uaio_check_unlock();
	return at < end ? at : 0;
}

/*
 * Have memcheck check a piece of memory. But if a request in flight uses some of this
 * memory, compute no hash, and do not call memcheck: that request has made the memory
 * inaccessible, so memcheck would report any use.
 */
static void have_memcheck_look(struct submission *submission)
{
	struct bad *bad = &submission->bad;
	const struct uaio_check_part *part;

	uaio_check_lock();
	part = uaio_check_index_find(bad->at, bad->bytes, is_poisoned, NULL);
	uaio_check_unlock();
	if (part)
		submission->reads_all = false;
	else
		bad->what = uaio_memcheck_look(bad->at, bad->bytes,
					       bad->is_written, &bad->byte);
}

/*
 * Check a piece of the request's memory. Do nothing if an earlier piece already had a
 * byte that the program must not use.
 */
static void find_wrong(struct submission *submission, uintptr_t at,
		       size_t bytes, bool is_written)
{
	struct bad *bad = &submission->bad;

	if (bad->byte)
		return;
	*bad = (struct bad){ .at = at,
			     .bytes = bytes,
			     .is_written = is_written };
	if (uaio_memcheck_is_here())
		have_memcheck_look(submission);
	else if (uaio_msan_is_here() && !is_written &&
		 (bad->byte = uaio_msan_find(at, bytes)))
		bad->what = UAIO_MEMORY_UNINITIALISED;
	else if (uaio_asan_is_here() && (bad->byte = find_bad(at, bytes)))
		bad->what = UAIO_MEMORY_UNADDRESSABLE;
}

static void look(void *arg, uintptr_t at, size_t bytes, bool is_written)
{
	struct submission *submission = arg;

	submission->nr++;
	find_wrong(submission, at, bytes, is_written);
	/*
	 * Compute no hash of an aiocb: an aiocb contains no data that the kernel reads,
	 * and the library writes the result to the aiocb.
	 */
	if (uaio_check_is_control(submission->sqe, at))
		return;
	submission->hashed += bytes;
	/*
	 * If memcheck has reported a byte, compute no hash: memcheck would also report
	 * that the library reads this byte.
	 */
	submission->reads_all = submission->reads_all && !is_written &&
				!submission->bad.byte &&
				submission->hashed <= HASHED_MAX &&
				uaio_check_hash(at, bytes, &submission->hash);
}

struct adding {
	const struct submission *submission;
	uint32_t number; /* of the record */
	/*
	 * where add_part_locked() stores the number of the next part (struct
	 * uaio_check_part): the end of a linked list
	 */
	uint32_t *end;
	/* pieces of other requests may overlap the pieces of this request */
	bool may_overlap;
};

static void add_part_locked(void *arg, uintptr_t at, size_t bytes,
			    bool is_written)
{
	struct adding *adding = arg;
	uint32_t number = uaio_check_part_new_locked();
	struct uaio_check_part *part = uaio_check_part(number);

	if (!number)
		return;
	*part = (struct uaio_check_part){
		.record = adding->number,
		.at = at,
		.bytes = bytes,
		.is_written = is_written,
		.is_control =
			uaio_check_is_control(adding->submission->sqe, at),
	};
	part->is_on_stack = adding->submission->stack.end &&
			    uaio_check_find_holder(&adding->submission->walk,
						   at, &part->holder);
	*adding->end = number;
	adding->end = &part->next;
	adding->may_overlap |= uaio_check_index_may_have(at, bytes);
	add_relaxed(&uaio_checked.nr_stack_parts, part->is_on_stack);
	uaio_check_index_add(part);
	/*
	 * The program may read an aiocb or a msghdr while the request is in flight, so
	 * do not forbid this.
	 */
	if (!adding->submission->bad.byte && !part->is_control &&
	    !uaio_check_is_header(adding->submission->sqe, at))
		uaio_checker_take(part);
}

/*
 * Return: true if the request of the part `arg` and the request of `other` must not use
 * the same memory at the same time.
 */
static bool is_in_the_way(const void *arg, const struct uaio_check_part *other)
{
	const struct uaio_check_part *part = arg;

	return !other->is_provided && other->record != part->record &&
	       (other->is_written || part->is_written) &&
	       !uaio_check_record_of(other)->is_ordered;
}

/*
 * Return: whether another request uses memory of this request. Then *ret is a report of
 * this overlap.
 */
static bool find_overlap_locked(const struct uaio_check_record *record,
				struct uaio_check_report *ret)
{
	for (uint32_t i = record->parts; i; i = uaio_check_part(i)->next) {
		const struct uaio_check_part *part = uaio_check_part(i), *other;

		other = uaio_check_index_find(part->at, part->bytes,
					      is_in_the_way, part);
		if (!other)
			continue;
		/*
		 * The two requests share memory, and one of them writes it. So their
		 * memory may change, and its hash must not be compared at completion.
		 */
		store_relaxed(&uaio_check_record_of(part)->has_hash, false);
		store_relaxed(&uaio_check_record_of(other)->has_hash, false);
		*ret = (struct uaio_check_report){
			.kind = part->is_control && other->is_control
					? UAIO_CHECK_KIND_AIOCB
					: UAIO_CHECK_KIND_OVERLAP,
			.at = part->at,
			.now = record->stack,
			.record = *record,
			.part = *part,
			.other = *uaio_check_record_of(other),
			.other_part = *other,
		};
		return true;
	}
	return false;
}

/*
 * Return: whether memory of the request is below the stack pointer, and so was in a
 * stack frame that has ended. Then *ret is a report of this error.
 */
static bool find_dead_at_once_locked(const struct submission *submission,
				     const struct uaio_check_record *record,
				     struct uaio_check_report *ret)
{
	/*
	 * Consider only memory near the stack pointer. As a stack may have no guard
	 * page, memory far below may not belong to the stack.
	 */
	enum { NEAR = 16384 };
	uintptr_t sp = uaio_check_sp(&submission->walk);

	for (uint32_t i = record->parts; i; i = uaio_check_part(i)->next) {
		struct uaio_check_part *part = uaio_check_part(i);

		if (part->at < submission->stack.begin || part->at >= sp ||
		    sp - part->at > NEAR || !submission->stack.end)
			continue;
		/*
		 * Functions that the program calls later change this memory, so its
		 * hash becomes invalid.
		 */
		store_relaxed(&uaio_check_record_of(part)->has_hash, false);
		*ret = uaio_check_report_of_locked(record, part,
						   UAIO_CHECK_KIND_STACK);
		ret->now = record->stack;
		return true;
	}
	return false;
}

/*
 * Report that the program must not use some of the submitted memory, or has not
 * initialised it.
 */
static void report_bad(const struct submission *submission,
		       const struct uaio_check_record *record)
{
	const struct bad *bad = &submission->bad;
	struct uaio_check_report report = {
		.kind = bad->what == UAIO_MEMORY_UNINITIALISED
				? UAIO_CHECK_KIND_UNINITIALISED
				: UAIO_CHECK_KIND_UNADDRESSABLE,
		.at = bad->byte,
		.record = *record,
		.part = { .at = bad->at,
			  .bytes = bad->bytes,
			  .is_written = bad->is_written },
		.other.op = UAIO_NR_OPS,
		.now = record->stack,
	};
	struct uaio_check_making making;
	struct uaio_check_stack stack;

	if (!uaio_check_stack_get(record->stack, &stack))
		stack.pcs[0] = 0;
	if (!uaio_asan_is_here()) {
		uaio_check_report(&report);
		if (uaio_msan_is_here())
			uaio_msan_report(bad->at, bad->bytes);
		return;
	}
	uaio_check_making_begin(&making, &report);
	uaio_asan_report(stack.pcs[0], bad->byte, bad->bytes, bad->is_written);
	uaio_check_making_end(&making);
}

/*
 * Return: whether a request in flight uses the byte. Then *ret is a report of the
 * program's access to the byte.
 */
static bool find_touched(uintptr_t at, struct uaio_check_report *ret)
{
	const struct uaio_check_part *part;

	uaio_check_lock();
	part = uaio_check_index_find(at, 1, is_poisoned, NULL);
	if (part)
		*ret = (struct uaio_check_report){
			.kind = UAIO_CHECK_KIND_TOUCHED,
			.at = at,
			.record = *uaio_check_record_of(part),
			.part = *part,
			.other.op = UAIO_NR_OPS,
		};
	uaio_check_unlock();
	return part;
}

void uaio_check_reported(uintptr_t at)
{
	struct uaio_check_report report;

	if (!uaio_engine_is_up())
		return;
	if (!uaio_enter()) {
		if (uaio_check_making_mine(&report))
			uaio_check_report(&report);
		return;
	}
	if (find_touched(at, &report))
		uaio_check_report(&report);
	uaio_leave();
}

static uint32_t *calls_of(uintptr_t thread)
{
	return &calls[thread * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

static void fill(struct uaio_check_record *record,
		 const struct submission *submission, bool is_ordered)
{
	const struct uaio_sqe *sqe = submission->sqe;
	bool has_place = uaio_optab[sqe->op].class <= UAIO_CLASS_SYNC &&
			 !uaio_optab[sqe->op].is_of_socket;

	*record = (struct uaio_check_record){
		.stack = submission->walk.number,
		.thread = uaio_check_me(),
		.op = sqe->op,
		.is_in_use = true,
		.is_ordered = is_ordered,
		.has_hash = submission->reads_all && !is_ordered,
		.fd = uaio_optab[sqe->op].has_no_file ? -1 : sqe->fd,
		.off = has_place ? sqe->off : -1,
		.data = sqe->data,
		.hash = submission->hash,
	};
	/* relaxed: only this thread changes its number of ended calls */
	record->call = load_relaxed(calls_of(record->thread));
}

uint32_t uaio_check_submit(const struct uaio_sqe *sqe, uintptr_t tail,
			   bool is_ordered)
{
	struct submission submission = { .sqe = sqe, .reads_all = true };
	struct uaio_check_report report;
	struct uaio_check_record *record;
	struct adding adding = { .submission = &submission };
	bool is_wrong = false, is_first, wants_hints;

	if (!is_on)
		return 0;
	tail = tail ? tail : (uintptr_t)sqe->data;
	if (unlikely(uaio_checker_has_threads()))
		uaio_check_race_submit(sqe->op, tail);
	if (unlikely(uaio_msan_is_here()))
		uaio_msan_submit(sqe);
	wants_hints = uaio_hint_wants(sqe);
	uaio_check_look_at_stack();
	if (sqe->by_door && uaio_op_door->submitted)
		uaio_op_door->submitted(sqe);
	uaio_check_memory_of(sqe, look, &submission);
	if (submission.nr || wants_hints) {
		uaio_check_walk_now(&submission.walk);
		submission.stack =
			uaio_check_my_stack(uaio_check_sp(&submission.walk));
	}
	uaio_check_lock();
	is_first = !uaio_checked.nr_requests++;
	record = submission.nr || wants_hints
			 ? uaio_check_record_new_locked(&adding.number)
			 : NULL;
	if (record) {
		uaio_checked.nr_checked += submission.nr != 0;
		fill(record, &submission, is_ordered);
		record->tail = tail;
		list_add_tail(&uaio_checked.in_flight, &record->in_flight);
		adding.end = &record->parts;
		uaio_check_memory_of(sqe, add_part_locked, &adding);
		is_wrong = find_dead_at_once_locked(&submission, record,
						    &report) ||
			   (!is_ordered && adding.may_overlap &&
			    find_overlap_locked(record, &report));
	}
	uaio_check_unlock();
	if (is_first)
		uaio_check_begun();
	if (is_wrong)
		uaio_check_report(&report);
	if (record && submission.bad.byte)
		report_bad(&submission, record);
	if (record && !is_ordered && !is_wrong &&
	    unlikely(uaio_checker_has_threads()))
		uaio_check_race_begin(sqe, record);
	if (record && unlikely(uaio_hint_is_on()))
		uaio_hint_submit(sqe, adding.number, submission.walk.number,
				 is_ordered);
	return adding.number;
}

static bool is_control(const void *arg, const struct uaio_check_part *part)
{
	(void)arg;
	return part->is_control;
}

void uaio_check_aiocb(uintptr_t aiocb)
{
	bool is_in_flight;

	if (!is_on)
		return;
	uaio_check_lock();
	is_in_flight = uaio_check_index_find(aiocb, 1, is_control, NULL);
	uaio_check_unlock();
	uaio_check_aiocb_submitted(aiocb, is_in_flight);
}

void uaio_check_drop(uint32_t record)
{
	uint32_t fiber;

	if (!record)
		return;
	if (unlikely(uaio_hint_is_on()))
		uaio_hint_end(record);
	uaio_check_lock();
	fiber = uaio_check_record(record)->fiber;
	uaio_check_record_drop_locked(record);
	uaio_check_unlock();
	if (unlikely(fiber))
		uaio_tsan_refuse(fiber);
}

void uaio_check_call_is_over(void)
{
	/*
	 * relaxed: if another thread reads the old number of ended calls, it only
	 * delays a completion longer
	 */
	add_relaxed(calls_of(uaio_check_me()), 1);
}

bool uaio_check_is_over(uint32_t number)
{
	const struct uaio_check_record *record = uaio_check_record(number);

	/*
	 * relaxed: if this thread reads the old number of ended calls, the completion
	 * is only delayed longer
	 */
	return load_relaxed(calls_of(record->thread)) != record->call;
}

void uaio_check_say_made(uint32_t number, const char *name)
{
	const struct uaio_check_record *record = uaio_check_record(number);
	struct uaio_check_report report;

	if (!number)
		return;
	uaio_check_lock();
	report = uaio_check_report_of_locked(
		record, uaio_check_part(record->parts), UAIO_CHECK_KIND_MADE);
	uaio_check_unlock();
	report.did = name;
	uaio_check_report(&report);
}

void uaio_check_end(void)
{
	if (is_on)
		uaio_check_summary(uaio_checked.nr_requests,
				   uaio_checked.nr_checked,
				   uaio_asan_is_here() ? "AddressSanitizer"
				   : uaio_memcheck_is_here() ? "memcheck"
				   : uaio_msan_is_here()     ? "MemorySanitizer"
				   : uaio_tsan_is_here()     ? "ThreadSanitizer"
				   : uaio_helgrind_name() ? uaio_helgrind_name()
							  : "none");
}
