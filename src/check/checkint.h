/* SPDX-License-Identifier: MIT */
/* Declarations that the files of src/check share. check.h lists the invariants. */
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
	/* At most this number of requests in flight is checked at the same time. */
	UAIO_CHECK_RECORDS = 65536,
	/* At most this number of pieces of memory (vectors) of a request is recorded. */
	UAIO_CHECK_PARTS_MAX = 1024,
	UAIO_CHECK_FRAMES_MAX = 24,
	/* largest depth of a call stack, including frames of the library */
	UAIO_CHECK_DEPTH = 48,
};

/* A stack frame. pc: its return address; sp: its end, the caller's stack pointer. */
struct uaio_check_frame {
	uintptr_t pc, sp;
};

/* A piece of the memory that a request uses. */
struct uaio_check_part {
	struct list in_index;
	/*
	 * number of the record's next part; if this part is free: of the next free
	 * part; 0: none
	 */
	uint32_t next;
	uint32_t record;
	uintptr_t at;
	size_t bytes;
	/* true: the kernel writes this memory; false: the kernel only reads this memory */
	bool is_written;
	/*
	 * the piece is an aiocb, which the program may read while the request is in
	 * flight
	 */
	bool is_control;
	/* the program has freed the piece, and this module has reported that */
	bool is_gone;
	/* provided.c only: a provided buffer that no request has chosen yet */
	bool is_provided;
	/* asan.c and memcheck.c only: the program is forbidden to access the piece now */
	bool is_poisoned;
	/* asan.c only: shadow byte that the last granule had before the submission */
	uint8_t last_shadow;
	/*
	 * memcheck.c only, valid if `bits` is NULL: true if no bit was initialised at
	 * the submission
	 */
	bool was_undefined;
	/*
	 * memcheck.c only: the state at the submission. `has_byte_before`: the program
	 * could access the byte before the memory. `is_block`: an allocated block began
	 * where the memory begins. If one was true, but is false at the completion, the
	 * program has freed the memory.
	 */
	bool has_byte_before, is_block;
	/*
	 * owns: memcheck's V bits of the memory (which bits are initialised); NULL if
	 * all V bits are equal
	 */
	uint8_t *bits;
	/*
	 * the memory is on the stack of the submitting thread; then `holder` is valid
	 */
	bool is_on_stack;
	/* the stack frame that contains the memory */
	struct uaio_check_frame holder;
};

/* What is recorded of a request in flight. */
struct uaio_check_record {
	/* node in the list of all requests in flight */
	struct list in_flight;
	uint32_t next_free;
	uint32_t parts;
	/* number of the call stack that submitted the request (stack.c); 0: none */
	uint32_t stack;
	/* identifies the submitting thread: value of uaio_check_me() in this thread */
	uintptr_t thread;
	/*
	 * how many submitting calls of the thread had ended when it submitted this
	 * request; when this number has grown, the call that submitted the request has
	 * returned
	 */
	uint32_t call;
	uint8_t op;
	bool is_in_use;
	bool is_ordered;
	/*
	 * atomic: whether `hash` is valid; any thread may clear it, under the lock
	 */
	bool has_hash;
	int fd; /* -1: none */
	int64_t off;
	/* user_data of the request */
	uint64_t data;
	/* hash of the memory that the kernel reads */
	uint64_t hash;
	/* the argument `tail` of uaio_check_submit(); for tsan.c and helgrind.c */
	uintptr_t tail;
	/* number of the fiber that tsan.c uses for this request; 0: none */
	uint32_t fiber;
};

/* A call stack: return addresses in the program, the innermost first. */
struct uaio_check_stack {
	uint32_t nr;
	uintptr_t pcs[UAIO_CHECK_FRAMES_MAX];
};

/* record.c: keeps records of requests in flight, and of their pieces of memory */

struct uaio_check_table {
	struct uaio_lock lock; /* rank CHECK */
	/*
	 * These members are used under the lock. The arrays are mapped once, and never
	 * unmapped.
	 */
	/* array; index 0 is not used */
	struct uaio_check_record *records;
	/* array; index 0 is not used */
	struct uaio_check_part *parts;
	uint32_t nr_records, free_record;
	uint32_t nr_parts, free_part;
	struct list in_flight;
	/*
	 * list of struct uaio_check_making: reports that sanitizers are making now
	 */
	struct list making;
	/* atomic: written under the lock */
	uint32_t nr_stack_parts;
	uint64_t nr_requests, nr_checked;
};

extern struct uaio_check_table uaio_checked;

/* Return: new memory, which is never unmapped; or NULL. */
void *uaio_check_map(size_t bytes);

/*
 * Called each time the library starts: empty the table of records.
 * Return: false if the kernel refuses memory.
 */
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

/*
 * Return: a new record, or NULL if all records are in use; the number of a new part
 * (piece of memory), or 0 if all parts are in use. The record or part is not
 * initialised.
 */
struct uaio_check_record *uaio_check_record_new_locked(uint32_t *ret_number);
uint32_t uaio_check_part_new_locked(void);

void uaio_check_record_drop_locked(uint32_t number);

/*
 * check.c: checks requests at their submission
 */

/*
 * A sanitizer is about to report an error at this address in the calling thread, and
 * calls this function first. If the error is about a request, report the request.
 */
void uaio_check_reported(uintptr_t at);

/*
 * race.c: passes requests to checkers for data races. Called only if such a checker is
 * in the process.
 */

/*
 * The calling thread submits a request of this operation: order what the thread did
 * before later completions. `tail`: as in uaio_check_submit().
 */
void uaio_check_race_submit(uint8_t op, uintptr_t tail);

/*
 * Make the accesses of sqe's request known to the race checker, which may report a race.
 * `record`: the record of this request.
 */
void uaio_check_race_begin(const struct uaio_sqe *sqe,
			   struct uaio_check_record *record);

/*
 * The request is complete, and the caller drops its record next. With ThreadSanitizer,
 * keep a copy of the record, as a race may be reported later. Under helgrind or drd,
 * tell the tool that the request is complete.
 */
void uaio_check_race_note_locked(const struct uaio_check_record *record);

/*
 * The completion is about to be posted: order the request before the thread that gets the
 * completion. `record`: a copy of the record, as the record itself may be reused.
 */
void uaio_check_race_end(const struct uaio_check_record *record);

/* memory.c: lists the memory that a request uses */

typedef void uaio_check_memory_fn(void *arg, uintptr_t at, size_t bytes,
				  bool is_written);

/*
 * Call `function` for each piece of memory that the program must keep until the request
 * is complete.
 */
void uaio_check_memory_of(const struct uaio_sqe *sqe,
			  uaio_check_memory_fn *function, void *arg);

/*
 * Return: whether the memory at `at` is an aiocb that the program must keep until the request
 * is complete.
 */
bool uaio_check_is_control(const struct uaio_sqe *sqe, uintptr_t at);

/*
 * Return: whether the memory at `at` is the msghdr of a RECVMSG. The kernel writes some
 * members of this struct.
 */
bool uaio_check_is_header(const struct uaio_sqe *sqe, uintptr_t at);

/*
 * Add memory to a hash. *seed: before the call the old hash, afterwards the new hash.
 * Return: false if the memory cannot be read.
 */
bool uaio_check_hash(uintptr_t at, size_t bytes, uint64_t *seed);

/*
 * index.c: finds pieces of memory by address. The caller holds the lock of rank CHECK.
 */

void uaio_check_index_init(void);
void uaio_check_index_add(struct uaio_check_part *part);
void uaio_check_index_remove(struct uaio_check_part *part);

typedef bool uaio_check_found_fn(const void *arg,
				 const struct uaio_check_part *part);

/*
 * Return: a piece that overlaps the given memory and for which `function` returns true;
 * or NULL.
 */
struct uaio_check_part *uaio_check_index_find(uintptr_t at, size_t bytes,
					      uaio_check_found_fn *function,
					      const void *arg);

/*
 * Return: false if certainly no piece overlaps the memory; true if one may. The caller
 * need not hold the lock.
 */
bool uaio_check_index_may_have(uintptr_t at, size_t bytes);

/* stack.c: finds the call stack of a thread */

void uaio_check_stacks_load(void);
void uaio_check_stacks_init(void);

/* The stack frames of a thread, the innermost first. */
struct uaio_check_walk {
	/*
	 * number of this call stack (struct uaio_check_stack); 0: this call stack has
	 * no number
	 */
	uint32_t number;
	/* number of frames; index of the first frame that is not the library's */
	uint32_t nr, first;
	/*
	 * The frames lie on several stacks; one may be the alternate stack of a signal
	 * handler.
	 */
	bool is_mixed;
	struct uaio_check_frame frames[UAIO_CHECK_DEPTH];
};

/* Find the call stack of the calling thread. */
void uaio_check_walk_now(struct uaio_check_walk *ret);
/* Return: the number of the calling thread's call stack at this moment. */
uint32_t uaio_check_here(void);

/*
 * Return: the stack pointer that the program had when it called the library; 0 if
 * is_mixed is set.
 */
static inline uintptr_t uaio_check_sp(const struct uaio_check_walk *walk)
{
	return walk->nr && !walk->is_mixed ? walk->frames[walk->first].sp : 0;
}

/*
 * Return: whether the address `at` is in a stack frame of the program. *ret: this
 * frame.
 */
bool uaio_check_find_holder(const struct uaio_check_walk *walk, uintptr_t at,
			    struct uaio_check_frame *ret);

/*
 * Return: whether the function with the frame `holder` has certainly returned: the walk
 * shows that its frame is gone.
 */
bool uaio_check_has_returned(const struct uaio_check_walk *walk,
			     const struct uaio_check_frame *holder);

/*
 * Copy the call stack with this number to *ret.
 * Return: false if there is none.
 */
bool uaio_check_stack_get(uint32_t number, struct uaio_check_stack *ret);

struct uaio_check_span {
	uintptr_t begin, end;
};

/* Return: a value that identifies the calling thread among all living threads. */
static inline uintptr_t uaio_check_me(void)
{
	/* The address of this thread-local variable differs in each thread. */
	return (uintptr_t)&uaio_entry;
}

/*
 * Return: the bounds of the calling thread's own stack, if this stack contains sp.
 * Otherwise, for example after a switch to another stack, return an empty range.
 */
struct uaio_check_span uaio_check_my_stack(uintptr_t sp);

/*
 * provided.c: buffers that io_uring requests may choose. The caller does not hold the
 * lock of rank CHECK.
 */

void uaio_check_provided_init(void);

/*
 * The calling thread frees memory of the program. If provided buffers are in this memory,
 * record this, to report a request that chooses one of these buffers.
 */
void uaio_check_provided_memory_ends(enum uaio_check_end end, uintptr_t at,
				     size_t bytes);

/* Return: whether any provided buffer is on a stack. */
bool uaio_check_provided_has_stack(void);

/*
 * Find provided buffers on the calling thread's stack in the frame of a function that
 * has returned. Record that the program has given up their memory. The error is
 * reported when a request chooses one of these buffers.
 */
void uaio_check_provided_look_at_stack(const struct uaio_check_walk *walk,
				       const struct uaio_check_span *stack);

/* aiocb.c: checks that the program fetches each result by aio_return() */

void uaio_check_aiocbs_init(void);

/*
 * The program submits a request with this aiocb. is_in_flight: the previous request
 * with the aiocb is still in flight. If the program did not fetch the previous result
 * by aio_return(), report that.
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
	/*
	 * A sanitizer or memcheck also reports errors of these kinds, in its own
	 * format.
	 */
	UAIO_CHECK_KIND_UNADDRESSABLE,
	UAIO_CHECK_KIND_UNINITIALISED,
	UAIO_CHECK_KIND_TOUCHED,
	UAIO_CHECK_KIND_RACE,
	/*
	 * The next kinds are hints, not errors. hint.c reports hints, with a sentence
	 * in the report's member `did`.
	 */
	UAIO_CHECK_KIND_HINT_CLOSED,
	UAIO_CHECK_KIND_HINT_UNREGISTERED,
	UAIO_CHECK_KIND_HINT_RANGES,
	UAIO_CHECK_KIND_HINT_DATA,
	UAIO_CHECK_KIND_HINT_UNSUBMITTED,
	UAIO_CHECK_KIND_HINT_OVERFLOW,
	UAIO_CHECK_KIND_HINT_UNSEEN,
	/* Not an error: an injected fault changes a request. */
	UAIO_CHECK_KIND_MADE,
};

struct uaio_check_report {
	enum uaio_check_kind kind;
	/* The address of the memory that the report is about. */
	uintptr_t at;
	size_t bytes;
	/*
	 * If kind is FREED or UNMAPPED: the name of the function that the program
	 * called. If kind is PROVIDED or a hint: part of the sentence that the report
	 * contains.
	 */
	const char *did;
	/*
	 * `record`: a copy of the record of the reported request. `other`: a copy of the
	 * record of another request that the error involves. If there is none, other.op
	 * is UAIO_NR_OPS.
	 */
	struct uaio_check_record record, other;
	struct uaio_check_part part, other_part;
	/* number of the call stack at which the library found the error; 0: none */
	uint32_t now;
};

/* Return: a report about a part (piece of memory) of this record. */
struct uaio_check_report
uaio_check_report_of_locked(const struct uaio_check_record *record,
			    const struct uaio_check_part *part,
			    enum uaio_check_kind kind);

/*
 * A report that a sanitizer is making in a thread which submits a request. The
 * sanitizer may end the process afterwards, but calls uaio_check_reported() first. So
 * that function writes this module's report.
 */
struct uaio_check_making {
	/*
	 * node in the list uaio_checked.making of all such reports; under the lock
	 */
	struct list link;
	uintptr_t thread;
	const struct uaio_check_report *report; /* borrows */
};

/*
 * The calling thread makes these calls before and after it lets a sanitizer check
 * memory.
 */
void uaio_check_making_begin(struct uaio_check_making *making,
			     const struct uaio_check_report *report);
void uaio_check_making_end(struct uaio_check_making *making);
/*
 * Return: whether the calling thread has called uaio_check_making_begin(), but not yet
 * uaio_check_making_end(). If so, *ret is the report that the thread passed to
 * uaio_check_making_begin().
 */
bool uaio_check_making_mine(struct uaio_check_report *ret);

void uaio_check_reports_init(void);

/*
 * Write the report, unless this place in the program already had a report of the same
 * kind.
 */
void uaio_check_report(const struct uaio_check_report *report);

/* The process makes its first request: append the line "begun" to the report file. */
void uaio_check_begun(void);

/*
 * Write the summary when the process ends. `by`: name of the other checker in the
 * process, or "none".
 */
void uaio_check_summary(uint64_t nr_requests, uint64_t nr_checked,
			const char *by);

#endif /* UAIO_CHECK_CHECKINT_H */
