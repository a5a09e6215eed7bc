/* SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "descriptors.h"
#include "uring-ops.h"

enum { FILE_BYTES = 8192, BUF_BYTES = 65536, PIPE_BYTES = 100 };

/*
 * The buffer of all requests: one page, followed by an inaccessible page. So a request
 * whose length is too large reaches inaccessible memory.
 */
static char *buf;
static struct iovec vectors[2];
static struct __kernel_timespec soon;
static struct open_how how;
static struct epoll_event event;
static struct statx status;
static unsigned int nr_names;

void prepare_uring_ops(void)
{
	buf = pages_of(BUF_BYTES, PROT_READ | PROT_WRITE);
	memset(buf, 'b', BUF_BYTES);
	vectors[0] = (struct iovec){ buf, 512 };
	vectors[1] = (struct iovec){ buf + 512, 512 };
	soon = SPAN_SOON;
	how = (struct open_how){ .flags = O_RDONLY };
	event = (struct epoll_event){ .events = EPOLLIN };
	close(file_of("old", FILE_BYTES, O_RDWR));
	REQUIRE(setxattr("old", "user.x", "value", 5, 0) == 0);
}

void register_op_buffer(const struct uring *ring)
{
	struct iovec all = { buf, BUF_BYTES };

	REQUIRE(uring_register(ring->fd, IORING_REGISTER_BUFFERS, &all, 1) ==
		0);
}

static const void *new_name(void)
{
	static char name[32];

	snprintf(name, sizeof(name), "new%u", nr_names++);
	return name;
}

static const void *name_to_unlink(void)
{
	const char *name = new_name();

	close(open(name, O_CREAT | O_RDWR, 0600));
	return name;
}

/*
 * Functions that open the file of an operation
 */

static int open_file(void)
{
	int fd = open("old", O_RDWR);

	REQUIRE(fd >= 0 && ftruncate(fd, FILE_BYTES) == 0);
	return fd;
}

static int open_here(void)
{
	return AT_FDCWD;
}

static int open_epoll(void)
{
	return epoll_create1(0);
}

static int reader(void)
{
	return open_pipe_reader_of(buf, PIPE_BYTES);
}

/*
 * Functions that fill in the SQE of an operation
 */

static void fill_nothing(struct io_uring_sqe *sqe)
{
	(void)sqe;
}

static void fill_buf(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t)buf;
	sqe->len = 1024;
}

static void fill_vectors(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t)vectors;
	sqe->len = 2;
}

static void fill_fallocate(struct io_uring_sqe *sqe)
{
	sqe->addr = 4096;
}

static void fill_length(struct io_uring_sqe *sqe)
{
	sqe->len = 4096;
}

static void fill_ftruncate(struct io_uring_sqe *sqe)
{
	sqe->off = 4096;
}

static void fill_openat(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t) "old";
}

static void fill_openat2(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t) "old";
	sqe->off = (uintptr_t)&how;
	sqe->len = sizeof(how);
}

static void fill_statx(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t) "old";
	sqe->off = (uintptr_t)&status;
	sqe->len = STATX_SIZE;
}

static void fill_renameat(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t)strdup(name_to_unlink());
	sqe->len = (uint32_t)AT_FDCWD;
	sqe->off = (uintptr_t)new_name();
}

static void fill_unlinkat(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t)name_to_unlink();
}

static void fill_mkdirat(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t)new_name();
	sqe->len = 0700;
}

static void fill_symlinkat(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t) "old";
	sqe->off = (uintptr_t)new_name();
}

static void fill_linkat(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t) "old";
	sqe->len = (uint32_t)AT_FDCWD;
	sqe->off = (uintptr_t)new_name();
}

static void fill_fsetxattr(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t) "user.x";
	sqe->off = (uintptr_t) "value";
	sqe->len = 5;
}

static void fill_setxattr(struct io_uring_sqe *sqe)
{
	fill_fsetxattr(sqe);
	sqe->addr3 = (uintptr_t) "old";
}

static void fill_fgetxattr(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t) "user.x";
	sqe->off = (uintptr_t)buf;
	sqe->len = 64;
}

static void fill_getxattr(struct io_uring_sqe *sqe)
{
	fill_fgetxattr(sqe);
	sqe->addr3 = (uintptr_t) "old";
}

static void fill_splice(struct io_uring_sqe *sqe)
{
	sqe->splice_fd_in = reader();
	sqe->splice_off_in = (uint64_t)-1;
	sqe->off = (uint64_t)-1;
	sqe->len = 10;
}

static void fill_tee(struct io_uring_sqe *sqe)
{
	sqe->splice_fd_in = reader();
	sqe->len = 10;
}

static void fill_epoll_ctl(struct io_uring_sqe *sqe)
{
	sqe->len = EPOLL_CTL_ADD;
	sqe->off = (uint64_t)reader();
	sqe->addr = (uintptr_t)&event;
}

static int open_ring(void)
{
	struct io_uring_params params = { 0 };

	return (int)uring_setup(4, &params);
}

static void fill_pipe(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t)buf;
}

static void fill_message(struct io_uring_sqe *sqe)
{
	sqe->off = 5;
	sqe->len = 7;
}

static void fill_poll_add(struct io_uring_sqe *sqe)
{
	sqe->poll32_events = POLLIN | POLLOUT;
}

static void fill_timeout(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t)&soon;
	sqe->len = 1;
}

/* No request has this user_data, so a valid cancel request fails with ENOENT. */
static void fill_target(struct io_uring_sqe *sqe)
{
	sqe->addr = 0xdead;
}

static void fill_alone(struct io_uring_sqe *sqe)
{
	sqe->fd = -1;
	fill_target(sqe);
}

/*
 * Operations on sockets
 */

enum { NR_MESSAGES = 4 };

static struct sockaddr_in address;
static socklen_t address_len;
static struct sockaddr_un own_address;
static struct msghdr message;
static int one = 1;

static int connected(void)
{
	int fds[2], i;

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	for (i = 0; i < NR_MESSAGES; i++)
		REQUIRE(send(fds[1], buf, 1024, 0) == 1024);
	return fds[0];
}

/* Return: a listening TCP socket. Its address is in `address`. */
static int listener(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	address = (struct sockaddr_in){ .sin_family = AF_INET };
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	REQUIRE(fd >= 0);
	REQUIRE(bind(fd, (void *)&address, sizeof(address)) == 0);
	address_len = sizeof(address);
	REQUIRE(getsockname(fd, (void *)&address, &address_len) == 0);
	REQUIRE(listen(fd, 16) == 0);
	return fd;
}

static int unconnected(void)
{
	int fd;

	(void)listener();
	fd = socket(AF_INET, SOCK_STREAM, 0);
	REQUIRE(fd >= 0);
	return fd;
}

static int connected_by_tcp(void)
{
	int fd = unconnected();

	REQUIRE(connect(fd, (void *)&address, sizeof(address)) == 0);
	return fd;
}

static int called(void)
{
	int fd = listener(), other = socket(AF_INET, SOCK_STREAM, 0);

	REQUIRE(connect(other, (void *)&address, sizeof(address)) == 0);
	return fd;
}

static int unbound(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	REQUIRE(fd >= 0);
	return fd;
}

static int bound(void)
{
	int fd = unbound();
	sa_family_t family = AF_UNIX;

	REQUIRE(bind(fd, (void *)&family, sizeof(family)) == 0);
	return fd;
}

static void fill_header(struct io_uring_sqe *sqe)
{
	message = (struct msghdr){ .msg_iov = vectors, .msg_iovlen = 2 };
	sqe->addr = (uintptr_t)&message;
	sqe->len = 1;
}

static void fill_connect(struct io_uring_sqe *sqe)
{
	sqe->addr = (uintptr_t)&address;
	sqe->off = sizeof(address);
}

static void fill_accept(struct io_uring_sqe *sqe)
{
	address_len = sizeof(address);
	sqe->addr = (uintptr_t)&address;
	sqe->off = (uintptr_t)&address_len;
}

static void fill_shutdown(struct io_uring_sqe *sqe)
{
	sqe->len = SHUT_WR;
}

static void fill_socket(struct io_uring_sqe *sqe)
{
	sqe->fd = AF_UNIX;
	sqe->off = SOCK_STREAM;
}

/* Bind without a name: the kernel chooses one. */
static void fill_bind(struct io_uring_sqe *sqe)
{
	own_address.sun_family = AF_UNIX;
	sqe->addr = (uintptr_t)&own_address;
	sqe->off = sizeof(own_address.sun_family);
}

static void fill_listen(struct io_uring_sqe *sqe)
{
	sqe->len = 16;
}

static void fill_setsockopt(struct io_uring_sqe *sqe)
{
	sqe->off = 3; /* SOCKET_URING_OP_SETSOCKOPT */
	sqe->addr = SOL_SOCKET | (uint64_t)SO_KEEPALIVE << 32;
	sqe->file_index = sizeof(one);
	sqe->addr3 = (uintptr_t)&one;
}

#define OP(opcode) #opcode, IORING_OP_##opcode
#define NO_FILE .takes_any_file = false
#define ANY_FILE .takes_any_file = true
#define OFFSET .takes_any_file = true, .has_offset = true

const struct uring_op uring_ops[] = {
	{ OP(NOP), NULL, fill_nothing, NO_FILE },
	{ OP(READ), open_file, fill_buf, OFFSET },
	{ OP(READV), open_file, fill_vectors, OFFSET },
	{ OP(READ_FIXED), open_file, fill_buf, OFFSET },
	{ OP(WRITE), open_file, fill_buf, OFFSET },
	{ OP(WRITEV), open_file, fill_vectors, OFFSET },
	{ OP(WRITE_FIXED), open_file, fill_buf, OFFSET },
	{ OP(FSYNC), open_file, fill_nothing, ANY_FILE },
	{ OP(FALLOCATE), open_file, fill_fallocate, ANY_FILE },
	{ OP(FADVISE), open_file, fill_length, ANY_FILE },
	{ OP(MADVISE), NULL, fill_buf, NO_FILE },
	{ OP(SYNC_FILE_RANGE), open_file, fill_length, ANY_FILE },
	{ "FTRUNCATE", OP_FTRUNCATE, open_file, fill_ftruncate, ANY_FILE },
	{ OP(OPENAT), open_here, fill_openat, ANY_FILE },
	{ OP(OPENAT2), open_here, fill_openat2, ANY_FILE },
	{ OP(CLOSE), open_file, fill_nothing, ANY_FILE },
	{ OP(STATX), open_here, fill_statx, ANY_FILE },
	{ OP(RENAMEAT), open_here, fill_renameat, NO_FILE },
	{ OP(UNLINKAT), open_here, fill_unlinkat, NO_FILE },
	{ OP(MKDIRAT), open_here, fill_mkdirat, NO_FILE },
	{ OP(SYMLINKAT), open_here, fill_symlinkat, NO_FILE },
	{ OP(LINKAT), open_here, fill_linkat, NO_FILE },
	{ OP(FSETXATTR), open_file, fill_fsetxattr, ANY_FILE },
	{ OP(SETXATTR), NULL, fill_setxattr, NO_FILE },
	{ OP(FGETXATTR), open_file, fill_fgetxattr, ANY_FILE },
	{ OP(GETXATTR), NULL, fill_getxattr, NO_FILE },
	{ OP(SPLICE), open_pipe_writer, fill_splice, ANY_FILE },
	{ OP(TEE), open_pipe_writer, fill_tee, ANY_FILE },
	{ OP(EPOLL_CTL), open_epoll, fill_epoll_ctl, ANY_FILE },
	{ OP(POLL_ADD), reader, fill_poll_add, ANY_FILE },
	{ OP(POLL_REMOVE), NULL, fill_target, NO_FILE },
	{ OP(TIMEOUT), NULL, fill_timeout, NO_FILE },
	{ OP(TIMEOUT_REMOVE), NULL, fill_target, NO_FILE },
	{ OP(LINK_TIMEOUT), NULL, fill_timeout, NO_FILE },
	{ "PIPE", OP_PIPE, NULL, fill_pipe, NO_FILE },
	{ OP(MSG_RING), open_ring, fill_message, ANY_FILE },
	{ OP(ASYNC_CANCEL), NULL, fill_alone, NO_FILE },
	{ OP(SEND), connected, fill_buf, ANY_FILE },
	{ OP(SENDMSG), connected, fill_header, ANY_FILE },
	{ OP(RECV), connected, fill_buf, ANY_FILE },
	{ OP(RECVMSG), connected, fill_header, ANY_FILE },
	{ OP(SEND_ZC), connected_by_tcp, fill_buf, ANY_FILE },
	{ OP(SENDMSG_ZC), connected_by_tcp, fill_header, ANY_FILE },
	{ OP(ACCEPT), called, fill_accept, ANY_FILE },
	{ OP(CONNECT), unconnected, fill_connect, ANY_FILE },
	{ OP(SHUTDOWN), connected, fill_shutdown, ANY_FILE },
	{ OP(SOCKET), NULL, fill_socket, NO_FILE },
	{ "BIND", OP_BIND, unbound, fill_bind, ANY_FILE },
	{ "LISTEN", OP_LISTEN, bound, fill_listen, ANY_FILE },
	{ OP(URING_CMD), connected, fill_setsockopt, ANY_FILE },
	{ NULL, 0, NULL, NULL, NO_FILE },
};

struct io_uring_sqe uring_op_sqe(const struct uring_op *op)
{
	struct io_uring_sqe sqe = { .opcode = (uint8_t)op->opcode };

	sqe.fd = op->open ? op->open() : 0;
	op->fill(&sqe);
	return sqe;
}

void forget_opened(const struct uring_op *op, struct io_uring_cqe *cqe)
{
	bool opens = op->opcode == IORING_OP_OPENAT ||
		     op->opcode == IORING_OP_OPENAT2 ||
		     op->opcode == IORING_OP_ACCEPT ||
		     op->opcode == IORING_OP_SOCKET;

	if (!opens || cqe->res < 0)
		return;
	close(cqe->res);
	cqe->res = 0;
}
