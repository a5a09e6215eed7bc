/* SPDX-License-Identifier: MIT */
/*
 * The kinds of files on which a call can block. Each file is blocking, and not ready to
 * be read at first. Its buffers are small and of a fixed size, so that the same number
 * of bytes fits in every run.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pty.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <termios.h>
#include <unistd.h>

#include "conform.h"
#include "stream-kinds.h"

enum { SOCKET_BYTES = 16384 };

void take_ends(int reader, int writer, bool is_writer, struct ends *ret_ends)
{
	ret_ends->own = is_writer ? writer : reader;
	ret_ends->peer = is_writer ? reader : writer;
}

static void open_pipe(bool is_writer, struct ends *ret_ends)
{
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	take_ends(fds[0], fds[1], is_writer, ret_ends);
}

/*
 * Opens a pipe from which data was spliced. A splice clears FMODE_NOWAIT of the pipe's
 * end, so RWF_NOWAIT then fails on that end.
 */
static void open_pipe_spliced(bool is_writer, struct ends *ret_ends)
{
	char byte = 0;
	struct iovec piece = { &byte, 1 };
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	REQUIRE(vmsplice(fds[1], &piece, 1, 0) == 1);
	REQUIRE(vmsplice(fds[0], &piece, 1, 0) == 1);
	take_ends(fds[0], fds[1], is_writer, ret_ends);
}

static void open_fifo(bool is_writer, struct ends *ret_ends)
{
	int reader, writer;

	REQUIRE(mkfifo("fifo", 0600) == 0);
	reader = open("fifo", O_RDONLY | O_NONBLOCK);
	writer = open("fifo", O_WRONLY);
	REQUIRE(reader >= 0 && writer >= 0);
	REQUIRE(fcntl(reader, F_SETFL, 0) == 0);
	take_ends(reader, writer, is_writer, ret_ends);
}

static void open_fifo_both(bool is_writer, struct ends *ret_ends)
{
	(void)is_writer;
	REQUIRE(mkfifo("fifo", 0600) == 0);
	ret_ends->own = open("fifo", O_RDWR);
	ret_ends->peer = dup(ret_ends->own);
	REQUIRE(ret_ends->own >= 0 && ret_ends->peer >= 0);
}

void limit_buffers(int fd)
{
	const int bytes = SOCKET_BYTES;

	REQUIRE(!setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)));
	REQUIRE(!setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)));
}

static void open_pair(int type, struct ends *ret_ends)
{
	int fds[2];

	REQUIRE(socketpair(AF_UNIX, type, 0, fds) == 0);
	limit_buffers(fds[0]);
	limit_buffers(fds[1]);
	take_ends(fds[0], fds[1], false, ret_ends);
}

static void open_unix_stream(bool is_writer, struct ends *ret_ends)
{
	(void)is_writer;
	open_pair(SOCK_STREAM, ret_ends);
}

static void open_unix_dgram(bool is_writer, struct ends *ret_ends)
{
	(void)is_writer;
	open_pair(SOCK_DGRAM, ret_ends);
}

static void open_unix_seqpacket(bool is_writer, struct ends *ret_ends)
{
	(void)is_writer;
	open_pair(SOCK_SEQPACKET, ret_ends);
}

/* Return: a socket at a free port of the loopback address. */
static int bound_socket(int type, struct sockaddr_in *ret_address)
{
	socklen_t size = sizeof(*ret_address);
	int fd = socket(AF_INET, type, 0);

	*ret_address = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	REQUIRE(fd >= 0);
	limit_buffers(fd);
	REQUIRE(!bind(fd, (struct sockaddr *)ret_address, size));
	REQUIRE(!getsockname(fd, (struct sockaddr *)ret_address, &size));
	return fd;
}

static void connect_to(int fd, const struct sockaddr_in *address)
{
	REQUIRE(!connect(fd, (const struct sockaddr *)address,
			 sizeof(*address)));
}

static void open_tcp(bool is_writer, struct ends *ret_ends)
{
	struct sockaddr_in address;
	int listener = bound_socket(SOCK_STREAM, &address);

	(void)is_writer;
	REQUIRE(listen(listener, 1) == 0);
	ret_ends->own = socket(AF_INET, SOCK_STREAM, 0);
	limit_buffers(ret_ends->own);
	connect_to(ret_ends->own, &address);
	ret_ends->peer = accept(listener, NULL, NULL);
	REQUIRE(ret_ends->peer >= 0);
	close(listener);
}

/* Opens a listening socket, and a second socket that connect_peer() connects to it. */
static void open_listener(bool is_writer, struct ends *ret_ends)
{
	struct sockaddr_in address;

	(void)is_writer;
	ret_ends->own = bound_socket(SOCK_STREAM, &address);
	REQUIRE(listen(ret_ends->own, 1) == 0);
	ret_ends->peer = socket(AF_INET, SOCK_STREAM, 0);
	REQUIRE(ret_ends->peer >= 0);
}

static void connect_peer(const struct ends *ends, size_t nr)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);

	(void)nr;
	REQUIRE(!getsockname(ends->own, (struct sockaddr *)&address, &size));
	connect_to(ends->peer, &address);
}

static void open_udp(bool is_writer, struct ends *ret_ends)
{
	struct sockaddr_in own, peer;

	(void)is_writer;
	ret_ends->own = bound_socket(SOCK_DGRAM, &own);
	ret_ends->peer = bound_socket(SOCK_DGRAM, &peer);
	connect_to(ret_ends->own, &peer);
	connect_to(ret_ends->peer, &own);
}

void open_alone(int fd, struct ends *ret_ends)
{
	REQUIRE(fd >= 0);
	ret_ends->own = fd;
	ret_ends->peer = dup(fd);
}

static void open_eventfd(bool is_writer, struct ends *ret_ends)
{
	(void)is_writer;
	open_alone(eventfd(0, 0), ret_ends);
}

static void open_semaphore(bool is_writer, struct ends *ret_ends)
{
	(void)is_writer;
	open_alone(eventfd(0, EFD_SEMAPHORE), ret_ends);
}

static void add_to_eventfd(const struct ends *ends, size_t nr)
{
	REQUIRE(eventfd_write(ends->peer, nr) == 0);
}

static void open_timerfd(bool is_writer, struct ends *ret_ends)
{
	(void)is_writer;
	open_alone(timerfd_create(CLOCK_MONOTONIC, 0), ret_ends);
}

static void start_timer(const struct ends *ends, size_t ms)
{
	const struct itimerspec once = {
		.it_value.tv_sec = (time_t)ms / 1000,
		.it_value.tv_nsec = (long)(ms % 1000) * MS,
	};

	REQUIRE(timerfd_settime(ends->peer, 0, &once, NULL) == 0);
}

static void open_signalfd(bool is_writer, struct ends *ret_ends)
{
	sigset_t set;

	(void)is_writer;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	REQUIRE(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
	open_alone(signalfd(-1, &set, 0), ret_ends);
}

static void send_signal(const struct ends *ends, size_t nr)
{
	(void)ends;
	while (nr--)
		REQUIRE(kill(getpid(), SIGUSR1) == 0);
}

static void open_inotify(bool is_writer, struct ends *ret_ends)
{
	(void)is_writer;
	open_alone(inotify_init(), ret_ends);
	REQUIRE(inotify_add_watch(ret_ends->own, ".", IN_CREATE) >= 0);
}

static void create_file(const struct ends *ends, size_t nr)
{
	(void)ends;
	(void)nr;
	close(file_of("created", 0, O_RDONLY));
	REQUIRE(unlink("created") == 0);
}

void open_pty(bool is_master, struct ends *ret_ends)
{
	struct termios raw;
	int master, slave;

	REQUIRE(openpty(&master, &slave, NULL, NULL, NULL) == 0);
	REQUIRE(tcgetattr(slave, &raw) == 0);
	cfmakeraw(&raw);
	REQUIRE(tcsetattr(slave, TCSANOW, &raw) == 0);
	take_ends(master, slave, !is_master, ret_ends);
}

static void open_pty_master(bool is_writer, struct ends *ret_ends)
{
	(void)is_writer;
	open_pty(true, ret_ends);
}

static void open_pty_slave(bool is_writer, struct ends *ret_ends)
{
	(void)is_writer;
	open_pty(false, ret_ends);
}

static const struct stream_kind usual_kinds[] = {
	{ PIPE, "a pipe", open_pipe, NULL },
	{ PIPE_SPLICED, "a pipe spliced from", open_pipe_spliced, NULL },
	{ FIFO, "a FIFO", open_fifo, NULL },
	{ FIFO_BOTH, "a FIFO open for both", open_fifo_both, NULL },
	{ UNIX_STREAM, "a stream socket", open_unix_stream, NULL },
	{ UNIX_DGRAM, "a datagram socket", open_unix_dgram, NULL },
	{ UNIX_SEQPACKET, "a seqpacket socket", open_unix_seqpacket, NULL },
	{ TCP, "a TCP socket", open_tcp, NULL },
	{ UDP, "a UDP socket", open_udp, NULL },
	{ LISTENER, "a listening socket", open_listener, connect_peer },
	{ EVENTFD, "an eventfd", open_eventfd, add_to_eventfd },
	{ SEMAPHORE, "a semaphore eventfd", open_semaphore, add_to_eventfd },
	{ TIMERFD, "a timerfd", open_timerfd, start_timer },
	{ SIGNALFD, "a signalfd", open_signalfd, send_signal },
	{ INOTIFY, "an inotify", open_inotify, create_file },
	{ PTY_MASTER, "a terminal's master", open_pty_master, NULL },
	{ PTY_SLAVE, "a terminal", open_pty_slave, NULL },
};

enum { NR_USUAL = sizeof(usual_kinds) / sizeof(usual_kinds[0]) };

/* Return: the kind of file after this one; the rare kinds follow the usual ones. */
static const struct stream_kind *after(const struct stream_kind *kind)
{
	kind = kind ? kind + 1 : usual_kinds;
	if (kind == usual_kinds + NR_USUAL)
		kind = rare_kinds;
	return kind;
}

const struct stream_kind *next_kind(const struct stream_kind *kind,
				    unsigned kinds)
{
	do
		kind = after(kind);
	while (kind->name && !(kinds & kind->bit));
	return kind->name ? kind : NULL;
}
