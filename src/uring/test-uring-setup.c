/* SPDX-License-Identifier: MIT */
/* io_uring_setup(): what it refuses, which rings it makes, and how a ring ends. */
#undef NDEBUG
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test-uring-held.h"

#define P(...)              \
	{                   \
		__VA_ARGS__ \
	}

static void arguments_are_checked_as_the_kernel_does(void **state)
{
	static const struct {
		uint32_t entries;
		struct io_uring_params params;
		long error; /* expected result; 0: success */
	} rows[] = {
		{ 0, P(.flags = 0), -EINVAL },
		{ 1, P(.flags = 0), 0 },
		{ 32768, P(.flags = 0), 0 },
		{ 32769, P(.flags = 0), -EINVAL },
		{ 99999, P(.flags = IORING_SETUP_CLAMP), 0 },
		{ 1, P(.resv = { 0, 0, 1 }), -EINVAL },
		{ 1, P(.flags = 1u << 31), -EINVAL },
		{ 1, P(.flags = IORING_SETUP_CQSIZE), -EINVAL },
		{ 8, P(.flags = IORING_SETUP_CQSIZE, .cq_entries = 4),
		  -EINVAL },
		{ 8, P(.flags = IORING_SETUP_CQSIZE, .cq_entries = 5), 0 },
		{ 8, P(.flags = IORING_SETUP_CQSIZE, .cq_entries = 65537),
		  -EINVAL },
		{ 8,
		  P(.flags = IORING_SETUP_SQPOLL | IORING_SETUP_COOP_TASKRUN),
		  -EINVAL },
		{ 8, P(.flags = IORING_SETUP_TASKRUN_FLAG), -EINVAL },
		{ 8, P(.flags = IORING_SETUP_DEFER_TASKRUN), -EINVAL },
		{ 8,
		  P(.flags = IORING_SETUP_DEFER_TASKRUN |
			     IORING_SETUP_SINGLE_ISSUER |
			     IORING_SETUP_TASKRUN_FLAG),
		  0 },
		{ 8, P(.flags = IORING_SETUP_SQ_AFF), -EINVAL },
		{ 8,
		  P(.flags = IORING_SETUP_SQ_AFF | IORING_SETUP_SQPOLL,
		    .sq_thread_cpu = 4095),
		  -EINVAL },
		{ 8, P(.flags = IORING_SETUP_ATTACH_WQ, .wq_fd = 9999),
		  -ENXIO },
		{ 8, P(.flags = IORING_SETUP_ATTACH_WQ, .wq_fd = 0), -EINVAL },
		{ 8, P(.flags = IORING_SETUP_SUBMIT_ALL), 0 },
	};

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(rows); i++) {
		struct io_uring_params params = rows[i].params;
		struct io_uring_params kernels = rows[i].params;
		long ret = uaio_uring_setup(rows[i].entries, &params);
		long real =
			syscall(SYS_io_uring_setup, rows[i].entries, &kernels);

		/*
		 * If this machine denies io_uring, the kernel makes no ring with which
		 * to compare.
		 */
		if (real >= 0) {
			assert_int_equal(kernels.sq_entries, params.sq_entries);
			assert_int_equal(kernels.cq_entries, params.cq_entries);
			close((int)real);
		} else if (errno == EINVAL || errno == ENXIO) {
			assert_int_equal(ret, -errno);
		}
		if (rows[i].error)
			assert_int_equal(ret, rows[i].error);
		else
			assert_true(ret >= 0);
		if (ret >= 0)
			unit_close((int)ret);
	}
	assert_int_equal(uaio_uring_setup(1, NULL), -EFAULT);
	assert_int_equal(uaio_uring_setup(1, (struct io_uring_params *)0x1000),
			 -EFAULT);
}

static void a_ring_is_known_by_any_of_its_descriptors(void **state)
{
	struct uring client;
	int copy;

	(void)state;
	assert_false(uaio_uring_owns(0, false));
	client_open(&client, 4, (struct io_uring_params){ 0 });
	assert_true(uaio_uring_owns((uint32_t)client.fd, false));
	assert_true(fcntl(client.fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(uaio_uring_map_offset(client.fd, IORING_OFF_CQ_RING),
			 0);
	assert_int_equal(uaio_uring_map_offset(0, IORING_OFF_CQ_RING),
			 IORING_OFF_CQ_RING);
	copy = dup(client.fd);
	unit_close(client.fd);
	/*
	 * The ring continues to work by the duplicate, which the library has not seen
	 * before.
	 */
	put(&client, IORING_OP_NOP, -1, 1);
	assert_int_equal(tell(&client), 1);
	assert_int_equal(uaio_uring_enter((uint32_t)copy, 1, 1,
					  IORING_ENTER_GETEVENTS, NULL, 0),
			 1);
	assert_got(&client, 1, 0);
	assert_int_equal(enter(&client, 0, 0), -EBADF);
	uring_unmap(&client);
	unit_close(copy);
	assert_false(uaio_uring_owns((uint32_t)copy, false));
}

static void what_is_no_ring_is_refused(void **state)
{
	struct uring client;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	(void)state;
	client_open(&client, 4, (struct io_uring_params){ 0 });
	assert_int_equal(uaio_uring_enter((uint32_t)fd, 0, 0, 0, NULL, 0),
			 -EOPNOTSUPP);
	assert_int_equal(uaio_uring_enter(12345, 0, 0, 0, NULL, 0), -EBADF);
	assert_int_equal(
		uaio_uring_enter((uint32_t)client.fd, 0, 0, 1u << 31, NULL, 0),
		-EINVAL);
	assert_int_equal(uaio_uring_register((uint32_t)fd,
					     IORING_UNREGISTER_FILES, NULL, 0),
			 -EOPNOTSUPP);
	assert_int_equal(
		uaio_uring_register((uint32_t)client.fd, 9999, NULL, 0),
		-EINVAL);
	client_close(&client);
	unit_close(fd);
}

static void a_client_cannot_cut_the_memory(void **state)
{
	struct uring client;

	(void)state;
	client_open(&client, 4, (struct io_uring_params){ 0 });
	assert_int_equal(ftruncate(client.fd, 0), -1);
	assert_int_equal(errno, EPERM);
	client_close(&client);
}

static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = bytes;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void a_ring_is_made_within_a_limit_of_files(void **state)
{
	struct io_uring_params params = { 0 };
	struct uring client;
	struct rlimit before;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	for (uint32_t entries = 1; entries <= 4096; entries *= 64) {
		limit_files(1 << 20);
		client_open(&client, entries, params);
		limit_files(before.rlim_cur);
		for (uint32_t i = 0; i < entries; i++)
			put(&client, IORING_OP_NOP, -1, i);
		submit(&client, entries);
		for (uint32_t i = 0; i < entries; i++)
			assert_got(&client, i, 0);
		client_close(&client);
	}
	limit_files(1000);
	assert_int_equal(uaio_uring_setup(1, &params), -ENOMEM);
	limit_files(before.rlim_cur);
}

static void a_closed_ring_waits_for_nobody_and_lets_all_go(void **state)
{
	struct uring client;
	int ends[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	client_open(&client, 4, (struct io_uring_params){ 0 });
	put_rw(&client, IORING_OP_READ, ends[0], &byte, 1, 0, 1);
	submit(&client, 0);
	client_close(&client);
	unit_close(ends[0]);
	/*
	 * The ring's end cancels the read, so no request keeps the other end of the
	 * pipe open.
	 */
	assert_int_equal(poll(&(struct pollfd){ .fd = ends[1] }, 1, 20000), 1);
	unit_close(ends[1]);
}

static struct uring parents;

static int in_child(void)
{
	struct io_uring_params params = { 0 };
	int fd;

	if (!uaio_uring_owns((uint32_t)parents.fd, false))
		return 1;
	if (enter(&parents, 1, 0) != 1)
		return 2;
	fd = (int)uaio_uring_setup(4, &params);
	if (fd < 0)
		return 3;
	if (uaio_uring_enter((uint32_t)fd, 0, 0, 0, NULL, 0) != 0)
		return 4;
	if (enter(&parents, 1, 0) != 0)
		return 5;
	unit_close(parents.fd);
	return 0;
}

static void a_request_that_names_its_ring_does_not_keep_it(void **state)
{
	struct uring client;
	int ends[2], read[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(pipe2(read, O_CLOEXEC), 0);
	client_open(&client, 4, (struct io_uring_params){ 0 });
	store_relaxed(&is_in_tee, 0);
	store_relaxed(&may_go, 0);
	unit_hook(hold_tee);
	put(&client, IORING_OP_TEE, client.fd, 1)->splice_fd_in = ends[0];
	put_rw(&client, IORING_OP_READ, read[0], &byte, 1, 0, 1);
	submit(&client, 0);
	unit_await(is_true, &is_in_tee);
	client_close(&client);
	unit_close(read[0]);
	/*
	 * Closing the ring has already cancelled the waiting read, which no longer
	 * keeps the other end of the pipe open.
	 */
	assert_int_equal(poll(&(struct pollfd){ .fd = read[1] }, 1, 20000), 1);
	store_relaxed(&may_go, 1);
	unit_await(is_freed, NULL);
	unit_close(read[1]);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/*
 * In a child that has not started the library: close the descriptor of a parent's ring,
 * and reuse it for another file.
 */
static int uses_the_number_again(void)
{
	const int64_t offset = (int64_t)IORING_OFF_CQ_RING;

	if (uaio_uring_map_offset(parents.fd, offset) == offset)
		return 1;
	if (close(parents.fd) < 0 ||
	    open("/dev/zero", O_RDWR | O_CLOEXEC) != parents.fd)
		return 2;
	if (uaio_uring_map_offset(parents.fd, offset) != offset)
		return 3;
	return uaio_uring_owns((uint32_t)parents.fd, false) ? 4 : 0;
}

static void a_number_that_a_child_uses_again_is_no_ring(void **state)
{
	(void)state;
	client_open(&parents, 4, (struct io_uring_params){ 0 });
	assert_int_equal(unit_in_child(uses_the_number_again), 0);
	client_close(&parents);
}

static void a_child_submits_to_its_parents_ring_beside_its_own(void **state)
{
	(void)state;
	client_open(&parents, 4, (struct io_uring_params){ 0 });
	put(&parents, IORING_OP_NOP, -1, 1);
	assert_int_equal(tell(&parents), 1);
	assert_int_equal(unit_in_child(in_child), 0);
	assert_int_equal(enter(&parents, 0, 1), 0);
	assert_got(&parents, 1, 0);
	client_close(&parents);
}

static void
a_child_that_shares_our_memory_closes_its_own_descriptor(void **state)
{
	struct uring client;
	int status;
	pid_t pid;

	(void)state;
	client_open(&client, 4, (struct io_uring_params){ 0 });
	pid = vfork();
	if (pid == 0) {
		unit_close(client.fd);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	put(&client, IORING_OP_NOP, -1, 1);
	submit(&client, 1);
	assert_got(&client, 1, 0);
	client_close(&client);
}

static void disabled_rings_wait_to_be_enabled(void **state)
{
	struct uring client;
	uint32_t fd;

	(void)state;
	client_open(
		&client, 4,
		(struct io_uring_params){ .flags = IORING_SETUP_R_DISABLED });
	fd = (uint32_t)client.fd;
	put(&client, IORING_OP_NOP, -1, 1);
	assert_int_equal(tell(&client), 1);
	assert_int_equal(enter(&client, 1, 0), -EBADFD);
	assert_int_equal(
		uaio_uring_register(fd, IORING_REGISTER_ENABLE_RINGS, NULL, 1),
		-EINVAL);
	assert_int_equal(
		uaio_uring_register(fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0),
		0);
	assert_int_equal(
		uaio_uring_register(fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0),
		-EBADFD);
	assert_int_equal(enter(&client, 1, 1), 1);
	assert_got(&client, 1, 0);
	client_close(&client);
}

static long enter_elsewhere(void *arg)
{
	return enter(arg, 1, 0);
}

static void one_thread_submits_to_a_ring_for_one(void **state)
{
	struct uring client;
	struct unit_thread thread;

	(void)state;
	client_open(&client, 4,
		    (struct io_uring_params){
			    .flags = IORING_SETUP_SINGLE_ISSUER });
	put(&client, IORING_OP_NOP, -1, 1);
	assert_int_equal(tell(&client), 1);
	unit_thread_start(&thread, enter_elsewhere, &client);
	assert_int_equal(unit_thread_join(&thread), -EEXIST);
	assert_int_equal(enter(&client, 1, 1), 1);
	assert_got(&client, 1, 0);
	client_close(&client);
}

static void a_ring_without_a_polling_thread_asks_to_be_called(void **state)
{
	struct uring client;

	(void)state;
	client_open(&client, 4,
		    (struct io_uring_params){ .flags = IORING_SETUP_SQPOLL });
	assert_int_equal(load_relaxed(client.sq_flags), IORING_SQ_NEED_WAKEUP);
	put(&client, IORING_OP_NOP, -1, 1);
	put(&client, IORING_OP_NOP, -1, 2);
	(void)tell(&client);
	assert_int_equal(uaio_uring_enter((uint32_t)client.fd, 1, 0,
					  IORING_ENTER_SQ_WAKEUP, NULL, 0),
			 1);
	assert_got(&client, 1, 0);
	assert_got(&client, 2, 0);
	client_close(&client);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		UNIT_TEST(arguments_are_checked_as_the_kernel_does),
		UNIT_TEST(a_ring_is_known_by_any_of_its_descriptors),
		UNIT_TEST(what_is_no_ring_is_refused),
		UNIT_TEST(a_client_cannot_cut_the_memory),
		UNIT_TEST(a_ring_is_made_within_a_limit_of_files),
		UNIT_TEST(a_closed_ring_waits_for_nobody_and_lets_all_go),
		UNIT_TEST(a_request_that_names_its_ring_does_not_keep_it),
		UNIT_TEST(a_number_that_a_child_uses_again_is_no_ring),
		UNIT_TEST(a_child_submits_to_its_parents_ring_beside_its_own),
		UNIT_TEST(
			a_child_that_shares_our_memory_closes_its_own_descriptor),
		UNIT_TEST(disabled_rings_wait_to_be_enabled),
		UNIT_TEST(one_thread_submits_to_a_ring_for_one),
		UNIT_TEST(a_ring_without_a_polling_thread_asks_to_be_called),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
