/* SPDX-License-Identifier: MIT */
/* Tests which system calls execute reads and writes on streams without blocking. */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/sys.h"
#include "op/op.h"
#include "unit.h"

static char buffer[256];
/* how many more calls of vmsplice() the hook interrupts */
static uint32_t nr_interrupted;
static bool has_nosignal; /* whether the kernel knows RWF_NOSIGNAL */
/* whether the hook refuses send and recv, like a seccomp filter */
static bool refuses_sockets;
/* whether the hook refuses RWF_NOWAIT, as an old kernel does for some files */
static bool refuses_nowait;
static uint32_t nr_of_socket; /* how many calls of send and recv were made */
static uint32_t nr_vectored;

static bool answer(long nr, const long args[6], long *ret_res)
{
	bool is_of_socket = nr == SYS_recvfrom || nr == SYS_sendto;
	bool is_vectored = nr == SYS_preadv2 || nr == SYS_pwritev2;

	nr_of_socket += is_of_socket;
	nr_vectored += is_vectored;
	if (is_of_socket && refuses_sockets) {
		*ret_res = -ENOSYS;
		return true;
	}
	*ret_res = nr == SYS_vmsplice ? -EINTR : -EOPNOTSUPP;
	if (nr == SYS_vmsplice && nr_interrupted) {
		nr_interrupted--;
		return true;
	}
	if (is_vectored && args[5] & RWF_NOWAIT && refuses_nowait)
		return true;
	return nr == SYS_pwritev2 && args[5] & UAIO_RWF_HAS_WAITED &&
	       !has_nosignal;
}

static int start(void **state)
{
	nr_interrupted = 0;
	has_nosignal = true;
	refuses_sockets = refuses_nowait = false;
	nr_of_socket = nr_vectored = 0;
	unit_hook(answer);
	(void)state;
	return 0;
}

static int stop(void **state)
{
	unit_hook(NULL);
	(void)state;
	return 0;
}

/* Make the system call of the request, on a stream. */
static int64_t run_sqe(const struct uaio_sqe *sqe, int fd, uint32_t flags)
{
	struct uaio_found found = { .rest = UAIO_REST_UNKNOWN };

	return uaio_optab[sqe->op].run(sqe, fd, &found,
				       flags | UAIO_RWF_ON_STREAM);
}

static int64_t run(enum uaio_op op, int fd, uint64_t bytes, uint32_t flags)
{
	const struct uaio_sqe sqe = {
		.op = (uint8_t)op,
		.fd = fd,
		.buf = buffer,
		.len = bytes,
	};

	return run_sqe(&sqe, fd, flags);
}

static int64_t read_now(int fd, uint64_t bytes)
{
	return run(UAIO_OP_READ, fd, bytes, RWF_NOWAIT | UAIO_RWF_HAS_WAITED);
}

static int64_t write_again(int fd)
{
	return run(UAIO_OP_WRITE, fd, 1, RWF_NOWAIT | UAIO_RWF_HAS_WAITED);
}

/* Open both ends of a FIFO. is_both: as one open file, for reading and writing. */
static void open_fifo(int fds[2], bool is_both)
{
	char dir[] = "/tmp/uaio-rw-XXXXXX";

	assert_non_null(mkdtemp(dir));
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(mkfifo("fifo", 0600), 0);
	fds[0] = open("fifo", is_both ? O_RDWR : O_RDONLY | O_NONBLOCK);
	fds[1] = is_both ? dup(fds[0]) : open("fifo", O_WRONLY);
	assert_true(fds[0] >= 0 && fds[1] >= 0);
	assert_int_equal(unlink("fifo"), 0);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(dir), 0);
	if (!is_both)
		assert_int_equal(fcntl(fds[0], F_SETFL, 0), 0);
}

static void close_both(const int fds[2])
{
	close(fds[0]);
	close(fds[1]);
}

static int held(int fd)
{
	int bytes;

	assert_int_equal(ioctl(fd, FIONREAD, &bytes), 0);
	return bytes;
}

static void fifo_is_read(void **state)
{
	int fds[2];

	(void)state;
	open_fifo(fds, false);
	assert_int_equal(read_now(fds[0], 10), -EAGAIN);
	assert_int_equal(write(fds[1], "01234", 5), 5);
	assert_int_equal(read_now(fds[0], 2), 2);
	assert_memory_equal(buffer, "01", 2);
	nr_interrupted = 2;
	assert_int_equal(read_now(fds[0], 10), 3);
	assert_memory_equal(buffer, "234", 3);
	assert_int_equal(fcntl(fds[0], F_GETFL) & O_NONBLOCK, 0);
	close(fds[1]);
	assert_int_equal(read_now(fds[0], 10), 0);
	close(fds[0]);
}

static void fifo_is_read_in_pieces(void **state)
{
	struct iovec iov[3] = { { buffer, 2 }, { NULL, 0 }, { buffer + 9, 9 } };
	const struct uaio_sqe sqe = {
		.op = UAIO_OP_READV,
		.iov = iov,
		.len = 3,
	};
	int fds[2];

	(void)state;
	open_fifo(fds, false);
	assert_int_equal(write(fds[1], "01234", 5), 5);
	assert_int_equal(run_sqe(&sqe, fds[0], RWF_NOWAIT), 5);
	assert_memory_equal(buffer, "01", 2);
	assert_memory_equal(buffer + 9, "234", 3);
	close_both(fds);
}

/* On a descriptor open for reading and writing, vmsplice() would write instead of read. */
static void a_fifo_open_for_both_is_left_alone(void **state)
{
	int fds[2];

	(void)state;
	open_fifo(fds, true);
	assert_int_equal(read_now(fds[0], 10), UAIO_OP_BLOCKS);
	assert_int_equal(held(fds[0]), 0);
	assert_int_equal(write(fds[1], "01234", 5), 5);
	assert_int_equal(read_now(fds[0], 10), UAIO_OP_BLOCKS);
	assert_int_equal(held(fds[0]), 5);
	close_both(fds);
}

/*
 * After a splice from a pipe, the kernel refuses RWF_NOWAIT for this pipe. The library
 * must not use vmsplice() instead: the pipe may be in packet mode, and vmsplice()
 * would not stop at a packet's end. So the library cannot read from the pipe without
 * blocking.
 */
static void spliced_pipe_is_left_alone(void **state)
{
	struct iovec iov = { buffer, 1 };
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, O_DIRECT), 0);
	assert_int_equal(write(fds[1], "012", 3), 3);
	assert_int_equal(write(fds[1], "345", 3), 3);
	assert_int_equal(read_now(fds[0], 10), 3);
	/* After this vmsplice() the kernel refuses RWF_NOWAIT for this pipe. */
	assert_int_equal(vmsplice(fds[0], &iov, 1, 0), 1);
	assert_int_equal(read_now(fds[0], 10), UAIO_OP_BLOCKS);
	assert_int_equal(held(fds[0]), 2);
	close_both(fds);
}

static void terminals_are_left_alone(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(openpty(&fds[0], &fds[1], NULL, NULL, NULL), 0);
	assert_int_equal(read_now(fds[0], 10), UAIO_OP_BLOCKS);
	assert_int_equal(write_again(fds[0]), UAIO_OP_BLOCKS);
	close_both(fds);
}

static volatile sig_atomic_t nr_sigpipe;

static void on_sigpipe(int sig)
{
	(void)sig;
	nr_sigpipe++;
}

static bool is_pending(void)
{
	sigset_t set;

	assert_int_equal(sigpending(&set), 0);
	return sigismember(&set, SIGPIPE);
}

static void hold_sigpipe(int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	assert_int_equal(sigprocmask(how, &set, NULL), 0);
}

static void break_pipes(bool knows_nosignal)
{
	int fds[2];

	has_nosignal = knows_nosignal;
	nr_sigpipe = 0;
	signal(SIGPIPE, on_sigpipe);
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write_again(fds[1]), 1);
	close(fds[0]);
	assert_int_equal(write_again(fds[1]), -EPIPE);
	assert_int_equal(nr_sigpipe, 0);
	/*
	 * No SIGPIPE is left pending, except one that was pending before, and the signal
	 * mask is unchanged.
	 */
	hold_sigpipe(SIG_BLOCK);
	assert_int_equal(write_again(fds[1]), -EPIPE);
	assert_false(is_pending());
	raise(SIGPIPE);
	assert_int_equal(write_again(fds[1]), -EPIPE);
	assert_true(is_pending());
	hold_sigpipe(SIG_UNBLOCK);
	assert_int_equal(nr_sigpipe, 1);
	assert_int_equal(run(UAIO_OP_WRITE, fds[1], 1, RWF_NOWAIT), -EPIPE);
	assert_int_equal(nr_sigpipe, 2);
	signal(SIGPIPE, SIG_DFL);
	close(fds[1]);
}

/* If a FIFO has no reader, the library fails a write without making the call. */
static void fifo_without_reader_is_broken(void **state)
{
	int fds[2];

	(void)state;
	nr_sigpipe = 0;
	signal(SIGPIPE, on_sigpipe);
	open_fifo(fds, false);
	assert_int_equal(write_again(fds[1]), UAIO_OP_BLOCKS);
	close(fds[0]);
	assert_int_equal(write_again(fds[1]), -EPIPE);
	assert_int_equal(nr_sigpipe, 0);
	assert_int_equal(run(UAIO_OP_WRITE, fds[1], 1, RWF_NOWAIT), -EPIPE);
	assert_int_equal(nr_sigpipe, 1);
	signal(SIGPIPE, SIG_DFL);
	close(fds[1]);
}

static void waiting_write_raises_nothing(void **state)
{
	(void)state;
	break_pipes(true);
}

static void waiting_write_consumes_its_signal(void **state)
{
	(void)state;
	break_pipes(false);
}

/* Write as POSIX AIO does: by a call that may block. */
static int64_t write_as_posix(int fd)
{
	const struct uaio_sqe sqe = {
		.op = UAIO_OP_WRITE,
		.door = UAIO_RULES_OF_POSIX,
		.fd = fd,
		.buf = buffer,
		.len = 1,
	};

	return run_sqe(&sqe, fd, 0);
}

static void break_stream_of_posix(bool is_socket)
{
	int fds[2];

	assert_int_equal(is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, fds)
				   : pipe(fds),
			 0);
	assert_int_equal(write_as_posix(fds[1]), 1);
	assert_int_equal(read_now(fds[0], 2), 1);
	close(fds[0]);
	assert_int_equal(write_as_posix(fds[1]), -EPIPE);
	close(fds[1]);
}

static void a_write_of_posix_needs_no_call_with_flags(void **state)
{
	(void)state;
	nr_sigpipe = 0;
	signal(SIGPIPE, on_sigpipe);
	uaio_call_forbid(UAIO_CALL_PWRITEV2);
	break_stream_of_posix(false);
	break_stream_of_posix(true);
	/*
	 * This thread blocks SIGPIPE, as each worker does. So the library may leave
	 * the signal pending, and needs no sigtimedwait() to consume it.
	 */
	uaio_call_forbid(UAIO_CALL_SIGTIMEDWAIT);
	hold_sigpipe(SIG_BLOCK);
	break_stream_of_posix(false);
	break_stream_of_posix(true);
	signal(SIGPIPE, SIG_IGN);
	hold_sigpipe(SIG_UNBLOCK);
	signal(SIGPIPE, SIG_DFL);
	assert_int_equal(nr_sigpipe, 0);
}

static void waiting_write_returns_a_reset(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	close(fds[0]);
	assert_int_equal(write_again(fds[1]), -ECONNRESET);
	assert_int_equal(write_again(fds[1]), -EPIPE);
	close(fds[1]);
}

/*
 * Flags of run() for sockets. ON_SOCKET: the first call for a request;
 * AGAIN_ON_SOCKET: a later call, after the request has waited.
 */
enum {
	ON_SOCKET = RWF_NOWAIT | UAIO_RWF_ON_SOCKET,
	AGAIN_ON_SOCKET = ON_SOCKET | UAIO_RWF_HAS_WAITED,
};

static void talk(int fds[2])
{
	memcpy(buffer, "talk", 4);
	assert_int_equal(run(UAIO_OP_READ, fds[0], 9, AGAIN_ON_SOCKET),
			 -EAGAIN);
	assert_int_equal(run(UAIO_OP_WRITE, fds[1], 4, ON_SOCKET), 4);
	memset(buffer, 0, sizeof(buffer));
	assert_int_equal(run(UAIO_OP_READ, fds[0], 3, ON_SOCKET), 3);
	assert_memory_equal(buffer, "tal", 3);
	assert_int_equal(run(UAIO_OP_READ, fds[0], 9, AGAIN_ON_SOCKET), 1);
	assert_memory_equal(buffer, "k", 1);
	assert_int_equal(run(UAIO_OP_READ, fds[0], 9, ON_SOCKET), -EAGAIN);
}

static void sockets_are_used_by_their_own_calls(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	talk(fds);
	assert_int_equal(nr_of_socket, 5);
	assert_int_equal(nr_vectored, 0);
	close(fds[1]);
	assert_int_equal(run(UAIO_OP_READ, fds[0], 9, ON_SOCKET), 0);
	close(fds[0]);
}

static void sockets_whose_calls_are_refused_are_used_by_others(void **state)
{
	int fds[2];

	(void)state;
	refuses_sockets = true;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	talk(fds);
	assert_int_equal(nr_vectored, 5);
	close_both(fds);
}

/*
 * A program may reuse a socket's descriptor for another file. Here the flags of run()
 * say that the descriptor is a socket, but it is a pipe.
 */
static void other_files_are_used_by_other_calls(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	talk(fds);
	assert_int_equal(nr_vectored, 5);
	close_both(fds);
}

static void flags_of_the_client_are_kept(void **state)
{
	const struct uaio_sqe sqe = {
		.op = UAIO_OP_WRITE,
		.buf = buffer,
		.len = 1,
		.rw_flags = RWF_HIPRI,
	};
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(run_sqe(&sqe, fds[1], ON_SOCKET), 1);
	assert_int_equal(nr_of_socket, 0);
	assert_int_equal(nr_vectored, 1);
	close_both(fds);
}

static void a_broken_socket_raises_sigpipe_if_it_must(void **state)
{
	int fds[2];

	(void)state;
	nr_sigpipe = 0;
	signal(SIGPIPE, on_sigpipe);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	close(fds[0]);
	assert_int_equal(run(UAIO_OP_WRITE, fds[1], 1, AGAIN_ON_SOCKET),
			 -ECONNRESET);
	assert_int_equal(run(UAIO_OP_WRITE, fds[1], 1, AGAIN_ON_SOCKET),
			 -EPIPE);
	assert_int_equal(nr_sigpipe, 0);
	assert_int_equal(run(UAIO_OP_WRITE, fds[1], 1, ON_SOCKET), -EPIPE);
	assert_int_equal(nr_sigpipe, 1);
	signal(SIGPIPE, SIG_DFL);
	close(fds[1]);
}

/* Linux before 6.5 */

static void sockets_that_refuse_nowait_get_messages(void **state)
{
	int fds[2];

	(void)state;
	refuses_sockets = refuses_nowait = true;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	talk(fds);
	close_both(fds);
}

static void records_that_are_too_large_are_refused_at_once(void **state)
{
	static char large[1 << 20];
	struct iovec iovs[] = { { large, 1 }, { large, sizeof(large) - 1 } };
	const struct uaio_sqe sqe = {
		.op = UAIO_OP_WRITEV,
		.iov = iovs,
		.len = 2,
	};
	const int types[] = { SOCK_DGRAM, SOCK_SEQPACKET };
	int fds[2];

	(void)state;
	refuses_nowait = true;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(socketpair(AF_UNIX, types[i], 0, fds), 0);
		while (write_again(fds[1]) == 1)
			;
		assert_int_equal(write_again(fds[1]), -EAGAIN);
		assert_int_equal(run_sqe(&sqe, fds[1], RWF_NOWAIT), -EMSGSIZE);
		assert_int_equal(read_now(fds[0], 9), 1);
		close_both(fds);
	}
}

static void a_flag_that_the_kernel_does_not_know_stays_refused(void **state)
{
	enum { RWF_UNKNOWN = 0x40 };
	const struct uaio_sqe sqe = {
		.op = UAIO_OP_WRITE,
		.buf = buffer,
		.len = 1,
		.rw_flags = RWF_UNKNOWN,
	};
	int fds[2];

	(void)state;
	refuses_nowait = true;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(run_sqe(&sqe, fds[1], RWF_NOWAIT), UAIO_OP_BLOCKS);
	assert_int_equal(held(fds[0]), 0);
	close_both(fds);
}

static void reads_that_are_too_short_are_refused_at_once(void **state)
{
	sigset_t none;
	int timer = timerfd_create(CLOCK_MONOTONIC, 0), signals;

	(void)state;
	sigemptyset(&none);
	signals = signalfd(-1, &none, 0);
	assert_true(timer >= 0 && signals >= 0);
	refuses_nowait = true;
	assert_int_equal(read_now(timer, 7), -EINVAL);
	assert_int_equal(read_now(timer, 8), UAIO_OP_BLOCKS);
	assert_int_equal(read_now(signals, 127), -EINVAL);
	assert_int_equal(read_now(signals, 128), UAIO_OP_BLOCKS);
	close(timer);
	close(signals);
}

#define RW_TEST(function) cmocka_unit_test_setup_teardown(function, start, stop)

int main(void)
{
	/*
	 * The last test of this array must stay last: after that test the library
	 * believes that the kernel is old.
	 */
	const struct CMUnitTest tests[] = {
		RW_TEST(fifo_is_read),
		RW_TEST(fifo_is_read_in_pieces),
		RW_TEST(a_fifo_open_for_both_is_left_alone),
		RW_TEST(spliced_pipe_is_left_alone),
		RW_TEST(terminals_are_left_alone),
		RW_TEST(fifo_without_reader_is_broken),
		RW_TEST(waiting_write_raises_nothing),
		RW_TEST(waiting_write_returns_a_reset),
		RW_TEST(sockets_are_used_by_their_own_calls),
		RW_TEST(sockets_whose_calls_are_refused_are_used_by_others),
		RW_TEST(other_files_are_used_by_other_calls),
		RW_TEST(flags_of_the_client_are_kept),
		RW_TEST(a_broken_socket_raises_sigpipe_if_it_must),
		RW_TEST(sockets_that_refuse_nowait_get_messages),
		RW_TEST(records_that_are_too_large_are_refused_at_once),
		RW_TEST(a_flag_that_the_kernel_does_not_know_stays_refused),
		RW_TEST(reads_that_are_too_short_are_refused_at_once),
		RW_TEST(waiting_write_consumes_its_signal),
		RW_TEST(a_write_of_posix_needs_no_call_with_flags),
	};

	uaio_calls_load("all");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
