/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "batch.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	/* in seconds: an event that takes longer counts as lost */
	PATIENCE_S = 30
};

_Noreturn void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

static void fill(uint64_t *buf, size_t len, uint64_t version)
{
	size_t i;

	for (i = 0; i < len / 8; i++)
		buf[i] = version;
}

void expect_version(const char *what, const uint64_t *buf, size_t len,
		    uint64_t low, uint64_t high)
{
	size_t i;

	for (i = 0; i < len / 8; i++)
		if (buf[i] < low || buf[i] > high)
			fail("%s: byte %zu of %zu is from write %" PRIu64
			     ", expected %" PRIu64 " to %" PRIu64,
			     what, i * 8, len, buf[i], low, high);
}

int file_new(void)
{
	char name[] = "order.XXXXXX";
	int fd = mkstemp(name);

	if (fd < 0 || unlink(name) < 0)
		fail("no file here: %m");
	return fd;
}

int file_again(int fd, int flags)
{
	char path[32];
	int ret;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ret = open(path, flags);
	if (ret < 0)
		fail("open with flags %#x: %m", flags);
	return ret;
}

void batch_init(struct batch *b)
{
	int i, ret;

	memset(b, 0, sizeof(*b));
	ret = io_setup(MAX_BATCH, &b->ctx);
	if (ret < 0)
		fail("io_setup: %s", strerror(-ret));
	for (i = 0; i < MAX_BATCH; i++) {
		b->bufs[i] = aligned_alloc(BLOCK, MAX_LEN);
		assert(b->bufs[i]);
	}
}

void batch_fini(struct batch *b)
{
	int i;

	for (i = 0; i < MAX_BATCH; i++)
		free(b->bufs[i]);
	assert(io_destroy(b->ctx) == 0);
}

int batch_write(struct batch *b, int fd, size_t len, long long pos,
		uint64_t version)
{
	fill(b->bufs[b->nr], len, version);
	b->due[b->nr] = (long)len;
	io_prep_pwrite(&b->cbs[b->nr], fd, b->bufs[b->nr], len, pos);
	return b->nr++;
}

int batch_read(struct batch *b, int fd, size_t len, long long pos)
{
	fill(b->bufs[b->nr], len, UINT64_MAX);
	b->due[b->nr] = (long)len;
	io_prep_pread(&b->cbs[b->nr], fd, b->bufs[b->nr], len, pos);
	return b->nr++;
}

int batch_sync(struct batch *b, int fd, bool data_only)
{
	if (data_only)
		io_prep_fdsync(&b->cbs[b->nr], fd);
	else
		io_prep_fsync(&b->cbs[b->nr], fd);
	return b->nr++;
}

void batch_submit(struct batch *b, int first)
{
	struct iocb *list[MAX_BATCH];
	int i, ret;

	for (i = first; i < b->nr; i++)
		list[i - first] = &b->cbs[i];
	ret = io_submit(b->ctx, b->nr - first, list);
	if (ret != b->nr - first)
		fail("io_submit of %d says %d", b->nr - first, ret);
}

void batch_reap(struct batch *b)
{
	struct io_event events[MAX_BATCH + 1];
	struct timespec patience = { .tv_sec = PATIENCE_S }, none = { 0 };
	int got = 0, i, ret;

	memset(b->seen_as, -1, sizeof(b->seen_as));
	while (got < b->nr) {
		ret = io_getevents(b->ctx, 1, MAX_BATCH, events, &patience);
		if (ret <= 0)
			fail("%d of %d events, then io_getevents says %d", got,
			     b->nr, ret);
		for (i = 0; i < ret; i++) {
			long nr = events[i].obj - b->cbs;
			const struct iocb *cb = events[i].obj;
			bool is_rw = cb->aio_lio_opcode == IO_CMD_PREAD ||
				     cb->aio_lio_opcode == IO_CMD_PWRITE;
			long expected = is_rw ? b->due[nr] : 0;

			if (nr < 0 || nr >= b->nr || b->seen_as[nr] != -1)
				fail("an event too many, for request %ld", nr);
			if ((long)events[i].res != expected)
				fail("request %ld gives %ld, not %ld", nr,
				     (long)events[i].res, expected);
			b->seen_as[nr] = got++;
		}
	}
	ret = io_getevents(b->ctx, 0, 1, events, &none);
	if (ret != 0)
		fail("io_getevents after the last event says %d", ret);
	b->nr = 0;
}

void batch_expect_after(const struct batch *b, int later, int earlier)
{
	if (b->seen_as[later] < b->seen_as[earlier])
		fail("the event of request %d overtook that of %d", later,
		     earlier);
}
