/* SPDX-License-Identifier: MIT */
/*
 * Notes: what the io_uring front-end keeps about a request while the core executes it
 *
 * Most requests need no note, and their `word` (sink.h) is 0. Otherwise `word` is the
 * address of a note. The note is made at submission, and freed when the request's last
 * completion has been posted. A union holds the members that only one kind of request
 * needs. The function that translates the submission (prep) sets the kind, once.
 *
 * Tested by test-uring.c and test-uring-timeout.c.
 */
#ifndef UAIO_URING_NOTE_H
#define UAIO_URING_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/list.h"
#include "base/slab.h"
#include "flow/cancel.h"
#include "uring/cancel.h"
#include "uring/kbuf.h"

struct io_uring_cqe;
struct uaio_completion;
struct uaio_post;
struct uaio_queue;
struct uaio_sqe;
struct uaio_uring;
struct uaio_uring_rsrc;

/* A message to another ring (msg_ring.c). */
struct uaio_uring_msg {
	uint64_t user_data; /* user_data and res of the completion to post */
	uint32_t res;
	uint32_t command; /* IORING_MSG_* */
	uint32_t flags;   /* IORING_MSG_RING_* */
	uint32_t
		/*
		 * flags of the completion; or, if a file is sent, the slot in the
		 * target ring plus 1, or IORING_FILE_INDEX_ALLOC
		 */
		cqe_flags;
	uint32_t place; /* slot of a registered file of the sender's ring */
	int fd;         /* descriptor of the target ring */
};

/* A timeout, which may complete after a number of completions (timeout.c). */
struct uaio_uring_timeout {
	/* immutable */
	bool is_linked; /* linked to the previous request */
	/* IORING_TIMEOUT_ETIME_SUCCESS: the timeout's expiry (-ETIME) is no failure */
	bool succeeds;
	bool counts;
	/*
	 * the submitter has set `from`; but if the timeout's chain has a drain, `from`
	 * is set when the timeout starts
	 */
	bool has_from;
	/*
	 * for a timeout with a count: the number of completions after which it
	 * completes
	 */
	uint32_t count;
	uint64_t data; /* the client's user_data */

	/*
	 * The next members change under the queue's lock. Exception: if has_from is
	 * set, the submitter has set `from` without this lock.
	 */
	uint64_t from;       /* cq_events when the timeout began to count */
	uint64_t number;     /* older timeouts have lower numbers */
	uint32_t is_reached; /* atomic */
	/* the timeout is in the ring's list `reached` or heap `counting` */
	bool is_listed;
	union {
		struct heap_node in_counting;
		struct list in_reached;
	};
};

/*
 * A zero-copy send, which has a second completion. Its members do not change after the
 * request has started.
 */
struct uaio_uring_notice {
	/* result of the second completion, which says that the memory is free */
	int32_t res;
	bool is_0_on_fault; /* res is 0 if the call fails with EFAULT */
};

/*
 * A request that puts files into the table of registered files (openclose.c,
 * filetable.c); immutable.
 */
struct uaio_uring_landing {
	struct uaio_uring *ring; /* borrows: lives until the completion */
	/* address of the client's array of descriptors or slots; or 0 */
	uint64_t descriptors;
	uint32_t place; /* or UAIO_URING_ANY_PLACE */
};

/* A request that cancels, removes or changes other requests (cancel.h). */
struct uaio_uring_change {
	/* immutable */
	struct uaio_uring_aim aim;
	uint64_t new_data;
	uint32_t events;
	int64_t time_ns;

	/*
	 * The requests that this request has cancelled. As in the kernel, their
	 * completions follow the completion of this request: they are posted when this
	 * note is freed. Belongs to the executing thread.
	 */
	bool has_later;
	/* `changed` has the poll that this request has changed (cancel.h, I2) */
	bool has_changed;
	union {
		struct uaio_cancelled later; /* valid if has_later */
		struct list changed;         /* valid if has_changed */
	};
};

/* The kind of request that a note belongs to. */
enum uaio_uring_note_kind {
	UAIO_URING_NOTE_PLAIN, /* uses no member of the union */
	UAIO_URING_NOTE_TIMEOUT,
	UAIO_URING_NOTE_NOTICE,
	UAIO_URING_NOTE_LANDING,
	UAIO_URING_NOTE_CHOICE,  /* selects a buffer */
	UAIO_URING_NOTE_BUFFERS, /* provides or removes buffers */
	UAIO_URING_NOTE_CHANGE,
	UAIO_URING_NOTE_MSG,
};

struct uaio_uring_note {
	struct uaio_slab_node node;

	/* immutable */
	/* enum uaio_uring_note_kind; selects the union's member */
	uint8_t kind;
	bool skips; /* posts no completion on success */
	/*
	 * failures, except ECANCELED, count as success, because they do not break a
	 * chain; so `skips` hides them, too
	 */
	bool errors_succeed;
	/*
	 * A result below this number counts as a failure. Immutable, except in a
	 * request that selects a buffer: there the executing thread sets it to the
	 * selected length.
	 */
	uint32_t expected;
	/*
	 * IORING_CQE_F_* of the next completion, without MORE. Belongs to the executing
	 * thread.
	 */
	uint32_t cqe_flags;
	/* tagged resources in use: a file and a buffer, or two files; or NULL */
	struct uaio_uring_rsrc *used[2]; /* shares (ref) */
	/* Borrows: if the request polls the bell of a ring (bell.h), this ring; or NULL. */
	struct uaio_uring *polled;
	/* The second half of a 32-byte completion; immutable. */
	uint64_t extra[2];

	union {
		struct uaio_uring_timeout timeout;
		struct uaio_uring_notice notice;
		struct uaio_uring_landing landing;
		struct uaio_uring_choice
			choice; /* kinds CHOICE and BUFFERS: kbuf.h */
		struct uaio_uring_change change;
		struct uaio_uring_msg msg; /* immutable */
	};
};

void uaio_uring_notes_init(void);

/* Return: a new note of the kind PLAIN; NULL if memory is refused. */
struct uaio_uring_note *uaio_uring_note_new(void);
/*
 * Keep a tagged resource (rsrc.h) until the request has completed. A note can keep two.
 */
void uaio_uring_note_use(struct uaio_uring_note *note,
			 struct uaio_uring_rsrc *rsrc);
void uaio_uring_note_free(struct uaio_uring_note *note);

static inline struct uaio_uring_note *uaio_uring_note_of(uint64_t word)
{
	return (struct uaio_uring_note *)(uintptr_t)word;
}

/* Return: the timeout in a note; NULL if there is no note, or no timeout. */
static inline struct uaio_uring_timeout *
uaio_uring_timeout_of(struct uaio_uring_note *note)
{
	return note && note->kind == UAIO_URING_NOTE_TIMEOUT ? &note->timeout
							     : NULL;
}

/*
 * The function `drop_words` of struct uaio_sink (sink.h): free the notes of the posted
 * completions.
 */
void uaio_uring_notes_drop(const struct uaio_post *post);

/*
 * The sink calls this under the queue's lock, for a completion with a note or with
 * flags: set the flags of *cqe, and count the request in nr_timeouts (ring.h) if it is
 * a timeout that has expired or reached its count.
 * Return: whether to show the completion to the client.
 */
bool uaio_uring_is_told(struct uaio_uring *ring,
			const struct uaio_completion *completion,
			struct io_uring_cqe *cqe);

/*
 * Return: whether a second completion follows, as for a zero-copy send; if so, *cqe
 * becomes this second completion.
 */
bool uaio_uring_notice_of(const struct uaio_completion *completion,
			  struct io_uring_cqe *cqe);

/* timeout.c: timeouts, some of which complete after a number of completions */

/*
 * Let a timeout count the ring's completions after number `from` (cq_events). Called
 * when the timeout is submitted or, in a chain, when it starts. If the library then
 * refuses the submission, uaio_uring_uncount() ends the counting.
 */
void uaio_uring_count(struct uaio_uring *ring,
		      struct uaio_uring_timeout *timeout, uint64_t from);
void uaio_uring_uncount(struct uaio_uring *ring,
			struct uaio_uring_timeout *timeout);
void uaio_uring_uncount_locked(struct uaio_uring *ring,
			       struct uaio_uring_timeout *timeout);

/* Mark the timeouts whose count is reached. Caller holds the queue's lock. */
void uaio_uring_find_reached_locked(struct uaio_uring *ring);
/* Complete the marked timeouts. */
void uaio_uring_end_reached(struct uaio_uring *ring);
/* Functions that the core calls through struct uaio_sink (sink.h). */
int64_t uaio_uring_cancelled(const struct uaio_sqe *sqe);
void uaio_uring_starts(struct uaio_queue *queue, const struct uaio_sqe *sqe);
void uaio_uring_act(struct uaio_queue *queue);

/* Execute TIMEOUT_UPDATE for uaio_uring_called(). Return: its result, 0 or -errno. */
int uaio_uring_update_timeout(struct uaio_uring *ring,
			      const struct uaio_uring_change *change);

#endif /* UAIO_URING_NOTE_H */
