/* SPDX-License-Identifier: MIT */
/* Tests SPLICE and TEE, which have two files and may block for ever. */
#undef NDEBUG
#include <errno.h>
#include <poll.h>
#include <signal.h>

#include "file/file.h"
#include "proc/entry.h"
#include "test-call.h"

struct pipes {
	int in[2];
	int out[2];
};

static struct pipes make_pipes(void)
{
	struct pipes p;

	assert_int_equal(pipe2(p.in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(p.out, O_CLOEXEC), 0);
	return p;
}

static void close_pipes(const struct pipes *p)
{
	for (unsigned i = 0; i < 2; i++) {
		unit_close(p->in[i]);
		unit_close(p->out[i]);
	}
}

static struct uaio_sqe to(enum uaio_op op, int out, int64_t off, uint64_t len)
{
	return (struct uaio_sqe){
		.op = (uint8_t)op,
		.fd = out,
		.off = off,
		.len = len,
	};
}

static struct uaio_args from(int in, int64_t off)
{
	return (struct uaio_args){ .fd = in, .off = off };
}

static int64_t splice_now(int in, int64_t in_off, int out, int64_t out_off,
			  uint64_t len, uint32_t flags)
{
	struct uaio_sqe sqe = to(UAIO_OP_SPLICE, out, out_off, len);

	sqe.call_flags = flags;
	return make(sqe, from(in, in_off), AS_IT_LIKES);
}

static void assert_reads(int fd, const char *text)
{
	char got[16] = "";

	assert_int_equal(read(fd, got, strlen(text)), strlen(text));
	assert_string_equal(got, text);
}

static void bytes_go_from_one_file_to_another(void **state)
{
	struct pipes p = make_pipes();
	int fd = unit_file(true);

	(void)state;
	assert_int_equal(write(p.in[1], "abcdef", 6), 6);
	assert_int_equal(make(to(UAIO_OP_TEE, p.out[1], 0, 4), from(p.in[0], 0),
			      AS_IT_LIKES),
			 4);
	assert_reads(p.out[0], "abcd");
	assert_int_equal(splice_now(p.in[0], -1, fd, 10, 4, 0), 4);
	assert_int_equal(splice_now(p.in[0], -1, p.out[1], -1, 100, 0), 2);
	assert_reads(p.out[0], "ef");
	assert_int_equal(splice_now(fd, 11, p.out[1], -1, 2, 0), 2);
	assert_reads(p.out[0], "bc");
	/* Splice at the file position, which the call advances. */
	assert_int_equal(lseek(fd, 12, SEEK_SET), 12);
	assert_int_equal(splice_now(fd, -1, p.out[1], -1, 2, 0), 2);
	assert_reads(p.out[0], "cd");
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 14);
	unit_close(fd);
	close_pipes(&p);
}

static void splicing_unsupported_files_is_refused(void **state)
{
	struct pipes p = make_pipes();
	int fd = unit_file(true), other = unit_file(true);

	(void)state;
	assert_int_equal(splice_now(fd, 0, other, 0, 1, 0), -EINVAL);
	assert_int_equal(splice_now(p.in[0], 1, p.out[1], -1, 1, 0), -ESPIPE);
	assert_int_equal(splice_now(fd, -3, p.out[1], -1, 1, 0), -EINVAL);
	assert_int_equal(splice_now(-1, -1, p.out[1], -1, 1, 0), -EBADF);
	assert_int_equal(splice_now(-1, -1, p.out[1], -1, 0, 0), -EBADF);
	assert_int_equal(splice_now(p.in[0], -1, -1, -1, 1, 0), -EBADF);
	assert_int_equal(splice_now(p.in[0], -1, p.out[1], -1, 0, 0), 0);
	assert_int_equal(splice_now(p.in[0], -1, p.out[1], -1, 1, 0x40),
			 -EINVAL);
	assert_int_equal(
		splice_now(p.in[0], -1, p.out[1], -1, 1, SPLICE_F_NONBLOCK),
		-EAGAIN);
	assert_int_equal(
		make(to(UAIO_OP_TEE, p.out[1], 0, 1), from(fd, 0), AS_IT_LIKES),
		-EINVAL);
	unit_close(fd);
	unit_close(other);
	close_pipes(&p);
}

static void a_splice_holds_the_files_it_was_submitted_on(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		enum uaio_op op = i ? UAIO_OP_SPLICE : UAIO_OP_TEE;
		struct pipes p = make_pipes(), others = make_pipes();
		int fd = i == 2 ? unit_file(false) : -1, kept = dup(fd);
		struct uaio_args args = from(p.in[0], UAIO_OFF_POSITION);
		struct uaio_sqe sqe =
			to(op, fd < 0 ? p.out[1] : fd, UAIO_OFF_POSITION, 8);
		uint64_t handle = unit_context(1);
		char got[4] = "";

		sqe.args = &args;
		assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
		unit_dup2(others.in[0], p.in[0]);
		unit_dup2(others.out[1], sqe.fd);
		assert_int_equal(write(others.in[1], "no", 2), 2);
		assert_int_equal(write(p.in[1], "yes", 3), 3);
		assert_int_equal(unit_reap_one(handle), 3);
		if (fd < 0)
			assert_reads(p.out[0], "yes");
		else
			assert_int_equal(pread(kept, got, 4, 0), 3);
		unit_destroy(handle);
		if (fd >= 0) {
			assert_string_equal(got, "yes");
			unit_close(fd);
			unit_close(kept);
		}
		close_pipes(&p);
		close_pipes(&others);
	}
}

/* Both files of the splice are files that the front-end has registered (fixed). */
static void fixed_files_are_spliced(void **state)
{
	struct pipes p = make_pipes();
	struct uaio_args args = { .fd = -1, .off = UAIO_OFF_POSITION };
	struct uaio_sqe sqe = to(UAIO_OP_SPLICE, -1, UAIO_OFF_POSITION, 3);
	uint64_t handle = unit_context(1);

	(void)state;
	assert_true(uaio_enter());
	assert_int_equal(uaio_file_fix(p.in[0], &args.files[UAIO_END_IN]), 0);
	assert_int_equal(uaio_file_fix(p.out[1], &args.files[UAIO_END_OUT]), 0);
	uaio_leave();
	sqe.args = &args;
	assert_int_equal(unit_submit_sqe(handle, &sqe), 0);
	assert_true(uaio_enter());
	uaio_file_put(args.files[UAIO_END_IN]);
	uaio_file_put(args.files[UAIO_END_OUT]);
	uaio_leave();
	unit_close(p.in[0]);
	unit_close(p.out[1]);
	assert_int_equal(write(p.in[1], "abc", 3), 3);
	assert_int_equal(unit_reap_one(handle), 3);
	assert_reads(p.out[0], "abc");
	/*
	 * read() returns 0, so the writing end of p.out is closed: the request has
	 * dropped its reference to that end.
	 */
	assert_int_equal(read(p.out[0], &handle, 1), 0);
	unit_close(p.in[1]);
	unit_close(p.out[0]);
	unit_destroy(handle);
}

static void a_broken_pipe_sends_no_signal(void **state)
{
	struct pipes p = make_pipes();

	(void)state;
	assert_int_equal(write(p.in[1], "a", 1), 1);
	unit_close(p.out[0]);
	/* If the call raised SIGPIPE, that would end the test. */
	assert_int_equal(splice_now(p.in[0], -1, p.out[1], -1, 1, 0), -EPIPE);
	unit_close(p.in[0]);
	unit_close(p.in[1]);
	unit_close(p.out[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(bytes_go_from_one_file_to_another),
		UNIT_TEST(splicing_unsupported_files_is_refused),
		UNIT_TEST(a_splice_holds_the_files_it_was_submitted_on),
		UNIT_TEST(fixed_files_are_spliced),
		UNIT_TEST(a_broken_pipe_sends_no_signal),
	};

	return cmocka_run_group_tests_name("splice", tests, make_directory,
					   remove_directory);
}
