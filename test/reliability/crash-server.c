/* SPDX-License-Identifier: MIT */
/*
 * crash-server STATE DEVICE: a FUSE file system that loses the data that was not synced
 *
 * A FUSE server without libfuse. DEVICE is the descriptor of /dev/fuse, already mounted
 * and non-blocking. The file system has one file, "records". Written data stays in the
 * server's own memory, so it is lost when the server ends. A sync, and a write with
 * O_DSYNC or O_SYNC, copies the data that must be durable to the image in STATE
 * (crash.h).
 *
 * If several writes and syncs wait, the server executes them in random order. Now and
 * then it pauses, so that more requests wait. Suppose that a library starts a sync too
 * early: a write that the sync must include has not returned yet. Then the server may
 * execute the sync first, and the write is lost.
 *
 * When the round (crash.h) ends, the server kills the client. Then the server exits at
 * once, as if the machine had lost power; with is_power_on, it continues to answer
 * instead. The server also exits when its standard input ends.
 */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <linux/fuse.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>

#include "clock.h"
#include "crash.h"

/* lacking in the headers of Linux 5.10 */
#ifndef FOPEN_PARALLEL_DIRECT_WRITES
#define FOPEN_PARALLEL_DIRECT_WRITES (1 << 6)
#endif

enum {
	ROOT = FUSE_ROOT_ID,
	RECORDS,
	FILE_BYTES = CRASH_SLOTS * CRASH_SLOT_BYTES,
	REQUEST_BYTES = CRASH_WRITE_SLOTS * CRASH_SLOT_BYTES + (1 << 13),
	HELD_MAX = 8,
	PAUSE_US_MAX = 200,
};

union request {
	struct fuse_in_header header;
	char bytes[REQUEST_BYTES];
};

static struct {
	struct crash_state *state;
	int fd; /* /dev/fuse */
	uint64_t random;
	char data[FILE_BYTES];
	uint64_t bytes;
	union request requests[HELD_MAX];
	/* the first nr_held are waiting requests, the others are free */
	union request *held[HELD_MAX];
	unsigned nr_held;
	uint32_t nr_carried_out;
	int64_t ends_ns; /* when the round ends; 0: not yet known */
} server;

static uint32_t draw(uint32_t below)
{
	return crash_draw(&server.random, below);
}

static void answer(const struct fuse_in_header *request, int error,
		   const void *data, size_t bytes)
{
	struct fuse_out_header out = {
		.len = (uint32_t)(sizeof(out) + bytes),
		.error = error,
		.unique = request->unique,
	};
	struct iovec iov[] = { { &out, sizeof(out) }, { (void *)data, bytes } };

	/* ENOENT: the caller no longer waits for the answer. */
	if (writev(server.fd, iov, 2) < 0)
		assert(errno == ENOENT);
}

/*
 * The file
 */

static struct fuse_attr attr_of(uint64_t node)
{
	return (struct fuse_attr){
		.ino = node,
		.size = node == ROOT ? 0 : server.bytes,
		.mode = node == ROOT ? S_IFDIR | 0755 : S_IFREG | 0644,
		.nlink = 1,
		.blksize = CRASH_SLOT_BYTES,
	};
}

static void do_init(const struct fuse_in_header *request)
{
	const struct fuse_init_in *in = (const void *)(request + 1);
	struct fuse_init_out out = {
		.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.max_readahead = in->max_readahead,
		.flags = FUSE_BIG_WRITES | FUSE_MAX_PAGES | FUSE_ASYNC_DIO,
		.max_background = UINT16_MAX,
		.max_write = server.state->write_bytes,
		.max_pages = (uint16_t)(server.state->write_bytes /
					CRASH_SLOT_BYTES),
	};

	if (server.state->writes_back)
		out.flags |= FUSE_WRITEBACK_CACHE;
	answer(request, 0, &out, sizeof(out));
}

static void do_lookup(const struct fuse_in_header *request)
{
	struct fuse_entry_out out = { .nodeid = RECORDS,
				      .attr = attr_of(RECORDS) };

	if (strcmp((const char *)(request + 1), "records"))
		answer(request, -ENOENT, NULL, 0);
	else
		answer(request, 0, &out, sizeof(out));
}

static void do_getattr(const struct fuse_in_header *request)
{
	struct fuse_attr_out out = { .attr = attr_of(request->nodeid) };

	answer(request, 0, &out, sizeof(out));
}

static void do_open(const struct fuse_in_header *request)
{
	struct fuse_open_out out = { .open_flags = 0 };

	if (server.state->is_uncached)
		out.open_flags = FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES;
	answer(request, 0, &out, sizeof(out));
}

static void do_read(const struct fuse_in_header *request)
{
	const struct fuse_read_in *in = (const void *)(request + 1);
	uint64_t end = in->offset + in->size;

	if (end > server.bytes)
		end = server.bytes;
	if (in->offset >= end)
		answer(request, 0, NULL, 0);
	else
		answer(request, 0, server.data + in->offset, end - in->offset);
}

static void make_durable(uint64_t begin, uint64_t end)
{
	memcpy(server.state->image + begin, server.data + begin, end - begin);
	if (end > server.state->bytes)
		server.state->bytes = (uint32_t)end;
}

static void do_write(const struct fuse_in_header *request)
{
	const struct fuse_write_in *in = (const void *)(request + 1);
	uint64_t end = in->offset + in->size;

	assert(end <= FILE_BYTES);
	memcpy(server.data + in->offset, in + 1, in->size);
	if (end > server.bytes)
		server.bytes = end;
	/* O_SYNC includes the bit O_DSYNC. */
	if (in->flags & O_DSYNC)
		make_durable(in->offset, end);
}

static void answer_write(const struct fuse_in_header *request)
{
	const struct fuse_write_in *in = (const void *)(request + 1);
	struct fuse_write_out out = { .size = in->size };

	answer(request, 0, &out, sizeof(out));
}

/*
 * The end
 */

static void end_round(void)
{
	server.ends_ns = 0;
	/*
	 * Set has_ended first: a client whose requests now fail must see that the round
	 * has ended.
	 */
	__atomic_store_n(&server.state->has_ended, 1, __ATOMIC_SEQ_CST);
	(void)kill((pid_t)server.state->pid, SIGKILL);
	if (!server.state->is_power_on)
		_exit(0);
}

/* Execute one of the waiting requests, chosen at random. */
static void carry_out(void)
{
	const struct crash_state *state = server.state;
	unsigned at = draw(server.nr_held--);
	union request *chosen = server.held[at];
	const struct fuse_in_header *request = &chosen->header;
	/*
	 * Count no request that comes before the client runs: a loop device makes such
	 * requests.
	 */
	bool ends = state->pid && ++server.nr_carried_out == state->end_at;

	server.held[at] = server.held[server.nr_held];
	server.held[server.nr_held] = chosen;
	if (ends && state->end == CRASH_BEFORE_IT)
		end_round();
	if (request->opcode == FUSE_WRITE)
		do_write(request);
	else
		make_durable(0, server.bytes);
	if (ends && state->end == CRASH_BEFORE_ITS_ANSWER)
		end_round();
	if (request->opcode == FUSE_WRITE)
		answer_write(request);
	else
		answer(request, 0, NULL, 0);
	if (ends && state->end == CRASH_AFTER_IT)
		server.ends_ns = now_ns() + state->end_after_us * INT64_C(1000);
}

/*
 * Requests
 */

static void dispatch(const struct fuse_in_header *request)
{
	switch (request->opcode) {
	case FUSE_INIT: do_init(request); break;
	case FUSE_LOOKUP: do_lookup(request); break;
	case FUSE_GETATTR:
	case FUSE_SETATTR: do_getattr(request); break; /* sets times */
	case FUSE_OPEN: do_open(request); break;
	case FUSE_READ: do_read(request); break;
	case FUSE_WRITE:
	case FUSE_FSYNC: server.nr_held++; break;
	case FUSE_INTERRUPT: /* the interrupted request is answered as usual */
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET: break; /* these get no answer */
	case FUSE_FLUSH:
	case FUSE_RELEASE: answer(request, 0, NULL, 0); break;
	default: answer(request, -ENOSYS, NULL, 0);
	}
}

static void receive(void)
{
	union request *request = server.held[server.nr_held];
	ssize_t got = read(server.fd, request, sizeof(*request));

	if (got >= (ssize_t)sizeof(request->header))
		dispatch(&request->header);
	else if (errno == ENODEV)
		_exit(0); /* the file system was unmounted */
			  /*
			   * ENOENT: the kernel has withdrawn the request, so read the
			   * next one.
			   */
}

/* Return: how long to wait for the next request; NULL: without a limit. */
static const struct timespec *patience(struct timespec *ret)
{
	int64_t ns = INT64_MAX;

	if (server.nr_held)
		ns = draw(2) ? 0 : draw(PAUSE_US_MAX) * INT64_C(1000);
	if (server.ends_ns && server.ends_ns - now_ns() < ns)
		ns = server.ends_ns - now_ns();
	if (ns == INT64_MAX)
		return NULL;
	/* tv_nsec suffices, because a pause is shorter than a second. */
	*ret = (struct timespec){ .tv_nsec = ns < 0 ? 0 : ns };
	return ret;
}

int main(int argc, char **argv)
{
	struct pollfd slots[2] = { { .events = POLLIN }, { .fd = 0 } };

	assert(argc == 3);
	server.state = crash_state_map(argv[1]);
	server.fd = slots[0].fd = atoi(argv[2]);
	server.random = server.state->seed;
	server.bytes = server.state->bytes;
	memcpy(server.data, server.state->image, server.bytes);
	for (int i = 0; i < HELD_MAX; i++)
		server.held[i] = &server.requests[i];
	prctl(PR_SET_TIMERSLACK, 1);
	while (!slots[1].revents) {
		struct timespec pause;

		assert(ppoll(slots, 2, patience(&pause), NULL) >= 0);
		if (server.ends_ns && now_ns() >= server.ends_ns)
			end_round();
		if (slots[0].revents && server.nr_held < HELD_MAX)
			receive();
		else if (server.nr_held)
			carry_out();
	}
	return 0;
}
