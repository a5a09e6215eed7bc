/* SPDX-License-Identifier: MIT */
/*
 * Completion sink: the functions by which a front-end (kernel AIO, io_uring or POSIX AIO)
 * receives the completions of a queue
 *
 * Every completion goes through the sink, also if the request completes inside the
 * submitting call. flow/post.c calls post() under the queue's lock, then wakes waiting
 * threads. Kernel AIO's post() (aio/ctx.c), for example, writes events into the ring
 * that the client reads. After the last completion of a request, the core does not
 * access memory of the client that belongs to the request.
 *
 * A request may carry a word: a 64-bit value which the front-end chooses, and which the
 * core returns with each completion of the request. 0 means no word.
 *
 * I1  A request has exactly one last completion. Before the last completion, it may have
 *       any number of completions with the flag MORE. The request's owner (req.h) posts
 *       them in order.
 *   I2  The front-end has room for the last completion of each request that it has
 *       submitted. Before the core posts a completion with MORE, it calls has_room(). If
 *       there is no room, the request ends, and the result is posted as its last
 *       completion. So the core drops no completion, and never waits until the client
 *       consumes completions. As the flag MORE is missing, the client knows that it must
 *       submit the request again.
 */
#ifndef UAIO_REQ_SINK_H
#define UAIO_REQ_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/ring.h"

struct uaio_file;
struct uaio_queue;
struct uaio_sqe;

/* Bits of uaio_completion.flags. */
enum {
	/* more completions of the request follow */
	UAIO_COMPLETION_MORE = 1u << 0,
	/* The request did not start, because an earlier request broke its chain. */
	UAIO_COMPLETION_CUT = 1u << 1,
	/* The earlier request that broke the chain has UAIO_LINK_QUIET. */
	UAIO_COMPLETION_QUIET = 1u << 2,
	/* The request received data, and its socket has more data to receive. */
	UAIO_COMPLETION_LEAVES = 1u << 3,
	/*
	 * The request failed before its execution: its file did not exist, or it was
	 * refused when it was to start. Set only if it is in a chain or has waited for
	 * a drain.
	 */
	UAIO_COMPLETION_UNBEGUN = 1u << 4,
};

struct uaio_completion {
	/* copies of the request's data and key */
	uint64_t data;
	uint64_t key;
	int32_t res;
	uint32_t flags; /* UAIO_COMPLETION_* */
	uint64_t word;
};

/* Several completions that are posted together. */
struct uaio_post {
	const struct uaio_completion *completions;
	unsigned nr;
	/* the requests were completed inside the submitting call */
	bool is_inline;
	/*
	 * workers executed the requests, or the client has set IOSQE_ASYNC: io_uring's
	 * eventfd may be notified only of such completions
	 */
	bool by_worker;
	/*
	 * bitwise OR of the words of all completions; 0: no completion has a word
	 */
	uint64_t words;
};

struct uaio_sink {
	/* enum uaio_door_id: names the front-end in traces */
	uint8_t door;

	/*
	 * Receive completions: make them visible to the client, then notify the client
	 * as the front-end does, for example by an eventfd. The core wakes the threads
	 * that wait in the queue. Called by any thread, with the queue's lock held.
	 */
	void (*post)(struct uaio_queue *queue, const struct uaio_post *post);

	/*
	 * Return: whether the front-end can receive a completion with MORE now. Called just
	 * before post(), under the queue's lock. NULL: no request of the front-end has such
	 * completions.
	 */
	bool (*has_room)(struct uaio_queue *queue);

	/*
	 * Release the objects to which the words of posted completions refer. Called
	 * after post() if post->words is not 0, without locks; the queue may be freed
	 * by then. Not called for completions with MORE.
	 */
	void (*drop_words)(const struct uaio_post *post);

	/*
	 * Do what completions require but the queue's lock forbids, for example cancel
	 * requests. Called after a post that has set queue->wants_act, but not after a
	 * post of inline completions. A pin keeps the queue from being freed. NULL: the
	 * front-end never sets wants_act.
	 */
	void (*act)(struct uaio_queue *queue);

	/*
	 * Called when a timer with a word starts after it has waited in a chain or for
	 * a drain. From now on the front-end counts completions for this timer. Called
	 * without locks; the core calls act() once the timer waits. NULL: the front-end
	 * counts nothing.
	 */
	void (*starts)(struct uaio_queue *queue, const struct uaio_sqe *sqe);

	/*
	 * Return: whether the need of a waiting thread is met. The need is a number
	 * that the front-end defines, for example the number of completions for which
	 * the thread waits. Without the queue's lock the answer is a guess.
	 */
	bool (*is_met)(const struct uaio_queue *queue, uint64_t need);

	/*
	 * Free what the front-end keeps for a need. Called without locks when the
	 * waiting thread has ended. The thread has ended in its wait, or after a signal
	 * handler left the wait by siglongjmp(). NULL: the front-end keeps nothing for
	 * a need.
	 */
	void (*forget)(struct uaio_queue *queue, uint64_t need);

	/*
	 * Return: the address that the client reads to find out that completions exist.
	 * Race detectors such as ThreadSanitizer need this address. NULL: the client
	 * reads another address for each request: its sqe->data.
	 */
	uintptr_t (*tail)(const struct uaio_queue *queue);

	/*
	 * Return: whether the client has completions to consume. Without the queue's
	 * lock the answer is a guess.
	 */
	bool (*has_unreaped)(const struct uaio_queue *queue);

	/*
	 * Return: the result of a request that was cancelled before any part of it was
	 * done. NULL: -ECANCELED.
	 */
	int64_t (*cancelled)(const struct uaio_sqe *sqe);

	/*
	 * Called by any thread, without locks. For requests of chains (chain.h) it is
	 * called when they are submitted and when they start; for requests with two
	 * files (args.h), when they start. The member is NULL if the front-end has no
	 * registered files.
	 * Return: the file that the front-end has registered in the slot `place`, with
	 * a reference; or NULL.
	 */
	struct uaio_file *(*get_fixed)(struct uaio_queue *queue, int place);

	/*
	 * A poll that starts in a chain polls a file of the front-end's own
	 * (UAIO_FILE_F_RING), for example a ring: replace the file. Called by any
	 * thread, without locks. NULL: the front-end has no such files.
	 * Return: the file to poll instead, with a reference; sqe is changed to fit
	 * this file. NULL: poll the front-end's own file.
	 */
	struct uaio_file *(*polled)(struct uaio_sqe *sqe);

	/*
	 * A poll is about to wait again, after its events may have changed: change sqe to
	 * fit the file that the poll has, as polled() does. Called by any thread, without
	 * locks. NULL: the front-end changes no polls.
	 */
	void (*polled_again)(struct uaio_sqe *sqe);
};

#endif /* UAIO_REQ_SINK_H */
