/* SPDX-License-Identifier: MIT */
/*
 * Chains in which some requests post no completion if they succeed
 * (IOSQE_CQE_SKIP_SUCCESS).
 *
 * Here a chain is a text with one letter for each request. A "!" after the letter sets
 * IOSQE_CQE_SKIP_SUCCESS, and an "h" makes the link a hard link.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "uring.h"

enum { CHAIN_MAX = 8 };

static char buf[8];

/* Return: the read end of a pipe that stays empty. */
static int quiet_pipe(void)
{
	int fds[2];

	REQUIRE(pipe(fds) == 0);
	return fds[0];
}

static int end_of_pair(void)
{
	int pair[2];

	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	return pair[0];
}

/* Prepares a splice of two bytes from a pipe that has nr bytes. */
static struct io_uring_sqe *splice_of(struct uring *ring, size_t nr)
{
	struct io_uring_sqe *sqe;
	int from[2], to[2];

	REQUIRE(pipe(from) == 0 && pipe(to) == 0);
	REQUIRE(write(from[1], buf, nr) == (ssize_t)nr);
	sqe = sqe_of(ring, IORING_OP_SPLICE, to[1]);
	sqe->splice_fd_in = from[0];
	sqe->splice_off_in = sqe->off = (uint64_t)-1;
	sqe->len = 2;
	return sqe;
}

static struct io_uring_sqe *one(struct uring *ring, char kind,
				const struct __kernel_timespec *spans)
{
	struct io_uring_sqe *sqe;

	switch (kind) {
	case 'f': /* a read that fails when it begins */
		return sqe_rw(ring, IORING_OP_READ, 77777, buf, 1, 0);
	case 's': /* a read that returns less than requested */
		return sqe_rw(ring, IORING_OP_READ, file_of("f", 4, O_RDONLY),
			      buf, sizeof(buf), 0);
	case 'm': /* an unknown opcode */ return sqe_of(ring, 200, -1);
	case 'u': /* an unlink that fails, but does not break its chain */
		return sqe_rw(ring, IORING_OP_UNLINKAT, AT_FDCWD, "missing", 0,
			      0);
	case 'b': /* an fsync of a bad descriptor, which breaks the chain */
		return sqe_of(ring, IORING_OP_FSYNC, 77777);
	case 'x': /* reads an attribute without a name, which is a mistake */
		return sqe_rw(ring, IORING_OP_FGETXATTR,
			      file_of("f", 4, O_RDONLY), "", 0, 0);
	case 'c': /* a splice that moves less than requested */
		return splice_of(ring, 1);
	case 'C': return splice_of(ring, 2);
	case 'v': /* a write to a file that cannot be written */
		return sqe_rw(ring, IORING_OP_WRITE,
			      timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK),
			      buf, 1, 0);
	case 'z': /* a zero-copy send, with a second completion */
		return sqe_rw(ring, IORING_OP_SEND_ZC, end_of_pair(), buf, 1,
			      0);
	case 'w': /* a poll that waits for ever */
		sqe = sqe_of(ring, IORING_OP_POLL_ADD, quiet_pipe());
		sqe->poll32_events = POLLIN;
		return sqe;
	case 'e': /* a timeout that ends soon */
		return sqe_rw(ring, IORING_OP_TIMEOUT, -1, &spans[0], 1, 0);
	case 'E': /* a timeout that ends soon, and whose expiry counts as success */
		sqe = sqe_rw(ring, IORING_OP_TIMEOUT, -1, &spans[0], 1, 0);
		sqe->timeout_flags = IORING_TIMEOUT_ETIME_SUCCESS;
		return sqe;
	case 'l': /* a linked timeout that ends soon */
		return sqe_rw(ring, IORING_OP_LINK_TIMEOUT, -1, &spans[0], 1,
			      0);
	case 'L': /* a linked timeout with MULTISHOT, which expires */
		sqe = sqe_rw(ring, IORING_OP_LINK_TIMEOUT, -1, &spans[0], 1, 0);
		sqe->timeout_flags = IORING_TIMEOUT_MULTISHOT;
		return sqe;
	case 't': /* a linked timeout that does not expire */
		return sqe_rw(ring, IORING_OP_LINK_TIMEOUT, -1, &spans[1], 1,
			      0);
	default: return sqe_of(ring, IORING_OP_NOP, -1);
	}
}

static void put_chain(struct uring *ring, const char *text,
		      const struct __kernel_timespec *spans)
{
	struct io_uring_sqe *sqe = NULL;

	for (const char *at = text; *at; at++) {
		if (*at == '!') {
			sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
			continue;
		}
		if (*at == 'h') {
			sqe->flags |= IOSQE_IO_HARDLINK;
			continue;
		}
		if (sqe)
			sqe->flags |= IOSQE_IO_LINK;
		sqe = one(ring, *at, spans);
	}
}

/* A chain as text, and the number of completions that the kernel posts for it. */
struct chain {
	const char *text;
	uint32_t nr;
};

static void note_chains(const struct chain *chain, uint32_t flags)
{
	const struct __kernel_timespec spans[] = { SPAN_SOON, SPAN_NEVER };

	for (; chain->text; chain++) {
		struct uring ring =
			new_uring(CHAIN_MAX, flags | IORING_SETUP_SUBMIT_ALL);

		put_chain(&ring, chain->text, spans);
		note_result(chain->text, uring_submit(&ring));
		/*
		 * Wait twice: the first wait may end when a timeout of the chain
		 * expires, before the requests after that timeout complete.
		 */
		note("there", uring_wait(&ring, chain->nr) ||
				      uring_wait(&ring, chain->nr));
		/* Wait for a no-op, which gives unexpected completions time to arrive. */
		sqe_of(&ring, IORING_OP_NOP, -1);
		uring_submit(&ring);
		note_cqes(chain->text, &ring, chain->nr + 1);
		close(ring.fd);
	}
}

static void successes(void)
{
	static const struct chain chains[] = {
		{ "n!n!n!", 0 }, { "n!nh!n!", 0 }, { "n!n!n", 1 },
		{ "n!nn!", 1 },  { "n!hn!n", 1 },  { "E!n", 1 },
		{ NULL, 0 },
	};

	note_chains(chains, 0);
}

static void failures(void)
{
	static const struct chain chains[] = {
		{ "f!n", 1 },     { "f!n!", 1 }, { "f!n!n", 1 },
		{ "n!f!nn", 1 },  { "s!n", 1 },  { "s!n!n", 1 },
		{ "e!n", 1 },     { "fn!", 2 },  { "nf!nn!", 2 },
		{ "f!hf!n", 2 },  { "sn!", 2 },  { "en!", 2 },
		{ "f!hn", 2 },    { "fn!n", 3 }, { "fn!n!", 3 },
		{ "f!hn!fn", 3 }, { NULL, 0 },
	};

	note_chains(chains, 0);
	note_chains(chains,
		    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN);
}

static void mistakes(void)
{
	static const struct chain chains[] = {
		{ "m!n", 1 },  { "m!n!", 1 },  { "mn!", 2 },
		{ "nm!n", 3 }, { "n!mn", 1 },  { "n!mt", 1 },
		{ "nt!m", 2 }, { "nt!mn", 3 }, { NULL, 0 },
	};

	note_chains(chains, 0);
}

static void timeouts(void)
{
	static const struct chain chains[] = {
		{ "nt!", 1 },    { "n!t!", 0 },  { "n!t", 1 },
		{ "ft!", 1 },    { "f!t", 2 },   { "f!t!", 1 },
		{ "f!nt", 1 },   { "fnt!", 3 },  { "fnt!n", 4 },
		{ "f!nt!n", 1 }, { "wl", 2 },    { "wl!", 1 },
		{ "w!l", 2 },    { "w!l!", 1 },  { "wl!n", 2 },
		{ "w!ln", 2 },   { "w!l!n", 1 }, { "wl!hn", 2 },
		{ "wl!hn!", 2 }, { "w!hln", 3 }, { "f!tnn", 2 },
		{ "nL!n", 2 },   { "wL", 2 },    { "wL!n", 2 },
		{ "nhLn", 3 },   { NULL, 0 },
	};

	note_chains(chains, 0);
}

/*
 * With IOSQE_CQE_SKIP_SUCCESS, a request posts no completion even if it fails, unless
 * its failure would break a chain.
 */
static void other_failures(void)
{
	static const struct chain chains[] = {
		{ "u!", 0 },   { "u!n!", 0 },  { "u!n", 1 },   { "nu!", 1 },
		{ "b!", 1 },   { "b!n", 1 },   { "n!b!n", 1 }, { "x!", 1 },
		{ "x!n", 1 },  { "n!x!n", 1 }, { "nx!", 2 },   { "c!", 1 },
		{ "c!n", 1 },  { "C!n", 1 },   { "f!z", 2 },   { "m!z", 2 },
		{ "f!zn", 2 }, { "v!hn", 2 },  { "v!n", 1 },   { "v!hn!", 1 },
		{ "vhn", 2 },  { NULL, 0 },
	};

	note_chains(chains, 0);
}

/*
 * A linked timeout that follows another linked timeout is a mistake, even if the first
 * one is valid.
 */
static void timeouts_of_none(void)
{
	static const struct chain chains[] = {
		{ "t!t", 1 },   { "tt!", 2 },  { "nt!t!", 2 },
		{ "n!tt!", 1 }, { "t!tn", 1 }, { NULL, 0 },
	};
	const struct __kernel_timespec spans[] = { SPAN_SOON, SPAN_NEVER };

	note_chains(chains, 0);
	for (const struct chain *chain = chains; chain->text; chain++) {
		struct uring ring = new_uring(CHAIN_MAX, 0);

		put_chain(&ring, chain->text, spans);
		sqe_of(&ring, IORING_OP_NOP, -1);
		note_result("taken", uring_submit(&ring));
		note_cqes(chain->text, &ring, chain->nr);
		close(ring.fd);
	}
}

const struct row rows_uring_skip[] = {
	ROW("chains that succeed are told of in part", successes),
	ROW("chains that fail are told of in part", failures),
	ROW("chains with a mistake are told of in part", mistakes),
	ROW("chains with linked timeouts are told of in part", timeouts),
	ROW("errors that break no chain are not told of", other_failures),
	ROW("a linked timeout behind what was to be one is a mistake",
	    timeouts_of_none),
	NO_ROW,
};
