/* SPDX-License-Identifier: MIT */
/*
 * Completes native requests, which the kernel has executed by itself (native.h). The
 * functions here are called by threads that run parked requests.
 *
 * Tested by src/native/test-native*.c.
 */
#include <errno.h>

#include "base/sleep.h"
#include "native/native.h"
#include "ready/readyint.h"

/*
 * Return: how many of the nr requests the kernel has executed. The result -EAGAIN means
 * that the kernel gave the request back.
 */
static unsigned nr_executed(const int64_t *results, unsigned nr)
{
	unsigned nr_of_them = 0;

	for (unsigned i = 0; i < nr; i++)
		nr_of_them += results[i] != -EAGAIN;
	return nr_of_them;
}

unsigned uaio_natives_take(struct uaio_group *group, unsigned *ret_nr)
{
	struct uaio_req *reqs[UAIO_NATIVE_BATCH];
	int64_t results[UAIO_NATIVE_BATCH];
	unsigned nr, nr_all = 0;

	*ret_nr = 0;
	while ((nr = uaio_native_take(group, reqs, results,
				      UAIO_NATIVE_BATCH))) {
		/*
		 * relaxed: if another thread reads the old count, it only looks for
		 * parked requests and finds none
		 */
		sub_relaxed(&group->ready.nr_parked, nr);
		*ret_nr += nr_executed(results, nr);
		uaio_flow->complete_native(reqs, results, nr);
		nr_all += nr;
	}
	return nr_all;
}

unsigned uaio_ready_take_native(struct uaio_group *group)
{
	unsigned nr_completed, nr = uaio_natives_take(group, &nr_completed);

	/*
	 * Do not count requests that the kernel gave back unexecuted. They do not prove
	 * that threads of the program complete requests.
	 */
	if (nr_completed)
		uaio_ready_note_attended(&group->ready);
	return nr;
}

static void take_of(struct uaio_group *group)
{
	(void)uaio_ready_take_native(group);
}

bool uaio_natives_look(int64_t *looked_ns, bool had_some)
{
	int64_t now = uaio_now_ns();

	if (now - *looked_ns < UAIO_FALLBACK_IDLE_NS)
		return had_some;
	*looked_ns = now;
	return uaio_natives_each(take_of);
}
