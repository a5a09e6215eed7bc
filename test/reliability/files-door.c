/* SPDX-License-Identifier: MIT */
/* The three interfaces of the clients: kernel AIO, POSIX AIO and io_uring. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

const char *const door_names[NR_DOORS] = {
	[KERNEL_AIO] = "kernel AIO",
	[POSIX_AIO] = "POSIX AIO",
	[IO_URING] = "io_uring",
};

static int64_t offset_of(const struct slot *slot)
{
	return (int64_t)slot->first * CELL;
}

/*
 * Kernel AIO
 */

static long answer(long ret)
{
	return ret == -1 ? -errno : ret;
}

static void aio_open(struct client *client)
{
	long ret;

	client->ctx = 0;
	ret = answer(syscall(SYS_io_setup, NR_SLOTS, &client->ctx));
	if (ret < 0)
		fail("io_setup: %s", strerror((int)-ret));
}

static void aio_close(struct client *client)
{
	long ret = answer(syscall(SYS_io_destroy, client->ctx));

	if (ret < 0)
		fail("io_destroy: %s", strerror((int)-ret));
}

static struct iocb *aio_prepare(struct client *client, struct slot *slot)
{
	bool has_vectors = slot->nr_iov > 1;

	slot->iocb = (struct iocb){
		.aio_data = (uint64_t)(slot - client->slots),
		.aio_fildes = (uint32_t)slot->fd,
		.aio_lio_opcode = IOCB_CMD_FDSYNC,
	};
	if (slot->what == SYNC)
		return &slot->iocb;
	if (slot->what == READ)
		slot->iocb.aio_lio_opcode =
			has_vectors ? IOCB_CMD_PREADV : IOCB_CMD_PREAD;
	else
		slot->iocb.aio_lio_opcode =
			has_vectors ? IOCB_CMD_PWRITEV : IOCB_CMD_PWRITE;
	slot->iocb.aio_offset = offset_of(slot);
	slot->iocb.aio_buf = has_vectors ? (uintptr_t)slot->iov
					 : (uintptr_t)slot->iov[0].iov_base;
	slot->iocb.aio_nbytes =
		has_vectors ? slot->nr_iov : slot->iov[0].iov_len;
	return &slot->iocb;
}

static void aio_submit(struct client *client, struct slot **list, unsigned nr)
{
	struct iocb *iocbs[NR_SLOTS];
	unsigned nr_taken = 0;

	for (unsigned i = 0; i < nr; i++)
		iocbs[i] = aio_prepare(client, list[i]);
	while (nr_taken < nr) {
		long ret = answer(syscall(SYS_io_submit, client->ctx,
					  (long)(nr - nr_taken),
					  iocbs + nr_taken));

		if (ret <= 0)
			fail("io_submit: %s", strerror((int)-ret));
		nr_taken += (unsigned)ret;
	}
}

static unsigned aio_reap(struct client *client, bool waits,
			 struct result ret[NR_SLOTS])
{
	struct io_event events[NR_SLOTS];
	long nr = answer(syscall(SYS_io_getevents, client->ctx, (long)waits,
				 (long)NR_SLOTS, events, NULL));

	if (nr < waits)
		fail("io_getevents: %s", strerror((int)-nr));
	for (long i = 0; i < nr; i++) {
		if (events[i].data >= NR_SLOTS)
			fail("an event of no request of kernel AIO");
		ret[i] = (struct result){ &client->slots[events[i].data],
					  events[i].res };
	}
	return (unsigned)nr;
}

/*
 * POSIX AIO
 */

static struct aiocb *posix_prepare(struct slot *slot)
{
	memset(&slot->aiocb, 0, sizeof(slot->aiocb));
	slot->aiocb.aio_fildes = slot->fd;
	slot->aiocb.aio_sigevent.sigev_notify = SIGEV_NONE;
	if (slot->what == SYNC)
		return &slot->aiocb;
	slot->aiocb.aio_lio_opcode = slot->what == READ ? LIO_READ : LIO_WRITE;
	slot->aiocb.aio_offset = offset_of(slot);
	slot->aiocb.aio_buf = slot->iov[0].iov_base;
	slot->aiocb.aio_nbytes = slot->iov[0].iov_len;
	return &slot->aiocb;
}

static int posix_submit_one(struct slot *slot)
{
	switch (slot->what) {
	case SYNC: return aio_fsync(O_DSYNC, &slot->aiocb);
	case READ: return aio_read(&slot->aiocb);
	default: return aio_write(&slot->aiocb);
	}
}

static void posix_submit(struct client *client, struct slot **list, unsigned nr)
{
	struct aiocb *aiocbs[NR_SLOTS];
	bool is_list = draw(&client->random, 2);
	int nr_listed = 0;

	for (unsigned i = 0; i < nr; i++) {
		struct aiocb *aiocb = posix_prepare(list[i]);

		/* lio_listio has no operation for a sync. */
		if (is_list && list[i]->what != SYNC)
			aiocbs[nr_listed++] = aiocb;
		else if (posix_submit_one(list[i]))
			fail("a request of POSIX AIO: %s", strerror(errno));
	}
	if (nr_listed && lio_listio(LIO_NOWAIT, aiocbs, nr_listed, NULL))
		fail("lio_listio: %s", strerror(errno));
}

static unsigned posix_reap(struct client *client, bool waits,
			   struct result ret[NR_SLOTS])
{
	const struct aiocb *pending[NR_SLOTS];
	unsigned nr_done = 0;
	int nr = 0;

	for (unsigned i = 0; i < NR_SLOTS; i++)
		if (client->slots[i].what != FREE)
			pending[nr++] = &client->slots[i].aiocb;
	if (waits && aio_suspend(pending, nr, NULL))
		fail("aio_suspend: %s", strerror(errno));
	for (unsigned i = 0; i < NR_SLOTS; i++) {
		struct slot *slot = &client->slots[i];
		int error;

		if (slot->what == FREE)
			continue;
		error = aio_error(&slot->aiocb);
		if (error == EINPROGRESS)
			continue;
		ret[nr_done++] = (struct result){
			slot, error ? -error : aio_return(&slot->aiocb)
		};
	}
	if (waits && !nr_done)
		fail("aio_suspend returns before a request is complete");
	return nr_done;
}

/*
 * io_uring
 */

static void ring_open(struct client *client)
{
	const struct io_uring_params params = { .flags = 0 };
	long ret = uring_open(&client->ring, NR_SLOTS, &params);

	if (ret < 0)
		fail("io_uring_setup: %s", strerror((int)-ret));
}

static void ring_close(struct client *client)
{
	close(client->ring.fd);
	uring_unmap(&client->ring);
}

static void ring_prepare(struct client *client, struct slot *slot)
{
	static const uint8_t opcodes[2][2] = {
		{ IORING_OP_WRITE, IORING_OP_WRITEV },
		{ IORING_OP_READ, IORING_OP_READV },
	};
	uint64_t index = (uint64_t)(slot - client->slots);
	bool has_vectors = slot->nr_iov > 1;
	struct io_uring_sqe *sqe;

	if (slot->what == SYNC) {
		sqe = uring_put(&client->ring, IORING_OP_FSYNC, slot->fd,
				index);
		sqe->fsync_flags = IORING_FSYNC_DATASYNC;
		return;
	}
	sqe = uring_put_rw(&client->ring,
			   opcodes[slot->what == READ][has_vectors], slot->fd,
			   has_vectors ? (uintptr_t)slot->iov
				       : (uintptr_t)slot->iov[0].iov_base,
			   has_vectors ? slot->nr_iov : slot->iov[0].iov_len,
			   (uint64_t)offset_of(slot), index);
	if (draw(&client->random, 4) == 0)
		sqe->flags |= IOSQE_ASYNC;
}

static void ring_submit(struct client *client, struct slot **list, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		ring_prepare(client, list[i]);
	while (uring_publish(&client->ring)) {
		long ret = uring_submit(&client->ring);

		if (ret <= 0)
			fail("io_uring_enter submits: %s", strerror((int)-ret));
	}
}

static unsigned ring_reap(struct client *client, bool waits,
			  struct result ret[NR_SLOTS])
{
	struct io_uring_cqe cqe;
	unsigned nr = 0;

	if (waits && !uring_ready(&client->ring)) {
		long error = uring_submit_wait(&client->ring, 1);

		if (error < 0)
			fail("io_uring_enter waits: %s", strerror((int)-error));
	}
	while (nr < NR_SLOTS && uring_take(&client->ring, &cqe)) {
		if (cqe.user_data >= NR_SLOTS)
			fail("a completion of no request of io_uring");
		ret[nr++] = (struct result){ &client->slots[cqe.user_data],
					     cqe.res };
	}
	if (waits && !nr)
		fail("io_uring_enter returns without a completion");
	return nr;
}

/* All three interfaces */

void door_open(struct client *client)
{
	if (client->door == KERNEL_AIO)
		aio_open(client);
	if (client->door == IO_URING)
		ring_open(client);
}

void door_close(struct client *client)
{
	if (client->door == KERNEL_AIO)
		aio_close(client);
	if (client->door == IO_URING)
		ring_close(client);
}

void door_submit(struct client *client, struct slot **list, unsigned nr)
{
	switch (client->door) {
	case KERNEL_AIO: aio_submit(client, list, nr); break;
	case POSIX_AIO: posix_submit(client, list, nr); break;
	default: ring_submit(client, list, nr);
	}
}

unsigned door_reap(struct client *client, bool waits,
		   struct result ret[NR_SLOTS])
{
	switch (client->door) {
	case KERNEL_AIO: return aio_reap(client, waits, ret);
	case POSIX_AIO: return posix_reap(client, waits, ret);
	default: return ring_reap(client, waits, ret);
	}
}
