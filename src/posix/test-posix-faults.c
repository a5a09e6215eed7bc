/* SPDX-License-Identifier: MIT */
/*
 * Tests failing system calls: the test repeats a set of POSIX AIO requests. In round n
 * the library's nth system call fails. In the last round no call fails, as the library
 * makes fewer than n calls. In each round every accepted request must complete, and
 * every notification function must be called once. The next round must work in spite of
 * the failure.
 */
#undef NDEBUG
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "options/config.h"
#include "posix/posix.h"
#include "unit.h"

enum { SIZE = UNIT_KEY_BYTES, NR_MAX = 16, NR_MEMBERS = 4 };

static struct {
	int disk, memory, pipe[2], idle[2];
	char buffers[NR_MAX][SIZE];
	struct aiocb aiocbs[NR_MAX];
	unsigned nr;
	bool accepted[NR_MAX];
	uint32_t nr_calls; /* atomic */
} work;

static void call(union sigval value)
{
	(void)value;
	(void)__atomic_add_fetch(&work.nr_calls, 1, __ATOMIC_SEQ_CST);
}

static struct aiocb *add(int opcode, int fd, off_t off)
{
	struct aiocb *aiocb = &work.aiocbs[work.nr];

	*aiocb = (struct aiocb){
		.aio_fildes = fd,
		.aio_lio_opcode = opcode,
		.aio_buf = work.buffers[work.nr++],
		.aio_nbytes = SIZE,
		.aio_offset = off,
		.aio_sigevent.sigev_notify = SIGEV_NONE,
	};
	return aiocb;
}

/* Record whether the request was accepted. */
static void note(const struct aiocb *aiocb, int ret)
{
	assert_true(ret == 0 || ret == -EAGAIN || ret == -EBADF);
	work.accepted[aiocb - work.aiocbs] = ret == 0;
}

static void read_one(int fd)
{
	struct aiocb *aiocb = add(LIO_READ, fd, 0);

	note(aiocb, uaio_posix_read(aiocb));
}

static void write_one(int fd)
{
	struct aiocb *aiocb = add(LIO_WRITE, fd, SIZE);

	note(aiocb, uaio_posix_write(aiocb));
}

static void sync_one(int fd)
{
	struct aiocb *aiocb = add(LIO_NOP, fd, 0);

	note(aiocb, uaio_posix_fsync(O_SYNC, aiocb));
}

/*
 * Submit a read that notifies by a function.
 * Return: whether the function must be called.
 */
static bool read_with_call(int fd)
{
	struct aiocb *aiocb = add(LIO_READ, fd, 0);

	aiocb->aio_sigevent.sigev_notify = SIGEV_THREAD;
	aiocb->aio_sigevent.sigev_notify_function = call;
	aiocb->aio_sigevent.sigev_notify_attributes = NULL;
	note(aiocb, uaio_posix_read(aiocb));
	return work.accepted[aiocb - work.aiocbs];
}

static void cancel_one(void)
{
	struct aiocb *aiocb = add(LIO_READ, work.idle[0], 0);
	int ret = uaio_posix_read(aiocb);

	note(aiocb, ret);
	ret = uaio_posix_cancel(work.idle[0], aiocb);
	assert_true(ret == AIO_CANCELED || ret == AIO_NOTCANCELED ||
		    ret == AIO_ALLDONE || ret == -EBADF || ret == -EAGAIN);
}

static void list_some(void)
{
	struct aiocb *members[NR_MEMBERS];
	int ret;

	for (unsigned i = 0; i < NR_MEMBERS; i++)
		members[i] = add(i % 2 ? LIO_WRITE : LIO_READ,
				 i < 2 ? work.disk : work.memory, SIZE);
	ret = uaio_posix_listio(LIO_WAIT, members, NR_MEMBERS, NULL);
	assert_true(ret == 0 || ret == -EIO || ret == -EAGAIN || ret == -EINTR);
	for (unsigned i = 0; i < NR_MEMBERS; i++) {
		bool is_pending = uaio_posix_error(members[i]) == EINPROGRESS;

		/*
		 * lio_listio() returns when all members are complete, unless its sleep
		 * fails.
		 */
		assert_true(!is_pending || ret == -EINTR || ret == -EAGAIN);
		work.accepted[members[i] - work.aiocbs] = is_pending;
	}
}

/*
 * Wait until all accepted requests are complete. If a request still waits for its pipe,
 * the test's write to this pipe may have failed: write again.
 */
static void await_all(void)
{
	static const char bytes[SIZE];
	const struct timespec moment = { 0, 20000000 };

	for (unsigned i = 0; i < work.nr; i++) {
		const struct aiocb *aiocb = &work.aiocbs[i];
		int ret;

		if (!work.accepted[i])
			continue;
		while (uaio_posix_error(aiocb) == EINPROGRESS) {
			ret = uaio_posix_suspend(&aiocb, 1, &moment);
			assert_true(ret == 0 || ret == -EAGAIN ||
				    ret == -EINTR);
			if (ret == 0)
				continue;
			(void)!write(work.pipe[1], bytes, 1);
			(void)!write(work.idle[1], bytes, 1);
		}
		assert_true(aiocb->UAIO_AIOCB_RESULT >= 0 ||
			    uaio_posix_error(aiocb) > 0);
	}
}

static bool is_called(void *nr)
{
	return __atomic_load_n(&work.nr_calls, __ATOMIC_SEQ_CST) ==
	       *(const uint32_t *)nr;
}

static void open_all(void)
{
	memset(&work, 0, sizeof(work));
	work.disk = unit_numbered_file(false, 4);
	work.memory = unit_numbered_file(true, 4);
	assert_int_equal(pipe2(work.pipe, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(fcntl(work.pipe[0], F_SETFL, 0), 0);
	assert_int_equal(pipe2(work.idle, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(fcntl(work.idle[0], F_SETFL, 0), 0);
}

static void close_all(void)
{
	unit_close(work.disk);
	unit_close(work.memory);
	unit_close(work.pipe[0]);
	unit_close(work.pipe[1]);
	unit_close(work.idle[0]);
	unit_close(work.idle[1]);
}

/*
 * Let the nth system call fail.
 * Return: whether there was an nth call.
 */
static bool one_round(unsigned n)
{
	uint32_t nr_calls = 0;
	bool has_failed;

	open_all();
	unit_fail_nth(n, false);
	for (unsigned i = 0; i < 2; i++) {
		int fd = i ? work.memory : work.disk;

		read_one(fd);
		write_one(fd);
		sync_one(fd);
		nr_calls += read_with_call(fd);
	}
	read_one(work.pipe[0]);
	write_one(work.pipe[1]);
	cancel_one();
	list_some();
	await_all();
	unit_await(is_called, &nr_calls);
	has_failed = unit_has_failed();
	unit_fail_nth(0, false);
	close_all();
	return has_failed;
}

static void sweep(bool force_worker)
{
	unsigned n = 1;

	uaio_config.force_worker = force_worker;
	while (one_round(n))
		n++;
	print_message("%u calls\n", n - 1);
	assert_true(n > 10);
	uaio_config.force_worker = false;
}

static void any_call_may_fail_inside_aio_read(void **state)
{
	(void)state;
	sweep(false);
}

static void any_call_may_fail_in_workers(void **state)
{
	(void)state;
	sweep(true);
}

/*
 * fresh_round() runs in a child, where everything is used for the first time. So the
 * nth call may also be one that gets memory, a thread or a descriptor.
 */
static unsigned nth;
static bool in_workers;

static int fresh_round(void)
{
	if (unit_engine(NULL) < 0)
		return 2;
	uaio_config.force_worker = in_workers;
	return one_round(nth);
}

static void any_call_may_fail_the_first_time(void **state)
{
	int ret;

	(void)state;
	for (int i = 0; i < 2; i++) {
		in_workers = i;
		nth = 1;
		while ((ret = unit_in_child(fresh_round)) == 1)
			nth++;
		assert_int_equal(ret, 0);
		print_message("%u calls\n", nth - 1);
		assert_true(nth > 10);
	}
}

int main(void)
{
	const struct CMUnitTest fresh[] = {
		UNIT_TEST(any_call_may_fail_the_first_time),
	};
	const struct CMUnitTest tests[] = {
		UNIT_TEST(any_call_may_fail_inside_aio_read),
		UNIT_TEST(any_call_may_fail_in_workers),
	};

	int nr_failed = cmocka_run_group_tests(fresh, NULL, NULL);

	return nr_failed + cmocka_run_group_tests(tests, unit_engine, NULL);
}
