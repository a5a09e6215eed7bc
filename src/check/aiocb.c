/* SPDX-License-Identifier: MIT */
/*
 * Check that a program calls aio_return(3) exactly once for each request
 *
 * Tested by test-check.c.
 */
#include "base/lock.h"
#include "op/op.h"
#include "check/check.h"
#include "check/checkint.h"

enum { AIOCBS = 4096 };

struct state {
	uintptr_t aiocb; /* 0: none */
	bool is_returned;
};

static struct {
	/*
	 * The lock has the rank UAIO_RANK_STACKS. A thread that holds this lock
	 * acquires no other lock.
	 */
	struct uaio_lock lock;
	/*
	 * Changes under the lock. If two aiocbs have the same slot, one overwrites the
	 * other's state; then errors of the overwritten aiocb are not found.
	 */
	struct state states[AIOCBS];
} aiocbs;

void uaio_check_aiocbs_init(void)
{
	aiocbs.lock = (struct uaio_lock){ 0 };
	/*
	 * None of the parent's requests exists in a child of fork(). So forget their
	 * aiocbs.
	 */
	for (unsigned i = 0; i < AIOCBS; i++)
		aiocbs.states[i].aiocb = 0;
}

static void lock(void)
{
	uaio_lock(&aiocbs.lock, UAIO_RANK_STACKS);
}

static void unlock(void)
{
	uaio_unlock(&aiocbs.lock, UAIO_RANK_STACKS);
}

static struct state *state_of(uintptr_t aiocb)
{
	return &aiocbs.states[(aiocb >> 3) % AIOCBS];
}

static void report(enum uaio_check_kind kind, uintptr_t aiocb)
{
	const struct uaio_check_report report = {
		.kind = kind,
		.at = aiocb,
		.record.op = UAIO_NR_OPS,
		.other.op = UAIO_NR_OPS,
		.now = uaio_check_here(),
	};

	uaio_check_report(&report);
}

void uaio_check_aiocb_submitted(uintptr_t aiocb, bool is_in_flight)
{
	struct state *state = state_of(aiocb);
	bool is_missing;

	lock();
	is_missing =
		state->aiocb == aiocb && !state->is_returned && !is_in_flight;
	*state = (struct state){ .aiocb = aiocb };
	unlock();
	if (is_missing)
		report(UAIO_CHECK_KIND_RETURN_MISSING, aiocb);
}

void uaio_check_aiocb_refused(uintptr_t aiocb)
{
	lock();
	if (state_of(aiocb)->aiocb == aiocb)
		state_of(aiocb)->aiocb = 0;
	unlock();
}

void uaio_check_returned(uintptr_t aiocb)
{
	struct state *state = state_of(aiocb);
	bool is_again = false;

	if (!uaio_check_is_on())
		return;
	lock();
	if (state->aiocb == aiocb) {
		is_again = state->is_returned;
		state->is_returned = true;
	}
	unlock();
	if (is_again)
		report(UAIO_CHECK_KIND_RETURN_TWICE, aiocb);
}
