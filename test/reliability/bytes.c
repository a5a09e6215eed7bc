/* SPDX-License-Identifier: MIT */
/*
 * bytes [--seed S] [--seconds N]: sends streams of bytes by io_uring; each byte must
 * arrive in its place
 *
 * The program runs one scenario after another. Each has NR_PAIRS streams. A stream has
 * a sender and a receiver, each with its own ring and thread. The seed chooses the kind
 * of each stream, and how its sender and receiver move bytes. The value of each byte
 * follows from its position. The receiver checks every byte. In the end it must have
 * got as many bytes as the sender's completions report. Each scenario must close all
 * its descriptors.
 *
 * The program makes io_uring's system calls itself. So it tests the kernel's io_uring,
 * or that of a preloaded library.
 */
#undef NDEBUG
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "uring-client.h"

enum {
	NR_PAIRS = 2,
	RING = 16,
	HANG_S = 120,
	/* most bytes of a stream in a scenario; on average, it has half as many */
	WORLD_BYTES = 48 << 20,
	CHUNK = 64 << 10, /* most bytes in a send */
	NR_CHUNKS = 8,    /* most sends in a chain */
	NR_BUFFERS = 8,   /* a power of two */
	BUFFER = 16 << 10,
	/*
	 * bytes until a stream's content repeats; a prime, so that adjacent buffers
	 * differ
	 */
	PERIOD = 65521,
	GROUP = 7,
};

enum stream_kind { PIPE, UNIX, TCP, NR_STREAM_KINDS };

enum sending { SENDS, VECTORS, ZERO_COPY, WRITES, NR_SENDINGS };

enum receiving {
	WHOLE, /* one receive after another, each of a random length */
	SHOTS, /* multishot; each completion has one provided buffer */
	/* multishot; a completion may have several provided buffers */
	BUNDLES,
	INCREMENTAL, /* multishot; completions use parts of a provided buffer */
	SPLICES,     /* splice into a pipe, then a linked read of that pipe */
	NR_RECEIVINGS,
};

struct stream {
	enum stream_kind kind;
	enum sending sending;
	enum receiving receiving;
	/*
	 * the receiver provides buffers again only after a receive failed with ENOBUFS
	 */
	bool starves;
	int in, out;
	uint64_t goal, nr_sent, nr_received;
	uint64_t random_sender, random_receiver;
};

/*
 * The stream's bytes from position p on are the bytes of pattern[] from index p %
 * PERIOD on.
 */
static char pattern[PERIOD + CHUNK];
static uint64_t seed, state;
static const char *program;
static unsigned seconds = 3;

static uint32_t draw(uint64_t *random, uint32_t n)
{
	*random = *random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*random >> 33) % n;
}

static void fail(const char *what, int64_t a, int64_t b)
{
	fprintf(stderr,
		"failed: %s (%" PRId64 ", %" PRId64 ")\n"
		"replay: %s --seed %" PRIu64 " --seconds %u\n",
		what, a, b, program, seed, seconds);
	_exit(1);
}

static void demand(bool is_so, const char *what, int64_t a, int64_t b)
{
	if (!is_so)
		fail(what, a, b);
}

static void on_alarm(int sig)
{
	(void)sig;
	fail("a stream hangs", 0, 0);
}

/*
 * rings
 */

static void open_ring(struct uring *ring)
{
	const struct io_uring_params params = { 0 };
	long ret = uring_open(ring, RING, &params);

	demand(ret == 0, "io_uring_setup", ret, 0);
}

static void close_ring(struct uring *ring)
{
	uring_unmap(ring);
	close(ring->fd);
}

/*
 * Submit the prepared requests and wait for a completion.
 * Return: the next completion.
 */
static struct io_uring_cqe next(struct uring *ring)
{
	struct io_uring_cqe cqe;
	long ret = 0;

	while (!uring_take(ring, &cqe)) {
		ret = uring_submit_wait(ring, 1);
		demand(ret >= 0 || ret == -EINTR, "io_uring_enter", ret, 0);
	}
	return cqe;
}

/*
 * senders
 */

/*
 * Prepare one send, linked to the next one of the chain.
 * Return: how many bytes it sends.
 */
static uint32_t put_send(struct stream *stream, struct uring *ring,
			 uint64_t position, struct iovec parts[2], uint32_t nr)
{
	const char *from = pattern + position % PERIOD;
	uint32_t bytes =
		1 + draw(&stream->random_sender,
			 draw(&stream->random_sender, 4) ? 3000 : CHUNK);
	uint32_t first = draw(&stream->random_sender, bytes + 1);
	struct io_uring_sqe *sqe;

	switch (stream->sending) {
	case SENDS:
	case ZERO_COPY:
		sqe = uring_put_rw(ring,
				   stream->sending == SENDS ? IORING_OP_SEND
							    : IORING_OP_SEND_ZC,
				   stream->out, (uintptr_t)from, bytes, 0, nr);
		sqe->msg_flags = MSG_WAITALL | MSG_NOSIGNAL;
		break;
	case VECTORS:
		parts[0] = (struct iovec){ (void *)(uintptr_t)from, first };
		parts[1] = (struct iovec){ (void *)(uintptr_t)(from + first),
					   bytes - first };
		sqe = uring_put_rw(ring, IORING_OP_WRITEV, stream->out,
				   (uintptr_t)parts, 2, 0, nr);
		break;
	default:
		sqe = uring_put_rw(ring, IORING_OP_WRITE, stream->out,
				   (uintptr_t)from, bytes, 0, nr);
		break;
	}
	sqe->flags = IOSQE_IO_LINK;
	return bytes;
}

/*
 * Send a chain of linked requests. A short write breaks the chain. A zero-copy send
 * posts a second completion once its memory may be reused; here the memory never
 * changes, so only the number of completions matters.
 */
static void send_chain(struct stream *stream, struct uring *ring)
{
	uint32_t nr = 1 + draw(&stream->random_sender, NR_CHUNKS);
	struct iovec parts[NR_CHUNKS][2];
	uint32_t lengths[NR_CHUNKS], nr_due = nr;
	int64_t results[NR_CHUNKS];
	uint64_t position = stream->nr_sent;
	bool is_broken = false;

	for (uint32_t i = 0; i < nr; i++) {
		lengths[i] = put_send(stream, ring, position, parts[i], i);
		position += lengths[i];
	}
	ring->sqes[(ring->prepared - 1) & ring->sq_mask].flags = 0;
	while (nr_due) {
		struct io_uring_cqe cqe = next(ring);

		demand(cqe.user_data < nr, "a completion of nobody's",
		       (int64_t)cqe.user_data, cqe.res);
		if (!(cqe.flags & IORING_CQE_F_NOTIF))
			results[cqe.user_data] = cqe.res;
		nr_due -= !(cqe.flags & IORING_CQE_F_MORE);
	}
	for (uint32_t i = 0; i < nr; i++) {
		if (is_broken) {
			demand(results[i] == -ECANCELED, "after a short send",
			       results[i], lengths[i]);
			continue;
		}
		demand(results[i] > 0 && results[i] <= lengths[i], "a send",
		       results[i], lengths[i]);
		stream->nr_sent += (uint64_t)results[i];
		is_broken = results[i] < lengths[i];
	}
}

static void *send_all(void *arg)
{
	struct stream *stream = arg;
	struct uring ring;

	open_ring(&ring);
	while (stream->nr_sent < stream->goal)
		send_chain(stream, &ring);
	close_ring(&ring);
	close(stream->out);
	return NULL;
}

/*
 * receivers
 */

static void check(struct stream *stream, const char *bytes, uint32_t nr)
{
	while (nr) {
		const uint64_t at = stream->nr_received % PERIOD;
		const uint32_t part = nr < CHUNK ? nr : CHUNK;

		demand(memcmp(bytes, pattern + at, part) == 0,
		       "bytes at a wrong place: position, length",
		       (int64_t)stream->nr_received, part);
		stream->nr_received += part;
		bytes += part;
		nr -= part;
	}
}

/*
 * A ring of provided buffers, which are always provided in the order of their ids.
 */
struct buffers {
	struct io_uring_buf_ring *ring;
	char (*memory)[BUFFER];
	uint16_t tail, head; /* counts of provided and of used buffers */
	uint32_t at;         /* bytes already used of the buffer at `head` */
	uint32_t nr_back;    /* used buffers that are not yet provided again */
};

static void give(struct buffers *buffers, uint32_t nr)
{
	for (; nr; nr--) {
		const uint16_t bid = buffers->tail & (NR_BUFFERS - 1);
		struct io_uring_buf *buf = &buffers->ring->bufs[bid];

		memset(buffers->memory[bid], 0, BUFFER);
		buf->addr = (uintptr_t)buffers->memory[bid];
		buf->len = BUFFER;
		buf->bid = bid;
		buffers->tail++;
	}
	__atomic_store_n(&buffers->ring->tail, buffers->tail, __ATOMIC_RELEASE);
}

static void open_buffers(struct buffers *buffers, struct uring *ring,
			 uint16_t flags)
{
	struct io_uring_buf_reg reg = { .ring_entries = NR_BUFFERS,
					.bgid = GROUP,
					.flags = flags };
	long ret;

	*buffers = (struct buffers){
		.ring = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
		.memory = malloc(NR_BUFFERS * BUFFER),
	};
	demand(buffers->ring != MAP_FAILED && buffers->memory, "memory", errno,
	       0);
	reg.ring_addr = (uintptr_t)buffers->ring;
	ret = uring_register(ring->fd, IORING_REGISTER_PBUF_RING, &reg, 1);
	demand(ret == 0, "a buffer ring", ret, 0);
	give(buffers, NR_BUFFERS);
}

static void close_buffers(struct buffers *buffers)
{
	munmap(buffers->ring, 4096);
	free(buffers->memory);
}

/*
 * Account for nr received bytes. They must begin in the oldest provided buffer, whose
 * id must be bid, and continue in the next ones.
 */
static void use(struct stream *stream, struct buffers *buffers, uint32_t bid,
		uint32_t nr, bool is_partly)
{
	demand(bid == (buffers->head & (NR_BUFFERS - 1)),
	       "a buffer out of its order", bid, buffers->head);
	while (nr) {
		const uint32_t slot = buffers->head & (NR_BUFFERS - 1);
		const uint32_t room = BUFFER - buffers->at;
		const uint32_t part = nr < room ? nr : room;

		demand(buffers->head != buffers->tail,
		       "more bytes than buffers", nr, buffers->head);
		check(stream, buffers->memory[slot] + buffers->at, part);
		nr -= part;
		if (nr || !is_partly) {
			buffers->head++;
			buffers->nr_back++;
			buffers->at = 0;
		} else {
			buffers->at += part;
		}
	}
	if (!stream->starves) {
		give(buffers, buffers->nr_back);
		buffers->nr_back = 0;
	}
}

static void put_shots(const struct stream *stream, struct uring *ring)
{
	const bool is_pipe = stream->kind == PIPE;
	struct io_uring_sqe *sqe = uring_put(
		ring, is_pipe ? IORING_OP_READ_MULTISHOT : IORING_OP_RECV,
		stream->in, 1);

	sqe->flags = IOSQE_BUFFER_SELECT;
	sqe->buf_group = GROUP;
	if (is_pipe)
		sqe->off = (uint64_t)-1;
	else
		sqe->ioprio =
			IORING_RECV_MULTISHOT |
			(stream->receiving == BUNDLES ? IORING_RECVSEND_BUNDLE
						      : 0);
}

static void receive_shots(struct stream *stream, struct uring *ring)
{
	const bool is_incremental = stream->receiving == INCREMENTAL;
	struct buffers buffers;
	bool is_armed = false;

	open_buffers(&buffers, ring, is_incremental ? IOU_PBUF_RING_INC : 0);
	for (;;) {
		struct io_uring_cqe cqe;

		if (!is_armed)
			put_shots(stream, ring);
		cqe = next(ring);
		is_armed = cqe.flags & IORING_CQE_F_MORE;
		if (cqe.res == -ENOBUFS) {
			demand(!stream->starves || buffers.head == buffers.tail,
			       "no buffers where there are", buffers.head,
			       buffers.tail);
			give(&buffers, buffers.nr_back);
			buffers.nr_back = 0;
			continue;
		}
		demand(cqe.res >= 0, "a receive", cqe.res, 0);
		if (!cqe.res)
			break;
		demand(cqe.flags & IORING_CQE_F_BUFFER, "no buffer named",
		       cqe.res, cqe.flags);
		use(stream, &buffers, cqe.flags >> IORING_CQE_BUFFER_SHIFT,
		    (uint32_t)cqe.res,
		    is_incremental && cqe.flags & IORING_CQE_F_BUF_MORE);
	}
	demand(!is_armed, "shots after the end", 0, 0);
	close_buffers(&buffers);
}

static void receive_whole(struct stream *stream, struct uring *ring)
{
	char *memory = malloc(CHUNK);
	struct io_uring_cqe cqe;

	demand(memory, "memory", errno, 0);
	do {
		uint32_t bytes = 1 + draw(&stream->random_receiver, CHUNK);

		(void)uring_put_rw(ring,
				   stream->kind == PIPE ? IORING_OP_READ
							: IORING_OP_RECV,
				   stream->in, (uintptr_t)memory, bytes, 0, 1);
		cqe = next(ring);
		demand(cqe.res >= 0 && cqe.res <= (int64_t)bytes, "a receive",
		       cqe.res, bytes);
		check(stream, memory, (uint32_t)cqe.res);
	} while (cqe.res);
	free(memory);
}

/*
 * A splice may move fewer bytes than requested, which breaks a normal link. So a hard
 * link starts the read.
 */
static void receive_splices(struct stream *stream, struct uring *ring)
{
	char *memory = malloc(CHUNK);
	int between[2], nr_moved;

	demand(memory && pipe2(between, O_CLOEXEC) == 0, "a pipe", errno, 0);
	do {
		struct io_uring_sqe *sqe =
			uring_put(ring, IORING_OP_SPLICE, between[1], 1);
		int results[2] = { 0 };

		sqe->splice_fd_in = stream->in;
		sqe->splice_off_in = sqe->off = (uint64_t)-1;
		sqe->len = 1 + draw(&stream->random_receiver, CHUNK);
		sqe->flags = IOSQE_IO_HARDLINK;
		(void)uring_put_rw(ring, IORING_OP_READ, between[0],
				   (uintptr_t)memory, CHUNK, (uint64_t)-1, 2);
		for (int i = 0; i < 2; i++) {
			struct io_uring_cqe cqe = next(ring);

			results[cqe.user_data - 1] = cqe.res;
			/*
			 * The splice found the end of the stream. Close the pipe, so
			 * that the linked read does not wait for ever.
			 */
			if (cqe.user_data == 1 && !cqe.res)
				close(between[1]);
		}
		nr_moved = results[0];
		demand(nr_moved >= 0, "a splice", nr_moved, 0);
		demand(results[1] == nr_moved, "a read behind a splice",
		       results[1], nr_moved);
		check(stream, memory, (uint32_t)nr_moved);
	} while (nr_moved);
	close(between[0]);
	free(memory);
}

static void *receive_all(void *arg)
{
	struct stream *stream = arg;
	struct uring ring;

	open_ring(&ring);
	switch (stream->receiving) {
	case WHOLE: receive_whole(stream, &ring); break;
	case SPLICES: receive_splices(stream, &ring); break;
	default: receive_shots(stream, &ring); break;
	}
	close_ring(&ring);
	close(stream->in);
	return NULL;
}

/*
 * scenarios
 */

static void connect_tcp(int fds[2])
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(address);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	demand(bind(listening, (void *)&address, len) == 0 &&
		       listen(listening, 1) == 0 &&
		       getsockname(listening, (void *)&address, &len) == 0,
	       "a listening socket", errno, 0);
	fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	demand(connect(fds[1], (void *)&address, len) == 0, "connect", errno,
	       0);
	fds[0] = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
	demand(fds[0] >= 0, "accept", errno, 0);
	close(listening);
}

static void open_stream(struct stream *stream)
{
	int fds[2], ret = 0;

	*stream = (struct stream){
		.kind = draw(&state, NR_STREAM_KINDS),
		.sending = draw(&state, NR_SENDINGS),
		.receiving = draw(&state, NR_RECEIVINGS),
		.starves = draw(&state, 2),
		.goal = 1 + draw(&state, WORLD_BYTES),
		.random_sender = state ^ 1,
		.random_receiver = state ^ 2,
	};
	/*
	 * Bytes get into a pipe only by writes, not by sends. Only TCP has zero-copy
	 * sends.
	 */
	if (stream->kind == PIPE && stream->sending != VECTORS)
		stream->sending = WRITES;
	if (stream->kind == UNIX && stream->sending == ZERO_COPY)
		stream->sending = SENDS;
	/*
	 * A pipe gets multishot reads instead of receives; both use provided buffers in
	 * the same way.
	 */
	if (stream->kind == PIPE && stream->receiving == BUNDLES)
		stream->receiving = SHOTS;
	if (stream->kind == PIPE)
		ret = pipe2(fds, O_CLOEXEC);
	else if (stream->kind == UNIX)
		ret = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds);
	else
		connect_tcp(fds);
	demand(ret == 0, "a stream", errno, 0);
	stream->in = fds[0];
	stream->out = fds[1];
}

static uint64_t run_world(void)
{
	struct stream streams[NR_PAIRS];
	pthread_t senders[NR_PAIRS], receivers[NR_PAIRS];
	uint64_t nr_bytes = 0;

	alarm(HANG_S);
	for (int i = 0; i < NR_PAIRS; i++) {
		open_stream(&streams[i]);
		demand(pthread_create(&senders[i], NULL, send_all,
				      &streams[i]) == 0 &&
			       pthread_create(&receivers[i], NULL, receive_all,
					      &streams[i]) == 0,
		       "a thread", i, 0);
	}
	for (int i = 0; i < NR_PAIRS; i++) {
		pthread_join(senders[i], NULL);
		pthread_join(receivers[i], NULL);
		demand(streams[i].nr_sent == streams[i].nr_received,
		       "sent, received", (int64_t)streams[i].nr_sent,
		       (int64_t)streams[i].nr_received);
		nr_bytes += streams[i].nr_received;
	}
	return nr_bytes;
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/*
 * Return: the lowest free descriptor. If a scenario leaves a descriptor open, a later
 * call returns a higher one.
 */
static int lowest_free(void)
{
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

	close(fd);
	return fd;
}

static void read_options(int argc, char **argv)
{
	static const struct option options[] = {
		{ "seed", required_argument, NULL, 's' },
		{ "seconds", required_argument, NULL, 'n' },
		{ 0 },
	};
	int option;

	program = argv[0];
	seed = (uint64_t)now_ns() % 1000000007;
	while ((option = getopt_long(argc, argv, "", options, NULL)) > 0) {
		if (option == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (option == 'n')
			seconds = (unsigned)strtoul(optarg, NULL, 0);
		else
			exit(2);
	}
}

int main(int argc, char **argv)
{
	uint64_t nr_bytes = 0;
	int64_t end;
	int lowest;

	read_options(argc, argv);
	printf("seed %" PRIu64 "\n", seed);
	fflush(stdout);
	state = seed * 0x9e3779b97f4a7c15u + 1;
	for (uint32_t i = 0; i < sizeof(pattern); i++)
		pattern[i] = (char)(i % PERIOD * 2654435761u >> 13);
	signal(SIGALRM, on_alarm);
	signal(SIGPIPE, SIG_IGN);
	end = now_ns() + seconds * INT64_C(1000000000);
	nr_bytes += run_world();
	lowest = lowest_free();
	while (now_ns() < end)
		nr_bytes += run_world();
	demand(lowest_free() == lowest, "descriptors stay", lowest_free(),
	       lowest);
	printf("counted %" PRIu64 " MiB: 0 lost\n", nr_bytes >> 20);
	return 0;
}
