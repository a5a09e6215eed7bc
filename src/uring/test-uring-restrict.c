/* SPDX-License-Identifier: MIT */
/* Restricted rings, and submissions with a personality. */
#undef NDEBUG
#define RING_ENTRIES 8
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test-uring.h"

static struct uring disabled;

static int start_disabled(void **state)
{
	int ret = start(state);

	if (ret == 0)
		client_open(&disabled, 8,
			    (struct io_uring_params){
				    .flags = IORING_SETUP_R_DISABLED });
	return ret;
}

static int stop_disabled(void **state)
{
	client_close(&disabled);
	return stop(state);
}

#define DISABLED_TEST(function) \
	cmocka_unit_test_setup_teardown(function, start_disabled, stop_disabled)

static long register_of(const struct uring *of, uint32_t opcode,
			const void *arg, uint32_t nr)
{
	return uaio_uring_register((uint32_t)of->fd, opcode,
				   (void *)(uintptr_t)arg, nr);
}

/* Allow no-ops, also with IOSQE_ASYNC, and the opcode that enables the ring. */
static void allow_nops(void)
{
	const struct io_uring_restriction only[] = {
		{ .opcode = IORING_RESTRICTION_SQE_OP,
		  .sqe_op = IORING_OP_NOP },
		{ .opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED,
		  .sqe_flags = IOSQE_ASYNC },
		{ .opcode = IORING_RESTRICTION_REGISTER_OP,
		  .register_op = IORING_REGISTER_PERSONALITY },
	};

	assert_int_equal(
		register_of(&disabled, IORING_REGISTER_RESTRICTIONS, only, 3),
		0);
	assert_int_equal(
		register_of(&disabled, IORING_REGISTER_ENABLE_RINGS, NULL, 0),
		0);
}

static void only_what_is_allowed_is_done(void **state)
{
	char byte;

	(void)state;
	allow_nops();
	put(&disabled, IORING_OP_NOP, -1, 1);
	submit(&disabled, 1);
	assert_got(&disabled, 1, 0);
	put(&disabled, IORING_OP_NOP, -1, 2)->flags = IOSQE_ASYNC;
	submit(&disabled, 1);
	assert_got(&disabled, 2, 0);
	put(&disabled, IORING_OP_NOP, -1, 3)->flags = IOSQE_IO_DRAIN;
	submit(&disabled, 1);
	assert_got(&disabled, 3, -EACCES);
	put_rw(&disabled, IORING_OP_READ, 0, &byte, 1, 0, 4);
	submit(&disabled, 1);
	assert_got(&disabled, 4, -EACCES);
	assert_true(register_of(&disabled, IORING_REGISTER_PERSONALITY, NULL,
				0) > 0);
	assert_int_equal(
		register_of(&disabled, IORING_UNREGISTER_FILES, NULL, 0),
		-EACCES);
	assert_int_equal(
		register_of(&disabled, IORING_REGISTER_SYNC_CANCEL, NULL, 0),
		-EACCES);
}

static void restrictions_come_once_and_before_the_ring_is_enabled(void **state)
{
	const struct io_uring_restriction bad[] = {
		{ .opcode = IORING_RESTRICTION_SQE_OP },
		{ .opcode = IORING_RESTRICTION_LAST },
	};

	(void)state;
	assert_int_equal(
		register_of(&client, IORING_REGISTER_RESTRICTIONS, bad, 1),
		-EBADFD);
	assert_int_equal(
		register_of(&disabled, IORING_REGISTER_RESTRICTIONS, bad, 2),
		-EINVAL);
	assert_int_equal(
		register_of(&disabled, IORING_REGISTER_RESTRICTIONS, NULL, 1),
		-EINVAL);
	assert_int_equal(
		register_of(&disabled, IORING_REGISTER_RESTRICTIONS, bad, 104),
		-EINVAL);
	assert_int_equal(register_of(&disabled, IORING_REGISTER_RESTRICTIONS,
				     (void *)-4096, 1),
			 -EFAULT);
	assert_int_equal(
		register_of(&disabled, IORING_REGISTER_RESTRICTIONS, bad, 1),
		0);
	assert_int_equal(
		register_of(&disabled, IORING_REGISTER_RESTRICTIONS, bad, 1),
		-EBUSY);
}

/*
 * Call is_so() in a child of fork(), where the first io_uring call takes the ring over
 * (share.h).
 * Return: its result.
 */
static bool is_so_in_child(bool (*is_so)(void))
{
	int status, pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(is_so() ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool is_restricted_here(void)
{
	struct io_uring_cqe cqe;
	char byte = 0;

	put_rw(&disabled, IORING_OP_READ, 0, &byte, 1, 0, 4);
	if (enter(&disabled, tell(&disabled), 1) != 1)
		return false;
	cqe = get(&disabled);
	return cqe.res == -EACCES &&
	       register_of(&disabled, IORING_UNREGISTER_FILES, NULL, 0) ==
		       -EACCES;
}

static void a_child_is_restricted_as_its_parent(void **state)
{
	(void)state;
	allow_nops();
	assert_true(is_so_in_child(is_restricted_here));
}

static long nop_as(uint16_t personality)
{
	put(&client, IORING_OP_NOP, -1, 1)->personality = personality;
	if (enter(&client, tell(&client), 1) != 1)
		return -EIO;
	return get(&client).res;
}

static void a_personality_is_who_the_thread_was(void **state)
{
	long id, other;

	(void)state;
	id = register_of(&client, IORING_REGISTER_PERSONALITY, NULL, 0);
	assert_int_equal(id, 1);
	other = register_of(&client, IORING_REGISTER_PERSONALITY, NULL, 0);
	assert_int_equal(other, 2);
	assert_int_equal(
		register_of(&client, IORING_REGISTER_PERSONALITY, &id, 0),
		-EINVAL);
	assert_int_equal(
		register_of(&client, IORING_REGISTER_PERSONALITY, NULL, 1),
		-EINVAL);
	assert_int_equal(nop_as(1), 0);
	assert_int_equal(nop_as(2), 0);
	assert_int_equal(nop_as(3), -EINVAL);
	assert_int_equal(
		register_of(&client, IORING_UNREGISTER_PERSONALITY, NULL, 1),
		0);
	assert_int_equal(
		register_of(&client, IORING_UNREGISTER_PERSONALITY, NULL, 1),
		-EINVAL);
	assert_int_equal(nop_as(1), -EINVAL);
	assert_int_equal(
		register_of(&client, IORING_REGISTER_PERSONALITY, NULL, 0), 3);
}

static bool is_somebody_else(void)
{
	const uint32_t nobody = 65534;

	/*
	 * Credentials that differ only in the fsuid differ, too: the kernel checks
	 * access to files by the fsuid.
	 */
	syscall(SYS_setfsuid, nobody);
	if (nop_as(1) != -EACCES)
		return false;
	syscall(SYS_setfsuid, 0);
	if (nop_as(1) != 0)
		return false;
	return syscall(SYS_setgroups, 1, &nobody) == 0 && nop_as(1) == -EACCES;
}

static void as_another_nothing_is_done(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(
		register_of(&client, IORING_REGISTER_PERSONALITY, NULL, 0), 1);
	assert_true(is_so_in_child(is_somebody_else));
}

static void numbers_are_given_in_turn(void **state)
{
	long id = 0;

	(void)state;
	for (long i = 1; i <= 65535; i++) {
		id = register_of(&client, IORING_REGISTER_PERSONALITY, NULL, 0);
		assert_int_equal(id, i);
	}
	/*
	 * The library never assigns the id 0 to a personality, even if all other ids
	 * are in use.
	 */
	assert_int_equal(
		register_of(&client, IORING_REGISTER_PERSONALITY, NULL, 0),
		-EBUSY);
	assert_int_equal(
		register_of(&client, IORING_UNREGISTER_PERSONALITY, NULL, 77),
		0);
	assert_int_equal(
		register_of(&client, IORING_REGISTER_PERSONALITY, NULL, 0), 77);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		DISABLED_TEST(only_what_is_allowed_is_done),
		DISABLED_TEST(
			restrictions_come_once_and_before_the_ring_is_enabled),
		DISABLED_TEST(a_child_is_restricted_as_its_parent),
		RING_TEST(a_personality_is_who_the_thread_was),
		RING_TEST(as_another_nothing_is_done),
		RING_TEST(numbers_are_given_in_turn),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
