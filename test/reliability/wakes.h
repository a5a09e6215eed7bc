/* SPDX-License-Identifier: MIT */
/*
 * wakes [--condition NAME] [--lane WORDS] [--keep] --seed S --seconds N
 *
 * A lane is a thread (the reaper) and one request at a time. The reaper sleeps without a
 * time limit until the request's completion wakes it. A waker makes the request complete:
 * it writes one byte, cancels the request or sends a message. Timeouts, no-ops and reads of
 * files complete by themselves. The reaper checks the completion and acknowledges the wake.
 *
 * The law: the reaper acknowledges each wake (completion). A lane is reported as lost when
 * it makes no progress for two minutes. The slowest of nine million wakes took 3.4 seconds,
 * with a twentieth of a processor for sixty threads.
 *
 * Each condition disturbs a reaping process, with all reapers, and a waking process. The
 * supervisor starts both, disturbs them, and watches the lanes in shared memory. The kernel
 * serves the requests, or the library when it is loaded. The kernel passes too, which shows
 * that the program tests only what the kernel promises.
 */
#ifndef WAKES_H
#define WAKES_H

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A stage runs one condition for a short time, with some of the kinds of lanes. */
enum { NR_LANES = 28, NR_ALIKE = 7, NR_KINDS_MAX = 256 };

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

/* If false, end the run: a failure other than a lost wake. */
#define REQUIRE(condition)                                             \
	do {                                                           \
		if (!(condition))                                      \
			fail("%s:%d: not so: %s (errno %d)", __FILE__, \
			     __LINE__, #condition, errno);             \
	} while (0)

_Noreturn void fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* splitmix64, seeded from the seed of the run */
struct random {
	uint64_t state;
};

static inline uint32_t random_below(struct random *random, uint32_t n)
{
	uint64_t x;

	random->state += 0x9e3779b97f4a7c15u;
	x = random->state;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ x >> 31) >> 32) % n;
}

/*
 * Kinds of lanes
 */

/* How a reaper sleeps: in a call of its interface, or waiting for a descriptor. */
enum way {
	IN_CALL,
	BY_READ,
	BY_POLL,
	BY_LEVEL, /* epoll_wait(), as the ones below */
	BY_EDGE,
	BY_ONESHOT,
	BY_NESTED, /* an epoll in an epoll */
};

enum request { READ, POLL, TIMEOUT, NOP, MESSAGE, CANCEL, DIRECT };
enum waker { PROCESS, THREAD, NOBODY, NR_WAKERS = NOBODY };

struct ask {
	const char *name;
	enum request request;
	enum waker waker;
	bool is_socket;
};

struct sleep {
	const char *name;
	enum way way;
	/* what the reaper waits on (ring, eventfd, …); defined by each front-end */
	int source;
	/*
	 * A lane that waits for signals must not share a process with a lane for which the
	 * C library creates threads that block no signal: these would receive the signals.
	 */
	enum { OF_NEITHER, OF_SIGNALS, OF_THREADS_WITHOUT_MASK } signals;
};

struct kind {
	const struct door *door;
	const struct sleep *sleep;
	const struct ask *ask;
	char name[128];
};

/*
 * What all processes share
 */

struct lane {
	const struct kind *kind;
	int ends[2];    /* a pipe or socket pair; the waker writes to ends[1] */
	uint64_t fed;   /* atomic: wakes so far */
	uint64_t acked; /* atomic: wakes that were acknowledged */
	int64_t fed_ns; /* when the last wake began */
	int64_t longest_ns; /* until a wake was acknowledged */
	uint32_t is_idle;   /* atomic: the waker may wake the reaper */
	uint32_t is_last;   /* atomic: the reaper ends after this wake */
	uint32_t has_ended; /* longest time from wake to acknowledgement */
};

struct stage {
	const struct condition *condition;
	uint64_t seed;
	unsigned nr_lanes;
	struct lane lanes[NR_LANES];
	sem_t go; /* all processes are ready to start */
	struct idle {
		uint32_t nr; /* atomic: this waker's lanes that are idle */
		/* atomic: how many idle lanes the waker sleeps for */
		uint32_t wanted;
	} idle[NR_WAKERS];
	uint32_t is_over; /* atomic: the next wake of each lane is its last */
};

struct shared {
	pid_t supervisor;
	uint32_t has_failed; /* atomic */
	char failure[400];
	struct stage stage;
};
extern struct shared *shared;

/* Return: whether the library is in this process. */
bool is_uaio(void);

/*
 * The reaping process and the waking process (wakes-lanes.c)
 */

_Noreturn void reaping_process(void);
_Noreturn void waking_process(void);

/*
 * Conditions (wakes-conditions.c)
 */

struct condition {
	const char *name;
	bool has_idle_reapers, has_idle_wakers; /* SCHED_IDLE */
	/*
	 * Set up the condition; both processes wait for `go`. Return: NULL, or why this
	 * machine does not support the condition.
	 */
	const char *(*begin)(pid_t reaping, pid_t waking);
	/* Disturb the processes once, for about a millisecond. */
	void (*disturb)(pid_t reaping, pid_t waking, struct random *random);
	/* Clean up, after both processes have ended. */
	void (*end)(void);
};

extern const struct condition conditions[];
extern const unsigned nr_conditions;

/* Resume a traced thread that waitpid() has reported as stopped. */
void conditions_resume(pid_t thread, int status, struct random *random);

#endif /* WAKES_H */
