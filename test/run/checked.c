/* SPDX-License-Identifier: MIT */
/*
 * checked MODE: a program of several threads that uses io_uring and POSIX AIO, built with a
 * sanitizer or run under valgrind
 *
 * right  no mistake
 * freed  a read into memory that was freed (AddressSanitizer, memcheck find it)
 * raw    a write from memory that was never initialised (MemorySanitizer, memcheck)
 * race   one thread uses the buffer of a read that another thread has submitted, and no
 *        thread has consumed the completion (ThreadSanitizer, helgrind, drd)
 */
#undef NDEBUG
#include <aio.h>
#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUNDS = 20, BYTES = 4096, MESSAGE = 64, NR_BUFFERS = 8 };

/* volatile, so that the compiler does not see the mistakes */
static void *volatile hidden;

/*
 * Wait for the next completion of the ring, and consume it.
 * Return: its result.
 */
static int take(struct io_uring *ring, unsigned *ret_flags, void **ret_data)
{
	struct io_uring_cqe *cqe;
	int res;

	assert(io_uring_wait_cqe(ring, &cqe) == 0);
	res = cqe->res;
	*ret_flags = cqe->flags;
	*ret_data = io_uring_cqe_get_data(cqe);
	io_uring_cqe_seen(ring, cqe);
	return res;
}

static int transfer(struct io_uring *ring)
{
	unsigned flags;
	void *data;

	assert(io_uring_submit(ring) == 1);
	return take(ring, &flags, &data);
}

/* Write blocks to a file, and read them back. */
static void *use_file(void *arg)
{
	struct io_uring *ring = malloc(sizeof(*ring));
	char name[] = "/tmp/uaio-checked-XXXXXX";
	int fd = mkstemp(name);

	(void)arg;
	assert(fd >= 0 && unlink(name) == 0 && ring &&
	       io_uring_queue_init(4, ring, 0) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		char *out = malloc(BYTES), *in = malloc(BYTES);

		memset(out, i, BYTES);
		io_uring_prep_write(io_uring_get_sqe(ring), fd, out, BYTES, 0);
		assert(transfer(ring) == BYTES);
		out[0]++;
		io_uring_prep_read(io_uring_get_sqe(ring), fd, in, BYTES, 0);
		assert(transfer(ring) == BYTES && in[BYTES - 1] == (char)i);
		free(out);
		free(in);
	}
	io_uring_queue_exit(ring);
	close(fd);
	free(ring);
	return NULL;
}

/*
 * One thread submits receives, each into memory of its own. Another thread consumes the
 * completions and frees the memory.
 */
static struct io_uring shared;
static int ends[2];

struct operation {
	int number;
	char message[MESSAGE];
};

static void *take_all(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		struct operation *operation;
		unsigned flags;
		void *data;

		assert(take(&shared, &flags, &data) == MESSAGE);
		operation = data;
		assert(operation->message[0] == (char)operation->number);
		free(operation);
	}
	return NULL;
}

static void *submit_all(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		struct operation *operation = malloc(sizeof(*operation));
		struct io_uring_sqe *sqe = io_uring_get_sqe(&shared);
		char message[MESSAGE];

		operation->number = i;
		memset(message, i, sizeof(message));
		io_uring_prep_recv(sqe, ends[0], operation->message, MESSAGE,
				   0);
		io_uring_sqe_set_data(sqe, operation);
		assert(io_uring_submit(&shared) == 1);
		assert(send(ends[1], message, MESSAGE, 0) == MESSAGE);
	}
	return NULL;
}

/* Receive into provided buffers by a multishot request. */
static void *receive(void *arg)
{
	struct io_uring *ring = malloc(sizeof(*ring));
	struct io_uring_buf_ring *buffers;
	char *memory = malloc(NR_BUFFERS * MESSAGE), message[MESSAGE];
	struct io_uring_buf_reg group = { .ring_entries = NR_BUFFERS };
	int pair[2];
	struct io_uring_sqe *sqe;
	unsigned flags;
	void *data;

	(void)arg;
	assert(ring && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0 &&
	       io_uring_queue_init(4, ring, 0) == 0);
	assert(posix_memalign((void **)&buffers, BYTES, BYTES) == 0);
	memset(buffers, 0, BYTES);
	group.ring_addr = (uintptr_t)buffers;
	assert(io_uring_register_buf_ring(ring, &group, 0) == 0);
	for (int i = 0; i < NR_BUFFERS; i++)
		io_uring_buf_ring_add(buffers, memory + i * MESSAGE, MESSAGE,
				      (unsigned short)i, NR_BUFFERS - 1, i);
	io_uring_buf_ring_advance(buffers, NR_BUFFERS);
	sqe = io_uring_get_sqe(ring);
	io_uring_prep_recv_multishot(sqe, pair[0], NULL, 0, 0);
	sqe->flags |= IOSQE_BUFFER_SELECT;
	sqe->buf_group = 0;
	assert(io_uring_submit(ring) == 1);
	for (int i = 0; i < ROUNDS; i++) {
		char *at;

		memset(message, i, sizeof(message));
		assert(send(pair[1], message, MESSAGE, 0) == MESSAGE);
		assert(take(ring, &flags, &data) == MESSAGE &&
		       flags & IORING_CQE_F_MORE);
		at = memory + (flags >> IORING_CQE_BUFFER_SHIFT) * MESSAGE;
		assert(at[1] == (char)i);
		io_uring_buf_ring_add(buffers, at, MESSAGE,
				      flags >> IORING_CQE_BUFFER_SHIFT,
				      NR_BUFFERS - 1, 0);
		io_uring_buf_ring_advance(buffers, 1);
	}
	close(pair[1]);
	(void)take(ring, &flags, &data);
	assert(!(flags & IORING_CQE_F_MORE));
	io_uring_queue_exit(ring);
	free(buffers);
	close(pair[0]);
	free(memory);
	free(ring);
	return NULL;
}

/*
 * Poll the ring in memory, without a system call, until it has a completion; consume
 * that.
 */
static void spin(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;

	while (!io_uring_cq_ready(ring))
		sched_yield();
	assert(io_uring_peek_cqe(ring, &cqe) == 0 && cqe->res >= 0);
	io_uring_cqe_seen(ring, cqe);
}

/*
 * Receive into the program's own memory, then into a provided buffer, without a system
 * call that waits.
 */
static void *never_wait(void *arg)
{
	struct io_uring *ring = calloc(1, sizeof(*ring));
	char *memory = calloc(2, MESSAGE), message[MESSAGE];
	int pair[2];

	(void)arg;
	assert(ring && socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0 &&
	       io_uring_queue_init(4, ring, 0) == 0);
	for (int i = 0; i < 4; i++) {
		bool is_provided = i % 2;
		struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
		char *at = memory + is_provided * MESSAGE;

		if (is_provided) {
			io_uring_prep_provide_buffers(sqe, at, MESSAGE, 1, 1,
						      0);
			assert(io_uring_submit(ring) == 1);
			spin(ring);
			sqe = io_uring_get_sqe(ring);
		}
		io_uring_prep_recv(sqe, pair[0], is_provided ? NULL : at,
				   MESSAGE, 0);
		if (is_provided) {
			sqe->flags |= IOSQE_BUFFER_SELECT;
			sqe->buf_group = 1;
		}
		assert(io_uring_submit(ring) == 1);
		memset(message, i, sizeof(message));
		assert(send(pair[1], message, MESSAGE, 0) == MESSAGE);
		spin(ring);
		assert(at[1] == (char)i);
		at[1]++;
	}
	io_uring_queue_exit(ring);
	close(pair[0]);
	close(pair[1]);
	free(memory);
	free(ring);
	return NULL;
}

static ssize_t await(struct aiocb *aiocb)
{
	const struct aiocb *list[1] = { aiocb };

	while (aio_error(aiocb) == EINPROGRESS)
		(void)aio_suspend(list, 1, NULL);
	return aio_return(aiocb);
}

/* Two requests of POSIX AIO: a read of a pipe, and a write to that pipe. */
static void *use_aiocbs(void *arg)
{
	int fds[2];

	(void)arg;
	assert(pipe(fds) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		char out[MESSAGE], in[MESSAGE];
		struct aiocb reads = { .aio_fildes = fds[0],
				       .aio_buf = in,
				       .aio_nbytes = MESSAGE };
		struct aiocb writes = { .aio_fildes = fds[1],
					.aio_buf = out,
					.aio_nbytes = MESSAGE };

		memset(out, i, sizeof(out));
		assert(aio_read(&reads) == 0 && aio_write(&writes) == 0);
		assert(await(&reads) == MESSAGE && in[7] == (char)i);
		assert(await(&writes) == MESSAGE);
	}
	close(fds[0]);
	close(fds[1]);
	return NULL;
}

static void run_all(void)
{
	void *(*const mains[])(void *) = { use_file,   use_file, take_all,
					   submit_all, receive,  never_wait,
					   use_aiocbs };
	enum { NR = sizeof(mains) / sizeof(mains[0]) };
	pthread_t threads[NR];

	assert(io_uring_queue_init(ROUNDS, &shared, 0) == 0 &&
	       socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	for (int i = 0; i < NR; i++)
		assert(pthread_create(&threads[i], NULL, mains[i], NULL) == 0);
	for (int i = 0; i < NR; i++)
		assert(pthread_join(threads[i], NULL) == 0);
}

/*
 * The mistakes
 */

static void read_freed(void)
{
	hidden = malloc(MESSAGE);
	free(hidden);
	io_uring_prep_recv(io_uring_get_sqe(&shared), ends[0], hidden, MESSAGE,
			   0);
	assert(io_uring_submit(&shared) == 1);
}

static void write_raw(void)
{
	hidden = malloc(MESSAGE);
	io_uring_prep_send(io_uring_get_sqe(&shared), ends[1], hidden, MESSAGE,
			   0);
	assert(transfer(&shared) == MESSAGE);
}

static void *touch(void *at)
{
	*(char *)at = 1;
	return NULL;
}

static void race(void)
{
	char *buffer = calloc(1, MESSAGE);
	pthread_t thread;
	unsigned flags;
	void *data;

	/*
	 * The new thread may use the buffer before or after this thread submits the
	 * receive. Nothing orders the two, so this is a race.
	 */
	assert(pthread_create(&thread, NULL, touch, buffer) == 0);
	io_uring_prep_recv(io_uring_get_sqe(&shared), ends[0], buffer, MESSAGE,
			   0);
	assert(io_uring_submit(&shared) == 1);
	assert(pthread_join(thread, NULL) == 0);
	assert(send(ends[1], "it is complete", 14, 0) == 14);
	assert(take(&shared, &flags, &data) == 14);
	free(buffer);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "right";

	run_all();
	if (!strcmp(mode, "freed"))
		read_freed();
	else if (!strcmp(mode, "raw"))
		write_raw();
	else if (!strcmp(mode, "race"))
		race();
	io_uring_queue_exit(&shared);
	return 0;
}
