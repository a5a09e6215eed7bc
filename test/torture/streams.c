/* SPDX-License-Identifier: MIT */
/*
 * Load: streams fill and empty while their reads are cancelled
 *
 * The streams are pipes, Unix stream sockets and TCP sockets. Each pair of sockets
 * carries two streams, one in each direction. Each stream has a writer, whose requests
 * are sometimes larger than the stream's buffer, and a reader. The reader keeps several
 * requests waiting and cancels some. Some requests of the writer and of the reader are
 * vectored.
 *
 * This must hold: the bytes that the writes report as written come out of the reads,
 * each byte once, in the order of submission.
 */
#undef NDEBUG
#include "torture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "aio/aio.h"
#include "unit.h"

enum {
	NR_PIPES = 2,
	NR_SOCKETS = 2,
	NR_STREAMS = NR_PIPES + 2 * NR_SOCKETS,
	NR_SLOTS = 8,
	NR_PARTS = 5,
	NR_WRITES = 4, /* most writes of a stream in flight at the same time */
	WRITE_MAX = 200000,
	READ_MAX = 30000,
};

/* A request and its vectors. */
struct transfer {
	struct iocb iocb;
	struct iovec parts[NR_PARTS];
	bool is_pending; /* submitted, and its event not yet reaped */
	int64_t res;
};

static struct stream {
	struct unit_thread writer, reader;
	struct random writer_random, reader_random;
	int ends[2];
	uint64_t nr_written, nr_read, nr_cancelled;
	char out[NR_WRITES][WRITE_MAX];
	char in[NR_SLOTS][READ_MAX];
} streams[NR_STREAMS];

static char byte_at(uint64_t position)
{
	return (char)(position * 2654435761u >> 13);
}

/* Prepare a request on the buffer `bytes`, which may be split into vectors. */
static void draw(struct transfer *transfer, struct random *random,
		 unsigned opcode, int fd, char *bytes, uint32_t nr)
{
	uint32_t at = 0;

	*transfer = (struct transfer){
		.iocb = unit_iocb(opcode, fd, bytes, nr, 0),
		.is_pending = true,
	};
	if (random_below(random, 2))
		return;
	transfer->iocb.aio_lio_opcode =
		opcode == IOCB_CMD_PREAD ? IOCB_CMD_PREADV : IOCB_CMD_PWRITEV;
	transfer->iocb.aio_buf = (uintptr_t)transfer->parts;
	transfer->iocb.aio_nbytes = NR_PARTS;
	for (unsigned i = 0; i < NR_PARTS; i++) {
		uint32_t part = random_below(random, nr - at + 1);

		if (i == NR_PARTS - 1)
			part = nr - at;
		transfer->parts[i] = (struct iovec){ bytes + at, part };
		at += part;
	}
}

static uint32_t draw_bytes(struct random *random)
{
	return 1 +
	       random_below(random, random_below(random, 8) ? 5000 : WRITE_MAX);
}

/*
 * Submit a write and cancel it. Its event shows how many bytes it wrote.
 * Return: the stream's new position.
 */
static uint64_t write_and_cancel(struct stream *stream, uint64_t handle,
				 uint64_t position)
{
	struct random *random = &stream->writer_random;
	uint32_t bytes = draw_bytes(random);
	struct transfer transfer;
	int64_t res;

	for (uint32_t i = 0; i < bytes; i++)
		stream->out[0][i] = byte_at(position + i);
	draw(&transfer, random, IOCB_CMD_PWRITE, stream->ends[1],
	     stream->out[0], bytes);
	REQUIRE(unit_submit(handle, &transfer.iocb) == 1);
	(void)uaio_aio_cancel(handle, &transfer.iocb);
	res = unit_reap_one(handle);
	REQUIRE(res == -ECANCELED || (res > 0 && res <= (int64_t)bytes));
	return res > 0 ? position + (uint64_t)res : position;
}

/* Submit several writes, which must be executed in order and completely. */
static uint64_t write_some(struct stream *stream, uint64_t handle,
			   uint64_t position)
{
	struct random *random = &stream->writer_random;
	struct transfer transfers[NR_WRITES];
	struct io_event events[NR_WRITES];
	struct iocb *iocbs[NR_WRITES];
	uint32_t nr = 1 + random_below(random, NR_WRITES);
	uint32_t bytes[NR_WRITES];

	for (uint32_t i = 0; i < nr; i++) {
		bytes[i] = draw_bytes(random);
		for (uint32_t k = 0; k < bytes[i]; k++)
			stream->out[i][k] = byte_at(position + k);
		position += bytes[i];
		draw(&transfers[i], random, IOCB_CMD_PWRITE, stream->ends[1],
		     stream->out[i], bytes[i]);
		transfers[i].iocb.aio_data = i;
		iocbs[i] = &transfers[i].iocb;
	}
	for (uint32_t i = 0; i < nr;) {
		long ret = uaio_aio_submit(handle, nr - i, iocbs + i);

		REQUIRE(ret > 0);
		i += (uint32_t)ret;
	}
	REQUIRE(unit_reap(handle, nr, events) == nr);
	for (uint32_t i = 0; i < nr; i++) {
		REQUIRE(events[i].data < nr);
		REQUIRE(transfers[events[i].data].is_pending);
		transfers[events[i].data].is_pending = false;
		REQUIRE((int64_t)events[i].res == bytes[events[i].data]);
	}
	return position;
}

static long write_stream(void *arg)
{
	struct stream *stream = arg;
	uint64_t handle = unit_context(NR_WRITES), position = 0;
	uint64_t least = least_bytes() / NR_STREAMS;

	while (!is_over() || position < least)
		position = random_below(&stream->writer_random, 10)
				   ? write_some(stream, handle, position)
				   : write_and_cancel(stream, handle, position);
	unit_destroy(handle);
	stream->nr_written = position;
	/* shutdown() ends the stream, so the reader returns. */
	(void)shutdown(stream->ends[1], SHUT_WR);
	unit_close(stream->ends[1]);
	return 0;
}

static void check_bytes(const char *bytes, int64_t nr, uint64_t position)
{
	for (int64_t i = 0; i < nr; i++)
		REQUIRE(bytes[i] == byte_at(position + (uint64_t)i));
}

/*
 * Check the oldest read, which has completed.
 * Return: whether a read has found the end of the stream.
 */
static bool account(struct stream *stream, const struct transfer *transfer,
		    const char *bytes, bool has_ended)
{
	REQUIRE(transfer->res >= 0 || transfer->res == -ECANCELED);
	if (transfer->res > 0) {
		REQUIRE(!has_ended);
		check_bytes(bytes, transfer->res, stream->nr_read);
		stream->nr_read += (uint64_t)transfer->res;
	}
	return has_ended || transfer->res == 0;
}

static void submit_read(struct stream *stream, uint64_t handle,
			struct transfer *transfer, unsigned slot)
{
	draw(transfer, &stream->reader_random, IOCB_CMD_PREAD, stream->ends[0],
	     stream->in[slot],
	     1 + random_below(&stream->reader_random, READ_MAX));
	transfer->iocb.aio_data = slot;
	REQUIRE(unit_submit(handle, &transfer->iocb) == 1);
}

static long read_stream(void *arg)
{
	struct stream *stream = arg;
	struct transfer reads[NR_SLOTS];
	uint64_t handle = unit_context(NR_SLOTS);
	/*
	 * Numbers of reads: those from `oldest` to next - 1 are in flight. Read n uses
	 * slot n modulo NR_SLOTS.
	 */
	unsigned oldest = 0, next = 0;
	bool has_ended = false;

	while (!has_ended || oldest != next) {
		struct uaio_event event;
		unsigned slot;

		for (; !has_ended && next - oldest < NR_SLOTS; next++)
			submit_read(stream, handle, &reads[next % NR_SLOTS],
				    next % NR_SLOTS);
		slot = random_below(&stream->reader_random, 4 * NR_SLOTS);
		if (slot < NR_SLOTS)
			stream->nr_cancelled +=
				uaio_aio_cancel(handle, &reads[slot].iocb) ==
				-EINPROGRESS;
		REQUIRE(uaio_aio_getevents(handle, 1, 1, &event, NULL) == 1);
		REQUIRE(event.data < NR_SLOTS && reads[event.data].is_pending);
		reads[event.data].is_pending = false;
		reads[event.data].res = event.res;
		for (; oldest != next && !reads[oldest % NR_SLOTS].is_pending;
		     oldest++)
			has_ended = account(stream, &reads[oldest % NR_SLOTS],
					    stream->in[oldest % NR_SLOTS],
					    has_ended);
	}
	unit_destroy(handle);
	unit_close(stream->ends[0]);
	return 0;
}

/* Make a TCP connection over the loopback device. */
static void open_tcp(int ret_pair[2])
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	REQUIRE(listener >= 0);
	REQUIRE(bind(listener, (void *)&address, len) == 0);
	REQUIRE(listen(listener, 1) == 0);
	REQUIRE(getsockname(listener, (void *)&address, &len) == 0);
	ret_pair[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	REQUIRE(connect(ret_pair[0], (void *)&address, len) == 0);
	ret_pair[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	REQUIRE(ret_pair[1] >= 0);
	REQUIRE(close(listener) == 0);
}

/*
 * Run two streams on each pair of sockets, one in each direction. Each stream closes
 * its own descriptors, so one of the two streams gets duplicates.
 */
static void open_streams(void)
{
	int pair[2];

	for (unsigned i = 0; i < NR_PIPES; i++)
		REQUIRE(pipe2(streams[i].ends, O_CLOEXEC) == 0);
	for (unsigned i = 0; i < NR_SOCKETS; i++) {
		struct stream *two = &streams[NR_PIPES + 2 * i];

		if (i)
			open_tcp(pair);
		else
			REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC,
					   0, pair) == 0);
		for (unsigned k = 0; k < 2; k++) {
			two[k].ends[0] = pair[k];
			two[k].ends[1] = fcntl(pair[!k], F_DUPFD_CLOEXEC, 0);
			REQUIRE(two[k].ends[1] >= 0);
		}
	}
}

int torture_streams(void)
{
	uint64_t nr_bytes = 0;

	open_streams();
	for (unsigned i = 0; i < NR_STREAMS; i++) {
		struct stream *stream = &streams[i];

		stream->writer_random = random_start(2 * i);
		stream->reader_random = random_start(2 * i + 1);
		unit_thread_start(&stream->reader, read_stream, stream);
		unit_thread_start(&stream->writer, write_stream, stream);
	}
	for (unsigned i = 0; i < NR_STREAMS; i++) {
		struct stream *stream = &streams[i];

		REQUIRE(unit_thread_join(&stream->writer) == 0);
		REQUIRE(unit_thread_join(&stream->reader) == 0);
		printf("%lu bytes written, %lu read, %lu reads cancelled\n",
		       (unsigned long)stream->nr_written,
		       (unsigned long)stream->nr_read,
		       (unsigned long)stream->nr_cancelled);
		REQUIRE(stream->nr_written == stream->nr_read);
		nr_bytes += stream->nr_read;
	}
	note_count(nr_bytes >> 20, "MiB");
	return 0;
}
