/* SPDX-License-Identifier: MIT */
/*
 * Traces processes, and counts their requests by file, or by context or ring
 *
 * The counts in a process's page (pages.h) are not divided by file or ring. So `uaio
 * top` asks the processes for traces (attach.h), like `uaio trace`, and counts the
 * records. The processes write records only while `uaio top` runs.
 *
 * To bound the memory, an interval has at most UAIO_WATCH_ROWS rows. If there are more
 * files or rings, the last row counts the requests of all files or rings that have no
 * row.
 *
 * Tested by test/run/top.py.
 */
#include "tool/top/top.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "live/hist.h"
#include "tool/trace/attach.h"
#include "tool/trace/tracing.h"

enum { NR_SLOTS = 4 * UAIO_WATCH_ROWS };

struct watched {
	int pid;
	bool is_refused;
	struct uaio_attached attached;
};

struct uaio_watch {
	bool is_by_file;
	/* records lost by processes that are no longer traced */
	uint64_t nr_lost;

	unsigned nr;
	struct watched watched[UAIO_WATCH_PROCESSES];

	unsigned nr_rows;
	struct uaio_watch_row rows[UAIO_WATCH_ROWS];
	/*
	 * A hash table that finds rows: each slot has the index of a row plus 1; 0:
	 * empty.
	 */
	uint16_t slots[NR_SLOTS];
};

struct uaio_watch *uaio_watch_new(bool is_by_file)
{
	struct uaio_watch *watch = calloc(1, sizeof(*watch));

	if (watch)
		watch->is_by_file = is_by_file;
	return watch;
}

/* Records */

static void name(const struct uaio_watch *watch,
		 const struct uaio_traced *traced, char ret[UAIO_WATCH_WHAT])
{
	const struct uaio_trace_record *record = traced->record;

	if (!watch->is_by_file)
		(void)snprintf(ret, UAIO_WATCH_WHAT, "%s %u",
			       uaio_door_names[record->door % UAIO_NR_DOORS],
			       record->queue);
	else if (traced->file[0])
		(void)snprintf(ret, UAIO_WATCH_WHAT, "%s", traced->file);
	else if (record->fd >= 0)
		(void)snprintf(ret, UAIO_WATCH_WHAT, "fd %" PRId32, record->fd);
	else
		(void)snprintf(ret, UAIO_WATCH_WHAT, "(no file)");
}

static unsigned hash(int pid, const char *what)
{
	uint32_t hash = 2166136261u ^ (uint32_t)pid;

	while (*what)
		hash = (hash ^ (uint8_t)*what++) * 16777619u;
	return hash % NR_SLOTS;
}

/*
 * Find or add the row of a process and a file or ring.
 * Return: this row; or, if all other rows are in use, the last row, which counts all
 * files and rings that have no row.
 */
static struct uaio_watch_row *find(struct uaio_watch *watch, int pid,
				   const char *what)
{
	const unsigned others = UAIO_WATCH_ROWS - 1;
	unsigned at = hash(pid, what);
	struct uaio_watch_row *row;

	/* There are more slots than rows, so the loop finds an empty slot. */
	for (; watch->slots[at]; at = (at + 1) % NR_SLOTS) {
		row = &watch->rows[watch->slots[at] - 1];
		if (row->pid == pid && !strcmp(row->what, what))
			return row;
	}
	if (watch->nr_rows >= others) {
		row = &watch->rows[others];
		if (watch->nr_rows == others) {
			watch->nr_rows++;
			*row = (struct uaio_watch_row){ .what = "(others)" };
		}
		return row;
	}
	row = &watch->rows[watch->nr_rows];
	*row = (struct uaio_watch_row){ .pid = pid };
	(void)snprintf(row->what, sizeof(row->what), "%s", what);
	watch->slots[at] = (uint16_t)++watch->nr_rows;
	return row;
}

static bool moves_bytes(const struct uaio_trace_record *record)
{
	return record->len && record->res > 0;
}

static void count(const struct uaio_traced *traced, void *arg)
{
	struct uaio_watch *watch = arg;
	const struct uaio_trace_record *record = traced->record;
	int64_t ns = traced->ended_ns - traced->submitted_ns;
	uint64_t took = ns > 0 ? (uint64_t)ns : 0;
	char what[UAIO_WATCH_WHAT];
	struct uaio_watch_row *row;

	name(watch, traced, what);
	row = find(watch, (int)traced->pid, what);
	row->nr++;
	row->nr_errors += record->res < 0;
	row->bytes += moves_bytes(record) ? (uint64_t)record->res : 0;
	if (!record->submitted)
		return;
	row->hist.buckets[uaio_hist_bucket(took)]++;
	if (took > row->hist.max)
		row->hist.max = took;
}

/* Processes */

static void leave(struct uaio_watch *watch, unsigned at)
{
	struct watched *watched = &watch->watched[at];

	if (!watched->is_refused) {
		uaio_attach_end(&watched->attached);
		/*
		 * Count the records that the process has written since the last count.
		 */
		(void)uaio_records_take(watched->attached.ring, count, watch);
		watch->nr_lost += uaio_records_lost(watched->attached.ring);
		uaio_attach_free(&watched->attached);
	}
	*watched = watch->watched[--watch->nr];
}

void uaio_watch_free(struct uaio_watch *watch)
{
	while (watch && watch->nr)
		leave(watch, watch->nr - 1);
	free(watch);
}

static bool is_watched(const struct uaio_watch *watch,
		       const struct uaio_page *page)
{
	for (unsigned i = 0; i < watch->nr; i++)
		if (watch->watched[i].pid == page->pid)
			return true;
	return false;
}

static bool has_page(const struct uaio_pages *pages, int pid)
{
	for (unsigned i = 0; i < pages->nr; i++)
		if (pages->pages[i].pid == pid)
			return true;
	return false;
}

static void look_at_all(struct uaio_watch *watch,
			const struct uaio_pages *pages)
{
	unsigned i = 0;

	while (i < watch->nr) {
		struct watched *watched = &watch->watched[i];
		bool is_gone =
			watched->is_refused && !has_page(pages, watched->pid);

		if (!watched->is_refused)
			switch (uaio_attach_look(&watched->attached)) {
			case UAIO_ATTACH_OVER: is_gone = true; break;
			case UAIO_ATTACH_REFUSED:
				uaio_attach_end(&watched->attached);
				uaio_attach_free(&watched->attached);
				watched->is_refused = true;
				break;
			default: break;
			}
		if (is_gone)
			leave(watch, i);
		else
			i++;
	}
}

void uaio_watch_attach(struct uaio_watch *watch, const struct uaio_pages *pages,
		       bool (*is_wanted)(const void *arg, int pid),
		       const void *arg)
{
	uaio_watch_count(watch);
	look_at_all(watch, pages);
	for (unsigned i = 0; i < pages->nr && watch->nr < UAIO_WATCH_PROCESSES;
	     i++) {
		const struct uaio_page *page = &pages->pages[i];
		struct watched *watched = &watch->watched[watch->nr];

		if (!is_wanted(arg, page->pid) || is_watched(watch, page))
			continue;
		watched->pid = page->pid;
		watched->is_refused = uaio_attach(&watched->attached, page) < 0;
		watch->nr++;
	}
}

unsigned uaio_watch_refused(const struct uaio_watch *watch)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < watch->nr; i++)
		nr += watch->watched[i].is_refused;
	return nr;
}

uint64_t uaio_watch_lost(const struct uaio_watch *watch)
{
	uint64_t nr = watch->nr_lost;

	for (unsigned i = 0; i < watch->nr; i++)
		if (!watch->watched[i].is_refused)
			nr += uaio_records_lost(
				watch->watched[i].attached.ring);
	return nr;
}

void uaio_watch_count(struct uaio_watch *watch)
{
	for (unsigned i = 0; i < watch->nr; i++)
		if (!watch->watched[i].is_refused)
			(void)uaio_records_take(watch->watched[i].attached.ring,
						count, watch);
}

const struct uaio_watch_row *uaio_watch_rows(struct uaio_watch *watch,
					     unsigned *ret_nr)
{
	*ret_nr = watch->nr_rows;
	return watch->rows;
}

void uaio_watch_begin(struct uaio_watch *watch)
{
	watch->nr_rows = 0;
	memset(watch->slots, 0, sizeof(watch->slots));
}
