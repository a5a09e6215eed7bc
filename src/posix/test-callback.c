/* SPDX-License-Identifier: MIT */
/*
 * Tests calls of the client's functions (SIGEV_THREAD), and the threads that make these
 * calls.
 */
#undef NDEBUG
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "proc/entry.h"
#include "posix/callback.h"
#include "unit.h"

static uint32_t nr_calls, nr_inside, may_go; /* atomic */

static void free_call(struct uaio_callback *callback)
{
	free(callback);
}

static void call_with(uaio_callback_fn *function, uint32_t value,
		      const pthread_attr_t *attr)
{
	struct uaio_callback *callback = malloc(sizeof(*callback));

	assert_non_null(callback);
	callback->function = function;
	callback->value.sival_int = (int)value;
	callback->begins = free_call;
	callback->blocks_signals = false;
	callback->has_cpus = false;
	uaio_callback(callback, attr);
}

static void call(uaio_callback_fn *function, const pthread_attr_t *attr)
{
	call_with(function, 0, attr);
}

static int start(void **state)
{
	store_relaxed(&nr_calls, 0);
	store_relaxed(&nr_inside, 0);
	store_relaxed(&may_go, 0);
	return unit_setup(state);
}

#define CALLBACK_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, unit_teardown)

static bool has_called(void *nr)
{
	return load_relaxed(&nr_calls) >= *(const uint32_t *)nr;
}

static void await_calls(uint32_t nr)
{
	unit_await(has_called, &nr);
	assert_int_equal(load_relaxed(&nr_calls), nr);
	assert_int_equal(load_relaxed(&nr_inside), 0);
}

static void count(union sigval value)
{
	(void)value;
	add_relaxed(&nr_inside, uaio_is_inside());
	add_relaxed(&nr_calls, 1);
}

static void each_call_is_made_once(void **state)
{
	const uint32_t nr = unit_rounds(5000);

	(void)state;
	for (uint32_t i = 0; i < nr; i++)
		call(count, NULL);
	await_calls(nr);
}

static pthread_key_t key;
static __thread bool was_called;
/* atomic: calls in a thread that had made a call before */
static uint32_t nr_reused;
static uint32_t nr_destroyed; /* atomic */

static void destroy(void *value)
{
	(void)value;
	add_relaxed(&nr_destroyed, 1);
}

static bool has_destroyed(void *nr)
{
	return load_relaxed(&nr_destroyed) >= *(const uint32_t *)nr;
}

/* Leave behind a pending pthread_cancel(), and data of the thread. */
static void change_its_thread(union sigval value)
{
	pthread_testcancel();
	add_relaxed(&nr_reused, was_called);
	was_called = true;
	(void)pthread_setspecific(key, &key);
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	(void)pthread_cancel(pthread_self());
	count(value);
}

static void
a_function_finds_nothing_that_another_left_in_its_thread(void **state)
{
	static const uint32_t nr = 50;

	(void)state;
	assert_int_equal(pthread_key_create(&key, destroy), 0);
	for (uint32_t i = 1; i <= nr; i++) {
		call(change_its_thread, NULL);
		await_calls(i);
	}
	unit_await(has_destroyed, (void *)&nr);
	assert_int_equal(load_relaxed(&nr_reused), 0);
	assert_int_equal(pthread_key_delete(key), 0);
}

static void end_thread(union sigval value)
{
	count(value);
	pthread_exit(NULL);
}

static void a_function_may_end_its_thread(void **state)
{
	enum { NR = 200 };

	(void)state;
	for (uint32_t i = 0; i < NR; i++)
		call(i % 3 ? end_thread : count, NULL);
	await_calls(NR);
}

static void block(union sigval value)
{
	count(value);
	while (!load_relaxed(&may_go))
		(void)uaio_sleep(&may_go, 0, UAIO_FOREVER);
}

/*
 * The library calls all functions, although none of them returns before may_go is set.
 */
static void a_function_that_blocks_holds_up_no_other(void **state)
{
	enum { NR = 20 };

	(void)state;
	for (uint32_t i = 0; i < NR; i++)
		call(block, NULL);
	await_calls(NR);
	call(count, NULL);
	await_calls(NR + 1);
	store_relaxed(&may_go, 1);
	uaio_wake(&may_go, NR);
}

/* atomic: the argument of the function call that may return next */
static uint32_t turn;

static void await_turn(union sigval value)
{
	uint32_t now;

	while ((now = load_relaxed(&turn)) != (uint32_t)value.sival_int)
		(void)uaio_sleep(&turn, now, UAIO_FOREVER);
	count(value);
}

static void give_turn(uint32_t next)
{
	store_relaxed(&turn, next);
	uaio_wake(&turn, 1);
}

static void call_in_turn(uint32_t nr, bool is_given_before)
{
	if (is_given_before)
		give_turn(nr);
	call_with(await_turn, nr, NULL);
	if (!is_given_before)
		give_turn(nr);
	await_calls(nr);
}

/* The function waits for the test's thread, which has submitted the call. */
static void a_function_may_wait_for_the_thread_that_gave_its_call(void **state)
{
	const uint32_t nr = unit_rounds(5000);
	/* how many short calls are made between two calls that wait */
	enum { SHORT = 16 };

	(void)state;
	store_relaxed(&turn, 0);
	for (uint32_t i = 1; i <= nr; i++)
		call_in_turn(i, i % SHORT);
}

static struct {
	/* atomic: the child's process id; 0: there is no child yet */
	uint32_t child;
	/* atomic: how many calls the child has made */
	uint32_t nr_calls;
} * shared;
static int parent;

static void fork_and_return(union sigval value)
{
	pid_t pid = fork();

	(void)value;
	if (pid)
		store_release(&shared->child, (uint32_t)pid);
}

static void count_in_child(union sigval value)
{
	if (sys_getpid() != parent)
		add_relaxed(&shared->nr_calls, 1);
	count(value);
}

static bool has_forked(void *unused)
{
	(void)unused;
	return load_acquire(&shared->child);
}

static void a_child_that_returns_from_a_function_ends(void **state)
{
	enum { NR = 50 };
	int status = -1;

	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	parent = sys_getpid();
	call(fork_and_return, NULL);
	for (uint32_t i = 0; i < NR; i++)
		call(count_in_child, NULL);
	unit_await(has_forked, NULL);
	assert_int_equal(waitpid((pid_t)shared->child, &status, 0),
			 shared->child);
	/*
	 * In the child, a sanitizer may report memory of the parent as leaked, and
	 * abort.
	 */
	assert_true(UNIT_IS_SANITIZED || status == 0);
	await_calls(NR);
	assert_int_equal(load_relaxed(&shared->nr_calls), 0);
	assert_int_equal(munmap(shared, sizeof(*shared)), 0);
}

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attr,
			  void *(*main)(void *), void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
			  void *(*main)(void *), void *arg);

static uint32_t refuses_threads; /* atomic */

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attr,
			  void *(*main)(void *), void *arg)
{
	return load_relaxed(&refuses_threads)
		       ? EAGAIN
		       : __real_pthread_create(id, attr, main, arg);
}

static void
a_call_without_a_thread_is_made_as_soon_as_there_is_one(void **state)
{
	pthread_attr_t attr;

	(void)state;
	assert_int_equal(pthread_attr_init(&attr), 0);
	store_relaxed(&refuses_threads, 1);
	call(count, NULL);
	call(count, &attr);
	assert_int_equal(load_relaxed(&nr_calls), 0);
	uaio_callbacks_retry();
	assert_int_equal(load_relaxed(&nr_calls), 0);
	store_relaxed(&refuses_threads, 0);
	uaio_callbacks_retry();
	await_calls(2);
	assert_int_equal(pthread_attr_destroy(&attr), 0);
}

static uint32_t stack_kib; /* atomic */

static void look_at_itself(union sigval value)
{
	pthread_attr_t attr;
	size_t bytes = 0;
	sigset_t mask;

	(void)pthread_getattr_np(pthread_self(), &attr);
	(void)pthread_attr_getstacksize(&attr, &bytes);
	(void)pthread_attr_destroy(&attr);
	(void)pthread_sigmask(SIG_BLOCK, NULL, &mask);
	store_relaxed(&stack_kib, sigismember(&mask, SIGUSR1)
					  ? 0
					  : (uint32_t)(bytes >> 10));
	count(value);
}

static void a_thread_has_the_attributes_that_were_asked_for(void **state)
{
	pthread_attr_t attr;

	(void)state;
	/*
	 * No earlier thread had a stack of this size, so the C library cannot reuse one
	 * for this thread.
	 */
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED), 0);
	assert_int_equal(pthread_attr_setstacksize(&attr, 20 << 20), 0);
	call(look_at_itself, &attr);
	await_calls(1);
	assert_int_equal(load_relaxed(&stack_kib), 20 << 10);
	assert_int_equal(pthread_attr_destroy(&attr), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CALLBACK_TEST(each_call_is_made_once),
		CALLBACK_TEST(
			a_function_finds_nothing_that_another_left_in_its_thread),
		CALLBACK_TEST(a_function_may_end_its_thread),
		CALLBACK_TEST(a_function_that_blocks_holds_up_no_other),
		CALLBACK_TEST(
			a_function_may_wait_for_the_thread_that_gave_its_call),
		CALLBACK_TEST(a_child_that_returns_from_a_function_ends),
		CALLBACK_TEST(
			a_call_without_a_thread_is_made_as_soon_as_there_is_one),
		CALLBACK_TEST(a_thread_has_the_attributes_that_were_asked_for),
	};

	/*
	 * The POSIX AIO front-end would call this function, but the test is linked
	 * without the front-end.
	 */
	uaio_callbacks_init();
	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
