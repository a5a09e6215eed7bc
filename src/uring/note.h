/* SPDX-License-Identifier: MIT */
/*
 * What the door remembers of a request
 *
 * Most requests need nothing: their word (sink.h) is 0. The word of any other is the
 * address of a note, which is made when the request is submitted and freed when its
 * last completion has been posted.
 *
 * Tested by test-uring.c and test-uring-timeout.c.
 */
#ifndef UAIO_URING_NOTE_H
#define UAIO_URING_NOTE_H

#include <stdbool.h>
#include <stdint.h>

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

struct uaio_uring_note {
	struct uaio_slab_node node;

	/* immutable */
	bool skips;    /* no completion if it succeeds */
	bool forgives; /* and an error of its call is no failure */
	bool is_poll;  /* or a timeout, which has an end of its own */
	bool is_timeout;
	bool is_linked; /* the same, of the request before it */
	bool notifies;  /* a second completion says that its memory is free */
	int32_t notice; /* the result of that */
	bool faults;    /* and it is 0 if its call finds no memory */
	bool succeeds;  /* a timeout, by coming to its end */
	/*
	 * A result below that is no success. Immutable, but for a request that selects
	 * a buffer: then its length, written as cqe_flags.
	 */
	uint32_t expected;
	/* what it uses that has a tag: a file and a buffer, or two files; or NULL */
	struct uaio_uring_rsrc *used[2]; /* shares (ref) */

	/*
	 * IORING_CQE_F_* of its next completion, beside MORE. Written by the thread
	 * that executes the request.
	 */
	uint32_t cqe_flags;
	/* What is behind its completions, in a ring with such room; immutable. */
	uint64_t extra[2];

	/* of a request that opens a file into a table (openclose.c); immutable */
	struct uaio_uring *ring; /* borrows: it stays until the completion */
	uint32_t place;          /* or UAIO_URING_ANY_PLACE */
	/* of one that puts files in a table: the client's; immutable */
	uint64_t descriptors;

	/* kbuf.h: of a request that selects a buffer, or provides or removes some */
	bool has_choice; /* immutable: it selects */
	struct uaio_uring_choice choice;

	/* of a call of the door (cancel.h); immutable */
	struct uaio_uring_aim aim;
	/*
	 * What it has cancelled is completed after it, as in the kernel: when its note is
	 * freed. Of the thread that executes it.
	 */
	bool has_later;
	struct uaio_cancelled later; /* if has_later */
	uint64_t new_data;
	uint32_t events;
	int64_t time_ns;
	struct uaio_uring_msg msg; /* immutable */

	/* of a timeout that ends after a number of completions */
	bool counts;    /* immutable */
	uint32_t count; /* immutable: so many */
	bool has_from; /* immutable: it counts from then on, if it is no drain */
	/* under the queue's lock, or immutable */
	uint32_t from;       /* what cq_events was when it began to count */
	bool is_counting;    /* it is in counting */
	uint32_t is_reached; /* atomic */
	struct list counting;
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
void uaio_uring_count(struct uaio_uring *ring, struct uaio_uring_note *note,
		      uint32_t from);
void uaio_uring_uncount(struct uaio_uring *ring, struct uaio_uring_note *note);
void uaio_uring_uncount_locked(struct uaio_uring *ring,
			       struct uaio_uring_note *note);

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
			      const struct uaio_uring_note *note);

#endif /* UAIO_URING_NOTE_H */
