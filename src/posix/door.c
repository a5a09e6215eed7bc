/* SPDX-License-Identifier: MIT */
/* Tested by test-posix.c. */
#include "posix/door.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <sys/resource.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/process.h"
#include "proc/table.h"
#include "req/sink.h"
#include "flow/post.h"
#include "life/door.h"
#include "life/life.h"
#include "uaio.h"
#include "posix/callback.h"
#include "posix/note.h"
#include "posix/posix.h"
#include "posix/wait.h"

/*
 * In glibc and musl these members have the same offsets, so one library serves programs
 * of both.
 */
#define AT(member, offset)                                        \
	static_assert(offsetof(struct aiocb, member) == (offset), \
		      "programs have it there")
AT(aio_fildes, 0);
AT(aio_lio_opcode, 4);
AT(aio_reqprio, 8);
AT(aio_buf, 16);
AT(aio_nbytes, 24);
AT(aio_sigevent.sigev_value, 32);
AT(aio_sigevent.sigev_signo, 40);
AT(aio_sigevent.sigev_notify, 44);
AT(aio_sigevent.sigev_notify_function, 48);
AT(aio_sigevent.sigev_notify_attributes, 56);
AT(UAIO_AIOCB_ERROR, 112);
AT(UAIO_AIOCB_RESULT, 120);
AT(aio_offset, 128);

struct uaio_queue uaio_posix_queue;

static struct {
	/* atomic: whether the queue is open; set under lock */
	uint32_t is_open;
	/* whether RLIMIT_FSIZE is set; does not change while the queue is open */
	bool has_size_limit;
	struct uaio_lock lock; /* rank TABLE */
} door_state;

/*
 * The sink
 */

/*
 * Write the result of a request. This is the last access to the client's memory
 * (posix.h, I2).
 */
static void answer(struct aiocb *aiocb, int64_t res)
{
	aiocb->UAIO_AIOCB_RESULT = res < 0 ? -1 : res;
	/*
	 * [MB:aiocb] release: the result is written. Pairs with uaio_posix_error().
	 */
	store_release(&aiocb->UAIO_AIOCB_ERROR, res < 0 ? (int)-res : 0);
}

static struct aiocb *aiocb_of(const struct uaio_completion *completion)
{
	return (struct aiocb *)(uintptr_t)completion->data;
}

static void post(struct uaio_queue *queue, const struct uaio_post *post)
{
	(void)queue;
	for (unsigned i = 0; i < post->nr; i++) {
		const struct uaio_completion *completion =
			&post->completions[i];
		struct uaio_posix_list *list = NULL;
		int64_t res = completion->res;

		if (unlikely(completion->word)) {
			int error = uaio_posix_word_error(completion->word);

			list = uaio_posix_list_of(completion->word);
			res = error < 0 ? error : res;
		}
		answer(aiocb_of(completion), res);
		uaio_posix_waits_notify_locked(aiocb_of(completion));
		if (list)
			uaio_posix_list_leave_locked(list);
	}
}

/*
 * Return: false. Clients read results in their aiocbs, so the library does not know
 * which results they have not read yet.
 */
static bool has_unreaped(const struct uaio_queue *queue)
{
	(void)queue;
	return false;
}

static const struct uaio_sink sink = {
	.door = UAIO_DOOR_POSIX,
	.post = post,
	.drop_words = uaio_posix_drop_words,
	.is_met = uaio_posix_is_met,
	.forget = uaio_posix_forget,
	.has_unreaped = has_unreaped,
};

void uaio_posix_answer(struct aiocb *aiocb, uint64_t word, int error,
		       bool executes)
{
	const struct uaio_completion completion = {
		.data = (uintptr_t)aiocb,
		.res = error,
		.word = word,
	};
	const struct uaio_post own = {
		.completions = &completion,
		.nr = 1,
		.is_inline = true,
		.words = word,
	};

	if (unlikely(executes))
		uaio_queue_post_parted(&uaio_posix_queue, &own);
	else
		uaio_queue_post(&uaio_posix_queue, &own);
}

/*
 * Opening and entering
 */

bool uaio_posix_is_open(void)
{
	/*
	 * [MB:posix-open] acquire: the queue is initialised. Pairs with open_queue().
	 */
	return uaio_engine_is_up() && load_acquire(&door_state.is_open);
}

bool uaio_posix_has_size_limit(void)
{
	return door_state.has_size_limit;
}

static bool is_size_limited(void)
{
	struct rlimit limit;

	return sys_getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	       limit.rlim_cur != RLIM_INFINITY;
}

static __attribute__((noinline)) void open_queue(void)
{
	uaio_lock(&door_state.lock, UAIO_RANK_TABLE);
	/* relaxed: this thread holds the lock under which is_open is set */
	if (!load_relaxed(&door_state.is_open)) {
		door_state.has_size_limit = is_size_limited();
		uaio_queue_init(&uaio_posix_queue, &sink);
		uaio_queue_lock(&uaio_posix_queue);
		uaio_queue_open_locked(&uaio_posix_queue);
		uaio_queue_unlock(&uaio_posix_queue);
		/*
		 * [MB:posix-open] release: the queue is initialised. Pairs with
		 * uaio_posix_is_open().
		 */
		store_release(&door_state.is_open, 1);
	}
	uaio_unlock(&door_state.lock, UAIO_RANK_TABLE);
}

static __attribute__((noinline)) int enter_slowly(bool *ret_executes)
{
	int ret;

	if (!uaio_enter())
		return -EAGAIN;
	ret = uaio_engine_start();
	uaio_leave();
	if (ret < 0)
		return -EAGAIN;
	*ret_executes = uaio_table_is_other();
	if (!uaio_enter())
		return -EAGAIN;
	open_queue();
	return 0;
}

int uaio_posix_enter(bool *ret_executes)
{
	*ret_executes = false;
	uaio_callbacks_retry();
	if (unlikely(uaio_engine_state() != UAIO_ENGINE_UP ||
		     !uaio_posix_is_open()))
		return enter_slowly(ret_executes);
	return likely(uaio_enter()) ? 0 : -EAGAIN;
}

static void load(void)
{
}

/*
 * Called each time the library starts. In a child of fork() this resets the parent's
 * queue.
 */
static int start(void)
{
	store_relaxed(&door_state.is_open, 0);
	door_state.lock = (struct uaio_lock){ 0 };
	uaio_posix_queue = (struct uaio_queue){ 0 };
	uaio_posix_notes_init();
	uaio_posix_waits_init();
	uaio_callbacks_init();
	return 0;
}

static void count(struct uaio_counters *counters)
{
	if (!uaio_posix_is_open())
		return;
	uaio_queue_lock(&uaio_posix_queue);
	counters->nr_inline += uaio_posix_queue.nr_inline;
	counters->nr_worker += uaio_posix_queue.nr_queued;
	counters->nr_wakeups += uaio_posix_queue.nr_wakeups;
	uaio_queue_unlock(&uaio_posix_queue);
}

static const struct uaio_door door = {
	.first_call = "aio_read",
	.load = load,
	.start = start,
	.count = count,
};

UAIO_DOOR(door);
