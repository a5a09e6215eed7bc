/* SPDX-License-Identifier: MIT */
/* The slots of requests, and checks of their results. */
#include "rings.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * The errors with which each kind of request may complete. Besides, any request may be
 * cancelled (ECANCELED), or the cancel may interrupt its system call (EINTR).
 */
static const struct rule {
	const char *name;
	bool is_multi;
	int errors[3];
} rules[NR_KINDS] = {
	[KIND_NOP] = { "NOP" },
	[KIND_READ] = { "READ" },
	[KIND_WRITE] = { "WRITE" },
	[KIND_SEND] = { "SEND" },
	[KIND_RECEIVE] = { "RECV", .errors = { ENOBUFS } },
	[KIND_RECEIVE_MULTI] = { "multishot RECV", true, { ENOBUFS } },
	[KIND_STALL] = { "READ of an empty pipe" },
	[KIND_POLL] = { "POLL_ADD" },
	[KIND_POLL_MULTI] = { "multishot POLL_ADD", true },
	[KIND_ACCEPT] = { "ACCEPT" },
	[KIND_ACCEPT_MULTI] = { "multishot ACCEPT", true },
	[KIND_CONNECT] = { "CONNECT", .errors = { EAGAIN } },
	[KIND_OPEN] = { "OPENAT" },
	[KIND_CLOSE] = { "CLOSE" },
	[KIND_TIMEOUT] = { "TIMEOUT", .errors = { ETIME } },
	[KIND_LINK_TIMEOUT] = { "LINK_TIMEOUT",
				.errors = { ETIME, ENOENT, EALREADY } },
	[KIND_CANCEL] = { "ASYNC_CANCEL", .errors = { ENOENT, EALREADY } },
	[KIND_POST] = { "MSG_RING" },
	[KIND_MESSAGE] = { "message of a MSG_RING" },
	[KIND_UPDATE] = { "FILES_UPDATE" },
	[KIND_SYNC] = { "FSYNC" },
	[KIND_MISTAKE] = { "unknown opcode", .errors = { EINVAL } },
};

const char *name_of(enum kind kind)
{
	return rules[kind].name;
}

/*
 * Slots
 */

static uint32_t state_of(const struct slot *slot)
{
	return __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
}

static void set_state(struct slot *slot, enum slot_state state)
{
	__atomic_store_n(&slot->state, state, __ATOMIC_RELEASE);
}

void open_slots(struct ring *ring)
{
	lock(&ring->slots_lock);
	for (unsigned i = 0; i < NR_SLOTS; i++) {
		require(state_of(&ring->slots[i]) == SLOT_FREE,
			"a slot of the world before is in use");
		ring->slots[i].next_free = (uint16_t)(i + 1);
	}
	ring->first_free = 0;
	unlock(&ring->slots_lock);
}

struct slot *get_slot(struct ring *ring, enum kind kind)
{
	struct slot *slot = NULL;
	uint64_t index;

	lock(&ring->slots_lock);
	index = ring->first_free;
	if (index != NR_SLOTS) {
		slot = &ring->slots[index];
		ring->first_free = slot->next_free;
		slot->nr_holds = 1;
		slot->holds = NULL;
		slot->generation = (slot->generation + 1) & 0xffffff;
		slot->kind = (uint8_t)kind;
		slot->fd = -1;
		slot->may_be_bad = false;
		slot->may_be_left = false;
		slot->is_exact = false;
		slot->file = NR_FILES;
		slot->block = ring->index * NR_SLOTS + (uint32_t)index;
		__atomic_store_n(&slot->user_data,
				 (uint64_t)world.number << 48 |
					 (uint64_t)ring->index << 40 |
					 (uint64_t)slot->generation << 16 |
					 index,
				 __ATOMIC_RELAXED);
		set_state(slot, SLOT_PENDING);
		__atomic_add_fetch(&ring->nr_pending, 1, __ATOMIC_RELAXED);
	}
	unlock(&ring->slots_lock);
	return slot;
}

void hold_slot(struct ring *ring, struct slot *holder, struct slot *writer)
{
	lock(&ring->slots_lock);
	holder->nr_holds++;
	writer->holds = holder;
	unlock(&ring->slots_lock);
}

static void let_go(struct ring *ring, struct slot *slot)
{
	if (--slot->nr_holds > 0)
		return;
	slot->next_free = ring->first_free;
	ring->first_free = (uint16_t)(slot - ring->slots);
	set_state(slot, SLOT_FREE);
}

/*
 * Mark that the last completion of the slot's request has arrived.
 * Return: false if it had already arrived.
 */
static bool end_slot(struct ring *ring, struct slot *slot, uint64_t user_data)
{
	bool is_first;

	lock(&ring->slots_lock);
	is_first =
		state_of(slot) == SLOT_PENDING && slot->user_data == user_data;
	if (is_first) {
		set_state(slot, SLOT_DONE);
		__atomic_sub_fetch(&ring->nr_pending, 1, __ATOMIC_RELEASE);
	}
	unlock(&ring->slots_lock);
	return is_first;
}

static void free_slot(struct ring *ring, struct slot *slot)
{
	lock(&ring->slots_lock);
	if (slot->holds)
		let_go(ring, slot->holds);
	let_go(ring, slot);
	unlock(&ring->slots_lock);
}

static struct slot *slot_of(struct ring *ring, const struct io_uring_cqe *cqe)
{
	const uint64_t index = cqe->user_data & 0xffff;
	struct slot *slot = &ring->slots[index];

	if (cqe->user_data >> 48 != world.number ||
	    (cqe->user_data >> 40 & 0xff) != ring->index || index >= NR_SLOTS)
		failed("ring %u has a completion of nobody's: user_data %#llx, "
		       "result %d",
		       ring->index, (unsigned long long)cqe->user_data,
		       cqe->res);
	if (state_of(slot) != SLOT_PENDING || slot->user_data != cqe->user_data)
		failed("ring %u has a completion too many: user_data %#llx, "
		       "result %d; its slot was last used by a %s",
		       ring->index, (unsigned long long)cqe->user_data,
		       cqe->res, name_of(slot->kind));
	return slot;
}

uint32_t nr_pending_of_all(void)
{
	uint32_t nr = 0;

	for (unsigned i = 0; i < NR_RINGS; i++)
		nr += __atomic_load_n(&rings[i].nr_pending, __ATOMIC_ACQUIRE);
	return nr;
}

void tell_pending(void)
{
	for (unsigned i = 0; i < NR_RINGS; i++) {
		const struct ring *ring = &rings[i];

		if (!ring->is_open)
			continue;
		dprintf(2, "ring %u, flags %#x: %u pending\n", i,
			ring->uring.params.flags, ring->nr_pending);
		for (unsigned k = 0; k < NR_SLOTS; k++)
			if (state_of(&ring->slots[k]) == SLOT_PENDING)
				dprintf(2, "  slot %u: %s\n", k,
					name_of(ring->slots[k].kind));
	}
}

/* Checks of what requests have read */

static void check_words(const struct slot *slot)
{
	const uint32_t nr = slot->len / 8;

	for (uint32_t i = 0; i < nr; i++) {
		const uint64_t word = slot->words[i];

		if (!(files_of(id_of(word)) & slot->files))
			failed("a READ has bytes of another file: %#llx, where "
			       "files %#x were meant",
			       (unsigned long long)word, slot->files);
		if ((uint32_t)word != slot->first + i)
			failed("a READ has bytes of another offset: %#llx, "
			       "where word %#x was meant",
			       (unsigned long long)word, slot->first + i);
		if (slot->is_exact && version_of(word) != slot->version)
			failed("a READ has another version of its block: "
			       "%#llx, where %#x was written",
			       (unsigned long long)word, slot->version);
	}
}

/*
 * Check that the request has not changed its memory from word `from` on, where its data
 * must end.
 */
static void check_poison(const struct slot *slot, uint32_t from)
{
	for (uint32_t i = from; i < WORDS; i++)
		if (slot->words[i] != POISON)
			failed("a %s has changed word %u of its memory, after "
			       "%u that it was to have",
			       name_of(slot->kind), i, from);
}

static void count_received(const struct slot *slot, const uint64_t *words,
			   int32_t bytes)
{
	if (bytes % 8)
		failed("a receive has %d bytes of words", bytes);
	for (int32_t i = 0; i < bytes / 8; i++) {
		const unsigned stream = id_of(words[i]) - 0x80;
		struct stream *from = &world.streams[stream];

		if (stream >= NR_STREAMS ||
		    (slot->stream < 0 ? stream > 1
				      : stream != (unsigned)slot->stream))
			failed("a receive has bytes of another stream: %#llx, "
			       "where %d was meant",
			       (unsigned long long)words[i], slot->stream);
		__atomic_add_fetch(&from->nr_read, 1, __ATOMIC_RELAXED);
		__atomic_add_fetch(&from->sum_read, words[i], __ATOMIC_RELAXED);
	}
}

static void count_sent(const struct slot *slot, int32_t bytes)
{
	struct stream *to = &world.streams[slot->stream];
	uint64_t sum = 0;

	if (bytes % 8 || (uint32_t)bytes > slot->len)
		failed("a send of %u bytes has sent %d", slot->len, bytes);
	for (int32_t i = 0; i < bytes / 8; i++)
		sum += slot->words[i];
	__atomic_add_fetch(&to->nr_written, (uint64_t)bytes / 8,
			   __ATOMIC_RELAXED);
	__atomic_add_fetch(&to->sum_written, sum, __ATOMIC_RELAXED);
}

/*
 * Provided buffers
 */

static void give(struct ring *ring, unsigned id)
{
	struct io_uring_buf_ring *array = ring->array;
	struct io_uring_buf *buf =
		&array->bufs[ring->array_tail & (NR_BUFFERS - 1)];

	for (unsigned i = 0; i < WORDS; i++)
		ring->buffers[id][i] = POISON;
	ring->is_given[id] = true;
	/*
	 * Set the fields one by one, and not the reserved field: in the first entry,
	 * this field is the array's tail.
	 */
	buf->addr = (uintptr_t)ring->buffers[id];
	buf->len = BLOCK;
	buf->bid = (uint16_t)id;
	__atomic_store_n(&array->tail, ++ring->array_tail, __ATOMIC_RELEASE);
}

void give_buffers(struct ring *ring)
{
	ring->array_tail = 0;
	for (unsigned i = 0; i < NR_BUFFERS; i++)
		give(ring, i);
}

/*
 * Return: the content of the buffer that the completion selected, which now belongs to
 * the client.
 */
static const uint64_t *selected(struct ring *ring,
				const struct io_uring_cqe *cqe)
{
	const unsigned id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;

	if (id >= NR_BUFFERS || !ring->is_given[id])
		failed("ring %u has selected buffer %u, which it was not given",
		       ring->index, id);
	ring->is_given[id] = false;
	return ring->buffers[id];
}

static void take_received(struct ring *ring, const struct slot *slot,
			  const struct io_uring_cqe *cqe)
{
	const uint64_t *words = slot->words;
	const bool is_selected = cqe->flags & IORING_CQE_F_BUFFER;

	if (cqe->res == 0)
		failed("a receive has the end of a stream that goes on");
	if (is_selected)
		words = selected(ring, cqe);
	else if (slot->len == 0 && cqe->res > 0)
		failed("a receive has %d bytes and no buffer", cqe->res);
	if (cqe->res > 0)
		count_received(slot, words, cqe->res);
	if (!is_selected && slot->len)
		check_poison(slot, cqe->res > 0 ? (uint32_t)cqe->res / 8 : 0);
	if (is_selected)
		give(ring, cqe->flags >> IORING_CQE_BUFFER_SHIFT);
}

/*
 * Completions
 */

/*
 * If slot->used is a descriptor, write to `ret` which file the descriptor refers to
 * now.
 */
static void describe_used(const struct slot *slot, char *ret, size_t bytes)
{
	char path[40];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", slot->used);
	len = readlink(path, ret, bytes - 1);
	snprintf(ret + (len < 0 ? 0 : len), len < 0 ? bytes : 1, "%s",
		 len < 0 ? strerror(errno) : "");
}

static void check_error(const struct slot *slot, int32_t res)
{
	const int *errors = rules[slot->kind].errors;
	char path[128];

	if (slot->kind != KIND_MESSAGE &&
	    (res == -ECANCELED || res == -EINTR ||
	     (res == -EBADF && slot->may_be_bad) ||
	     /*
	      * If the submitting thread ends, the kernel returns EFAULT for its
	      * requests that have not started.
	      */
	     (res == -EFAULT && slot->may_be_left)))
		return;
	for (unsigned i = 0; i < NR_ELEMENTS(rules[0].errors); i++)
		if (errors[i] && res == -errors[i])
			return;
	describe_used(slot, path, sizeof(path));
	failed("ring %llu: a %s has the result %d (%s), by %d, now %s",
	       (unsigned long long)(slot->user_data >> 40 & 0xff),
	       name_of(slot->kind), res, strerror(-res), slot->used, path);
}

/*
 * Record what a write has written. A cancelled write has written nothing. If the write
 * failed with another error or was short, the content of the block is unknown. In a file
 * that takes turns with another file at a descriptor, it is always unknown.
 */
static void note_written(const struct slot *slot, int32_t res)
{
	if (res == (int32_t)slot->len && slot->file < NR_FILES)
		record->expected[slot->file][slot->block] = slot->version;
	else if (res != -ECANCELED)
		for (unsigned i = 0; i < NR_FILES; i++)
			if (slot->files & 1u << i)
				record->expected[i][slot->block] = UNKNOWN;
}

/*
 * The request has opened a file. Keep the descriptor for a later request that closes
 * it.
 */
static void take_opened(const struct slot *slot, int fd)
{
	const struct stat_id *id = &world.identities[slot->file];
	struct stat st;

	require(fstat(fd, &st) == 0, "fstat() of a file that was opened");
	if (st.st_dev != id->dev || st.st_ino != id->ino)
		failed("an OPENAT of file %u has opened another", slot->file);
	lock(&world.closing_lock);
	if (world.nr_closing < NR_CLOSING)
		world.closing[world.nr_closing++] = fd;
	else
		close(fd);
	unlock(&world.closing_lock);
}

/*
 * The MSG_RING request failed, so its message must not arrive in the other ring: free
 * the message's slot.
 */
static void withdraw(const struct slot *slot)
{
	struct ring *ring = slot->target;
	struct slot *message = &ring->slots[slot->message & 0xffff];

	if (!end_slot(ring, message, slot->message))
		failed("a message has come though its request has failed");
	free_slot(ring, message);
}

static void expect(const struct slot *slot, int32_t res, int32_t expected)
{
	if (res != expected)
		failed("a %s has the result %d, where %d was meant",
		       name_of(slot->kind), res, expected);
}

static void check_events(int32_t res)
{
	int32_t events =
		POLLIN | POLLOUT | POLLERR | POLLHUP | POLLRDNORM | POLLWRNORM;

	if (!res || res & ~events)
		failed("a poll has the events %#x", (unsigned)res);
}

static void check_success(const struct slot *slot, int32_t res)
{
	switch (slot->kind) {
	case KIND_READ:
		expect(slot, res, (int32_t)slot->len);
		check_words(slot);
		break;
	case KIND_WRITE:
	case KIND_MESSAGE: expect(slot, res, (int32_t)slot->len); break;
	case KIND_SEND: count_sent(slot, res); break;
	case KIND_POLL:
	case KIND_POLL_MULTI: check_events(res); break;
	case KIND_ACCEPT:
	case KIND_ACCEPT_MULTI:
		require(close(res) == 0, "close() of an accepted socket");
		break;
	case KIND_OPEN: take_opened(slot, res); break;
	case KIND_UPDATE: expect(slot, res, 1); break;
	case KIND_CANCEL:
	case KIND_RECEIVE:
	case KIND_RECEIVE_MULTI: break;
	default: expect(slot, res, 0);
	}
}

/*
 * A request has completed, or was not accepted (res < 0). Lower the counters that
 * include this request. Close a descriptor that only this request needed, and free the
 * slot of a message that will not arrive.
 */
static void clean_up(const struct slot *slot, int32_t res)
{
	switch (slot->kind) {
	case KIND_RECEIVE:
		if (slot->stream >= 0)
			__atomic_sub_fetch(
				&world.streams[slot->stream].nr_readers, 1,
				__ATOMIC_RELAXED);
		break;
	case KIND_RECEIVE_MULTI:
	case KIND_POLL_MULTI:
	case KIND_ACCEPT_MULTI:
		__atomic_sub_fetch(&world.nr_multi, 1, __ATOMIC_RELAXED);
		break;
	case KIND_CONNECT:
		require(close(slot->fd) == 0, "close() of a socket");
		break;
	case KIND_CLOSE:
		if (res < 0)
			require(close(slot->fd) == 0,
				"close() of what a request has not closed");
		break;
	case KIND_POST:
		if (res < 0)
			withdraw(slot);
		break;
	default: break;
	}
}

void take_back(struct ring *ring, struct slot *slot)
{
	require(end_slot(ring, slot, slot->user_data),
		"a request that was not accepted has completed");
	clean_up(slot, -ECANCELED);
	free_slot(ring, slot);
}

static void complete(struct ring *ring, const struct io_uring_cqe *cqe)
{
	struct slot *slot = slot_of(ring, cqe);
	const bool goes_on = cqe->flags & IORING_CQE_F_MORE;

	if (goes_on && !rules[slot->kind].is_multi)
		failed("a %s, which has one completion, has more to come",
		       name_of(slot->kind));
	if (goes_on && cqe->res < 0)
		failed("a %s goes on after the result %d", name_of(slot->kind),
		       cqe->res);
	if (cqe->res < 0)
		check_error(slot, cqe->res);
	else
		check_success(slot, cqe->res);
	if (slot->kind == KIND_RECEIVE || slot->kind == KIND_RECEIVE_MULTI)
		take_received(ring, slot, cqe);
	if (slot->kind == KIND_READ || slot->kind == KIND_STALL)
		check_poison(slot, cqe->res < 0 ? 0 : slot->len / 8);
	if (slot->kind == KIND_WRITE)
		note_written(slot, cqe->res);
	if (goes_on)
		return;
	__atomic_add_fetch(&record->nr_of[slot->kind], 1, __ATOMIC_RELAXED);
	if (!end_slot(ring, slot, cqe->user_data))
		failed("a %s has ended twice", name_of(slot->kind));
	clean_up(slot, cqe->res);
	free_slot(ring, slot);
}

unsigned reap(struct ring *ring)
{
	struct io_uring_cqe cqe;
	unsigned nr = 0, nr_last = 0;

	if (pthread_mutex_trylock(&ring->cq_lock))
		return 0;
	while (nr < 4 * NR_SLOTS && uring_take(&ring->uring, &cqe)) {
		complete(ring, &cqe);
		nr_last += !(cqe.flags & IORING_CQE_F_MORE);
		nr++;
	}
	unlock(&ring->cq_lock);
	__atomic_add_fetch(&record->nr_completed, nr_last, __ATOMIC_RELAXED);
	return nr;
}
