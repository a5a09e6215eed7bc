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

/* A descriptor that a reaper waits for. */
struct watch {
	enum way way;
	int fd;
	int epoll, outer; /* -1, or an epoll, and an epoll of that epoll */
};

/* A lane as its reaper has it. */
struct seat {
	struct lane *lane;
	const struct kind *kind;
	unsigned index;
	struct random random;
	struct watch watch;
	uint64_t number; /* of the wake that the reaper sleeps for */
	int event;       /* owns: an eventfd or signalfd, or -1 */
	int file;        /* of DIRECT; owns, or -1 */
	int bystander; /* owns: an eventfd that is polled, and never ready; or -1 */
	unsigned block;        /* of the file, which DIRECT reads */
	unsigned char *buffer; /* BLOCK bytes, aligned */

	/* the door's */
	struct uring ring;
	struct __kernel_timespec time;
	aio_context_t ctx;
	struct iocb iocb;
	struct aiocb aiocb;
	sem_t called; /* by SIGEV_THREAD, or by a team */

	/* threads that sleep instead of the reaper, and report to it what they took */
	pthread_t team[NR_TEAM];
	pthread_mutex_t mutex; /* of the completions */
	uint64_t taken; /* what a thread of the team took, and its result */
	long result;
};

/* An interface by which requests are made. */
struct door {
	const struct sleep *sleeps;
	unsigned nr_sleeps;
	/* Return: whether a lane can be like this here. */
	bool (*has)(const struct sleep *sleep, const struct ask *ask);
	void (*open)(struct seat *seat);
	/* Submit the request of wake seat->number. */
	void (*arm)(struct seat *seat);
	/* Sleep until that request is complete, and check the completion. */
	void (*await)(struct seat *seat);
	/* Another thread: cancel that request. */
	void (*cancel)(struct seat *seat);
	void (*close)(struct seat *seat);
};

extern const struct door uring_door, aio_door, posix_door;

/* Another thread, by its own ring: send the message that is wake `number`. */
void uring_message(struct uring *from, const struct seat *seat,
		   uint64_t number);
void uring_for_messages(struct uring *ring);

/* The file that the request of a READ, POLL, CANCEL or DIRECT is about. */
int seat_fd(const struct seat *seat);
/* Fail unless the request has the result, and the data, that its wake gave it. */
void seat_check(struct seat *seat, long result);

/* Start the team; end it after each of its threads had something to take. */
void team_start(struct seat *seat, void *(*thread)(void *));
void team_join(struct seat *seat);
/* The calling thread, of the team, has taken the completion. */
void team_report(struct seat *seat, uint64_t number, long result);
/* Sleep until a thread of the team has taken the completion of the last request. */
long team_await(struct seat *seat);

void watch_open(struct watch *watch, int fd, enum way way);
void watch_close(struct watch *watch);
/* Sleep until the descriptor is ready. BY_READ: the caller sleeps, by watch_read(). */
void watch_sleep(const struct watch *watch);
/* Read from the descriptor. Return: false if it was not ready, and does not block. */
bool watch_read(const struct watch *watch, void *buffer, size_t bytes);

#endif /* WAKES_DOOR_H */
