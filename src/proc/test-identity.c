/* SPDX-License-Identifier: MIT */
/*
 * Tests which threads share an identity when they change their attributes and create
 * other threads.
 */
#undef NDEBUG
#include "proc/identity.h"

#include <grp.h>
#include <pthread.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "proc/thread.h"
#include "wq/wq.h"
#include "unit.h"

enum { SOMEBODY = 65534, OTHER = 65533 };

static void become(uid_t id)
{
	(void)setfsuid(id);
	uaio_identity_changed(UAIO_CHANGED_ATTRIBUTES);
}

/*
 * The test's own thread has the process's identity at the beginning and at the end of
 * each test.
 */
static int set_up(void **state)
{
	(void)state;
	(void)uaio_identities_become_many();
	become(0);
	return uaio_identity_mine() == UAIO_IDENTITY_OF_PROCESS ? 0 : -1;
}

static void who_changes_back_is_whom_it_was(void **state)
{
	uint32_t somebody;

	(void)state;
	become(SOMEBODY);
	somebody = uaio_identity_mine();
	assert_int_not_equal(somebody, UAIO_IDENTITY_OF_PROCESS);
	become(OTHER);
	assert_int_not_equal(uaio_identity_mine(), somebody);
	assert_int_not_equal(uaio_identity_mine(), UAIO_IDENTITY_OF_PROCESS);
	become(SOMEBODY);
	assert_int_equal(uaio_identity_mine(), somebody);
	become(0);
	assert_int_equal(uaio_identity_mine(), UAIO_IDENTITY_OF_PROCESS);
}

static long change_domain(void *arg)
{
	uint32_t first;

	(void)arg;
	uaio_identity_changed(UAIO_CHANGED_DOMAIN);
	first = uaio_identity_mine();
	assert_int_not_equal(first, UAIO_IDENTITY_OF_PROCESS);
	assert_int_not_equal(uaio_identity_domain(), 0);
	/*
	 * A thread that changes its security domain gets a new identity, even if all
	 * attributes that can be queried stay equal.
	 */
	uaio_identity_changed(UAIO_CHANGED_DOMAIN);
	assert_int_not_equal(uaio_identity_mine(), first);
	return 0;
}

static void a_domain_is_nobody_elses(void **state)
{
	struct unit_thread thread;

	(void)state;
	unit_thread_start(&thread, change_domain, NULL);
	assert_int_equal(unit_thread_join(&thread), 0);
	assert_int_equal(uaio_identity_mine(), UAIO_IDENTITY_OF_PROCESS);
}

static void after_a_change_of_all_threads_nothing_is_compared(void **state)
{
	uint32_t somebody;

	(void)state;
	become(SOMEBODY);
	somebody = uaio_identity_mine();
	become(0);
	uaio_identity_changed(UAIO_CHANGED_PROCESS);
	assert_int_equal(uaio_identity_mine(), UAIO_IDENTITY_OF_PROCESS);
	(void)uaio_identities_become_many();
	become(SOMEBODY);
	assert_int_not_equal(uaio_identity_mine(), somebody);
	assert_int_not_equal(uaio_identity_mine(), UAIO_IDENTITY_OF_PROCESS);
	become(0);
	assert_int_equal(uaio_identity_mine(), UAIO_IDENTITY_OF_PROCESS);
}

/* The thread takes more identities than the library remembers. */
static void who_changes_often_is_still_known(void **state)
{
	enum { NR_CHANGES = 300 };

	(void)state;
	for (uid_t i = 0; i < NR_CHANGES; i++)
		become(1000 + i);
	become(0);
	assert_int_equal(uaio_identity_mine(), UAIO_IDENTITY_OF_PROCESS);
}

/* Set the groups of this thread only. */
static void take_groups(size_t nr, const gid_t *groups)
{
	assert_int_equal(syscall(SYS_setgroups, nr, groups), 0);
	uaio_identity_changed(UAIO_CHANGED_ATTRIBUTES);
}

static void many_groups_are_compared(void **state)
{
	enum { NR_GROUPS = UAIO_GROUPS_MAX + 36 };

	gid_t own[UAIO_GROUPS_MAX], groups[NR_GROUPS];
	int nr_own = getgroups(UAIO_GROUPS_MAX, own);
	uint32_t first, fewer;

	(void)state;
	assert_true(nr_own >= 0);
	for (gid_t i = 0; i < NR_GROUPS; i++)
		groups[i] = 1000 + i;
	take_groups(NR_GROUPS, groups);
	first = uaio_identity_mine();
	assert_int_not_equal(first, UAIO_IDENTITY_OF_PROCESS);
	take_groups(NR_GROUPS - 1, groups);
	fewer = uaio_identity_mine();
	assert_int_not_equal(fewer, UAIO_IDENTITY_OF_PROCESS);
	assert_int_not_equal(fewer, first);
	groups[NR_GROUPS - 1]++;
	take_groups(NR_GROUPS, groups);
	assert_int_not_equal(uaio_identity_mine(), UAIO_IDENTITY_OF_PROCESS);
	assert_int_not_equal(uaio_identity_mine(), first);
	assert_int_not_equal(uaio_identity_mine(), fewer);
	groups[NR_GROUPS - 1]--;
	take_groups(NR_GROUPS, groups);
	assert_int_equal(uaio_identity_mine(), first);
	take_groups((size_t)nr_own, own);
	assert_int_equal(uaio_identity_mine(), UAIO_IDENTITY_OF_PROCESS);
}

/* atomic: the identity of the created thread, plus 1; 0: not stored yet */
static uint32_t of_heir;

static void *tell(void *arg)
{
	(void)arg;
	uaio_thread_begin("uaio-test");
	/*
	 * relaxed: the thread that waits for of_heir reads nothing else of this thread
	 */
	store_relaxed(&of_heir, uaio_identity_mine() + 1);
	uaio_thread_end();
	return NULL;
}

static bool has_told(void *arg)
{
	(void)arg;
	return load_relaxed(&of_heir);
}

static void a_thread_has_the_identity_of_its_creator(void **state)
{
	uint32_t mine;

	(void)state;
	become(SOMEBODY);
	mine = uaio_identity_mine();
	store_relaxed(&of_heir, 0);
	assert_int_equal(uaio_thread_start(tell, NULL), 0);
	become(0);
	unit_await(has_told, NULL);
	assert_int_equal(load_relaxed(&of_heir), mine + 1);
}

static void *check(void *identity)
{
	uaio_identity_check();
	*(uint32_t *)identity = uaio_identity_mine();
	return NULL;
}

/* Return: the identity of a thread that is created without the library's notice. */
static uint32_t of_new_thread(void)
{
	uint32_t identity = UINT32_MAX;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, check, &identity), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	return identity;
}

static void a_new_thread_is_the_process_after_its_ids_change(void **state)
{
	(void)state;
	become(SOMEBODY);
	become(0);
	uaio_identity_changed(UAIO_CHANGED_PROCESS);
	assert_int_equal(of_new_thread(), UAIO_IDENTITY_OF_PROCESS);
	(void)setfsuid(SOMEBODY);
	assert_int_not_equal(of_new_thread(), UAIO_IDENTITY_OF_PROCESS);
	(void)setfsuid(0);
}

static void a_thread_that_inherits_the_process_is_not_compared(void **state)
{
	uint32_t identity = UINT32_MAX;
	void *arg = &identity;
	uaio_thread_main_fn *main = uaio_identity_inherit(check, &arg);
	pthread_t thread;

	(void)state;
	assert_non_null(main);
	(void)setfsuid(SOMEBODY);
	assert_int_equal(pthread_create(&thread, NULL, main, arg), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	(void)setfsuid(0);
	assert_int_equal(identity, UAIO_IDENTITY_OF_PROCESS);
}

static int has_new_identity(void)
{
	return of_new_thread() != UAIO_IDENTITY_OF_PROCESS;
}

static void a_new_thread_is_the_process_in_a_child_of_fork(void **state)
{
	(void)state;
	assert_int_equal(unit_in_child(has_new_identity), 0);
}

/*
 * This thread is created without the library's notice, as the C library creates threads
 * for timers.
 */
static void *enlist(void *crew)
{
	*(unsigned *)crew = uaio_wq_enlist();
	assert_int_not_equal(uaio_identity_mine(), UAIO_IDENTITY_OF_PROCESS);
	uaio_wq_delist(*(unsigned *)crew);
	return NULL;
}

static void a_thread_that_nobody_has_told_of_is_compared(void **state)
{
	unsigned crew = 0;
	pthread_t thread;

	(void)state;
	become(SOMEBODY);
	assert_int_equal(pthread_create(&thread, NULL, enlist, &crew), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_not_equal(crew, 0);
	become(0);
}

/*
 * Change an id without the library's notice, as if by a syscall instruction of the
 * program itself.
 */
static void what_nobody_has_told_is_found_if_it_may_happen(void **state)
{
	(void)state;
	(void)setfsuid(SOMEBODY);
	assert_int_equal(uaio_wq_enlist(), 0);
	uaio_identities_become_unproved();
	assert_int_not_equal(uaio_wq_enlist(), 0);
	assert_int_not_equal(uaio_identity_mine(), UAIO_IDENTITY_OF_PROCESS);
	(void)setfsuid(0);
	assert_int_equal(uaio_wq_enlist(), 0);
	uaio_identity_changed(UAIO_CHANGED_PROCESS);
	assert_int_equal(uaio_wq_enlist(), 0);
}

static void more_identities_than_crews_are_refused(void **state)
{
	unsigned crews[UAIO_WQ_CREWS], nr = 0;

	(void)state;
	do {
		become(1000 + nr);
		crews[nr] = uaio_wq_enlist();
	} while (crews[nr] != UAIO_WQ_NO_CREW && ++nr < UAIO_WQ_CREWS);
	assert_true(nr < UAIO_WQ_CREWS);
	assert_true(nr >= UAIO_WQ_CREWS - 4);
	become(1000);
	assert_int_equal(uaio_wq_enlist(), crews[0]);
	uaio_wq_delist(crews[0]);
	while (nr--)
		uaio_wq_delist(crews[nr]);
	become(0);
	/*
	 * Before ids change in all threads, idle threads of other identities end. Four
	 * crews at most have requests that earlier tests have enlisted.
	 */
	uaio_wq_ids_begin();
	assert_in_range(uaio_wq_nr_threads(), 0, 4);
	uaio_wq_ids_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(who_changes_back_is_whom_it_was, set_up),
		cmocka_unit_test_setup(a_domain_is_nobody_elses, set_up),
		cmocka_unit_test_setup(
			after_a_change_of_all_threads_nothing_is_compared,
			set_up),
		cmocka_unit_test_setup(who_changes_often_is_still_known,
				       set_up),
		cmocka_unit_test_setup(many_groups_are_compared, set_up),
		cmocka_unit_test_setup(
			a_new_thread_is_the_process_after_its_ids_change,
			set_up),
		cmocka_unit_test_setup(
			a_thread_that_inherits_the_process_is_not_compared,
			set_up),
		cmocka_unit_test_setup(
			a_new_thread_is_the_process_in_a_child_of_fork, set_up),
		cmocka_unit_test_setup(a_thread_has_the_identity_of_its_creator,
				       set_up),
		cmocka_unit_test_setup(
			a_thread_that_nobody_has_told_of_is_compared, set_up),
		cmocka_unit_test_setup(
			what_nobody_has_told_is_found_if_it_may_happen, set_up),
		cmocka_unit_test_setup(more_identities_than_crews_are_refused,
				       set_up),
	};

	/* Skip: only root may take other ids. */
	if (geteuid() != 0)
		return 77;
	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
