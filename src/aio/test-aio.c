/* SPDX-License-Identifier: MIT */
/*
 * A thread with its own descriptor table cancels a request and destroys a context. The
 * library's agent thread (table.h) does this for the thread.
 */
#undef NDEBUG
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "proc/table.h"
#include "aio/aio.h"
#include "unit.h"

enum { NR_POLLS = 4 };

/* Used by the test's thread and by the thread with its own table. */
static struct {
	uint64_t handle;
	struct iocb polls[NR_POLLS]; /* polls of a pipe that never gets ready */
	long rets[NR_POLLS + 1];
} shared;

/* Cancel one request, then destroy the context, which cancels all other requests. */
static long cancel_and_destroy(void *arg)
{
	const long args[3] = { CLONE_FILES };
	uint64_t handle = shared.handle;
	unsigned i = 0;

	(void)arg;
	if (uaio_table_part(SYS_unshare, args) != 0 || !uaio_table_is_other())
		return -1;
	shared.rets[i++] = uaio_aio_cancel(handle, &shared.polls[0]);
	shared.rets[i++] = uaio_aio_cancel(handle, &shared.polls[0]);
	shared.rets[i++] = uaio_aio_destroy(handle);
	shared.rets[i++] = uaio_aio_cancel(handle, &shared.polls[1]);
	shared.rets[i++] = uaio_aio_destroy(handle);
	return i == NR_ELEMENTS(shared.rets) ? 0 : -2;
}

static void the_agent_cancels_and_destroys_for_others(void **state)
{
	struct io_event events[NR_POLLS];
	struct unit_thread thread;
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	shared.handle = unit_context(NR_POLLS);
	for (unsigned i = 0; i < NR_POLLS; i++) {
		shared.polls[i] =
			unit_iocb(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0);
		assert_int_equal(unit_submit(shared.handle, &shared.polls[i]),
				 1);
	}
	unit_thread_start(&thread, cancel_and_destroy, NULL);
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_int_equal(shared.rets[0], -EINPROGRESS);
	assert_int_equal(shared.rets[1], -EINVAL);
	assert_int_equal(shared.rets[2], 0);
	assert_int_equal(shared.rets[3], -EINVAL);
	assert_int_equal(shared.rets[4], -EINVAL);
	assert_int_equal(unit_reap(shared.handle, 1, events), -EINVAL);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(the_agent_cancels_and_destroys_for_others),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
