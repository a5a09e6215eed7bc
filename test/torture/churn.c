/* SPDX-License-Identifier: MIT */
/*
 * Load: descriptors are closed and reused while requests are in flight
 *
 * Each descriptor belongs to a thread, its owner, which submits writes to it. Without
 * waiting for the writes, the owner replaces the file at the descriptor by another one
 * of any kind, through close() or dup2(). Meanwhile other threads submit reads on all
 * these descriptors, whatever files they refer to.
 *
 * At the end this must hold: each file contains all writes that were submitted while it
 * was at the descriptor, and nothing else.
 */
#undef NDEBUG
#include "torture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/atomic.h"
#include "options/config.h"
#include "aio/aio.h"
#include "unit.h"

enum {
	NR_OWNERS = 4,
	NR_STRANGERS = 2,
	NR_WRITES = 8,
	FIRST_FD = 100,
	TAG = 8,
};

static struct owner {
	struct unit_thread thread;
	struct random random;
	uint64_t handle;
	int fd;
	unsigned long nr_files;
} owners[NR_OWNERS];

static struct stranger {
	struct unit_thread thread;
	struct random random;
	unsigned long nr_reads;
} strangers[NR_STRANGERS];

static uint32_t are_owners_done; /* atomic */

/* Make the descriptor refer to a pipe, until the next file replaces it. */
static void put_other_kind(struct owner *owner)
{
	int ends[2];

	REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
	unit_dup2(ends[0], owner->fd);
	unit_close(ends[0]);
	unit_close(ends[1]);
}

static void check_file(int fd, const uint64_t *tags)
{
	uint64_t seen[NR_WRITES + 1];

	REQUIRE(pread(fd, seen, sizeof(seen), 0) == NR_WRITES * TAG);
	REQUIRE(!memcmp(seen, tags, NR_WRITES * TAG));
}

static void own_one_file(struct owner *owner)
{
	struct uaio_event events[NR_WRITES];
	uint64_t tags[NR_WRITES];
	struct iocb iocbs[NR_WRITES], *list[NR_WRITES];
	int copy = unit_file(random_below(&owner->random, 2));
	long ret;

	unit_dup2(copy, owner->fd);
	for (unsigned i = 0; i < NR_WRITES; i++) {
		tags[i] = (uint64_t)owner->nr_files << 8 | i;
		iocbs[i] = unit_iocb(IOCB_CMD_PWRITE, owner->fd, &tags[i], TAG,
				     i * TAG);
		list[i] = &iocbs[i];
	}
	ret = uaio_aio_submit(owner->handle, NR_WRITES, list);
	if (ret != NR_WRITES)
		fprintf(stderr, "io_submit: %ld\n", ret);
	REQUIRE(ret == NR_WRITES);
	switch (random_below(&owner->random, 3)) {
	case 0: unit_close(owner->fd); break;
	case 1: put_other_kind(owner); break;
	default: break; /* the dup2() of the next round replaces this file */
	}
	REQUIRE(uaio_aio_getevents(owner->handle, NR_WRITES, NR_WRITES, events,
				   NULL) == NR_WRITES);
	for (unsigned i = 0; i < NR_WRITES; i++)
		REQUIRE(events[i].res == TAG);
	check_file(copy, tags);
	unit_close(copy);
	owner->nr_files++;
}

static long own(void *arg)
{
	while (!is_over())
		own_one_file(arg);
	return 0;
}

static long intrude(void *arg)
{
	enum { NR = 16 };
	struct stranger *stranger = arg;

	while (!load_acquire(&are_owners_done)) {
		uint64_t handle = unit_context(NR);
		static char buffers[NR][64];
		struct iocb iocbs[NR];

		for (unsigned i = 0; i < NR; i++) {
			int fd = FIRST_FD + (int)random_below(&stranger->random,
							      NR_OWNERS);
			long ret;

			iocbs[i] = unit_iocb(IOCB_CMD_PREAD, fd, buffers[i],
					     sizeof(buffers[i]), 0);
			ret = unit_submit(handle, &iocbs[i]);
			REQUIRE(ret == 1 || ret == -EBADF || ret == -EAGAIN);
			stranger->nr_reads++;
		}
		/*
		 * Destroying the context cancels the reads that wait. Reads of a pipe
		 * without a writer have already completed.
		 */
		unit_destroy(handle);
	}
	return 0;
}

int torture_churn(void)
{
	unsigned long nr_files = 0, nr_reads = 0;

	uaio_config.force_worker = true;
	for (unsigned i = 0; i < NR_OWNERS; i++) {
		owners[i].random = random_start(i);
		owners[i].handle = unit_context(NR_WRITES);
		owners[i].fd = FIRST_FD + (int)i;
		unit_thread_start(&owners[i].thread, own, &owners[i]);
	}
	for (unsigned i = 0; i < NR_STRANGERS; i++) {
		strangers[i].random = random_start(NR_OWNERS + i);
		unit_thread_start(&strangers[i].thread, intrude, &strangers[i]);
	}
	for (unsigned i = 0; i < NR_OWNERS; i++) {
		REQUIRE(unit_thread_join(&owners[i].thread) == 0);
		nr_files += owners[i].nr_files;
	}
	store_release(&are_owners_done, 1);
	for (unsigned i = 0; i < NR_STRANGERS; i++) {
		REQUIRE(unit_thread_join(&strangers[i].thread) == 0);
		nr_reads += strangers[i].nr_reads;
	}
	uaio_config.force_worker = false;
	for (unsigned i = 0; i < NR_OWNERS; i++) {
		unit_destroy(owners[i].handle);
		if (fcntl(owners[i].fd, F_GETFD) >= 0)
			unit_close(owners[i].fd);
	}
	printf("%lu reads by strangers\n", nr_reads);
	note_count(nr_files, "files");
	return 0;
}
