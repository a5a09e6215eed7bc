/* SPDX-License-Identifier: MIT */
/*
 * Completion sink: the functions by which a front-end (kernel AIO, io_uring or POSIX AIO)
 * receives the completions of a queue
 *
 * Every completion goes through the sink, also if the request completes inside the
 * submitting call. flow/post.c calls post() under the queue's lock, then wakes waiters.
 * Kernel AIO's post() (aio/ctx.c) puts events into the ring from which the client takes
 * them. After the last completion of a request, the core touches no memory of the
 * request's client.
 *
 * A request may carry a word: a 64-bit value which the front-end chooses, and which the core
 * returns with each completion. 0 means no word.
 *
 *   I1  A request has exactly one last completion. Before its last completion, the request may
 *       have any number of completions with the flag MORE, which the request's owner (req.h)
 *       posts in order.
 *   I2  The front-end has room for the last completion of each request that it has submitted.
 *       Before it posts a completion with MORE, the core calls has_room(). If there is no
 *       room, the request ends, and the result is posted as its last completion. So no
 *       completion is dropped, and none has to wait until the client consumes others. As the
 *       flag MORE is missing, the client knows that it must submit the request again.
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
	/* The request did not start, as an earlier one broke its chain. */
	UAIO_COMPLETION_CUT = 1u << 1,
	/* The earlier request, which broke the chain, has UAIO_LINK_QUIET. */
	UAIO_COMPLETION_QUIET = 1u << 2,
	/* The request received data, and its socket has more data. */
	UAIO_COMPLETION_LEAVES = 1u << 3,
	/* A request in a chain or drain was refused at its start, or had no file. */
	UAIO_COMPLETION_UNBEGUN = 1u << 4,
};

struct uaio_completion {
	uint64_t data; /* data and key are copied from the request */
	uint64_t key;
	int32_t res;
	uint32_t flags; /* UAIO_COMPLETION_* */
	uint64_t word;
};

/* Completions that are posted together. */
struct uaio_post {
	const struct uaio_completion *completions;
	unsigned nr;
	bool is_inline; /* the requests completed inside the submitting call */
	/* workers executed the requests, or the client wanted workers to do so */
	bool by_worker;
	/* the words of all completions, ORed: 0 if no completion has a word */
	uint64_t words;
};

struct uaio_sink {
	uint8_t door; /* enum uaio_door_id, for traces */

	/*
	 * Receive completions: make them visible to the client, then notify the client in the
	 * way of the front-end, for example by an eventfd. The core wakes the queue's waiters.
	 * Called by any thread, with the queue's lock held.
	 */
	void (*post)(struct uaio_queue *queue, const struct uaio_post *post);

	/*
	 * Return: whether the front-end can receive a completion with MORE now. Called just
	 * before post(), under the queue's lock. NULL: no request of the front-end has such
	 * completions.
	 */
	bool (*has_room)(struct uaio_queue *queue);

	/*
	 * Release what the words of posted completions refer to. Called after post() if
	 * post->words is not 0, without locks; the queue may be freed by then. Not
	 * called for completions with MORE.
	 */
	void (*drop_words)(const struct uaio_post *post);

	/*
	 * Do what completions require but the queue's lock forbids, for example cancel. Called
	 * after a post that has set queue->wants_act, but not after a post of inline
	 * completions. The queue is pinned. NULL: the front-end never sets wants_act.
	 */
	void (*act)(struct uaio_queue *queue);

	/*
	 * A timer with a word starts, which was held in a chain or by a drain. From now on the
	 * front-end counts completions for this timer. Called without locks; the core calls
	 * act() once the timer waits. NULL: the front-end counts nothing.
	 */
	void (*starts)(struct uaio_queue *queue, const struct uaio_sqe *sqe);

	/*
	 * Return: whether the need of a waiting thread is met. The need is a number that the
	 * front-end defines, for example how many completions must be unreaped. Without the
	 * queue's lock the answer is a guess.
	 */
	bool (*is_met)(const struct uaio_queue *queue, uint64_t need);

	/*
	 * Drop what the front-end keeps for a need. Called without locks, when the thread that
	 * waited with this need has ended: inside the wait, or after a signal handler left the
	 * wait by siglongjmp(). NULL: the front-end keeps nothing for a need.
	 */
	void (*forget)(struct uaio_queue *queue, uint64_t need);

	/*
	 * Return: the address that the client reads to find out that completions exist; for
	 * thread sanitizers. NULL: this address is the data of each request.
	 */
	uintptr_t (*tail)(const struct uaio_queue *queue);

	/* Return: whether the client has completions to consume; without the lock, a guess. */
	bool (*has_unreaped)(const struct uaio_queue *queue);

	/*
	 * Return: the result of a request that was cancelled before any part of it was done.
	 * NULL: -ECANCELED.
	 */
	int64_t (*cancelled)(const struct uaio_sqe *sqe);

	/*
	 * Return: the file that the front-end has registered in slot place, with a reference;
	 * NULL: none. Called by any thread, without locks: for requests of chains (chain.h)
	 * when submitted and when started; for requests with two files (args.h) when started.
	 * NULL: the front-end adds no such request.
	 */
	struct uaio_file *(*get_fixed)(struct uaio_queue *queue, int place);

	/*
	 * Replace the file of a poll that starts in a chain and polls a file of the
	 * front-end's own (UAIO_FILE_F_RING). Called by any thread, without locks. NULL: the
	 * front-end has no such files.
	 * Return: the file to poll instead, with a reference, for which sqe was
	 * changed; NULL: there is none.
	 */
	struct uaio_file *(*polled)(struct uaio_sqe *sqe);
};

#endif /* UAIO_REQ_SINK_H */
