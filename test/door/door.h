/* SPDX-License-Identifier: MIT */
/*
 * A door that no program uses: a test that the core knows no ABI
 *
 * A client shares two rings with this front-end, in a format of their own: the
 * client fills in submissions and moves sq_tail, and the door takes them and moves
 * sq_head; with completions it is the other way round. The door does all that a
 * front-end has to do, and includes only headers that a front-end may use.
 *
 *   I1  Every submission that was taken has exactly one completion without
 *       DOOR_MORE; a place for that completion is kept free until it is posted.
 *   I2  The door relies on nothing that the client can write.
 *   I3  One thread at a time submits; any thread may wait and reap.
 *
 * The functions return what they say or a negative error number.
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
	DOOR_OPEN,       /* memory: the path; place: flags */
	DOOR_TIMER,      /* place: nanoseconds from now on */
	DOOR_LINK_TIMER, /* the same, of the request before it in a chain */
	DOOR_CANCEL,     /* place: the tag of what is cancelled */
	DOOR_CORE,       /* memory: what the core is given, a struct uaio_sqe */
	DOOR_NR_WHATS,
};

/* Of door_sqe.options. */
enum {
	DOOR_REPEATEDLY = 1, /* of a poll: until it is cancelled */
	DOOR_FIXED = 2, /* fd is the place of a fixed file; cancel: all on it */
	DOOR_LINK = 4,  /* the next starts when this one has succeeded */
	DOOR_LINK_HARD = 8, /* ... when this one has ended */
	DOOR_DRAIN = 16,    /* alone: not beside others of this door */
	DOOR_ASYNC = 32,    /* not tried when it is submitted */
};

enum { DOOR_NR_FIXED = 4 };

/* Of door_cqe.flags. */
enum { DOOR_MORE = 1 /* others follow */ };

struct door_sqe {
	uint32_t what;
	int32_t fd;
	int64_t place;
	void *memory;
	uint32_t size; /* in bytes or vectors; of a poll: the events */
	uint32_t options;
	uint64_t tag;
};

struct door_cqe {
	uint64_t tag;
	int32_t res;
	uint32_t flags;
};

/* Shared with the client. Numbers run freely; a place is the number's rest. */
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

/* Cancels what may wait for ever, waits for the rest. */
int door_close(struct door *door);

/*
 * Fix the file that fd is, at a place that is free; and free the place. The file
 * stays as long as there are requests on it. Called by the thread that submits.
 */
int door_fix(struct door *door, uint32_t place, int fd);
int door_unfix(struct door *door, uint32_t place);

/*
 * Submit what is in the ring, then wait until there are nr_min completions, or
 * until the deadline (CLOCK_MONOTONIC).
 * Return: how many were taken in; errors of waiting only if none was.
 */
int door_enter(struct door *door, uint32_t nr_min, int64_t deadline_ns);

/* Only wait, which any thread may do (I3). */
int door_wait(struct door *door, uint32_t nr_min, int64_t deadline_ns);

#endif /* DOOR_H */
