/* SPDX-License-Identifier: MIT */
/*
 * Fills in a request of any kind, at random
 *
 * First each field gets a random value of its type. Then keep_inside() replaces values
 * that might affect something outside the scenario: paths and addresses of
 * sockets come from a list, memory is in the arena or not accessible, and lengths on a
 * disk are small.
 */
#undef NDEBUG
#include "fuzz.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>

enum {
	OP_READ_MULTISHOT = 49,
	OP_WAITID = 50,
	OP_FUTEX_WAIT = 51,
	OP_FUTEX_WAKE = 52,
	OP_FUTEX_WAITV = 53,
	OP_RECV_ZC = 58,
	OP_EPOLL_WAIT = 59,
	NR_OPS = 66,
	NR_ARGS = 16,
};

/*
 * Memory to which requests point. no_iovs follows iovs, so that a read beyond the
 * vectors finds zeros.
 */
static struct {
	struct iovec iovs[NR_ARGS], no_iovs[1100];
	struct msghdr sends[NR_ARGS], receives[NR_ARGS];
	struct sockaddr_storage names[NR_ARGS];
	struct __kernel_timespec times[4];
	struct epoll_event events[NR_ARGS];
	struct {
		uint64_t flags, mode, resolve;
	} hows[4];
	struct {
		uint64_t val, uaddr;
		uint32_t flags, reserved;
	} futexes[4];
	int32_t fds[NR_ARGS];
	uint32_t value;
} args;

static char *readonly;

static const char *const paths[] = {
	"a", "b", "c", "d", "d/c", "e", "s", ".", "", "a/x", "missing/x",
};
static const char *const attributes[] = { "user.x", "user.y", "user.", "" };

static uint64_t bad_address(void)
{
	const uint64_t bad[] = {
		0,
		0,
		1,
		(uintptr_t)arena - 4096,
		(uintptr_t)arena + ARENA,
		UINT64_C(1) << 63,
		~UINT64_C(0),
		(UINT64_C(1) << 47) - 4096,
	};

	return PICK(bad);
}

uint64_t memory(void)
{
	if (any(12) == 0)
		return bad_address();
	if (any(12) == 0)
		return (uintptr_t)readonly + any(4096);
	if (any(12) == 0) /* memory that reaches over the end of the arena */
		return (uintptr_t)arena + ARENA - any(64);
	return (uintptr_t)arena +
	       (any(2) ? any(ARENA) & ~4095u : any(ARENA - 4096));
}

static uint64_t some_path(void)
{
	return any(20) ? (uintptr_t)PICK(paths) : bad_address();
}

static uint64_t some_attribute(void)
{
	return any(20) ? (uintptr_t)PICK(attributes) : bad_address();
}

uint32_t length(void)
{
	static const uint32_t lengths[] = {
		0,    1,     2,     3,        8,          16,          64,
		100,  512,   1024,  4096,     8192,       65536,       ARENA,
		4095, 65535, ARENA, 1u << 30, 0x7fffffff, 0x80000000u, ~0u,
	};

	return lengths[any(any(3) ? 12 : NR_ELEMENTS(lengths))];
}

static uint64_t offset(void)
{
	static const uint64_t offsets[] = {
		0,     0,    ~UINT64_C(0), ~UINT64_C(0),      1,
		512,   4096, 4000,         1 << 20,           ~UINT64_C(1),
		65536, 7,    1u << 31,     UINT64_C(1) << 63,
	};

	return offsets[any(any(3) ? 9 : NR_ELEMENTS(offsets))];
}

int some_fd(void)
{
	static const int bad[] = {
		-1, -2, AT_FDCWD, 4000, INT32_MAX, INT32_MIN
	};

	if (any(30) == 0)
		return PICK(bad);
	if (any(30) == 0 && !is_alone)
		return world.rings[any(NR_RINGS)].uring.fd;
	return world.fds[any(world.nr_fds)];
}

static int folder(void)
{
	return any(4) ? AT_FDCWD : some_fd();
}

uint64_t some_user_data(void)
{
	uint32_t back = any(16);

	if (back >= world.nr_requests)
		return 0;
	return world.number << 16 | (world.nr_requests - back);
}

static uint32_t few_bits(void)
{
	static const uint32_t odd[] = { ~0u, 0x80000000u, 0xffff };

	switch (any(8)) {
	case 0: return 1u << any(32);
	case 1: return 1u << any(8) | 1u << any(8);
	case 2: return PICK(odd);
	case 3: return any(16);
	default: return any(2);
	}
}

static uint32_t futex_flags(void)
{
	return any(4) ? 2 | 128 : few_bits();
}

const void *arguments(size_t *ret_bytes)
{
	*ret_bytes = sizeof(args) - offsetof(typeof(args), sends);
	return args.sends;
}

const void *vectors(size_t *ret_bytes)
{
	*ret_bytes = offsetof(typeof(args), sends);
	return &args;
}

void make_arguments(void)
{
	struct sockaddr_in loop = { .sin_family = AF_INET };
	socklen_t bytes;

	readonly = arena + ARENA + GAP;
	loop.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (unsigned i = 0; i < NR_ARGS; i++) {
		struct sockaddr_un *local = (void *)&args.names[i];

		args.iovs[i].iov_base = (void *)(uintptr_t)memory();
		args.iovs[i].iov_len = length();
		memset(local, 0, sizeof(*local));
		local->sun_family = AF_UNIX;
		strcpy(local->sun_path, i % 3 ? "s" : "t");
		bytes = sizeof(args.names[i]);
		/*
		 * The address of one of the listening sockets of this scenario,
		 * or port 0 (any).
		 */
		if (i % 2) {
			memset(local, 0, sizeof(*local));
			memcpy(local, &loop, sizeof(loop));
			if (i % 4 == 3)
				getsockname(world.fds[19 + any(2)],
					    (void *)local, &bytes);
		}
		args.sends[i] = (struct msghdr){
			.msg_iov = (void *)&args.iovs[any(12)],
			.msg_iovlen = any(4),
		};
		args.receives[i] = args.sends[i];
		if (any(3) == 0) {
			args.sends[i].msg_name = local;
			args.sends[i].msg_namelen = 110;
			args.receives[i].msg_name = (void *)memory();
			args.receives[i].msg_namelen = any(200);
		}
		if (any(4) == 0) {
			args.receives[i].msg_control = (void *)memory();
			args.receives[i].msg_controllen = any(256);
		}
		args.events[i].events = few_bits();
		args.fds[i] = any(4) ? some_fd() : -1 - (int)any(2);
	}
	args.times[0] = (struct __kernel_timespec){ 0, 0 };
	args.times[1] = (struct __kernel_timespec){ 0, is_alone ? 0 : 100000 };
	args.times[2] = (struct __kernel_timespec){ 1000, 0 };
	args.times[3] = (struct __kernel_timespec){ -1, 5 };
	for (unsigned i = 0; i < 4; i++) {
		args.hows[i].flags = any(2) ? O_RDWR | O_CREAT : few_bits();
		args.hows[i].mode = any(2) ? 0600 : 0;
		args.hows[i].resolve = any(4) ? 0 : few_bits();
		args.futexes[i].uaddr = memory() & ~UINT64_C(3);
		args.futexes[i].flags = futex_flags();
		args.futexes[i].val = any(2);
	}
}

/*
 * Fill each field of the SQE with a random value, mostly of the type that the field has
 * for most operations.
 */
static void fill(struct io_uring_sqe *sqe)
{
	sqe->fd = some_fd();
	sqe->addr = memory();
	sqe->len = length();
	sqe->off = any(3) ? offset() : memory();
	if (any(6) == 0)
		sqe->ioprio = (uint16_t)few_bits();
	if (any(4) == 0)
		sqe->rw_flags = (int)few_bits();
	if (any(8) == 0)
		sqe->splice_fd_in = any(2) ? some_fd() : (int)any(10);
	if (any(24) == 0)
		sqe->personality = (uint16_t)any(3);
	if (any(24) == 0)
		sqe->addr3 = memory();
	if (any(60) == 0)
		sqe->__pad2[0] = few_bits();
	sqe->buf_index = (uint16_t)(any(16) ? any(4) : few_bits());
	if (any(16) == 0)
		sqe->len = any(4);
	if (any(16) == 0)
		sqe->off = any(8);
}

/*
 * Prefer requests that may succeed: IOSQE_CQE_SKIP_SUCCESS only affects such requests
 * and their chains.
 */
static void choose_likely(struct io_uring_sqe *sqe)
{
	static const uint8_t kinds[] = {
		IORING_OP_NOP,          IORING_OP_NOP,  IORING_OP_TIMEOUT,
		IORING_OP_LINK_TIMEOUT, IORING_OP_READ, IORING_OP_WRITE,
		IORING_OP_RECV,         IORING_OP_SEND, IORING_OP_ACCEPT,
		IORING_OP_POLL_ADD,
	};

	if (any(2))
		sqe->opcode = PICK(kinds);
}

static void add_skips(struct io_uring_sqe *sqe)
{
	if (any(3) == 0)
		sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
	/*
	 * After a RECV_ZC with IOSQE_CQE_SKIP_SUCCESS, a kernel that knows RECV_ZC
	 * refuses drains. The library does not know RECV_ZC, ignores its flags, and
	 * would accept the drains. So clear the flag.
	 */
	if (sqe->opcode == OP_RECV_ZC)
		sqe->flags &= (uint8_t)~IOSQE_CQE_SKIP_SUCCESS;
	/* Clear IORING_RW_ATTR_FLAG_PI: the library refuses requests with attributes. */
	sqe->__pad2[0] &= ~UINT64_C(1);
	if (any(3) == 0)
		sqe->flags |=
			(uint8_t)(any(3) ? IOSQE_IO_LINK : IOSQE_IO_HARDLINK);
	/*
	 * If these fields are not 0, most requests are refused. So usually clear them.
	 */
	if (any(4) == 0)
		return;
	sqe->flags &= (uint8_t) ~(IOSQE_BUFFER_SELECT | IOSQE_IO_DRAIN | 128);
	sqe->ioprio = sqe->personality = 0;
	sqe->rw_flags = sqe->splice_fd_in = 0;
	sqe->addr3 = sqe->__pad2[0] = 0;
}

static void fill_flags(struct io_uring_sqe *sqe)
{
	static const uint8_t flags[] = {
		IOSQE_ASYNC,
		IOSQE_ASYNC,
		IOSQE_IO_LINK,
		IOSQE_IO_LINK,
		IOSQE_IO_HARDLINK,
		IOSQE_IO_DRAIN,
		IOSQE_BUFFER_SELECT,
		IOSQE_BUFFER_SELECT,
		IOSQE_FIXED_FILE,
		IOSQE_CQE_SKIP_SUCCESS,
		128,
	};

	while (any(3) == 0)
		sqe->flags |= flags[any(any(8) ? 10 : 11)];
	if (is_alone)
		sqe->flags &= (uint8_t)~IOSQE_CQE_SKIP_SUCCESS;
	if (kind == KIND_SKIP)
		add_skips(sqe);
	if (sqe->flags & IOSQE_FIXED_FILE)
		sqe->fd = any(8) ? (int)(any(5) * 2 + 1) : some_fd();
}

static uint64_t some_vector(uint32_t *ret_nr)
{
	*ret_nr = any(20) ? any(5) : 1 + any(1100);
	if (*ret_nr > 4)
		return (uintptr_t)args.no_iovs;
	return any(20) ? (uintptr_t)&args.iovs[any(12)] : bad_address();
}

static uint64_t some_time(void)
{
	return any(20) ? (uintptr_t)&PICK(args.times) : bad_address();
}

static uint64_t some_name(void)
{
	return any(20) ? (uintptr_t)&PICK(args.names) : bad_address();
}

static int socket_fd(void)
{
	/*
	 * Indices of world.fds, from the first pair of sockets to the last unconnected
	 * socket
	 */
	return any(8) ? world.fds[10 + any(13)] : some_fd();
}

static void inside_messages(struct io_uring_sqe *sqe)
{
	sqe->fd = socket_fd();
	switch (sqe->opcode) {
	case IORING_OP_SENDMSG:
	case IORING_OP_SENDMSG_ZC:
		sqe->addr =
			any(20) ? (uintptr_t)&PICK(args.sends) : bad_address();
		sqe->len = 1;
		break;
	case IORING_OP_RECVMSG:
		sqe->addr = any(20) ? (uintptr_t)&PICK(args.receives)
				    : bad_address();
		sqe->len = 1;
		break;
	case IORING_OP_SEND:
	case IORING_OP_SEND_ZC:
		sqe->addr2 = any(4) ? 0 : some_name();
		sqe->splice_fd_in = sqe->addr2 ? 110 : 0;
		break;
	case IORING_OP_RECV:
		if (any(2))
			sqe->off = 0;
		break;
	case IORING_OP_ACCEPT:
		sqe->fd = any(4) ? world.fds[18 + any(2)] : socket_fd();
		if (any(2))
			sqe->addr = sqe->addr2 = 0;
		sqe->len = any(8) ? 0 : sqe->len;
		break;
	case IORING_OP_CONNECT:
	case IORING_OP_BIND:
		sqe->addr = some_name();
		sqe->addr2 = any(8) ? 110 : any(200);
		if (sqe->opcode == IORING_OP_CONNECT && any(2))
			sqe->addr2 = 16;
		break;
	default: break;
	}
	if (any(2))
		sqe->ioprio = (uint16_t)(any(2) ? 0 : 1u << any(6));
	if (any(4))
		sqe->rw_flags = any(2) ? 0 : MSG_DONTWAIT;
	if (sqe->opcode == IORING_OP_BIND)
		sqe->rw_flags = 0, sqe->len = any(8) ? 0 : 1;
}

static void inside_paths(struct io_uring_sqe *sqe)
{
	static const int flags[] = { O_RDWR | O_CREAT, O_RDONLY, O_DIRECTORY,
				     O_PATH, O_CLOEXEC | O_RDWR };

	sqe->fd = folder();
	sqe->addr = some_path();
	switch (sqe->opcode) {
	case IORING_OP_OPENAT:
		sqe->len = any(2) ? 0600 : any(4096);
		sqe->open_flags =
			(uint32_t)(any(4) ? PICK(flags) : 1 << any(22));
		break;
	case IORING_OP_OPENAT2:
		sqe->len = any(8) ? 24 : any(64);
		sqe->off = (uintptr_t)&args.hows[any(3)];
		break;
	case IORING_OP_STATX: sqe->off = memory(); break;
	case IORING_OP_RENAMEAT:
	case IORING_OP_LINKAT: sqe->len = (uint32_t)folder(); /* fall through */
	case IORING_OP_SYMLINKAT: sqe->addr2 = some_path(); break;
	default: break;
	}
}

static void inside_attributes(struct io_uring_sqe *sqe)
{
	bool by_path = sqe->opcode == IORING_OP_SETXATTR ||
		       sqe->opcode == IORING_OP_GETXATTR;

	sqe->addr = some_attribute();
	sqe->addr2 = memory();
	sqe->addr3 = by_path ? some_path() : 0;
	sqe->len = any(8) ? any(300) : 1u << any(32);
	sqe->rw_flags = (int)(any(4) ? 0 : any(5));
}

static void inside_command(struct io_uring_sqe *sqe)
{
	static const uint32_t names[] = { 2, 3, 4, 8, 9999 };

	sqe->fd = socket_fd();
	sqe->off = any(8) ? any(6) : few_bits();
	/*
	 * In isolated scenarios, replace the kernel's commands that the
	 * library lacks by a command that does not exist. So the kernel and the library
	 * give the same result.
	 */
	if (is_alone && sqe->off > 3)
		sqe->off = 99;
	sqe->addr = any(8) ? 1 : 77;
	sqe->addr |= (uint64_t)PICK(names) << 32;
	sqe->splice_fd_in = (int)any(16);
	sqe->addr3 = memory();
	if (any(8))
		sqe->rw_flags = 0;
}

static void inside_waits(struct io_uring_sqe *sqe)
{
	switch (sqe->opcode) {
	case IORING_OP_TIMEOUT:
	case IORING_OP_LINK_TIMEOUT:
	case IORING_OP_TIMEOUT_REMOVE:
		sqe->addr2 = sqe->off;
		sqe->fd = any(8) ? -1 : sqe->fd;
		sqe->addr = some_time();
		sqe->len = any(8) ? 1 : any(3);
		sqe->off = any(4);
		if (sqe->opcode != IORING_OP_TIMEOUT_REMOVE)
			break;
		sqe->addr = some_user_data();
		sqe->addr2 = some_time();
		sqe->len = any(8) ? 0 : 1;
		break;
	case IORING_OP_POLL_REMOVE:
		sqe->fd = any(8) ? -1 : sqe->fd;
		sqe->addr = some_user_data();
		sqe->off = sqe->addr; /* for an update: the new user_data */
		sqe->len = any(16);
		break;
	case IORING_OP_POLL_ADD:
		sqe->poll32_events = any(4) ? POLLIN << any(3) : few_bits();
		if (any(8))
			sqe->addr = sqe->off = 0;
		sqe->len = any(4) ? any(2) : few_bits();
		break;
	case IORING_OP_ASYNC_CANCEL:
		sqe->addr = some_user_data();
		sqe->cancel_flags = any(4) ? 0 : any(64);
		sqe->off = any(16) ? 0 : 1;
		sqe->len = any(16) ? 0 : any(NR_OPS);
		sqe->buf_index = 0;
		break;
	default: break;
	}
}

/*
 * Let madvise() concern only the arena, which is memory for requests. On other memory
 * it might discard what the program needs.
 */
static void inside_memory(struct io_uring_sqe *sqe)
{
	static const uint32_t advices[] = { 0, 1, 2, 3, 4, 8, 14, 15, 999 };

	sqe->addr = any(8) ? (uintptr_t)arena + any(8) * 4096 + any(2)
			   : UINT64_C(1) << 63;
	sqe->len = any(16) * 1024;
	sqe->off = any(16) ? 0 : any(8192);
	sqe->fadvise_advice = PICK(advices);
}

static void inside_tables(struct io_uring_sqe *sqe)
{
	switch (sqe->opcode) {
	case IORING_OP_FILES_UPDATE:
		sqe->addr =
			any(20) ? (uintptr_t)&args.fds[any(8)] : bad_address();
		sqe->len = any(8);
		sqe->off = any(8) ? any(12) : offset();
		break;
	case IORING_OP_PROVIDE_BUFFERS:
	case IORING_OP_REMOVE_BUFFERS:
		sqe->fd = (int)(any(16) ? any(20) : length());
		sqe->len = any(16) ? any(512) : length();
		sqe->off = any(16) ? any(16) : offset();
		if (sqe->opcode == IORING_OP_REMOVE_BUFFERS && any(8))
			sqe->addr = sqe->off = sqe->len = 0;
		break;
	case IORING_OP_MSG_RING:
		sqe->fd = any(4) && !is_alone
				  ? world.rings[any(NR_RINGS)].uring.fd
				  : some_fd();
		sqe->addr = any(8) ? any(2) : any(4);
		sqe->off |= EXTRA;
		sqe->addr3 = any(10);
		break;
	default: break;
	}
}

static void inside_files(struct io_uring_sqe *sqe, struct request *request)
{
	switch (sqe->opcode) {
	case IORING_OP_FALLOCATE:
		sqe->addr = any(8) ? any(65536) : ~UINT64_C(0);
		sqe->off = any(65536);
		sqe->len = any(4) ? 0 : few_bits();
		break;
	case IORING_OP_FTRUNCATE:
		sqe->off = any(8) ? any(65536) : ~UINT64_C(0);
		if (any(8))
			sqe->addr = sqe->len = 0, sqe->buf_index = 0;
		break;
	case IORING_OP_SPLICE:
	case IORING_OP_TEE:
		sqe->splice_fd_in = some_fd();
		sqe->splice_off_in = any(2) ? ~UINT64_C(0) : any(4096);
		if (sqe->opcode == IORING_OP_TEE && any(8))
			sqe->off = sqe->splice_off_in = 0;
		else
			sqe->off = any(2) ? ~UINT64_C(0) : any(4096);
		sqe->len = any(65536);
		sqe->splice_flags |=
			SPLICE_F_NONBLOCK; /* so that no worker blocks */
		break;
	case IORING_OP_PIPE:
		sqe->addr = any(8) ? (uintptr_t)request->pipe : bad_address();
		sqe->fd = 0;
		sqe->len = 0;
		sqe->off = 0;
		request->makes_fd = sqe->splice_fd_in == 0;
		break;
	case IORING_OP_CLOSE:
		if (!(sqe->flags & IOSQE_FIXED_FILE) && any(4)) {
			request->closes = fcntl(some_fd(), F_DUPFD_CLOEXEC, 3);
			sqe->fd = request->closes;
			sqe->splice_fd_in = any(8) ? 0 : 1;
		} else {
			sqe->fd = any(8) ? 0 : -1;
			sqe->splice_fd_in = (int)(1 + any(10));
		}
		sqe->off = sqe->addr = sqe->len = 0;
		sqe->rw_flags = 0;
		break;
	default: break;
	}
}

static void inside_rest(struct io_uring_sqe *sqe)
{
	uint32_t nr;

	switch (sqe->opcode) {
	case IORING_OP_READV:
	case IORING_OP_WRITEV:
	case IORING_OP_READV_FIXED:
	case IORING_OP_WRITEV_FIXED:
		sqe->addr = some_vector(&nr);
		sqe->len = nr;
		break;
	case IORING_OP_EPOLL_CTL:
		sqe->len = any(8) ? 1 + any(3) : any(8);
		sqe->off = (uint64_t)(int64_t)some_fd();
		sqe->addr =
			any(20) ? (uintptr_t)&PICK(args.events) : bad_address();
		break;
	case IORING_OP_SOCKET: {
		static const int domains[] = { AF_UNIX, AF_INET, AF_INET6, 99 };
		static const int types[] = { SOCK_STREAM,
					     SOCK_DGRAM,
					     SOCK_SEQPACKET,
					     0,
					     SOCK_STREAM | SOCK_CLOEXEC,
					     77 };

		sqe->fd = PICK(domains);
		sqe->off = (uint64_t)PICK(types);
		sqe->len = any(8) ? 0 : 6;
		break;
	}
	case OP_WAITID:
		sqe->len = any(4); /* any idtype; no child exists */
		sqe->fd = (int)any(2);
		sqe->splice_fd_in = any(2) ? 4 : (int)few_bits();
		if (any(8))
			sqe->addr = sqe->addr3 = 0, sqe->rw_flags = 0;
		sqe->buf_index = any(16) ? 0 : sqe->buf_index;
		break;
	case OP_FUTEX_WAITV:
		sqe->addr = (uintptr_t)args.futexes;
		sqe->len = any(5);
		sqe->fd = any(16) ? 0 : sqe->fd;
		sqe->off = any(16) ? 0 : sqe->off;
		sqe->buf_index = any(16) ? 0 : sqe->buf_index;
		break;
	case OP_FUTEX_WAIT:
	case OP_FUTEX_WAKE:
		if (any(16))
			sqe->addr &= ~UINT64_C(3);
		sqe->fd = (int)futex_flags();
		sqe->off = any(8) ? any(2) : offset();
		sqe->addr3 = any(16) ? UINT32_MAX : any(2) ? 0 : ~UINT64_C(0);
		sqe->len = any(16) ? 0 : sqe->len;
		sqe->buf_index = any(16) ? 0 : sqe->buf_index;
		break;
	case OP_EPOLL_WAIT:
		sqe->fd = any(8) ? world.fds[25 + any(2)] : some_fd();
		sqe->len = any(8) ? 1 + any(4) : length();
		sqe->off = any(16) ? 0 : sqe->off;
		sqe->buf_index = any(16) ? 0 : sqe->buf_index;
		break;
	case IORING_OP_NOP:
		if (any(2))
			sqe->rw_flags = 0;
		break;
	default: break;
	}
}

static void keep_inside(struct io_uring_sqe *sqe, struct request *request)
{
	switch (sqe->opcode) {
	case IORING_OP_SENDMSG:
	case IORING_OP_SENDMSG_ZC:
	case IORING_OP_RECVMSG:
	case IORING_OP_SEND:
	case IORING_OP_SEND_ZC:
	case IORING_OP_RECV:
	case IORING_OP_ACCEPT:
	case IORING_OP_CONNECT:
	case IORING_OP_BIND: inside_messages(sqe); break;
	case IORING_OP_OPENAT:
	case IORING_OP_OPENAT2:
	case IORING_OP_STATX:
	case IORING_OP_RENAMEAT:
	case IORING_OP_UNLINKAT:
	case IORING_OP_MKDIRAT:
	case IORING_OP_SYMLINKAT:
	case IORING_OP_LINKAT: inside_paths(sqe); break;
	case IORING_OP_SETXATTR:
	case IORING_OP_GETXATTR:
	case IORING_OP_FSETXATTR:
	case IORING_OP_FGETXATTR: inside_attributes(sqe); break;
	case IORING_OP_URING_CMD: inside_command(sqe); break;
	case IORING_OP_MADVISE: inside_memory(sqe); break;
	default:
		inside_waits(sqe);
		inside_tables(sqe);
		inside_files(sqe, request);
		inside_rest(sqe);
	}
}

/* Return: whether the result may be a new descriptor. */
static bool makes_fd(const struct io_uring_sqe *sqe)
{
	switch (sqe->opcode) {
	case IORING_OP_OPENAT:
	case IORING_OP_OPENAT2:
	case IORING_OP_ACCEPT:
	case IORING_OP_SOCKET: return sqe->file_index == 0;
	case IORING_OP_FIXED_FD_INSTALL: return true;
	default: return false;
	}
}

/*
 * A bug of the kernel: a zero-copy send with a drain, or queued after one, waits for
 * its own notification, and never ends. So a scenario has either drains or
 * zero-copy sends.
 */
static void avoid_drains(struct io_uring_sqe *sqe)
{
	if (world.number % 2)
		sqe->flags &= (uint8_t)~IOSQE_IO_DRAIN;
	else if (sqe->opcode == IORING_OP_SEND_ZC)
		sqe->opcode = IORING_OP_SEND;
	else if (sqe->opcode == IORING_OP_SENDMSG_ZC)
		sqe->opcode = IORING_OP_SENDMSG;
}

/*
 * A read or write of an epoll fails in the library, but waits in the kernel. A request
 * that waits for too long ends the scenario. So make such requests rare.
 */
static void avoid_epolls(struct io_uring_sqe *sqe)
{
	static const uint8_t kinds[] = {
		IORING_OP_READ,        IORING_OP_WRITE,
		IORING_OP_READV,       IORING_OP_WRITEV,
		IORING_OP_READ_FIXED,  IORING_OP_WRITE_FIXED,
		IORING_OP_READV_FIXED, IORING_OP_WRITEV_FIXED,
	};

	for (unsigned i = 0; i < NR_ELEMENTS(kinds); i++)
		if (sqe->opcode == kinds[i] && any(16) &&
		    (sqe->fd == world.fds[25] || sqe->fd == world.fds[26]))
			sqe->fd = world.fds[any(25)];
}

/*
 * A bug of the kernel: a multishot command on a socket never ends, whatever it returns,
 * and cannot be cancelled.
 */
static void avoid_endless(struct io_uring_sqe *sqe)
{
	if (sqe->opcode == IORING_OP_URING_CMD)
		sqe->rw_flags &= ~2; /* IORING_URING_CMD_MULTISHOT */
}

void make_sqe(struct ring *ring, struct io_uring_sqe *sqe,
	      struct request *request)
{
	memset(sqe, 0, sizeof(*sqe));
	memset(request, 0, sizeof(*request));
	request->pipe[0] = request->pipe[1] = request->closes = -1;
	sqe->opcode = (uint8_t)any(NR_OPS);
	if (any(6) == 0)
		sqe->opcode = IORING_OP_READ + (uint8_t)any(2);
	if (kind == KIND_SKIP)
		choose_likely(sqe);
	fill(sqe);
	fill_flags(sqe);
	if (is_alone)
		avoid_drains(sqe);
	keep_inside(sqe, request);
	if (is_alone && !(sqe->flags & IOSQE_FIXED_FILE))
		avoid_epolls(sqe);
	if (is_alone && sqe->flags & IOSQE_BUFFER_SELECT)
		avoid_endless(sqe);
	request->makes_fd |= makes_fd(sqe);
	if (ring->is_lossy && (request->makes_fd || request->closes >= 0)) {
		if (request->closes >= 0)
			close_fd(request->closes);
		request->closes = -1;
		request->makes_fd = false;
		sqe->opcode = IORING_OP_NOP;
	}
	if (request->makes_fd || request->closes >= 0)
		sqe->flags &= (uint8_t)~IOSQE_CQE_SKIP_SUCCESS;
	request->opcode = sqe->opcode;
	request->flags = sqe->flags;
	request->is_silent = sqe->flags & IOSQE_CQE_SKIP_SUCCESS;
}

void *some_table(bool is_file)
{
	return is_file ? (void *)args.fds : (void *)args.iovs;
}
