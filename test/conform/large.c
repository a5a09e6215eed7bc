/* SPDX-License-Identifier: MIT */
/*
 * Include this header before the kernel's, which defines some of the same constants.
 */
#include <sys/mount.h>

#include "large.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conform.h"

enum { BLOCK = 512, WIPED = 0xee };

/*
 * The buffer that all requests use, between two guard areas that no request may change.
 */
static char area[2 * LARGE] __attribute__((aligned(4096)));
static char *const buffer = area + SEGMENT;

/*
 * The next write's hand: the number by which its data can be recognised (large.h).
 */
static int hand = 2;
static bool is_left_open;

void stamp(void *buf, size_t nbytes, long long offset, int by)
{
	char *bytes = buf;
	uint64_t word;
	size_t at, skip, len;

	for (at = 0; at < nbytes; at += len) {
		skip = (size_t)(offset + (long long)at) % 8;
		len = nbytes - at < 8 - skip ? nbytes - at : 8 - skip;
		word = (uint64_t)by << 48 | ((uint64_t)offset + at - skip);
		memcpy(bytes + at, (char *)&word + skip, len);
	}
}

bool is_stamped(const void *buf, size_t nbytes, long long offset, int by)
{
	char right[BLOCK];
	size_t at, len;

	for (at = 0; at < nbytes; at += len) {
		/*
		 * To save time, compare the first word of a block, and the rest only if
		 * that word matches.
		 */
		len = at ? BLOCK : 8;
		len = nbytes - at < len ? nbytes - at : len;
		stamp(right, len, offset + (long long)at, by);
		if (memcmp(right, (const char *)buf + at, len) != 0)
			return false;
	}
	return true;
}

int next_hand(void)
{
	return hand++;
}

void what_is_left_is_open(void)
{
	is_left_open = true;
}

static bool is_all(const char *bytes, size_t nbytes, unsigned char value)
{
	return !nbytes || ((unsigned char)bytes[0] == value &&
			   !memcmp(bytes, bytes + 1, nbytes - 1));
}

/* The content of a block: a write's hand (number), or one of these values. */
enum { ZERO = -1, UNTOUCHED = -2, OTHER = -3 };

static int kind_of(const char *bytes, size_t nbytes, long long offset)
{
	int by;

	for (by = 1; by < hand; by++)
		if (is_stamped(bytes, nbytes, offset, by))
			return by;
	if (is_all(bytes, nbytes, 0))
		return ZERO;
	return is_all(bytes, nbytes, WIPED) ? UNTOUCHED : OTHER;
}

static size_t put_run(char *text, size_t size, int kind, long long nbytes)
{
	static const char *const names[] = { "zero", "untouched", "other" };
	int len;

	if (kind > 0)
		len = snprintf(text, size, "%d:%lld,", kind, nbytes);
	else
		len = snprintf(text, size, "%s:%lld,", names[-1 - kind],
			       nbytes);
	return (size_t)len < size ? (size_t)len : size;
}

/*
 * A text that describes runs of equal blocks. The last run is not in the text yet,
 * because the next blocks may extend it.
 */
struct runs {
	char text[1024];
	size_t used;
	int kind;
	long long nbytes;
};

static void close_run(struct runs *runs)
{
	if (runs->nbytes)
		runs->used += put_run(runs->text + runs->used,
				      sizeof(runs->text) - runs->used,
				      runs->kind, runs->nbytes);
	runs->nbytes = 0;
}

static void describe(struct runs *runs, const char *bytes, size_t nbytes,
		     long long offset)
{
	size_t at, len;
	int kind;

	for (at = 0; at < nbytes; at += len) {
		len = nbytes - at < BLOCK ? nbytes - at : BLOCK;
		kind = kind_of(bytes + at, len, offset + (long long)at);
		if (kind != runs->kind)
			close_run(runs);
		runs->kind = kind;
		runs->nbytes += (long long)len;
	}
}

static void note_runs(const char *key, struct runs *runs)
{
	close_run(runs);
	/* Removes the comma after the last run. */
	if (runs->used)
		runs->text[runs->used - 1] = '\0';
	note_text(key, runs->used ? runs->text : "nothing");
}

void note_bytes(const char *key, const void *buf, size_t nbytes,
		long long offset)
{
	struct runs runs = { .used = 0 };

	describe(&runs, buf, nbytes, offset);
	note_runs(key, &runs);
}

/* Appends a description of a part of the file "f" to the text. */
static void describe_part(struct runs *runs, long long from, long long to)
{
	static char part[SEGMENT];
	int fd = open("f", O_RDONLY);
	ssize_t len = 1;
	size_t want;

	REQUIRE(fd >= 0);
	for (; from < to && len > 0; from += len) {
		want = sizeof(part);
		if (to - from < (long long)want)
			want = (size_t)(to - from);
		len = pread(fd, part, want, from);
		REQUIRE(len >= 0);
		describe(runs, part, (size_t)len, from);
	}
	REQUIRE(close(fd) == 0);
}

void note_file(const char *key)
{
	struct runs runs = { .used = 0 };

	describe_part(&runs, 0, LLONG_MAX);
	note_runs(key, &runs);
}

int large_file(const char *name, size_t size, int flags)
{
	/*
	 * Open the file with O_DIRECT before it has any bytes. So on a file system
	 * without direct I/O, the test case is skipped before it writes the data.
	 */
	int ret = file_of(name, 0, flags | O_DIRECT);
	int fd = open(name, O_WRONLY);
	char *bytes = malloc(size + 8);

	REQUIRE(fd >= 0 && bytes);
	stamp(bytes, size + 8, 0, 1);
	REQUIRE(write(fd, bytes, size) == (ssize_t)size);
	REQUIRE(fsync(fd) == 0);
	REQUIRE(close(fd) == 0);
	free(bytes);
	return ret;
}

int open_again(int fd, int flags)
{
	char path[32];
	int ret;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ret = open(path, flags);
	REQUIRE(ret >= 0);
	return ret;
}

static const char *sub_key(const char *key, const char *name)
{
	static char text[128];

	snprintf(text, sizeof(text), "%s.%s", key, name);
	return text;
}

/*
 * Prints the bytes that a read left in the memory of iov, and clears this memory. Then
 * prints whether the read changed any other memory.
 */
static void note_read(const char *key, const struct iovec *iov, int nr,
		      long long res, long long offset)
{
	struct runs runs = { .used = 0 };
	size_t left = res > 0 ? (size_t)res : 0, len;
	int i;

	for (i = 0; i < nr; i++) {
		len = iov[i].iov_len < left ? iov[i].iov_len : left;
		describe(&runs, iov[i].iov_base, len, offset);
		memset(iov[i].iov_base, WIPED, iov[i].iov_len);
		offset += (long long)len;
		left -= len;
	}
	note_runs(sub_key(key, "data"), &runs);
	if (!is_all(area, sizeof(area), WIPED))
		note(sub_key(key, "astray"), 1);
}

void note_written(const char *key, long long nbytes, long long offset,
		  long long res)
{
	struct runs data = { .used = 0 }, around = { .used = 0 };
	struct runs left = { .used = 0 };
	long long end = offset + (res > 0 ? res : 0);

	describe_part(&data, offset, end);
	note_runs(sub_key(key, "data"), &data);
	describe_part(&left, end, offset + nbytes);
	close_run(&left);
	if (left.used &&
	    (!(is_left_open || res < 0) || strstr(left.text, "other")))
		note_runs(sub_key(key, "left"), &left);
	describe_part(&around, 0, offset);
	close_run(&around);
	if (around.used)
		around.text[around.used - 1] = '|';
	describe_part(&around, offset + nbytes, LLONG_MAX);
	note_runs(sub_key(key, "around"), &around);
}

static void read_to(const char *key, struct iocb cb, aio_context_t ctx)
{
	struct iovec iov = { (void *)(uintptr_t)cb.aio_buf, cb.aio_nbytes };

	memset(area, WIPED, sizeof(area));
	note_read(key, &iov, 1, try_one(key, ctx, &cb), cb.aio_offset);
}

void read_large(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		long long offset)
{
	read_flagged(key, ctx, fd, nbytes, offset, 0);
}

void read_flagged(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		  long long offset, unsigned int flags)
{
	struct iocb cb = PREAD_OF(fd, buffer, nbytes, offset);

	cb.aio_rw_flags = (__kernel_rwf_t)flags;
	read_to(key, cb, ctx);
}

void read_moved(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		long long offset, int by)
{
	read_to(key, PREAD_OF(fd, buffer + by, nbytes, offset), ctx);
}

/*
 * Fills the memory of a write with words that contain the file offset at which each
 * word must arrive. Then makes the write.
 */
static void write_to(const char *key, struct iocb cb, aio_context_t ctx,
		     long long place)
{
	memset(area, WIPED, sizeof(area));
	stamp((void *)(uintptr_t)cb.aio_buf, cb.aio_nbytes, place, next_hand());
	note_written(key, (long long)cb.aio_nbytes, place,
		     try_one(key, ctx, &cb));
}

void write_large(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		 long long offset)
{
	write_flagged(key, ctx, fd, nbytes, offset, 0);
}

void write_flagged(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		   long long offset, unsigned int flags)
{
	struct iocb cb = PWRITE_OF(fd, buffer, nbytes, offset);

	cb.aio_rw_flags = (__kernel_rwf_t)flags;
	write_to(key, cb, ctx, offset);
}

void write_moved(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		 long long offset, int by)
{
	write_to(key, PWRITE_OF(fd, buffer + by, nbytes, offset), ctx, offset);
}

void append_large(const char *key, aio_context_t ctx, int fd, size_t nbytes,
		  long long offset, unsigned int flags)
{
	struct iocb cb = PWRITE_OF(fd, buffer, nbytes, offset);

	cb.aio_rw_flags = (__kernel_rwf_t)flags;
	write_to(key, cb, ctx, lseek(fd, 0, SEEK_END));
}

void add_pieces(struct pieces *pieces, int nr, size_t nbytes)
{
	struct iovec *iov = pieces->iov + pieces->nr;
	char *end = area + sizeof(area);
	int i;

	if (pieces->nr)
		end = iov[-1].iov_base;
	for (i = 0; i < nr; i++) {
		end -= nbytes + BLOCK;
		REQUIRE(end >= area && pieces->nr < 1024);
		iov[i] = (struct iovec){ end, nbytes };
		pieces->nr++;
	}
}

void read_pieces(const char *key, aio_context_t ctx, int fd,
		 const struct pieces *pieces, long long offset)
{
	struct iocb cb = iocb_of(IOCB_CMD_PREADV, fd, pieces->iov,
				 (size_t)pieces->nr, offset);

	memset(area, WIPED, sizeof(area));
	note_read(key, pieces->iov, pieces->nr, try_one(key, ctx, &cb), offset);
}

void write_pieces(const char *key, aio_context_t ctx, int fd,
		  const struct pieces *pieces, long long offset)
{
	struct iocb cb = iocb_of(IOCB_CMD_PWRITEV, fd, pieces->iov,
				 (size_t)pieces->nr, offset);
	int i, by = next_hand();
	long long at = offset;

	memset(area, WIPED, sizeof(area));
	for (i = 0; i < pieces->nr; i++) {
		stamp(pieces->iov[i].iov_base, pieces->iov[i].iov_len, at, by);
		at += (long long)pieces->iov[i].iov_len;
	}
	note_written(key, at - offset, offset, try_one(key, ctx, &cb));
}

/* Runs a mkfs program on the device. Return: whether it succeeded. */
static bool is_made(const char *program, const char *device)
{
	pid_t pid = fork();
	int status, null;

	REQUIRE(pid >= 0);
	if (pid == 0) {
		null = open("/dev/null", O_RDWR);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		execlp(program, program, device, (char *)NULL);
		_exit(127);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid);
	return status == 0;
}

void mount_small(void)
{
	static const struct {
		const char *type, *make;
		long mbytes;
	} kinds[] = {
		{ "ext4", "mkfs.ext4", 24 },
		{ "xfs", "mkfs.xfs", 320 },
		{ "btrfs", "mkfs.btrfs", 128 },
	};
	const char *type = getenv("CONFORM_ON") ?: "ext4";
	char link[32], device[32] = "";
	int memory, loop;
	size_t i;

	need_private_mounts();
	REQUIRE(mkdir("small", 0755) == 0);
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].type, type) != 0)
			continue;
		memory = memfd_create("small", MFD_CLOEXEC);
		REQUIRE(ftruncate(memory, kinds[i].mbytes << 20) == 0);
		loop = loop_device_of(memory);
		snprintf(link, sizeof(link), "/proc/self/fd/%d", loop);
		REQUIRE(readlink(link, device, sizeof(device) - 1) > 0);
		if (!is_made(kinds[i].make, device))
			skip("no-mkfs");
		REQUIRE(mount(device, "small", type, 0, NULL) == 0);
		REQUIRE(close(loop) == 0 && close(memory) == 0);
		return;
	}
	REQUIRE(mount("none", "small", "tmpfs", 0, "size=24m") == 0);
}

void fill_small(void)
{
	int fd = open("small/filler", O_CREAT | O_WRONLY, 0644);
	long nbytes, end = 0;

	REQUIRE(fd >= 0);
	for (nbytes = 64l << 20; nbytes >= 4096; nbytes /= 2)
		while (fallocate(fd, 0, end, nbytes) == 0)
			end += nbytes;
	REQUIRE(errno == ENOSPC);
	REQUIRE(close(fd) == 0);
}
