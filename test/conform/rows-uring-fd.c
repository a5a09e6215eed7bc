/* SPDX-License-Identifier: MIT */
/* A ring's descriptor: duplicated, closed, polled, and inherited. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "differences.h"
#include "uring.h"
#include "older.h"

static int quiet[2];

static struct uring prepare(void)
{
	REQUIRE(pipe(quiet) == 0);
	return new_uring(4, 0);
}

static void nop(struct uring *ring)
{
	sqe_of(ring, IORING_OP_NOP, -1);
	uring_publish(ring);
}

static void duplicates(void)
{
	struct uring ring = prepare();
	int second = dup(ring.fd), third = fcntl(ring.fd, F_DUPFD, 100);

	nop(&ring);
	note_result("second", uring_enter(second, 1, 0, 0, NULL, 0));
	nop(&ring);
	note_result("third", uring_enter(third, 1, 0, 0, NULL, 0));
	close(ring.fd);
	nop(&ring);
	note_result("closed", uring_enter(ring.fd, 1, 0, 0, NULL, 0));
	note_result("left", uring_enter(second, 1, 0, 0, NULL, 0));
	note_result("register",
		    uring_register(third, IORING_UNREGISTER_FILES, NULL, 0));
	note_ready("nops", &ring);
}

static void replaced(void)
{
	struct uring ring = prepare(), second = new_uring(4, 0);

	note("dup2", dup2(ring.fd, second.fd) == second.fd);
	nop(&ring);
	note_result("by_other", uring_enter(second.fd, 1, 0, 0, NULL, 0));
	note_ready("nops", &ring);
	note("dup2", dup2(quiet[0], second.fd) == second.fd);
	nop(&ring);
	note_result("pipe", uring_enter(second.fd, 1, 0, 0, NULL, 0));
	note_result("ring", uring_enter(ring.fd, 1, 0, 0, NULL, 0));
}

static void used_again(void)
{
	struct uring ring = prepare();
	int fd = ring.fd;

	close(fd);
	note("same_number", open("/dev/null", O_RDWR) == fd);
	note_result("enter", uring_enter(fd, 0, 0, 0, NULL, 0));
	note_result("register",
		    uring_register(fd, IORING_UNREGISTER_FILES, NULL, 0));
	close(fd);
	ring = new_uring(4, 0);
	note("same_number", ring.fd == fd);
	nop(&ring);
	note_result("enter", uring_enter(fd, 1, 0, 0, NULL, 0));
	note_cqes("nop", &ring, 1);
}

static void closed_by_range(void)
{
	struct uring ring = prepare();

	note_result("close_range", close_range((unsigned int)ring.fd,
					       (unsigned int)ring.fd, 0));
	note_result("enter", uring_enter(ring.fd, 0, 0, 0, NULL, 0));
}

/*
 * Closes a descriptor by a `syscall` instruction, as statically linked liburing does
 * since 2.2, and not by a function of the C library.
 */
static void close_by_instruction(int fd)
{
#if defined(__x86_64__)
	long ret = SYS_close;

	__asm__ volatile("syscall"
			 : "+a"(ret)
			 : "D"((long)fd)
			 : "rcx", "r11", "memory");
#else
	register long x8 __asm__("x8") = SYS_close;
	register long ret __asm__("x0") = fd;

	__asm__ volatile("svc 0" : "+r"(ret) : "r"(x8) : "memory");
#endif
	REQUIRE(ret == 0);
}

/*
 * Creates two rings. Polls the first by poll(), then closes it by a `syscall`
 * instruction, which the library does not notice. The read end of a new pipe then gets
 * the first ring's descriptor.
 * Return: the second ring.
 */
static struct uring with_pipe_at_old_ring(int *ret_reader, int *ret_writer)
{
	struct uring old = new_uring(4, 0), ring = new_uring(4, 0);
	struct pollfd ready = { .fd = old.fd, .events = POLLIN };
	int ends[2];

	REQUIRE(poll(&ready, 1, 0) == 0);
	uring_unmap(&old);
	close_by_instruction(old.fd);
	REQUIRE(pipe(ends) == 0 && ends[0] == old.fd);
	*ret_reader = ends[0];
	*ret_writer = ends[1];
	return ring;
}

static void file_at_old_ring(void)
{
	int reader, writer, epoll = epoll_create1(0);
	struct uring ring = with_pipe_at_old_ring(&reader, &writer);
	struct epoll_event event = { .events = EPOLLIN };
	struct pollfd ready = { .fd = reader, .events = POLLIN };
	struct timeval now = { 0, 0 };
	static char buf[8];
	int32_t fd = reader;
	fd_set in;

	note_result("epoll_ctl", epoll_ctl(epoll, EPOLL_CTL_ADD, reader, &event)
					 ? -errno
					 : 0);
	note_result("register",
		    uring_register(ring.fd, IORING_REGISTER_FILES, &fd, 1));
	note("poll_empty", poll(&ready, 1, 0));
	REQUIRE(write(writer, "abc", 3) == 3);
	note("poll", poll(&ready, 1, PATIENCE_MS));
	note("epoll_wait", epoll_wait(epoll, &event, 1, PATIENCE_MS));
	FD_ZERO(&in);
	FD_SET(reader, &in);
	note("select", select(reader + 1, &in, NULL, NULL, &now));
	note_result("enter", uring_enter(ring.fd, 0, 0, 0, NULL, 0));
	sqe_rw(&ring, IORING_OP_READ, reader, buf, 8, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("read", &ring, 1);
	note_result("no_ring",
		    uring_register(reader, IORING_UNREGISTER_FILES, NULL, 0));
}

/*
 * A file that the library knows is closed by an instruction. A pipe gets its descriptor,
 * and is read again and again, which a file does not allow.
 */
static void pipe_at_old_file(void)
{
	enum { OP_READ_MULTISHOT = 49, GROUP = 3, BYTES = 8 };
	struct uring ring = prepare();
	int file = file_of("f", 2 * BYTES, O_RDONLY), ends[2];
	static char memory[2][BYTES];
	struct io_uring_sqe *sqe;

	sqe_rw(&ring, IORING_OP_READ, file, memory[0], BYTES, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("file", &ring, 1);
	close_by_instruction(file);
	REQUIRE(pipe(ends) == 0 && ends[0] == file);
	REQUIRE(write(ends[1], "abc", 3) == 3);
	uring_provide(&ring, GROUP, memory, BYTES, 0, 2);
	sqe = sqe_rw(&ring, OP_READ_MULTISHOT, ends[0], NULL, 0, 0);
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	note_result("submit", uring_submit(&ring));
	note_cqes("pipe", &ring, 1);
}

static void selected_at_old_ring(void)
{
	int reader, writer;
	struct uring ring = with_pipe_at_old_ring(&reader, &writer);
	struct timeval patience = { PATIENCE_MS / 1000, 0 };
	fd_set in;

	REQUIRE(write(writer, "abc", 3) == 3);
	FD_ZERO(&in);
	FD_SET(reader, &in);
	note("select", select(reader + 1, &in, NULL, NULL, &patience));
	note_result("enter", uring_enter(ring.fd, 0, 0, 0, NULL, 0));
}

static void closed_with_requests(void)
{
	struct uring ring = prepare();
	struct pollfd end = { .fd = quiet[1], .events = 0 };
	static char buf[8];

	sqe_rw(&ring, IORING_OP_READ, quiet[0], buf, 8, 0);
	note_result("submit", uring_submit(&ring));
	uring_unmap(&ring);
	note_result("close", close(ring.fd));
	/*
	 * The request has kept the pipe's read end open. Closing the ring must have
	 * ended the request, and so closed the read end.
	 */
	close(quiet[0]);
	note("hung_up",
	     poll(&end, 1, PATIENCE_MS) == 1 && (end.revents & POLLERR));
}

/*
 * The kernel keeps a ring alive while it is mapped, even if its descriptor is closed.
 * uaio ends the ring when its descriptor is closed.
 */
static void closed_while_mapped(void)
{
	struct uring ring = prepare();
	static char buf[8];
	int i;

	sqe_rw(&ring, IORING_OP_READ, quiet[0], buf, 8, 0);
	note_result("submit", uring_submit(&ring));
	note_result("close", close(ring.fd));
	REQUIRE(write(quiet[1], "abc", 3) == 3);
	for (i = 0; i < PATIENCE_MS && !uring_ready(&ring); i++)
		usleep(1000);
	note_cqes("cqe", &ring, uring_settle(&ring));
	note("is_it", !__builtin_memcmp(buf, "abc", 3));
}

static void mapped_after_close(void)
{
	struct uring ring = prepare();

	nop(&ring);
	uring_enter(ring.fd, 1, 0, 0, NULL, 0);
	close(ring.fd);
	note_cqes("nop", &ring, 1);
	note("sq_head", *ring.sq_head);
}

static void other_calls(void)
{
	struct uring ring = prepare();
	char byte = 0;

	note_result("read", read(ring.fd, &byte, 1) < 0 ? -errno : 0);
	note_result("write", write(ring.fd, &byte, 1) < 0 ? -errno : 0);
	note_result("lseek", lseek(ring.fd, 0, SEEK_SET) < 0 ? -errno : 0);
	note_result("pread", pread(ring.fd, &byte, 1, 0) < 0 ? -errno : 0);
	note_result("ftruncate", ftruncate(ring.fd, 0) < 0 ? -errno : 0);
	nop(&ring);
	note_result("then", uring_enter(ring.fd, 1, 0, 0, NULL, 0));
	note_ready("nop", &ring);
}

/*
 * A ring's descriptor in poll(), select() and epoll
 */

static void note_poll(const char *key, int fd)
{
	struct pollfd ready = { .fd = fd,
				.events = POLLIN | POLLOUT | POLLPRI };
	int nr = poll(&ready, 1, 0);

	note(key, nr < 0 ? -errno : nr ? ready.revents : 0);
}

static void polled(void)
{
	struct uring ring = prepare();
	int i;

	note_poll("new", ring.fd);
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_poll("one", ring.fd);
	note_poll("still", ring.fd);
	*ring.cq_head = *ring.cq_tail;
	note_poll("taken", ring.fd);
	for (i = 0; i < 4; i++)
		sqe_of(&ring, IORING_OP_NOP, -1);
	uring_publish(&ring);
	note_poll("sq_full", ring.fd);
	uring_submit(&ring);
	note_poll("submitted", ring.fd);
}

static void selected(void)
{
	struct uring ring = prepare();
	struct timeval now = { 0, 0 };
	fd_set in;

	FD_ZERO(&in);
	FD_SET(ring.fd, &in);
	note("new", select(ring.fd + 1, &in, NULL, NULL, &now));
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	FD_ZERO(&in);
	FD_SET(ring.fd, &in);
	note("one", select(ring.fd + 1, &in, NULL, NULL, &now));
	note("set", !!FD_ISSET(ring.fd, &in));
}

static void note_epoll(const char *key, int epoll, int timeout)
{
	struct epoll_event events[4];
	int nr = epoll_wait(epoll, events, 4, timeout);

	note(key, nr == 1 ? (long)events[0].events : nr);
}

static int epoll_of(int fd, uint32_t mask)
{
	struct epoll_event event = { .events = mask };
	int epoll = epoll_create1(0);

	note_result("add",
		    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0);
	note_result("add_again",
		    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0);
	return epoll;
}

static void by_level(void)
{
	struct uring ring = prepare();
	int epoll = epoll_of(ring.fd, EPOLLIN);

	note_epoll("new", epoll, 0);
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_epoll("one", epoll, PATIENCE_MS);
	note_epoll("still", epoll, PATIENCE_MS);
	*ring.cq_head = *ring.cq_tail;
	note_epoll("taken", epoll, 0);
	note_result("del", epoll_ctl(epoll, EPOLL_CTL_DEL, ring.fd, NULL)
				   ? -errno
				   : 0);
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_epoll("deleted", epoll, 0);
}

static void by_edge(void)
{
	struct uring ring = prepare();
	int epoll = epoll_of(ring.fd, EPOLLIN | EPOLLET);

	note_epoll("new", epoll, 0);
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_epoll("one", epoll, PATIENCE_MS);
	note_epoll("no_more", epoll, 0);
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_epoll("another", epoll, PATIENCE_MS);
}

/*
 * An edge-triggered epoll reports each io_uring_enter that moves overflowed completions
 * into the ring.
 */
static void by_edge_of_overflow(void)
{
	struct io_uring_params params = { .flags = IORING_SETUP_CQSIZE,
					  .cq_entries = 2 };
	struct uring ring = new_uring_of(2, &params);
	int epoll = epoll_of(ring.fd, EPOLLIN | EPOLLET);
	int i;

	for (i = 0; i < 5; i++) {
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_result("submit", uring_submit(&ring));
	}
	note_epoll("overflown", epoll, PATIENCE_MS);
	for (i = 0; i < 4; i++) {
		note_result("get",
			    uring_enter(ring.fd, 0, 0, IORING_ENTER_GETEVENTS,
					NULL, 0));
		note_epoll("got", epoll, 0);
		note_epoll("no_more", epoll, 0);
		*ring.cq_head = *ring.cq_tail;
	}
}

static void nested(void)
{
	struct uring ring = prepare();
	int inner = epoll_of(ring.fd, EPOLLIN);
	int outer = epoll_of(inner, EPOLLIN);

	note_epoll("new", outer, 0);
	sqe_of(&ring, IORING_OP_NOP, -1);
	uring_submit(&ring);
	note_epoll("one", outer, PATIENCE_MS);
	note_poll("inner", inner);
}

static void by_later_completion(void)
{
	struct uring ring = prepare();
	int epoll = epoll_of(ring.fd, EPOLLIN);

	sqe_of(&ring, IORING_OP_POLL_ADD, quiet[0])->poll32_events = POLLIN;
	note_result("submit", uring_submit(&ring));
	note_epoll("waits", epoll, 0);
	REQUIRE(write(quiet[1], "x", 1) == 1);
	note_epoll("later", epoll, PATIENCE_MS);
	note_cqes("cqe", &ring, 1);
}

static void timeout_wakes(void)
{
	struct __kernel_timespec soon = SPAN_SOON;
	struct uring ring = prepare();
	struct pollfd ready = { .fd = ring.fd, .events = POLLIN };

	sqe_rw(&ring, IORING_OP_TIMEOUT, -1, &soon, 1, 0);
	note_result("submit", uring_submit(&ring));
	note("poll", poll(&ready, 1, PATIENCE_MS));
	note("revents", ready.revents);
	note_cqes("cqe", &ring, 1);
}

/*
 * A ring that several processes or threads use
 */

static struct uring inherited;

static int submit_in_child(void)
{
	sqe_of(&inherited, IORING_OP_NOP, -1);
	return uring_submit(&inherited) == 1 ? (int)uring_ready(&inherited)
					     : 100;
}

static void child_submits(void)
{
	inherited = prepare();
	note("child", in_child(submit_in_child));
	note_ready("parent", &inherited);
}

/*
 * A child's request completes while the ring is full, and the child ends before the
 * ring has room.
 */
static void child_overflows(void)
{
	struct io_uring_params params = { .flags = IORING_SETUP_CQSIZE,
					  .cq_entries = 2 };

	inherited = new_uring_of(2, &params);
	sqe_of(&inherited, IORING_OP_NOP, -1);
	sqe_of(&inherited, IORING_OP_NOP, -1);
	note_result("submit", uring_submit(&inherited));
	note("child", in_child(submit_in_child));
	note("taken", uring_take_all(&inherited));
	note_result("get", uring_enter(inherited.fd, 0, 0,
				       IORING_ENTER_GETEVENTS, NULL, 0));
	note("overflowed", uring_ready(&inherited));
}

/* A child cancels a request of its parent. */
static int cancel_in_child(void)
{
	uint64_t cancelled = inherited.sqes[0].user_data;
	struct io_uring_sqe *sqe =
		sqe_of(&inherited, IORING_OP_ASYNC_CANCEL, -1);
	uint64_t own = sqe->user_data;
	struct io_uring_cqe cqe;

	sqe->addr = cancelled;
	if (uring_submit(&inherited) != 1 || !uring_find(&inherited, own, &cqe))
		return 100;
	return -cqe.res;
}

static void child_cancels(void)
{
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	inherited = prepare();
	sqe_of(&inherited, IORING_OP_POLL_ADD, fds[0])->poll32_events = POLLIN;
	note_result("submit", uring_submit(&inherited));
	note("child", in_child(cancel_in_child));
}

static int read_in_child(void)
{
	static char buf[8];
	struct io_uring_sqe *sqe =
		sqe_rw(&inherited, IORING_OP_READ, 0, buf, 8, 0);
	uint64_t own = sqe->user_data;
	struct io_uring_cqe cqe;

	sqe->flags = IOSQE_FIXED_FILE;
	if (uring_submit(&inherited) != 1 || !uring_find(&inherited, own, &cqe))
		return 100;
	return cqe.res < 0 ? -cqe.res : cqe.res;
}

static void child_reads_registered(void)
{
	int fd = file_of("f", 8, O_RDONLY);

	inherited = prepare();
	note_result("register", uring_register(inherited.fd,
					       IORING_REGISTER_FILES, &fd, 1));
	note("child", in_child(read_in_child));
}

/* A parent that becomes a daemon: it exits, and its child goes on. */
static int ended[2], answer[2];

static int go_on(void)
{
	struct io_uring_cqe cqe;
	char byte = 'n';
	uint64_t own;

	close(ended[1]);
	if (read(ended[0], &byte, 1) != 0)
		return 1;
	own = sqe_of(&inherited, IORING_OP_NOP, -1)->user_data;
	if (uring_submit(&inherited) == 1 &&
	    uring_find(&inherited, own, &cqe) && cqe.res == 0)
		byte = 'y';
	return write(answer[1], &byte, 1) != 1;
}

static int become_daemon(void)
{
	pid_t pid;

	inherited = prepare();
	pid = fork();
	if (pid == 0)
		_exit(go_on());
	return pid < 0;
}

static void parent_ends(void)
{
	char byte = 0;

	REQUIRE(pipe(ended) == 0 && pipe(answer) == 0);
	note("parent", in_child(become_daemon));
	close(ended[1]);
	REQUIRE(read(answer[0], &byte, 1) == 1);
	note("goes_on", byte == 'y');
}

/*
 * A child waits for its own request on the inherited ring. Its parent is killed
 * meanwhile; the request must nevertheless complete.
 */
static int waits_for[2], pids[2];

static int wait_in_child(void)
{
	char got[8], byte = 'n';
	struct io_uring_cqe cqe;
	pid_t pid = getpid();
	uint64_t own = sqe_rw(&inherited, IORING_OP_READ, waits_for[0], got,
			      sizeof(got), 0)
			       ->user_data;

	if (uring_submit(&inherited) != 1 ||
	    write(pids[1], &pid, sizeof(pid)) != sizeof(pid))
		return 1;
	if (uring_find(&inherited, own, &cqe) && cqe.res == 3)
		byte = 'y';
	return write(answer[1], &byte, 1) != 1;
}

static void parent_is_killed(void)
{
	pid_t parent, child;
	char byte = 0;
	int status;

	REQUIRE(pipe(waits_for) == 0 && pipe(pids) == 0 && pipe(answer) == 0);
	parent = fork_helper();
	if (parent == 0) {
		inherited = prepare();
		if (fork() == 0)
			_exit(wait_in_child());
		for (;;)
			pause();
	}
	REQUIRE(read(pids[0], &child, sizeof(child)) == sizeof(child));
	wait_asleep(child);
	REQUIRE(kill(parent, SIGKILL) == 0);
	REQUIRE(waitpid(parent, &status, 0) == parent);
	REQUIRE(write(waits_for[1], "abc", 3) == 3);
	REQUIRE(read(answer[0], &byte, 1) == 1);
	note("child_has_it", byte == 'y');
}

/*
 * Runs in a child of the killed parent. Makes the file on which the parent's request
 * waits ready, and reports how the request ends: 'c' cancelled, 'o' in another way, 'n'
 * not at all.
 */
static int hear_of_parents(void)
{
	/*
	 * Wait a second: the kernel cancels the parent's requests only some
	 * milliseconds after the parent's end.
	 */
	struct __kernel_timespec second = { .tv_sec = 1 };
	uint64_t parents = inherited.sqes[0].user_data;
	struct io_uring_cqe cqe;
	char byte;

	close(ended[1]);
	if (write(pids[1], "c", 1) != 1 || read(ended[0], &byte, 1) != 0 ||
	    write(waits_for[1], "abc", 3) != 3)
		return 1;
	sqe_rw(&inherited, IORING_OP_TIMEOUT, -1, &second, 1, 0);
	if (uring_submit(&inherited) != 1 || !uring_wait(&inherited, 1) ||
	    !uring_take(&inherited, &cqe))
		return 2;
	byte = cqe.user_data != parents ? 'n'
	       : cqe.res == -ECANCELED  ? 'c'
					: 'o';
	return write(answer[1], &byte, 1) != 1;
}

static void parents_request_stays(void)
{
	static char got[8];
	pid_t parent;
	char byte;

	REQUIRE(pipe(waits_for) == 0 && pipe(pids) == 0 && pipe(answer) == 0);
	REQUIRE(pipe(ended) == 0);
	parent = fork_helper();
	if (parent == 0) {
		inherited = prepare();
		sqe_rw(&inherited, IORING_OP_READ, waits_for[0], got,
		       sizeof(got), 0);
		REQUIRE(uring_submit(&inherited) == 1);
		if (fork() == 0)
			_exit(hear_of_parents());
		for (;;)
			pause();
	}
	close(ended[1]);
	REQUIRE(read(pids[0], &byte, 1) == 1);
	REQUIRE(kill(parent, SIGKILL) == 0);
	REQUIRE(waitpid(parent, NULL, 0) == parent);
	REQUIRE(read(answer[0], &byte, 1) == 1);
	note_text("told", byte == 'c'   ? "ECANCELED"
			  : byte == 'n' ? "nothing"
					: "else");
	REQUIRE(read(waits_for[0], got, sizeof(got)) == 3);
}

/* The process sends the ring's descriptor to itself by a Unix socket. */
static void sent(void)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct iovec iov = { &control, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control.room) };
	struct uring ring = prepare();
	int ends[2];

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	memcpy(CMSG_DATA(&control.head), &ring.fd, sizeof(ring.fd));
	note_result("send", sendmsg(ends[0], &msg, 0) < 0 ? -errno : 0);
}

static int close_in_child(void)
{
	return close(inherited.fd);
}

static void child_closes(void)
{
	inherited = prepare();
	note("child", in_child(close_in_child));
	sqe_of(&inherited, IORING_OP_NOP, -1);
	note_result("parent", uring_submit(&inherited));
	note_cqes("nop", &inherited, 1);
}

static int own_ring_in_child(void)
{
	struct uring ring = new_uring(4, 0);

	sqe_of(&ring, IORING_OP_NOP, -1);
	return uring_submit(&ring) == 1 ? (int)uring_ready(&ring) : 100;
}

static void child_has_its_own(void)
{
	inherited = prepare();
	note("child", in_child(own_ring_in_child));
	note_ready("parent", &inherited);
}

static long single_from_child(void)
{
	sqe_of(&inherited, IORING_OP_NOP, -1);
	return uring_submit(&inherited);
}

static int single_in_child(void)
{
	return (int)-single_from_child();
}

static void single_issuer(void)
{
	inherited = new_uring(4, IORING_SETUP_SINGLE_ISSUER);
	note("child", in_child(single_in_child));
	inherited = new_uring(4, IORING_SETUP_SINGLE_ISSUER |
					 IORING_SETUP_R_DISABLED);
	note_result("enable",
		    uring_register(inherited.fd, IORING_REGISTER_ENABLE_RINGS,
				   NULL, 0));
	note("child", in_child(single_in_child));
}

const struct row rows_uring_fd[] = {
	ROW("a ring's descriptor is duplicated", duplicates),
	ROW("a ring's descriptor is replaced", replaced),
	ROW("a ring's descriptor is reused", used_again),
	ROW("a ring is closed by close_range", closed_by_range),
	ROW("a file where a ring was closed by an instruction",
	    file_at_old_ring),
	ROW("select of a file where a ring was closed by an instruction",
	    selected_at_old_ring),
	ROW("a pipe is read at the descriptor of a file", pipe_at_old_file),
	ROW("closing a ring cancels waiting requests", closed_with_requests),
	ROW_DIFFERS("a ring that is closed while it is mapped",
		    closed_while_mapped, differs_ring_mapped,
		    { "cqe.0=3", "cqe.0=ECANCELED" }, { "is_it=1", "is_it=0" }),
	ROW("a ring's memory outlives its descriptor", mapped_after_close),
	ROW_DIFFERS("a ring's descriptor and other calls", other_calls,
		    differs_ring_calls, { "read=EINVAL", "read=0" },
		    { "write=EINVAL", "write=0" },
		    { "lseek=ESPIPE", "lseek=0" },
		    { "pread=ESPIPE", "pread=0" },
		    { "ftruncate=EINVAL", "ftruncate=EPERM" }),
	ROW("poll of a ring reports completions", polled),
	ROW("select of a ring reports completions", selected),
	ROW("epoll of a ring by level", by_level),
	ROW("epoll of a ring by edge", by_edge),
	ROW("epoll of a ring by edge, and overflows", by_edge_of_overflow),
	ROW("epoll of a ring in an epoll", nested),
	ROW("epoll of a ring, and a later completion", by_later_completion),
	ROW("a timeout makes a ring ready", timeout_wakes),
	ROW("a child submits to a ring", child_submits),
	ROW_DIFFERS("a child ends before its completion has room",
		    child_overflows, differs_ring_child,
		    { "overflowed=1", "overflowed=0" }),
	ROW_DIFFERS("a child cancels a request of its parent's", child_cancels,
		    differs_ring_child, { "child=0", "child=2" }),
	ROW_DIFFERS("a child uses a file that its parent registered",
		    child_reads_registered, differs_ring_child,
		    { "child=8", "child=9" }),
	ROW("a child continues with the ring of a parent that ends",
	    parent_ends),
	ROW("a child waits in the ring of a parent that is killed",
	    parent_is_killed),
	ROW_DIFFERS("a parent that is killed has a request that waits",
		    parents_request_stays, differs_ring_child,
		    { "told=ECANCELED", "told=nothing" }),
	ROW_DIFFERS("a ring's descriptor is sent", sent, differs_ring_sent,
		    { "send=EINVAL", "send=0" }),
	ROW("a child closes a ring", child_closes),
	ROW("a child has a ring of its own", child_has_its_own),
	ROW("a ring of one issuer and a child", single_issuer),
	NO_ROW,
};
