/* SPDX-License-Identifier: MIT */
/*
 * Load: writes that cover part of a block must leave the rest of the block unchanged
 *
 * All threads write to one file. Each thread writes only to its own stripes. A stripe
 * is shorter than a block, so it shares blocks with stripes of other threads. Some
 * writes are misaligned and use a descriptor with O_DIRECT. The other writes use a
 * descriptor without O_DIRECT: io_submit executes them itself, unless the library must
 * queue them. All writes extend the file, which is empty at the start of each round.
 *
 * At the end this must hold: each stripe contains what its owner wrote last, bytes
 * never written are zero, and the file ends after the last written byte.
 */
#undef NDEBUG
#include "torture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "options/config.h"
#include "aio/aio.h"
#include "unit.h"

enum {
	NR_THREADS = 4,
	NR_SLOTS = 8,
	STRIPE = 331,
	NR_STRIPES = 240,
	BYTES = STRIPE * NR_STRIPES,
	WRITES = 60, /* how many writes each thread submits in a round */
};

struct slot {
	struct iocb iocb;
	bool is_pending;
	unsigned stripe, bytes;
	char data[STRIPE + 64];
};

static int fds[2]; /* with O_DIRECT, without */
/* what the file must contain; each stripe set by its owner */
static char expected[BYTES];

static struct writer {
	struct unit_thread thread;
	struct random random;
	uint64_t handle;
	int64_t end; /* where the thread's farthest write of this round ends */
	struct slot slots[NR_SLOTS];
} writers[NR_THREADS];

static void reap(struct writer *writer, long min_nr)
{
	struct uaio_event events[NR_SLOTS];
	long ret = uaio_aio_getevents(writer->handle, min_nr, NR_SLOTS, events,
				      NULL);

	REQUIRE(ret >= min_nr);
	for (long i = 0; i < ret; i++) {
		struct slot *slot = &writer->slots[events[i].data];

		REQUIRE(slot->is_pending);
		REQUIRE(events[i].res == slot->bytes);
		slot->is_pending = false;
	}
}

static unsigned nr_pending(const struct writer *writer)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < NR_SLOTS; i++)
		nr += writer->slots[i].is_pending;
	return nr;
}

/*
 * Two writes in flight have no order, so a second write to the same stripe must wait.
 * Return: whether a write to the stripe is in flight.
 */
static bool is_written(const struct writer *writer, unsigned stripe)
{
	for (unsigned i = 0; i < NR_SLOTS; i++)
		if (writer->slots[i].is_pending &&
		    writer->slots[i].stripe == stripe)
			return true;
	return false;
}

static bool draw(struct writer *writer, struct slot *slot)
{
	unsigned mine = (unsigned)(writer - writers);
	unsigned stripe =
		random_below(&writer->random, NR_STRIPES / NR_THREADS) *
			NR_THREADS +
		mine;
	unsigned at = random_below(&writer->random, STRIPE - 1);
	unsigned bytes = 1 + random_below(&writer->random, STRIPE - at);
	char *data = slot->data + random_below(&writer->random, 64);
	int64_t off = (int64_t)stripe * STRIPE + at;
	int fd = fds[random_below(&writer->random, 3) == 0];

	if (is_written(writer, stripe))
		return false;
	for (unsigned i = 0; i < bytes; i++)
		data[i] = (char)random_below(&writer->random, 256);
	memcpy(expected + off, data, bytes);
	if (off + bytes > writer->end)
		writer->end = off + bytes;
	slot->stripe = stripe;
	slot->bytes = bytes;
	slot->iocb = unit_iocb(IOCB_CMD_PWRITE, fd, data, bytes, off);
	slot->iocb.aio_data = (uint64_t)(slot - writer->slots);
	return true;
}

static long write_parts(void *arg)
{
	struct writer *writer = arg;

	for (unsigned i = 0; i < WRITES; i++) {
		struct slot *slot = writer->slots;
		struct iocb *list;

		while (slot->is_pending)
			slot++;
		if (!draw(writer, slot))
			continue;
		list = &slot->iocb;
		slot->is_pending = true;
		REQUIRE(uaio_aio_submit(writer->handle, 1, &list) == 1);
		reap(writer, nr_pending(writer) == NR_SLOTS ||
				     random_below(&writer->random, 4) == 0);
	}
	while (nr_pending(writer))
		reap(writer, 1);
	return 0;
}

static void check_file(void)
{
	static char content[BYTES + 1];
	int64_t end = 0;

	for (unsigned i = 0; i < NR_THREADS; i++)
		if (writers[i].end > end)
			end = writers[i].end;
	REQUIRE(pread(fds[1], content, sizeof(content), 0) == end);
	REQUIRE(!memcmp(content, expected, (size_t)end));
}

static void run_round(void)
{
	REQUIRE(ftruncate(fds[1], 0) == 0);
	memset(expected, 0, sizeof(expected));
	for (unsigned i = 0; i < NR_THREADS; i++) {
		writers[i].end = 0;
		unit_thread_start(&writers[i].thread, write_parts, &writers[i]);
	}
	for (unsigned i = 0; i < NR_THREADS; i++)
		REQUIRE(unit_thread_join(&writers[i].thread) == 0);
	check_file();
}

int torture_blocks(void)
{
	unsigned long nr_rounds = 0;
	char path[32];

	fds[1] = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	REQUIRE(fds[1] >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[1]);
	fds[0] = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fds[0] < 0) {
		printf("no direct I/O here\n");
		exit(77);
	}
	uaio_config.bounces = true;
	for (unsigned i = 0; i < NR_THREADS; i++) {
		writers[i].random = random_start(i);
		writers[i].handle = unit_context(NR_SLOTS);
	}
	for (; !is_over(); nr_rounds++)
		run_round();
	for (unsigned i = 0; i < NR_THREADS; i++)
		unit_destroy(writers[i].handle);
	unit_close(fds[0]);
	unit_close(fds[1]);
	uaio_config.bounces = false;
	note_count(nr_rounds, "rounds");
	return 0;
}
