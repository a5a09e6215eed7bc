/* SPDX-License-Identifier: MIT */
/*
 * Rings of the kernel beside rings of the library. The test simulates the kernel's
 * rings with a hook of system calls and a table.
 */
#undef NDEBUG
#include "test-uring.h"

#include <assert.h>
#include <sys/wait.h>

#include "base/sys.h"
#include "uring/calls.h"

enum { KERNELS_FD = 1001 };

static struct uring client;
/* whether a slot has a ring of the kernel */
static bool is_filled[UAIO_URING_RINGFDS_MAX];
static unsigned nr_asked;

/*
 * Hook of system calls: simulate the kernel's io_uring_register() for one slot, and
 * io_uring_enter() without submissions.
 */
static bool answer(long nr, const long args[6], long *ret_res)
{
	const bool fills = (uint32_t)args[1] == IORING_REGISTER_RING_FDS;
	struct io_uring_rsrc_update *update = (void *)args[2];

	if (nr == SYS_io_uring_enter) {
		*ret_res = args[0] == KERNELS_FD ? 0 : -EOPNOTSUPP;
		return true;
	}
	if (nr != SYS_io_uring_register)
		return false;
	nr_asked++;
	assert(args[3] == 1);
	*ret_res = 1;
	if (update->offset >= UAIO_URING_RINGFDS_MAX)
		*ret_res = -EINVAL;
	else if (fills && is_filled[update->offset])
		*ret_res = -EBUSY;
	else
		is_filled[update->offset] = fills;
	return true;
}

static long ask(uint32_t opcode, struct io_uring_rsrc_update *updates,
		uint32_t nr)
{
	return uaio_uring_register_kernels(
		(const long[4]){ KERNELS_FD, opcode, (long)updates, nr });
}

static long register_kernels(uint32_t slot)
{
	struct io_uring_rsrc_update update = { .offset = slot,
					       .data = KERNELS_FD };
	long ret = ask(IORING_REGISTER_RING_FDS, &update, 1);

	return ret == 1 ? update.offset : ret;
}

static long register_ours(uint32_t slot)
{
	struct io_uring_rsrc_update update = { .offset = slot,
					       .data = (uint32_t)client.fd };
	long ret = uaio_uring_register((uint32_t)client.fd,
				       IORING_REGISTER_RING_FDS, &update, 1);

	return ret == 1 ? update.offset : ret;
}

static void unregister_ours(uint32_t slot)
{
	struct io_uring_rsrc_update update = { .offset = slot };

	assert_int_equal(uaio_uring_register((uint32_t)client.fd,
					     IORING_UNREGISTER_RING_FDS,
					     &update, 1),
			 1);
}

static int start(void **state)
{
	(void)state;
	client_open(&client, 8, (struct io_uring_params){ 0 });
	unit_hook(answer);
	return 0;
}

static int stop(void **state)
{
	struct io_uring_rsrc_update update;

	(void)state;
	for (uint32_t i = 0; i < UAIO_URING_RINGFDS_MAX; i++) {
		unregister_ours(i);
		update = (struct io_uring_rsrc_update){ .offset = i };
		assert_int_equal(ask(IORING_UNREGISTER_RING_FDS, &update, 1),
				 1);
	}
	unit_hook(NULL);
	client_close(&client);
	return 0;
}

static void a_slot_holds_a_ring_of_one_kind(void **state)
{
	(void)state;
	assert_int_equal(register_ours(~0u), 0);
	assert_int_equal(register_kernels(~0u), 1);
	assert_int_equal(register_ours(~0u), 2);
	assert_int_equal(register_kernels(~0u), 3);
	nr_asked = 0;
	assert_int_equal(register_kernels(2), -EBUSY);
	assert_int_equal(nr_asked, 0);
	assert_int_equal(register_ours(1), -EBUSY);
	assert_int_equal(register_kernels(1), -EBUSY);
	assert_int_equal(register_kernels(16), -EINVAL);
	/*
	 * Once a ring of the library has left its slot, a ring of the kernel can fill
	 * the slot.
	 */
	unregister_ours(0);
	assert_int_equal(register_kernels(~0u), 0);
	for (uint32_t i = 4; i < 16; i++)
		assert_int_equal(register_ours(~0u), i);
	assert_int_equal(register_ours(~0u), -EBUSY);
	assert_int_equal(register_kernels(~0u), -EBUSY);
}

static void a_slot_that_was_filled_elsewhere_is_passed_over(void **state)
{
	(void)state;
	is_filled[0] = true;
	assert_int_equal(register_kernels(~0u), 1);
	assert_int_equal(register_ours(~0u), 2);
}

static void a_call_with_many_slots_ends_at_the_first_error(void **state)
{
	struct io_uring_rsrc_update updates[3] = {
		{ .offset = ~0u, .data = KERNELS_FD },
		{ .offset = 5, .data = KERNELS_FD },
		{ .offset = 5, .data = KERNELS_FD },
	};

	(void)state;
	assert_int_equal(register_ours(~0u), 0);
	assert_int_equal(ask(IORING_REGISTER_RING_FDS, updates, 3), 2);
	assert_int_equal(updates[0].offset, 1);
	assert_int_equal(ask(IORING_REGISTER_RING_FDS, NULL, 1), -EFAULT);
}

static void an_index_goes_to_the_kind_that_has_the_slot(void **state)
{
	const struct io_uring_params plain = { 0 };

	(void)state;
	assert_true(uaio_uring_note_kernels(KERNELS_FD, &plain));
	assert_int_equal(register_ours(~0u), 0);
	assert_int_equal(register_kernels(~0u), 1);
	assert_true(uaio_uring_owns(0, true));
	assert_false(uaio_uring_owns(1, true));
	assert_false(uaio_uring_owns(2, true));
}

static void a_ring_without_a_descriptor_gets_no_slot_of_ours(void **state)
{
	const struct io_uring_params params = {
		.flags = IORING_SETUP_NO_MMAP | IORING_SETUP_REGISTERED_FD_ONLY,
	};

	(void)state;
	assert_int_equal(register_ours(~0u), 0);
	is_filled[0] = is_filled[1] = true;
	assert_false(uaio_uring_note_kernels(0, &params));
	assert_false(is_filled[0]);
	assert_true(uaio_uring_note_kernels(1, &params));
	assert_true(is_filled[1]);
	assert_int_equal(register_ours(~0u), 2);
}

static void a_child_has_no_slots(void **state)
{
	int status;
	pid_t child;

	(void)state;
	assert_int_equal(register_kernels(~0u), 0);
	child = fork();
	if (!child)
		_exit(uaio_uring_is_kernels_slot(0));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_true(uaio_uring_is_kernels_slot(0));
}

static void workers_are_shared_with_either_kind(void **state)
{
	struct io_uring_params params = { .flags = IORING_SETUP_ATTACH_WQ };
	long fd;

	(void)state;
	params.wq_fd = (uint32_t)client.fd;
	assert_true(uaio_uring_attaches_to_ours(&params));
	params.wq_fd = KERNELS_FD;
	assert_false(uaio_uring_attaches_to_ours(&params));
	fd = uaio_uring_setup(8, &params);
	assert_true(fd >= 0);
	unit_close((int)fd);
	params.flags = 0;
	params.wq_fd = (uint32_t)client.fd;
	assert_false(uaio_uring_attaches_to_ours(&params));
}

#define SLOT_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SLOT_TEST(a_slot_holds_a_ring_of_one_kind),
		SLOT_TEST(a_slot_that_was_filled_elsewhere_is_passed_over),
		SLOT_TEST(a_call_with_many_slots_ends_at_the_first_error),
		SLOT_TEST(an_index_goes_to_the_kind_that_has_the_slot),
		SLOT_TEST(a_ring_without_a_descriptor_gets_no_slot_of_ours),
		SLOT_TEST(a_child_has_no_slots),
		SLOT_TEST(workers_are_shared_with_either_kind),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
