/* SPDX-License-Identifier: MIT */
#include "check/hint.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/sys.h"
#include "options/config.h"
#include "options/names.h"
#include "op/op.h"
#include "check/checkint.h"

/* some C libraries lack RWF_APPEND */
enum { RWF_APPEND_ = 0x10 };
enum {
	TEXT_MAX = 256,
	PAGE_BITS = 12,
	PAGES = 4096,
	MANY_PAGES = 256,
};

/* A note: the data that this file keeps of a request in flight. */
struct note {
	struct list in_flight;
	uint32_t stack;
	uint8_t op;
	bool is_in_use;
	/* fd is the index of a registered file, not a descriptor */
	bool is_fixed;
	bool is_ordered;
	bool is_write;
	bool is_appended;
	/* user_data is possibly the address of memory */
	bool has_data;
	int fd; /* -1: none */
	int64_t off;
	/*
	 * how many bytes the request reads or writes at the file offset `off`; 0: the
	 * request's range of the file is not checked
	 */
	uint64_t bytes;
	uint64_t data;
	/* address of the request's memory; 0 if it has several pieces */
	uintptr_t at;
	size_t size;
};

static struct {
	bool is_on; /* immutable after init */
	/*
	 * Counters, atomic: how many requests have a user_data that points to a page of
	 * this slot. Many pages share a slot.
	 */
	uint32_t nr_near[PAGES];

	/* under the lock */
	struct uaio_lock lock; /* rank CHECK */
	/*
	 * array, mapped once; a note (data on a request) has the same index as the record
	 * of its request
	 */
	struct note *notes;
	struct list in_flight;
} hints;

static void lock(void)
{
	uaio_lock(&hints.lock, UAIO_RANK_CHECK);
}

static void unlock(void)
{
	uaio_unlock(&hints.lock, UAIO_RANK_CHECK);
}

bool uaio_hint_init(uint32_t nr_records)
{
	hints.lock = (struct uaio_lock){ 0 };
	hints.is_on = false;
	if (!uaio_check_hints)
		return true;
	list_init(&hints.in_flight);
	for (unsigned i = 0; i < PAGES; i++)
		store_relaxed(&hints.nr_near[i], 0);
	/*
	 * A child of fork() inherits the notes (data on requests), but has no request in
	 * flight: unmap the notes.
	 */
	if (hints.notes)
		(void)sys_munmap(hints.notes,
				 nr_records * sizeof(*hints.notes));
	hints.notes = sys_mmap(NULL, nr_records * sizeof(*hints.notes),
			       PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
	if (sys_is_map_error(hints.notes)) {
		hints.notes = NULL;
		return false;
	}
	return hints.is_on = true;
}

bool uaio_hint_is_on(void)
{
	return hints.is_on;
}

bool uaio_hint_wants(const struct uaio_sqe *sqe)
{
	return hints.is_on && !uaio_optab[sqe->op].has_no_file;
}

/*
 * Notes of requests in flight
 */

static uint32_t *nr_near(uintptr_t at)
{
	return &hints.nr_near[(at >> PAGE_BITS) % PAGES];
}

/* Return: whether all memory of the request is one piece, at sqe->buf. */
static bool has_one_piece(const struct uaio_sqe *sqe)
{
	switch (sqe->op) {
	case UAIO_OP_READ:
	case UAIO_OP_WRITE:
	case UAIO_OP_RECV:
	case UAIO_OP_SEND:
	case UAIO_OP_SEND_ZC: return !sqe->by_door && sqe->len;
	default: return false;
	}
}

/*
 * Return: how many bytes at its file offset the request reads or writes; 0: none.
 */
static uint64_t bytes_of(const struct uaio_sqe *sqe)
{
	switch (sqe->op) {
	case UAIO_OP_READ:
	case UAIO_OP_READV:
	case UAIO_OP_WRITE:
	case UAIO_OP_WRITEV:
		return sqe->off < 0 || sqe->by_door ? 0 : uaio_sqe_bytes(sqe);
	default: return 0;
	}
}

static struct note note_of(const struct uaio_sqe *sqe, uint32_t stack,
			   bool is_ordered)
{
	uint64_t bytes = bytes_of(sqe);
	bool has_memory = has_one_piece(sqe);

	return (struct note){
		.at = has_memory ? (uintptr_t)sqe->buf : 0,
		.size = has_memory ? sqe->len : 0,
		.stack = stack,
		.op = sqe->op,
		.is_in_use = true,
		.is_fixed = sqe->is_fixed,
		.is_ordered = is_ordered,
		.is_write = uaio_optab[sqe->op].class == UAIO_CLASS_WRITE,
		.is_appended = bytes && sqe->rw_flags & RWF_APPEND_,
		/*
		 * With POSIX AIO, user_data is the address of the aiocb. The record of
		 * the request contains this memory (memory.c), so no hint is needed.
		 */
		.has_data = sqe->door != UAIO_RULES_OF_POSIX &&
			    sqe->data >= 1u << PAGE_BITS,
		.fd = uaio_optab[sqe->op].has_no_file ? -1 : sqe->fd,
		.off = sqe->off,
		.bytes = bytes,
		.data = sqe->data,
	};
}

/*
 * Return: a report about the request whose data is in `note`; the caller adds the
 * sentence `did`.
 */
static struct uaio_check_report report_of(const struct note *note,
					  enum uaio_check_kind kind)
{
	return (struct uaio_check_report){
		.kind = kind,
		.record = {
			.op = note->op,
			.fd = note->is_fixed ? -1 : note->fd,
			.off = note->bytes ? note->off : -1,
			.data = note->data,
			.stack = note->stack,
		},
		.part = { .at = note->at,
			  .bytes = note->size,
			  .is_written = !note->is_write },
		.other.op = UAIO_NR_OPS,
	};
}

/* Return: a report that concerns no single request. */
static struct uaio_check_report report_of_none(enum uaio_check_kind kind)
{
	return (struct uaio_check_report){
		.kind = kind,
		.record.op = UAIO_NR_OPS,
		.other.op = UAIO_NR_OPS,
		.now = uaio_check_here(),
	};
}

static void give(struct uaio_check_report *report, const char *text)
{
	report->did = text;
	uaio_check_report(report);
}

/*
 * Hints about requests that use the same range of a file
 */

static bool do_meet(const struct note *one, const struct note *other)
{
	return other->bytes && one->fd == other->fd && !other->is_ordered &&
	       (one->is_write || other->is_write) && !other->is_appended &&
	       (uint64_t)one->off < (uint64_t)other->off + other->bytes &&
	       (uint64_t)other->off < (uint64_t)one->off + one->bytes;
}

/*
 * Return: whether a request in flight uses bytes of the same file range as `note`. *ret
 * is the note of that request.
 */
static bool find_range_locked(const struct note *note, struct note *ret)
{
	list_for_each (pos, &hints.in_flight) {
		const struct note *other =
			container_of(pos, struct note, in_flight);

		if (do_meet(note, other)) {
			*ret = *other;
			return true;
		}
	}
	return false;
}

/*
 * Return: whether fd is a file with positions, so that offsets of requests matter.
 */
static bool has_ranges(int fd)
{
	int flags = sys_fcntl(fd, F_GETFL, 0);
	struct stat st;

	return flags >= 0 && !(flags & O_APPEND) && sys_fstat(fd, &st) == 0 &&
	       (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode));
}

static void give_ranges(const struct note *note, const struct note *other)
{
	struct uaio_check_report report =
		report_of(note, UAIO_CHECK_KIND_HINT_RANGES);
	char text[TEXT_MAX];

	report.other = report_of(other, report.kind).record;
	report.other_part = report_of(other, report.kind).part;
	report.now = note->stack;
	(void)snprintf(text, sizeof(text),
		       "a %s of %" PRIu64 " bytes at %" PRId64
		       " is submitted while a %s of %" PRIu64
		       " bytes at %" PRId64 " of the same file is in flight",
		       uaio_op_names[note->op], note->bytes, note->off,
		       uaio_op_names[other->op], other->bytes, other->off);
	give(&report, text);
}

void uaio_hint_submit(const struct uaio_sqe *sqe, uint32_t record,
		      uint32_t stack, bool is_ordered)
{
	struct note note = note_of(sqe, stack, is_ordered), other = note;
	bool meets;

	lock();
	meets = note.bytes && !note.is_ordered && !note.is_appended &&
		find_range_locked(&note, &other);
	hints.notes[record] = note;
	list_add_tail(&hints.in_flight, &hints.notes[record].in_flight);
	if (note.has_data)
		add_relaxed(nr_near((uintptr_t)note.data), 1);
	unlock();
	if (meets && has_ranges(note.fd))
		give_ranges(&note, &other);
}

void uaio_hint_end(uint32_t record)
{
	struct note *note = &hints.notes[record];

	lock();
	if (note->is_in_use) {
		note->is_in_use = false;
		list_remove(&note->in_flight);
		if (note->has_data)
			sub_relaxed(nr_near((uintptr_t)note->data), 1);
	}
	unlock();
}

/*
 * Requests in flight that use a closed descriptor, an unregistered buffer or a freed
 * user_data
 */

typedef bool is_meant_fn(const struct note *note, uintptr_t first,
			 uintptr_t last);

static bool is_of_descriptor(const struct note *note, uintptr_t first,
			     uintptr_t last)
{
	return !note->is_fixed && note->fd >= 0 &&
	       (unsigned)note->fd >= first && (unsigned)note->fd <= last;
}

static bool points_into(const struct note *note, uintptr_t first,
			uintptr_t last)
{
	return note->has_data && note->data >= first && note->data <= last;
}

/*
 * Return: whether is_meant returns true for some request in flight. *ret is the note
 * (data kept for hints) of this request.
 */
static bool find(is_meant_fn *is_meant, uintptr_t first, uintptr_t last,
		 struct note *ret)
{
	bool is_found = false;

	lock();
	list_for_each (pos, &hints.in_flight) {
		const struct note *note =
			container_of(pos, struct note, in_flight);

		if (is_meant(note, first, last)) {
			*ret = *note;
			is_found = true;
			break;
		}
	}
	unlock();
	return is_found;
}

void uaio_hint_closing(unsigned first, unsigned last)
{
	struct uaio_check_report report;
	char text[TEXT_MAX];
	struct note note = { .fd = -1 };

	if (!hints.is_on || !find(is_of_descriptor, first, last, &note))
		return;
	report = report_of(&note, UAIO_CHECK_KIND_HINT_CLOSED);
	report.now = uaio_check_here();
	(void)snprintf(text, sizeof(text),
		       "descriptor %d is closed while a %s on it is in flight",
		       note.fd, uaio_op_names[note.op]);
	give(&report, text);
}

static bool has_memory_of(const struct note *note, uintptr_t first,
			  uintptr_t last)
{
	return note->size && note->at <= last &&
	       first <= note->at + note->size - 1;
}

void uaio_hint_unregistered(uintptr_t at, size_t bytes)
{
	struct uaio_check_report report;
	char text[TEXT_MAX];
	struct note note = { .fd = -1 };

	if (!hints.is_on || !bytes ||
	    !find(has_memory_of, at, at + bytes - 1, &note))
		return;
	report = report_of(&note, UAIO_CHECK_KIND_HINT_UNREGISTERED);
	report.now = uaio_check_here();
	(void)snprintf(text, sizeof(text),
		       "a registered buffer of %zu bytes at 0x%" PRIxPTR
		       " is unregistered while a %s in flight uses its memory",
		       bytes, at, uaio_op_names[note.op]);
	give(&report, text);
}

bool uaio_hint_may_have(uintptr_t at, size_t bytes)
{
	uintptr_t last = at + bytes - 1;

	if (!hints.is_on || !bytes)
		return false;
	if ((last >> PAGE_BITS) - (at >> PAGE_BITS) >= MANY_PAGES)
		return true;
	/*
	 * relaxed: the caller frees memory. If another thread has submitted the request
	 * that uses this memory, the program must order the free after that submission.
	 * So this thread sees the counters of that submission.
	 */
	for (uintptr_t page = at >> PAGE_BITS; page <= last >> PAGE_BITS;
	     page++)
		if (load_relaxed(nr_near(page << PAGE_BITS)))
			return true;
	return false;
}

void uaio_hint_freed(uintptr_t at, size_t bytes)
{
	struct uaio_check_report report;
	char text[TEXT_MAX];
	struct note note = { .fd = -1 };

	if (!uaio_hint_may_have(at, bytes) ||
	    !find(points_into, at, at + bytes - 1, &note))
		return;
	report = report_of(&note, UAIO_CHECK_KIND_HINT_DATA);
	report.now = uaio_check_here();
	(void)snprintf(text, sizeof(text),
		       "%zu bytes at 0x%" PRIxPTR
		       " are freed while the user_data of a %s in flight, "
		       "0x%" PRIx64 ", points to them",
		       bytes, at, uaio_op_names[note.op], note.data);
	give(&report, text);
}

/*
 * Hints about rings
 */

void uaio_hint_overflowed(void)
{
	struct uaio_check_report report;

	if (!hints.is_on)
		return;
	report = report_of_none(UAIO_CHECK_KIND_HINT_OVERFLOW);
	give(&report, "completions found no room in their ring, and are put "
		      "into it by a system call now");
}

void uaio_hint_ring_ends(uint32_t nr_sqes, uint32_t nr_cqes)
{
	struct uaio_check_report report;
	char text[TEXT_MAX];

	if (!hints.is_on)
		return;
	if (nr_sqes) {
		report = report_of_none(UAIO_CHECK_KIND_HINT_UNSUBMITTED);
		(void)snprintf(text, sizeof(text),
			       "a ring ends with %" PRIu32
			       " submissions that were never taken: no "
			       "io_uring_enter(2) has submitted them",
			       nr_sqes);
		give(&report, text);
	}
	if (nr_cqes) {
		report = report_of_none(UAIO_CHECK_KIND_HINT_UNSEEN);
		(void)snprintf(text, sizeof(text),
			       "a ring ends with %" PRIu32
			       " completions that the program has not seen",
			       nr_cqes);
		give(&report, text);
	}
}
