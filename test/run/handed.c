/* SPDX-License-Identifier: MIT */
/*
 * handed CASE: uses memory that was initialised only by a request. The program is built
 * with MemorySanitizer, which does not see what a request writes. So uaio check must
 * tell the sanitizer that the memory is initialised.
 *
 * CASE says which memory the program uses:
 * rings     a struct io_uring, and the memory of completions
 * events    events and data of kernel AIO, whose calls are made by syscall(2)
 * provided  provided buffers
 * message   bytes, control data and header of a message that RECVMSG receives
 * chosen    like message, but RECVMSG puts the bytes into a provided buffer
 * peer      the address of an accepted connection
 * function  the argument of a function that POSIX AIO calls
 * behind    a mistake: the program uses the byte after the bytes that were received into a
 *           provided buffer
 */
#define _GNU_SOURCE
#undef NDEBUG
#include <aio.h>
#include <assert.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <netinet/in.h>
#include <sanitizer/msan_interface.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BYTES = 64, GROUP = 7, NR = 4, ROUNDS = 20 };

static const char text[] = "hello";
static struct io_uring *ring;
static int ends[2]; /* a socket pair */

static struct io_uring_cqe wait_for(void)
{
	struct io_uring_cqe *cqe, ret;

	assert(io_uring_submit_and_wait(ring, 1) >= 0);
	assert(io_uring_wait_cqe(ring, &cqe) == 0);
	ret = *cqe;
	io_uring_cqe_seen(ring, cqe);
	return ret;
}

static void rings(void)
{
	struct io_uring_cqe *cqes[NR];

	for (uintptr_t i = 0; i < NR; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

		io_uring_prep_nop(sqe);
		io_uring_sqe_set_data64(sqe, i + 1);
	}
	assert(io_uring_submit_and_wait(ring, NR) == NR);
	assert(io_uring_peek_batch_cqe(ring, cqes, NR) == NR);
	for (unsigned i = 0; i < NR; i++)
		assert(cqes[i]->user_data == i + 1);
	io_uring_cq_advance(ring, NR);
}

static void events(void)
{
	char *at = malloc(BYTES);
	struct io_event *all = malloc(NR * sizeof(*all));
	aio_context_t context = 0;
	struct iocb iocb = { .aio_data = 5,
			     .aio_lio_opcode = IOCB_CMD_PREAD,
			     .aio_fildes = (unsigned)ends[0],
			     .aio_buf = (uintptr_t)at,
			     .aio_nbytes = BYTES };
	struct iocb *iocbs[] = { &iocb };

	assert(syscall(SYS_io_setup, NR, &context) == 0);
	/*
	 * The sanitizer may still take the ring's memory for uninitialised, after other
	 * memory at the same address. memcpy() copies this state to the events.
	 */
	__msan_poison((void *)context, NR * sizeof(*all));
	assert(syscall(SYS_io_submit, context, 1L, iocbs) == 1);
	assert(syscall(SYS_io_getevents, context, 1L, (long)NR, all, NULL) ==
	       1);
	assert(all[0].data == 5 && all[0].res == sizeof(text));
	assert(strcmp(at, text) == 0);
	assert(syscall(SYS_io_destroy, context) == 0);
	free(all);
	free(at);
}

static char *new_provided(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	char *at = malloc(BYTES);

	io_uring_prep_provide_buffers(sqe, at, BYTES, 1, GROUP, 0);
	assert(wait_for().res >= 0);
	return at;
}

static void select_buffer(struct io_uring_sqe *sqe)
{
	struct io_uring_cqe cqe;

	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	cqe = wait_for();
	assert(cqe.res == sizeof(text) && cqe.flags & IORING_CQE_F_BUFFER);
}

static char *receive_provided(void)
{
	struct io_uring_sqe *sqe;
	char *at = new_provided();

	sqe = io_uring_get_sqe(ring);
	io_uring_prep_recv(sqe, ends[0], NULL, BYTES, 0);
	select_buffer(sqe);
	return at;
}

static void provided(void)
{
	char *at = receive_provided();

	assert(strcmp(at, text) == 0);
	free(at);
}

static void behind(void)
{
	char *at = receive_provided();

	assert(at[sizeof(text)] == at[0]);
}

/* Return: the header of a message with room for the credentials of its sender. */
static struct msghdr *new_message(struct iovec *iov)
{
	struct msghdr *message = malloc(sizeof(*message));

	memset(message, 0, sizeof(*message));
	message->msg_iov = iov;
	message->msg_iovlen = 1;
	message->msg_control = malloc(BYTES);
	message->msg_controllen = BYTES;
	return message;
}

static void look_at_control(struct msghdr *message)
{
	struct cmsghdr *control = CMSG_FIRSTHDR(message);
	struct ucred from;

	assert(control && control->cmsg_type == SCM_CREDENTIALS);
	memcpy(&from, CMSG_DATA(control), sizeof(from));
	assert(from.pid == getpid());
	free(message->msg_control);
	free(message);
}

static void message(void)
{
	struct iovec iov = { malloc(BYTES), BYTES };
	struct msghdr *message = new_message(&iov);

	io_uring_prep_recvmsg(io_uring_get_sqe(ring), ends[0], message, 0);
	assert(wait_for().res == sizeof(text));
	assert(strcmp(iov.iov_base, text) == 0);
	look_at_control(message);
	free(iov.iov_base);
}

static void chosen(void)
{
	struct iovec iov = { NULL, BYTES };
	struct msghdr *message = new_message(&iov);
	char *at = new_provided();
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_recvmsg(sqe, ends[0], message, 0);
	select_buffer(sqe);
	assert(strcmp(at, text) == 0);
	look_at_control(message);
	free(at);
}

static void peer(void)
{
	struct sockaddr_in own = { .sin_family = AF_INET }, other;
	socklen_t own_bytes = sizeof(own), bytes = sizeof(other);
	int listens = socket(AF_INET, SOCK_STREAM, 0);
	int connects = socket(AF_INET, SOCK_STREAM, 0);
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	int accepted;

	own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert(bind(listens, (void *)&own, sizeof(own)) == 0 &&
	       listen(listens, 1) == 0 &&
	       getsockname(listens, (void *)&own, &own_bytes) == 0 &&
	       connect(connects, (void *)&own, sizeof(own)) == 0);
	io_uring_prep_accept(sqe, listens, (void *)&other, &bytes, 0);
	accepted = wait_for().res;
	assert(accepted >= 0 && other.sin_addr.s_addr == own.sin_addr.s_addr);
	close(accepted);
	close(connects);
	close(listens);
}

static sem_t called;
static volatile int hidden;

/*
 * MemorySanitizer records which arguments of a call are uninitialised, and keeps this
 * record until a later call. So make a call that leaves a record of an uninitialised
 * argument.
 */
static __attribute__((noinline)) void leave_argument(int value)
{
	hidden = value;
}

static void notified(union sigval value)
{
	volatile int garbage[2];

	assert(value.sival_int == NR);
	sem_post(&called);
	leave_argument(garbage[1]);
}

static void function(void)
{
	assert(sem_init(&called, 0, 0) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct aiocb aiocb = { .aio_fildes = ends[1],
				       .aio_buf = (void *)(uintptr_t)text,
				       .aio_nbytes = sizeof(text) };

		aiocb.aio_sigevent.sigev_notify = SIGEV_THREAD;
		aiocb.aio_sigevent.sigev_value.sival_int = NR;
		aiocb.aio_sigevent.sigev_notify_function = notified;
		assert(aio_write(&aiocb) == 0 && sem_wait(&called) == 0 &&
		       aio_error(&aiocb) == 0 &&
		       aio_return(&aiocb) == sizeof(text));
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "rings", rings },       { "events", events },
		{ "provided", provided }, { "message", message },
		{ "chosen", chosen },     { "peer", peer },
		{ "function", function }, { "behind", behind },
	};

	const int on = 1;

	ring = malloc(sizeof(*ring));
	assert(argc == 2 && io_uring_queue_init(NR, ring, 0) == 0 &&
	       socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0 &&
	       setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ==
		       0 &&
	       send(ends[1], text, sizeof(text), 0) == sizeof(text));
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(cases[i].name, argv[1])) {
			cases[i].run();
			io_uring_queue_exit(ring);
			return 0;
		}
	return 2;
}
