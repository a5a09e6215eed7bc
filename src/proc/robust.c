/* SPDX-License-Identifier: MIT */
#include "proc/robust.h"

#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/atomic.h"
#include "base/sleep.h"
#include "base/sys.h"
#include "proc/entry.h"
#include "proc/process.h"

enum {
	NAP_NS = 50000,
	PATIENCE_NS = 1000000000,
};

/*
 * Find the thread's robust list (get_robust_list(2)). A child of fork() must do this
 * again, since it inherits its parent's result.
 */
static __attribute__((noinline)) void learn(uint32_t start_nr)
{
	struct robust_list_head *head;
	size_t bytes;

	uaio_entry.tid = (uint32_t)sys_gettid();
	uaio_entry.robust = sys_get_robust_list(&head, &bytes) == 0 &&
					    bytes == sizeof(*head)
				    ? head
				    : NULL;
	uaio_entry.robust_since = start_nr;
}

/*
 * Return: the value to store in list_op_pending, so that the kernel frees the lock at
 * `word` if this thread ends.
 */
static struct robust_list *place_of(const struct robust_list_head *head,
				    uint32_t *word)
{
	return (struct robust_list *)(void *)((char *)word -
					      head->futex_offset);
}

/*
 * Set list_op_pending. Compiler barriers suffice, since the kernel reads it only after
 * this thread has ended.
 */
static inline void set_place(struct robust_list_head *head,
			     struct robust_list *place)
{
	__asm__ volatile("" ::: "memory");
	store_relaxed(&head->list_op_pending, place);
	__asm__ volatile("" ::: "memory");
}

/*
 * Try to lock the word.
 * Return: whether this thread holds it now; if not, *ret_holder: the thread that holds
 * it.
 */
static bool try_lock(uint32_t *word, uint32_t *ret_holder)
{
	uint32_t was = load_relaxed(word);

	/*
	 * The lock is free if no thread id is in the word. The kernel may have left a
	 * flag bit there when a holder ended.
	 */
	while (!(was & FUTEX_TID_MASK))
		/* [MB:robust] acquire: pairs with uaio_robust_unlock(). */
		if (cas_acquire(word, &was, uaio_entry.tid))
			return true;
	*ret_holder = was;
	return false;
}

static __attribute__((noinline)) void lock_slowly(uint32_t *word,
						  uint32_t holder)
{
	int64_t now = uaio_now_ns(), until = now + PATIENCE_NS;
	uint32_t nap = 0, seen = holder;

	for (;;) {
		(void)uaio_sleep(&nap, 0, now + NAP_NS);
		if (try_lock(word, &holder))
			return;
		now = uaio_now_ns();
		if (holder != seen)
			until = now + PATIENCE_NS;
		/*
		 * [MB:robust] acquire: this thread takes the lock from a slow holder,
		 * and sees what that holder has written so far.
		 */
		else if (now >= until &&
			 cas_acquire(word, &holder, uaio_entry.tid))
			return;
		seen = holder;
	}
}

void uaio_robust_lock(uint32_t *word)
{
	uint32_t start_nr = uaio_engine_start_nr(), holder;
	struct robust_list_head *head;

	if (unlikely(uaio_entry.robust_since != start_nr))
		learn(start_nr);
	head = uaio_entry.robust;
	if (likely(head) && likely(!load_relaxed(&head->list_op_pending)))
		set_place(head, place_of(head, word));
	if (unlikely(!try_lock(word, &holder)))
		lock_slowly(word, holder);
}

void uaio_robust_unlock(uint32_t *word)
{
	struct robust_list_head *head = uaio_entry.robust;

	/* [MB:robust] release: pairs with try_lock(). */
	store_release(word, 0);
	if (likely(head) && likely(load_relaxed(&head->list_op_pending) ==
				   place_of(head, word)))
		set_place(head, NULL);
}
