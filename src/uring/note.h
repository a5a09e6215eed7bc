/* SPDX-License-Identifier: MIT */
/*
 * What the door remembers of a request
 *
 * Most requests need nothing: their word (sink.h) is 0. The word of any other is the
 * address of a note, which is made when the request is submitted and freed when its
 * last completion has been posted. What only requests of one kind need is in a union:
 * prep, which translates the submission, makes the note one of a kind, once.
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

/* Of a message to a ring (msg_ring.c): what is sent, and where. */
struct uaio_uring_msg {
	uint64_t user_data; /* of the completion, as is res */
	uint32_t res;
	uint32_t command; /* IORING_MSG_* */
	uint32_t flags;   /* IORING_MSG_RING_* */
	uint32_t
		cqe_flags; /* of the completion; or a place for a file, and 1 */
	uint32_t place;    /* of a registered file */
	int fd;            /* of the other ring */
};

/* Of a timeout, which may end after a number of completions (timeout.c). */
struct uaio_uring_timeout {
	/* immutable */
	bool is_linked; /* to the request before it */
	bool succeeds;  /* by coming to its end */
	bool counts;
	bool has_from;  /* it counts from then on, if it is no drain */
	uint32_t count; /* so many completions, if it counts */
	uint64_t data;  /* of its request */

	/* under the queue's lock, or immutable */
	uint64_t from;       /* what cq_events was when it began to count */
	uint64_t number;     /* that of the ring's which began before */
	uint32_t is_reached; /* atomic */
	bool is_listed;      /* in the ring's reached, or in its counting */
	union {
		struct heap_node in_counting;
		struct list in_reached;
	};
};

/* Of a send that does not copy, in the kernel; immutable. */
struct uaio_uring_notice {
	int32_t res; /* of its second completion, which says that its memory is free */
	bool is_0_on_fault; /* if its call finds no memory */
};

/* Of a request that puts files in a table (openclose.c, filetable.c); immutable. */
struct uaio_uring_landing {
	struct uaio_uring *ring; /* borrows: it stays until the completion */
	uint64_t descriptors;    /* the client's: an array; or 0 */
	uint32_t place;          /* or UAIO_URING_ANY_PLACE */
};

/* Of a request that cancels, removes or changes others (cancel.h). */
struct uaio_uring_change {
	/* immutable */
	struct uaio_uring_aim aim;
	uint64_t new_data;
	uint32_t events;
	int64_t time_ns;

	/*
	 * What it has cancelled is completed after it, as in the kernel: when its note is
	 * freed. Of the thread that executes it.
	 */
	bool has_later;
	struct uaio_cancelled later; /* if has_later */
};

/* What a note says that requests of one kind only need. */
enum uaio_uring_note_kind {
	UAIO_URING_NOTE_PLAIN, /* nothing */
	UAIO_URING_NOTE_TIMEOUT,
	UAIO_URING_NOTE_NOTICE,
	UAIO_URING_NOTE_LANDING,
	UAIO_URING_NOTE_CHOICE,  /* it selects a buffer */
	UAIO_URING_NOTE_BUFFERS, /* it provides buffers, or removes some */
	UAIO_URING_NOTE_CHANGE,
	UAIO_URING_NOTE_MSG,
};

struct uaio_uring_note {
	struct uaio_slab_node node;

	/* immutable */
	uint8_t kind; /* enum uaio_uring_note_kind; it tells which member is used */
	bool skips;    /* no completion if it succeeds */
	bool forgives; /* and an error of its call is no failure */
	/*
	 * A result below that is no success. Immutable, but for a request that selects
	 * a buffer: then its length, written as cqe_flags.
	 */
	uint32_t expected;
	/*
	 * IORING_CQE_F_* of its next completion, beside MORE. Written by the thread
	 * that executes the request.
	 */
	uint32_t cqe_flags;
	/* what it uses that has a tag: a file and a buffer, or two files; or NULL */
	struct uaio_uring_rsrc *used[2]; /* shares (ref) */
	/* What is behind its completions, in a ring with such room; immutable. */
	uint64_t extra[2];

	union {
		struct uaio_uring_timeout timeout;
		struct uaio_uring_notice notice;
		struct uaio_uring_landing landing;
		struct uaio_uring_choice choice; /* CHOICE, BUFFERS: kbuf.h */
		struct uaio_uring_change change;
		struct uaio_uring_msg msg; /* immutable */
	};
};

void uaio_uring_notes_init(void);

/* Return: a note that says nothing; NULL if memory is refused. */
struct uaio_uring_note *uaio_uring_note_new(void);
/* Its request uses something with a tag; it uses two such things at most. */
void uaio_uring_note_use(struct uaio_uring_note *note,
			 struct uaio_uring_rsrc *rsrc);
void uaio_uring_note_free(struct uaio_uring_note *note);

static inline struct uaio_uring_note *uaio_uring_note_of(uint64_t word)
{
	return (struct uaio_uring_note *)(uintptr_t)word;
}

/* Return: what a note, or NULL, says of a timeout; NULL: it is of no timeout. */
static inline struct uaio_uring_timeout *
uaio_uring_timeout_of(struct uaio_uring_note *note)
{
	return note && note->kind == UAIO_URING_NOTE_TIMEOUT ? &note->timeout
							     : NULL;
}

/* A function of struct uaio_sink. */
void uaio_uring_notes_drop(const struct uaio_post *post);

/*
 * For the sink, about a completion with a note or with flags: correct cqe, which is
 * filled in, or the number of last completions in a post.
 * Return: whether the client is told of it.
 */
bool uaio_uring_is_told(struct uaio_uring *ring,
			const struct uaio_completion *completion,
			struct io_uring_cqe *cqe, uint32_t *nr_last);

/*
 * Return: whether the request whose completion cqe is has a second one; if so, cqe
 * becomes that.
 */
bool uaio_uring_notice_of(const struct uaio_completion *completion,
			  struct io_uring_cqe *cqe);

/*
 * timeout.c: timeouts, of which some end after so many completions
 */

/*
 * A timeout with a count is about to be submitted, and counts from when there were so
 * many events; or was refused.
 */
void uaio_uring_count(struct uaio_uring *ring,
		      struct uaio_uring_timeout *timeout, uint64_t from);
void uaio_uring_uncount(struct uaio_uring *ring,
			struct uaio_uring_timeout *timeout);
void uaio_uring_uncount_locked(struct uaio_uring *ring,
			       struct uaio_uring_timeout *timeout);

/* Mark what is due. The queue's lock is held. */
void uaio_uring_find_reached_locked(struct uaio_uring *ring);
/* End what is marked. */
void uaio_uring_end_reached(struct uaio_uring *ring);
/* Functions of struct uaio_sink. */
int64_t uaio_uring_cancelled(const struct uaio_sqe *sqe);
void uaio_uring_starts(struct uaio_queue *queue, const struct uaio_sqe *sqe);
void uaio_uring_act(struct uaio_queue *queue);

/* What uaio_uring_called() does for TIMEOUT_UPDATE. Return: 0 or -errno. */
int uaio_uring_update_timeout(struct uaio_uring *ring,
			      const struct uaio_uring_change *change);

#endif /* UAIO_URING_NOTE_H */
