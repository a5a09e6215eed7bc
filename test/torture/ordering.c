/* SPDX-License-Identifier: MIT */
/*
 * Load: a read must return what was written last
 *
 * Each thread has its own file, with two descriptors. It writes and reads random blocks
 * of the file, with and without vectors, and has many requests in flight. A write fills
 * its block with the write's number.
 *
 * This must hold: a read returns the block as it was after all writes submitted before
 * the read, and nothing of later writes. At the end the file contains the result of all
 * writes in order.
 */
#undef NDEBUG
#include "torture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "options/config.h"
#include "aio/aio.h"
#include "unit.h"

enum {
	NR_THREADS = 4,
	NR_SLOTS = 32,
	NR_BLOCKS = 24,
	WORDS = 128,
	BLOCK = WORDS * 8,
};

struct slot {
	struct iocb iocb;
	struct iovec vectors[8];
	bool is_pending;
	unsigned block;
	uint64_t number; /* number of the write whose data a read must return */
	uint64_t words[WORDS];
};

static struct writer {
	struct unit_thread thread;
	struct random random;
	uint64_t handle;
	int fds[2];
	uint64_t model[NR_BLOCKS];
	uint64_t nr_writes;
	unsigned long nr_checked;
	struct slot slots[NR_SLOTS];
} writers[NR_THREADS];

static void check_words(const uint64_t *words, uint64_t number)
{
	for (unsigned i = 0; i < WORDS; i++)
		REQUIRE(words[i] == number);
}

static void reap(struct writer *writer, long min_nr)
{
	struct uaio_event events[NR_SLOTS];
	long ret = uaio_aio_getevents(writer->handle, min_nr, NR_SLOTS, events,
				      NULL);

	REQUIRE(ret >= min_nr);
	for (long i = 0; i < ret; i++) {
		struct slot *slot = &writer->slots[events[i].data];
		unsigned opcode = slot->iocb.aio_lio_opcode;

		REQUIRE(slot->is_pending);
		slot->is_pending = false;
		if (opcode == IOCB_CMD_FSYNC || opcode == IOCB_CMD_FDSYNC) {
			REQUIRE(events[i].res == 0);
			continue;
		}
		REQUIRE(events[i].res == BLOCK);
		if (opcode == IOCB_CMD_PREAD || opcode == IOCB_CMD_PREADV) {
			check_words(slot->words, slot->number);
			writer->nr_checked++;
		}
	}
}

static void draw(struct writer *writer, struct slot *slot)
{
	static const uint16_t opcodes[] = {
		IOCB_CMD_PREAD,  IOCB_CMD_PREAD,  IOCB_CMD_PWRITE,
		IOCB_CMD_PWRITE, IOCB_CMD_PREADV, IOCB_CMD_PWRITEV,
		IOCB_CMD_FDSYNC,
	};
	unsigned opcode =
		opcodes[random_below(&writer->random, NR_ELEMENTS(opcodes))];
	int fd = writer->fds[random_below(&writer->random, 2)];
	uint64_t number;

	if (opcode == IOCB_CMD_FDSYNC && random_below(&writer->random, 20))
		/* replace most syncs by reads: a sync waits for the disk */
		opcode = IOCB_CMD_PREAD;
	slot->block = random_below(&writer->random, NR_BLOCKS);
	slot->number = writer->model[slot->block];
	slot->iocb =
		unit_iocb(opcode, fd, slot->words, BLOCK, slot->block * BLOCK);
	if (opcode == IOCB_CMD_FDSYNC)
		slot->iocb = unit_iocb(opcode, fd, NULL, 0, 0);
	if (opcode == IOCB_CMD_PREADV || opcode == IOCB_CMD_PWRITEV) {
		for (unsigned i = 0; i < 8; i++)
			slot->vectors[i] =
				(struct iovec){ &slot->words[i * WORDS / 8],
						BLOCK / 8 };
		slot->iocb.aio_buf = (uintptr_t)slot->vectors;
		slot->iocb.aio_nbytes = 8;
	}
	if (opcode == IOCB_CMD_PWRITE || opcode == IOCB_CMD_PWRITEV) {
		number = ++writer->nr_writes;
		writer->model[slot->block] = number;
		for (unsigned i = 0; i < WORDS; i++)
			slot->words[i] = number;
	}
	slot->iocb.aio_data = (uint64_t)(slot - writer->slots);
}

static long write_and_read(void *arg)
{
	struct writer *writer = arg;

	while (!is_over()) {
		struct iocb *list[NR_SLOTS];
		unsigned want = 1 + random_below(&writer->random, 16), nr = 0;

		for (unsigned i = 0; i < NR_SLOTS && nr < want; i++) {
			struct slot *slot = &writer->slots[i];

			if (slot->is_pending)
				continue;
			draw(writer, slot);
			slot->is_pending = true;
			list[nr++] = &slot->iocb;
		}
		for (unsigned i = 0; i < nr;) {
			long ret = uaio_aio_submit(writer->handle, nr - i,
						   list + i);

			REQUIRE(ret > 0);
			i += (unsigned)ret;
		}
		reap(writer, random_below(&writer->random, nr + 1));
	}
	for (unsigned i = 0; i < NR_SLOTS; i++)
		while (writer->slots[i].is_pending)
			reap(writer, 1);
	return 0;
}

static void begin(struct writer *writer, unsigned nr)
{
	static const uint64_t zeros[WORDS];
	char path[32];

	writer->random = random_start(nr);
	writer->handle = unit_context(NR_SLOTS);
	writer->fds[0] = unit_file(nr % 2);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", writer->fds[0]);
	writer->fds[1] = open(path, O_RDWR | O_CLOEXEC);
	REQUIRE(writer->fds[1] >= 0);
	for (unsigned i = 0; i < NR_BLOCKS; i++)
		REQUIRE(write(writer->fds[0], zeros, BLOCK) == BLOCK);
}

static void end(struct writer *writer)
{
	uint64_t words[WORDS];

	for (unsigned i = 0; i < NR_BLOCKS; i++) {
		REQUIRE(pread(writer->fds[0], words, BLOCK, i * BLOCK) ==
			BLOCK);
		check_words(words, writer->model[i]);
	}
	unit_destroy(writer->handle);
	unit_close(writer->fds[0]);
	unit_close(writer->fds[1]);
}

int torture_ordering(void)
{
	unsigned long nr_writes = 0, nr_checked = 0;

	/*
	 * Let workers execute all requests, so that many requests are queued at the
	 * same time.
	 */
	for (unsigned i = 0; i < NR_THREADS; i++)
		begin(&writers[i], i);
	uaio_config.force_worker = true;
	for (unsigned i = 0; i < NR_THREADS; i++)
		unit_thread_start(&writers[i].thread, write_and_read,
				  &writers[i]);
	for (unsigned i = 0; i < NR_THREADS; i++)
		REQUIRE(unit_thread_join(&writers[i].thread) == 0);
	uaio_config.force_worker = false;
	for (unsigned i = 0; i < NR_THREADS; i++) {
		nr_writes += writers[i].nr_writes;
		nr_checked += writers[i].nr_checked;
		end(&writers[i]);
	}
	printf("%lu writes\n", nr_writes);
	note_count(nr_checked, "reads");
	return 0;
}
