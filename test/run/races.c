/* SPDX-License-Identifier: MIT */
/*
 * races CASE: uses the memory of a request. The program is built with ThreadSanitizer.
 * In the first three cases it uses the memory too early, which is a race. The last two
 * cases are mistakes that do not concern requests. The other cases have no mistake.
 *
 * touched   the buffer of a read in flight is used
 * complete  the buffer of a complete read is used before its completion is consumed
 * posix     the buffer of a read of POSIX AIO is used before aio_error() is called
 * waited    the buffer is used after a function of liburing that waits has returned the
 *           completion
 * peeked    the buffer is used after io_uring_peek_cqe(), which does not wait, has returned
 *           the completion
 * handed    one thread submits, another thread consumes the completion
 * carried   memory is passed to another thread, by sending its address through a pipe
 * mapped    several threads create rings, which the kernel maps at the same address, one
 *           after another
 * linked    two linked requests have the same buffer
 * message   a ring gets a message from another ring
 * forked    a child of fork() starts a thread, and has requests
 * beside    like forked, while a read of another thread of the parent completes
 * callback  a notification function is called when the request is complete
 * listed    lio_listio() waits for requests
 * cancelled aio_cancel() ends the request
 * unlocked  a mutex that is not locked is unlocked
 * threads   a race: two threads use the memory of a read after its completion is consumed
 *
 * Comments at the ends of lines are data: test/run/checkers.py looks for these lines in
 * the sanitizer's report.
 */
#define _GNU_SOURCE
#undef NDEBUG
#include <aio.h>
#include <assert.h>
#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 64, ROUNDS = 50 };

static struct io_uring ring;
static int ends[2];
static char *buffer;

static void *take_from(struct io_uring *from, int wanted)
{
	struct io_uring_cqe *cqe;
	void *data;

	assert(io_uring_wait_cqe(from, &cqe) == 0 && cqe->res == wanted);
	data = io_uring_cqe_get_data(cqe);
	io_uring_cqe_seen(from, cqe);
	return data;
}

static void feed(void)
{
	assert(write(ends[1], "what the pipe has", 17) == 17);
}

static void start(void)
{
	io_uring_prep_read(io_uring_get_sqe(&ring), ends[0], buffer, BYTES, 0);
	assert(io_uring_submit(&ring) == 1); /* touched, complete: submission */
}

static void touched(void)
{
	start();
	buffer[5]++; /* touched: access */
	feed();
	take_from(&ring, 17);
}

static void complete(void)
{
	struct pollfd ready = { .fd = ring.ring_fd, .events = POLLIN };

	feed();
	start();
	/* poll() returns when there is a completion, but does not consume it. */
	assert(poll(&ready, 1, -1) == 1);
	buffer[5]++; /* complete: access */
	take_from(&ring, 17);
}

static void posix(void)
{
	struct aiocb aiocb = { .aio_fildes = ends[0],
			       .aio_buf = buffer,
			       .aio_nbytes = BYTES };

	assert(aio_read(&aiocb) == 0); /* posix: submission */
	buffer[5]++;                   /* posix: access */
	feed();
	while (aio_error(&aiocb) == EINPROGRESS)
		(void)poll(NULL, 0, 1);
	assert(aio_return(&aiocb) == 17);
}

static void waited(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		start();
		feed();
		take_from(&ring, 17);
		buffer[5]++;
	}
}

static void peeked(void)
{
	struct io_uring_cqe *cqe;

	for (int i = 0; i < ROUNDS; i++) {
		struct pollfd ready = { .fd = ring.ring_fd, .events = POLLIN };

		start();
		feed();
		assert(poll(&ready, 1, -1) == 1);
		assert(io_uring_peek_cqe(&ring, &cqe) == 0);
		buffer[5]++;
		io_uring_cqe_seen(&ring, cqe);
	}
}

static void *take_all(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		char *at = take_from(&ring, 17);

		assert(!memcmp(at, "what the pipe has", 17));
		free(at);
	}
	return arg;
}

static void handed(void)
{
	pthread_t thread;

	assert(pthread_create(&thread, NULL, take_all, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
		char *at = malloc(BYTES);

		memset(at, 0, BYTES);
		io_uring_prep_read(sqe, ends[0], at, 17, 0);
		io_uring_sqe_set_data(sqe, at);
		assert(io_uring_submit(&ring) == 1);
		feed();
	}
	assert(pthread_join(thread, NULL) == 0);
}

/* Receive addresses through the pipe, and use the memory there. */
static void *use_carried(void *arg)
{
	struct io_uring own;
	char *at;

	assert(io_uring_queue_init(4, &own, 0) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&own);

		/*
		 * For the sanitizer, uaio check repeats a request's memory accesses on a
		 * fiber (a context of the sanitizer), but not those of a linked request.
		 * Test both: link the read in every second round.
		 */
		io_uring_prep_nop(sqe);
		sqe->flags |= i % 2 ? IOSQE_IO_LINK : 0;
		io_uring_prep_read(io_uring_get_sqe(&own), ends[0], &at,
				   sizeof(at), 0);
		assert(io_uring_submit(&own) == 2);
		take_from(&own, 0);
		take_from(&own, sizeof(at));
		assert(at[0] == (char)i);
		free(at);
	}
	io_uring_queue_exit(&own);
	return arg;
}

static void carried(void)
{
	pthread_t thread;

	assert(pthread_create(&thread, NULL, use_carried, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		char *at = malloc(BYTES);

		at[0] = (char)i;
		io_uring_prep_write(io_uring_get_sqe(&ring), ends[1], &at,
				    sizeof(at), 0);
		assert(io_uring_submit(&ring) == 1);
		take_from(&ring, sizeof(at));
	}
	assert(pthread_join(thread, NULL) == 0);
}

static void *use_ring(void *arg)
{
	struct io_uring own;

	assert(io_uring_queue_init(4, &own, 0) == 0);
	for (int i = 0; i < 4; i++) {
		io_uring_prep_nop(io_uring_get_sqe(&own));
		assert(io_uring_submit(&own) == 1);
		take_from(&own, 0);
	}
	io_uring_queue_exit(&own);
	return arg;
}

/*
 * Nothing synchronises the threads of this case. Their rings are mapped at the same
 * addresses, one after another.
 */
static void mapped(void)
{
	pthread_t threads[8];

	for (int i = 0; i < 8; i++)
		assert(pthread_create(&threads[i], NULL, use_ring, NULL) == 0);
	for (int i = 0; i < 8; i++)
		assert(pthread_join(threads[i], NULL) == 0);
}

static void linked(void)
{
	struct io_uring_sqe *sqe;
	int others[2];

	assert(pipe(others) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_read(sqe, ends[0], buffer, 17, 0);
		sqe->flags |= IOSQE_IO_LINK;
		io_uring_prep_write(io_uring_get_sqe(&ring), others[1], buffer,
				    17, 0);
		assert(io_uring_submit(&ring) == 2);
		feed();
		take_from(&ring, 17);
		take_from(&ring, 17);
		assert(read(others[0], buffer, 17) == 17);
	}
}

static void *send_messages(void *arg)
{
	struct io_uring own;

	assert(io_uring_queue_init(4, &own, 0) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		char *at = malloc(BYTES);

		at[0] = (char)i;
		io_uring_prep_msg_ring(io_uring_get_sqe(&own), ring.ring_fd, 1,
				       (uintptr_t)at, 0);
		assert(io_uring_submit(&own) == 1);
		take_from(&own, 0);
	}
	io_uring_queue_exit(&own);
	return arg;
}

static void message(void)
{
	pthread_t thread;

	assert(pthread_create(&thread, NULL, send_messages, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		char *at = take_from(&ring, 1);

		assert(at[0] == (char)i);
		free(at);
	}
	assert(pthread_join(thread, NULL) == 0);
}

static void forked(void)
{
	pid_t child;
	int status;

	waited();
	child = fork();
	if (child == 0) {
		assert(io_uring_queue_init(4, &ring, 0) == 0);
		handed();
		_exit(0);
	}
	assert(waitpid(child, &status, 0) == child && status == 0);
}

/*
 * The program replaces two functions of the sanitizer that uaio check calls. uaio check
 * calls the first for each fiber (context of the sanitizer) that it creates. The fiber
 * `courier` orders completed reads before later requests. When uaio check has switched
 * to that fiber, it calls the second function.
 */
void __tsan_set_fiber_name(void *fiber, const char *name);
void __tsan_acquire(void *at);
void *__tsan_get_current_fiber(void);

/*
 * `courier` is the address of uaio check's fiber for completed reads. After the case
 * `beside` has set `hold` to TO_BE_HELD, __tsan_acquire() stops the next thread that has
 * switched to this fiber, until `beside` has called fork(). Both variables are atomic.
 */
static void *courier;
static enum { NOT_HELD, TO_BE_HELD, HELD } hold;

__attribute__((no_sanitize("thread"))) void
__tsan_set_fiber_name(void *fiber, const char *name)
{
	static void (*next)(void *, const char *);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "__tsan_set_fiber_name");
	next(fiber, name);
	if (!strcmp(name, "uaio: what requests carry"))
		__atomic_store_n(&courier, fiber, __ATOMIC_RELEASE);
}

__attribute__((no_sanitize("thread"))) void __tsan_acquire(void *at)
{
	static void (*next)(void *);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "__tsan_acquire");
	next(at);
	if (__atomic_load_n(&hold, __ATOMIC_ACQUIRE) == NOT_HELD ||
	    __tsan_get_current_fiber() !=
		    __atomic_load_n(&courier, __ATOMIC_ACQUIRE))
		return;
	__atomic_store_n(&hold, HELD, __ATOMIC_RELEASE);
	while (__atomic_load_n(&hold, __ATOMIC_ACQUIRE) == HELD)
		(void)sched_yield();
}

static void *read_once(void *arg)
{
	struct io_uring own;
	char at[BYTES];

	assert(io_uring_queue_init(4, &own, 0) == 0);
	feed();
	io_uring_prep_read(io_uring_get_sqe(&own), ends[0], at, BYTES, 0);
	assert(io_uring_submit(&own) == 1);
	take_from(&own, 17);
	io_uring_queue_exit(&own);
	return arg;
}

static void beside(void)
{
	pthread_t thread;
	pid_t child;
	int status;

	__atomic_store_n(&hold, TO_BE_HELD, __ATOMIC_RELEASE);
	assert(pthread_create(&thread, NULL, read_once, NULL) == 0);
	while (__atomic_load_n(&hold, __ATOMIC_ACQUIRE) != HELD)
		(void)sched_yield();
	child = fork();
	if (child == 0) {
		__atomic_store_n(&hold, NOT_HELD, __ATOMIC_RELEASE);
		read_once(NULL);
		_exit(0);
	}
	assert(waitpid(child, &status, 0) == child && status == 0);
	__atomic_store_n(&hold, NOT_HELD, __ATOMIC_RELEASE);
	assert(pthread_join(thread, NULL) == 0);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t called = PTHREAD_COND_INITIALIZER;
static int nr_called;

static void use_result(union sigval value)
{
	char *at = value.sival_ptr;

	at[5]++;
	pthread_mutex_lock(&lock);
	nr_called++;
	pthread_cond_signal(&called);
	pthread_mutex_unlock(&lock);
}

static void callback(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct aiocb aiocb = {
			.aio_fildes = ends[0],
			.aio_buf = buffer,
			.aio_nbytes = BYTES,
			.aio_sigevent = { .sigev_notify = SIGEV_THREAD,
					  .sigev_notify_function = use_result,
					  .sigev_value.sival_ptr = buffer },
		};

		assert(aio_read(&aiocb) == 0);
		feed();
		pthread_mutex_lock(&lock);
		while (nr_called <= i)
			pthread_cond_wait(&called, &lock);
		pthread_mutex_unlock(&lock);
		buffer[5]++;
		assert(aio_return(&aiocb) == 17);
	}
}

static void listed(void)
{
	struct aiocb aiocb = { .aio_fildes = ends[0],
			       .aio_buf = buffer,
			       .aio_nbytes = BYTES,
			       .aio_lio_opcode = LIO_READ };
	struct aiocb *list[1] = { &aiocb };

	feed();
	assert(lio_listio(LIO_WAIT, list, 1, NULL) == 0);
	buffer[5]++;
	assert(aio_return(&aiocb) == 17);
}

static void cancelled(void)
{
	struct aiocb aiocb = { .aio_fildes = ends[0],
			       .aio_buf = buffer,
			       .aio_nbytes = BYTES };

	assert(aio_read(&aiocb) == 0);
	assert(aio_cancel(ends[0], &aiocb) == AIO_CANCELED);
	buffer[5]++;
}

static void unlocked(void)
{
	waited();
	(void)pthread_mutex_unlock(&lock);
}

static void *use_buffer(void *arg)
{
	buffer[5]++;
	return arg;
}

static void threads(void)
{
	pthread_t thread;

	start();
	feed();
	take_from(&ring, 17);
	assert(pthread_create(&thread, NULL, use_buffer, NULL) == 0);
	use_buffer(NULL);
	assert(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {
		{ "touched", touched },     { "complete", complete },
		{ "posix", posix },         { "waited", waited },
		{ "peeked", peeked },       { "handed", handed },
		{ "carried", carried },     { "mapped", mapped },
		{ "linked", linked },       { "message", message },
		{ "forked", forked },       { "beside", beside },
		{ "callback", callback },   { "listed", listed },
		{ "cancelled", cancelled }, { "unlocked", unlocked },
		{ "threads", threads },
	};

	buffer = calloc(1, BYTES);
	assert(argc == 2 && buffer && pipe(ends) == 0 &&
	       io_uring_queue_init(2 * ROUNDS, &ring, 0) == 0);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			return 0;
		}
	return 2;
}
