/* SPDX-License-Identifier: MIT */
/*
 * Large direct requests that the library does not split: writes that extend the file or
 * are durable (O_DSYNC), requests with RWF_* flags, and misaligned requests
 */
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conform.h"
#include "large.h"

/* Flags that some headers lack. */
enum { ATOMIC = 0x40, DONTCACHE = 0x80 };

static void extending(void)
{
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", 3 * SEGMENT, O_RDWR);

	write_large("across_end", ctx, fd, 4 * SEGMENT, SEGMENT);
	write_large("at_end", ctx, fd, 2 * SEGMENT, 5 * SEGMENT);
	write_large("behind_end", ctx, fd, 2 * SEGMENT, 8 * SEGMENT + 4096);
	write_large("a_block_across_end", ctx, fd, 3 * SEGMENT,
		    7 * SEGMENT + 4608);
	read_large("again", ctx, fd, LARGE, 0);
}

static void extending_odd(void)
{
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", 3 * SEGMENT + 700, O_RDWR);

	write_large("over_odd_end", ctx, fd, 2 * SEGMENT, 2 * SEGMENT);
	REQUIRE(ftruncate(fd, 3 * SEGMENT + 700) == 0);
	write_large("behind_odd_end", ctx, fd, 2 * SEGMENT, 4 * SEGMENT);
}

static void pieces_extending(void)
{
	static struct pieces pieces;
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", 3 * SEGMENT, O_RDWR);

	add_pieces(&pieces, 40, 32768);
	write_pieces("across_end", ctx, fd, &pieces, SEGMENT);
	write_pieces("behind_end", ctx, fd, &pieces, LARGE / 2);
}

static void appending(void)
{
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", SEGMENT, O_RDWR | O_APPEND);
	int plain = open_again(fd, O_RDWR | O_DIRECT);

	append_large("append", ctx, fd, 2 * SEGMENT, SEGMENT, 0);
	append_large("append_0", ctx, fd, 2 * SEGMENT, 0, 0);
	append_large("flag", ctx, plain, 2 * SEGMENT, 0, RWF_APPEND);
	append_large("flag_end", ctx, plain, 2 * SEGMENT, 7 * SEGMENT,
		     RWF_APPEND);
	write_large("in_place", ctx, plain, 2 * SEGMENT, SEGMENT);
}

static void durable(void)
{
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", LARGE, O_RDWR);
	int sync = open_again(fd, O_RDWR | O_DIRECT | O_SYNC);
	int dsync = open_again(fd, O_RDWR | O_DIRECT | O_DSYNC);

	write_flagged("flag_dsync", ctx, fd, LARGE / 2, SEGMENT / 2, RWF_DSYNC);
	write_flagged("flag_sync", ctx, fd, LARGE / 2, SEGMENT, RWF_SYNC);
	write_large("sync", ctx, sync, LARGE / 2, 3 * SEGMENT);
	write_large("dsync", ctx, dsync, LARGE / 2, 4 * SEGMENT);
	read_large("read_sync", ctx, sync, LARGE, 0);
	read_flagged("read_dsync", ctx, fd, LARGE, 0, RWF_DSYNC);
}

static void flags(void)
{
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", LARGE, O_RDWR);

	read_flagged("read_hipri", ctx, fd, LARGE, 0, RWF_HIPRI);
	write_flagged("write_hipri", ctx, fd, LARGE / 2, 4096, RWF_HIPRI);
	write_flagged("write_atomic", ctx, fd, LARGE / 2, LARGE / 2, ATOMIC);
	read_flagged("read_atomic", ctx, fd, LARGE, 0, ATOMIC);
	read_flagged("read_dontcache", ctx, fd, LARGE, 0, DONTCACHE);
	read_flagged("read_unknown", ctx, fd, LARGE, 0, 1u << 30);
}

static void nowait(void)
{
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", LARGE, O_RDWR);

	read_flagged("read", ctx, fd, LARGE, 0, RWF_NOWAIT);
	write_flagged("write", ctx, fd, LARGE / 2, SEGMENT, RWF_NOWAIT);
	write_flagged("extend", ctx, fd, LARGE, SEGMENT, RWF_NOWAIT);
	REQUIRE(ftruncate(fd, 0) == 0 && ftruncate(fd, LARGE) == 0);
	write_flagged("hole", ctx, fd, LARGE / 2, SEGMENT, RWF_NOWAIT);
}

static void misaligned(void)
{
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", LARGE, O_RDWR);

	read_large("offset_1", ctx, fd, LARGE / 2, 1);
	read_large("offset_256", ctx, fd, LARGE / 2, SEGMENT + 256);
	read_large("length_1", ctx, fd, LARGE / 2 + 1, 0);
	read_large("length_256", ctx, fd, LARGE / 2 - 256, SEGMENT);
	read_moved("buffer_1", ctx, fd, LARGE / 2, SEGMENT, 1);
	read_moved("buffer_4", ctx, fd, LARGE / 2, SEGMENT, 4);
	read_moved("buffer_64", ctx, fd, LARGE / 2, SEGMENT, 64);
	read_moved("buffer_512", ctx, fd, LARGE / 2, SEGMENT, 512);
}

/*
 * A failed write may have written a part of its data, so each write has its own file.
 */
static void misaligned_writes(void)
{
	static const struct {
		const char *key;
		int length, offset, buffer;
	} at[] = {
		{ "offset_8", 0, 8, 0 },     { "offset_256", 0, 256, 0 },
		{ "length_8", -8, 0, 0 },    { "length_256", -256, 0, 0 },
		{ "buffer_1", 0, 0, 1 },     { "buffer_8", 0, 0, 8 },
		{ "buffer_512", 0, 0, 512 },
	};
	aio_context_t ctx = new_context(8);
	size_t i;
	int fd;

	for (i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		fd = large_file("f", LARGE / 2, O_RDWR);
		write_moved(at[i].key, ctx, fd,
			    (size_t)(LARGE / 4 + at[i].length),
			    SEGMENT + at[i].offset, at[i].buffer);
		REQUIRE(close(fd) == 0);
	}
}

/*
 * One of many iovecs has a misaligned address or length. In some requests the next
 * iovec makes the total length aligned again.
 */
static void misaligned_piece(void)
{
	static const struct {
		const char *key;
		int moved, less, more;
	} at[] = {
		{ "moved_1", 1, 0, 0 },         { "moved_8", 8, 0, 0 },
		{ "moved_256", 256, 0, 0 },     { "less_1", 0, 1, 0 },
		{ "less_8", 0, 8, 0 },          { "less_256", 0, 256, 0 },
		{ "made_up_1", 0, 1, 1 },       { "made_up_8", 0, 8, 8 },
		{ "made_up_256", 0, 256, 256 }, { "both", 8, 8, 8 },
	};
	aio_context_t ctx = new_context(8);
	char key[64];
	size_t i;
	int fd;

	for (i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		struct pieces pieces = { .nr = 0 };
		struct iovec *one = &pieces.iov[90];

		add_pieces(&pieces, 99, 4096 * 4);
		one->iov_base = (char *)one->iov_base + at[i].moved;
		one->iov_len -= (size_t)at[i].less;
		one[1].iov_len += (size_t)at[i].more;
		fd = large_file("f", LARGE / 2, O_RDWR);
		snprintf(key, sizeof(key), "read_%s", at[i].key);
		read_pieces(key, ctx, fd, &pieces, SEGMENT / 2);
		snprintf(key, sizeof(key), "write_%s", at[i].key);
		write_pieces(key, ctx, fd, &pieces, SEGMENT / 2);
		REQUIRE(close(fd) == 0);
	}
}

const struct row rows_whole[] = {
	ROW("large direct writes that extend the file", extending),
	ROW("large direct writes over an end within a block", extending_odd),
	ROW("large direct writes in pieces that extend the file",
	    pieces_extending),
	ROW("large direct writes that append", appending),
	ROW("large direct writes that are durable", durable),
	ROW("large direct requests with RWF flags", flags),
	ROW("large direct requests with RWF_NOWAIT", nowait),
	ROW("large direct reads that are misaligned", misaligned),
	ROW("large direct writes that are misaligned", misaligned_writes),
	ROW("large direct requests with a piece misaligned", misaligned_piece),
	NO_ROW,
};
