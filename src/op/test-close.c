/* SPDX-License-Identifier: MIT */
/* CLOSE treats the requests on its descriptor as close() does. */
#undef NDEBUG
#include <errno.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "proc/entry.h"
#include "proc/ownfd.h"
#include "test-call.h"

static struct uaio_sqe closing(int fd)
{
	return (struct uaio_sqe){ .op = UAIO_OP_CLOSE, .fd = fd };
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Return: whether CLOSE of fd is executed inside the submitting call. */
static bool close_at_once(int fd)
{
	uint64_t nr_inline = unit_nr_inline();

	assert_int_equal(make(closing(fd), NO_ARGS, AS_IT_LIKES), 0);
	assert_false(is_open(fd));
	return unit_nr_inline() != nr_inline;
}

static void a_descriptor_is_closed(void **state)
{
	struct linger linger = { .l_onoff = 1, .l_linger = 1 };
	int socket_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char byte;
	int fd;

	(void)state;
	for (unsigned known = 0; known < 2; known++) {
		fd = unit_numbered_file(known, 1);
		if (known) {
			struct uaio_sqe sqe = { .op = UAIO_OP_READ,
						.fd = fd,
						.buf = &byte,
						.len = 1 };

			assert_int_equal(make(sqe, NO_ARGS, AS_IT_LIKES), 1);
		}
		assert_true(close_at_once(fd));
		fd = unit_file(false);
		assert_int_equal(make(closing(fd), NO_ARGS, BY_WORKER), 0);
		assert_false(is_open(fd));
	}
	assert_true(close_at_once(eventfd(0, EFD_CLOEXEC)));
	/*
	 * Closing a device, or a socket with SO_LINGER, may take long, and so is left to a
	 * worker.
	 */
	assert_false(close_at_once(open("/dev/null", O_RDONLY | O_CLOEXEC)));
	assert_int_equal(setsockopt(socket_fd, SOL_SOCKET, SO_LINGER, &linger,
				    sizeof(linger)),
			 0);
	assert_false(close_at_once(socket_fd));
	assert_true(close_at_once(open("/", O_PATH | O_CLOEXEC)));
}

static void a_closed_descriptor_cannot_be_closed(void **state)
{
	int ends[2];
	unsigned own;

	(void)state;
	for (enum way way = 0; way < NR_WAYS; way++) {
		assert_int_equal(make(closing(-1), NO_ARGS, way), -EBADF);
		assert_int_equal(make(closing(999), NO_ARGS, way), -EBADF);
	}
	/* CLOSE refuses to close a descriptor of the library's own. */
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_true(uaio_enter());
	assert_int_equal(uaio_ownfd_dup(ends[0]) < 0, 0);
	uaio_leave();
	assert_true(uaio_ownfd_find(0, 1 << 20, &own));
	for (enum way way = 0; way < NR_WAYS; way++)
		assert_int_equal(make(closing((int)own), NO_ARGS, way), -EBADF);
	assert_true(is_open((int)own));
	uaio_ownfd_close((int)own);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static struct uaio_sqe reading(int fd, char *byte)
{
	return (struct uaio_sqe){
		.op = UAIO_OP_READ,
		.fd = fd,
		.buf = byte,
		.len = 1,
	};
}

/* Another file is opened at the descriptor. The parked request must not read that file. */
static void a_parked_request_stays_with_its_file(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_WAYS; i++) {
		uint64_t handle = unit_context(2);
		struct uaio_sqe sqe;
		int old[2], new[2];
		char byte = 0;

		assert_int_equal(pipe2(old, O_CLOEXEC), 0);
		assert_int_equal(pipe2(new, O_CLOEXEC), 0);
		sqe = reading(old[0], &byte);
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		sqe = closing(old[0]);
		sqe.is_async = i;
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		assert_int_equal(unit_reap_one(handle), 0);
		assert_false(is_open(old[0]));
		assert_int_equal(dup2(new[0], old[0]), old[0]);
		assert_int_equal(write(new[1], "n", 1), 1);
		assert_int_equal(write(old[1], "o", 1), 1);
		assert_int_equal(unit_reap_one(handle), 1);
		assert_int_equal(byte, 'o');
		unit_destroy(handle);
		for (unsigned j = 0; j < 2; j++) {
			unit_close(old[j]);
			unit_close(new[j]);
		}
	}
}

static bool all_sleep(void *arg)
{
	(void)arg;
	return unit_is_quiet(0);
}

/*
 * The write and the sync wait, because the test stops the workers before they begin
 * these requests.
 */
static void closing_waits_for_requests_that_have_not_begun(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_WAYS; i++) {
		int fd = unit_file(false), kept = dup(fd);
		uint64_t handle = unit_context(3);
		struct uaio_sqe sqe = { .op = UAIO_OP_WRITE,
					.is_async = true,
					.fd = fd,
					.buf = "w",
					.len = 1 };
		struct io_event events[3];
		char got = 0;

		unit_gate_close(fd);
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		sqe.op = UAIO_OP_FSYNC;
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		unit_gate_await(1);
		sqe = closing(fd);
		sqe.is_async = i;
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		unit_await(all_sleep, NULL);
		assert_true(is_open(fd));
		unit_gate_open();
		assert_int_equal(unit_reap(handle, 3, events), 3);
		for (unsigned j = 0; j < 3; j++)
			assert_true((int64_t)events[j].res >= 0);
		assert_false(is_open(fd));
		assert_int_equal(pread(kept, &got, 1, 0), 1);
		assert_int_equal(got, 'w');
		unit_close(kept);
		unit_destroy(handle);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(a_descriptor_is_closed),
		UNIT_TEST(a_closed_descriptor_cannot_be_closed),
		UNIT_TEST(a_parked_request_stays_with_its_file),
		UNIT_TEST(closing_waits_for_requests_that_have_not_begun),
	};

	return cmocka_run_group_tests_name("close", tests, make_directory,
					   remove_directory);
}
