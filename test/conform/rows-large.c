/* SPDX-License-Identifier: MIT */
/*
 * Direct requests so large that the library may execute them in several segments
 *
 * By default the library executes the first requests of an open file whole, without
 * cutting them (src/split/tune.h). So these test cases also run with UAIO_SEGMENTS=8,
 * which makes the library cut each large request.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "conform.h"
#include "differences.h"
#include "large.h"
#include "ring.h"

static void reads(void)
{
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", LARGE, O_RDONLY);

	read_large("all", ctx, fd, LARGE, 0);
	read_large("one_more", ctx, fd, 2 * SEGMENT, 4096);
	read_large("odd", ctx, fd, 5 * SEGMENT + 1536, 3 * SEGMENT - 512);
	read_large("a_page_before", ctx, fd, SEGMENT + 4096, SEGMENT - 4096);
	read_large("small", ctx, fd, 2 * SEGMENT - 512, 0);
	read_large("the_least", ctx, fd, 2 * SEGMENT, LARGE / 2);
}

static void writes(void)
{
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", LARGE, O_RDWR);

	write_large("one_more", ctx, fd, 2 * SEGMENT, 4096);
	write_large("odd", ctx, fd, 5 * SEGMENT + 1536, 3 * SEGMENT - 512);
	write_large("to_the_end", ctx, fd, 2 * SEGMENT, LARGE - 2 * SEGMENT);
	write_large("all", ctx, fd, LARGE, 0);
	read_large("again", ctx, fd, LARGE, 0);
}

static void ends(void)
{
	static const struct {
		const char *key, *above;
		long size;
	} at[] = {
		{ "border", "border_again", 3 * SEGMENT },
		{ "block_above", "block_above_again", 3 * SEGMENT + 512 },
		{ "byte_above", "byte_above_again", 3 * SEGMENT + 1 },
		{ "byte_below", "byte_below_again", 3 * SEGMENT - 1 },
		{ "inside", "inside_again", SEGMENT + 100000 },
		{ "in_first", "in_first_again", 4096 + 100 },
	};
	aio_context_t ctx = new_context(8);
	size_t i;
	int fd;

	for (i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		fd = large_file("f", (size_t)at[i].size, O_RDONLY);
		read_large(at[i].key, ctx, fd, LARGE, 0);
		read_large(at[i].above, ctx, fd, LARGE / 2, 4096);
		close(fd);
	}
	fd = large_file("f", 4096 + 100, O_RDONLY);
	read_large("at", ctx, fd, LARGE, 8192);
	read_large("behind", ctx, fd, LARGE, SEGMENT);
	read_large("far_behind", ctx, fd, LARGE, 1ll << 40);
}

/*
 * The read and the write have more segments than are ever in flight together. When the
 * read is made, most of its segments are holes in the file.
 */
static void very_long(void)
{
	const size_t nbytes = 70 * SEGMENT;
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", LARGE, O_RDWR);
	char *memory = pages_of(nbytes, PROT_READ | PROT_WRITE);
	struct iocb cb = PREAD_OF(fd, memory, nbytes - 4096, 4096);
	long res;

	REQUIRE(ftruncate(fd, (off_t)nbytes) == 0);
	write_large("behind", ctx, fd, LARGE / 2, 50 * SEGMENT - 512);
	res = try_one("read", ctx, &cb);
	note_bytes("read.data", memory, res > 0 ? (size_t)res : 0, 4096);
	stamp(memory, nbytes, 0, next_hand());
	cb = PWRITE_OF(fd, memory, nbytes, 0);
	note_written("write", (long long)nbytes, 0, try_one("write", ctx, &cb));
}

static void too_long(void)
{
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", 3 * SEGMENT + 4096, O_RDWR);
	const size_t nbytes = 3ul << 30;
	char *memory = mmap(NULL, nbytes, PROT_READ,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	/*
	 * These reads begin after the end of the file, so they must leave the memory
	 * unchanged.
	 */
	REQUIRE(memory != MAP_FAILED);
	TRY_EACH(ctx, fd, { "read_behind", PREAD, memory, nbytes, LARGE },
		 { "read_most_behind", PREAD, memory, 0x7ffff000, LARGE },
		 { "read_-1", PREAD, memory, -1ul, LARGE });
}

static void offsets_bad(void)
{
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", LARGE, O_RDWR);
	char *memory = pages_of(LARGE, PROT_READ | PROT_WRITE);

	read_large("read_-1", ctx, fd, LARGE, -1);
	read_large("read_-LARGE", ctx, fd, LARGE, -LARGE);
	read_large("read_to_last", ctx, fd, LARGE, LLONG_MAX - LARGE + 1);
	read_large("read_beyond", ctx, fd, LARGE, LLONG_MAX - LARGE + 513);
	TRY_EACH(ctx, fd, { "write_-512", PWRITE, memory, LARGE, -512 },
		 { "write_beyond", PWRITE, memory, LARGE,
		   LLONG_MAX - LARGE + 513 });
	note_file("file");
}

static void pieces(void)
{
	static struct pieces three, pages, sectors, mixed;
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", LARGE, O_RDWR);

	add_pieces(&three, 3, 3 * SEGMENT - 4096);
	add_pieces(&pages, 1024, 4096);
	add_pieces(&sectors, 1024, 1024);
	add_pieces(&mixed, 1, SEGMENT + 512);
	add_pieces(&mixed, 99, 512);
	add_pieces(&mixed, 1, 2 * SEGMENT);
	add_pieces(&mixed, 7, 8192);
	read_pieces("read_three", ctx, fd, &three, 8192);
	read_pieces("read_pages", ctx, fd, &pages, 0);
	read_pieces("read_sectors", ctx, fd, &sectors, SEGMENT - 512);
	read_pieces("read_mixed", ctx, fd, &mixed, 1536);
	write_pieces("write_three", ctx, fd, &three, 8192);
	write_pieces("write_pages", ctx, fd, &pages, 0);
	write_pieces("write_sectors", ctx, fd, &sectors, SEGMENT - 512);
	write_pieces("write_mixed", ctx, fd, &mixed, 1536);
	read_pieces("read_back", ctx, fd, &mixed, 1536);
}

static void empty_pieces(void)
{
	static struct pieces some, first;
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", LARGE, O_RDWR);

	/*
	 * Put pieces of 0 bytes at the start of the iovec, at a segment border, inside
	 * segments and at the end: up to 500 in a row.
	 */
	add_pieces(&some, 3, 0);
	add_pieces(&some, 1, SEGMENT);
	add_pieces(&some, 2, 0);
	add_pieces(&some, 1, SEGMENT - 4096);
	add_pieces(&some, 1, 0);
	add_pieces(&some, 1, 8192);
	add_pieces(&some, 500, 0);
	add_pieces(&some, 1, SEGMENT);
	add_pieces(&some, 2, 0);
	some.iov[4].iov_base = NULL;
	read_pieces("read", ctx, fd, &some, 0);
	write_pieces("write", ctx, fd, &some, 0);
	add_pieces(&first, 1, LARGE / 2);
	add_pieces(&first, 1023, 0);
	read_pieces("read_first", ctx, fd, &first, 512);
	write_pieces("write_first", ctx, fd, &first, 512);
}

static void pieces_at_end(void)
{
	static struct pieces pieces;
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", 2 * SEGMENT + 5000, O_RDONLY);

	add_pieces(&pieces, 40, 32768);
	read_pieces("read", ctx, fd, &pieces, 0);
	read_pieces("read_above", ctx, fd, &pieces, 2 * SEGMENT);
	read_pieces("read_behind", ctx, fd, &pieces, 3 * SEGMENT);
}

static void holes(void)
{
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", 0, O_RDWR);

	REQUIRE(ftruncate(fd, LARGE) == 0);
	read_large("nothing", ctx, fd, LARGE, 0);
	write_large("into", ctx, fd, 3 * SEGMENT, SEGMENT / 2);
	read_large("some", ctx, fd, LARGE, 0);
	write_large("across", ctx, fd, 5 * SEGMENT, 3 * SEGMENT);
	write_large("odd", ctx, fd, 3 * SEGMENT, LARGE / 2 + 512);
	read_large("most", ctx, fd, LARGE, 0);
}

static void preallocated(void)
{
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", 4096, O_RDWR);

	if (fallocate(fd, 0, 0, LARGE) < 0)
		skip("no-fallocate");
	read_large("nothing", ctx, fd, LARGE, 0);
	write_large("into", ctx, fd, 3 * SEGMENT, SEGMENT / 2);
	write_large("odd", ctx, fd, 3 * SEGMENT, LARGE / 2 + 512);
	read_large("some", ctx, fd, LARGE, 0);
}

static void limits(void)
{
	struct rlimit limit = { 3 * SEGMENT, RLIM_INFINITY };
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", LARGE, O_RDWR);

	signal(SIGXFSZ, SIG_IGN);
	REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	write_large("border", ctx, fd, LARGE, 0);
	limit.rlim_cur = 3 * SEGMENT + 4096;
	REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	write_large("inside", ctx, fd, LARGE / 2, SEGMENT);
	limit.rlim_cur = 100 * 1024;
	REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	write_large("in_first", ctx, fd, LARGE, 4096);
	write_large("below", ctx, fd, LARGE / 2, SEGMENT);
}

/*
 * RLIMIT_FSIZE shortens the write to a length that is not a multiple of the block size.
 */
static void limit_misaligned(void)
{
	struct rlimit limit = { 3 * SEGMENT + 100, RLIM_INFINITY };
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", LARGE, O_RDWR);

	what_is_left_is_open();
	signal(SIGXFSZ, SIG_IGN);
	REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	write_large("inside", ctx, fd, LARGE, 0);
}

static void full_file_system(void)
{
	aio_context_t ctx = new_context(8);
	int fd;

	what_is_left_is_open();
	mount_small();
	REQUIRE(chdir("small") == 0);
	fd = large_file("f", 3 * SEGMENT, O_RDWR);
	REQUIRE(ftruncate(fd, LARGE) == 0 && fsync(fd) == 0);
	REQUIRE(chdir("..") == 0);
	fill_small();
	REQUIRE(chdir("small") == 0);
	write_large("room", ctx, fd, 3 * SEGMENT, 0);
	write_large("none", ctx, fd, 2 * SEGMENT, LARGE / 2);
	write_large("some_room", ctx, fd, 5 * SEGMENT, 0);
}

static void block_device(void)
{
	const long size = 5 * SEGMENT + 512;
	aio_context_t ctx = new_context(8);
	int loop, fd;

	loop = loop_device_of(large_file("f", (size_t)size, O_RDWR));
	fd = open_again(loop, O_RDWR | O_DIRECT);
	read_large("all", ctx, fd, (size_t)size, 0);
	read_large("across_end", ctx, fd, LARGE, SEGMENT + 512);
	read_large("at_end", ctx, fd, LARGE, size);
	read_large("behind", ctx, fd, LARGE, 2 * LARGE);
	write_large("write", ctx, fd, 3 * SEGMENT, 4096);
	write_large("write_across_end", ctx, fd, LARGE, SEGMENT + 512);
	write_large("write_at_end", ctx, fd, LARGE, size);
}

static void direction(void)
{
	aio_context_t ctx = new_context(8);

	read_large("read", ctx, large_file("f", LARGE, O_WRONLY), LARGE, 0);
	write_large("write", ctx, large_file("f", LARGE, O_RDONLY), LARGE, 0);
	read_large("path", ctx, open("f", O_PATH), LARGE, 0);
}

/*
 * A part of the read's memory is inaccessible, but the file ends before the read
 * reaches that part.
 */
static void bad_behind_end(void)
{
	aio_context_t ctx = new_context(8);
	int fd = large_file("f", 3 * SEGMENT, O_RDONLY);
	char *memory = pages_of(4 * SEGMENT, PROT_READ | PROT_WRITE);
	struct iocb cb;
	long res;

	cb = PREAD_OF(fd, memory, 8 * SEGMENT, 0);
	res = try_one("read", ctx, &cb);
	note_bytes("read.data", memory, res > 0 ? (size_t)res : 0, 0);
}

enum { BUFFER = 8 * SEGMENT };

/*
 * Gives one page of the buffer these protection bits, and makes a read and a write,
 * which must fail.
 */
static void bad_at(const char *key, aio_context_t ctx, long bad, int prot)
{
	int fd = large_file("f", BUFFER, O_RDWR);
	char *memory = pages_of(BUFFER, PROT_READ | PROT_WRITE), name[64];
	struct iocb cb = PREAD_OF(fd, memory, BUFFER, 0);
	long res;

	REQUIRE(mprotect(memory + bad, 4096, prot) == 0);
	snprintf(name, sizeof(name), "read_%s", key);
	res = try_one(name, ctx, &cb);
	snprintf(name, sizeof(name), "read_%s.data", key);
	note_bytes(name, memory, res > 0 ? (size_t)res : 0, 0);

	REQUIRE(mprotect(memory, BUFFER, PROT_READ | PROT_WRITE) == 0);
	stamp(memory, BUFFER, 0, next_hand());
	REQUIRE(mprotect(memory + bad, 4096, prot) == 0);
	cb = PWRITE_OF(fd, memory, BUFFER, 0);
	snprintf(name, sizeof(name), "write_%s", key);
	note_written(name, BUFFER, 0, try_one(name, ctx, &cb));
	REQUIRE(close(fd) == 0 && munmap(memory, BUFFER + 4096) == 0);
}

static void bad_buffers(void)
{
	aio_context_t ctx = new_context(8);

	what_is_left_is_open();
	bad_at("first", ctx, 0, PROT_NONE);
	bad_at("in_first", ctx, 4 * 4096, PROT_NONE);
	bad_at("border", ctx, 2 * SEGMENT, PROT_NONE);
	bad_at("inside", ctx, 2 * SEGMENT + 4096, PROT_NONE);
	bad_at("last", ctx, BUFFER - 4096, PROT_NONE);
	bad_at("read_only_first", ctx, 0, PROT_READ);
	bad_at("read_only_inside", ctx, 2 * SEGMENT + 4096, PROT_READ);
	bad_at("read_only_last", ctx, BUFFER - 4096, PROT_READ);
}

enum { NR_AT_ONCE = 8, NR_ROUNDS = 4 };

/*
 * Many requests in flight on the same file: the ranges of reads overlap, those of
 * writes do not.
 */
static void depth(void)
{
	static char memory[NR_AT_ONCE][2 * SEGMENT + 4096]
		__attribute__((aligned(4096)));
	aio_context_t ctx = new_context(2 * NR_AT_ONCE);
	int fd = large_file("f", NR_AT_ONCE * 3 * SEGMENT, O_RDWR), i, round;
	struct iocb cbs[NR_AT_ONCE], *list[NR_AT_ONCE];
	const size_t nbytes = sizeof(memory[0]);
	struct io_event events[NR_AT_ONCE];
	long long at;
	long wrong = 0;

	rings_unordered();
	for (round = 0; round < NR_ROUNDS; round++) {
		for (i = 0; i < NR_AT_ONCE; i++) {
			at = i * 3 * SEGMENT - (i ? 512 : 0);
			stamp(memory[i], nbytes, at, round);
			cbs[i] = round % 2
					 ? PREAD_OF(fd, memory[i], nbytes, at)
					 : PWRITE_OF(fd, memory[i], nbytes, at);
			list[i] = &cbs[i];
		}
		REQUIRE(call_submit(ctx, NR_AT_ONCE, list) == NR_AT_ONCE);
		REQUIRE(reap(ctx, NR_AT_ONCE, events) == NR_AT_ONCE);
		for (i = 0; i < NR_AT_ONCE; i++) {
			at = i * 3 * SEGMENT - (i ? 512 : 0);
			wrong += events[i].res != (long long)nbytes;
			wrong += round % 2 &&
				 !is_stamped(memory[i], nbytes, at, round - 1);
		}
	}
	note("wrong", wrong);
}

static void closed_in_flight(void)
{
	static char memory[NR_AT_ONCE][3 * SEGMENT]
		__attribute__((aligned(4096)));
	aio_context_t ctx = new_context(NR_AT_ONCE);
	struct iocb cbs[NR_AT_ONCE], *list[NR_AT_ONCE];
	struct io_event events[NR_AT_ONCE];
	int fd, other, i, round;
	long wrong = 0;

	rings_unordered();
	for (round = 0; round < NR_ROUNDS; round++) {
		fd = large_file("f", LARGE / 2, O_RDWR);
		other = large_file("other", 0, O_RDWR);
		memset(memory, 0, sizeof(memory));
		for (i = 0; i < NR_AT_ONCE; i++) {
			cbs[i] = PREAD_OF(fd, memory[i], sizeof(memory[i]),
					  i * 4096);
			list[i] = &cbs[i];
		}
		stamp(memory[0], sizeof(memory[0]), 4 * SEGMENT, next_hand());
		cbs[0] = PWRITE_OF(fd, memory[0], sizeof(memory[0]),
				   4 * SEGMENT);
		REQUIRE(call_submit(ctx, NR_AT_ONCE, list) == NR_AT_ONCE);
		REQUIRE(dup2(other, fd) == fd);
		REQUIRE(reap(ctx, NR_AT_ONCE, events) == NR_AT_ONCE);
		for (i = 0; i < NR_AT_ONCE; i++)
			wrong += events[i].res != sizeof(memory[i]);
		for (i = 1; i < NR_AT_ONCE; i++)
			wrong += !is_stamped(memory[i], sizeof(memory[i]),
					     i * 4096, 1);
		wrong += lseek(other, 0, SEEK_END) != 0;
		close(fd);
		close(other);
	}
	note("wrong", wrong);
	note_file("file");
}

const struct row rows_large[] = {
	ROW("large direct reads", reads),
	ROW("large direct writes in place", writes),
	ROW("large direct reads that meet the end of the file", ends),
	ROW("very large direct requests", very_long),
	ROW("direct reads of more than a request may have", too_long),
	ROW("large direct requests at offsets out of range", offsets_bad),
	ROW("large direct requests in pieces", pieces),
	ROW("large direct requests with empty pieces", empty_pieces),
	ROW("large direct reads in pieces that meet the end", pieces_at_end),
	ROW("large direct requests and holes", holes),
	ROW("large direct requests on room allocated before", preallocated),
	ROW("large direct writes stop at RLIMIT_FSIZE", limits),
	ROW_DIFFERS("large direct writes and an RLIMIT_FSIZE within a block",
		    limit_misaligned, differs_segments,
		    { "inside=event:EINVAL", "inside=event:786432" },
		    { "inside.data=nothing", "inside.data=2:786432" },
		    { "ring_0.events=*", "ring_0.events=*" }),
	ROW_DIFFERS("large direct writes when the file system gets full",
		    full_file_system, differs_segments,
		    { "some_room=event:ENOSPC", "some_room=event:786432" },
		    { "some_room.data=nothing", "some_room.data=4:786432" },
		    { "ring_0.events=*", "ring_0.events=*" }),
	ROW_DIFFERS("a large direct read into bad memory behind the end",
		    bad_behind_end, differs_segments,
		    { "read=event:EFAULT", "read=event:786432" },
		    { "read.data=nothing", "read.data=1:786432" },
		    { "ring_0.events=*", "ring_0.events=*" }),
	ROW_DIFFERS("large direct requests with bad buffers", bad_buffers,
		    differs_segments,
		    { "*_border=event:EFAULT", "*_border=event:524288" },
		    { "*_border.data=nothing", "*_border.data=?:524288" },
		    { "*_inside=event:EFAULT", "*_inside=event:524288" },
		    { "*_inside.data=nothing", "*_inside.data=?:524288" },
		    { "*_last=event:EFAULT", "*_last=event:1835008" },
		    { "*_last.data=nothing", "*_last.data=?:1835008" },
		    { "ring_0.events=*", "ring_0.events=*" }),
	ROW("large direct requests on a block device", block_device),
	ROW("large direct requests in the wrong direction", direction),
	ROW("many large direct requests in flight", depth),
	ROW("large direct requests stay with their file", closed_in_flight),
	NO_ROW,
};
