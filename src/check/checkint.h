/* SPDX-License-Identifier: MIT */
/* Shared by the files of this module; the invariants are in check.h. */
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
	/* with this number of requests in flight, further ones are not checked */
	UAIO_CHECK_RECORDS = 65536,
	/* the most vectors of one request that are recorded */
	UAIO_CHECK_PARTS_MAX = 1024,
	UAIO_CHECK_FRAMES_MAX = 24,
	/* depth of a call stack, including the library's own frames */
	UAIO_CHECK_DEPTH = 48,
};

/* A return address, and the end of the stack frame from which it returns. */
struct uaio_check_frame {
	uintptr_t pc, sp;
};

/* A piece of memory of a request. */
struct uaio_check_part {
	struct list in_index;
	/* index of the next part of its record, or of the list of free parts; 0: none */
	uint32_t next;
	uint32_t record;
	uintptr_t at;
	size_t bytes;
	bool is_written; /* the kernel writes it; otherwise the kernel reads it */
	bool is_control; /* an aiocb, which the program may read meanwhile */
	bool is_gone;    /* the program has freed it, and this was reported */
	/* for provided.c: no request has chosen this buffer yet */
	bool is_provided;
	/* For asan.c and memcheck.c. */
	bool is_poisoned;
	/* shadow byte of its last granule before the submission */
	uint8_t last_shadow;
	/* if bits is NULL: whether all bits were undefined */
	bool was_undefined;
	/* how to find out that the memory was freed: memcheck.c */
	bool has_byte_before, is_block;
	uint8_t *bits; /* owns: V bits, if they are not all equal; or NULL */
	/* For memory on the stack of the submitting thread. */
	bool is_on_stack;
	/* the end of the stack frame that contains it */
	struct uaio_check_frame holder;
};

/* A request in flight. */
struct uaio_check_record {
	struct list in_flight; /* node in the list of all records */
	uint32_t next_free;
	uint32_t parts;
	/* number of the call stack that submitted it; 0: none (stack.c) */
	uint32_t stack;
	uintptr_t thread; /* the submitting thread: uaio_check_me() */
	uint32_t call; /* calls_of() the submitting thread at the submission */
	uint8_t op;
	bool is_in_use;
	bool is_ordered;
	bool has_hash; /* atomic: other threads clear it under the lock */
	int fd;        /* -1: none */
	int64_t off;
	uint64_t data; /* user_data of the request */
	uint64_t hash; /* hash of the memory that the kernel reads */
	/* For checkers of threads. */
	uintptr_t tail;
	uint32_t fiber; /* its fiber in tsan.c; 0: none */
};

/* A call stack: return addresses in the program, the innermost first. */
struct uaio_check_stack {
	uint32_t nr;
	uintptr_t pcs[UAIO_CHECK_FRAMES_MAX];
};

/* record.c: records of requests in flight, and the pieces of memory that the requests have */

struct uaio_check_table {
	struct uaio_lock lock; /* rank CHECK */
	/* Under the lock. The arrays are mapped once, and never unmapped. */
	struct uaio_check_record *records; /* index 0 is not used */
	struct uaio_check_part *parts;     /* index 0 is not used */
	uint32_t nr_records, free_record;
	uint32_t nr_parts, free_part;
	struct list in_flight;
	struct list making;      /* list of struct uaio_check_making */
	uint32_t nr_stack_parts; /* atomic: written under the lock */
	uint64_t nr_requests, nr_checked;
};

extern struct uaio_check_table uaio_checked;

/* Return: memory that is never unmapped; or NULL. */
void *uaio_check_map(size_t bytes);

/* Return: false if memory is refused. */
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

/* Return: a new record or part, not initialised; NULL or 0 if there is none left. */
struct uaio_check_record *uaio_check_record_new_locked(uint32_t *ret_number);
uint32_t uaio_check_part_new_locked(void);

void uaio_check_record_drop_locked(uint32_t number);

/*
 * check.c
 */

/* A sanitizer is about to report an error at this address in the calling thread. */
void uaio_check_reported(uintptr_t at);

/*
 * race.c: requests as a checker for data races sees them. Called only if there is such a
 * checker.
 */

/* The calling thread submits a request of this operation. tail: see uaio_check_submit(). */
void uaio_check_race_submit(uint8_t op, uintptr_t tail);

/* The request of sqe, which has this record, begins to use its memory. */
void uaio_check_race_begin(const struct uaio_sqe *sqe,
			   struct uaio_check_record *record);

/* The request is complete; its record is dropped next. */
void uaio_check_race_note_locked(const struct uaio_check_record *record);

/* The completion is about to be posted. record: a copy. The request may have no fiber. */
void uaio_check_race_end(const struct uaio_check_record *record);

/* memory.c: which memory a request has */

typedef void uaio_check_memory_fn(void *arg, uintptr_t at, size_t bytes,
				  bool is_written);

/*
 * Call function for each piece of memory that the program must keep until the request is
 * complete.
 */
void uaio_check_memory_of(const struct uaio_sqe *sqe,
			  uaio_check_memory_fn *function, void *arg);

/*
 * Return: whether the memory at `at` is an aiocb that the program must keep until the request
 * is complete.
 */
bool uaio_check_is_control(const struct uaio_sqe *sqe, uintptr_t at);

/*
 * Return: whether the memory at `at` is the msghdr of a RECVMSG, of which the kernel writes
 * some members.
 */
bool uaio_check_is_header(const struct uaio_sqe *sqe, uintptr_t at);

/*
 * Add memory to a hash. *seed: the hash before and after. Return: false if the memory cannot
 * be read.
 */
bool uaio_check_hash(uintptr_t at, size_t bytes, uint64_t *seed);

/* index.c: finds pieces of memory by address. Called with the lock held. */

void uaio_check_index_init(void);
void uaio_check_index_add(struct uaio_check_part *part);
void uaio_check_index_remove(struct uaio_check_part *part);

typedef bool uaio_check_found_fn(const void *arg,
				 const struct uaio_check_part *part);

/* Return: a piece that overlaps the memory and that function accepts, or NULL. */
struct uaio_check_part *uaio_check_index_find(uintptr_t at, size_t bytes,
					      uaio_check_found_fn *function,
					      const void *arg);

/* Return: false if certainly no piece overlaps the memory. Called without the lock. */
bool uaio_check_index_may_have(uintptr_t at, size_t bytes);

/* stack.c: where in the program a thread is */

void uaio_check_stacks_load(void);
void uaio_check_stacks_init(void);

/* The stack frames of a thread, the innermost first. */
struct uaio_check_walk {
	uint32_t number; /* number of its struct uaio_check_stack; or 0 */
	/* number of frames; index of the first frame of the program */
	uint32_t nr, first;
	/*
	 * the frames lie on several stacks, for example also on the alternate stack of a
	 * signal handler
	 */
	bool is_mixed;
	struct uaio_check_frame frames[UAIO_CHECK_DEPTH];
};

/* Walk the calling thread's stack. */
void uaio_check_walk_now(struct uaio_check_walk *ret);
/* Return: the number of the calling thread's present call stack. */
uint32_t uaio_check_here(void);

/* Return: the program's stack pointer when it called the library; 0 if is_mixed. */
static inline uintptr_t uaio_check_sp(const struct uaio_check_walk *walk)
{
	return walk->nr && !walk->is_mixed ? walk->frames[walk->first].sp : 0;
}

/* Return: whether at is in a frame of the program; *ret: the end of this frame. */
bool uaio_check_find_holder(const struct uaio_check_walk *walk, uintptr_t at,
			    struct uaio_check_frame *ret);

/*
 * Return: whether the function of this frame has certainly returned, as the frame is not in
 * the walk.
 */
bool uaio_check_has_returned(const struct uaio_check_walk *walk,
			     const struct uaio_check_frame *holder);

/* Return: false if no stack has this number. */
bool uaio_check_stack_get(uint32_t number, struct uaio_check_stack *ret);

struct uaio_check_span {
	uintptr_t begin, end;
};

/* Return: a value that no other living thread has. */
static inline uintptr_t uaio_check_me(void)
{
	/* the address of a thread-local variable */
	return (uintptr_t)&uaio_entry;
}

/*
 * Return: the bounds of the calling thread's own stack, if sp is in it; otherwise an empty
 * range.
 */
struct uaio_check_span uaio_check_my_stack(uintptr_t sp);

/* provided.c: buffers from which requests may choose. Called without the lock. */

void uaio_check_provided_init(void);

/* The calling thread frees memory of the program. */
void uaio_check_provided_memory_ends(enum uaio_check_end end, uintptr_t at,
				     size_t bytes);

/* Return: whether a provided buffer is on a stack. */
bool uaio_check_provided_has_stack(void);

/* Check provided buffers on the calling thread's stack. */
void uaio_check_provided_look_at_stack(const struct uaio_check_walk *walk,
				       const struct uaio_check_span *stack);

/* aiocb.c: results that a program must fetch by aio_return() */

void uaio_check_aiocbs_init(void);

/*
 * A request of the aiocb is submitted. is_in_flight: the previous request of this aiocb is
 * still in flight. If the previous result was not fetched by aio_return(), report that.
 */
void uaio_check_aiocb_submitted(uintptr_t aiocb, bool is_in_flight);

/* report.c: writes reports */

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
	/* A checker in the process reports these kinds as well, in its own format. */
	UAIO_CHECK_KIND_UNADDRESSABLE,
	UAIO_CHECK_KIND_UNINITIALISED,
	UAIO_CHECK_KIND_TOUCHED,
	UAIO_CHECK_KIND_RACE,
	/* Hints, not errors: reported by hint.c, with a sentence in `did`. */
	UAIO_CHECK_KIND_HINT_CLOSED,
	UAIO_CHECK_KIND_HINT_UNREGISTERED,
	UAIO_CHECK_KIND_HINT_RANGES,
	UAIO_CHECK_KIND_HINT_DATA,
	UAIO_CHECK_KIND_HINT_UNSUBMITTED,
	UAIO_CHECK_KIND_HINT_OVERFLOW,
	UAIO_CHECK_KIND_HINT_UNSEEN,
	/* no error: an injected fault changes a request */
	UAIO_CHECK_KIND_MADE,
};

struct uaio_check_report {
	enum uaio_check_kind kind;
	/* The address of the memory in question. */
	uintptr_t at;
	size_t bytes;
	/*
	 * FREED, UNMAPPED: the function that the program called; PROVIDED, hints: part of the
	 * sentence.
	 */
	const char *did;
	/* Copies of records; other.op is UAIO_NR_OPS if no other request is involved. */
	struct uaio_check_record record, other;
	struct uaio_check_part part, other_part;
	/* number of the call stack where the error was found, or 0 */
	uint32_t now;
};

/* Return: a report about a part (piece of memory) of a record. */
struct uaio_check_report
uaio_check_report_of_locked(const struct uaio_check_record *record,
			    const struct uaio_check_part *part,
			    enum uaio_check_kind kind);

/*
 * A sanitizer's report about a request that a thread submits. As the sanitizer may end the
 * process, this module writes its own report when the sanitizer calls a function of the
 * library, in the same thread.
 */
struct uaio_check_making {
	struct list link; /* list of all threads; under the lock */
	uintptr_t thread;
	const struct uaio_check_report *report; /* borrows */
};

/* Called before and after the calling thread has a sanitizer check memory. */
void uaio_check_making_begin(struct uaio_check_making *making,
			     const struct uaio_check_report *report);
void uaio_check_making_end(struct uaio_check_making *making);
/*
 * Return: whether the calling thread is between uaio_check_making_begin() and _end(); *ret:
 * its report.
 */
bool uaio_check_making_mine(struct uaio_check_report *ret);

void uaio_check_reports_init(void);

/* Write the report, unless one of the same kind and place was written before. */
void uaio_check_report(const struct uaio_check_report *report);

/* The process makes its first request. */
void uaio_check_begun(void);

/* Write the summary when the process ends. by: the checker in the process, or "none". */
void uaio_check_summary(uint64_t nr_requests, uint64_t nr_checked,
			const char *by);

#endif /* UAIO_CHECK_CHECKINT_H */
