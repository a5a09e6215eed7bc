/* SPDX-License-Identifier: MIT */
/* Makes random requests. */
#include "rings.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	/*
	 * if more receives than this wait on a stream, the next request is a send
	 */
	NR_READERS = 24,
	/*
	 * if at least this many words are in a stream, the next request is a receive
	 */
	LEVEL = 2048,
	NS_PER_US = 1000,
};

struct slot *last_of(const struct batch *batch)
{
	return batch->slots[batch->nr - 1];
}

struct io_uring_sqe *put(struct batch *batch, enum kind kind, int opcode,
			 int fd)
{
	struct slot *slot = get_slot(batch->ring, kind);

	if (!slot)
		return NULL;
	batch->slots[batch->nr++] = slot;
	slot->may_be_left = batch->thread->leaves;
	return uring_put(&batch->ring->uring, opcode, fd, slot->user_data);
}

bool one_in(const struct batch *batch, uint32_t n)
{
	return any(batch->thread, n) == 0;
}

void make_async(const struct batch *batch, struct io_uring_sqe *sqe)
{
	if (one_in(batch, 16))
		sqe->flags |= IOSQE_ASYNC;
	if (batch->ring->has_drains && one_in(batch, 16))
		sqe->flags |= IOSQE_IO_DRAIN;
}

void poison(struct slot *slot)
{
	for (unsigned i = 0; i < WORDS; i++)
		slot->words[i] = POISON;
}

static void make_nop(struct batch *batch)
{
	struct io_uring_sqe *sqe = put(batch, KIND_NOP, IORING_OP_NOP, -1);

	if (!sqe)
		return;
	batch->is_sure = true;
	if (one_in(batch, 3))
		sqe->flags |= IOSQE_ASYNC;
}

/*
 * Streams
 */

static void make_send(struct batch *batch, unsigned index)
{
	const bool is_socket = index > 1;
	struct io_uring_sqe *sqe =
		put(batch, KIND_SEND,
		    is_socket && one_in(batch, 2) ? IORING_OP_SEND
						  : IORING_OP_WRITE,
		    world.streams[index].ends[1]);
	struct slot *slot;

	if (!sqe)
		return;
	slot = last_of(batch);
	slot->stream = (int)index;
	slot->len = 8 * (1 + any(batch->thread, WORDS));
	for (uint32_t i = 0; i < slot->len / 8; i++)
		slot->words[i] = (uint64_t)stream_id(index) << 56 |
				 (uint64_t)batch->thread->index << 48 |
				 batch->thread->serial++;
	sqe->addr = (uintptr_t)slot->words;
	sqe->len = slot->len;
	if (sqe->opcode == IORING_OP_WRITE)
		sqe->off = (uint64_t)-1;
}

static void make_receive(struct batch *batch, unsigned index)
{
	const bool is_socket = index > 1,
		   is_recv = is_socket && one_in(batch, 2);
	const bool is_replaced = !is_socket && one_in(batch, 3);
	struct stream *stream = &world.streams[index];
	struct io_uring_sqe *sqe = put(
		batch, KIND_RECEIVE, is_recv ? IORING_OP_RECV : IORING_OP_READ,
		is_replaced ? STREAM_FD + (int)any(batch->thread, 2)
			    : stream->ends[0]);
	struct slot *slot;

	if (!sqe)
		return;
	slot = last_of(batch);
	slot->stream = is_replaced ? -1 : (int)index;
	slot->may_be_bad = is_replaced;
	if (!is_replaced)
		__atomic_add_fetch(&stream->nr_readers, 1, __ATOMIC_RELAXED);
	sqe->len = slot->len = 8 * (1 + any(batch->thread, WORDS));
	sqe->addr = (uintptr_t)slot->words;
	poison(slot);
	if (!is_recv)
		sqe->off = (uint64_t)-1;
	if (one_in(batch, 3)) {
		slot->len = 0;
		sqe->addr = 0;
		sqe->flags |= IOSQE_BUFFER_SELECT;
		sqe->buf_group = GROUP;
	}
	if (one_in(batch, 64))
		sqe->flags |= IOSQE_ASYNC;
}

static void make_stream(struct batch *batch)
{
	const unsigned index = any(batch->thread, NR_STREAMS);
	const struct stream *stream = &world.streams[index];
	const int32_t nr_readers =
		__atomic_load_n(&stream->nr_readers, __ATOMIC_RELAXED);
	/*
	 * The level may be negative, because a read may be counted before the write of
	 * its words.
	 */
	const int64_t level =
		(int64_t)(__atomic_load_n(&stream->nr_written,
					  __ATOMIC_RELAXED) -
			  __atomic_load_n(&stream->nr_read, __ATOMIC_RELAXED));

	if (nr_readers > NR_READERS || (level < LEVEL && one_in(batch, 2)))
		make_send(batch, index);
	else
		make_receive(batch, index);
}

/*
 * Count another multishot request, if the limit NR_MULTI allows that.
 * Return: whether the request was counted, so that the caller may make it.
 */
static bool count_multi(void)
{
	if (__atomic_add_fetch(&world.nr_multi, 1, __ATOMIC_RELAXED) <=
	    NR_MULTI)
		return true;
	__atomic_sub_fetch(&world.nr_multi, 1, __ATOMIC_RELAXED);
	return false;
}

static void make_receive_multi(struct batch *batch)
{
	const unsigned index = any(batch->thread, NR_STREAMS);
	const bool is_socket = index > 1;
	struct io_uring_sqe *sqe;

	if (!count_multi())
		return;
	sqe = put(batch, KIND_RECEIVE_MULTI,
		  is_socket ? IORING_OP_RECV : IORING_OP_READ_MULTISHOT,
		  world.streams[index].ends[0]);
	if (!sqe) {
		__atomic_sub_fetch(&world.nr_multi, 1, __ATOMIC_RELAXED);
		return;
	}
	last_of(batch)->stream = (int)index;
	last_of(batch)->len = 0;
	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	if (is_socket)
		sqe->ioprio = IORING_RECV_MULTISHOT;
	else
		sqe->off = (uint64_t)-1;
}

static void make_poll(struct batch *batch)
{
	const bool is_multi = one_in(batch, 3) && count_multi();
	struct stream *stream = &world.streams[any(batch->thread, NR_STREAMS)];
	int fd = one_in(batch, 2) ? world.stall[0] : stream->ends[0];
	const bool is_replaced = one_in(batch, 4);
	struct io_uring_sqe *sqe;

	if (is_replaced)
		fd = PAIR_FD + (int)any(batch->thread, NR_PAIRS + 2);
	sqe = put(batch, is_multi ? KIND_POLL_MULTI : KIND_POLL,
		  IORING_OP_POLL_ADD, fd);
	if (!sqe) {
		if (is_multi)
			__atomic_sub_fetch(&world.nr_multi, 1,
					   __ATOMIC_RELAXED);
		return;
	}
	last_of(batch)->may_be_bad = is_replaced;
	sqe->poll32_events = POLLIN;
	sqe->len = is_multi ? IORING_POLL_ADD_MULTI : 0;
}

static void make_accept(struct batch *batch)
{
	const bool is_multi = one_in(batch, 2) && count_multi();
	struct io_uring_sqe *sqe =
		put(batch, is_multi ? KIND_ACCEPT_MULTI : KIND_ACCEPT,
		    IORING_OP_ACCEPT, world.listener);

	if (!sqe && is_multi)
		__atomic_sub_fetch(&world.nr_multi, 1, __ATOMIC_RELAXED);
	if (!sqe)
		return;
	sqe->accept_flags = SOCK_CLOEXEC;
	sqe->ioprio = is_multi ? IORING_ACCEPT_MULTISHOT : 0;
}

static void make_connect(struct batch *batch)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct io_uring_sqe *sqe;

	require(fd >= 0, "socket()");
	sqe = put(batch, KIND_CONNECT, IORING_OP_CONNECT, fd);
	if (!sqe) {
		close(fd);
		return;
	}
	last_of(batch)->fd = fd;
	sqe->addr = (uintptr_t)&world.address;
	sqe->off = world.address_bytes;
}

/* Timeouts, and requests of other kinds */

static void set_time(struct batch *batch, struct io_uring_sqe *sqe)
{
	struct slot *slot = last_of(batch);

	slot->time = (struct __kernel_timespec){
		.tv_nsec = (1 + any(batch->thread, 1000)) * NS_PER_US,
	};
	sqe->addr = (uintptr_t)&slot->time;
	sqe->len = 1;
}

static void make_timeout(struct batch *batch)
{
	struct io_uring_sqe *sqe =
		put(batch, KIND_TIMEOUT, IORING_OP_TIMEOUT, -1);

	if (!sqe)
		return;
	set_time(batch, sqe);
	if (one_in(batch, 2))
		sqe->off = any(batch->thread, 8);
}

static void make_link_timeout(struct batch *batch)
{
	struct io_uring_sqe *stall =
		put(batch, KIND_STALL, IORING_OP_READ, world.stall[0]);
	struct io_uring_sqe *sqe;
	struct slot *slot;

	if (!stall)
		return;
	slot = last_of(batch);
	poison(slot);
	stall->addr = (uintptr_t)slot->words;
	stall->len = BLOCK;
	stall->off = (uint64_t)-1;
	sqe = put(batch, KIND_LINK_TIMEOUT, IORING_OP_LINK_TIMEOUT, -1);
	if (!sqe)
		return;
	stall->flags |= IOSQE_IO_LINK;
	set_time(batch, sqe);
}

static uint64_t any_user_data(const struct batch *batch)
{
	const struct slot *slot =
		&batch->ring->slots[any(batch->thread, NR_SLOTS)];

	return __atomic_load_n(&slot->user_data, __ATOMIC_RELAXED);
}

static void make_cancel(struct batch *batch)
{
	static const uint8_t opcodes[] = { IORING_OP_ASYNC_CANCEL,
					   IORING_OP_POLL_REMOVE,
					   IORING_OP_TIMEOUT_REMOVE };
	const uint32_t how = any(batch->thread, 40);
	const int stream =
		world.streams[any(batch->thread, NR_STREAMS)].ends[0];
	struct io_uring_sqe *sqe;
	int opcode = IORING_OP_ASYNC_CANCEL;

	if (how > 8)
		opcode = opcodes[any(batch->thread, 3)];
	sqe = put(batch, KIND_CANCEL, opcode, -1);
	if (!sqe)
		return;
	if (how == 0) {
		sqe->cancel_flags = IORING_ASYNC_CANCEL_ANY;
	} else if (how < 5) {
		sqe->fd = how < 3 ? world.stall[0] : stream;
		sqe->cancel_flags = IORING_ASYNC_CANCEL_FD |
				    (how & 1 ? IORING_ASYNC_CANCEL_ALL : 0);
	} else if (how < 9) {
		sqe->len = how < 7 ? IORING_OP_POLL_ADD : IORING_OP_READ;
		sqe->cancel_flags = IORING_ASYNC_CANCEL_OP |
				    (how & 1 ? IORING_ASYNC_CANCEL_ALL : 0);
	} else {
		sqe->addr = any_user_data(batch);
	}
	if (opcode == IORING_OP_ASYNC_CANCEL)
		make_async(batch, sqe);
}

static void make_message(struct batch *batch)
{
	struct ring *target = &rings[any(batch->thread, NR_RINGS)];
	struct io_uring_sqe *sqe;
	struct slot *message;

	if (target == batch->ring || !target->is_open)
		return;
	message = get_slot(target, KIND_MESSAGE);
	if (!message)
		return;
	message->len = any(batch->thread, 1 << 20);
	sqe = put(batch, KIND_POST, IORING_OP_MSG_RING, target->fd);
	if (!sqe) {
		take_back(target, message);
		return;
	}
	last_of(batch)->target = target;
	last_of(batch)->message = message->user_data;
	sqe->addr = IORING_MSG_DATA;
	sqe->len = message->len;
	sqe->off = message->user_data;
	make_async(batch, sqe);
}

static void make_mistake(struct batch *batch)
{
	if (one_in(batch, 8))
		(void)put(batch, KIND_MISTAKE, 250, -1);
}

/*
 * Functions that make requests. The first NR_PROMPT make requests that soon complete by
 * themselves. Rings with drains use only these.
 */
static void (*const makers[])(struct batch *) = {
	make_nop,          make_nop,           make_nop,     make_file,
	make_file,         make_file,          make_file,    make_file,
	make_file,         make_chain,         make_chain,   make_update,
	make_timeout,      make_open,          make_close,   make_mistake,
	make_message,      make_sync,          make_stream,  make_stream,
	make_stream,       make_stream,        make_stream,  make_poll,
	make_link_timeout, make_accept,        make_connect, make_cancel,
	make_cancel,       make_receive_multi,
};
enum { NR_PROMPT = 18 };

void draw_requests(struct batch *batch, unsigned nr)
{
	const uint32_t nr_makers =
		batch->ring->has_drains ? NR_PROMPT : NR_ELEMENTS(makers);

	/* A function adds 0 to 2 requests, so nr calls may add too few. */
	for (unsigned i = 0; i < 2 * nr && batch->nr < nr; i++)
		makers[any(batch->thread, nr_makers)](batch);
}

void draw_nops(struct batch *batch, unsigned nr)
{
	while (batch->nr < nr && put(batch, KIND_NOP, IORING_OP_NOP, -1))
		;
}
