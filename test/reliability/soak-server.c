/* SPDX-License-Identifier: MIT */
/* soak's serving process (soak.h) */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "soak.h"
#include "uring-client.h"

/*
 * Sockets
 */

enum { ENTRIES = 256, NR_BUFFERS = 1024, GROUP = 1 };
enum kind { RECEIVE = 1, ECHO = 2 };

static struct uring ring;
static struct io_uring_buf_ring *buffers;
static struct message messages[NR_BUFFERS];
static uint16_t buffers_tail;

static uint64_t data_of(enum kind kind, unsigned socket, unsigned buffer)
{
	return (uint64_t)kind << 48 | (uint64_t)buffer << 32 | socket;
}

static void give_buffer(unsigned nr)
{
	struct io_uring_buf *buf = &buffers->bufs[buffers_tail % NR_BUFFERS];

	buf->addr = (uintptr_t)&messages[nr];
	buf->len = sizeof(messages[nr]);
	buf->bid = (uint16_t)nr;
	store_release(&buffers->tail, ++buffers_tail);
}

static void open_ring(void)
{
	const struct io_uring_params params = { .flags = IORING_SETUP_CQSIZE,
						.cq_entries = 16 * ENTRIES };
	struct io_uring_buf_reg reg = { .ring_entries = NR_BUFFERS,
					.bgid = GROUP };
	const size_t bytes = NR_BUFFERS * sizeof(struct io_uring_buf);

	REQUIRE(uring_open(&ring, ENTRIES, &params) == 0);
	buffers = aligned_alloc(4096, bytes);
	REQUIRE(buffers);
	memset(buffers, 0, bytes);
	reg.ring_addr = (uintptr_t)buffers;
	REQUIRE(uring_register(ring.fd, IORING_REGISTER_PBUF_RING, &reg, 1) ==
		0);
	for (unsigned i = 0; i < NR_BUFFERS; i++)
		give_buffer(i);
}

/*
 * If the submission queue is full, submit it first.
 * Return: a free SQE.
 */
static struct io_uring_sqe *put(int opcode, unsigned socket, uint64_t data)
{
	while (uring_publish(&ring) == ENTRIES) {
		long ret = uring_submit(&ring);

		REQUIRE(ret > 0 || ret == -EINTR || ret == -EAGAIN ||
			ret == -EBUSY);
	}
	return uring_put(&ring, opcode, shared->ends[socket][0], data);
}

static void receive(unsigned socket)
{
	struct io_uring_sqe *sqe =
		put(IORING_OP_RECV, socket, data_of(RECEIVE, socket, 0));

	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->ioprio = IORING_RECV_MULTISHOT;
	sqe->buf_group = GROUP;
}

static void echo(unsigned socket, unsigned buffer)
{
	struct io_uring_sqe *sqe =
		put(IORING_OP_SEND, socket, data_of(ECHO, socket, buffer));

	sqe->addr = (uintptr_t)&messages[buffer];
	sqe->len = sizeof(messages[buffer]);
}

/*
 * Handle a completion.
 * Return: whether it ends the socket's receive for good.
 */
static bool serve(const struct io_uring_cqe *cqe)
{
	const unsigned socket = (uint32_t)cqe->user_data;
	const bool has_more = cqe->flags & IORING_CQE_F_MORE;

	if (cqe->user_data >> 48 == ECHO) {
		REQUIRE(cqe->res == sizeof(struct message));
		give_buffer(cqe->user_data >> 32 & UINT16_MAX);
		return false;
	}
	REQUIRE(cqe->user_data >> 48 == RECEIVE);
	if (cqe->res == 0) {
		REQUIRE(!has_more);
		return true;
	}
	if (cqe->res > 0) {
		REQUIRE(cqe->res == sizeof(struct message));
		REQUIRE(cqe->flags & IORING_CQE_F_BUFFER);
		echo(socket, cqe->flags >> IORING_CQE_BUFFER_SHIFT);
	} else {
		REQUIRE(cqe->res == -ENOBUFS);
	}
	if (!has_more)
		receive(socket);
	return false;
}

static void serve_all(void)
{
	unsigned nr_left = shared->nr_sockets;
	struct io_uring_cqe cqe;

	for (unsigned i = 0; i < shared->nr_sockets; i++)
		receive(i);
	while (nr_left) {
		long ret = uring_submit_wait(&ring, 1);

		REQUIRE(ret >= 0 || ret == -EINTR || ret == -EAGAIN ||
			ret == -EBUSY);
		while (uring_take(&ring, &cqe))
			nr_left -= serve(&cqe);
	}
}

/*
 * Files
 */

enum { BLOCK = 4096, NR_SLOTS = 16, NR_BLOCKS = 1024 };

/* A slot has one request at a time. A slot's blocks belong to no other slot. */
static struct slot {
	struct iocb iocb;
	unsigned char *buffer;
	/*
	 * index of the block, counted through both files: the first file's blocks, then
	 * the second's
	 */
	unsigned block;
	bool writes;
} slots[NR_SLOTS];

static int files[2];
/* for each block: how often it has been written */
static uint32_t generations[2 * NR_BLOCKS];
static uint64_t random_state;

static void open_files(void)
{
	for (unsigned i = 0; i < 2; i++) {
		files[i] = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		REQUIRE(files[i] >= 0);
		REQUIRE(ftruncate(files[i], NR_BLOCKS * BLOCK) == 0);
	}
	/* Use O_DIRECT if the file system supports that. */
	(void)!fcntl(files[1], F_SETFL, fcntl(files[1], F_GETFL) | O_DIRECT);
}

static void begin(aio_context_t ctx, unsigned nr)
{
	struct slot *slot = &slots[nr];
	uint32_t *words = (void *)slot->buffer;
	struct iocb *iocb = &slot->iocb;

	slot->block = random_below(&random_state, 2 * NR_BLOCKS / NR_SLOTS) *
			      NR_SLOTS +
		      nr;
	slot->writes = !generations[slot->block] ||
		       random_below(&random_state, 4) == 0;
	if (slot->writes) {
		const uint32_t generation = ++generations[slot->block];

		for (unsigned i = 0; i < BLOCK / 4; i++)
			words[i] = generation * 2 * NR_BLOCKS + slot->block;
	}
	*iocb = (struct iocb){
		.aio_data = nr,
		.aio_fildes = (uint32_t)files[slot->block / NR_BLOCKS],
		.aio_lio_opcode =
			slot->writes ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
		.aio_buf = (uintptr_t)slot->buffer,
		.aio_nbytes = BLOCK,
		.aio_offset = (int64_t)(slot->block % NR_BLOCKS) * BLOCK,
	};
	REQUIRE(syscall(SYS_io_submit, ctx, 1l, &iocb) == 1);
}

static void check_block(const struct slot *slot)
{
	const uint32_t *words = (const void *)slot->buffer;

	for (unsigned i = 0; i < BLOCK / 4; i++)
		REQUIRE(words[i] ==
			generations[slot->block] * 2 * NR_BLOCKS + slot->block);
}

static void *work_on_files(void *arg)
{
	aio_context_t ctx = 0;
	unsigned nr_in_flight = 0;

	(void)arg;
	random_state = shared->seed + 1;
	open_files();
	REQUIRE(syscall(SYS_io_setup, NR_SLOTS, &ctx) == 0);
	for (; nr_in_flight < NR_SLOTS; nr_in_flight++) {
		slots[nr_in_flight].buffer = aligned_alloc(BLOCK, BLOCK);
		REQUIRE(slots[nr_in_flight].buffer);
		begin(ctx, nr_in_flight);
	}
	while (nr_in_flight) {
		struct io_event events[NR_SLOTS];
		long nr = syscall(SYS_io_getevents, ctx, 1l, (long)NR_SLOTS,
				  events, NULL);

		REQUIRE(nr > 0 || errno == EINTR);
		/*
		 * Pause, because the file requests are only background load; the
		 * sockets are measured.
		 */
		usleep(1000);
		for (long i = 0; i < nr; i++) {
			REQUIRE(events[i].res == BLOCK);
			check_block(&slots[events[i].data]);
			add_relaxed(&shared->nr_blocks, 1);
			if (load_acquire(&shared->is_over))
				nr_in_flight--;
			else
				begin(ctx, (unsigned)events[i].data);
		}
	}
	REQUIRE(syscall(SYS_io_destroy, ctx) == 0);
	return NULL;
}

_Noreturn void serving_process(void)
{
	pthread_t thread;

	for (unsigned i = 0; i < shared->nr_sockets; i++)
		REQUIRE(close(shared->ends[i][1]) == 0);
	REQUIRE(pthread_create(&thread, NULL, work_on_files, NULL) == 0);
	open_ring();
	serve_all();
	REQUIRE(pthread_join(thread, NULL) == 0);
	exit(0);
}
