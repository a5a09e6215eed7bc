/* SPDX-License-Identifier: MIT */
#include "posix.h"

#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "host.h"

enum { SLICE_NS = 50000000 };

struct place {
	struct aiocb aiocb;
	const struct iocb *iocb;
	char byte; /* buffer of a read that replaces a poll, which POSIX AIO lacks */
	bool is_taken;
};

struct context {
	pthread_mutex_t lock;
	size_t bytes; /* size of the mapping that holds the context */
	unsigned nr;
	const struct aiocb **list; /* argument of aio_suspend */
	struct place places[];
};

static struct context *context_of(aio_context_t ctx)
{
	return (struct context *)ctx;
}

static void *map(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/*
 * Map the memory instead of calling malloc(): in a child of fork(), AddressSanitizer
 * may leave the locks of malloc locked.
 */
long posix_setup(unsigned nr, aio_context_t *ret_ctx)
{
	size_t start = sizeof(struct context) + nr * sizeof(struct place);
	size_t bytes = start + nr * sizeof(struct aiocb *);
	struct context *context = map(bytes);

	if (!context)
		return -ENOMEM;
	context->list = (const struct aiocb **)((char *)context + start);
	pthread_mutex_init(&context->lock, NULL);
	context->bytes = bytes;
	context->nr = nr;
	*ret_ctx = (aio_context_t)context;
	return 0;
}

static struct place *free_place(struct context *context)
{
	for (unsigned i = 0; i < context->nr; i++)
		if (!context->places[i].is_taken)
			return &context->places[i];
	return NULL;
}

static int call(struct place *place, int opcode)
{
	struct aiocb *aiocb = &place->aiocb;

	switch (opcode) {
	case IOCB_CMD_PWRITE: return aio_write(aiocb);
	case IOCB_CMD_FSYNC: return aio_fsync(O_SYNC, aiocb);
	case IOCB_CMD_FDSYNC: return aio_fsync(O_DSYNC, aiocb);
	case IOCB_CMD_POLL:
		aiocb->aio_buf = &place->byte;
		aiocb->aio_nbytes = 1;
		return aio_read(aiocb);
	default: return aio_read(aiocb);
	}
}

long posix_submit(aio_context_t ctx, const struct iocb *iocb)
{
	struct context *context = context_of(ctx);
	struct place *place;
	long ret;

	pthread_mutex_lock(&context->lock);
	place = free_place(context);
	REQUIRE(place);
	memset(&place->aiocb, 0, sizeof(place->aiocb));
	place->iocb = iocb;
	place->aiocb.aio_fildes = (int)iocb->aio_fildes;
	place->aiocb.aio_buf = (void *)(uintptr_t)iocb->aio_buf;
	place->aiocb.aio_nbytes = iocb->aio_nbytes;
	place->aiocb.aio_offset = iocb->aio_offset;
	place->aiocb.aio_sigevent.sigev_notify = SIGEV_NONE;
	ret = call(place, iocb->aio_lio_opcode) == 0 ? 1 : -errno;
	place->is_taken = ret == 1;
	pthread_mutex_unlock(&context->lock);
	return ret;
}

/*
 * Write the events of up to nr completed requests to `events`, and free their slots.
 * Requests in flight stay.
 * Return: how many events were written. *ret_nr_pending: how many requests are in
 * flight.
 */
static long take(struct context *context, long nr, struct io_event *events,
		 int *ret_nr_pending)
{
	long nr_taken = 0;

	*ret_nr_pending = 0;
	pthread_mutex_lock(&context->lock);
	for (unsigned i = 0; i < context->nr && nr_taken < nr; i++) {
		struct place *place = &context->places[i];
		int error;

		if (!place->is_taken)
			continue;
		error = aio_error(&place->aiocb);
		if (error == EINPROGRESS) {
			context->list[(*ret_nr_pending)++] = &place->aiocb;
			continue;
		}
		events[nr_taken++] = (struct io_event){
			.obj = (uintptr_t)place->iocb,
			.res = error ? -error : aio_return(&place->aiocb),
		};
		place->is_taken = false;
	}
	pthread_mutex_unlock(&context->lock);
	return nr_taken;
}

long posix_reap(aio_context_t ctx, long nr, struct io_event *events)
{
	const struct timespec slice = { .tv_nsec = SLICE_NS };
	bool is_shared = !strcmp(getenv("HOST_DOOR"), "shared");
	struct context *context = context_of(ctx);
	long nr_taken = 0;
	int nr_pending;

	for (;;) {
		nr_taken += take(context, nr - nr_taken, events + nr_taken,
				 &nr_pending);
		if (nr_taken == nr)
			return nr;
		if (aio_suspend(context->list, nr_pending,
				is_shared ? &slice : NULL) == 0 ||
		    errno == EAGAIN)
			continue;
		return nr_taken ? nr_taken : -errno;
	}
}

/* Cancel the requests in flight, and wait for requests that cannot be cancelled. */
long posix_destroy(aio_context_t ctx)
{
	struct context *context = context_of(ctx);

	for (unsigned i = 0; i < context->nr; i++) {
		const struct aiocb *aiocb = &context->places[i].aiocb;

		if (!context->places[i].is_taken)
			continue;
		(void)aio_cancel(aiocb->aio_fildes, (struct aiocb *)aiocb);
		while (aio_error(aiocb) == EINPROGRESS)
			(void)aio_suspend(&aiocb, 1, NULL);
	}
	return munmap(context, context->bytes);
}
