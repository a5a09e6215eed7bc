/* SPDX-License-Identifier: MIT */
/*
 * Streams fill and empty while their readers are cancelled
 *
 * For each pipe there is a writer, whose requests are larger than the pipe now
 * and then, and a reader that has several requests waiting and cancels some.
 *
 * The law: what the writer's requests report written comes out of the reader's
 * requests, in the order in which they were submitted, each byte once.
 */
#undef NDEBUG
#include "torture.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "front/libaio/aio.h"
#include "unit.h"

enum { NR_PIPES = 3, NR_SLOTS = 8, WRITE_MAX = 200000, READ_MAX = 30000 };

static struct stream {
	struct unit_thread writer, reader;
	struct random writer_random, reader_random;
	int ends[2];
	uint64_t nr_written, nr_read, nr_cancelled;
	char out[WRITE_MAX];
	char in[NR_SLOTS][READ_MAX];
} streams[NR_PIPES];

static char byte_at(uint64_t position)
{
	return (char)(position * 2654435761u >> 13);
}

static long write_stream(void *arg)
{
	struct stream *stream = arg;
	uint64_t handle = unit_context(1), position = 0;

	while (!is_over()) {
		uint32_t max = random_below(&stream->writer_random, 8)
				       ? 5000
				       : WRITE_MAX;
		uint32_t bytes = 1 + random_below(&stream->writer_random, max);
		struct iocb iocb = unit_iocb(IOCB_CMD_PWRITE, stream->ends[1],
					     stream->out, bytes, 0);
		int64_t res;

		for (uint32_t i = 0; i < bytes; i++)
			stream->out[i] = byte_at(position + i);
		REQUIRE(unit_submit(handle, &iocb) == 1);
		if (random_below(&stream->writer_random, 10) == 0)
			(void)uaio_aio_cancel(handle, &iocb);
		res = unit_reap_one(handle);
		REQUIRE(res > 0 || res == -ECANCELED);
		if (res > 0)
			position += (uint64_t)res;
	}
	unit_destroy(handle);
	stream->nr_written = position;
	/* The end of the reader's work. */
	unit_close(stream->ends[1]);
	return 0;
}

struct reading {
	struct iocb iocb;
	bool is_pending; /* submitted, its event not seen */
	int64_t res;
};

static void check_bytes(const char *bytes, int64_t nr, uint64_t position)
{
	for (int64_t i = 0; i < nr; i++)
		REQUIRE(bytes[i] == byte_at(position + (uint64_t)i));
}

static long read_stream(void *arg)
{
	struct stream *stream = arg;
	struct reading readings[NR_SLOTS];
	uint64_t handle = unit_context(NR_SLOTS);
	/* Free-running: [oldest, next) are on their way, in this order. */
	unsigned oldest = 0, next = 0;
	bool has_ended = false;

	while (!has_ended || oldest != next) {
		struct uaio_event event;

		while (!has_ended && next - oldest < NR_SLOTS) {
			struct reading *reading = &readings[next % NR_SLOTS];

			*reading = (struct reading){
				.is_pending = true,
				.iocb = unit_iocb(
					IOCB_CMD_PREAD, stream->ends[0],
					stream->in[next % NR_SLOTS],
					1 + random_below(&stream->reader_random,
							 READ_MAX),
					0),
			};
			reading->iocb.aio_data = next % NR_SLOTS;
			REQUIRE(unit_submit(handle, &reading->iocb) == 1);
			next++;
		}
		if (random_below(&stream->reader_random, 4) == 0) {
			unsigned which =
				random_below(&stream->reader_random, NR_SLOTS);

			stream->nr_cancelled +=
				uaio_aio_cancel(handle,
						&readings[which].iocb) ==
				-EINPROGRESS;
		}
		REQUIRE(uaio_aio_getevents(handle, 1, 1, &event, NULL) == 1);
		REQUIRE(readings[event.data].is_pending);
		readings[event.data].is_pending = false;
		readings[event.data].res = event.res;
		while (oldest != next &&
		       !readings[oldest % NR_SLOTS].is_pending) {
			struct reading *reading = &readings[oldest % NR_SLOTS];

			REQUIRE(reading->res >= 0 ||
				reading->res == -ECANCELED);
			if (reading->res == 0)
				has_ended = true;
			if (reading->res > 0) {
				REQUIRE(!has_ended);
				check_bytes(stream->in[oldest % NR_SLOTS],
					    reading->res, stream->nr_read);
				stream->nr_read += (uint64_t)reading->res;
			}
			oldest++;
		}
	}
	unit_destroy(handle);
	return 0;
}

int torture_streams(void)
{
	for (unsigned i = 0; i < NR_PIPES; i++) {
		struct stream *stream = &streams[i];

		REQUIRE(pipe2(stream->ends, O_CLOEXEC) == 0);
		stream->writer_random = random_start(2 * i);
		stream->reader_random = random_start(2 * i + 1);
		unit_thread_start(&stream->reader, read_stream, stream);
		unit_thread_start(&stream->writer, write_stream, stream);
	}
	for (unsigned i = 0; i < NR_PIPES; i++) {
		struct stream *stream = &streams[i];

		REQUIRE(unit_thread_join(&stream->writer) == 0);
		REQUIRE(unit_thread_join(&stream->reader) == 0);
		printf("%lu bytes written, %lu read, %lu reads cancelled\n",
		       (unsigned long)stream->nr_written,
		       (unsigned long)stream->nr_read,
		       (unsigned long)stream->nr_cancelled);
		REQUIRE(stream->nr_written == stream->nr_read);
		unit_close(stream->ends[0]);
	}
	return 0;
}
