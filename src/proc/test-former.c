/* SPDX-License-Identifier: MIT */
/*
 * Tests the ids with which workers execute requests that were submitted before a change
 * of ids, and which system calls such a change waits for.
 */
#undef NDEBUG
#include "proc/former.h"

#include <errno.h>
#include <grp.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/asked.h"
#include "base/atomic.h"
#include "base/sys.h"
#include "unit.h"

enum { SOMEBODY = 65534, OTHER = 65533, NR_KNOWN = 64 };

#define PATIENCE_NS INT64_C(5000000000)
#define NO_PATIENCE_NS INT64_C(1000000)

/* Set the effective ids of all threads, as the program would. */
static void become(uid_t id)
{
	struct uaio_former_change change;

	assert_int_equal(uaio_former_change_begin(true, &change), 0);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(setegid(id), 0);
	assert_int_equal(seteuid(id), 0);
	uaio_former_change_end(true, true, &change);
}

static void check_fsuid(uid_t id)
{
	struct uaio_attributes attributes;

	assert_true(uaio_attributes_ask(&attributes));
	assert_int_equal(attributes.uids[3], id);
	assert_int_equal(attributes.gids[3], id);
	assert_int_equal(uaio_attributes_have_all(&attributes), !id);
}

static int begin(uint32_t since, enum uaio_former_need need,
		 struct uaio_former_call *call)
{
	return uaio_former_begin(since, need, true, call);
}

/* Runs in a child, since the rights that the test gives up cannot be restored. */
static void who_gives_up_all_for_good_is_not_watched(void **state)
{
	int status;
	pid_t child = fork();

	(void)state;
	assert_true(child >= 0);
	if (!child) {
		struct uaio_former_change change;
		bool was_watched;

		uaio_former_start();
		was_watched = load_relaxed(&uaio_former_is_watched);
		(void)uaio_former_change_begin(true, &change);
		was_watched |= !load_relaxed(&uaio_former_is_watched);
		if (setresgid(OTHER, OTHER, OTHER) < 0 ||
		    setresuid(OTHER, OTHER, OTHER) < 0)
			_exit(2);
		uaio_former_change_end(true, true, &change);
		_exit(was_watched || load_relaxed(&uaio_former_is_watched));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void a_call_has_the_ids_of_its_submission(void **state)
{
	uint32_t of_root, of_somebody;
	struct uaio_former_call call;

	(void)state;
	become(0);
	of_root = uaio_former_now();
	become(SOMEBODY);
	of_somebody = uaio_former_now();
	assert_int_not_equal(of_root, of_somebody);
	assert_int_equal(begin(of_root, UAIO_NEEDS_FILE_IDS, &call), 0);
	check_fsuid(0);
	uaio_former_end(&call);
	check_fsuid(SOMEBODY);
	become(0);
	assert_int_equal(begin(of_somebody, UAIO_NEEDS_FILE_IDS, &call), 0);
	check_fsuid(SOMEBODY);
	uaio_former_end(&call);
	check_fsuid(0);
	assert_int_equal(begin(uaio_former_now(), UAIO_NEEDS_FILE_IDS, &call),
			 0);
	check_fsuid(0);
	uaio_former_end(&call);
}

/* Set the groups of all threads, as the program would. */
static void join_groups(size_t nr, const gid_t *groups)
{
	struct uaio_former_change change;

	assert_int_equal(uaio_former_change_begin(true, &change), 0);
	assert_int_equal(setgroups(nr, groups), 0);
	uaio_former_change_end(true, true, &change);
}

static void a_call_has_the_many_groups_of_its_submission(void **state)
{
	enum { NR_GROUPS = 100 };

	gid_t own[UAIO_GROUPS_MAX], groups[NR_GROUPS], found[NR_GROUPS];
	int nr_own = getgroups(UAIO_GROUPS_MAX, own);
	struct uaio_former_call call;
	uint32_t of_many;

	(void)state;
	assert_true(nr_own >= 0);
	for (gid_t i = 0; i < NR_GROUPS; i++)
		groups[i] = 1000 + i;
	become(0);
	join_groups(NR_GROUPS, groups);
	of_many = uaio_former_now();
	join_groups(0, NULL);
	assert_int_equal(begin(of_many, UAIO_NEEDS_FILE_IDS, &call), 0);
	assert_int_equal(getgroups(NR_GROUPS, found), NR_GROUPS);
	assert_memory_equal(found, groups, sizeof(groups));
	uaio_former_end(&call);
	assert_int_equal(getgroups(NR_GROUPS, found), 0);
	join_groups((size_t)nr_own, own);
}

static long try_without_rights(void *arg)
{
	const uint32_t *since = arg;
	struct uaio_former_call call;

	/* Change the ids of this thread only, for good. */
	if (syscall(SYS_setresgid, OTHER, OTHER, OTHER) < 0 ||
	    syscall(SYS_setresuid, OTHER, OTHER, OTHER) < 0)
		return -1;
	assert_int_equal(begin(since[0], UAIO_NEEDS_FILE_IDS, &call), 0);
	check_fsuid(OTHER);
	uaio_former_end(&call);
	assert_int_equal(begin(since[1], UAIO_NEEDS_FILE_IDS, &call),
			 -ECANCELED);
	check_fsuid(OTHER);
	return 0;
}

static void a_call_gains_no_rights(void **state)
{
	struct uaio_former_call call;
	struct unit_thread thread;
	uint32_t since[2];

	(void)state;
	become(0);
	since[0] = uaio_former_now();
	become(SOMEBODY);
	since[1] = uaio_former_now();
	become(0);
	unit_thread_start(&thread, try_without_rights, since);
	assert_int_equal(unit_thread_join(&thread), 0);
	/*
	 * The submitter of this request had another identity than the process. The
	 * library has recorded only the process's user and group ids, so the
	 * submitter's ids are unknown.
	 */
	assert_int_equal(
		uaio_former_begin(since[1], UAIO_NEEDS_FILE_IDS, false, &call),
		-ECANCELED);
	/*
	 * A worker never gets former effective ids, so this call is refused. The real
	 * ids are still the same, so a call that needs only real ids is allowed.
	 */
	assert_int_equal(begin(since[1], UAIO_NEEDS_ALL_IDS, &call),
			 -ECANCELED);
	assert_int_equal(begin(since[1], UAIO_NEEDS_REAL_IDS, &call), 0);
	uaio_former_end(&call);
	assert_int_equal(begin(since[1], UAIO_NEEDS_NO_IDS, &call), 0);
	uaio_former_end(&call);
	for (unsigned i = 0; i < NR_KNOWN; i++)
		become(0);
	assert_int_equal(begin(since[1], UAIO_NEEDS_FILE_IDS, &call),
			 -ECANCELED);
	/*
	 * If a call begun above still counted as running, this change of ids would wait
	 * for the end of that call.
	 */
	become(0);
}

static void what_begins_in_a_chain_has_the_fewer_rights(void **state)
{
	uint32_t of_root, of_somebody;

	(void)state;
	become(0);
	of_root = uaio_former_now();
	become(SOMEBODY);
	of_somebody = uaio_former_now();
	assert_int_equal(uaio_former_at_start(of_root), of_somebody);
	become(0);
	assert_int_equal(uaio_former_at_start(of_somebody), of_somebody);
}

static void a_change_that_gives_rights_waits_for_calls(void **state)
{
	struct uaio_former_change change;
	struct uaio_former_call call;

	(void)state;
	become(SOMEBODY);
	assert_int_equal(begin(uaio_former_now(), UAIO_NEEDS_FILE_IDS, &call),
			 0);
	uaio_former_have_patience(NO_PATIENCE_NS);
	assert_int_equal(uaio_former_change_begin(true, &change), -EAGAIN);
	uaio_former_have_patience(PATIENCE_NS);
	uaio_former_end(&call);
	become(0);
	/*
	 * This thread has all rights, so its change of ids gives no rights to the
	 * worker's call. The change waits for that call only for a while, then
	 * succeeds.
	 */
	assert_int_equal(begin(uaio_former_now(), UAIO_NEEDS_FILE_IDS, &call),
			 0);
	assert_int_equal(uaio_former_change_begin(true, &change), 0);
	uaio_former_change_end(true, false, &change);
	uaio_former_end(&call);
}

/* atomic */
static uint32_t is_about, is_over;

static long begin_during_change(void *arg)
{
	struct uaio_former_call call;
	long was_over;

	(void)arg;
	store_relaxed(&is_about, 1);
	assert_int_equal(begin(uaio_former_now(), UAIO_NEEDS_FILE_IDS, &call),
			 0);
	was_over = load_relaxed(&is_over);
	uaio_former_end(&call);
	return was_over;
}

static bool is_about_to(void *arg)
{
	(void)arg;
	return load_relaxed(&is_about);
}

static void no_call_begins_during_a_change(void **state)
{
	struct uaio_former_change change;
	struct unit_thread thread;

	(void)state;
	become(0);
	assert_int_equal(uaio_former_change_begin(true, &change), 0);
	unit_thread_start(&thread, begin_during_change, NULL);
	unit_await(is_about_to, NULL);
	store_relaxed(&is_over, 1);
	uaio_former_change_end(true, false, &change);
	assert_int_equal(unit_thread_join(&thread), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(who_gives_up_all_for_good_is_not_watched),
		UNIT_TEST(a_call_has_the_ids_of_its_submission),
		UNIT_TEST(a_call_has_the_many_groups_of_its_submission),
		UNIT_TEST(a_call_gains_no_rights),
		UNIT_TEST(what_begins_in_a_chain_has_the_fewer_rights),
		UNIT_TEST(a_change_that_gives_rights_waits_for_calls),
		UNIT_TEST(no_call_begins_during_a_change),
	};

	/* Skip: only root may take other ids. */
	if (geteuid() != 0)
		return 77;
	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
