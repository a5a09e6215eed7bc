/* SPDX-License-Identifier: MIT */
/*
 * Tells valgrind's tools helgrind and drd, by client requests (valgrind.h), in which
 * order the program's threads run, and what memory requests use
 *
 * Both tools treat the library's threads as threads of the program. They do not know
 * that atomic accesses order threads, neither in the library nor in the program. `uaio
 * check` configures the tools not to report accesses by the library
 * (tool/check/valgrind.c).
 *
 *   V1  What a thread does before it submits happens before what another thread does
 *       after a call that gets completions of the same queue. To tell the tools this
 *       order, the library passes the address of the queue's tail in both threads. If
 *       the library calls a function of the program for a completion, the submission
 *       also happens before this call.
 *   V2  At submission, the library accesses the request's memory in the submitting
 *       thread. So if another thread uses the memory without being ordered after the
 *       submission, the tool finds a race. The function that makes the access is in
 *       libuaio-check.so, for which the tools do report races.
 *   V3  When the request is complete, the tools must forget this access: a program may
 *       find the completion by reading the ring, and the tools do not know that such a
 *       read orders the threads. helgrind cannot forget an access. So the library makes
 *       helgrind ignore the memory until the program frees the memory or submits it
 *       again.
 *   V4  The tools ignore memory that the program and the library use by atomic
 *       accesses: control blocks, arrays of provided buffers, mapped rings. They also
 *       ignore provided buffers, as a request may write them at any time.
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

/* Pointer to a function of libuaio-check.so; NULL if that library is not loaded. */
static void (*make_access)(const void *at, size_t bytes, bool is_written,
			   bool is_helgrind);

/*
 * To order one thread before another, the library passes the same address to the tool in
 * both threads. &transfers orders requests that write data before requests that read
 * data (T4 of tsan.c). &completions orders completions before calls of the program's
 * functions (V1).
 */
static char transfers, completions;

void uaio_helgrind_init(void)
{
	const uintptr_t byte = (uintptr_t)&transfers;

	if (!uaio_valgrind_ask(UAIO_RUNNING_ON_VALGRIND, 0, 0, 0))
		return;
	/* Only drd answers this client request: it is one of drd's own. */
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

/* Return: whether helgrind ignores some of this memory now (V3). */
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
	/*
	 * The program may read a msghdr while the request is in flight, so make no
	 * access to it.
	 */
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
