/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "base/slab.h"

#include <errno.h>
#include <string.h>

#include "unit.h"

struct object {
	struct uaio_slab_node node;
	char bytes[100];
};

enum { BATCH = 4096, PER_BATCH = BATCH / sizeof(struct object) };

static struct uaio_slab slab;

static int start(void **state)
{
	uaio_slab_init(&slab, sizeof(struct object), BATCH);
	return unit_setup(state);
}

#define SLAB_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, unit_teardown)

static void a_fresh_object_is_zero(void **state)
{
	static const char zeros[100];

	(void)state;
	for (unsigned i = 0; i < 3 * PER_BATCH; i++) {
		struct object *object = uaio_slab_get(&slab);

		assert_memory_equal(object->bytes, zeros, 100);
		memset(object, 0xff, sizeof(*object));
	}
	assert_int_equal(slab.nr_out, 3 * PER_BATCH);
	assert_int_equal(slab.mapped_bytes, 3 * BATCH);
}

static void an_object_comes_back_as_it_was(void **state)
{
	struct object *object = uaio_slab_get(&slab), *again;
	char bytes[100];

	(void)state;
	memset(bytes, 'x', sizeof(bytes));
	memcpy(object->bytes, bytes, sizeof(bytes));
	uaio_slab_put(&slab, object);
	assert_int_equal(slab.nr_out, 0);
	/*
	 * The object keeps its contents while it is free, since a late lookup may still
	 * read them.
	 */
	assert_memory_equal(object->bytes, bytes, sizeof(bytes));
	again = uaio_slab_get(&slab);
	assert_ptr_equal(again, object);
	assert_memory_equal(again->bytes, bytes, sizeof(bytes));
}

static void without_memory_there_is_no_object(void **state)
{
	struct object *object;

	(void)state;
	unit_hook(unit_refuse_memory);
	assert_null(uaio_slab_get(&slab));
	assert_int_equal(slab.nr_out, 0);
	unit_hook(NULL);
	object = uaio_slab_get(&slab);
	assert_non_null(object);
	/*
	 * The slab has mapped memory for PER_BATCH objects at once. So the following
	 * objects need no new memory, which the hook would refuse.
	 */
	unit_hook(unit_refuse_memory);
	for (unsigned i = 1; i < PER_BATCH; i++)
		assert_non_null(uaio_slab_get(&slab));
	assert_null(uaio_slab_get(&slab));
	uaio_slab_put(&slab, object);
	assert_ptr_equal(uaio_slab_get(&slab), object);
}

static long get_and_put(void *arg)
{
	struct object *objects[8];

	for (unsigned i = 0; i < *(unsigned *)arg; i++) {
		for (unsigned j = 0; j < 8; j++) {
			objects[j] = uaio_slab_get(&slab);
			if (!objects[j])
				return 1;
			memset(objects[j]->bytes, (int)(i + j), 100);
		}
		for (unsigned j = 0; j < 8; j++) {
			if (objects[j]->bytes[99] != (char)(i + j))
				return 2;
			uaio_slab_put(&slab, objects[j]);
		}
	}
	return 0;
}

static void an_object_has_one_owner_at_a_time(void **state)
{
	struct unit_thread threads[4];
	unsigned rounds = unit_rounds(20000);

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		unit_thread_start(&threads[i], get_and_put, &rounds);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(unit_thread_join(&threads[i]), 0);
	assert_int_equal(slab.nr_out, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SLAB_TEST(a_fresh_object_is_zero),
		SLAB_TEST(an_object_comes_back_as_it_was),
		SLAB_TEST(without_memory_there_is_no_object),
		SLAB_TEST(an_object_has_one_owner_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
