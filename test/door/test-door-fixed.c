/* SPDX-License-Identifier: MIT */
/*
 * Tests of requests on fixed files (files that the client has registered with a queue),
 * submitted through the tests' own front-end (the "door")
 *
 * A request on a fixed file must use that file, even if the program closes or reuses the
 * descriptor, or puts another file at the library's own descriptor of the file.
 */
#undef NDEBUG
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/entry.h"
#include "proc/ownfd.h"
#include "life/life.h"
#include "client.h"

/* Return: a request on the fixed file in slot `place`. */
static struct door_sqe fixed(enum door_what what, int place, void *memory,
			     uint32_t size, int64_t off)
{
	struct door_sqe sqe = rw(what, place, memory, size, off);

	sqe.options = DOOR_FIXED;
	return sqe;
}

static struct door_sqe with(struct door_sqe sqe, uint32_t options)
{
	sqe.options |= options;
	return sqe;
}

/* Return: the library's own descriptor of the file that fd refers to. */
static int own_of(int fd)
{
	struct stat wanted, found;
	unsigned own;

	assert_int_equal(fstat(fd, &wanted), 0);
	for (unsigned i = 0; uaio_ownfd_find(i, 1 << 20, &own); i = own + 1)
		if (fstat((int)own, &found) == 0 &&
		    found.st_dev == wanted.st_dev &&
		    found.st_ino == wanted.st_ino)
			return (int)own;
	fail();
	return -1;
}

/*
 * Make the library's own descriptor refer to another file, as a program can by dup2().
 */
static void take_number(int own)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	assert_int_equal(uaio_own_fd_yield(own), 0);
	assert_int_equal(dup3(null, own, O_CLOEXEC), own);
	assert_int_equal(close(null), 0);
}

static void a_file_is_served_when_its_descriptor_is_another(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		int fd = unit_numbered_file(i, 3), other = unit_file(true);
		char text[SIZE], found[SIZE] = "";

		memset(text, 'w', SIZE);
		assert_int_equal(door_fix(door, 0, fd), 0);
		put_tagged(fixed(DOOR_READ, 0, found, SIZE, 2 * SIZE), 1);
		unit_dup2(other, fd);
		while (!nr_unread())
			assert_true(enter(1) >= 0);
		assert_got(1, SIZE);
		assert_int_equal(found[0], 2);
		unit_close(fd);
		put_tagged(fixed(DOOR_WRITE, 0, text, SIZE, 0), 2);
		put_tagged(fixed(DOOR_SYNC, 0, NULL, 0, 0), 3);
		assert_int_equal(enter(2), 2);
		while (nr_unread() < 2)
			assert_int_equal(enter(2), 0);
		assert_got(2, SIZE);
		assert_got(3, 0);
		put_tagged(fixed(DOOR_READ, 0, found, SIZE, 0), 4);
		assert_int_equal(enter(1), 1);
		assert_got(4, SIZE);
		assert_int_equal(found[SIZE - 1], 'w');
		/*
		 * dup2() made fd refer to the file `other`. The write to the fixed file
		 * must not have gone to `other`.
		 */
		assert_int_equal(pread(other, found, SIZE, 0), 0);
		assert_int_equal(door_unfix(door, 0), 0);
		unit_close(other);
	}
}

static void what_is_not_fixed_is_refused(void **state)
{
	int path = open("/", O_PATH | O_CLOEXEC), fd = unit_file(true);
	char byte;

	(void)state;
	assert_int_equal(door_fix(door, 0, -1), -EBADF);
	assert_int_equal(door_fix(door, 0, path), -EBADF);
	assert_int_equal(door_fix(door, DOOR_NR_FIXED, fd), -EINVAL);
	assert_int_equal(door_unfix(door, 0), -ENOENT);
	assert_int_equal(door_fix(door, 0, fd), 0);
	assert_int_equal(door_fix(door, 0, fd), -EBUSY);
	put_tagged(fixed(DOOR_READ, 1, &byte, 1, 0), 1);
	put_tagged(fixed(DOOR_READ, -1, &byte, 1, 0), 2);
	put_tagged(fixed(DOOR_READ, DOOR_NR_FIXED, &byte, 1, 0), 3);
	put_tagged(fixed(DOOR_READ, 0, &byte, 1, 0), 4);
	assert_int_equal(enter(4), 4);
	assert_got(1, -EBADF);
	assert_got(2, -EBADF);
	assert_got(3, -EBADF);
	assert_got(4, 0);
	/* stop() closes the door, which must release the remaining fixed files. */
	unit_close(fd);
	unit_close(path);
}

static void a_file_stays_until_its_requests_are_complete(void **state)
{
	struct pollfd writer = { 0 };
	char byte = 0;
	int ends[2];

	(void)state;
	(void)signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(door_fix(door, 2, ends[0]), 0);
	put_tagged(fixed(DOOR_READ, 2, &byte, 1, 0), 1);
	assert_int_equal(enter(0), 1);
	unit_close(ends[0]);
	assert_int_equal(door_unfix(door, 2), 0);
	assert_int_equal(nr_unread(), 0);
	writer.fd = ends[1];
	assert_int_equal(poll(&writer, 1, 0), 0);
	assert_int_equal(write(ends[1], "a", 1), 1);
	await_got(1, 1);
	assert_int_equal(byte, 'a');
	/*
	 * The thread that completed the request may still be releasing the file, so
	 * wait until the pipe has no reader.
	 */
	assert_int_equal(poll(&writer, 1, UNIT_PATIENCE_MS), 1);
	assert_int_equal(writer.revents, POLLERR);
	assert_int_equal(write(ends[1], "b", 1), -1);
	assert_int_equal(errno, EPIPE);
	unit_close(ends[1]);
}

static void a_fixed_file_is_polled_again_and_again(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(door_fix(door, 0, ends[0]), 0);
	unit_close(ends[0]);
	put_tagged((struct door_sqe){ .what = DOOR_POLL,
				      .fd = 0,
				      .size = POLLIN,
				      .options = DOOR_FIXED | DOOR_REPEATEDLY },
		   1);
	assert_int_equal(enter(0), 1);
	for (unsigned i = 0; i < 3; i++) {
		struct door_cqe cqe;

		assert_int_equal(write(ends[1], "a", 1), 1);
		while (!nr_unread())
			assert_int_equal(enter(1), 0);
		cqe = get();
		assert_int_equal(cqe.tag, 1);
		assert_int_equal(cqe.res, POLLIN);
		assert_int_equal(cqe.flags, DOOR_MORE);
	}
	/* The cancel request ends all requests on the fixed file in slot 0. */
	put_tagged(fixed(DOOR_CANCEL, 0, NULL, 0, 0), 2);
	assert_int_equal(enter(0), 1);
	assert_got(1, -ECANCELED);
	assert_got(2, 1);
	unit_close(ends[1]);
}

/*
 * The library keeps a fixed file by a descriptor of its own. The program puts another
 * file at that descriptor. Requests must still use the fixed file.
 */
static void the_library_s_descriptor_gives_way(void **state)
{
	int fd = unit_numbered_file(true, 3), ends[2], owns[2];
	char found[SIZE], byte = 0;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(door_fix(door, 0, fd), 0);
	assert_int_equal(door_fix(door, 1, ends[0]), 0);
	put_tagged(fixed(DOOR_READ, 1, &byte, 1, 0), 1);
	assert_int_equal(enter(0), 1);
	owns[0] = own_of(fd);
	owns[1] = own_of(ends[0]);
	take_number(owns[0]);
	take_number(owns[1]);
	assert_int_equal(write(ends[1], "a", 1), 1);
	await_got(1, 1);
	put_tagged(fixed(DOOR_READ, 0, found, SIZE, SIZE), 2);
	assert_int_equal(enter(1), 1);
	assert_got(2, SIZE);
	assert_int_equal(found[0], 1);
	for (unsigned i = 0; i < 2; i++) {
		unit_close(owns[i]);
		unit_close(ends[i]);
	}
	unit_close(fd);
}

static void it_does_not_while_a_worker_uses_it(void **state)
{
	int fd = unit_file(false), own;

	(void)state;
	assert_int_equal(door_fix(door, 0, fd), 0);
	own = own_of(fd);
	/*
	 * In the first round the sync is submitted alone, in the second in a chain: in
	 * both, the library must not give up its descriptor while a worker uses it.
	 */
	for (unsigned i = 0; i < 2; i++) {
		unit_gate_close(own);
		put_tagged(with(fixed(DOOR_SYNC, 0, NULL, 0, 0),
				i ? DOOR_LINK : 0),
			   1);
		put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0), 2);
		assert_int_equal(enter(0), 2);
		unit_gate_await(1);
		assert_int_equal(uaio_own_fd_yield(own), -EBUSY);
		if (!i)
			await_got(2, 0);
		unit_gate_open();
		await_got(1, 0);
		if (i)
			await_got(2, 0);
	}
	take_number(own);
	unit_close(own);
	unit_close(fd);
}

static void closing_all_descriptors_does_not_concern_it(void **state)
{
	int fd = unit_numbered_file(true, 3), ends[2];
	char found[SIZE], byte = 0;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(door_fix(door, 0, fd), 0);
	assert_int_equal(door_fix(door, 1, ends[0]), 0);
	put_tagged(fixed(DOOR_READ, 1, &byte, 1, 0), 1);
	assert_int_equal(enter(0), 1);
	assert_true(uaio_enter());
	uaio_fds_closing(3, ~0u);
	uaio_fds_closed(3, ~0u);
	uaio_leave();
	assert_int_equal(write(ends[1], "a", 1), 1);
	await_got(1, 1);
	put_tagged(fixed(DOOR_READ, 0, found, SIZE, SIZE), 2);
	assert_int_equal(enter(1), 1);
	assert_got(2, SIZE);
	assert_int_equal(found[0], 1);
	unit_close(fd);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

/* Return: a file whose bytes all are this character. */
static int file_of(char character)
{
	char text[SIZE];
	int fd = unit_file(true);

	memset(text, character, SIZE);
	assert_int_equal(pwrite(fd, text, SIZE, 0), SIZE);
	return fd;
}

static void a_chain_needs_no_descriptors_either(void **state)
{
	int fd = unit_numbered_file(false, 3), ends[2];
	char text[SIZE], found[SIZE] = "", byte = 0;

	(void)state;
	memset(text, 'w', SIZE);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(door_fix(door, 0, ends[0]), 0);
	assert_int_equal(door_fix(door, 1, fd), 0);
	unit_close(ends[0]);
	unit_close(fd);
	/*
	 * In the first round the pipe is empty, so all requests wait. In the second
	 * round none waits.
	 */
	for (unsigned i = 0; i < 2; i++) {
		put_tagged(with(fixed(DOOR_READ, 0, &byte, 1, 0), DOOR_LINK),
			   1);
		put_tagged(with(fixed(DOOR_WRITE, 1, text, SIZE, 0), DOOR_LINK),
			   2);
		put_tagged(with(fixed(DOOR_SYNC, 1, NULL, 0, 0), DOOR_LINK), 3);
		put_tagged(
			with(fixed(DOOR_READ, 1, found, SIZE, SIZE), DOOR_LINK),
			4);
		put_tagged(
			with(fixed(DOOR_POLL, 1, NULL, POLLIN, 0), DOOR_LINK),
			5);
		put_tagged(fixed(DOOR_NOP, 1, NULL, 0, 0), 6);
		if (i)
			assert_int_equal(write(ends[1], "a", 1), 1);
		assert_int_equal(enter(0), 6);
		if (!i)
			assert_int_equal(write(ends[1], "a", 1), 1);
		await_got(1, 1);
		await_got(2, SIZE);
		await_got(3, 0);
		await_got(4, SIZE);
		await_got(5, POLLIN);
		await_got(6, 0);
		assert_int_equal(found[0], 1);
	}
	put_tagged(fixed(DOOR_READ, 1, found, SIZE, 0), 7);
	assert_int_equal(enter(1), 1);
	await_got(7, SIZE);
	assert_int_equal(found[SIZE - 1], 'w');
	unit_close(ends[1]);
}

/*
 * Submit a read of an empty pipe, followed by a read of fixed file 1. A drain or a link
 * holds the second read back until the first one completes.
 * Return: the pipe's write end.
 */
static int hold_read(char *byte, char *found, bool by_drain)
{
	static int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	put_tagged(with(rw(DOOR_READ, ends[0], byte, 1, 0),
			by_drain ? 0 : DOOR_LINK),
		   1);
	put_tagged(with(fixed(DOOR_READ, 1, found, SIZE, 0),
			by_drain ? DOOR_DRAIN : 0),
		   2);
	assert_int_equal(enter(0), 2);
	assert_int_equal(nr_unread(), 0);
	unit_close(ends[0]);
	return ends[1];
}

static void release_read(int end)
{
	assert_int_equal(write(end, "a", 1), 1);
	await_got(1, 1);
	unit_close(end);
}

/*
 * A drain or a link holds a request back. As in the kernel, the request uses the file
 * that is in the slot when the request starts.
 */
static void what_is_held_finds_what_is_fixed_when_it_starts(void **state)
{
	int a = file_of('a'), b = file_of('b'), end;
	char found[SIZE], byte;

	(void)state;
	for (unsigned by_drain = 0; by_drain < 2; by_drain++) {
		end = hold_read(&byte, found, by_drain);
		assert_int_equal(door_fix(door, 1, a), 0);
		release_read(end);
		await_got(2, SIZE);
		assert_int_equal(found[0], 'a');

		end = hold_read(&byte, found, by_drain);
		assert_int_equal(door_unfix(door, 1), 0);
		assert_int_equal(door_fix(door, 1, b), 0);
		release_read(end);
		await_got(2, SIZE);
		assert_int_equal(found[0], 'b');

		end = hold_read(&byte, found, by_drain);
		assert_int_equal(door_unfix(door, 1), 0);
		release_read(end);
		await_got(2, -EBADF);
	}
	unit_close(a);
	unit_close(b);
}

static void a_place_that_is_none_ends_a_chain(void **state)
{
	const int places[] = { -1, 1, DOOR_NR_FIXED };
	char byte;

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(places); i++) {
		put_tagged(with(rw(DOOR_NOP, -1, NULL, 0, 0), DOOR_LINK), 1);
		put_tagged(with(fixed(DOOR_READ, places[i], &byte, 1, 0),
				DOOR_LINK),
			   2);
		put_tagged(rw(DOOR_NOP, -1, NULL, 0, 0), 3);
		assert_int_equal(enter(3), 3);
		assert_got(1, 0);
		assert_got(2, -EBADF);
		assert_got(3, -ECANCELED);
	}
}

static void a_mistake_with_a_fixed_file_cancels_the_chain(void **state)
{
	int fd = unit_numbered_file(true, 1);
	char byte;

	(void)state;
	/*
	 * In the first round the slot is empty, in the second it has a file. The
	 * requests must complete with the same errors in both rounds.
	 */
	for (unsigned i = 0; i < 2; i++) {
		put_tagged(with(rw(DOOR_NOP, -1, NULL, 0, 0), DOOR_LINK), 1);
		put_tagged(fixed(DOOR_READ, 1, (void *)(intptr_t)-1, 1, 0), 2);
		assert_int_equal(enter(2), 2);
		assert_got(1, -ECANCELED);
		assert_got(2, -EFAULT);
		/*
		 * A bad offset is found only when the read is executed. So the no-op
		 * before the read completes with 0.
		 */
		put_tagged(with(rw(DOOR_NOP, -1, NULL, 0, 0), DOOR_LINK), 1);
		put_tagged(fixed(DOOR_READ, 1, &byte, 1, -2), 2);
		assert_int_equal(enter(2), 2);
		assert_got(1, 0);
		assert_got(2, -EINVAL);
		if (i == 0)
			assert_int_equal(door_fix(door, 1, fd), 0);
	}
	unit_close(fd);
}

static void what_is_held_and_cancelled_needs_no_file(void **state)
{
	int fd = file_of('a'), end;
	char found[SIZE], byte;

	(void)state;
	assert_int_equal(door_fix(door, 1, fd), 0);
	end = hold_read(&byte, found, false);
	/*
	 * A request that a link holds back has no file yet, so a cancel by file does
	 * not find it.
	 */
	put_tagged(fixed(DOOR_CANCEL, 1, NULL, 0, 0), 3);
	assert_int_equal(enter(0), 1);
	assert_got(3, -ENOENT);
	put_tagged(rw(DOOR_CANCEL, -1, NULL, 0, 2), 3);
	assert_int_equal(enter(0), 1);
	assert_got(2, -ECANCELED);
	assert_got(3, 0);
	release_read(end);
	/*
	 * Closing the door must cancel the requests that the link holds back, too.
	 */
	end = hold_read(&byte, found, false);
	assert_int_equal(door_close(door), 0);
	assert_got(1, -ECANCELED);
	assert_got(2, -ECANCELED);
	door = NULL;
	unit_close(end);
	unit_close(fd);
}

/*
 * A link holds back a request on a fixed file. Before the request starts, the program
 * puts another file at the library's own descriptor of the fixed file.
 */
static void the_library_s_descriptor_gives_way_to_what_is_held(void **state)
{
	int fd = file_of('a'), end, own;
	char found[SIZE], byte;

	(void)state;
	assert_int_equal(door_fix(door, 1, fd), 0);
	end = hold_read(&byte, found, false);
	own = own_of(fd);
	take_number(own);
	release_read(end);
	await_got(2, SIZE);
	assert_int_equal(found[0], 'a');
	unit_close(own);
	unit_close(fd);
}

static int use_in_child(void)
{
	char byte = 0;
	int ends[2];

	if (door_unfix(door, 0) != -EBADF || door_fix(door, 1, 0) != -EBADF)
		return 1;
	if (door_open(&door, &rings) < 0 || pipe(ends) < 0)
		return 2;
	if (door_fix(door, 0, ends[0]) < 0 || close(ends[0]) < 0)
		return 3;
	put_tagged(fixed(DOOR_READ, 0, &byte, 1, 0), 1);
	if (enter(0) != 1 || write(ends[1], "c", 1) != 1)
		return 4;
	if (enter(1) != 0 || byte != 'c')
		return 5;
	return door_close(door) ? 6 : 0;
}

static void a_child_fixes_files_of_its_own(void **state)
{
	int fd = unit_file(true), status;
	pid_t pid;

	(void)state;
	assert_int_equal(door_fix(door, 0, fd), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(use_in_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(door_unfix(door, 0), 0);
	unit_close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DOOR_TEST(a_file_is_served_when_its_descriptor_is_another),
		DOOR_TEST(what_is_not_fixed_is_refused),
		DOOR_TEST(a_file_stays_until_its_requests_are_complete),
		DOOR_TEST(a_fixed_file_is_polled_again_and_again),
		DOOR_TEST(the_library_s_descriptor_gives_way),
		DOOR_TEST(it_does_not_while_a_worker_uses_it),
		DOOR_TEST(closing_all_descriptors_does_not_concern_it),
		DOOR_TEST(a_chain_needs_no_descriptors_either),
		DOOR_TEST(what_is_held_finds_what_is_fixed_when_it_starts),
		DOOR_TEST(a_place_that_is_none_ends_a_chain),
		DOOR_TEST(a_mistake_with_a_fixed_file_cancels_the_chain),
		DOOR_TEST(what_is_held_and_cancelled_needs_no_file),
		DOOR_TEST(the_library_s_descriptor_gives_way_to_what_is_held),
		DOOR_TEST(a_child_fixes_files_of_its_own),
	};

	return cmocka_run_group_tests_name("door fixed", tests, unit_engine,
					   NULL);
}
