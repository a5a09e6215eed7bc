/* SPDX-License-Identifier: MIT */
/*
 * Sends the descriptor of a ring through a Unix socket: to the process that made the
 * ring, to its child, and to an unrelated program, which has only the descriptor.
 */
#undef NDEBUG
#include "library.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * The descriptor of the socket by which another program gets a ring's descriptor, but
 * not the ring's memory
 */
enum { HERE = 60 };

union control {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
};

static void send_fd(int to, int fd)
{
	union control control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
					    .cmsg_level = SOL_SOCKET,
					    .cmsg_type = SCM_RIGHTS } };
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control.room) };

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	assert(sendmsg(to, &msg, 0) == 1);
}

static int receive_fd(int from)
{
	union control control;
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control.room) };
	int fd;

	assert(recvmsg(from, &msg, 0) == 1);
	assert(msg.msg_controllen >= CMSG_LEN(sizeof(int)));
	memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

static void try_nop(const char *who, struct io_uring *ring, int fd)
{
	struct io_uring_cqe *cqe;

	/*
	 * Skip the SQEs that another process has submitted since this process last used
	 * the ring.
	 */
	ring->sq.sqe_head = ring->sq.sqe_tail =
		__atomic_load_n(ring->sq.ktail, __ATOMIC_ACQUIRE);
	ring->ring_fd = ring->enter_ring_fd = fd;
	prepare_nops(ring, 1);
	say(who, io_uring_submit_and_wait(ring, 1));
	assert(io_uring_peek_cqe(ring, &cqe) == 0 && cqe->res == 0);
	io_uring_cqe_seen(ring, cqe);
	fflush(stdout);
}

void send_rings(const char *program)
{
	struct io_uring ring;
	int ends[2], fd, status;

	assert(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	set_up(&ring, 8, 0);
	fd = ring.ring_fd;
	for (int i = 0; i < 3; i++)
		send_fd(ends[0], fd);
	try_nop("here", &ring, receive_fd(ends[1]));
	fflush(stdout);
	if (fork() == 0) {
		int other = receive_fd(ends[1]);

		close(fd);
		try_nop("child", &ring, other);
		_exit(0);
	}
	assert(wait(&status) > 0 && status == 0);
	if (fork() == 0) {
		assert(dup2(ends[1], HERE) == HERE);
		execl(program, program, "got", NULL);
		_exit(1);
	}
	assert(wait(&status) > 0 && status == 0);
	try_nop("at last", &ring, fd);
}

static long answer(long ret)
{
	return ret < 0 ? -errno : ret;
}

void use_ring_of_stranger(void)
{
	int fd = receive_fd(HERE);
	struct io_uring own;

	for (int i = 0; i < 2; i++) {
		say("submit",
		    answer(syscall(__NR_io_uring_enter, fd, 1, 0, 0, NULL, 0)));
		say("wait", answer(syscall(__NR_io_uring_enter, fd, 0, 1,
					   IORING_ENTER_GETEVENTS, NULL, 0)));
		say("register",
		    answer(syscall(__NR_io_uring_register, fd,
				   IORING_REGISTER_ENABLE_RINGS, NULL, 0)));
		/*
		 * In the second round, the library also has a ring that this process
		 * made.
		 */
		set_up(&own, 4, 0);
	}
}
