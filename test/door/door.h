/* SPDX-License-Identifier: MIT */
/*
 * The "door": a front-end that only tests use. By it, tests show that the engine
 * depends on no ABI.
 *
 * A client shares two rings with this front-end. Their format is not the format of any
 * kernel. The client fills in submissions and advances sq_tail; the door reads them and
 * advances sq_head. The door posts completions and advances cq_tail; the client reads
 * them and advances cq_head. A door does all that a front-end such as kernel AIO or
 * io_uring has to do. Its source includes only headers that a front-end may include.
 *
 * I1  Every accepted submission has exactly one completion without DOOR_MORE.
 *     The door keeps a slot of the completion ring free until it posts that completion.
 * I2  The door relies on nothing that the client can write.
 * I3  Only one thread at a time submits; any thread may wait and reap.
 *
 * Each function returns what its comment says, or a negative errno.
 */
#ifndef DOOR_H
#define DOOR_H

#include <stdint.h>

enum { DOOR_NR_SQES = 64, DOOR_NR_CQES = 128 };

/* Operations. In their comments, sqe is the operation's struct door_sqe. */
enum door_what {
	DOOR_READ,
	DOOR_READV,
	DOOR_WRITE,
	DOOR_SYNC,
	DOOR_POLL,
	DOOR_NOP,
	DOOR_OPEN, /* sqe.memory is the path, sqe.place has the flags of open() */
	DOOR_TIMER, /* expires sqe.place nanoseconds from now */
	/* like DOOR_TIMER; if it expires, the previous request of the chain is cancelled */
	DOOR_LINK_TIMER,
	DOOR_CANCEL, /* sqe.place is the tag of the request to cancel */
	DOOR_CORE, /* sqe.memory points to a struct uaio_sqe, which is submitted */
	DOOR_NR_WHATS,
};

/* Flags in door_sqe.options. */
enum {
	DOOR_REPEATEDLY =
		1, /* multishot: the poll continues until it is cancelled */
	/*
	 * fd is a slot of the table of fixed files. DOOR_CANCEL with this flag cancels
	 * all requests on the file in that slot.
	 */
	DOOR_FIXED = 2,
	/* the next request starts once this request has succeeded */
	DOOR_LINK = 4,
	/*
	 * the next request starts once this request has completed, even with an error
	 */
	DOOR_LINK_HARD = 8,
	/*
	 * this request starts after all earlier requests of the door; later requests
	 * wait for its end
	 */
	DOOR_DRAIN = 16,
	/* a worker executes the request; the submitting thread does not try it */
	DOOR_ASYNC = 32,
};

enum { DOOR_NR_FIXED = 4 };

/* Flags in door_cqe.flags. */
enum { DOOR_MORE = 1 /* other completions follow */ };

struct door_sqe {
	uint32_t what;
	int32_t fd;
	int64_t place;
	void *memory;
	/*
	 * bytes of the memory; DOOR_READV: number of vectors; DOOR_POLL: the events
	 */
	uint32_t size;
	uint32_t options;
	uint64_t tag;
};

struct door_cqe {
	uint64_t tag;
	int32_t res;
	uint32_t flags;
};

/*
 * The memory that the door shares with the client. A ring's heads and tails only
 * increase; modulo the ring's size, they are the index of a slot.
 */
struct door_rings {
	/* atomic */
	uint32_t sq_head;
	uint32_t sq_tail; /* only the client advances it */
	uint32_t cq_head; /* only the client advances it */
	uint32_t cq_tail;

	struct door_sqe sqes[DOOR_NR_SQES];
	struct door_cqe cqes[DOOR_NR_CQES];
};

struct door;

int door_open(struct door **ret_door, struct door_rings **ret_rings);

/*
 * Close the door. Cancels the requests that may wait for ever, and waits until all
 * other requests have completed.
 */
int door_close(struct door *door);

/*
 * door_fix() puts the file of `fd` into the empty slot `place` of the table of fixed
 * files. door_unfix() empties the slot; the file stays open while requests use it. Only
 * the submitter may call these functions.
 */
int door_fix(struct door *door, uint32_t place, int fd);
int door_unfix(struct door *door, uint32_t place);

/*
 * Submit the requests in the ring, then wait until nr_min completions are unread or the
 * deadline (CLOCK_MONOTONIC) passes.
 * Return: how many submissions were accepted; if none was accepted, the error of the
 * wait.
 */
int door_enter(struct door *door, uint32_t nr_min, int64_t deadline_ns);

/* Like door_enter(), without submitting. Any thread may call it (I3). */
int door_wait(struct door *door, uint32_t nr_min, int64_t deadline_ns);

#endif /* DOOR_H */
