/* SPDX-License-Identifier: MIT */
/*
 * A door (front-end) that no program uses: it tests that the engine depends on
 * no ABI
 *
 * A client shares two rings with this front-end, in a format of their own. The client fills
 * in submissions and advances sq_tail; the door takes them and advances sq_head. The door
 * posts completions and advances cq_tail; the client advances cq_head. A door does all that
 * a front-end (such as kernel AIO or io_uring) has to do, and includes only headers that a
 * front-end may use.
 *
 *   I1  Every accepted submission has exactly one completion without DOOR_MORE.
 *       The door keeps a slot free for that completion until it posts it.
 *   I2  The door relies on nothing that the client can write.
 *   I3  One thread at a time submits; any thread may wait and reap.
 *
 * The functions return what their comments say, or a negative error number.
 */
#ifndef DOOR_H
#define DOOR_H

#include <stdint.h>

enum { DOOR_NR_SQES = 64, DOOR_NR_CQES = 128 };

enum door_what {
	DOOR_READ,
	DOOR_READV,
	DOOR_WRITE,
	DOOR_SYNC,
	DOOR_POLL,
	DOOR_NOP,
	DOOR_OPEN,  /* memory: the path; place: flags */
	DOOR_TIMER, /* place: nanoseconds from now on */
	/* as DOOR_TIMER; limits the previous request of a chain */
	DOOR_LINK_TIMER,
	DOOR_CANCEL, /* place: the tag of the request to cancel */
	DOOR_CORE,   /* memory: a struct uaio_sqe for the engine */
	DOOR_NR_WHATS,
};

/* Flags in door_sqe.options. */
enum {
	DOOR_REPEATEDLY =
		1, /* multishot: the poll goes on until it is cancelled */
	/* fd is the slot of a fixed file; cancel: all requests on it */
	DOOR_FIXED = 2,
	/* the next request starts when this one has succeeded */
	DOOR_LINK = 4,
	/* the next request starts when this one has ended */
	DOOR_LINK_HARD = 8,
	DOOR_DRAIN = 16, /* runs alone: other requests of the door wait */
	DOOR_ASYNC = 32, /* not tried during submission, but left to a worker */
};

enum { DOOR_NR_FIXED = 4 };

/* Flags in door_cqe.flags. */
enum { DOOR_MORE = 1 /* other completions follow */ };

struct door_sqe {
	uint32_t what;
	int32_t fd;
	int64_t place;
	void *memory;
	uint32_t size; /* bytes, or number of vectors; for a poll: the events */
	uint32_t options;
	uint64_t tag;
};

struct door_cqe {
	uint64_t tag;
	int32_t res;
	uint32_t flags;
};

/*
 * Shared with the client. The index of a slot is the head or tail modulo the ring's size.
 */
struct door_rings {
	/* atomic */
	uint32_t sq_head;
	uint32_t sq_tail; /* the client's */
	uint32_t cq_head; /* the client's */
	uint32_t cq_tail;

	struct door_sqe sqes[DOOR_NR_SQES];
	struct door_cqe cqes[DOOR_NR_CQES];
};

struct door;

int door_open(struct door **ret_door, struct door_rings **ret_rings);

/* Cancels requests that may wait for ever, and waits for all others to complete. */
int door_close(struct door *door);

/*
 * Set, or clear, the file of a slot of the table of fixed files. For door_fix() the slot
 * must be empty. The file stays open while requests use it. Only the submitter may call
 * these functions.
 */
int door_fix(struct door *door, uint32_t place, int fd);
int door_unfix(struct door *door, uint32_t place);

/*
 * Submits what is in the ring, then waits until there are nr_min completions or the
 * deadline (CLOCK_MONOTONIC) passes. Return: how many submissions were accepted. If none
 * was accepted, the error of the wait.
 */
int door_enter(struct door *door, uint32_t nr_min, int64_t deadline_ns);

/* Waits without submitting. Any thread may call it (I3). */
int door_wait(struct door *door, uint32_t nr_min, int64_t deadline_ns);

#endif /* DOOR_H */
