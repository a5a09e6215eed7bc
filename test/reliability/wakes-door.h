/* SPDX-License-Identifier: MIT */
/* Inside the reaping process of wakes.h: seats, the interfaces and how reapers sleep */
#ifndef WAKES_DOOR_H
#define WAKES_DOOR_H

#include <aio.h>
#include <pthread.h>
#include <linux/aio_abi.h>

#include "uring-client.h"
#include "wakes.h"

enum { BLOCK = 4096, NR_BLOCKS = 16, NR_TEAM = 3 };

/* How a reaper waits for a descriptor. */
struct watch {
	enum way way;
	int fd;
	/*
	 * epoll: -1, or an epoll that watches fd; outer: -1, or an epoll that watches epoll
	 */
	int epoll, outer;
};

/* A lane's data in its reaper's thread. */
struct seat {
	struct lane *lane;
	const struct kind *kind;
	unsigned index;
	struct random random;
	struct watch watch;
	uint64_t number; /* number of the wake that the reaper sleeps for */
	int event;       /* owns: an eventfd or signalfd, or -1 */
	int file;        /* the file that DIRECT reads; owns, or -1 */
	int bystander; /* owns, or -1: an eventfd that is polled but never ready */
	unsigned block;        /* block of the file that DIRECT reads */
	unsigned char *buffer; /* BLOCK bytes, aligned */

	/* the door's */
	struct uring ring;
	struct __kernel_timespec time;
	aio_context_t ctx;
	struct iocb iocb;
	struct aiocb aiocb;
	sem_t called; /* posted by the SIGEV_THREAD function, or by a team */

	/* threads that sleep instead of the reaper and report their completion to it */
	pthread_t team[NR_TEAM];
	pthread_mutex_t mutex; /* of the completions */
	/* the completion that a thread of the team consumed, and its result */
	uint64_t taken;
	long result;
};

/* A front-end: an interface by which requests are made. */
struct door {
	const struct sleep *sleeps;
	unsigned nr_sleeps;
	/* Return: whether this machine and interface support such a lane. */
	bool (*has)(const struct sleep *sleep, const struct ask *ask);
	void (*open)(struct seat *seat);
	/* Submit the request that the wake seat->number completes. */
	void (*arm)(struct seat *seat);
	/* Sleep until the request of the last arm is complete, and check the completion. */
	void (*await)(struct seat *seat);
	/* Cancel the request of the last arm; called by another thread. */
	void (*cancel)(struct seat *seat);
	void (*close)(struct seat *seat);
};

extern const struct door uring_door, aio_door, posix_door;

/* Send the message that is wake `number` from another thread's ring. */
void uring_message(struct uring *from, const struct seat *seat,
		   uint64_t number);
void uring_for_messages(struct uring *ring);

/* Return: the file of the seat's READ, POLL, CANCEL or DIRECT request. */
int seat_fd(const struct seat *seat);
/* Fail unless the request has the result and data that its wake gave it. */
void seat_check(struct seat *seat, long result);

/* Start the team. The caller ends it after giving each thread a completion to consume. */
void team_start(struct seat *seat, void *(*thread)(void *));
void team_join(struct seat *seat);
/* A thread of the team has consumed the completion. */
void team_report(struct seat *seat, uint64_t number, long result);
/* Sleep until a thread of the team has consumed the last request's completion. */
long team_await(struct seat *seat);

void watch_open(struct watch *watch, int fd, enum way way);
void watch_close(struct watch *watch);
/*
 * Sleep until the descriptor is ready. With BY_READ, do not sleep: the caller sleeps in
 * watch_read().
 */
void watch_sleep(const struct watch *watch);
/*
 * Read from the descriptor. Return: false if the descriptor does not block and is not
 * ready.
 */
bool watch_read(const struct watch *watch, void *buffer, size_t bytes);

#endif /* WAKES_DOOR_H */
