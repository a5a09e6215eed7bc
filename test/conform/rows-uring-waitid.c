/* SPDX-License-Identifier: MIT */
/* WAITID and EPOLL_WAIT: waits for children and on epolls as requests */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "differences.h"
#include "uring.h"
#include "base/newer.h"

static struct uring ring;
static siginfo_t info;
static int gate[2]; /* a pipe: children exit when its write end is closed */

static pid_t start_child(int status)
{
	pid_t pid;
	char byte;

	REQUIRE(pipe(gate) == 0);
	pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		close(gate[1]);
		(void)!read(gate[0], &byte, 1);
		_exit(status);
	}
	close(gate[0]);
	return pid;
}

static void end_child(void)
{
	close(gate[1]);
}

static struct io_uring_sqe *put_waitid(int which, int id, uint32_t options)
{
	struct io_uring_sqe *sqe = sqe_of(&ring, OP_WAITID, id);

	memset(&info, 0x55, sizeof(info));
	sqe->len = (uint32_t)which;
	sqe->addr2 = (uintptr_t)&info;
	sqe->file_index = options;
	return sqe;
}

static void note_info(const char *key, pid_t pid)
{
	char name[32];

	snprintf(name, sizeof(name), "%s.signo", key);
	note(name, info.si_signo);
	snprintf(name, sizeof(name), "%s.code", key);
	note(name, info.si_code);
	snprintf(name, sizeof(name), "%s.errno", key);
	note(name, info.si_errno);
	snprintf(name, sizeof(name), "%s.is_it", key);
	note(name, info.si_pid == pid);
	snprintf(name, sizeof(name), "%s.status", key);
	note(name, info.si_status);
}

static void waits(const char *key, int which, int id, pid_t pid)
{
	put_waitid(which, id, WEXITED);
	note_result("submit", uring_submit(&ring));
	note("before", uring_settle(&ring));
	end_child();
	note_in_order(key, &ring, 1);
	note_info(key, pid);
	note("left", waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG));
}

static void each_way(void)
{
	pid_t pid;
	int fd;

	ring = new_uring(8, 0);
	pid = start_child(3);
	waits("pid", P_PID, pid, pid);
	pid = start_child(4);
	waits("all", P_ALL, 0, pid);
	pid = start_child(5);
	waits("pgid", P_PGID, getpgrp(), pid);
	pid = start_child(6);
	fd = (int)syscall(434 /* pidfd_open */, pid, 0);
	REQUIRE(fd >= 0);
	waits("pidfd", UAIO_P_PIDFD, fd, pid);
	close(fd);
}

/*
 * The request waits for the child that its pidfd named at submission, even after that
 * pidfd is closed.
 */
static void descriptor_is_closed(void)
{
	pid_t pid = start_child(9);
	int fd = (int)syscall(434 /* pidfd_open */, pid, 0);

	REQUIRE(fd >= 0);
	ring = new_uring(8, 0);
	put_waitid(UAIO_P_PIDFD, fd, WEXITED);
	note_result("submit", uring_submit(&ring));
	close(fd);
	end_child();
	note_in_order("ended", &ring, 1);
	note_info("ended", pid);
	pid = start_child(0);
	fd = (int)syscall(434 /* pidfd_open */, pid, 0);
	REQUIRE(fd >= 0);
	put_waitid(UAIO_P_PIDFD, fd, WSTOPPED | WEXITED);
	note_result("submit", uring_submit(&ring));
	close(fd);
	kill(pid, SIGSTOP);
	note_in_order("stopped", &ring, 1);
	note_info("stopped", pid);
	kill(pid, SIGKILL);
	end_child();
}

static char bytes[8];
static const struct iovec iov = { bytes, sizeof(bytes) };

/*
 * Prepares a read of fd for each way to read, and a no-op that is linked to the last
 * read.
 * Return: how many requests are prepared.
 */
static uint32_t put_reads(int fd)
{
	struct io_uring_sqe *sqe;

	sqe_rw(&ring, IORING_OP_READ, fd, bytes, sizeof(bytes), 0);
	sqe_rw(&ring, IORING_OP_READ, fd, bytes, 0, 0);
	sqe_rw(&ring, IORING_OP_READ, fd, bytes, sizeof(bytes), -1ull);
	sqe_rw(&ring, IORING_OP_READV, fd, &iov, 1, 0);
	sqe = sqe_rw(&ring, IORING_OP_READ, fd, bytes, sizeof(bytes), 0);
	sqe->flags = IOSQE_ASYNC;
	sqe = sqe_rw(&ring, IORING_OP_READ, fd, bytes, sizeof(bytes), 0);
	sqe->flags = IOSQE_IO_LINK;
	sqe_of(&ring, IORING_OP_NOP, -1);
	return 7;
}

/*
 * Tries reads of a file (fd) that can be polled, but neither read nor written. The
 * reads fail only once the file is ready.
 */
static void fails_when_ready(int fd, void (*make_ready)(void))
{
	uint32_t nr;

	ring = new_uring(16, 0);
	sqe_rw(&ring, IORING_OP_READ, fd, bytes, sizeof(bytes), 0)->rw_flags =
		0x8; /* RWF_NOWAIT */
	try_sqe("nowait", &ring);
	nr = put_reads(fd);
	note_result("submit", uring_submit(&ring));
	note("before", uring_settle(&ring));
	make_ready();
	note_cqes("ready", &ring, nr);
	put_reads(fd);
	note_result("submit", uring_submit(&ring));
	note_cqes("later", &ring, nr);
	sqe_rw(&ring, IORING_OP_WRITE, fd, bytes, sizeof(bytes), 0);
	note_result("submit", uring_submit(&ring));
	note("write", uring_settle(&ring));
	sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1)->cancel_flags =
		IORING_ASYNC_CANCEL_ANY;
	note_result("cancel", uring_submit(&ring));
	note_cqes("cancelled", &ring, 2);
	REQUIRE(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	put_reads(fd);
	note_result("submit", uring_submit(&ring));
	note_cqes("nonblock", &ring, nr);
}

static void pidfd_is_read(void)
{
	pid_t pid = start_child(0);
	int fd = (int)syscall(434 /* pidfd_open */, pid, 0);

	REQUIRE(fd >= 0);
	fails_when_ready(fd, end_child);
}

static int counter = -1;

static void signal_event(void)
{
	REQUIRE(eventfd_write(counter, 1) == 0);
}

static void epoll_is_read(void)
{
	struct epoll_event events = { .events = EPOLLIN };
	int epoll = epoll_create1(0);

	counter = eventfd(0, 0);
	REQUIRE(counter >= 0 && epoll >= 0);
	REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, counter, &events) == 0);
	fails_when_ready(epoll, signal_event);
}

static void descriptor_waits_for_nothing(void)
{
	pid_t pid = start_child(9);
	int fd = (int)syscall(434 /* pidfd_open */, pid, O_NONBLOCK);

	REQUIRE(fd >= 0);
	ring = new_uring(8, 0);
	put_waitid(UAIO_P_PIDFD, fd, WEXITED);
	try_sqe("not_yet", &ring);
	note_info("not_yet", 0);
	end_child();
	REQUIRE(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
	put_waitid(UAIO_P_PIDFD, fd, WEXITED);
	try_sqe("ended", &ring);
	note_info("ended", pid);
	close(fd);
}

static void of_this_thread(void)
{
	pid_t pid = start_child(9);

	ring = new_uring(8, 0);
	put_waitid(P_PID, pid, WEXITED | __WNOTHREAD);
	note_result("submit", uring_submit(&ring));
	end_child();
	note_in_order("ended", &ring, 1);
	note_info("ended", pid);
}

static void at_once(void)
{
	pid_t pid = start_child(7);

	ring = new_uring(8, 0);
	put_waitid(P_PID, pid, WEXITED | WNOHANG);
	try_sqe("not_yet", &ring);
	note_info("not_yet", 0);
	end_child();
	REQUIRE(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
	put_waitid(P_PID, pid, WEXITED | WNOWAIT);
	try_sqe("stays", &ring);
	note_info("stays", pid);
	put_waitid(P_PID, pid, WEXITED)->addr2 = 0;
	try_sqe("unasked", &ring);
	put_waitid(P_PID, pid, WEXITED);
	try_sqe("none", &ring);
}

static void killed_and_stopped(void)
{
	pid_t pid = start_child(0);

	ring = new_uring(8, 0);
	put_waitid(P_PID, pid, WSTOPPED | WEXITED);
	note_result("submit", uring_submit(&ring));
	kill(pid, SIGSTOP);
	note_in_order("stopped", &ring, 1);
	note_info("stopped", pid);
	put_waitid(P_PID, pid, WEXITED);
	note_result("submit", uring_submit(&ring));
	kill(pid, SIGKILL);
	note_in_order("killed", &ring, 1);
	note_info("killed", pid);
	end_child();
}

static void mistakes(void)
{
	pid_t pid = start_child(0);

	ring = new_uring(8, 0);
	put_waitid(P_PID, pid, 0);
	try_sqe("options", &ring);
	put_waitid(9, pid, WEXITED);
	try_sqe("which", &ring);
	put_waitid(P_PID, getpid(), WEXITED);
	try_sqe("no_child", &ring);
	put_waitid(UAIO_P_PIDFD, 0, WEXITED);
	try_sqe("no_pidfd", &ring);
	put_waitid(UAIO_P_PIDFD, 999, WEXITED);
	try_sqe("no_descriptor", &ring);
	put_waitid(P_PID, pid, WEXITED)->addr = 1;
	try_sqe("addr", &ring);
	put_waitid(P_PID, pid, WEXITED)->addr3 = 1;
	try_sqe("addr3", &ring);
	put_waitid(P_PID, pid, WEXITED)->rw_flags = 1;
	try_sqe("flags", &ring);
	end_child();
	put_waitid(P_PID, pid, WEXITED)->addr2 = 8;
	note_result("submit", uring_submit(&ring));
	note_in_order("nowhere", &ring, 1);
	note("left", waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG));
}

static void cancelled(void)
{
	struct __kernel_timespec soon = SPAN_SOON;
	pid_t pid = start_child(8);
	uint64_t data;

	ring = new_uring(8, 0);
	data = put_waitid(P_PID, pid, WEXITED)->user_data;
	note_result("submit", uring_submit(&ring));
	sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1)->addr = data;
	note_result("submit", uring_submit(&ring));
	note_cqes("cancel", &ring, 2);
	data = put_waitid(P_ALL, 0, WEXITED)->user_data;
	note_result("submit", uring_submit(&ring));
	sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1)->addr = data;
	note_result("submit", uring_submit(&ring));
	note_cqes("cancel_all", &ring, 2);
	put_waitid(P_PID, pid, WEXITED)->flags = IOSQE_IO_LINK;
	sqe_rw(&ring, IORING_OP_LINK_TIMEOUT, -1, &soon, 1, 0);
	note_result("submit", uring_submit(&ring));
	note_cqes("timeout", &ring, 2);
	end_child();
	note("left", waitid(P_PID, (id_t)pid, &info, WEXITED));
	note("status", info.si_status);
}

/*
 * Epolls
 */

static struct epoll_event events[4];
static int epoll, ends[2];

static void open_epoll(void)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = 77 };

	ring = new_uring(8, 0);
	memset(events, 0, sizeof(events));
	epoll = epoll_create1(0);
	REQUIRE(epoll >= 0 && pipe(ends) == 0);
	REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
}

static struct io_uring_sqe *put_epoll_wait(int fd, uint32_t nr)
{
	return sqe_rw(&ring, OP_EPOLL_WAIT, fd, events, nr, 0);
}

static void epoll_waits(void)
{
	uint64_t data;

	open_epoll();
	put_epoll_wait(epoll, 4);
	note_result("submit", uring_submit(&ring));
	note("before", uring_settle(&ring));
	REQUIRE(write(ends[1], "x", 1) == 1);
	note_in_order("cqe", &ring, 1);
	note("data", (long)events[0].data.u64);
	note("events", events[0].events);
	put_epoll_wait(epoll, 1);
	try_sqe("at_once", &ring);
	REQUIRE(read(ends[0], events, 1) == 1);
	data = put_epoll_wait(epoll, 1)->user_data;
	note_result("submit", uring_submit(&ring));
	/*
	 * An EPOLL_WAIT with a mistake fails at once, although an earlier EPOLL_WAIT
	 * still waits.
	 */
	put_epoll_wait(epoll, 0);
	try_sqe("none", &ring);
	put_epoll_wait(epoll, UINT32_MAX);
	try_sqe("negative", &ring);
	sqe_of(&ring, IORING_OP_ASYNC_CANCEL, -1)->addr = data;
	note_result("submit", uring_submit(&ring));
	note_cqes("cancel", &ring, 2);
}

static void epoll_mistakes(void)
{
	open_epoll();
	/* Try the request with and without pending events. */
	for (int nr_written = 0; nr_written < 2; nr_written++) {
		put_epoll_wait(epoll, 0);
		try_sqe("none", &ring);
		put_epoll_wait(epoll, UINT32_MAX);
		try_sqe("negative", &ring);
		if (nr_written == 0)
			REQUIRE(write(ends[1], "x", 1) == 1);
	}
	put_epoll_wait(ends[0], 1);
	try_sqe("pipe", &ring);
	put_epoll_wait(-1, 1);
	try_sqe("no_file", &ring);
	put_epoll_wait(epoll, 1)->off = 1;
	try_sqe("off", &ring);
	put_epoll_wait(epoll, 1)->rw_flags = 1;
	try_sqe("flags", &ring);
	put_epoll_wait(epoll, 1)->addr = 8;
	try_sqe("nowhere", &ring);
	REQUIRE(uring_register(ring.fd, IORING_REGISTER_FILES, &epoll, 1) == 0);
	put_epoll_wait(0, 1)->flags = IOSQE_FIXED_FILE;
	try_sqe("fixed", &ring);
	put_epoll_wait(epoll, 1)->flags = IOSQE_ASYNC;
	note_result("submit", uring_submit(&ring));
	note_in_order("async", &ring, 1);
}

const struct row rows_uring_waitid[] = {
	ROW("children: each way to name them", each_way),
	ROW("children: a descriptor that is closed meanwhile",
	    descriptor_is_closed),
	ROW("children: a descriptor that is O_NONBLOCK",
	    descriptor_waits_for_nothing),
	ROW("children: of the thread that waits", of_this_thread),
	ROW("children: what is so already", at_once),
	ROW("children: one that is stopped, and killed", killed_and_stopped),
	ROW("children: mistakes", mistakes),
	ROW("children: a wait that is cancelled", cancelled),
	ROW("epolls: a wait", epoll_waits),
	ROW("epolls: mistakes", epoll_mistakes),
	ROW("a read of a pidfd fails when the process has ended",
	    pidfd_is_read),
	ROW("a read of an epoll fails when it has events", epoll_is_read),
	NO_ROW,
};
