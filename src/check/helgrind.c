/* SPDX-License-Identifier: MIT */
/*
 * helgrind and drd of valgrind: which of the program's threads come after which, and which
 * memory requests use. The library tells them by client requests (valgrind.h)
 *
 * Both take the library's threads for threads of the program, and know neither its atomic
 * accesses nor those of the program. `uaio check` has them not report what the library does
 * (tool/check/valgrind.c).
 *
 *   V1  What a thread does before it submits comes before what another thread does after a
 *       call that takes completions of the queue: at the address of tsan.c's tail. So does
 *       what a function does that the program has called for a completion.
 *   V2  A request uses its memory where it is submitted, in the thread that submits it: a
 *       thread that uses the memory too, in no order with that, has a race. The function
 *       that makes the access is in libuaio-check.so, of which races are reported.
 *   V3  When the request is complete, the tools forget the transfer: a program learns of
 *       the completion by an access to the ring that they do not know as an order.
 *       helgrind has no request for that, and looks away from the memory until the program
 *       frees it, or submits it again.
 *   V4  They look away from memory that the program and the library use by atomic accesses:
 *       control blocks, arrays of provided buffers, rings that the program has mapped. From
 *       provided buffers too: a transfer may go to each of them at any time.
 *
 * Tested by test/run/checkers.py.
 */
#include "check/checker.h"

#include <dlfcn.h>

#include "base/check.h"
#include "check/check.h"
#include "check/checkint.h"
#include "check/valgrind.h"

enum tool {
	NONE,
	HELGRIND,
	DRD,
};

static enum tool tool; /* immutable after init */

/* In libuaio-check.so; NULL: it is not there. */
static void (*make_access)(const void *at, size_t bytes, bool is_written,
			   bool is_helgrind);

/* T4 of tsan.c, and V1: their addresses stand for all. */
static char transfers, completions;

void uaio_helgrind_init(void)
{
	const uintptr_t byte = (uintptr_t)&transfers;

	if (!uaio_valgrind_ask(UAIO_RUNNING_ON_VALGRIND, 0, 0, 0))
		return;
	/* Each knows its own requests alone. */
	if (uaio_valgrind_ask(UAIO_DRD_THREAD_ID, 0, 0, 0))
		tool = DRD;
	else if (uaio_valgrind_ask(UAIO_HELGRIND_GET_ABITS, byte, 0, 1) == 1)
		tool = HELGRIND;
	if (tool)
		*(void **)&make_access =
			dlsym(RTLD_DEFAULT, "uaio_check_access");
}

const char *uaio_helgrind_name(void)
{
	return tool == HELGRIND ? "helgrind" : tool == DRD ? "drd" : NULL;
}

static void before(const void *at)
{
	uaio_valgrind_ask(UAIO_HAPPENS_BEFORE, (uintptr_t)at, 0, 0);
}

static void after(const void *at)
{
	uaio_valgrind_ask(UAIO_HAPPENS_AFTER, (uintptr_t)at, 0, 0);
}

void uaio_helgrind_untrack(uintptr_t at, size_t bytes)
{
	if (tool && bytes)
		uaio_valgrind_ask(tool == DRD ? UAIO_DRD_UNTRACK
					      : UAIO_HELGRIND_UNTRACK,
				  at, bytes, 0);
}

/* V3. Return: whether helgrind looks away from some of the memory. */
static bool is_untracked(uintptr_t at, size_t bytes)
{
	return tool == HELGRIND && uaio_valgrind_ask(UAIO_HELGRIND_GET_ABITS,
						     at, 0, bytes) != bytes;
}

static void use(void *arg, uintptr_t at, size_t bytes, bool is_written)
{
	const struct uaio_sqe *sqe = arg;

	if (uaio_check_is_control(sqe, at)) {
		uaio_helgrind_untrack(at, bytes);
		return;
	}
	/* The program may read it meanwhile. */
	if (uaio_check_is_header(sqe, at))
		return;
	if (is_untracked(at, bytes))
		uaio_valgrind_ask(UAIO_HELGRIND_TRACK, at, bytes, 0);
	if (make_access)
		make_access((const void *)at, bytes, is_written,
			    tool == HELGRIND);
}

void uaio_helgrind_submit(uintptr_t tail, bool writes)
{
	if (!tool)
		return;
	before((void *)tail);
	before(&completions);
	if (writes)
		before(&transfers);
}

void uaio_helgrind_begin(const struct uaio_sqe *sqe)
{
	if (tool)
		uaio_check_memory_of(sqe, use, (void *)(uintptr_t)sqe);
}

void uaio_helgrind_end_locked(const struct uaio_check_record *record,
			      bool reads)
{
	if (!tool)
		return;
	for (uint32_t i = record->parts; i; i = uaio_check_part(i)->next) {
		const struct uaio_check_part *part = uaio_check_part(i);

		if (part->is_gone)
			continue;
		if (tool == DRD)
			uaio_valgrind_ask(UAIO_DRD_FORGET, part->at,
					  part->bytes, 0);
		else
			uaio_helgrind_untrack(part->at, part->bytes);
	}
	if (reads)
		after(&transfers);
	before((void *)record->tail);
	before(&completions);
}

void uaio_helgrind_pass(uintptr_t from, uintptr_t to)
{
	if (!tool)
		return;
	if (from)
		after((void *)from);
	before((void *)to);
}

void uaio_helgrind_notified(void)
{
	if (tool)
		after(&completions);
}
