/* SPDX-License-Identifier: MIT */
/*
 * wakes [--condition NAME] [--lane WORDS] [--keep] --seed S --seconds N
 *
 * A lane consists of a thread, the reaper, which has one request at a time. The reaper
 * sleeps without a time limit until the completion of its request wakes it. A thread
 * called the waker makes the request complete: it writes one byte, cancels the request
 * or sends a message. Timeouts, NOPs and reads of files complete by themselves. The
 * reaper checks the completion and acknowledges the wake.
 *
 * This must hold: the reaper acknowledges each wake. If a lane makes no progress for
 * two minutes, its wake counts as lost. (A wake that is not lost can be slow: one took
 * 3.4 seconds, when sixty threads had a twentieth of a processor.)
 *
 * A condition is a way to disturb two processes: the reaping process, which has all
 * reapers, and the waking process. The supervisor starts both, disturbs them, and
 * watches the lanes in shared memory. The kernel executes the requests, or the library
 * if it is loaded. The program must also pass on the kernel alone. Otherwise it would
 * require more of the library than the kernel does.
 */
#ifndef WAKES_H
#define WAKES_H

#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A stage is a short time with one condition and NR_LANES lanes. */
enum { NR_LANES = 28, NR_ALIKE = 7, NR_KINDS_MAX = 256 };

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

/*
 * If the condition is false, end the run: this is a failure other than a lost wake.
 */
#define REQUIRE(condition)                                             \
	do {                                                           \
		if (!(condition))                                      \
			fail("%s:%d: not so: %s (errno %d)", __FILE__, \
			     __LINE__, #condition, errno);             \
	} while (0)

_Noreturn void fail(const char *format, ...)
	__attribute__((format(printf, 1, 2)));

/* A splitmix64 generator, whose seed comes from the run's seed */
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

/*
 * How a reaper sleeps: in a call of its interface, or by waiting for a descriptor
 */
enum way {
	IN_CALL,
	BY_READ,
	BY_POLL,
	/* BY_LEVEL, BY_EDGE, BY_ONESHOT and BY_NESTED wait in epoll_wait(). */
	BY_LEVEL,
	BY_EDGE,
	BY_ONESHOT,
	BY_NESTED, /* an epoll that watches an epoll */
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
	/*
	 * what the reaper waits for (a ring, an eventfd, …): an enum source, which each
	 * interface declares for itself
	 */
	int source;
	/*
	 * For some lanes the C library creates threads that block no signal. Such a
	 * thread might receive the signal for which another lane waits. So a process
	 * must not have lanes of both sorts.
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
	/* a pipe, or a pair of sockets; the waker writes to ends[1] */
	int ends[2];
	uint64_t fed;   /* atomic: number of the last wake */
	uint64_t acked; /* atomic: number of the last acknowledged wake */
	int64_t fed_ns; /* time at which the last wake began */
	/* longest time from a wake to its acknowledgement */
	int64_t longest_ns;
	uint32_t is_idle;   /* atomic: allows the waker to wake the reaper */
	uint32_t is_last;   /* atomic: after this wake, the reaper ends */
	uint32_t has_ended; /* atomic: the reaper has ended */
};

struct stage {
	const struct condition *condition;
	uint64_t seed;
	unsigned nr_lanes;
	struct lane lanes[NR_LANES];
	sem_t go; /* posted when all processes are ready */
	struct idle {
		uint32_t nr; /* atomic: how many lanes of this waker are idle */
		/* atomic: the waker sleeps until this number of lanes is idle */
		uint32_t wanted;
	} idle[NR_WAKERS];
	/* atomic: the next wake of each lane is the last one */
	uint32_t is_over;
};

struct shared {
	pid_t supervisor;
	uint32_t has_failed; /* atomic */
	char failure[400];
	struct stage stage;
};
extern struct shared *shared;

/* Return: whether the library is loaded into this process. */
bool is_uaio(void);

/* Main functions of the reaping and the waking process (wakes-lanes.c) */

_Noreturn void reaping_process(void);
_Noreturn void waking_process(void);

/*
 * Conditions (wakes-conditions.c)
 */

struct condition {
	const char *name;
	bool has_idle_reapers, has_idle_wakers; /* run with SCHED_IDLE */
	/*
	 * Set up the condition, before `go` starts both processes.
	 * Return: NULL; or why this machine does not support the condition.
	 */
	const char *(*begin)(pid_t reaping, pid_t waking);
	/* Disturb the processes once, which takes about a millisecond. */
	void (*disturb)(pid_t reaping, pid_t waking, struct random *random);
	/* Clean up. Both processes have ended. */
	void (*end)(void);
};

extern const struct condition conditions[];
extern const unsigned nr_conditions;

/* Resume a traced thread after waitpid() reported that it has stopped. */
void conditions_resume(pid_t thread, int status, struct random *random);

#endif /* WAKES_H */
