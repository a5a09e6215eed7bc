/* SPDX-License-Identifier: MIT */
/*
 * uring-echo: an echo server that uses the features of recent io_uring versions
 *
 * One multishot request accepts all connections. For each connection, one multishot
 * request receives into provided buffers, which all connections share. Each connection
 * has a list of its received buffers. The server sends the first buffer of the list,
 * then gives this buffer back to the kernel. If a connection has too many buffers, or a
 * receive found no free buffer, the server stops receiving for this connection until all
 * its buffers are sent.
 */
#include <stdbool.h>

#include "serve.h"

enum {
	NR_BUFFERS = 1 << 15,
	BUFFER_BYTES = 2048,
	MANY = 8, /* a connection with this many unsent buffers stops receiving */
	NONE = -1,
};

enum what { END, ACCEPT, RECEIVE, SEND, CANCEL, CLOSE };

struct connection {
	bool is_open, is_receiving, is_cancelled, is_sending;
	bool is_at_end; /* the client sends no more bytes */
	/* list of the received buffers, linked by next[] */
	int first, last, nr;
	int sent; /* bytes of the list's first buffer already sent */
};

static struct io_uring ring;
static struct io_uring_buf_ring *array;
static struct connection *connections; /* indexed by descriptor */
static char *memory;
static int next[NR_BUFFERS], bytes_of[NR_BUFFERS];
static int listening;
static char end[1];

static void give_back(int id)
{
	io_uring_buf_ring_add(array, memory + (size_t)id * BUFFER_BYTES,
			      BUFFER_BYTES, (unsigned short)id,
			      io_uring_buf_ring_mask(NR_BUFFERS), 0);
	io_uring_buf_ring_advance(array, 1);
}

static void set_up_buffers(void)
{
	struct io_uring_buf_reg reg = { .ring_entries = NR_BUFFERS };
	void *at;

	REQUIRE(posix_memalign(&at, 4096,
			       NR_BUFFERS * sizeof(struct io_uring_buf)) == 0);
	array = at;
	REQUIRE((memory = malloc((size_t)NR_BUFFERS * BUFFER_BYTES)));
	/*
	 * Write to all buffers now, so that their pages exist: if the process uses more
	 * memory later, the cause is something else.
	 */
	memset(memory, 0, (size_t)NR_BUFFERS * BUFFER_BYTES);
	reg.ring_addr = (uintptr_t)array;
	REQUIRE(io_uring_register_buf_ring(&ring, &reg, 0) == 0);
	io_uring_buf_ring_init(array);
	for (int id = 0; id < NR_BUFFERS; id++)
		give_back(id);
}

static struct io_uring_sqe *new_sqe(enum what what, int fd)
{
	struct io_uring_sqe *sqe = serve_sqe(&ring);

	memset(sqe, 0, sizeof(*sqe));
	sqe->user_data = serve_data(what, fd);
	return sqe;
}

static void set_data(struct io_uring_sqe *sqe, enum what what, int fd)
{
	io_uring_sqe_set_data64(sqe, serve_data(what, fd));
}

static void accept_all(void)
{
	struct io_uring_sqe *sqe = new_sqe(ACCEPT, listening);

	io_uring_prep_multishot_accept(sqe, listening, NULL, NULL, 0);
	set_data(sqe, ACCEPT, listening);
}

static void receive(int fd)
{
	struct io_uring_sqe *sqe = new_sqe(RECEIVE, fd);

	io_uring_prep_recv_multishot(sqe, fd, NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	set_data(sqe, RECEIVE, fd);
	connections[fd].is_receiving = true;
	connections[fd].is_cancelled = false;
}

static void receive_no_more(int fd)
{
	struct io_uring_sqe *sqe = new_sqe(CANCEL, fd);

	io_uring_prep_cancel64(sqe, serve_data(RECEIVE, fd), 0);
	set_data(sqe, CANCEL, fd);
	connections[fd].is_cancelled = true;
}

static void send_first(int fd)
{
	struct connection *to = &connections[fd];
	struct io_uring_sqe *sqe = new_sqe(SEND, fd);

	io_uring_prep_send(
		sqe, fd, memory + (size_t)to->first * BUFFER_BYTES + to->sent,
		(size_t)(bytes_of[to->first] - to->sent), MSG_NOSIGNAL);
	set_data(sqe, SEND, fd);
	to->is_sending = true;
}

static void drop_first(struct connection *of)
{
	int id = of->first;

	of->first = next[id];
	of->sent = 0;
	of->nr--;
	give_back(id);
}

/* When an operation of the connection has completed, start the next one. */
static void go_on(int fd)
{
	struct connection *with = &connections[fd];
	struct io_uring_sqe *sqe;

	if (with->is_sending)
		return;
	if (with->nr) {
		send_first(fd);
	} else if (!with->is_receiving && !with->is_at_end) {
		receive(fd);
	} else if (!with->is_receiving && with->is_open) {
		with->is_open = false;
		sqe = new_sqe(CLOSE, fd);
		io_uring_prep_close(sqe, fd);
		set_data(sqe, CLOSE, fd);
	}
}

static void accepted(const struct io_uring_cqe *cqe)
{
	REQUIRE(cqe->res >= 0);
	REQUIRE((size_t)cqe->res < serve_nr_fds());
	REQUIRE(!connections[cqe->res].is_open);
	connections[cqe->res] = (struct connection){ .is_open = true };
	receive(cqe->res);
	if (!(cqe->flags & IORING_CQE_F_MORE))
		accept_all();
}

static void received(int fd, const struct io_uring_cqe *cqe)
{
	struct connection *from = &connections[fd];
	int id = (int)(cqe->flags >> IORING_CQE_BUFFER_SHIFT);

	REQUIRE(from->is_open && from->is_receiving);
	if (cqe->res > 0) {
		REQUIRE(cqe->flags & IORING_CQE_F_BUFFER);
		REQUIRE(cqe->res <= BUFFER_BYTES && id < NR_BUFFERS);
		bytes_of[id] = cqe->res;
		if (from->nr++)
			next[from->last] = id;
		else
			from->first = id;
		from->last = id;
	} else {
		REQUIRE(!(cqe->flags & IORING_CQE_F_BUFFER));
		from->is_at_end |=
			cqe->res != -ENOBUFS && cqe->res != -ECANCELED;
		REQUIRE(!(cqe->flags & IORING_CQE_F_MORE));
	}
	if (!(cqe->flags & IORING_CQE_F_MORE))
		from->is_receiving = false;
	else if (from->nr >= MANY && !from->is_cancelled)
		receive_no_more(fd);
	go_on(fd);
}

static void sent(int fd, int res)
{
	struct connection *to = &connections[fd];

	REQUIRE(to->is_open && to->is_sending);
	to->is_sending = false;
	if (res >= 0) {
		to->sent += res;
		if (to->sent == bytes_of[to->first])
			drop_first(to);
	} else {
		REQUIRE(res == -EPIPE || res == -ECONNRESET);
		to->is_at_end = true;
		while (to->nr)
			drop_first(to);
		if (to->is_receiving && !to->is_cancelled)
			receive_no_more(fd);
	}
	go_on(fd);
}

static int take(const struct io_uring_cqe *cqe)
{
	int fd = (int)(uint32_t)cqe->user_data;

	switch ((enum what)(cqe->user_data >> 32)) {
	case END: REQUIRE(cqe->res == 0); return 1;
	case ACCEPT: accepted(cqe); break;
	case RECEIVE: received(fd, cqe); break;
	case SEND: sent(fd, cqe->res); break;
	case CANCEL:
		/*
		 * ENOENT and EALREADY are no errors: the receive has ended by itself,
		 * or is about to.
		 */
		REQUIRE(cqe->res == 0 || cqe->res == -ENOENT ||
			cqe->res == -EALREADY);
		break;
	case CLOSE: REQUIRE(cqe->res == 0); break;
	default: REQUIRE(!"a completion of a request of ours");
	}
	return 0;
}

int main(void)
{
	struct io_uring_sqe *sqe;

	REQUIRE((connections = calloc(serve_nr_fds(), sizeof(*connections))));
	REQUIRE(io_uring_queue_init(SERVE_ENTRIES, &ring, 0) == 0);
	set_up_buffers();
	sqe = new_sqe(END, STDIN_FILENO);
	io_uring_prep_read(sqe, STDIN_FILENO, end, sizeof(end), 0);
	set_data(sqe, END, STDIN_FILENO);
	listening = serve_listen();
	accept_all();
	serve(&ring, take);
	io_uring_queue_exit(&ring);
	free(connections);
	free(memory);
	free(array);
	return 0;
}
