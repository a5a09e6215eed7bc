/* SPDX-License-Identifier: MIT */
/*
 * The client threads, which read and write cells (pieces of a file, files.h), and check
 * what they read.
 */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"

enum {
	/* guard bytes before and after a buffer, which a read must not change */
	GUARD = 64,
	GAP_MAX = 32,
	/*
	 * in each half of the file, most requests at a time are on this many adjacent
	 * cells
	 */
	HOT_CELLS = 384,
	HOT_MS = 40,
	POISON = 0xa5,
};

uint32_t draw(uint64_t *random, uint32_t limit)
{
	uint64_t x = *random += 0x9e3779b97f4a7c15u; /* splitmix64 */

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)((x ^ x >> 31) >> 32) % limit;
}

static bool is_in_process_of(const struct client *client, unsigned cell)
{
	return run.owners[cell] / NR_THREADS == client->owner / NR_THREADS;
}

/*
 * Descriptors
 */

static int open_file(const char *path, int flags)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | flags);

	if (fd < 0)
		fail("open of %s with flags %#x: %s", path, flags,
		     strerror(errno));
	return fd;
}

static int duplicate(int fd)
{
	int other = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (other < 0)
		fail("a duplicate of a descriptor: %s", strerror(errno));
	return other;
}

void descriptors_open(struct descriptors *ret)
{
	ret->buffered[0] = run.inherited;
	ret->direct[0] = open_file(run.file, O_DIRECT);
	for (unsigned i = 1; i < NR_DESCRIPTORS; i += 2) {
		const char *path = i == 1 ? run.file : run.link;

		ret->buffered[i] = open_file(path, 0);
		ret->direct[i] = open_file(path, O_DIRECT);
	}
	ret->buffered[2] = duplicate(ret->buffered[1]);
	ret->direct[2] = duplicate(ret->direct[1]);
}

/*
 * Memory
 */

static const char *const memory_names[NR_MEMORIES] = {
	[ALIGNED] = "aligned", [MISALIGNED] = "misaligned",
	[OF_FILE] = "mapped",  [SHARED] = "shared",
	[ON_STACK] = "stack",
};

static char *map(int fd, unsigned owner)
{
	const size_t bytes = (size_t)NR_SLOTS * AREA;
	int anonymous = fd < 0 ? MAP_ANONYMOUS : 0;
	char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | anonymous, fd,
			    fd < 0 ? 0 : (off_t)(owner * bytes));

	return memory == MAP_FAILED ? NULL : memory;
}

static char *map_file(unsigned owner)
{
	int fd = open_file(run.mapped, 0);
	char *memory = map(fd, owner);

	close(fd);
	/*
	 * ENODEV: a FUSE file without a page cache cannot be mapped, so map anonymous
	 * memory.
	 */
	if (!memory && errno == ENODEV)
		memory = map(-1, owner);
	return memory;
}

void client_begin(struct client *client, unsigned owner, enum door door,
		  const struct descriptors *descriptors)
{
	char *heap = aligned_alloc(PAGE, (size_t)NR_SLOTS * AREA);

	client->owner = owner;
	client->door = door;
	client->random = run.seed + run.round * 1000003 + owner * 7919;
	client->buffered = descriptors->buffered;
	client->direct = descriptors->direct;
	client->areas[ALIGNED] = heap;
	client->areas[MISALIGNED] = heap;
	client->areas[ON_STACK] = heap;
	client->areas[OF_FILE] = map_file(owner);
	client->areas[SHARED] = map(-1, owner);
	client->linear = malloc(BYTES_MAX);
	if (!heap || !client->linear || !client->areas[OF_FILE] ||
	    !client->areas[SHARED])
		fail("memory: %s", strerror(errno));
	door_open(client);
}

static char *span_end(const struct slot *slot)
{
	const struct iovec *last = &slot->iov[slot->nr_iov - 1];

	return (char *)last->iov_base + last->iov_len;
}

/*
 * Choose the memory and the vectors of a request. Direct requests are aligned to 512
 * bytes. A direct read never goes to a mapped file: Linux does not expect a device to
 * write to such pages.
 */
static void place(struct client *client, struct slot *slot)
{
	uint64_t *random = &client->random;
	uint32_t unit = slot->is_direct ? CELL : 1;
	uint32_t gap_max = slot->is_direct ? 2 : GAP_MAX;
	size_t left = (size_t)slot->nr * CELL / unit;
	char *at;

	slot->memory = draw(random, NR_MEMORIES);
	if (slot->memory == OF_FILE && slot->is_direct && slot->what == READ)
		slot->memory = ALIGNED;
	at = client->areas[slot->memory] + PAGE +
	     (slot - client->slots) * (ptrdiff_t)AREA;
	if (slot->memory != ALIGNED)
		at += draw(random, PAGE / unit) * unit;
	slot->nr_iov = 1;
	if (client->door != POSIX_AIO && draw(random, 2))
		slot->nr_iov += draw(random, VECTORS_MAX);
	if (slot->nr_iov > left)
		slot->nr_iov = (unsigned)left;
	for (unsigned i = 0; i < slot->nr_iov; i++) {
		unsigned nr_behind = slot->nr_iov - i - 1;
		size_t units = left;

		if (nr_behind)
			units = 1 + draw(random, (uint32_t)left - nr_behind);
		slot->iov[i] = (struct iovec){ at, units * unit };
		at += units * unit + draw(random, gap_max) * unit;
		left -= units;
	}
}

static void poison(const struct slot *slot)
{
	char *begin = (char *)slot->iov[0].iov_base - GUARD;

	memset(begin, POISON, (size_t)(span_end(slot) + GUARD - begin));
}

static void scatter(const struct client *client, const struct slot *slot)
{
	const char *from = client->linear;

	for (unsigned i = 0; i < slot->nr_iov; i++) {
		memcpy(slot->iov[i].iov_base, from, slot->iov[i].iov_len);
		from += slot->iov[i].iov_len;
	}
}

static void check_guard(const char *begin, const char *end, const char *reader)
{
	for (const char *at = begin; at < end; at++)
		if (*at != (char)POISON)
			fail("%s changes memory beside its buffer", reader);
}

static void gather(const struct client *client, const struct slot *slot,
		   const char *reader)
{
	const char *end = (char *)slot->iov[0].iov_base - GUARD;
	char *to = client->linear;

	for (unsigned i = 0; i < slot->nr_iov; i++) {
		const char *base = slot->iov[i].iov_base;

		check_guard(i ? end : base - GUARD, base, reader);
		memcpy(to, base, slot->iov[i].iov_len);
		to += slot->iov[i].iov_len;
		end = base + slot->iov[i].iov_len;
	}
	check_guard(end, end + GUARD, reader);
}

/*
 * Drawing requests
 */

/*
 * Return: a cell, usually near the place where all threads work at the moment, so that
 * several threads have requests on the same cells.
 */
static unsigned hot_cell(struct client *client, bool is_direct)
{
	uint64_t moment = run.seed + (uint64_t)(now_ms() / HOT_MS);
	unsigned cell = draw(&moment, REGION_CELLS - HOT_CELLS) +
			draw(&client->random, HOT_CELLS);

	if (draw(&client->random, 8) == 0)
		cell = draw(&client->random, REGION_CELLS);
	return is_direct ? REGION_CELLS + cell : cell;
}

/*
 * Return: the oldest version of the cell that a read may return if it is submitted now.
 */
static uint32_t oldest(const struct client *client, unsigned cell)
{
	uint32_t done = load(&shared->done[cell]), accepted;

	/*
	 * L2 (files.h) does not hold for this read: another process owns the cell, or
	 * io_uring executes the read, which may start before an earlier write ends. So
	 * the read may return any version since the newest completed write.
	 */
	if (!is_in_process_of(client, cell) || client->door == IO_URING)
		return done;
	if (run.owners[cell] == client->owner && client->door == KERNEL_AIO &&
	    !is_direct_cell(cell))
		return load(&shared->started[cell]);
	accepted = load(&shared->accepted[cell]);
	return accepted > done ? accepted : done;
}

static bool is_buffered_aio(const struct client *client,
			    const struct slot *slot)
{
	return client->door == KERNEL_AIO && !slot->is_direct;
}

static void draw_read(struct client *client, struct slot *slot)
{
	unsigned unit = slot->is_direct ? PAGE_CELLS : 1;
	unsigned begin = hot_cell(client, draw(&client->random, 2)) / unit;
	unsigned nr =
		1 + draw(&client->random,
			 1u << draw(&client->random, slot->is_direct ? 5 : 8));

	slot->nr = nr * unit;
	slot->first = begin * unit;
	if (slot->first + slot->nr > NR_CELLS)
		slot->first = NR_CELLS - slot->nr;
	for (unsigned i = 0; i < slot->nr; i++) {
		unsigned cell = slot->first + i;

		slot->low[i] = oldest(client, cell);
		slot->high[i] = UINT32_MAX;
		if (run.owners[cell] == client->owner &&
		    is_buffered_aio(client, slot))
			slot->high[i] = load(&shared->started[cell]);
	}
	place(client, slot);
	poison(slot);
}

/*
 * Return: whether the write may be in flight together with the client's other writes.
 */
static bool may_write(const struct client *client, const struct slot *slot)
{
	/*
	 * Buffered kernel AIO requests are executed in the order of submission, so even
	 * writes of the same cells may be in flight together.
	 */
	if (is_buffered_aio(client, slot))
		return true;
	for (unsigned i = 0; i < NR_SLOTS; i++) {
		const struct slot *other = &client->slots[i];

		if (other != slot && other->what == WRITE &&
		    other->first < slot->first + slot->nr &&
		    slot->first < other->first + other->nr)
			return false;
	}
	return true;
}

static void draw_range(struct client *client, struct slot *slot)
{
	unsigned cell = hot_cell(client, slot->is_direct);
	unsigned unit = slot->is_direct ? PAGE_CELLS : 1, nr, at;
	const struct stripe *stripe = run.stripes;

	while (stripe->first + stripe->nr <= cell)
		stripe++;
	/*
	 * Find this owner's next stripe (adjacent cells) in the half of the file that
	 * slot->is_direct selects. After the last stripe comes the first.
	 */
	while (stripe->owner != client->owner ||
	       is_direct_cell(stripe->first) != slot->is_direct)
		if (++stripe == run.stripes + NR_STRIPES)
			stripe = run.stripes;
	at = draw(&client->random, stripe->nr / unit);
	nr = 1 + draw(&client->random, stripe->nr / unit - at);
	slot->first = stripe->first + at * unit;
	slot->nr = nr * unit;
}

static bool draw_write(struct client *client, struct slot *slot)
{
	draw_range(client, slot);
	if (!may_write(client, slot))
		return false;
	for (unsigned i = 0; i < slot->nr; i++) {
		unsigned cell = slot->first + i;
		uint32_t version = load(&shared->started[cell]) + 1;

		slot->low[i] = version;
		cell_fill(client->linear + (size_t)i * CELL, cell, version);
		raise_to(&shared->started[cell], version);
	}
	place(client, slot);
	scatter(client, slot);
	return true;
}

/*
 * Choose a request at random.
 * Return: false if the chosen one is not possible at the moment.
 */
static bool draw_request(struct client *client, struct slot *slot)
{
	uint64_t *random = &client->random;
	const int *fds;

	slot->is_direct = draw(random, 2);
	fds = slot->is_direct ? client->direct : client->buffered;
	slot->fd = fds[draw(random, NR_DESCRIPTORS)];
	if (draw(random, 400) == 0) {
		slot->what = SYNC;
		return true;
	}
	if (!client->only_writes && draw(random, 5) < 3) {
		slot->what = READ;
		draw_read(client, slot);
		return true;
	}
	slot->what = WRITE;
	if (draw_write(client, slot))
		return true;
	slot->what = FREE;
	return false;
}

/* What happens to a request from its submission to its completion */

/*
 * Record that the interface has accepted the requests: the submitting call has
 * returned.
 */
static void note_submitted(struct client *client, struct slot **list,
			   unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		const struct slot *slot = list[i];

		if (slot->what != WRITE ||
		    (client->owner != LEAVER && !is_buffered_aio(client, slot)))
			continue;
		for (unsigned j = 0; j < slot->nr; j++)
			raise_to(&shared->accepted[slot->first + j],
				 slot->low[j]);
	}
	for (unsigned i = 0; i < nr; i++) {
		struct slot *slot = list[i];

		if (slot->what != READ || !is_buffered_aio(client, slot))
			continue;
		for (unsigned j = 0; j < slot->nr; j++)
			if (slot->high[j] == UINT32_MAX &&
			    is_in_process_of(client, slot->first + j))
				slot->high[j] =
					load(&shared->started[slot->first + j]);
	}
}

static unsigned submit_some(struct client *client)
{
	unsigned wanted = 1 + draw(&client->random, NR_SLOTS), nr = 0;
	struct slot *list[NR_SLOTS];

	for (unsigned i = 0; i < NR_SLOTS && nr < wanted; i++) {
		struct slot *slot = &client->slots[i];

		if (slot->what == FREE && draw_request(client, slot))
			list[nr++] = slot;
	}
	if (nr) {
		door_submit(client, list, nr);
		client->nr_pending += nr;
		note_submitted(client, list, nr);
	}
	return nr;
}

static void note_written(struct slot *slot)
{
	for (unsigned i = 0; i < slot->nr; i++)
		raise_to(&shared->done[slot->first + i], slot->low[i]);
}

static void check_read(struct client *client, const struct slot *slot,
		       unsigned nr_cells)
{
	static const char hole[CELL];
	bool may_be_torn = !run.keeps_apart || slot->is_direct;
	char reader[160];

	snprintf(reader, sizeof(reader),
		 "a %s read of %u cells from %u on by %s of owner %u, with %u "
		 "vectors of %s memory,",
		 slot->is_direct ? "direct" : "buffered", slot->nr, slot->first,
		 door_names[client->door], client->owner, slot->nr_iov,
		 memory_names[slot->memory]);
	gather(client, slot, reader);
	for (unsigned i = 0; i < slot->nr; i++) {
		unsigned cell = slot->first + i;
		uint32_t high = slot->high[i];

		if (high == UINT32_MAX)
			high = load(&shared->started[cell]);
		/*
		 * Cells beyond the end of the file count as zeros, which are version 0.
		 */
		cell_check(i < nr_cells ? client->linear + (size_t)i * CELL
					: hole,
			   cell, slot->low[i], high,
			   may_be_torn || is_direct_cell(cell), reader);
	}
	client->nr_checked += slot->nr;
}

static void complete(struct client *client, struct slot *slot, int64_t res)
{
	static const char *const names[] = { "request that is complete", "read",
					     "write", "sync" };
	int64_t bytes = (int64_t)slot->nr * CELL;
	bool is_right = slot->what == WRITE ? res == bytes
			: slot->what == READ
				? res >= 0 && res <= bytes && res % CELL == 0
			: slot->what == SYNC ? res == 0
					     : false;

	if (!is_right)
		fail("a %s %s of %u cells from %u on by %s returns %lld: %s",
		     slot->is_direct ? "direct" : "buffered", names[slot->what],
		     slot->nr, slot->first, door_names[client->door],
		     (long long)res, strerror(res < 0 ? (int)-res : 0));
	if (slot->what == WRITE)
		note_written(slot);
	if (slot->what == READ)
		check_read(client, slot, (unsigned)(res / CELL));
	slot->what = FREE;
	client->nr_pending--;
}

static void reap(struct client *client, bool waits)
{
	struct result results[NR_SLOTS];
	unsigned nr = door_reap(client, waits, results);

	for (unsigned i = 0; i < nr; i++)
		complete(client, results[i].slot, results[i].res);
}

/*
 * Destroy the context and create another one. When io_destroy returns, all accepted
 * writes must have been executed (L6).
 */
static void replace_context(struct client *client)
{
	door_close(client);
	for (unsigned i = 0; i < NR_SLOTS; i++) {
		struct slot *slot = &client->slots[i];

		if (slot->what == WRITE)
			note_written(slot);
		slot->what = FREE;
	}
	client->nr_pending = 0;
	door_open(client);
}

void client_run(struct client *client)
{
	_Alignas(PAGE) char stack[NR_SLOTS][AREA];
	/*
	 * Without the library, replace the context more rarely: the kernel's io_destroy
	 * takes 20 ms.
	 */
	uint32_t nr_between = run.is_uaio ? 100 : 1000;

	client->areas[ON_STACK] = stack[0];
	while (!load(&shared->is_over)) {
		unsigned nr = submit_some(client);

		if (client->door == KERNEL_AIO &&
		    draw(&client->random, nr_between) == 0)
			replace_context(client);
		for (nr = draw(&client->random, nr + 1); nr; nr--)
			reap(client, client->nr_pending);
		if (client->nr_pending > NR_SLOTS / 2)
			reap(client, true);
	}
	while (client->nr_pending)
		reap(client, true);
	client->areas[ON_STACK] = NULL;
	door_close(client);
	__atomic_fetch_add(&shared->nr_checked, client->nr_checked,
			   __ATOMIC_SEQ_CST);
}

void client_write_some(struct client *client)
{
	client->only_writes = true;
	for (unsigned nr = 1 + draw(&client->random, 4); nr; nr--) {
		(void)submit_some(client);
		if (client->nr_pending && draw(&client->random, 2))
			reap(client, true);
	}
	if (client->door == KERNEL_AIO && draw(&client->random, 16) == 0)
		replace_context(client);
	(void)submit_some(client);
}
