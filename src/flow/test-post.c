/* SPDX-License-Identifier: MIT */
/*
 * Posting completions to a queue. This test's sink (the functions that receive them) only
 * counts them.
 */
#undef NDEBUG
#include "flow/post.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "proc/entry.h"
#include "proc/table.h"
#include "ready/waiter.h"
#include "unit.h"

/*
 * An object with a queue, as front-ends (kernel AIO, io_uring, POSIX AIO) have. Its
 * memory is never reused for another type (queue.h, I1), because a thread of one test
 * case may still read it in the next case.
 */
static struct {
	struct uaio_queue queue;

	/* these members change under the queue's lock */
	uint32_t nr; /* atomic: completions received but not reaped */
	uint64_t sum_data;
	unsigned nr_posts;
	/* how often the sink's post() was called while the queue's lock was not held */
	unsigned nr_unlocked;
	/* atomic: how often is_met() was called, which checks a waiting thread's need */
	uint32_t nr_asked;
	uint32_t asked_by; /* atomic: the last thread that called is_met() */
	/* atomic: nr_pins of the queue (uaio_ready_pin()) when is_met() was last called */
	uint32_t pins_then;

	unsigned nr_drops;
	/* how often the sink's drop_words() was called while the queue's lock was held */
	unsigned nr_locked;
	uint64_t sum_words;
} client;

/* Return: whether no thread holds the queue's lock. */
static bool is_free(struct uaio_queue *queue)
{
	if (!uaio_trylock(&queue->group.lock, UAIO_RANK_GROUP))
		return false;
	uaio_queue_unlock(queue);
	return true;
}

static void take_in(struct uaio_queue *queue, const struct uaio_post *post)
{
	assert_ptr_equal(queue, &client.queue);
	client.nr_unlocked += is_free(queue);
	client.nr_posts++;
	for (unsigned i = 0; i < post->nr; i++)
		client.sum_data += post->completions[i].data;
	store_relaxed(&client.nr, client.nr + post->nr);
}

static void drop_words(const struct uaio_post *post)
{
	client.nr_drops++;
	client.nr_locked += !is_free(&client.queue);
	for (unsigned i = 0; i < post->nr; i++)
		client.sum_words += post->completions[i].word;
}

static bool is_met(const struct uaio_queue *queue, uint64_t need)
{
	store_relaxed(&client.asked_by, (uint32_t)sys_gettid());
	store_relaxed(&client.pins_then,
		      load_relaxed(&queue->group.ready.nr_pins));
	add_relaxed(&client.nr_asked, 1);
	return load_relaxed(&client.nr) >= need;
}

static bool has_unreaped(const struct uaio_queue *queue)
{
	(void)queue;
	return load_relaxed(&client.nr);
}

static const struct uaio_sink sink = {
	.post = take_in,
	.drop_words = drop_words,
	.is_met = is_met,
	.has_unreaped = has_unreaped,
};

static uint64_t open_queue(void)
{
	uint64_t generation;

	uaio_queue_lock(&client.queue);
	uaio_queue_open_locked(&client.queue);
	generation = client.queue.generation;
	uaio_queue_unlock(&client.queue);
	return generation;
}

/*
 * Initialise and open the client's queue.
 * Return: the number of its generation, which is the time until the queue is closed
 * (queue.h).
 */
static uint64_t begin(void)
{
	size_t at = offsetof(typeof(client), nr);

	memset((char *)&client + at, 0, sizeof(client) - at);
	uaio_queue_init(&client.queue, &sink);
	return open_queue();
}

static void close_queue(void)
{
	assert_true(uaio_enter());
	uaio_queue_close(&client.queue);
	uaio_leave();
}

static void end(void)
{
	close_queue();
	uaio_queue_fini(&client.queue);
}

typedef void post_fn(struct uaio_queue *queue, const struct uaio_post *post);

/* Post nr completions by one call of `post`. Their data are 1, 2, ... */
static void post_by(post_fn *post, unsigned nr, bool is_inline, uint64_t word)
{
	struct uaio_completion completions[8] = { 0 };
	struct uaio_post all = {
		.completions = completions,
		.nr = nr,
		.is_inline = is_inline,
		.words = word,
	};

	assert_true(nr <= NR_ELEMENTS(completions));
	for (unsigned i = 0; i < nr; i++)
		completions[i].data = i + 1;
	/*
	 * Only the completion in the middle has a word: a value that the front-end
	 * chose (sink.h).
	 */
	completions[nr / 2].word = word;
	assert_true(uaio_enter());
	post(&client.queue, &all);
	uaio_leave();
}

static void post(unsigned nr)
{
	post_by(uaio_queue_post, nr, false, 0);
}

/* Threads that wait */

struct waiting {
	uint64_t generation;
	uint32_t need;
};

static long wait_for(void *arg)
{
	const struct uaio_wait wait = { .deadline_ns = UAIO_FOREVER };
	const struct waiting *waiting = arg;
	long ret;

	if (!uaio_enter())
		return -EAGAIN;
	/* uaio_queue_sleep() may return 0 at any time: then wait again. */
	do
		ret = uaio_queue_sleep(&client.queue, waiting->generation,
				       waiting->need, &wait);
	while (ret == 0 && load_relaxed(&client.nr) < waiting->need);
	uaio_leave();
	return ret;
}

/* Generations */

static void each_generation_has_a_number_of_its_own(void **state)
{
	uint64_t first = begin(), second;

	(void)state;
	uaio_queue_lock(&client.queue);
	assert_true(uaio_queue_is_open_locked(&client.queue));
	assert_false(uaio_queue_is_over_locked(&client.queue, first));
	uaio_queue_unlock(&client.queue);

	close_queue();
	uaio_queue_lock(&client.queue);
	assert_false(uaio_queue_is_open_locked(&client.queue));
	assert_true(uaio_queue_is_over_locked(&client.queue, first));
	uaio_queue_unlock(&client.queue);
	uaio_queue_fini(&client.queue);

	/* Open another queue in the same memory, which begins a later generation. */
	second = begin();
	assert_true(second > first);
	uaio_queue_lock(&client.queue);
	assert_true(uaio_queue_is_over_locked(&client.queue, first));
	uaio_queue_unlock(&client.queue);
	end();
}

static void nobody_waits_in_a_generation_that_is_over(void **state)
{
	struct waiting waiting = { .generation = begin(), .need = 1 };

	(void)state;
	end();
	assert_int_equal(wait_for(&waiting), -EINVAL);
	/*
	 * The queue is opened again, which begins a later generation. A thread that
	 * waits in the generation that is over must still be refused: the completions
	 * are for threads of the later generation.
	 */
	(void)begin();
	assert_int_equal(wait_for(&waiting), -EINVAL);
	post(1);
	assert_int_equal(wait_for(&waiting), -EINVAL);
	end();
}

static void all_waiters_are_told_that_a_generation_is_over(void **state)
{
	enum { NR = UAIO_WAKEUPS_MAX + 4 };
	struct waiting waiting = { .generation = begin(), .need = 1 };
	struct unit_thread threads[NR];

	(void)state;
	for (unsigned i = 0; i < NR; i++)
		unit_thread_start(&threads[i], wait_for, &waiting);
	for (unsigned i = 0; i < NR; i++)
		unit_await_sleep(&threads[i]);
	close_queue();
	/*
	 * Open the queue again, because some woken threads may check their generation
	 * only now: they, too, must find that it is over.
	 */
	(void)open_queue();
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(unit_thread_join(&threads[i]), -EINVAL);
	assert_true(list_is_empty(&client.queue.waiters));
	end();
}

/* Posts */

static post_fn *const posts[] = { uaio_queue_post, uaio_queue_post_parted };

static void the_sink_gets_each_post_under_the_lock(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(posts); i++) {
		(void)begin();
		post_by(posts[i], 3, false, 0);
		post_by(posts[i], 1, true, 0);
		post_by(posts[i], 2, true, 0);
		assert_int_equal(client.nr, 3 + 1 + 2);
		assert_int_equal(client.sum_data, 1 + 2 + 3 + 1 + 1 + 2);
		assert_int_equal(client.nr_posts, 3);
		assert_int_equal(client.nr_unlocked, 0);
		assert_int_equal(client.queue.nr_queued, 3);
		assert_int_equal(client.queue.nr_inline, 1 + 2);
		/* is_met() is only called for waiting threads, and no thread waits. */
		assert_int_equal(client.nr_asked, 0);
		assert_int_equal(client.nr_drops, 0);
		end();
	}
}

static void words_are_dropped_after_the_post_without_the_lock(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(posts); i++) {
		(void)begin();
		post_by(posts[i], 3, false, 42);
		assert_int_equal(client.nr_posts, 1);
		assert_int_equal(client.nr_drops, 1);
		assert_int_equal(client.sum_words, 42);
		assert_int_equal(client.nr_locked, 0);
		end();
	}
}

static void a_waiter_is_woken_by_the_last_completion_it_needs(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(posts); i++) {
		struct waiting waiting = { .generation = begin(), .need = 3 };
		struct unit_thread thread;

		/*
		 * Start the agent: the thread that acts for threads with their own descriptor
		 * table.
		 */
		assert_int_equal(uaio_table_start_agent(), 0);
		unit_thread_start(&thread, wait_for, &waiting);
		unit_await_sleep(&thread);
		post_by(posts[i], 2, false, 0);
		assert_int_equal(client.queue.nr_wakeups, 0);
		unit_await_sleep(&thread);
		post_by(posts[i], 1, false, 0);
		assert_int_equal(unit_thread_join(&thread), 0);
		assert_int_equal(client.queue.nr_wakeups, 1);
		end();
	}
}

static void one_post_wakes_all_for_whom_it_is_enough(void **state)
{
	static const uint32_t needs[] = { 2, 9, 3, 1 };

	(void)state;
	for (unsigned i = 0; i < NR_ELEMENTS(posts); i++) {
		struct waiting waiting[NR_ELEMENTS(needs)];
		struct unit_thread threads[NR_ELEMENTS(needs)];
		uint64_t generation = begin();

		for (unsigned k = 0; k < NR_ELEMENTS(needs); k++) {
			waiting[k] = (struct waiting){ generation, needs[k] };
			unit_thread_start(&threads[k], wait_for, &waiting[k]);
		}
		for (unsigned k = 0; k < NR_ELEMENTS(needs); k++)
			unit_await_sleep(&threads[k]);
		post_by(posts[i], 3, false, 0);
		for (unsigned k = 0; k < NR_ELEMENTS(needs); k++)
			if (needs[k] <= 3)
				assert_int_equal(unit_thread_join(&threads[k]),
						 0);
		assert_int_equal(client.queue.nr_wakeups, 3);
		close_queue();
		assert_int_equal(unit_thread_join(&threads[1]), -EINVAL);
		uaio_queue_fini(&client.queue);
	}
}

/*
 * A waiting thread may have to be woken through a descriptor of the library's table. A
 * posting thread with its own descriptor table does not have that descriptor. So it lets
 * the agent wake the waiting thread.
 */
static void the_agent_wakes_for_a_thread_that_has_parted(void **state)
{
	struct waiting waiting = { .generation = begin(), .need = 1 };
	uint32_t me = (uint32_t)sys_gettid();
	struct unit_thread thread;

	(void)state;
	assert_int_equal(uaio_table_start_agent(), 0);
	unit_thread_start(&thread, wait_for, &waiting);
	unit_await_sleep(&thread);
	store_relaxed(&client.nr_asked, 0);
	/* Until the agent has woken the thread, it pins the queue (queue.h). */
	post_by(uaio_queue_post_parted, 1, false, 0);
	assert_int_equal(load_relaxed(&client.nr_asked), 1);
	assert_true(load_relaxed(&client.asked_by) != me);
	assert_true(load_relaxed(&client.asked_by) !=
		    load_relaxed(&thread.tid));
	assert_int_equal(load_relaxed(&client.pins_then), 1);
	assert_int_equal(load_relaxed(&client.queue.group.ready.nr_pins), 0);
	assert_int_equal(unit_thread_join(&thread), 0);
	end();
}

/* Threads that post at the same time */

enum { NR_POSTERS = 4 };

static long post_many(void *arg)
{
	unsigned nr = *(unsigned *)arg;

	for (unsigned i = 0; i < nr; i++)
		post_by(posts[i % NR_ELEMENTS(posts)], 1 + i % 3, i % 2, 0);
	return 0;
}

static void posts_of_many_threads_are_received_one_at_a_time(void **state)
{
	unsigned nr_each = unit_rounds(1200) / 6 * 6;
	uint32_t nr = NR_POSTERS * nr_each / 3 * (1 + 2 + 3);
	struct waiting waiting = { .generation = begin(), .need = nr };
	struct unit_thread posters[NR_POSTERS], waiter;

	(void)state;
	unit_thread_start(&waiter, wait_for, &waiting);
	for (unsigned i = 0; i < NR_POSTERS; i++)
		unit_thread_start(&posters[i], post_many, &nr_each);
	for (unsigned i = 0; i < NR_POSTERS; i++)
		assert_int_equal(unit_thread_join(&posters[i]), 0);
	assert_int_equal(unit_thread_join(&waiter), 0);
	assert_int_equal(client.nr_posts, NR_POSTERS * nr_each);
	assert_int_equal(client.nr, nr);
	assert_int_equal(client.nr_unlocked, 0);
	assert_int_equal(client.queue.nr_inline + client.queue.nr_queued, nr);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(each_generation_has_a_number_of_its_own),
		UNIT_TEST(nobody_waits_in_a_generation_that_is_over),
		UNIT_TEST(all_waiters_are_told_that_a_generation_is_over),
		UNIT_TEST(the_sink_gets_each_post_under_the_lock),
		UNIT_TEST(words_are_dropped_after_the_post_without_the_lock),
		UNIT_TEST(a_waiter_is_woken_by_the_last_completion_it_needs),
		UNIT_TEST(one_post_wakes_all_for_whom_it_is_enough),
		UNIT_TEST(the_agent_wakes_for_a_thread_that_has_parted),
		UNIT_TEST(posts_of_many_threads_are_received_one_at_a_time),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
