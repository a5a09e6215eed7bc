/* SPDX-License-Identifier: MIT */
/*
 * Part of libuaio-check.so: interposes the functions by which a program gets
 * completions
 *
 * ThreadSanitizer does not see inside the interposed functions. So after the original
 * function has returned, its replacement here tells the sanitizer that the thread
 * acquires a word: the tail, aiocb or context that tsan.c has released. Then the
 * request is ordered before what the program does after the call. A program that
 * consumes completions by its own code, such as liburing's inline functions, itself
 * acquires the tail of the ring.
 *
 * The functions also report this order to helgrind and drd, by a client request. If a
 * function has stored the pointer to a completion, it tells MemorySanitizer that this
 * pointer is initialised.
 *
 * If no checker is in the process, each interposed call costs one more call and two
 * comparisons.
 *
 * Tested by test/run/checkers.py.
 */
/*
 * Make <aio.h> declare the functions under their names without 64, whatever the size of
 * off_t.
 */
#undef _FILE_OFFSET_BITS
#include <aio.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "check/shim.h"

/* A function of ThreadSanitizer; NULL if the sanitizer is not in the process. */
extern void __tsan_acquire(void *at) __attribute__((weak));

/* immutable after the library is loaded */
bool uaio_shim_has_valgrind;

__attribute__((constructor)) static void load(void)
{
	uaio_shim_has_valgrind =
		uaio_valgrind_ask(UAIO_RUNNING_ON_VALGRIND, 0, 0, 0);
}

/*
 * Tell the checkers that the calling thread has got completions. `at`: the word that it
 * read to find them.
 */
static void take(const void *at)
{
	if (uaio_shim_has_valgrind)
		uaio_valgrind_ask(UAIO_HAPPENS_AFTER, (uintptr_t)at, 0, 0);
	if (&__tsan_acquire)
		__tsan_acquire((void *)(uintptr_t)at);
}

/* Functions of liburing by which a program gets completions */

struct cqe;
struct time;

EXPORT int __io_uring_get_cqe(struct ring *ring, struct cqe **ret_cqe,
			      unsigned to_submit, unsigned nr, sigset_t *mask);
EXPORT unsigned io_uring_peek_batch_cqe(struct ring *ring,
					struct cqe **ret_cqes, unsigned nr);
EXPORT int io_uring_wait_cqes(struct ring *ring, struct cqe **ret_cqe,
			      unsigned nr, struct time *timeout,
			      sigset_t *mask);
EXPORT int io_uring_wait_cqe_timeout(struct ring *ring, struct cqe **ret_cqe,
				     struct time *timeout);
EXPORT int io_uring_wait_cqes_min_timeout(struct ring *ring,
					  struct cqe **ret_cqe, unsigned nr,
					  struct time *timeout, unsigned min_us,
					  sigset_t *mask);
EXPORT int io_uring_submit_and_wait_timeout(struct ring *ring,
					    struct cqe **ret_cqe, unsigned nr,
					    struct time *timeout,
					    sigset_t *mask);
EXPORT int
io_uring_submit_and_wait_min_timeout(struct ring *ring, struct cqe **ret_cqe,
				     unsigned nr, struct time *timeout,
				     unsigned min_us, sigset_t *mask);
EXPORT int io_uring_submit_and_wait_reg(struct ring *ring, struct cqe **ret_cqe,
					unsigned nr, int reg_index);

/*
 * A function of liburing has stored the address of the next completion, or NULL, in
 * *ret_cqe.
 */
static void take_cqe(const struct ring *ring, struct cqe **ret_cqe)
{
	take(ring->cq.tail);
	if (ret_cqe)
		uaio_shim_hand(ret_cqe, sizeof(*ret_cqe));
}

int __io_uring_get_cqe(struct ring *ring, struct cqe **ret_cqe,
		       unsigned to_submit, unsigned nr, sigset_t *mask)
{
	int ret = NEXT(__io_uring_get_cqe)(ring, ret_cqe, to_submit, nr, mask);

	take_cqe(ring, ret_cqe);
	return ret;
}

unsigned io_uring_peek_batch_cqe(struct ring *ring, struct cqe **ret_cqes,
				 unsigned nr)
{
	unsigned ret = NEXT(io_uring_peek_batch_cqe)(ring, ret_cqes, nr);

	take(ring->cq.tail);
	uaio_shim_hand(ret_cqes, ret * sizeof(*ret_cqes));
	return ret;
}

int io_uring_wait_cqes(struct ring *ring, struct cqe **ret_cqe, unsigned nr,
		       struct time *timeout, sigset_t *mask)
{
	int ret = NEXT(io_uring_wait_cqes)(ring, ret_cqe, nr, timeout, mask);

	take_cqe(ring, ret_cqe);
	return ret;
}

int io_uring_wait_cqe_timeout(struct ring *ring, struct cqe **ret_cqe,
			      struct time *timeout)
{
	int ret = NEXT(io_uring_wait_cqe_timeout)(ring, ret_cqe, timeout);

	take_cqe(ring, ret_cqe);
	return ret;
}

int io_uring_wait_cqes_min_timeout(struct ring *ring, struct cqe **ret_cqe,
				   unsigned nr, struct time *timeout,
				   unsigned min_us, sigset_t *mask)
{
	int ret = NEXT(io_uring_wait_cqes_min_timeout)(ring, ret_cqe, nr,
						       timeout, min_us, mask);

	take_cqe(ring, ret_cqe);
	return ret;
}

int io_uring_submit_and_wait_timeout(struct ring *ring, struct cqe **ret_cqe,
				     unsigned nr, struct time *timeout,
				     sigset_t *mask)
{
	int ret = NEXT(io_uring_submit_and_wait_timeout)(ring, ret_cqe, nr,
							 timeout, mask);

	take_cqe(ring, ret_cqe);
	return ret;
}

int io_uring_submit_and_wait_min_timeout(struct ring *ring,
					 struct cqe **ret_cqe, unsigned nr,
					 struct time *timeout, unsigned min_us,
					 sigset_t *mask)
{
	int ret = NEXT(io_uring_submit_and_wait_min_timeout)(
		ring, ret_cqe, nr, timeout, min_us, mask);

	take_cqe(ring, ret_cqe);
	return ret;
}

int io_uring_submit_and_wait_reg(struct ring *ring, struct cqe **ret_cqe,
				 unsigned nr, int reg_index)
{
	int ret = NEXT(io_uring_submit_and_wait_reg)(ring, ret_cqe, nr,
						     reg_index);

	take_cqe(ring, ret_cqe);
	return ret;
}

/*
 * POSIX AIO: the word by which the checkers order a request (`at` of take()) is its
 * aiocb. The aiocb64 of LFS (large files) has the same layout.
 */

#ifdef __GLIBC__
#define MEMBER struct aiocb *const
#else
#define MEMBER struct aiocb *__restrict const
#endif

EXPORT int aio_error(const struct aiocb *aiocb);
EXPORT ssize_t aio_return(struct aiocb *aiocb);
EXPORT int aio_suspend(const struct aiocb *const list[], int nr,
		       const struct timespec *timeout);
EXPORT int aio_cancel(int fd, struct aiocb *aiocb);
EXPORT int lio_listio(int mode, MEMBER list[], int nr, struct sigevent *event);

int aio_error(const struct aiocb *aiocb)
{
	int ret = NEXT(aio_error)(aiocb);

	if (ret != EINPROGRESS)
		take(aiocb);
	return ret;
}

ssize_t aio_return(struct aiocb *aiocb)
{
	ssize_t ret = NEXT(aio_return)(aiocb);

	take(aiocb);
	return ret;
}

/*
 * Tell the checkers that the calling thread knows which requests of the list are
 * complete.
 */
static void take_list(const struct aiocb *const list[], int nr)
{
	for (int i = 0; i < nr; i++)
		if (list[i] && NEXT(aio_error)(list[i]) != EINPROGRESS)
			take(list[i]);
}

int aio_suspend(const struct aiocb *const list[], int nr,
		const struct timespec *timeout)
{
	int ret = NEXT(aio_suspend)(list, nr, timeout);

	if (ret == 0)
		take_list(list, nr);
	return ret;
}

int aio_cancel(int fd, struct aiocb *aiocb)
{
	int ret = NEXT(aio_cancel)(fd, aiocb);

	if (aiocb && (ret == AIO_CANCELED || ret == AIO_ALLDONE))
		take(aiocb);
	return ret;
}

int lio_listio(int mode, MEMBER list[], int nr, struct sigevent *event)
{
	int ret = NEXT(lio_listio)(mode, list, nr, event);

	if (mode == LIO_WAIT)
		take_list((const struct aiocb *const *)list, nr);
	return ret;
}

/* Named by __asm__, as <aio.h> may declare the real names with another type. */
EXPORT int error64(const struct aiocb *aiocb) __asm__("aio_error64");
EXPORT ssize_t return64(struct aiocb *aiocb) __asm__("aio_return64");
EXPORT int suspend64(const struct aiocb *const list[], int nr,
		     const struct timespec *timeout) __asm__("aio_suspend64");
EXPORT int cancel64(int fd, struct aiocb *aiocb) __asm__("aio_cancel64");
EXPORT int listio64(int mode, MEMBER list[], int nr,
		    struct sigevent *event) __asm__("lio_listio64");

int error64(const struct aiocb *aiocb)
{
	return aio_error(aiocb);
}

ssize_t return64(struct aiocb *aiocb)
{
	return aio_return(aiocb);
}

int suspend64(const struct aiocb *const list[], int nr,
	      const struct timespec *timeout)
{
	return aio_suspend(list, nr, timeout);
}

int cancel64(int fd, struct aiocb *aiocb)
{
	return aio_cancel(fd, aiocb);
}

int listio64(int mode, MEMBER list[], int nr, struct sigevent *event)
{
	return lio_listio(mode, list, nr, event);
}

/*
 * libaio: the word by which the checkers order a request (`at` of take()) is its
 * context. taken.map gives io_getevents its symbol version.
 */

struct event;

EXPORT int io_getevents(void *ctx, long min_nr, long nr, struct event *events,
			struct timespec *timeout);
EXPORT int io_pgetevents(void *ctx, long min_nr, long nr, struct event *events,
			 struct timespec *timeout, sigset_t *mask);
EXPORT int io_destroy(void *ctx);

int io_getevents(void *ctx, long min_nr, long nr, struct event *events,
		 struct timespec *timeout)
{
	int ret = NEXT(io_getevents)(ctx, min_nr, nr, events, timeout);

	if (ret > 0)
		take(ctx);
	return ret;
}

int io_pgetevents(void *ctx, long min_nr, long nr, struct event *events,
		  struct timespec *timeout, sigset_t *mask)
{
	int ret = NEXT(io_pgetevents)(ctx, min_nr, nr, events, timeout, mask);

	if (ret > 0)
		take(ctx);
	return ret;
}

/*
 * io_destroy() waits for requests in flight. So these requests are ordered before what
 * the program does after io_destroy().
 */
int io_destroy(void *ctx)
{
	int ret = NEXT(io_destroy)(ctx);

	if (ret == 0)
		take(ctx);
	return ret;
}
