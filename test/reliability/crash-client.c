/* SPDX-License-Identifier: MIT */
/*
 * crash-client STATE FILE: writes records until it is killed. It notes in shared memory
 * which records completed requests have reported as durable.
 *
 * The client uses kernel AIO, io_uring or POSIX AIO, with or without a preloaded
 * library. A record fills a slot of the file with copies of one word, which contains
 * the record's version and slot. A slot never has two writes in flight. While a write
 * is in flight, the page cache may contain a mixture of old and new words. The members
 * of STATE (crash.h) have these invariants:
 *
 * C1  submitted[slot] contains a version before its write is submitted.
 * C2  reported[slot] contains a version once one of these has completed without error:
 *     - its write, if it has RWF_DSYNC or RWF_SYNC, or if its file has O_DSYNC;
 *     - a sync that was submitted after the write had completed;
 *     - the write, and a sync submitted after it, if the interface promises that the
 *       sync includes the write: aio_fsync, io_uring's links and drains, and FSYNC of
 *       kernel AIO after buffered writes.
 *
 * A completed SYNC_FILE_RANGE makes no version durable. If a request fails, the client
 * exits with 1, unless the server has ended the round (crash.h).
 */
#undef NDEBUG
#include <aio.h>
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/io_uring.h"
#include "crash.h"
#include "uaio.h"
#include "uring-client.h"

enum {
	OPS_MAX = 16,
	CHAIN_OPS = 3, /* requests in a chain: two writes and their sync */
	BUFFER_BYTES = CRASH_WRITE_SLOTS * CRASH_SLOT_BYTES,
	RING_ENTRIES = 64,
	COUNT_EVERY = 16,
};

enum kind { WRITE, SYNC, DATA_SYNC, SYNC_RANGE };

/* How a write describes its buffer */
enum form { PLAIN, VECTORED, FIXED };

struct op {
	union {
		struct iocb iocb;
		struct aiocb aiocb;
	};
	bool is_pending;
	enum kind kind;
	int fd;
	uint32_t sqe_flags; /* IOSQE_* */
	/* only for a write: the members up to `iov` */
	enum form form;
	uint32_t rw_flags;
	unsigned slot, nr;
	uint32_t version;
	struct iovec iov[2];
	char *buffer; /* owns */
	/* for a sync: the version of each slot that the sync makes durable */
	uint32_t covers[CRASH_SLOTS];
};

static struct {
	struct crash_state *state;
	uint64_t random;
	int fds[2]; /* two descriptors of one file; writes use fds[0] */
	struct op ops[OPS_MAX];
	unsigned nr_pending;
	/* the requests that the next flush() submits, in this order */
	struct op *prepared[OPS_MAX];
	unsigned nr_prepared;
	/* versions, indexed by slot: */
	/* the version of the write in flight; 0: no write is in flight */
	uint32_t in_flight[CRASH_SLOTS];
	uint32_t written[CRASH_SLOTS]; /* versions whose write has completed */
	/*
	 * versions that a completed sync covers, although their write has not completed
	 */
	uint32_t covered[CRASH_SLOTS];
} client;

static uint32_t draw(uint32_t below)
{
	return crash_draw(&client.random, below);
}

static _Noreturn void fail(const char *what, long error)
{
	/*
	 * If the round has ended, the server has killed this process, which may still
	 * run for a moment. Then do not report the error.
	 */
	while (__atomic_load_n(&client.state->has_ended, __ATOMIC_SEQ_CST))
		pause();
	fprintf(stderr, "%s: %ld (%s)\n", what, error,
		error < 0 ? strerror((int)-error) : "not so");
	_exit(1);
}

static off_t offset_of(const struct op *op)
{
	return (off_t)op->slot * CRASH_SLOT_BYTES;
}

static size_t bytes_of(const struct op *op)
{
	return (size_t)op->nr * CRASH_SLOT_BYTES;
}

/*
 * Kernel AIO
 */

static io_context_t ctx;

static void aio_begin(void)
{
	int ret = io_setup(OPS_MAX, &ctx);

	if (ret < 0)
		fail("io_setup", ret);
}

static void aio_fill(struct op *op)
{
	struct iocb *iocb = &op->iocb;

	if (op->kind == SYNC)
		io_prep_fsync(iocb, op->fd);
	else if (op->kind == DATA_SYNC)
		io_prep_fdsync(iocb, op->fd);
	else if (op->form == VECTORED)
		io_prep_pwritev(iocb, op->fd, op->iov, 2, offset_of(op));
	else
		io_prep_pwrite(iocb, op->fd, op->buffer, bytes_of(op),
			       offset_of(op));
	iocb->aio_rw_flags = (int)op->rw_flags;
	iocb->data = op;
}

static void aio_flush(void)
{
	struct iocb *list[OPS_MAX];
	unsigned nr = client.nr_prepared;

	for (unsigned i = 0; i < nr; i++) {
		aio_fill(client.prepared[i]);
		list[i] = &client.prepared[i]->iocb;
	}
	for (unsigned done = 0; done < nr;) {
		int ret = io_submit(ctx, nr - done, list + done);

		if (ret <= 0)
			fail("io_submit", ret);
		done += (unsigned)ret;
	}
}

static struct op *aio_reap(int64_t *ret_res)
{
	struct io_event event;
	int ret = io_getevents(ctx, 1, 1, &event, NULL);

	if (ret != 1)
		fail("io_getevents", ret);
	*ret_res = (int64_t)event.res;
	return event.data;
}

/*
 * io_uring
 */

static struct uring ring;

static void uring_begin(void)
{
	const struct io_uring_params params = { .flags = 0 };
	struct iovec buffers[OPS_MAX];
	long ret = uring_open(&ring, RING_ENTRIES, &params);

	for (int i = 0; i < OPS_MAX; i++)
		buffers[i] =
			(struct iovec){ client.ops[i].buffer, BUFFER_BYTES };
	if (!ret)
		ret = uring_register(ring.fd, IORING_REGISTER_BUFFERS, buffers,
				     OPS_MAX);
	if (ret)
		fail("io_uring", ret);
}

static void uring_fill_write(const struct op *op)
{
	static const int opcodes[] = {
		[PLAIN] = IORING_OP_WRITE,
		[VECTORED] = IORING_OP_WRITEV,
		[FIXED] = IORING_OP_WRITE_FIXED,
	};
	bool is_vectored = op->form == VECTORED;
	struct io_uring_sqe *sqe = uring_put_rw(
		&ring, opcodes[op->form], op->fd,
		is_vectored ? (uintptr_t)op->iov : (uintptr_t)op->buffer,
		is_vectored ? 2 : bytes_of(op), (uint64_t)offset_of(op),
		(uintptr_t)op);

	sqe->rw_flags = (int)op->rw_flags;
	sqe->flags = (uint8_t)op->sqe_flags;
	if (op->form == FIXED)
		sqe->buf_index = (uint16_t)(op - client.ops);
}

static void uring_fill_sync(const struct op *op)
{
	struct io_uring_sqe *sqe =
		uring_put(&ring,
			  op->kind == SYNC_RANGE ? IORING_OP_SYNC_FILE_RANGE
						 : IORING_OP_FSYNC,
			  op->fd, (uintptr_t)op);

	if (op->kind == DATA_SYNC)
		sqe->fsync_flags = IORING_FSYNC_DATASYNC;
	if (op->kind == SYNC_RANGE)
		sqe->sync_range_flags = SYNC_FILE_RANGE_WAIT_BEFORE |
					SYNC_FILE_RANGE_WRITE |
					SYNC_FILE_RANGE_WAIT_AFTER;
	sqe->flags = (uint8_t)op->sqe_flags;
}

static void uring_flush(void)
{
	long ret;

	for (unsigned i = 0; i < client.nr_prepared; i++)
		if (client.prepared[i]->kind == WRITE)
			uring_fill_write(client.prepared[i]);
		else
			uring_fill_sync(client.prepared[i]);
	ret = uring_submit(&ring);
	if (ret != client.nr_prepared)
		fail("io_uring_enter", ret);
}

static struct op *uring_reap(int64_t *ret_res)
{
	struct io_uring_cqe cqe;

	while (!uring_take(&ring, &cqe)) {
		long ret = uring_submit_wait(&ring, 1);

		if (ret < 0)
			fail("io_uring_enter", ret);
	}
	*ret_res = cqe.res;
	return (struct op *)(uintptr_t)cqe.user_data;
}

/*
 * POSIX AIO
 */

static void posix_begin(void)
{
}

/* Submit the writes, by aio_write() or lio_listio(). */
static void posix_submit(struct aiocb **list, int nr)
{
	int ret = 0;

	if (nr == 1)
		ret = aio_write(list[0]);
	else if (nr)
		ret = lio_listio(draw(2) ? LIO_WAIT : LIO_NOWAIT, list, nr,
				 NULL);
	if (ret)
		fail("aio_write", -errno);
}

static void posix_flush(void)
{
	struct aiocb *list[OPS_MAX];
	int nr = 0;

	for (unsigned i = 0; i < client.nr_prepared; i++) {
		struct op *op = client.prepared[i];

		op->aiocb = (struct aiocb){
			.aio_fildes = op->fd,
			.aio_lio_opcode = LIO_WRITE,
			.aio_buf = op->buffer,
			.aio_nbytes = bytes_of(op),
			.aio_offset = offset_of(op),
			.aio_sigevent = { .sigev_notify = SIGEV_NONE },
		};
		if (op->kind == WRITE) {
			list[nr++] = &op->aiocb;
			continue;
		}
		posix_submit(list, nr);
		nr = 0;
		if (aio_fsync(op->kind == SYNC ? O_SYNC : O_DSYNC, &op->aiocb))
			fail("aio_fsync", -errno);
	}
	posix_submit(list, nr);
}

static struct op *posix_reap(int64_t *ret_res)
{
	for (;;) {
		const struct aiocb *list[OPS_MAX];
		int nr = 0;

		for (struct op *op = client.ops; op < client.ops + OPS_MAX;
		     op++) {
			int error;

			if (!op->is_pending)
				continue;
			error = aio_error(&op->aiocb);
			if (error != EINPROGRESS) {
				*ret_res =
					error ? -error : aio_return(&op->aiocb);
				return op;
			}
			list[nr++] = &op->aiocb;
		}
		if (aio_suspend(list, nr, NULL))
			fail("aio_suspend", -errno);
	}
}

/* The three interfaces */

static const struct door {
	void (*begin)(void);
	/* submits the prepared requests */
	void (*flush)(void);
	struct op *(*reap)(int64_t *ret_res); /* waits for a completion */
	bool has_rw_flags;
	unsigned nr_forms;
} doors[] = {
	[CRASH_AIO] = { aio_begin, aio_flush, aio_reap, true, 2 },
	[CRASH_URING] = { uring_begin, uring_flush, uring_reap, true, 3 },
	[CRASH_POSIX] = { posix_begin, posix_flush, posix_reap, false, 1 },
};

static bool is_door(enum crash_door door)
{
	return client.state->door == door;
}

/*
 * Requests
 */

static unsigned nr_free(void)
{
	return OPS_MAX - client.nr_pending;
}

static struct op *prepare(enum kind kind, int fd, uint32_t sqe_flags)
{
	struct op *op = client.ops;

	while (op->is_pending)
		op++;
	op->is_pending = true;
	op->kind = kind;
	op->fd = fd;
	op->sqe_flags = sqe_flags | (draw(4) ? 0 : IOSQE_ASYNC);
	op->rw_flags = 0;
	op->slot = op->nr = 0;
	client.nr_pending++;
	client.prepared[client.nr_prepared++] = op;
	return op;
}

/*
 * Prepare a write of one or more slots, and note its versions in submitted[] (C1).
 * Return: NULL if one of the slots has a write in flight.
 */
static struct op *prepare_write(uint32_t sqe_flags)
{
	const struct door *door = &doors[client.state->door];
	unsigned nr = draw(4) ? 1 : 1 + draw(CRASH_WRITE_SLOTS);
	unsigned slot = draw(CRASH_SLOTS - nr + 1);
	uint64_t *words;
	struct op *op;

	for (unsigned i = slot; i < slot + nr; i++)
		if (client.in_flight[i])
			return NULL;
	op = prepare(WRITE, client.fds[0], sqe_flags);
	op->slot = slot;
	op->nr = nr;
	op->version = ++client.state->version;
	op->form = draw(door->nr_forms);
	op->iov[0] = (struct iovec){ op->buffer, CRASH_SLOT_BYTES / 2 };
	op->iov[1] = (struct iovec){ op->buffer + CRASH_SLOT_BYTES / 2,
				     bytes_of(op) - CRASH_SLOT_BYTES / 2 };
	if (door->has_rw_flags && !draw(4))
		op->rw_flags = draw(2) ? RWF_DSYNC : RWF_SYNC;
	words = (uint64_t *)(void *)op->buffer;
	for (unsigned i = slot; i < slot + nr; i++) {
		client.state->submitted[i] = op->version;
		client.in_flight[i] = op->version;
		for (int k = 0; k < CRASH_SLOT_BYTES / 8; k++)
			*words++ = (uint64_t)op->version << 32 | i;
	}
	return op;
}

/*
 * Prepare a sync that covers all completed writes. includes_queued: it also covers the
 * writes in flight.
 */
static struct op *prepare_sync(int fd, uint32_t sqe_flags, bool includes_queued)
{
	struct op *op = prepare(draw(2) ? SYNC : DATA_SYNC, fd, sqe_flags);

	memcpy(op->covers, client.written, sizeof(op->covers));
	for (int i = 0; i < CRASH_SLOTS && includes_queued; i++)
		if (client.in_flight[i])
			op->covers[i] = client.in_flight[i];
	return op;
}

/*
 * Prepare a sync without a linked write. Its descriptor is fds[0], which the writes
 * use, or fds[1].
 */
static void prepare_some_sync(void)
{
	int fd = client.fds[!draw(4)];
	bool drains = is_door(CRASH_URING) && !draw(4);
	bool is_buffered = !(client.state->open_flags & O_DIRECT) &&
			   !client.state->is_uncached;
	bool is_ordered =
		is_door(CRASH_POSIX) || (is_door(CRASH_AIO) && is_buffered);

	if (is_door(CRASH_URING) && !draw(8)) {
		struct op *op = prepare(SYNC_RANGE, fd, 0);

		memset(op->covers, 0, sizeof(op->covers));
		return;
	}
	/*
	 * Two kinds of sync include the writes in flight. One is a sync with a drain.
	 * The other is a sync of POSIX AIO or buffered kernel AIO on the writes'
	 * descriptor.
	 */
	prepare_sync(fd, drains ? IOSQE_IO_DRAIN : 0,
		     drains || (is_ordered && fd == client.fds[0]));
}

/* Prepare a chain of io_uring: one or two writes, and a sync linked to them. */
static void prepare_chain(void)
{
	struct op *writes[CHAIN_OPS - 1], *sync;
	unsigned nr = 0;

	for (int i = 0; i < CHAIN_OPS - 1; i++) {
		writes[nr] = prepare_write(IOSQE_IO_LINK);
		nr += writes[nr] != NULL;
	}
	sync = prepare_sync(client.fds[0], 0, false);
	for (unsigned i = 0; i < nr; i++)
		for (unsigned k = 0; k < writes[i]->nr; k++)
			sync->covers[writes[i]->slot + k] = writes[i]->version;
}

static void prepare_some(void)
{
	if (is_door(CRASH_URING) && nr_free() >= CHAIN_OPS && !draw(4))
		prepare_chain();
	else if (!draw(3))
		prepare_some_sync();
	else
		(void)prepare_write(0);
}

/*
 * Completions
 */

static void report(unsigned slot, uint32_t version)
{
	if (version > client.state->reported[slot])
		client.state->reported[slot] = version;
}

static void complete_write(const struct op *op)
{
	bool is_durable = op->rw_flags || client.state->open_flags & O_DSYNC;

	for (unsigned i = op->slot; i < op->slot + op->nr; i++) {
		client.in_flight[i] = 0;
		client.written[i] = op->version;
		if (is_durable || client.covered[i] == op->version)
			report(i, op->version);
	}
}

static void complete_sync(const struct op *op)
{
	for (unsigned i = 0; i < CRASH_SLOTS; i++)
		if (op->covers[i] > client.written[i])
			client.covered[i] = op->covers[i];
		else
			report(i, op->covers[i]);
}

/*
 * If a library is loaded, record how many requests it passed to the kernel's AIO and
 * io_uring.
 */
static void count(void)
{
	static int (*get_counters)(struct uaio_counters * ret_counters);
	struct uaio_counters counters;

	if (client.state->nr_requests++ % COUNT_EVERY)
		return;
	if (!get_counters)
		*(void **)&get_counters =
			dlsym(RTLD_DEFAULT, "uaio_get_counters");
	if (!get_counters || get_counters(&counters))
		return;
	client.state->nr_kernel_aio = (uint32_t)counters.nr_kernel;
	client.state->nr_io_uring = (uint32_t)counters.nr_io_uring;
}

/* Wait for a completion. Update reported[], as C2 requires. */
static void complete(void)
{
	int64_t res;
	struct op *op = doors[client.state->door].reap(&res);

	if (res != (int64_t)bytes_of(op))
		fail(op->kind == WRITE ? "write" : "sync", (long)res);
	if (op->kind == WRITE)
		complete_write(op);
	else
		complete_sync(op);
	op->is_pending = false;
	client.nr_pending--;
	count();
}

static void begin(const char *path)
{
	struct crash_state *state = client.state;

	state->pid = (uint32_t)getpid();
	client.random = state->seed + UINT64_C(1);
	memcpy(client.written, state->reported, sizeof(client.written));
	for (int i = 0; i < 2; i++) {
		client.fds[i] =
			open(path, O_RDWR | O_CLOEXEC | (int)state->open_flags);
		if (client.fds[i] < 0)
			fail(path, -errno);
	}
	for (int i = 0; i < OPS_MAX; i++) {
		client.ops[i].buffer =
			aligned_alloc(CRASH_SLOT_BYTES, BUFFER_BYTES);
		assert(client.ops[i].buffer);
	}
	doors[state->door].begin();
}

int main(int argc, char **argv)
{
	assert(argc == 3);
	client.state = crash_state_map(argv[1]);
	begin(argv[2]);
	for (;;) {
		unsigned nr = 1 + draw(client.state->depth);

		while (nr-- && client.nr_pending < client.state->depth)
			prepare_some();
		if (client.nr_prepared)
			doors[client.state->door].flush();
		client.nr_prepared = 0;
		do
			complete();
		while (client.nr_pending && draw(2));
	}
}
