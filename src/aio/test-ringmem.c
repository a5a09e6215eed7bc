/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "aio/ringmem.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/uaddr.h"
#include "unit.h"

#define PAGE uaio_page_bytes()

enum { MIB = 1 << 20 };

static int start(void **state)
{
	(void)state;
	return uaio_ringmem_init();
}

static int start_with_large_pages(void **state)
{
	uaio_page_known = 65536;
	return start(state);
}

static void rings_begin_at_pages_and_are_counted(void **state)
{
	static const size_t sizes[] = { 1, 2, 4, 5, 16, 128, 129, 300, 1000 };

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		char *rings[NR_ELEMENTS(sizes)];
		size_t sum = 0;

		for (unsigned i = 0; i < NR_ELEMENTS(sizes); i++) {
			rings[i] = uaio_ringmem_get(sizes[i]);
			assert_non_null(rings[i]);
			assert_int_equal((uintptr_t)rings[i] % PAGE, 0);
			memset(rings[i], 0xff, sizes[i] * PAGE);
			sum += sizes[i];
			assert_int_equal(uaio_ringmem_nr_pages(), sum);
		}
		for (unsigned i = 0; i < NR_ELEMENTS(sizes); i++)
			uaio_ringmem_put(rings[i], sizes[i]);
		assert_int_equal(uaio_ringmem_nr_pages(), 0);
	}
}

static void rings_do_not_overlap(void **state)
{
	enum { NR = 400 };
	char *rings[NR];

	(void)state;
	for (unsigned i = 0; i < NR; i++) {
		rings[i] = uaio_ringmem_get(1 + i % 9);
		memset(rings[i], (int)(i % 251), (1 + i % 9) * PAGE);
	}
	for (unsigned i = 0; i < NR; i++)
		for (size_t at = 0; at < (1 + i % 9) * PAGE; at += 64)
			assert_int_equal((unsigned char)rings[i][at], i % 251);
	/* Free every second ring, then allocate rings of other sizes in the holes. */
	for (unsigned i = 0; i < NR; i += 2)
		uaio_ringmem_put(rings[i], 1 + i % 9);
	for (unsigned i = 0; i < NR; i += 2) {
		rings[i] = uaio_ringmem_get(1 + i % 5);
		memset(rings[i], (int)(i % 251), (1 + i % 5) * PAGE);
	}
	for (unsigned i = 1; i < NR; i += 2)
		for (size_t at = 0; at < (1 + i % 9) * PAGE; at += 64)
			assert_int_equal((unsigned char)rings[i][at], i % 251);
	for (unsigned i = 0; i < NR; i++)
		uaio_ringmem_put(rings[i], i % 2 ? 1 + i % 9 : 1 + i % 5);
	assert_int_equal(uaio_ringmem_nr_pages(), 0);
}

static void a_ring_that_was_put_back_is_used_again(void **state)
{
	static const size_t sizes[] = { 1, 3, 128, 129, 2000 };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(sizes); i++) {
		size_t before;
		void *ring = uaio_ringmem_get(sizes[i]);

		uaio_ringmem_put(ring, sizes[i]);
		before = uaio_ringmem_index_bytes();
		for (unsigned round = 0; round < 100; round++) {
			ring = uaio_ringmem_get(sizes[i]);
			assert_non_null(ring);
			uaio_ringmem_put(ring, sizes[i]);
		}
		assert_int_equal(uaio_ringmem_index_bytes(), before);
	}
}

static void the_index_knows_what_may_be_read(void **state)
{
	static const size_t sizes[] = { 1, 16, 128, 129, 256, 257, 2000 };
	char *own = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(sizes); i++) {
		uintptr_t ring = (uintptr_t)uaio_ringmem_get(sizes[i]);

		assert_true(uaio_ringmem_contains(ring));
		for (unsigned odd = 1; odd < PAGE; odd *= 2)
			assert_false(uaio_ringmem_contains(ring + odd));
		/* Check that the library can read each address that the index accepts. */
		for (uintptr_t at = ring - 4 * MIB; at < ring + 12 * MIB;
		     at += PAGE)
			if (uaio_ringmem_contains(at))
				assert_true(sys_can_read8((void *)at));
		uaio_ringmem_put((void *)ring, sizes[i]);
		/*
		 * The memory stays mapped, because threads that found the ring before may
		 * still read it.
		 */
		assert_true(uaio_ringmem_contains(ring));
		assert_true(sys_can_read8((void *)ring));
	}
	assert_false(uaio_ringmem_contains(0));
	assert_false(uaio_ringmem_contains(~0ull));
	assert_false(uaio_ringmem_contains(~0ull - (PAGE - 1)));
	assert_false(uaio_ringmem_contains((uintptr_t)own));
	munmap(own, 4 * PAGE);
	assert_false(uaio_ringmem_contains((uintptr_t)own));
}

static void seventy_thousand_rings_need_a_small_index(void **state)
{
	enum { NR = 70000 };
	static void *rings[NR];

	(void)state;
	for (unsigned i = 0; i < NR; i++) {
		rings[i] = uaio_ringmem_get(1);
		assert_non_null(rings[i]);
	}
	assert_int_equal(uaio_ringmem_nr_pages(), NR);
	for (unsigned i = 0; i < NR; i++)
		assert_true(uaio_ringmem_contains((uintptr_t)rings[i]));
	/* The index needs one entry for each MiB. */
	assert_true(uaio_ringmem_index_bytes() <= (NR * PAGE / MIB + 64) * 256);
	for (unsigned i = 0; i < NR; i++)
		uaio_ringmem_put(rings[i], 1);
	assert_int_equal(uaio_ringmem_nr_pages(), 0);
}

static bool refuse_advice(long nr, const long args[6], long *ret_res)
{
	(void)args;
	*ret_res = -EINVAL;
	return nr == SYS_madvise;
}

static void without_memory_there_is_no_ring(void **state)
{
	void *ring;

	(void)state;
	unit_hook(unit_refuse_memory);
	assert_null(uaio_ringmem_get(1000));
	assert_null(uaio_ringmem_get(1));
	assert_int_equal(uaio_ringmem_nr_pages(), 0);
	unit_hook(NULL);
	ring = uaio_ringmem_get(1);
	assert_non_null(ring);
	uaio_ringmem_put(ring, 1);
}

static void pages_the_system_will_not_take_are_used_again(void **state)
{
	char *ring = uaio_ringmem_get(1000);

	(void)state;
	memset(ring, 0xff, 1000 * PAGE);
	unit_hook(refuse_advice);
	uaio_ringmem_put(ring, 1000);
	unit_hook(NULL);
	assert_ptr_equal(uaio_ringmem_get(1000), ring);
	uaio_ringmem_put(ring, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(without_memory_there_is_no_ring),
		UNIT_TEST(rings_begin_at_pages_and_are_counted),
		UNIT_TEST(rings_do_not_overlap),
		UNIT_TEST(a_ring_that_was_put_back_is_used_again),
		UNIT_TEST(the_index_knows_what_may_be_read),
		UNIT_TEST(pages_the_system_will_not_take_are_used_again),
		UNIT_TEST(seventy_thousand_rings_need_a_small_index),
	};

	const struct CMUnitTest large[] = {
		UNIT_TEST(rings_begin_at_pages_and_are_counted),
		UNIT_TEST(rings_do_not_overlap),
		UNIT_TEST(a_ring_that_was_put_back_is_used_again),
		UNIT_TEST(the_index_knows_what_may_be_read),
		UNIT_TEST(pages_the_system_will_not_take_are_used_again),
	};

	return cmocka_run_group_tests(tests, start, NULL) +
	       cmocka_run_group_tests(large, start_with_large_pages, NULL);
}
