/* SPDX-License-Identifier: MIT */
/*
 * Tests that a thread inside the library cannot be cancelled, although the client has set
 * PTHREAD_CANCEL_ASYNCHRONOUS, and although signal handlers call the library meanwhile.
 */
#undef NDEBUG
#include <pthread.h>

#include "proc/entry.h"
#include "unit.h"

/* Return: the cancellation type of this thread. */
static int cancel_type(void)
{
	int type, unused;

	assert_int_equal(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type),
			 0);
	assert_int_equal(pthread_setcanceltype(type, &unused), 0);
	return type;
}

/*
 * Call the library as a signal handler may. Inside the library, cancellation must be
 * deferred.
 */
static void handle(void)
{
	assert_true(uaio_enter());
	assert_int_equal(cancel_type(), PTHREAD_CANCEL_DEFERRED);
	uaio_leave();
}

/* Set the thread's cancellation type as a client does (src/host/sigaction.c). */
static void set_async(bool is_async)
{
	const int type = is_async ? PTHREAD_CANCEL_ASYNCHRONOUS
				  : PTHREAD_CANCEL_DEFERRED;

	assert_int_equal(pthread_setcanceltype(type, NULL), 0);
	uaio_entry.is_async = is_async;
}

static void a_handler_in_a_sleep_keeps_cancellation_deferred(void **state)
{
	int depth;

	(void)state;
	set_async(true);
	assert_true(uaio_enter());
	assert_int_equal(cancel_type(), PTHREAD_CANCEL_DEFERRED);
	depth = uaio_step_out();
	handle();
	uaio_step_in(depth);
	assert_int_equal(cancel_type(), PTHREAD_CANCEL_DEFERRED);
	depth = uaio_step_out_to(false);
	assert_int_equal(cancel_type(), PTHREAD_CANCEL_ASYNCHRONOUS);
	handle();
	uaio_step_in_from(false, depth);
	assert_int_equal(cancel_type(), PTHREAD_CANCEL_DEFERRED);
	uaio_leave();
	assert_int_equal(cancel_type(), PTHREAD_CANCEL_ASYNCHRONOUS);
	set_async(false);
}

static bool is_interrupted;

/*
 * Change the cancellation type. The first time, a signal handler runs just after the
 * change.
 */
static int set_type_and_handle(int type, int *ret_old)
{
	int ret = pthread_setcanceltype(type, ret_old);

	if (!is_interrupted) {
		is_interrupted = true;
		handle();
	}
	return ret;
}

static void a_handler_at_the_entry_keeps_cancellation_deferred(void **state)
{
	int (*const usual)(int, int *) = uaio_set_cancel_type;
	int depth;

	(void)state;
	set_async(true);
	uaio_set_cancel_type = set_type_and_handle;
	is_interrupted = false;
	assert_true(uaio_enter());
	assert_true(is_interrupted);
	assert_int_equal(cancel_type(), PTHREAD_CANCEL_DEFERRED);
	depth = uaio_step_out();
	is_interrupted = false;
	uaio_step_in(depth);
	assert_true(is_interrupted);
	assert_int_equal(cancel_type(), PTHREAD_CANCEL_DEFERRED);
	uaio_set_cancel_type = usual;
	uaio_leave();
	set_async(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_handler_in_a_sleep_keeps_cancellation_deferred),
		UNIT_TEST(a_handler_at_the_entry_keeps_cancellation_deferred),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
