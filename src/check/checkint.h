/* SPDX-License-Identifier: MIT */
/* What the files of this room share; the invariants are in check.h. */
#ifndef UAIO_CHECK_CHECKINT_H
#define UAIO_CHECK_CHECKINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lock.h"
#include "proc/entry.h"
#include "check/check.h"

struct uaio_sqe;

enum {
	UAIO_CHECK_RECORDS =
		65536, /* further requests in flight are not checked */
	UAIO_CHECK_PARTS_MAX = 1024, /* vectors of one request that are noted */
	UAIO_CHECK_FRAMES_MAX = 24,
	UAIO_CHECK_DEPTH = 48, /* with our own frames */
};

/*
 * A return address, and the stack pointer behind it, where the frame of the function that
 * returns there ends.
 */
struct uaio_check_frame {
	uintptr_t pc, sp;
};

/* A piece of memory of a request. */
struct uaio_check_part {
	struct list in_index;
	uint32_t next; /* of its record, or free; 0: the last */
	uint32_t record;
	uintptr_t at;
	size_t bytes;
	bool is_written; /* the kernel writes there, rather than reads */
	bool is_control; /* an aiocb, which the program may read all the same */
	bool is_gone;    /* the program has given it back, and was told */
	bool is_provided; /* provided.c's: no request has it yet */
	/* For asan.c and memcheck.c. */
	bool is_poisoned;
	uint8_t last_shadow; /* of its last granule, before it was submitted */
	bool was_undefined;  /* all of it, if there are no bits */
	bool has_byte_before, is_block; /* what has_ended() looks at */
	uint8_t *bits; /* owns: V bits, if they differ; or NULL */
	/* Of the stack of the thread that has submitted the request. */
	bool is_on_stack;
	struct uaio_check_frame holder; /* where the frame that has it ends */
};

/* A request in flight. */
struct uaio_check_record {
	struct list in_flight; /* of all */
	uint32_t next_free;
	uint32_t parts;
	uint32_t stack;   /* where it was submitted: stack.c's number, or 0 */
	uintptr_t thread; /* by which: uaio_check_me() */
	uint32_t call;    /* what calls[] was then */
	uint8_t op;
	bool is_in_use;
	bool is_ordered;
	bool has_hash; /* atomic: others clear it under the lock */
	int fd;        /* -1: none */
	int64_t off;
	uint64_t data; /* as its client sees it */
	uint64_t hash; /* of what is to be written */
	/* ThreadSanitizer's, for tsan.c. */
	uintptr_t tail;
	uint32_t fiber; /* 0: none */
};

/* A stack of calls: return addresses of the program's, the innermost first. */
struct uaio_check_stack {
	uint32_t nr;
	uintptr_t pcs[UAIO_CHECK_FRAMES_MAX];
};

/*
 * record.c: the records of requests in flight, and the pieces of memory that they have
 */

struct uaio_check_table {
	struct uaio_lock lock; /* rank CHECK */
	/* Under the lock. The arrays are mapped once, and never unmapped. */
	struct uaio_check_record *records; /* 0 is none */
	struct uaio_check_part *parts;     /* 0 is none */
	uint32_t nr_records, free_record;
	uint32_t nr_parts, free_part;
	struct list in_flight;
	struct list making;      /* struct uaio_check_making */
	uint32_t nr_stack_parts; /* atomic: written under the lock */
	uint64_t nr_requests, nr_checked;
};

extern struct uaio_check_table uaio_checked;

/* Return: memory that is never unmapped; or NULL. */
void *uaio_check_map(size_t bytes);

/* Return: false without memory. */
bool uaio_check_records_init(void);

static inline void uaio_check_lock(void)
{
	uaio_lock(&uaio_checked.lock, UAIO_RANK_CHECK);
}

static inline void uaio_check_unlock(void)
{
	uaio_unlock(&uaio_checked.lock, UAIO_RANK_CHECK);
}

static inline struct uaio_check_record *uaio_check_record(uint32_t number)
{
	return &uaio_checked.records[number];
}

static inline struct uaio_check_part *uaio_check_part(uint32_t number)
{
	return &uaio_checked.parts[number];
}

static inline struct uaio_check_record *
uaio_check_record_of(const struct uaio_check_part *part)
{
	return uaio_check_record(part->record);
}

/* Return: a new record or part, whose members are not set; or, without one, NULL or 0. */
struct uaio_check_record *uaio_check_record_new_locked(uint32_t *ret_number);
uint32_t uaio_check_part_new_locked(void);

/* The record and its parts end. */
void uaio_check_record_drop_locked(uint32_t number);

/*
 * check.c
 */

/* The sanitizer is about to have reported an error at this address, in this thread. */
void uaio_check_reported(uintptr_t at);

/*
 * race.c: the requests that a checker of threads knows of. Only where one is
 */

/* The calling thread submits a request of the operation. tail: see uaio_check_submit(). */
void uaio_check_race_submit(uint8_t op, uintptr_t tail);

/* The request of the record, of which sqe is known, begins. */
void uaio_check_race_begin(const struct uaio_sqe *sqe,
			   struct uaio_check_record *record);

/* The request of the record is complete, and its record is dropped next. */
void uaio_check_race_note_locked(const struct uaio_check_record *record);

/* The completion is about to be posted; the request may have no fiber. record: a copy. */
void uaio_check_race_end(const struct uaio_check_record *record);

/*
 * memory.c: which memory a request has
 */

typedef void uaio_check_memory_fn(void *arg, uintptr_t at, size_t bytes,
				  bool is_written);

/* Call function for each piece that is in use until the request is complete. */
void uaio_check_memory_of(const struct uaio_sqe *sqe,
			  uaio_check_memory_fn *function, void *arg);

/* Return: whether at is an aiocb that is in use until the request is complete. */
bool uaio_check_is_control(const struct uaio_sqe *sqe, uintptr_t at);

/* Return: whether at is the msghdr of a RECVMSG: the kernel writes some of it. */
bool uaio_check_is_header(const struct uaio_sqe *sqe, uintptr_t at);

/*
 * Compute a hash of memory, beginning with seed.
 * Return: false if it cannot be read.
 */
bool uaio_check_hash(uintptr_t at, size_t bytes, uint64_t *seed);

/*
 * index.c: which pieces are where. The lock is held.
 */

void uaio_check_index_init(void);
void uaio_check_index_add(struct uaio_check_part *part);
void uaio_check_index_remove(struct uaio_check_part *part);

typedef bool uaio_check_found_fn(const void *arg,
				 const struct uaio_check_part *part);

/* Return: the first piece that overlaps the memory and that function accepts, or NULL. */
struct uaio_check_part *uaio_check_index_find(uintptr_t at, size_t bytes,
					      uaio_check_found_fn *function,
					      const void *arg);

/* Without the lock. Return: false if certainly no piece overlaps the memory. */
bool uaio_check_index_may_have(uintptr_t at, size_t bytes);

/*
 * stack.c: where a thread is
 */

void uaio_check_stacks_load(void);
void uaio_check_stacks_init(void);

/* Where a thread is: its frames, the innermost first. */
struct uaio_check_walk {
	uint32_t number;    /* for its stack of calls; or 0 */
	uint32_t nr, first; /* frames; the first that is the program's */
	bool is_mixed; /* of several stacks: a handler has one of its own */
	struct uaio_check_frame frames[UAIO_CHECK_DEPTH];
};

/* Note where the calling thread is. */
void uaio_check_walk_now(struct uaio_check_walk *ret);
/* Return: the number alone. */
uint32_t uaio_check_here(void);

/*
 * Return: the stack pointer of the program when it called the library, on the only stack
 * that the thread is on; or 0.
 */
static inline uintptr_t uaio_check_sp(const struct uaio_check_walk *walk)
{
	return walk->nr && !walk->is_mixed ? walk->frames[walk->first].sp : 0;
}

/* Return: whether at is in a frame of the program's; then *ret is where that ends. */
bool uaio_check_find_holder(const struct uaio_check_walk *walk, uintptr_t at,
			    struct uaio_check_frame *ret);

/* Return: whether the frame that ended there is certainly not among those of the walk. */
bool uaio_check_has_returned(const struct uaio_check_walk *walk,
			     const struct uaio_check_frame *holder);

/* Return: false if there is none with this number. */
bool uaio_check_stack_get(uint32_t number, struct uaio_check_stack *ret);

struct uaio_check_span {
	uintptr_t begin, end;
};

/* Return: what tells the calling thread from others that live. */
static inline uintptr_t uaio_check_me(void)
{
	return (uintptr_t)&uaio_entry; /* in its thread-local storage */
}

/*
 * Return: the stack of the calling thread, if that has sp; else an empty one. A stack that
 * is not a thread's own, such as a coroutine's, is none.
 */
struct uaio_check_span uaio_check_my_stack(uintptr_t sp);

/*
 * provided.c: buffers that requests may choose. The lock is not held.
 */

void uaio_check_provided_init(void);

/* The program gives memory back, in the calling thread. */
void uaio_check_provided_memory_ends(enum uaio_check_end end, uintptr_t at,
				     size_t bytes);

/* Return: whether a buffer is on a stack. */
bool uaio_check_provided_has_stack(void);

/* The calling thread is there, on the stack. */
void uaio_check_provided_look_at_stack(const struct uaio_check_walk *walk,
				       const struct uaio_check_span *stack);

/*
 * aiocb.c: results that POSIX AIO has for a program
 */

void uaio_check_aiocbs_init(void);

/*
 * A request of the aiocb is submitted. is_in_flight: while its last one is in flight.
 * The result of that is reported as missing if it was not asked for.
 */
void uaio_check_aiocb_submitted(uintptr_t aiocb, bool is_in_flight);

/*
 * report.c: saying what was found
 */

enum uaio_check_kind {
	UAIO_CHECK_KIND_FREED,
	UAIO_CHECK_KIND_UNMAPPED,
	UAIO_CHECK_KIND_STACK,
	UAIO_CHECK_KIND_OVERLAP,
	UAIO_CHECK_KIND_CHANGED,
	UAIO_CHECK_KIND_CLOSED,
	UAIO_CHECK_KIND_PROVIDED,
	UAIO_CHECK_KIND_AIOCB,
	UAIO_CHECK_KIND_RETURN_TWICE,
	UAIO_CHECK_KIND_RETURN_MISSING,
	/* A checker in the process reports these, in its own form, as well. */
	UAIO_CHECK_KIND_UNADDRESSABLE,
	UAIO_CHECK_KIND_UNINITIALISED,
	UAIO_CHECK_KIND_TOUCHED,
	UAIO_CHECK_KIND_RACE,
	/* No errors: hint.c gives these, with their sentence in did. */
	UAIO_CHECK_KIND_HINT_CLOSED,
	UAIO_CHECK_KIND_HINT_UNREGISTERED,
	UAIO_CHECK_KIND_HINT_RANGES,
	UAIO_CHECK_KIND_HINT_DATA,
	UAIO_CHECK_KIND_HINT_UNSUBMITTED,
	UAIO_CHECK_KIND_HINT_OVERFLOW,
	UAIO_CHECK_KIND_HINT_UNSEEN,
	UAIO_CHECK_KIND_MADE, /* no error: a change that is made on purpose */
};

struct uaio_check_report {
	enum uaio_check_kind kind;
	/* The memory that it is about. */
	uintptr_t at;
	size_t bytes;
	/* Of FREED and such: what the program called; of PROVIDED: did; or NULL. */
	const char *did;
	/* Copies; op of other: UAIO_NR_OPS if there is none. */
	struct uaio_check_record record, other;
	struct uaio_check_part part, other_part;
	uint32_t now; /* where it was found: a stack's number, or 0 */
};

/* Return: a report about a part of a record. */
struct uaio_check_report
uaio_check_report_of_locked(const struct uaio_check_record *record,
			    const struct uaio_check_part *part,
			    enum uaio_check_kind kind);

/*
 * A report of a sanitizer about a request that a thread submits. The sanitizer may end the
 * process, so ours is written when it has made its own, and calls back in that thread.
 */
struct uaio_check_making {
	struct list link; /* of all threads; under the lock */
	uintptr_t thread;
	const struct uaio_check_report *report; /* borrows */
};

/* The calling thread has the sanitizer look, and maybe report; it has looked. */
void uaio_check_making_begin(struct uaio_check_making *making,
			     const struct uaio_check_report *report);
void uaio_check_making_end(struct uaio_check_making *making);
/* Return: whether the calling thread is between the two; then *ret is that report. */
bool uaio_check_making_mine(struct uaio_check_report *ret);

void uaio_check_reports_init(void);

/* Write it, unless one of the same kind and place was written before. */
void uaio_check_report(const struct uaio_check_report *report);

/* by: the checker in the process, or "none" */
/* The process makes its first request. */
void uaio_check_begun(void);

void uaio_check_summary(uint64_t nr_requests, uint64_t nr_checked,
			const char *by);

#endif /* UAIO_CHECK_CHECKINT_H */
