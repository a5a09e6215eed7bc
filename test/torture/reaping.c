/* SPDX-License-Identifier: MIT */
/*
 * Load: each event must be found once, by io_getevents or in the ring
 *
 * Workers post the events of one context. Its only client reaps them as event loops do:
 * by io_getevents, from the ring in memory, or by both in turn.
 *
 * This must hold: each request has exactly one event, and the client never finds more
 * unread events than it has requests in flight.
 */
#undef NDEBUG
#include "torture.h"

#include <errno.h>
#include <unistd.h>

#include "base/atomic.h"
#include "options/config.h"
#include "aio/aio.h"
#include "aio/ring.h"
#include "unit.h"

enum { NR = 32 };

static struct {
	uint64_t handle;
	struct iocb iocbs[NR];
	char buffers[NR][UNIT_KEY_BYTES];
	bool is_pending[NR];
	unsigned nr_pending;
	unsigned long nr_by_call, nr_from_ring;
} client;

static void note_event(uint64_t data)
{
	REQUIRE(data < NR && client.is_pending[data]);
	client.is_pending[data] = false;
	client.nr_pending--;
}

static void submit_some(struct random *random)
{
	for (unsigned i = 0; i < NR; i++) {
		if (client.is_pending[i] || random_below(random, 4) == 0)
			continue;
		client.is_pending[i] = true;
		client.nr_pending++;
		REQUIRE(unit_submit(client.handle, &client.iocbs[i]) == 1);
	}
}

static void take_by_call(unsigned min_nr)
{
	const struct timespec zero = { 0, 0 };
	struct uaio_event events[NR];
	long nr = uaio_aio_getevents(client.handle, min_nr, NR, events,
				     min_nr ? NULL : &zero);

	REQUIRE(nr >= (long)min_nr && nr <= NR);
	for (long i = 0; i < nr; i++)
		note_event(events[i].data);
	client.nr_by_call += (unsigned long)nr;
}

static void take_from_ring(void)
{
	struct uaio_ring_map *ring =
		(struct uaio_ring_map *)(uintptr_t)client.handle;
	uint32_t head = load_relaxed(&ring->head);
	uint32_t tail = load_acquire(&ring->tail);

	REQUIRE((tail + ring->nr - head) % ring->nr <= client.nr_pending);
	while (head != tail) {
		note_event(ring->events[head].data);
		head = (head + 1) % ring->nr;
		client.nr_from_ring++;
	}
	store_release(&ring->head, head);
}

static void take_some(struct random *random)
{
	switch (random_below(random, 3)) {
	case 0: take_by_call(client.nr_pending > 0); break;
	case 1: take_by_call(0); break;
	default: take_from_ring();
	}
	if (random_below(random, 2))
		take_from_ring();
}

int torture_reaping(void)
{
	int fd = unit_numbered_file(true, 1);
	struct random random = random_start(1);

	uaio_config.force_worker = true;
	client.handle = unit_context(NR);
	for (unsigned i = 0; i < NR; i++) {
		client.iocbs[i] =
			unit_iocb(IOCB_CMD_PREAD, fd, client.buffers[i],
				  UNIT_KEY_BYTES, 0);
		client.iocbs[i].aio_data = i;
	}
	while (!is_over()) {
		submit_some(&random);
		while (client.nr_pending > NR / 2)
			take_some(&random);
	}
	while (client.nr_pending)
		take_some(&random);
	printf("%lu by calls\n", client.nr_by_call);
	note_count(client.nr_by_call + client.nr_from_ring, "events");
	REQUIRE(client.nr_by_call && client.nr_from_ring);
	unit_destroy(client.handle);
	unit_close(fd);
	uaio_config.force_worker = false;
	return 0;
}
