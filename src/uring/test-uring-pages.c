/* SPDX-License-Identifier: MIT */
/*
 * The test simulates pages of 64 KiB: lengths and alignments must follow the page size.
 */
#undef NDEBUG
#include <sys/mman.h>

#include "base/uaddr.h"
#include "test-uring.h"
#include "uring/memmap.h"

enum { PAGE = 65536, SMALL = 4096, NR_BUFS = 8 };

static char *memory; /* PAGE bytes, page-aligned, followed by PAGE more bytes */

static int load(void **state)
{
	char *mapped = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	uaio_page_known = PAGE;
	memory = mapped + PAGE - (uintptr_t)mapped % PAGE;
	return mapped == MAP_FAILED ? -1 : unit_engine(state);
}

static long set_region(const struct uring *client, void *at, uint64_t bytes)
{
	struct uaio_uring_region_desc desc = {
		.addr = (uintptr_t)at,
		.bytes = bytes,
		.flags = at ? UAIO_URING_REGION_GIVEN : 0,
	};
	const struct uaio_uring_region_reg reg = { .desc = (uintptr_t)&desc };

	return uaio_uring_register((uint32_t)client->fd,
				   IORING_REGISTER_MEM_REGION,
				   (void *)(uintptr_t)&reg, 1);
}

static void a_region_has_whole_pages(void **state)
{
	struct uring client;

	(void)state;
	client_open(&client, 4, (struct io_uring_params){ 0 });
	assert_int_equal(set_region(&client, NULL, SMALL), -EINVAL);
	assert_int_equal(set_region(&client, memory + SMALL, PAGE), -EINVAL);
	assert_int_equal(set_region(&client, memory, PAGE), 0);
	client_close(&client);
}

static long set_array(const struct uring *client, void *at)
{
	struct io_uring_buf_reg reg = { .ring_addr = (uintptr_t)at,
					.ring_entries = NR_BUFS };

	return uaio_uring_register((uint32_t)client->fd,
				   IORING_REGISTER_PBUF_RING, &reg, 1);
}

static void an_array_of_buffers_begins_at_a_page(void **state)
{
	struct uring client;

	(void)state;
	client_open(&client, 4, (struct io_uring_params){ 0 });
	assert_int_equal(set_array(&client, memory + SMALL), -EINVAL);
	assert_int_equal(set_array(&client, memory), 0);
	client_close(&client);
}

static long setup_in(void *sqes, void *rings)
{
	struct io_uring_params params = { .flags = IORING_SETUP_NO_MMAP };

	*uaio_uring_sqes_addr(&params) = (uintptr_t)sqes;
	*uaio_uring_rings_addr(&params) = (uintptr_t)rings;
	return uaio_uring_setup(4, &params);
}

static void the_memory_of_a_ring_begins_at_a_page(void **state)
{
	long fd;

	(void)state;
	assert_int_equal(setup_in(memory, memory + SMALL), -EINVAL);
	assert_int_equal(setup_in(memory + SMALL, memory), -EINVAL);
	fd = setup_in(memory, memory + PAGE);
	assert_true(fd >= 0);
	unit_close((int)fd);
}

/*
 * The event ring of an AIO context fills its pages, as in the kernel: a header of 32
 * bytes, then events of 32 bytes.
 */
static void a_context_has_as_many_events_as_fit_into_its_pages(void **state)
{
	const uint64_t context = unit_context(1);
	const uint32_t *ring = (const uint32_t *)(uintptr_t)context;

	(void)state;
	assert_int_equal(context % PAGE, 0);
	assert_int_equal((ring[1] + 1) * 32 % PAGE, 0);
	unit_destroy(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_region_has_whole_pages),
		UNIT_TEST(an_array_of_buffers_begins_at_a_page),
		UNIT_TEST(the_memory_of_a_ring_begins_at_a_page),
		UNIT_TEST(a_context_has_as_many_events_as_fit_into_its_pages),
	};

	return cmocka_run_group_tests(tests, load, NULL);
}
