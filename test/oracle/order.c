/* SPDX-License-Identifier: MIT */
/*
 * order MODE ROUNDS [SEED]: checks that requests take effect in the order of submission
 *
 * An ordinary client that is linked with libaio; it also runs on the kernel. It uses a
 * file without a name in the current directory. It exits with status 1 at the first
 * byte or event that violates one of these invariants:
 *
 * O1  A read returns every buffered write, append and size-extending direct
 *     write that was submitted before it for the same inode, through any
 *     descriptor, context or thread.
 * O2  The writes of O1 take effect in the order of submission.
 * O3  The event of an fsync comes after the events of all writes that were
 *     submitted before it.
 * O4  A read through the page cache returns no write that was submitted after
 *     it for the same inode, through any descriptor, context or thread.
 * O5  A buffered write, or a direct write that extends the file, takes effect
 *     after earlier direct requests for the same bytes.
 * O6  Each accepted request has exactly one event (batch_reap checks this).
 */
#undef NDEBUG
#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "batch.h"

enum {
	AREA = 1 << 20, /* size of the part of the file that requests use */
	/* pairs of a write and a read in a batch of mode_deep() */
	DEPTH = 8,
	NR_THREADS = 4,
};
static_assert(2 * DEPTH + 1 <= MAX_BATCH, "a deep batch and its sync");

/* the default seed of xorshift; a seed must not be 0 */
static uint32_t seed = 2463534242u;

/* xorshift: with the same seed, all runs make the same requests. */
static uint32_t draw(uint32_t below)
{
	static __thread uint32_t state;

	if (!state)
		state = seed;
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state % below;
}

/*
 * Draw a random range. Its start and length are multiples of `unit`, which is the size
 * of a version number, or of a block for O_DIRECT.
 */
static void draw_range(size_t unit, size_t *ret_len, long long *ret_pos)
{
	*ret_len = (1 + draw((uint32_t)(MAX_LEN / unit))) * unit;
	*ret_pos =
		(long long)(draw((uint32_t)((AREA - MAX_LEN) / unit)) * unit);
}

/* Test the invariants O1 and O3: in each batch, write a range, read it and sync. */
static void pairs(long rounds, int write_fd, int read_fd, size_t unit)
{
	struct batch b;
	long round;

	batch_init(&b);
	assert(ftruncate(write_fd, AREA) == 0);
	for (round = 1; round <= rounds; round++) {
		uint64_t version = (uint64_t)round;
		int w, r, s;
		size_t len;
		long long pos;

		draw_range(unit, &len, &pos);
		w = batch_write(&b, write_fd, len, pos, version);
		r = batch_read(&b, read_fd, len, pos);
		s = batch_sync(&b, write_fd, round % 2);
		batch_submit(&b, 0);
		batch_reap(&b);
		expect_version("read", b.bufs[r], len, version, version);
		batch_expect_after(&b, s, w);
	}
	batch_fini(&b);
}

static void mode_batch(long rounds)
{
	int fd = file_new();

	pairs(rounds, fd, fd, sizeof(uint64_t));
	close(fd);
}

/*
 * Test the invariant O1: an O_DIRECT read must see a buffered write that was submitted
 * before it to the same file.
 */
static void mode_direct_read(long rounds)
{
	int fd = file_new(), direct = file_again(fd, O_RDONLY | O_DIRECT);

	pairs(rounds, fd, direct, BLOCK);
	close(direct);
	close(fd);
}

/*
 * Test the invariants O1 to O4: in each batch, several writes of one range, each
 * followed by a read of it.
 */
static void mode_deep(long rounds)
{
	int fd = file_new();
	struct batch b;
	long done;

	batch_init(&b);
	assert(ftruncate(fd, AREA) == 0);
	for (done = 0; done < rounds; done += DEPTH) {
		uint64_t first = (uint64_t)done + 1, last = first + DEPTH - 1;
		int reads[DEPTH], writes[DEPTH], s, i;
		size_t len;
		long long pos;

		draw_range(sizeof(uint64_t), &len, &pos);
		for (i = 0; i < DEPTH; i++) {
			writes[i] = batch_write(&b, fd, len, pos, first + i);
			reads[i] = batch_read(&b, fd, len, pos);
		}
		s = batch_sync(&b, fd, false);
		batch_submit(&b, 0);
		batch_reap(&b);
		for (i = 0; i < DEPTH; i++) {
			expect_version("read", b.bufs[reads[i]], len, first + i,
				       first + i);
			batch_expect_after(&b, s, writes[i]);
		}
		assert(pread(fd, b.bufs[0], len, pos) == (ssize_t)len);
		expect_version("file", b.bufs[0], len, last, last);
	}
	batch_fini(&b);
	close(fd);
}

/* Shared by the threads of mode_threads() */
static struct {
	/*
	 * held while a thread numbers a write and submits it, so that writes are
	 * submitted in the order of their numbers
	 */
	pthread_mutex_t lock;
	/* under lock: version number of the write submitted last */
	uint64_t version;
	int fds[NR_THREADS]; /* all refer to one file; immutable while threads run */
	long rounds; /* how many rounds each thread runs; immutable while threads run */
} shared = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void *submit_in_turn(void *arg)
{
	const int *fd = arg;
	int neighbour = shared.fds[(fd - shared.fds + 1) % NR_THREADS];
	struct batch b;
	long round;

	batch_init(&b);
	for (round = 0; round < shared.rounds; round++) {
		int w = 0, r, s;
		uint64_t version;

		pthread_mutex_lock(&shared.lock);
		if (round % 4) {
			w = batch_write(&b, *fd, 2 * BLOCK, 0,
					++shared.version);
			batch_submit(&b, 0);
		}
		version = shared.version;
		r = batch_read(&b, neighbour, 2 * BLOCK, 0);
		s = batch_sync(&b, neighbour, true);
		batch_submit(&b, r);
		pthread_mutex_unlock(&shared.lock);
		batch_reap(&b);
		expect_version("read", b.bufs[r], 2 * BLOCK, version, version);
		if (round % 4)
			batch_expect_after(&b, s, w);
	}
	batch_fini(&b);
	return NULL;
}

/*
 * Test the invariant O4. A read reaches beyond the end of the file. Writes submitted
 * after it extend the file: an append, a write that leaves a hole, or a direct write.
 * The read must end where the file ended before these writes.
 */
static void mode_before(long rounds)
{
	int fd = file_new(), end = file_again(fd, O_WRONLY | O_APPEND);
	int direct = file_again(fd, O_RDWR | O_DIRECT);
	struct batch b;
	long round;

	batch_init(&b);
	for (round = 1; round <= rounds; round++) {
		int r;

		assert(ftruncate(fd, BLOCK) == 0);
		r = batch_read(&b, fd, 2 * BLOCK, 0);
		b.due[r] = BLOCK;
		batch_write(&b, fd, BLOCK, 0, (uint64_t)round);
		if (round % 3 == 0)
			batch_write(&b, end, BLOCK, 0, (uint64_t)round);
		else
			batch_write(&b, round % 3 == 1 ? fd : direct, BLOCK,
				    2 * BLOCK, (uint64_t)round);
		batch_submit(&b, 0);
		batch_reap(&b);
		expect_version("read", b.bufs[r], BLOCK, (uint64_t)round - 1,
			       (uint64_t)round - 1);
	}
	batch_fini(&b);
	close(direct);
	close(end);
	close(fd);
}

/*
 * Test the invariant O5. A direct write, and a direct read across the file's end, are
 * followed by buffered writes of the same bytes, or a direct write that extends the
 * file. These later writes must take effect last.
 */
static void mode_mixed(long rounds)
{
	int fd = file_new(), direct = file_again(fd, O_RDWR | O_DIRECT);
	struct batch b;
	long round;

	batch_init(&b);
	for (round = 1; round <= rounds; round++) {
		uint64_t version = 4 * (uint64_t)round;
		uint64_t now[BLOCK / 8];
		int r, w;

		assert(ftruncate(fd, 4 * BLOCK) == 0);
		w = batch_write(&b, direct, 4 * BLOCK, 0, version);
		batch_submit(&b, w);
		batch_reap(&b);
		batch_write(&b, direct, 2 * BLOCK, 0, version + 1);
		batch_write(&b, fd, BLOCK, BLOCK, version + 2);
		r = batch_read(&b, direct, 3 * BLOCK, 2 * BLOCK);
		b.due[r] = 2 * BLOCK;
		batch_write(&b, round % 2 ? fd : direct, BLOCK, 4 * BLOCK,
			    version + 3);
		batch_write(&b, fd, BLOCK, 3 * BLOCK, version + 3);
		batch_submit(&b, 0);
		batch_reap(&b);
		expect_version("read", b.bufs[r], 2 * BLOCK, version, version);
		assert(pread(fd, now, BLOCK, BLOCK) == BLOCK);
		expect_version("file", now, BLOCK, version + 2, version + 2);
	}
	batch_fini(&b);
	close(direct);
	close(fd);
}

/*
 * Test the invariants O1 to O4 with several threads, each with its own context and its
 * own descriptor of one inode.
 */
static void mode_threads(long rounds)
{
	pthread_t threads[NR_THREADS];
	uint64_t last[2 * BLOCK / 8];
	int i;

	shared.rounds = rounds / NR_THREADS;
	shared.fds[0] = file_new();
	assert(ftruncate(shared.fds[0], AREA) == 0);
	for (i = 1; i < NR_THREADS; i++)
		shared.fds[i] = file_again(shared.fds[0], O_RDWR);
	for (i = 0; i < NR_THREADS; i++)
		assert(pthread_create(&threads[i], NULL, submit_in_turn,
				      &shared.fds[i]) == 0);
	for (i = 0; i < NR_THREADS; i++)
		assert(pthread_join(threads[i], NULL) == 0);
	assert(pread(shared.fds[0], last, sizeof(last), 0) == sizeof(last));
	expect_version("file", last, sizeof(last), shared.version,
		       shared.version);
	for (i = 0; i < NR_THREADS; i++)
		close(shared.fds[i]);
}

/*
 * Test the invariants O1 and O2: appends through two descriptors and two contexts, then
 * a read of all. Each word of an appended record is the record's number.
 */
static void mode_append(long rounds)
{
	int fd = file_new();
	int ends[2] = { file_again(fd, O_WRONLY | O_APPEND),
			file_again(fd, O_WRONLY | O_APPEND) };
	struct batch b[2];
	long done;

	batch_init(&b[0]);
	batch_init(&b[1]);
	for (done = 0; done < rounds; done += DEPTH) {
		size_t lens[DEPTH], total = 0, at = 0;
		int i, r;

		for (i = 0; i < DEPTH; i++) {
			struct batch *which = &b[draw(2)];

			lens[i] = (1 + draw(MAX_LEN / DEPTH / 8)) * 8;
			total += lens[i];
			batch_write(which, ends[draw(2)], lens[i], 0,
				    (uint64_t)(done + i));
			batch_submit(which, which->nr - 1);
		}
		r = batch_read(&b[0], fd, total, 0);
		batch_submit(&b[0], r);
		batch_reap(&b[0]);
		batch_reap(&b[1]);
		for (i = 0; i < DEPTH; at += lens[i++])
			expect_version("appended", b[0].bufs[r] + at / 8,
				       lens[i], (uint64_t)(done + i),
				       (uint64_t)(done + i));
		assert(ftruncate(fd, 0) == 0);
	}
	batch_fini(&b[1]);
	batch_fini(&b[0]);
	close(ends[1]);
	close(ends[0]);
	close(fd);
}

/*
 * Test the invariants O1 and O2: overlapping direct writes that extend the file, then a
 * read.
 */
static void mode_extend(long rounds)
{
	int fd = file_new(), direct = file_again(fd, O_RDWR | O_DIRECT);
	struct batch b;
	long long end = 0;
	long round;

	batch_init(&b);
	for (round = 1; round <= rounds; round++) {
		uint64_t first = 2 * (uint64_t)round, second = first + 1;
		int w1, w2, r;

		w1 = batch_write(&b, direct, 2 * BLOCK, end, first);
		w2 = batch_write(&b, direct, 2 * BLOCK, end + BLOCK, second);
		r = batch_read(&b, round % 2 ? direct : fd, 3 * BLOCK, end);
		batch_submit(&b, 0);
		batch_reap(&b);
		batch_expect_after(&b, w2, w1);
		expect_version("first", b.bufs[r], BLOCK, first, first);
		expect_version("second", b.bufs[r] + BLOCK / 8, 2 * BLOCK,
			       second, second);
		end += 3 * BLOCK;
		if (end >= AREA) {
			assert(ftruncate(fd, 0) == 0);
			end = 0;
		}
	}
	batch_fini(&b);
	close(direct);
	close(fd);
}

static const struct {
	const char *name;
	void (*run)(long rounds);
} modes[] = {
	{ "batch", mode_batch },   { "direct-read", mode_direct_read },
	{ "deep", mode_deep },     { "threads", mode_threads },
	{ "append", mode_append }, { "extend", mode_extend },
	{ "before", mode_before }, { "mixed", mode_mixed },
};

int main(int argc, char **argv)
{
	size_t i;

	if (argc == 4)
		seed = (uint32_t)atol(argv[3]) | 1;
	for (i = 0; argc >= 3 && i < sizeof(modes) / sizeof(*modes); i++)
		if (!strcmp(argv[1], modes[i].name)) {
			printf("seed %" PRIu32 "\n", seed);
			fflush(stdout);
			modes[i].run(atol(argv[2]));
			return 0;
		}
	fputs("usage: order batch|direct-read|deep|threads|append|extend|"
	      "before|mixed ROUNDS [SEED]\n",
	      stderr);
	return 2;
}
