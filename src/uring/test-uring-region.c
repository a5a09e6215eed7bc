/* SPDX-License-Identifier: MIT */
/* Waits whose arguments are in a ring's memory region, and the clock of waits. */
#undef NDEBUG
#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#include "base/uaddr.h"
#include "test-uring.h"

#define PAGE uaio_page_bytes()

static long set_region(const struct uring *client, uint64_t bytes,
		       uint64_t *ret_offset)
{
	struct uaio_uring_region_desc desc = { .bytes = bytes };
	const struct uaio_uring_region_reg reg = {
		.desc = (uintptr_t)&desc,
		.flags = UAIO_URING_REGION_WAITS,
	};
	long ret = uaio_uring_register((uint32_t)client->fd,
				       IORING_REGISTER_MEM_REGION,
				       (void *)(uintptr_t)&reg, 1);

	*ret_offset = desc.map_offset;
	return ret;
}

static void open_disabled(struct uring *client)
{
	client_open(
		client, 8,
		(struct io_uring_params){ .flags = IORING_SETUP_R_DISABLED });
}

static void enable(const struct uring *client)
{
	assert_int_equal(uaio_uring_register((uint32_t)client->fd,
					     IORING_REGISTER_ENABLE_RINGS, NULL,
					     0),
			 0);
}

static long wait_at(const struct uring *client, size_t offset, uint32_t nr)
{
	return uaio_uring_enter((uint32_t)client->fd, 0, nr,
				IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG |
					IORING_ENTER_EXT_ARG_REG,
				(const void *)offset,
				sizeof(struct uaio_uring_reg_wait));
}

static struct uring shared;
static struct uaio_uring_reg_wait *waits;
static uint32_t has_failed;

enum { NR_WAITERS = 3, NR_WAITS = 200 };

static void *wait_again(void *arg)
{
	for (unsigned i = 0; i < NR_WAITS; i++) {
		long ret = wait_at(&shared, (uintptr_t)arg, 1);

		if (ret != 0 && ret != -ETIME)
			store_relaxed(&has_failed, 1);
	}
	return NULL;
}

/* Several threads wait on one ring, each with its own arguments in one region. */
static void threads_wait_by_one_region(void **state)
{
	pthread_t threads[NR_WAITERS];
	uint64_t offset;

	(void)state;
	open_disabled(&shared);
	assert_int_equal(set_region(&shared, PAGE, &offset), 0);
	waits = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, shared.fd,
		     (off_t)offset);
	assert_ptr_not_equal(waits, MAP_FAILED);
	for (uint32_t i = 0; i < NR_WAITERS; i++)
		waits[i] = (struct uaio_uring_reg_wait){
			.time = { .tv_nsec = 100000 },
			.flags = UAIO_URING_REG_WAIT_TIMES,
		};
	enable(&shared);
	store_relaxed(&has_failed, 0);
	for (uintptr_t i = 0; i < NR_WAITERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, wait_again,
						(void *)(i * sizeof(*waits))),
				 0);
	for (uint64_t i = 0; i < 50; i++) {
		put(&shared, IORING_OP_NOP, -1, i);
		submit(&shared, 1);
		assert_got(&shared, i, 0);
	}
	for (unsigned i = 0; i < NR_WAITERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(load_relaxed(&has_failed), 0);
	/* The arguments are beyond the end of the region, or unaligned. */
	assert_int_equal(wait_at(&shared, PAGE - 32, 0), -EFAULT);
	assert_int_equal(wait_at(&shared, 4, 0), -EFAULT);
	assert_int_equal(munmap(waits, PAGE), 0);
	client_close(&shared);
}

static void a_region_of_a_ring_has_room_in_its_file(void **state)
{
	struct rlimit before, low;
	struct uring client;
	uint64_t offset;

	(void)state;
	open_disabled(&client);
	assert_int_equal(set_region(&client, 1ull << 40, &offset), -ENOMEM);
	assert_int_equal(set_region(&client, PAGE, &offset), 0);
	assert_int_equal(set_region(&client, PAGE, &offset), -EBUSY);
	client_close(&client);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	low = before;
	low.rlim_cur = 1u << 30;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	open_disabled(&client);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(set_region(&client, PAGE, &offset), -ENOMEM);
	enable(&client);
	assert_int_equal(wait_at(&client, 0, 0), -EFAULT);
	client_close(&client);
}

/*
 * Deadlines of waits are measured by the ring's clock (IORING_REGISTER_CLOCK), here
 * CLOCK_BOOTTIME.
 */
static void a_wait_is_by_the_clock_of_its_ring(void **state)
{
	const struct uaio_uring_clock clock = { .id = CLOCK_BOOTTIME };
	struct __kernel_timespec end;
	const struct uaio_uring_wait_arg arg = { .timeout = (uintptr_t)&end };
	struct timespec now;
	struct uring client;

	(void)state;
	client_open(&client, 4, (struct io_uring_params){ 0 });
	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_REGISTER_CLOCK,
					     (void *)(uintptr_t)&clock, 0),
			 0);
	for (int64_t ahead = -1; ahead < 2; ahead++) {
		assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &now), 0);
		end = (struct __kernel_timespec){ now.tv_sec + ahead,
						  now.tv_nsec };
		assert_int_equal(
			uaio_uring_enter((uint32_t)client.fd, 0, 1,
					 IORING_ENTER_GETEVENTS |
						 IORING_ENTER_EXT_ARG |
						 IORING_ENTER_ABS_TIMER,
					 &arg, sizeof(arg)),
			-ETIME);
		assert_int_equal(clock_gettime(CLOCK_BOOTTIME, &now), 0);
		assert_true(now.tv_sec > end.tv_sec ||
			    (now.tv_sec == end.tv_sec &&
			     now.tv_nsec >= end.tv_nsec));
	}
	client_close(&client);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		UNIT_TEST(threads_wait_by_one_region),
		UNIT_TEST(a_region_of_a_ring_has_room_in_its_file),
		UNIT_TEST(a_wait_is_by_the_clock_of_its_ring),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
