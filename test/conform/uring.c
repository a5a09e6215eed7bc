/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "uring.h"
#include "older.h"

enum { NOTED_MAX = 512 };

/* The user_data of the first request. The next requests have the next numbers. */
static const uint64_t SERIALS = 0x5e0a1000;
static uint64_t next_serial = SERIALS;

/* Loads with acquire: the kernel or the library stores the word with release. */
static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

struct uring new_uring_of(uint32_t nr, const struct io_uring_params *params)
{
	struct uring ring;
	long ret = uring_open(&ring, nr, params);

	if (ret < 0) {
		note_result("setup", ret);
		broken("new_uring");
	}
	return ring;
}

struct uring new_uring(uint32_t nr, uint32_t flags)
{
	struct io_uring_params params = { .flags = flags };

	return new_uring_of(nr, &params);
}

struct io_uring_sqe *sqe_of(struct uring *ring, int opcode, int fd)
{
	return uring_put(ring, opcode, fd, next_serial++);
}

struct io_uring_sqe *sqe_rw(struct uring *ring, int opcode, int fd,
			    const void *addr, size_t len, uint64_t off)
{
	return uring_put_rw(ring, opcode, fd, (uintptr_t)addr, len, off,
			    next_serial++);
}

struct io_uring_sqe *sqe_poll(struct uring *ring, int fd, uint8_t flags)
{
	struct io_uring_sqe *sqe = sqe_of(ring, IORING_OP_POLL_ADD, fd);

	sqe->poll32_events = POLLIN;
	sqe->flags = flags;
	return sqe;
}

struct io_uring_sqe *sqe_copy(struct uring *ring,
			      const struct io_uring_sqe *sqe)
{
	struct io_uring_sqe *copy = sqe_of(ring, 0, 0);
	uint64_t serial = copy->user_data;

	*copy = *sqe;
	copy->user_data = serial;
	return copy;
}

uint32_t uring_settle(const struct uring *ring)
{
	uring_enter(ring->fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, 0);
	return uring_ready(ring);
}

bool uring_wait(struct uring *ring, uint32_t nr)
{
	struct __kernel_timespec span = { .tv_sec = PATIENCE_MS / 1000 };
	struct io_uring_getevents_arg arg = { .ts = (uintptr_t)&span };

	if (uring_ready(ring) < nr)
		uring_enter(ring->fd, 0, nr,
			    IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg,
			    sizeof(arg));
	return uring_ready(ring) >= nr;
}

bool uring_find(struct uring *ring, uint64_t user_data,
		struct io_uring_cqe *cqe)
{
	while (uring_wait(ring, 1) && uring_take(ring, cqe))
		if (cqe->user_data == user_data)
			return true;
	return false;
}

void note_cqe(const char *key, const struct io_uring_cqe *cqe)
{
	const char *name = NULL;
	char text[96];
	uint32_t flags;
	int len;

	if (cqe->res < 0 && cqe->res > -4096)
		name = strerrorname_np(-cqe->res);
	if (name)
		len = snprintf(text, sizeof(text), "%s", name);
	else
		len = snprintf(text, sizeof(text), "%d", cqe->res);
	/* Leave out IORING_CQE_F_SOCK_NONEMPTY, which has test cases of its own. */
	flags = cqe->flags & ~(uint32_t)IORING_CQE_F_SOCK_NONEMPTY;
	if (flags)
		snprintf(text + len, sizeof(text) - (size_t)len, ",flags:%#x",
			 flags);
	note_text(key, text);
}

/*
 * Return: the index of the completion's request among all requests of the test case, on
 * any ring.
 */
static long place_of(const struct io_uring_cqe *cqe)
{
	if (cqe->user_data < SERIALS || cqe->user_data >= next_serial)
		return -1;
	return (long)(cqe->user_data - SERIALS);
}

/*
 * Return: the index of the first request that was prepared after the previous call of
 * this function.
 */
static long first_of(void)
{
	static uint64_t noted = SERIALS;
	uint64_t first = noted;

	noted = next_serial;
	return (long)(first - SERIALS);
}

static uint32_t take_all(struct uring *ring, uint32_t nr,
			 struct io_uring_cqe cqes[NOTED_MAX])
{
	uint32_t taken = 0;

	while (taken < nr && taken < NOTED_MAX && uring_wait(ring, 1) &&
	       uring_take(ring, &cqes[taken]))
		taken++;
	return taken;
}

static void note_at(const char *key, long place, const struct io_uring_cqe *cqe)
{
	char name[96];

	if (place < 0)
		snprintf(name, sizeof(name), "%s.earlier%ld", key, -place);
	else
		snprintf(name, sizeof(name), "%s.%ld", key, place);
	note_cqe(name, cqe);
}

void note_cqes(const char *key, struct uring *ring, uint32_t nr)
{
	static struct io_uring_cqe cqes[NOTED_MAX], cqe;
	uint32_t taken = take_all(ring, nr, cqes), i, k;
	long first = first_of();

	/* A stable sort: completions of one request keep their order. */
	for (i = 1; i < taken; i++) {
		cqe = cqes[i];
		for (k = i; k && place_of(&cqes[k - 1]) > place_of(&cqe); k--)
			cqes[k] = cqes[k - 1];
		cqes[k] = cqe;
	}
	for (i = 0; i < taken; i++)
		note_at(key, place_of(&cqes[i]) - first, &cqes[i]);
	if (taken < nr || uring_ready(ring)) {
		note("missing", nr - taken);
		note("besides", uring_ready(ring));
	}
}

void note_in_order(const char *key, struct uring *ring, uint32_t nr)
{
	static struct io_uring_cqe cqes[NOTED_MAX];
	uint32_t taken = take_all(ring, nr, cqes), i;
	long first = first_of();

	for (i = 0; i < taken; i++)
		note_at(key, place_of(&cqes[i]) - first, &cqes[i]);
	if (taken < nr || uring_ready(ring)) {
		note("missing", nr - taken);
		note("besides", uring_ready(ring));
	}
}

long try_sqe(const char *key, struct uring *ring)
{
	uint32_t last = (ring->prepared - 1) & ring->sq_mask;
	uint64_t user_data = ring->sqes[last].user_data;
	long ret = uring_submit(ring);
	struct io_uring_cqe cqe;

	first_of();
	if (ret != 1) {
		note_result(key, ret);
		note_text(key, "not-submitted");
		return ret < 0 ? ret : -EIO;
	}
	if (!uring_find(ring, user_data, &cqe)) {
		note_text(key, "no-completion");
		return -ETIME;
	}
	note_cqe(key, &cqe);
	return cqe.res;
}

void uring_provide(struct uring *ring, int group, void *memory, size_t bytes,
		   int first, int nr)
{
	struct io_uring_sqe *sqe = sqe_rw(ring, IORING_OP_PROVIDE_BUFFERS, nr,
					  memory, bytes, (uint64_t)first);
	struct io_uring_cqe cqe;

	sqe->buf_group = (uint16_t)group;
	REQUIRE(uring_submit(ring) == 1);
	REQUIRE(uring_wait(ring, 1) && uring_take(ring, &cqe));
	REQUIRE(cqe.res >= 0);
}

void note_ready(const char *key, const struct uring *ring)
{
	note(key, uring_ready(ring));
}

void note_rings(const char *key, const struct uring *ring)
{
	char text[128];

	snprintf(text, sizeof(text),
		 "sq:%u-%u,flags:%#x,dropped:%u,cq:%u-%u,flags:%#x,"
		 "overflow:%u",
		 load(ring->sq_head), *ring->sq_tail, load(ring->sq_flags),
		 load(ring->sq_dropped), *ring->cq_head, load(ring->cq_tail),
		 load(ring->cq_flags), load(ring->cq_overflow));
	note_text(key, text);
}

struct __kernel_timespec span_of(long long ns)
{
	return (struct __kernel_timespec){ .tv_sec = ns / 1000000000,
					   .tv_nsec = ns % 1000000000 };
}
