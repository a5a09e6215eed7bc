/* SPDX-License-Identifier: MIT */
/*
 * floor - a replacement of libaio whose io_submit does as little as an io_submit in
 * user space can do
 *
 * The replacement is preloaded before libaio. Its io_submit executes the read or write
 * by one system call; its io_getevents returns the event. No library that executes
 * requests inside io_submit can be faster. So the difference between uaio and this
 * replacement is uaio's own cost.
 *
 * The replacement is deliberately unsafe. A handle is a pointer that is never checked.
 * A context may be used by only one thread at a time, and when its ring is full, new
 * events overwrite old ones. io_getevents never waits, so it may return fewer than
 * min_nr events. A read that blocks also blocks io_submit. Unknown operations are
 * refused. Forks, signals and closed files are ignored.
 *
 * If FLOOR_REPORT names a file, the program maps this file shared, and each context
 * counts its requests in a cache line of the mapping. The file is an array of 64-bit
 * words: word 0 is the number of contexts, word 8 * i the requests of context i. The
 * counts stay valid however the process ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sys.h"

#define EXPORT __attribute__((visibility("default")))
enum { LINE_WORDS = 8, REPORT_LINES = 4096 };

struct floor {
	uint64_t *served;
	unsigned head, tail, mask;
	struct io_event events[];
};

EXPORT int io_setup(int nr, struct floor **ret_ctx);
EXPORT int io_queue_init(int nr, struct floor **ret_ctx);
EXPORT int io_destroy(struct floor *ctx);
EXPORT int io_queue_release(struct floor *ctx);
EXPORT int io_submit(struct floor *ctx, long nr, struct iocb **iocbs);
EXPORT int io_getevents(struct floor *ctx, long min_nr, long nr,
			struct io_event *events, struct timespec *timeout);

static uint64_t unreported[LINE_WORDS * REPORT_LINES];
static uint64_t *report = unreported;

__attribute__((constructor)) static void map_report(void)
{
	const char *path = getenv("FLOOR_REPORT");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	void *map;

	if (fd < 0)
		return;
	if (!ftruncate(fd, sizeof(unreported))) {
		map = mmap(NULL, sizeof(unreported), PROT_READ | PROT_WRITE,
			   MAP_SHARED, fd, 0);
		if (map != MAP_FAILED)
			report = map;
	}
	close(fd);
}

EXPORT int io_setup(int nr, struct floor **ret_ctx)
{
	unsigned slots = 1;
	struct floor *ctx;
	uint64_t line;

	while (slots < (unsigned)nr)
		slots *= 2;
	ctx = calloc(1, sizeof(*ctx) + slots * sizeof(ctx->events[0]));
	if (!ctx)
		return -ENOMEM;
	line = 1 + __atomic_fetch_add(report, 1, __ATOMIC_RELAXED);
	ctx->served = report + LINE_WORDS * (line % REPORT_LINES);
	ctx->mask = slots - 1;
	*ret_ctx = ctx;
	return 0;
}

EXPORT int io_submit(struct floor *ctx, long nr, struct iocb **iocbs)
{
	for (long i = 0; i < nr; i++) {
		const struct iocb *cb = iocbs[i];
		int fd = (int)cb->aio_fildes;
		void *data = (void *)(uintptr_t)cb->aio_buf;
		size_t len = cb->aio_nbytes;
		long res;

		switch (cb->aio_lio_opcode) {
		case IOCB_CMD_PREAD:
			res = sys_pread(fd, data, len, cb->aio_offset);
			break;
		case IOCB_CMD_PWRITE:
			res = sys_pwrite(fd, data, len, cb->aio_offset);
			break;
		case IOCB_CMD_PREADV:
			res = uaio_sys6(SYS_preadv2, fd, (long)data, (long)len,
					cb->aio_offset, 0, 0);
			break;
		case IOCB_CMD_PWRITEV:
			res = uaio_sys6(SYS_pwritev2, fd, (long)data, (long)len,
					cb->aio_offset, 0, 0);
			break;
		default: return i ? (int)i : -EINVAL;
		}
		ctx->events[ctx->tail++ & ctx->mask] = (struct io_event){
			.data = cb->aio_data,
			.obj = (uintptr_t)cb,
			.res = res,
		};
	}
	*ctx->served += (uint64_t)nr;
	return (int)nr;
}

EXPORT int io_getevents(struct floor *ctx, long min_nr, long nr,
			struct io_event *events, struct timespec *timeout)
{
	long got = 0;

	(void)min_nr; /* never wait: all submitted requests have completed */
	(void)timeout;
	while (got < nr && ctx->head != ctx->tail)
		events[got++] = ctx->events[ctx->head++ & ctx->mask];
	return (int)got;
}

EXPORT int io_destroy(struct floor *ctx)
{
	free(ctx);
	return 0;
}

EXPORT int io_queue_init(int nr, struct floor **ret_ctx)
{
	return io_setup(nr, ret_ctx);
}

EXPORT int io_queue_release(struct floor *ctx)
{
	return io_destroy(ctx);
}
