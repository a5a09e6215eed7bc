/* SPDX-License-Identifier: MIT */
/*
 * What the files of the reaping process (wakes.h) share: seats (the reapers' data), the
 * interfaces, and ways to sleep
 */
#ifndef WAKES_DOOR_H
#define WAKES_DOOR_H

#include <aio.h>
#include <pthread.h>
#include <linux/aio_abi.h>

#include "uring-client.h"
#include "wakes.h"

enum { BLOCK = 4096, NR_BLOCKS = 16, NR_TEAM = 3 };

/* How a reaper waits for a descriptor */
struct watch {
	enum way way;
	int fd;
	/* `epoll` watches fd, and `outer` watches `epoll`; -1: not in use */
	int epoll, outer;
};

/*
 * The part of a lane (wakes.h) that only the reaping process uses: data of one reaper
 */
struct seat {
	struct lane *lane;
	const struct kind *kind;
	unsigned index;
	struct random random;
	struct watch watch;
	uint64_t number; /* number of the wake for which the reaper sleeps */
	int event;       /* the seat's own eventfd or signalfd; or -1 */
	int file;        /* the seat's own file for DIRECT requests; or -1 */
	/* the seat's own eventfd, which is polled but never ready; or -1 */
	int bystander;
	unsigned block; /* the block of `file` that DIRECT requests read */
	unsigned char *buffer; /* BLOCK bytes, aligned */

	/* state of the interface (struct door) that the reaper uses */
	struct uring ring;
	struct __kernel_timespec time;
	aio_context_t ctx;
	struct iocb iocb;
	struct aiocb aiocb;
	/* posted by the function of SIGEV_THREAD, or by a thread of a team */
	sem_t called;

	/*
	 * threads that sleep in place of the reaper, and report completions to it
	 */
	pthread_t team[NR_TEAM];
	pthread_mutex_t mutex; /* held to consume a completion */
	/* number and result of the completion that a thread of the team consumed */
	uint64_t taken;
	long result;
};

/*
 * An interface through which reapers make requests: io_uring, kernel AIO or POSIX AIO
 */
struct door {
	const struct sleep *sleeps;
	unsigned nr_sleeps;
	/*
	 * Return: whether this machine and this interface support a reaper that sleeps
	 * in this way and makes this request.
	 */
	bool (*has)(const struct sleep *sleep, const struct ask *ask);
	void (*open)(struct seat *seat);
	/*
	 * Submit the request that the wake with the number seat->number will complete.
	 */
	void (*arm)(struct seat *seat);
	/*
	 * Sleep until the request of the last arm() is complete, then check its
	 * completion.
	 */
	void (*await)(struct seat *seat);
	/* Cancel the request of the last arm(). Another thread calls this. */
	void (*cancel)(struct seat *seat);
	void (*close)(struct seat *seat);
};

extern const struct door uring_door, aio_door, posix_door;

/*
 * Wake the reaper by a message (MSG_RING) that has this number, from the ring of
 * another thread.
 */
void uring_message(struct uring *from, const struct seat *seat,
		   uint64_t number);
void uring_for_messages(struct uring *ring);

/* Return: the descriptor for the seat's READ, POLL, CANCEL or DIRECT request. */
int seat_fd(const struct seat *seat);
/*
 * Fail unless the result and the data are those of the wake with number seat->number.
 */
void seat_check(struct seat *seat, long result);

/*
 * Start the team, threads that sleep in place of the reaper. To end them, the caller
 * gives each thread a completion, then calls team_join().
 */
void team_start(struct seat *seat, void *(*thread)(void *));
void team_join(struct seat *seat);
/* Called by a thread of the team that has consumed a completion. */
void team_report(struct seat *seat, uint64_t number, long result);
/*
 * Sleep until a thread of the team has consumed the completion of the last request.
 * Return: the request's result.
 */
long team_await(struct seat *seat);

void watch_open(struct watch *watch, int fd, enum way way);
void watch_close(struct watch *watch);
/*
 * Sleep until the descriptor is ready. With BY_READ, return at once: the caller sleeps
 * in watch_read().
 */
void watch_sleep(const struct watch *watch);
/*
 * Read from the descriptor.
 * Return: false if it is non-blocking and not ready.
 */
bool watch_read(const struct watch *watch, void *buffer, size_t bytes);

#endif /* WAKES_DOOR_H */
