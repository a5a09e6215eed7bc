/* SPDX-License-Identifier: MIT */
/*
 * uring-http: an HTTP server that needs only the first version of io_uring. Each
 * request accepts one connection, receives available bytes into the connection's
 * memory, or sends. When a request has completed, the server submits the next one.
 *
 * The answer to `GET /N` is N bytes, each computed from N and its position. A
 * connection serves one HTTP request after another, until the client shuts it down.
 */
#include <malloc.h>
#include <stdbool.h>

#include "serve.h"

enum { ASKED_BYTES = 1024, BODY_BYTES_MAX = 1 << 20, HEAD_BYTES = 64 };

enum what { END, ACCEPT, RECEIVE, SEND };

struct connection {
	bool is_at_end;
	/* bytes of the HTTP request, of the response, and of the response already sent */
	size_t asked, answered, sent;
	char question[ASKED_BYTES + 1];
	char *answer; /* owns */
};

static struct io_uring ring;
static struct connection **connections; /* indexed by descriptor; owns */
static int listening, nr_connections;
static char end[1];

static void accept_one(void)
{
	struct io_uring_sqe *sqe = serve_sqe(&ring);

	io_uring_prep_accept(sqe, listening, NULL, NULL, SOCK_CLOEXEC);
	io_uring_sqe_set_data64(sqe, serve_data(ACCEPT, listening));
}

static void receive(int fd)
{
	struct connection *from = connections[fd];
	struct io_uring_sqe *sqe = serve_sqe(&ring);

	REQUIRE(from->asked < ASKED_BYTES);
	io_uring_prep_recv(sqe, fd, from->question + from->asked,
			   ASKED_BYTES - from->asked, 0);
	io_uring_sqe_set_data64(sqe, serve_data(RECEIVE, fd));
}

static void send_rest(int fd)
{
	struct connection *to = connections[fd];
	struct io_uring_sqe *sqe = serve_sqe(&ring);

	io_uring_prep_send(sqe, fd, to->answer + to->sent,
			   to->answered - to->sent, MSG_NOSIGNAL);
	io_uring_sqe_set_data64(sqe, serve_data(SEND, fd));
}

static void hang_up(int fd)
{
	free(connections[fd]->answer);
	free(connections[fd]);
	connections[fd] = NULL;
	REQUIRE(close(fd) == 0);
	/*
	 * Return free memory to the kernel, so that the test can measure the memory of
	 * an idle server.
	 */
	if (--nr_connections == 0)
		malloc_trim(0);
}

static void make_answer(struct connection *with, size_t bytes)
{
	char *at = malloc(HEAD_BYTES + bytes);
	int head;

	REQUIRE(at && bytes <= BODY_BYTES_MAX);
	head = snprintf(at, HEAD_BYTES,
			"HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n",
			bytes);
	for (size_t i = 0; i < bytes; i++)
		at[(size_t)head + i] = (char)((bytes * 7 + i) % 251);
	free(with->answer);
	with->answer = at;
	with->answered = (size_t)head + bytes;
	with->sent = 0;
}

/*
 * If the buffer begins with a whole HTTP request, remove the request and make its
 * answer.
 * Return: whether it did so.
 */
static bool take_question(struct connection *from)
{
	size_t bytes, taken;
	char *over;

	from->question[from->asked] = '\0';
	over = strstr(from->question, "\r\n\r\n");
	if (!over)
		return false;
	REQUIRE(sscanf(from->question, "GET /%zu HTTP/1.1\r\n", &bytes) == 1);
	taken = (size_t)(over + 4 - from->question);
	from->asked -= taken;
	memmove(from->question, from->question + taken, from->asked);
	make_answer(from, bytes);
	return true;
}

static void go_on(int fd)
{
	struct connection *with = connections[fd];

	if (take_question(with))
		send_rest(fd);
	else if (with->is_at_end)
		hang_up(fd);
	else
		receive(fd);
}

static void accepted(int fd)
{
	REQUIRE(fd >= 0 && (size_t)fd < serve_nr_fds());
	REQUIRE(!connections[fd]);
	connections[fd] = calloc(1, sizeof(*connections[fd]));
	REQUIRE(connections[fd]);
	nr_connections++;
	receive(fd);
	accept_one();
}

static void received(int fd, int res)
{
	struct connection *from = connections[fd];

	REQUIRE(res >= 0 || res == -ECONNRESET);
	if (res < 0) {
		hang_up(fd);
		return;
	}
	from->asked += (size_t)res;
	from->is_at_end = res == 0;
	go_on(fd);
}

static void sent(int fd, int res)
{
	struct connection *to = connections[fd];

	REQUIRE(res > 0 || res == -EPIPE || res == -ECONNRESET);
	if (res < 0) {
		hang_up(fd);
		return;
	}
	to->sent += (size_t)res;
	if (to->sent < to->answered)
		send_rest(fd);
	else
		go_on(fd);
}

static int take(const struct io_uring_cqe *cqe)
{
	int fd = (int)(uint32_t)cqe->user_data;

	switch ((enum what)(cqe->user_data >> 32)) {
	case END: REQUIRE(cqe->res == 0); return 1;
	case ACCEPT: accepted(cqe->res); break;
	case RECEIVE: received(fd, cqe->res); break;
	case SEND: sent(fd, cqe->res); break;
	default: REQUIRE(!"a completion of a request of ours");
	}
	return 0;
}

int main(void)
{
	struct io_uring_sqe *sqe;

	REQUIRE((connections = calloc(serve_nr_fds(), sizeof(*connections))));
	REQUIRE(io_uring_queue_init(SERVE_ENTRIES, &ring, 0) == 0);
	sqe = serve_sqe(&ring);
	io_uring_prep_read(sqe, STDIN_FILENO, end, sizeof(end), 0);
	io_uring_sqe_set_data64(sqe, serve_data(END, STDIN_FILENO));
	listening = serve_listen();
	accept_one();
	serve(&ring, take);
	io_uring_queue_exit(&ring);
	free(connections);
	return 0;
}
