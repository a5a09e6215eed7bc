/* SPDX-License-Identifier: MIT */
/*
 * fail-each's workload of io_uring on streams: waiting requests, multishot requests and
 * cancels
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/atomic.h"
#include "unit.h"
#include "fail-ring.h"

enum {
	PIECE = 24,
	GROUP = 3,
	BUFFERS = 8,
	BUFFER_BYTES = 32,
	NR_SHOTS = 12,
	ARRAY_BYTES = 4096,
	NR_STARTS = 8,
};

/* Two reads and a poll wait. Then one write wakes them all. */
static void work_on_stream(bool is_socket)
{
	static struct fail_stream stream;
	static char bufs[2][PIECE];
	struct fail_job *poll, *reads[2], *write;

	fail_stream_open(&stream, is_socket, 40 + is_socket);
	poll = fail_ring_add("a poll", IORING_OP_POLL_ADD, stream.from, NULL, 0,
			     0, POLLIN);
	fail_ring_sqe()->poll32_events = POLLIN;
	for (unsigned i = 0; i < 2; i++)
		reads[i] = fail_ring_add(
			is_socket ? "a receive" : "a read of a pipe",
			is_socket ? IORING_OP_RECV : IORING_OP_READ,
			stream.from, bufs[i], PIECE, is_socket ? 0 : -1, PIECE);
	fail_ring_submit();
	write = fail_ring_add(is_socket ? "a send" : "a write to a pipe",
			      is_socket ? IORING_OP_SEND : IORING_OP_WRITE,
			      stream.to, fail_stream_next(&stream, 3 * PIECE),
			      3 * PIECE, is_socket ? 0 : -1, 3 * PIECE);
	fail_ring_submit();
	fail_ring_await(write, NULL);
	fail_stream_written(&stream, 3 * PIECE, write);
	fail_ring_await(NULL, NULL);
	fail_judge_value(poll);
	for (unsigned i = 0; i < 2; i++)
		fail_stream_read(&stream, bufs[i], reads[i]);
	fail_stream_close(&stream);
	fail_ring_clear();
}

/*
 * A multishot receive
 */

static struct {
	struct fail_stream stream;
	struct io_uring_buf_ring *array;
	char memory[BUFFERS][BUFFER_BYTES];
	struct fail_job *job; /* the multishot receive; NULL: it has ended */
} multi;

static void provide(unsigned bid)
{
	const uint16_t tail = load_relaxed(&multi.array->tail);
	struct io_uring_buf *buf =
		(struct io_uring_buf *)multi.array + tail % BUFFERS;

	store_relaxed(&buf->addr, (uintptr_t)multi.memory[bid]);
	store_relaxed(&buf->len, (uint32_t)BUFFER_BYTES);
	store_relaxed(&buf->bid, (uint16_t)bid);
	store_release(&multi.array->tail, (uint16_t)(tail + 1));
}

/*
 * Check one completion of the multishot receive: its bytes must be the next ones of the
 * stream.
 */
static void take_shot(struct fail_job *job, const struct io_uring_cqe *cqe)
{
	const unsigned bid = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
	struct fail_job shot = { .what = "a shot of a multishot receive",
				 .asked = BUFFER_BYTES,
				 .res = cqe->res,
				 .is_accepted = true };

	if (job != multi.job)
		return;
	if (cqe->res > 0) {
		need(cqe->flags & IORING_CQE_F_BUFFER && bid < BUFFERS,
		     "a shot has no buffer");
		/*
		 * This completion may have fewer bytes than a buffer: the socket may
		 * have contained no more.
		 */
		shot.asked = fail_is_strict ? cqe->res : BUFFER_BYTES;
		fail_stream_read(&multi.stream, multi.memory[bid], &shot);
		provide(bid);
	} else if (cqe->res != -ECANCELED && cqe->res != -ENOBUFS) {
		fail_judge_count(&shot);
	}
	if (!(cqe->flags & IORING_CQE_F_MORE))
		multi.job = NULL;
}

static void start_receive(void)
{
	multi.job = fail_ring_add("a multishot receive", IORING_OP_RECV,
				  multi.stream.from, NULL, 0, 0, -ECANCELED);
	fail_ring_sqe()->ioprio = IORING_RECV_MULTISHOT;
	fail_ring_sqe()->flags = IOSQE_BUFFER_SELECT;
	fail_ring_sqe()->buf_group = GROUP;
	fail_ring_submit();
}

static void register_buffers(void)
{
	struct io_uring_buf_reg reg = { .ring_entries = BUFFERS,
					.bgid = GROUP };

	multi.array = mmap(NULL, ARRAY_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	need(multi.array != MAP_FAILED, "there is no memory");
	reg.ring_addr = (uintptr_t)multi.array;
	fail_ring_register(IORING_REGISTER_PBUF_RING, &reg, 1);
	for (unsigned i = 0; i < BUFFERS; i++)
		provide(i);
}

static void unregister_buffers(void)
{
	struct io_uring_buf_reg reg = { .bgid = GROUP };

	fail_ring_register(IORING_UNREGISTER_PBUF_RING, &reg, 1);
	need(munmap(multi.array, ARRAY_BYTES) == 0, "memory stays mapped");
}

/*
 * Receive by a multishot request. If the request ends because of a fault, or because no
 * buffer was free, start it again.
 */
static void receive_multishot(void)
{
	unsigned nr_starts = 0;
	struct fail_job *last;

	fail_stream_open(&multi.stream, true, 90);
	register_buffers();
	start_receive();
	for (unsigned i = 0; i < NR_SHOTS; i++) {
		fail_stream_put(&multi.stream, BUFFER_BYTES);
		while (multi.stream.nr_got < multi.stream.nr_put) {
			fail_ring_await_shots(multi.job, take_shot,
					      &multi.stream.nr_got,
					      multi.stream.nr_put);
			if (multi.job)
				continue;
			need(++nr_starts < NR_STARTS && !fail_is_strict,
			     "a multishot receive ends again and again");
			start_receive();
		}
	}
	last = multi.job;
	if (last)
		fail_ring_cancel(last, take_shot);
	fail_ring_await(NULL, take_shot);
	need(!last || last->res == -ECANCELED || !fail_is_strict,
	     "a multishot receive is cancelled and ends with %lld",
	     (long long)last->res);
	unregister_buffers();
	fail_stream_close(&multi.stream);
	fail_ring_clear();
}

/*
 * Polls, cancels and closed descriptors
 */

static size_t nr_polls;
static const struct fail_job *polled;

static void count_poll(struct fail_job *job, const struct io_uring_cqe *cqe)
{
	if (job != polled)
		return;
	nr_polls += cqe->res == POLLIN;
	need(cqe->res == POLLIN || cqe->res == -ECANCELED ||
		     (cqe->res < 0 && fail_may_end_with(-cqe->res)),
	     "%s has %d", job->what, cqe->res);
}

static void poll_multishot(void)
{
	static struct fail_stream stream;
	struct fail_job *poll;

	fail_stream_open(&stream, false, 60);
	poll = fail_ring_add("a multishot poll", IORING_OP_POLL_ADD,
			     stream.from, NULL, IORING_POLL_ADD_MULTI, 0,
			     -ECANCELED);
	fail_ring_sqe()->poll32_events = POLLIN;
	polled = poll;
	fail_ring_submit();
	for (nr_polls = 0; nr_polls < 2 && poll->is_pending;) {
		const size_t nr = nr_polls + 1;

		fail_stream_put(&stream, 1);
		fail_ring_await_shots(poll, count_poll, &nr_polls, nr);
	}
	if (poll->is_pending)
		fail_ring_cancel(poll, count_poll);
	/*
	 * After a fault, the library may execute the multishot poll as a poll that
	 * completes only once.
	 */
	if (fail_is_strict)
		fail_judge_value(poll);
	fail_ring_await(NULL, NULL);
	fail_stream_close(&stream);
	fail_ring_clear();
}

/*
 * Cancel a read of a pipe. Then close the descriptor of a socket, on which a receive
 * waits. The receive must still complete.
 */
static void cancel_and_close(void)
{
	static struct fail_stream idle, closed;
	static char byte, buf[PIECE];
	struct fail_job *read, *receive;
	int kept;

	fail_stream_open(&idle, false, 61);
	fail_stream_open(&closed, true, 62);
	kept = fcntl(closed.from, F_DUPFD_CLOEXEC, 0);
	need(kept >= 0, "there is no descriptor");
	read = fail_ring_add("a read that is cancelled", IORING_OP_READ,
			     idle.from, &byte, 1, -1, -ECANCELED);
	receive = fail_ring_add("a receive whose descriptor is closed",
				IORING_OP_RECV, closed.from, buf, PIECE, 0,
				PIECE);
	/*
	 * If the library cannot duplicate the descriptor, the receive may fail with
	 * EBADF (doc/differences.md).
	 */
	receive->also = EBADF;
	fail_ring_submit();
	fail_ring_cancel(read, NULL);
	fail_judge_value(read);
	unit_close(closed.from);
	closed.from = kept;
	fail_stream_put(&closed, PIECE);
	fail_ring_await(NULL, NULL);
	fail_stream_read(&closed, buf, receive);
	fail_stream_close(&idle);
	fail_stream_close(&closed);
	fail_ring_clear();
}

void fail_work_sockets(void)
{
	fail_ring_open();
	work_on_stream(false);
	work_on_stream(true);
	receive_multishot();
	poll_multishot();
	cancel_and_close();
	fail_ring_close();
}
