/* SPDX-License-Identifier: MIT */
/*
 * direct MODE SECONDS [SEED]: large O_DIRECT requests while something they use changes
 *
 * An ordinary client that is linked with libaio; it also runs on the kernel. Its
 * threads read and write one file of the current directory with O_DIRECT, by requests
 * large enough for the library to split into segments. MODE says what else happens
 * meanwhile:
 *
 * truncate   the file is truncated and extended, and holes are punched into it
 * append     other threads append to the file
 * memory     parts of the requests' memory are unmapped and mapped again
 * close      descriptors are closed and reused, and contexts are destroyed
 *
 * Each written word identifies the file, the write and the offset. The program exits
 * with status 1 when it finds the first violation of these invariants, which hold on
 * the kernel, too:
 *
 * L1  Each request has one event. After io_destroy no event comes.
 * L2  A result is the full length, or a multiple of the block size, or it ends where the
 *     file ended at some time. Requests fail only if part of their memory is unmapped.
 * L3  Each word read is zero, or was written to this offset by a write that had begun.
 *     No memory outside of requests changes.
 * L4  Each word of the file's final content was written to this offset, or is zero.
 *     No other file has changed.
 */
#undef NDEBUG
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libaio.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

enum {
	BLOCK = 512,
	PAGE = 4096,
	/* largest file size, not counting appended bytes */
	FILE_BYTES = 3 << 20,
	BYTES_MIN = 512 << 10,
	BYTES_MAX = 1280 << 10,
	/* memory of a request, including guard bytes that must not change */
	AREA = 2 << 20,
	NR_THREADS = 4,
	NR_SLOTS = 2, /* most requests that a thread has in flight */
	NR_PIECES = 64,
	ODD = 104, /* bytes in the file's last block after some truncations */
	RECORD = 1000, /* bytes in each append: whole words */
	PATIENCE_S = 60,
	NR_WRITES_MAX = 1 << 20,
};

enum mode { TRUNCATE, APPEND, MEMORY, CLOSE, NR_MODES };
static const char *const names[] = { "truncate", "append", "memory", "close" };

static enum mode mode;
static double end_time;
static uint64_t seed;

/* All writes of this program, numbered from 1. nr_writes is atomic. */
static uint32_t nr_writes;
static struct {
	int64_t offset;
	int64_t bytes;
} writes[NR_WRITES_MAX];

struct runner {
	struct iocb iocb;
	struct iovec iov[NR_PIECES];
	int nr_iov;
	int64_t offset, bytes;
	bool is_write, is_pending;
	/* if the request is a write: the write's number, an index of writes[] */
	uint32_t number;
	char *area;
};

static struct thread {
	pthread_t thread;
	uint64_t random;
	io_context_t ctx;
	int fd, other;
	struct runner runners[NR_SLOTS];
	unsigned long nr_reads, nr_writes, nr_short, nr_errors;
} threads[NR_THREADS];

static _Noreturn void fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

static void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	_exit(1);
}

static double now(void)
{
	return (double)now_ns() / 1e9;
}

static uint32_t draw(struct thread *thread, uint32_t below)
{
	uint64_t x = thread->random += 0x9e3779b97f4a7c15u; /* splitmix64 */

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ x >> 31) >> 32) % below;
}

/*
 * The words in the file
 */

static uint64_t word_of(uint32_t number, int64_t offset)
{
	return (uint64_t)number << 32 | (uint64_t)offset;
}

static uint32_t begin_write(int64_t offset, int64_t bytes)
{
	uint32_t number = __atomic_add_fetch(&nr_writes, 1, __ATOMIC_RELAXED);

	if (number >= NR_WRITES_MAX)
		fail("more writes than there is room for");
	writes[number].offset = offset;
	__atomic_store_n(&writes[number].bytes, bytes, __ATOMIC_RELEASE);
	return number;
}

/*
 * Check the nr bytes that belong at `offset` of the file. Each whole word must be zero,
 * or a write that has begun must have written it to this offset (invariants L3, L4).
 */
static void check_words(const char *what, const char *bytes, int64_t nr,
			int64_t offset)
{
	uint64_t word;

	for (int64_t at = 0; at + 8 <= nr; at += 8) {
		uint32_t number;
		int64_t begin, length;

		memcpy(&word, bytes + at, 8);
		if (!word)
			continue;
		number = (uint32_t)(word >> 32);
		length = number && number < NR_WRITES_MAX
				 ? __atomic_load_n(&writes[number].bytes,
						   __ATOMIC_ACQUIRE)
				 : 0;
		begin = length ? writes[number].offset : 0;
		if (word != word_of(number, offset + at) ||
		    offset + at < begin || offset + at >= begin + length)
			fail("%s: at %" PRId64 " is the word %" PRIx64, what,
			     offset + at, word);
	}
}

/* Memory outside of the requests is filled with a known byte (the canary) */

enum { CANARY = 0xc5 };

static void check_canary(const char *what, const char *from, const char *to)
{
	for (; from < to; from++)
		if ((unsigned char)*from != CANARY)
			fail("%s: memory of somebody else is touched", what);
}

/*
 * Place the request's vectors at random in its memory area, with gaps between them.
 */
static void lay_out(struct thread *thread, struct runner *runner,
		    bool is_vectored)
{
	char *at = runner->area + PAGE;
	int64_t left = runner->bytes;

	memset(runner->area, CANARY, AREA);
	runner->nr_iov = 0;
	while (left) {
		int64_t part = (1 + draw(thread, BYTES_MAX / 16 / BLOCK)) *
			       (int64_t)BLOCK;

		if (!is_vectored || part > left ||
		    runner->nr_iov == NR_PIECES - 1)
			part = left;
		runner->iov[runner->nr_iov++] =
			(struct iovec){ at, (size_t)part };
		at += part + draw(thread, 2) * BLOCK;
		left -= part;
	}
	assert(at + PAGE <= runner->area + AREA);
}

static void fill(const struct runner *runner)
{
	int64_t offset = runner->offset;

	for (int i = 0; i < runner->nr_iov; i++) {
		uint64_t *words = runner->iov[i].iov_base;

		for (size_t k = 0; k < runner->iov[i].iov_len / 8; k++)
			words[k] = word_of(runner->number,
					   offset + (int64_t)k * 8);
		offset += (int64_t)runner->iov[i].iov_len;
	}
}

static void check_memory(const struct runner *runner, int64_t res)
{
	const char *what = runner->is_write ? "write" : "read";
	const char *at = runner->area;
	int64_t offset = runner->offset, left = res > 0 ? res : 0;

	for (int i = 0; i < runner->nr_iov; i++) {
		int64_t part = (int64_t)runner->iov[i].iov_len;

		check_canary(what, at, runner->iov[i].iov_base);
		at = (char *)runner->iov[i].iov_base + part;
		if (part > left)
			part = left;
		check_words(what, runner->iov[i].iov_base, part, offset);
		offset += part;
		left -= part;
	}
	check_canary(what, at, runner->area + AREA);
}

static void take_memory(struct thread *thread, const struct runner *runner)
{
	size_t bytes = (1 + draw(thread, 8)) * PAGE;
	char *at = runner->area +
		   draw(thread, (uint32_t)(AREA - bytes) / PAGE) * PAGE;

	switch (draw(thread, 3)) {
	case 0: assert(mprotect(at, bytes, PROT_NONE) == 0); break;
	case 1: assert(mprotect(at, bytes, PROT_READ) == 0); break;
	default:
		/*
		 * Map memory without access at the same addresses, so that no other
		 * mapping takes them.
		 */
		assert(mmap(at, bytes, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
			    0) == at);
	}
}

/*
 * Make the request's memory area accessible again, and write the canary around its
 * vectors.
 */
static void give_memory(struct runner *runner)
{
	char *at = runner->area;

	assert(mprotect(runner->area, AREA, PROT_READ | PROT_WRITE) == 0);
	for (int i = 0; i <= runner->nr_iov; i++) {
		char *end = i < runner->nr_iov ? runner->iov[i].iov_base
					       : runner->area + AREA;

		for (; at < end; at++)
			if (!*at)
				*at = (char)CANARY;
		if (i < runner->nr_iov)
			at += runner->iov[i].iov_len;
	}
}

/*
 * Submitting and reaping requests
 */

static void submit(struct thread *thread, struct runner *runner)
{
	int64_t unit = draw(thread, 4) ? PAGE : BLOCK;
	bool is_vectored = draw(thread, 2);
	struct iocb *list = &runner->iocb;
	int ret;

	runner->bytes =
		(BYTES_MIN + draw(thread, BYTES_MAX - BYTES_MIN)) / unit * unit;
	runner->offset = draw(thread, FILE_BYTES - BYTES_MAX) / unit * unit;
	runner->is_write = draw(thread, 2);
	lay_out(thread, runner, is_vectored);
	if (runner->is_write) {
		runner->number = begin_write(runner->offset, runner->bytes);
		fill(runner);
		io_prep_pwritev(list, thread->fd, runner->iov, runner->nr_iov,
				runner->offset);
	} else {
		io_prep_preadv(list, thread->fd, runner->iov, runner->nr_iov,
			       runner->offset);
	}
	if (!is_vectored) {
		list->aio_lio_opcode =
			runner->is_write ? IO_CMD_PWRITE : IO_CMD_PREAD;
		list->u.c.buf = runner->iov[0].iov_base;
		list->u.c.nbytes = runner->iov[0].iov_len;
	}
	list->data = runner;
	runner->is_pending = true;
	if (mode == MEMORY && !draw(thread, 4))
		take_memory(thread, runner);
	ret = io_submit(thread->ctx, 1, &list);
	if (ret != 1)
		fail("io_submit says %d", ret);
}

/* Check L2. */
static void check_result(struct thread *thread, const struct runner *runner,
			 int64_t res)
{
	bool is_end = false;

	if (mode == TRUNCATE)
		is_end = res % BLOCK == ODD;
	if (mode == APPEND)
		is_end = (runner->offset + res - FILE_BYTES) % RECORD == 0;
	thread->nr_errors += res < 0;
	thread->nr_short += res >= 0 && res < runner->bytes;
	if (res == runner->bytes || (mode == MEMORY && res == -EFAULT))
		return;
	if (res < 0 || res > runner->bytes || mode == CLOSE ||
	    (runner->is_write && mode != MEMORY) || (res % BLOCK && !is_end))
		fail("a %s of %" PRId64 " at %" PRId64 " has %" PRId64,
		     runner->is_write ? "write" : "read", runner->bytes,
		     runner->offset, res);
}

/* Return: whether there was an event to reap. */
static bool reap(struct thread *thread, bool may_sleep)
{
	struct timespec patience = { .tv_sec = may_sleep ? PATIENCE_S : 0 };
	struct io_event event;
	struct runner *runner;
	int ret = io_getevents(thread->ctx, may_sleep, 1, &event, &patience);

	if (ret == 0 && !may_sleep)
		return false;
	if (ret != 1)
		fail("io_getevents says %d", ret);
	runner = event.data;
	if (event.obj != &runner->iocb || !runner->is_pending)
		fail("an event too many");
	runner->is_pending = false;
	if (mode == MEMORY)
		give_memory(runner);
	check_result(thread, runner, (int64_t)event.res);
	check_memory(runner, (int64_t)event.res);
	if (runner->is_write)
		thread->nr_writes++;
	else
		thread->nr_reads++;
	return true;
}

/*
 * Changes while requests are in flight
 */

static int open_file(const char *name, int flags)
{
	int fd = open(name, flags | O_CLOEXEC, 0600);

	if (fd < 0)
		fail("%s: %s", name, strerror(errno));
	return fd;
}

/*
 * Close the thread's descriptor or make it refer to another file, then restore it. The
 * mutex keeps other threads from opening a file at the closed descriptor.
 */
static void close_number(struct thread *thread)
{
	static pthread_mutex_t numbers = PTHREAD_MUTEX_INITIALIZER;
	int copy;

	pthread_mutex_lock(&numbers);
	copy = open_file("file", O_RDWR | O_DIRECT);
	if (draw(thread, 2))
		assert(dup2(thread->other, thread->fd) == thread->fd);
	else
		assert(close(thread->fd) == 0);
	assert(dup2(copy, thread->fd) == thread->fd);
	assert(close(copy) == 0);
	pthread_mutex_unlock(&numbers);
}

/*
 * After io_destroy, fill the requests' memory with the canary: no request may change
 * this memory later (invariant L1).
 */
static void destroy_context(struct thread *thread)
{
	assert(io_destroy(thread->ctx) == 0);
	thread->ctx = NULL;
	for (int i = 0; i < NR_SLOTS; i++) {
		thread->runners[i].is_pending = false;
		memset(thread->runners[i].area, CANARY, AREA);
	}
	assert(io_setup(NR_SLOTS, &thread->ctx) == 0);
}

static void disturb(struct thread *thread)
{
	if (mode == CLOSE) {
		close_number(thread);
		if (!draw(thread, 8))
			destroy_context(thread);
	}
	if (mode == MEMORY) {
		for (int i = 0; i < NR_SLOTS; i++) {
			struct runner *runner = &thread->runners[i];

			if (!runner->is_pending)
				continue;
			take_memory(thread, runner);
		}
	}
}

static void *make_requests(void *arg)
{
	struct thread *thread = arg;

	while (now() < end_time) {
		for (int i = 0; i < NR_SLOTS; i++)
			if (!thread->runners[i].is_pending)
				submit(thread, &thread->runners[i]);
		disturb(thread);
		reap(thread, false);
		for (int i = 0; i < NR_SLOTS; i++)
			if (thread->runners[i].is_pending) {
				reap(thread, true);
				break;
			}
	}
	for (int i = 0; i < NR_SLOTS; i++)
		while (thread->runners[i].is_pending)
			reap(thread, true);
	if (reap(thread, false))
		fail("an event too many");
	return NULL;
}

static void change_size(struct thread *thread, int fd)
{
	off_t blocks = draw(thread, FILE_BYTES / BLOCK);
	off_t bytes = (1 + draw(thread, 512)) * (off_t)BLOCK;

	switch (draw(thread, 4)) {
	case 0:
		assert(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 blocks * BLOCK, bytes) == 0);
		break;
	case 1: assert(ftruncate(fd, FILE_BYTES) == 0); break;
	default:
		assert(ftruncate(fd, blocks * BLOCK +
					     (draw(thread, 2) ? ODD : 0)) == 0);
	}
}

/* Append a record. No other thread appends meanwhile, so the offset is known. */
static void append(int fd)
{
	uint64_t words[RECORD / 8];
	struct stat st;
	uint32_t number;

	assert(fstat(fd, &st) == 0);
	/* If the file has become too large, truncate the file instead of appending. */
	if (st.st_size >= FILE_BYTES + (1 << 20)) {
		assert(ftruncate(fd, FILE_BYTES) == 0);
		return;
	}
	number = begin_write(st.st_size, RECORD);
	for (int i = 0; i < RECORD / 8; i++)
		words[i] = word_of(number, st.st_size + i * 8);
	assert(write(fd, words, RECORD) == RECORD);
}

static void change_file(void)
{
	struct thread other = { .random = seed };
	int fd = open_file("file", O_RDWR | O_APPEND);
	struct timespec pause = { .tv_nsec = 0 };

	while (now() < end_time) {
		if (mode == TRUNCATE)
			change_size(&other, fd);
		if (mode == APPEND)
			append(fd);
		pause.tv_nsec = draw(&other, 2000000);
		nanosleep(&pause, NULL);
	}
	assert(close(fd) == 0);
}

/*
 * Creating the file, and checking it at the end
 */

static void make_file(const char *name)
{
	int fd = open_file(name, O_RDWR | O_CREAT | O_TRUNC);
	uint32_t number = begin_write(0, FILE_BYTES);
	uint64_t *words = malloc(FILE_BYTES);

	assert(words);
	for (int64_t i = 0; i < FILE_BYTES / 8; i++)
		words[i] = word_of(number, i * 8);
	assert(write(fd, words, FILE_BYTES) == FILE_BYTES);
	assert(fsync(fd) == 0 && close(fd) == 0);
	free(words);
}

static void begin(struct thread *thread)
{
	thread->random = seed + (uint64_t)(thread - threads + 1) * 7919;
	assert(io_setup(NR_SLOTS, &thread->ctx) == 0);
	thread->fd = open_file("file", O_RDWR | O_DIRECT);
	thread->other = open_file("other", O_RDWR | O_DIRECT);
	for (int i = 0; i < NR_SLOTS; i++) {
		thread->runners[i].area =
			mmap(NULL, AREA, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		assert(thread->runners[i].area != MAP_FAILED);
	}
}

static void check_file(const char *name)
{
	int fd = open_file(name, O_RDONLY);
	struct stat st;
	char *bytes;

	assert(fstat(fd, &st) == 0);
	bytes = malloc((size_t)st.st_size + 1);
	assert(bytes && pread(fd, bytes, (size_t)st.st_size, 0) == st.st_size);
	check_words(name, bytes, st.st_size, 0);
	if (!strcmp(name, "other"))
		for (int64_t i = 0; i < st.st_size; i += 8)
			if (bytes[i + 4] != 2)
				fail("another file is touched");
	free(bytes);
	assert(close(fd) == 0);
}

int main(int argc, char **argv)
{
	unsigned long nr_reads = 0, nr_made = 0, nr_short = 0, nr_errors = 0;

	while (argc >= 3 && mode < NR_MODES && strcmp(argv[1], names[mode]))
		mode++;
	if (argc < 3 || mode == NR_MODES) {
		fputs("usage: direct truncate|append|memory|close SECONDS "
		      "[SEED]\n",
		      stderr);
		return 2;
	}
	seed = argc > 3 ? strtoull(argv[3], NULL, 0) : (uint64_t)time(NULL);
	printf("seed %" PRIu64 "\n", seed);
	fflush(stdout);
	make_file("file");
	make_file("other");
	for (int i = 0; i < NR_THREADS; i++)
		begin(&threads[i]);
	end_time = now() + atof(argv[2]);
	for (int i = 0; i < NR_THREADS; i++)
		assert(!pthread_create(&threads[i].thread, NULL, make_requests,
				       &threads[i]));
	change_file();
	for (int i = 0; i < NR_THREADS; i++) {
		assert(!pthread_join(threads[i].thread, NULL));
		assert(io_destroy(threads[i].ctx) == 0);
		nr_reads += threads[i].nr_reads;
		nr_made += threads[i].nr_writes;
		nr_short += threads[i].nr_short;
		nr_errors += threads[i].nr_errors;
	}
	check_file("file");
	check_file("other");
	printf("%lu reads, %lu writes, %lu of them short, %lu failed\n",
	       nr_reads, nr_made, nr_short, nr_errors);
	return 0;
}
