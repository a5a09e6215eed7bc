/* SPDX-License-Identifier: MIT */
/*
 * asan CASE: makes requests and uses their memory, in most cases by mistake. The
 * program is built with AddressSanitizer or MemorySanitizer, or runs under valgrind.
 * Each case is a mistake unless the list says "no mistake".
 *
 * freed         a read writes to memory that was freed
 * short         a read writes to memory that is too short
 * sent          a write takes its data from memory that is too short
 * raw           a write takes its data from memory that was not initialised
 * filled        no mistake: the program uses bytes that only a read has initialised
 * unfilled      the program uses the byte after those that a short read has written
 * kept          no mistake: the program uses a byte that it has initialised, and to which a
 *               short read did not write
 * touched       the program uses a byte of the memory of a read in flight
 * cleared       a function of the C library uses memory of a read in flight
 * free          memory of a read in flight is freed
 * right         no mistake: the program uses memory just before and after the memory of
 *               requests with odd addresses and sizes; a child of fork() uses the memory of
 *               its parent's request
 * neighbours    no mistake: the buffers are parts of one allocation; the program uses a
 *               buffer, and submits the next read into it, while reads into the other
 *               buffers are in flight
 * beside        like neighbours, but the allocation is freed while two reads are in flight
 * mapped        other memory is mapped over the memory of a request in flight, and used
 */
#undef NDEBUG
#include <aio.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int fds[2]; /* a pipe */

/* volatile, so that the compiler does not see the mistakes */
static void *volatile hidden;

static void *hide(void *at)
{
	hidden = at;
	return hidden;
}

static void read_into(struct aiocb *aiocb, void *at, size_t bytes)
{
	*aiocb = (struct aiocb){ .aio_fildes = fds[0],
				 .aio_buf = at,
				 .aio_nbytes = bytes };
	assert(aio_read(aiocb) == 0);
}

static ssize_t await(struct aiocb *aiocb)
{
	const struct aiocb *list[1] = { aiocb };

	while (aio_error(aiocb) == EINPROGRESS)
		(void)aio_suspend(list, 1, NULL);
	return aio_return(aiocb);
}

/* Complete the read, by writing to the pipe. */
static void feed(struct aiocb *aiocb, size_t bytes)
{
	static char text[4096];

	assert(write(fds[1], text, bytes) == (ssize_t)bytes);
	assert(await(aiocb) == (ssize_t)bytes);
}

static void freed(void)
{
	struct aiocb aiocb;
	char *at = hide(malloc(100));

	free(at);
	read_into(&aiocb, hidden, 100);
}

static void too_short(void)
{
	struct aiocb aiocb;

	read_into(&aiocb, hide(malloc(99)), 100);
}

static void sent(void)
{
	struct aiocb aiocb = { .aio_fildes = fds[1], .aio_nbytes = 21 };

	aiocb.aio_buf = hide(calloc(1, 20));
	(void)aio_write(&aiocb);
}

static void raw(void)
{
	struct aiocb aiocb = { .aio_fildes = fds[1], .aio_nbytes = 20 };
	char *at = hide(malloc(20));

	memset(at, 0, 19);
	aiocb.aio_buf = at;
	assert(aio_write(&aiocb) == 0);
	assert(await(&aiocb) == 20);
}

/* Use byte i of a buffer of 100 bytes, of which a read has written the first 60. */
static void use_byte(size_t i)
{
	struct aiocb aiocb;
	char *at = hide(malloc(100));

	read_into(&aiocb, at, 100);
	feed(&aiocb, 60);
	if (at[i] == 'x')
		(void)write(1, "x\n", 2);
}

static void filled(void)
{
	use_byte(0);
	use_byte(59);
}

static void unfilled(void)
{
	use_byte(60);
}

static void use_kept(char *at, size_t bytes)
{
	struct aiocb aiocb;

	read_into(&aiocb, at, bytes);
	feed(&aiocb, 60);
	if (at[60] == 'x' || at[99] == 'x')
		(void)write(1, "x\n", 2);
	free(at);
}

static void kept(void)
{
	char *at = hide(malloc(200));

	use_kept(hide(calloc(1, 100)), 100);
	memset(at, 1, 100);
	use_kept(at, 200);
}

static void touched(void)
{
	struct aiocb aiocb;
	char *at = hide(calloc(1, 100));

	read_into(&aiocb, at, 100);
	at[50]++;
	feed(&aiocb, 100);
}

static void cleared(void)
{
	struct aiocb aiocb;
	char *at = hide(calloc(1, 100));

	read_into(&aiocb, at + 3, 97);
	memset(at, 0, (size_t)atoi("100"));
	feed(&aiocb, 97);
}

static void free_in_flight(void)
{
	struct aiocb aiocb;
	char *at = hide(malloc(100));

	read_into(&aiocb, at, 100);
	free(hidden);
	feed(&aiocb, 100);
}

/*
 * Use the memory just before and just after the buffer of a read in flight. This is no
 * mistake.
 */
static void use_around(char *at, size_t bytes, size_t from, size_t to)
{
	struct aiocb aiocb;

	memset(at, 1, bytes);
	read_into(&aiocb, at + from, to - from);
	for (size_t i = 0; i < from; i++)
		at[i]++;
	for (size_t i = to; i < bytes; i++)
		at[i]++;
	feed(&aiocb, to - from);
	memset(at, 2, bytes);
}

static void use_in_child(void)
{
	struct aiocb aiocb;
	char *at = hide(calloc(1, 100));
	int status;
	pid_t pid;

	read_into(&aiocb, at, 100);
	pid = fork();
	assert(pid >= 0);
	if (pid == 0) {
		memset(at, 3, 100);
		_exit(at[99] == 3 ? 0 : 1);
	}
	assert(waitpid(pid, &status, 0) == pid && status == 0);
	feed(&aiocb, 100);
	free(at);
}

static void right(void)
{
	char local[61];
	char *at;

	for (size_t bytes = 1; bytes <= 40; bytes++) {
		at = hide(malloc(bytes));
		for (size_t from = 0; from < bytes; from++)
			use_around(at, bytes, from, bytes);
		for (size_t to = 1; to <= bytes; to++)
			use_around(at, bytes, to / 3, to);
		free(at);
	}
	use_around(local, sizeof(local), 5, 50);
	at = hide(malloc(1000));
	for (size_t from = 0; from < 70; from++)
		use_around(at, 1000, from, 1000 - (from * 7) % 130);
	free(at);
	use_in_child();
}

enum { BUFFER = 1000, BUFFERS = 4 };

static char *buffer(char *pool, size_t i)
{
	return pool + BUFFER / 2 + i * BUFFER;
}

/*
 * Start reads into the first nr buffers of a block, the last buffer first.
 * Return: the block.
 */
static char *read_downwards(struct aiocb *aiocbs, size_t nr)
{
	char *pool = hide(calloc(BUFFERS + 1, BUFFER));

	while (nr-- > 0)
		read_into(&aiocbs[nr], buffer(pool, nr), BUFFER);
	return pool;
}

static void neighbours(void)
{
	struct aiocb aiocbs[BUFFERS];
	char *pool = read_downwards(aiocbs, BUFFERS);

	/*
	 * Complete the oldest read and use its buffer. This is no mistake, although the
	 * reads into the neighbouring buffers are in flight.
	 */
	for (size_t round = 0; round < 3; round++)
		for (size_t i = BUFFERS; i-- > 0;) {
			feed(&aiocbs[i], BUFFER);
			memset(buffer(pool, i), 5, BUFFER);
			read_into(&aiocbs[i], buffer(pool, i), BUFFER);
		}
	for (size_t i = BUFFERS; i-- > 0;)
		feed(&aiocbs[i], BUFFER);
	memset(pool, 6, (BUFFERS + 1) * BUFFER);
	free(pool);
}

static void beside(void)
{
	struct aiocb aiocbs[2];

	free(read_downwards(aiocbs, 2));
	feed(&aiocbs[1], BUFFER);
	feed(&aiocbs[0], BUFFER);
}

static void map_over(void)
{
	enum { BYTES = 4096 };
	struct aiocb aiocb;
	char *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert(at != MAP_FAILED);
	read_into(&aiocb, at, BYTES);
	assert(mmap(at, BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
	memset(hide(at), 4, BYTES);
	feed(&aiocb, BYTES);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "freed", freed },     { "short", too_short },
		{ "sent", sent },       { "raw", raw },
		{ "filled", filled },   { "unfilled", unfilled },
		{ "kept", kept },       { "touched", touched },
		{ "cleared", cleared }, { "free", free_in_flight },
		{ "right", right },     { "mapped", map_over },
		{ "beside", beside },   { "neighbours", neighbours },
	};

	assert(argc == 2 && pipe(fds) == 0);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(cases[i].name, argv[1])) {
			cases[i].run();
			return 0;
		}
	return 2;
}
