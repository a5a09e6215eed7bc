/* SPDX-License-Identifier: MIT */
/*
 * conform: each test case shows one behaviour of the kernel or the library
 *
 * A test case is a struct row. A test case makes calls as any client would, and prints
 * (notes) what it observes as key=value fields. The kernel answers when conform runs
 * alone, the library when it runs under `uaio run --`; compare.py compares the fields.
 * A test case states no expectation: the kernel is the specification. So a test case
 * must print the same in every run: no addresses, no times, nothing that depends on a
 * race.
 *
 * Test cases use the call_*() functions, which call libaio's functions or syscall(2).
 * All return a count or a negative errno.
 */
#ifndef CONFORM_H
#define CONFORM_H

#include <linux/aio_abi.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/*
 * How long a test case waits for an event that must come. No printed field depends on
 * this time.
 */
enum { PATIENCE_MS = 60000 };

/*
 * The two values of a field that differs, each as "key=value": the kernel's, then
 * uaio's.
 */
struct pair {
	const char *kernel, *uaio;
};

/*
 * An intended difference from the kernel, described in doc/differences.md. At least one
 * test case must show it, by exactly the fields that the test case lists.
 */
struct difference {
	const char *title; /* what differs, as a sentence */
	/*
	 * paragraphs, separated by newlines: what a program sees, why, and what the
	 * program's user should do
	 */
	const char *text;
	/*
	 * Environment variables of the library, as NAME=VALUE; NULL: none matters.
	 * `unless` names the variable with which the library behaves as the kernel does.
	 * `with` lists variables, separated by blanks. The difference exists only if the
	 * environment has one of these variables.
	 */
	const char *unless, *with;
};

/* How a test case shows a difference: the fields whose values differ. */
struct showing {
	const struct difference *difference;
	/*
	 * the only file system on which the fields differ; NULL: they differ on all
	 */
	const char *file_system;
	const struct pair *pairs; /* an array that ends with a pair of NULLs */
};

struct row {
	const char *name; /* the behaviour, as a sentence */
	void (*run)(void);
	/*
	 * the differences that the test case shows: NULL, or an array whose last
	 * element has `difference` NULL
	 */
	const struct showing *differs;
	/*
	 * if add_row() made the test case: what run() tests (such as an operation), and
	 * on which kind of file
	 */
	const void *about, *on;
};

#define ROW(sentence, function)                   \
	{                                         \
		.name = sentence, .run = function \
	}
#define PAIRS(...) ((const struct pair[]){ __VA_ARGS__, { NULL, NULL } })
#define SHOWINGS(...) \
	((const struct showing[]){ __VA_ARGS__, { NULL, NULL, NULL } })
#define ROW_DIFFERS(sentence, function, why, ...)                        \
	{                                                                \
		.name = sentence, .run = function,                       \
		.differs = SHOWINGS({ &why, NULL, PAIRS(__VA_ARGS__) }), \
		.about = NULL, .on = NULL                                \
	}
/* The last element of each array of test cases: it has no name, so loops stop there. */
#define NO_ROW               \
	{                    \
		.name = NULL \
	}

extern const struct row rows_setup[];
extern const struct row rows_handle[];
extern const struct row rows_ring[];
extern const struct row rows_submit[];
extern const struct row rows_memory[];
extern const struct row rows_file[];
extern const struct row rows_rw[];
extern const struct row rows_vector[];
extern const struct row rows_flags[];
extern const struct row rows_direct[];
extern const struct row rows_large[];
extern const struct row rows_whole[];
extern const struct row rows_sync[];
extern const struct row rows_poll[];
extern const struct row rows_cancel[];
extern const struct row rows_getevents[];
extern const struct row rows_signal[];
extern const struct row rows_raw[];
extern const struct row rows_compat[];
extern const struct row rows_process[];
extern struct row rows_files[];
extern struct row rows_others[];
extern struct row rows_atonce[];
extern struct row rows_stream[];
extern struct row rows_edges[];
extern struct row rows_polls[];
extern struct row rows_uring_fields[];
extern struct row rows_uring_flags[];
extern struct row rows_uring_files[];
extern const struct row rows_uring_setup[];
extern const struct row rows_uring_enter[];
extern const struct row rows_uring_cq[];
extern const struct row rows_uring_rw[];
extern const struct row rows_uring_link[];
extern const struct row rows_uring_skip[];
extern const struct row rows_uring_timeout[];
extern const struct row rows_uring_poll[];
extern const struct row rows_uring_cancel[];
extern const struct row rows_uring_random[];
extern const struct row rows_uring_register[];
extern const struct row rows_uring_fixed[];
extern const struct row rows_uring_buffers[];
extern const struct row rows_uring_msg[];
extern const struct row rows_uring_futex[];
extern const struct row rows_uring_waitid[];
extern const struct row rows_uring_mistakes[];
extern const struct row rows_uring_restrict[];
extern const struct row rows_uring_direct[];
extern const struct row rows_uring_regbuf[];
extern const struct row rows_uring_pass[];
extern const struct row rows_uring_layout[];
extern const struct row rows_uring_mixed[];
extern const struct row rows_uring_resize[];
extern const struct row rows_uring_query[];
extern const struct row rows_uring_region[];
extern const struct row rows_uring_fd[];
extern const struct row rows_uring_ring[];
extern const struct row rows_uring_socket[];
extern const struct row rows_uring_first[];
extern const struct row rows_uring_hint[];
extern const struct row rows_uring_multishot[];
extern const struct row rows_uring_bundle[];
extern const struct row rows_uring_send[];
extern struct row rows_posix_submit[];
extern const struct row rows_posix_state[];
extern const struct row rows_posix_cancel[];
extern const struct row rows_posix_list[];
extern const struct row rows_posix_notice[];
extern const struct row rows_posix_order[];

/*
 * Each function fills an array of generated test cases. main() calls them all before
 * it runs or lists any test case.
 */
void make_matrix(void);
void make_streams(void);
void make_edges(void);
void make_polls(void);
void make_atonce(void);
void make_uring_matrix(void);
void make_posix(void);

/*
 * Appends a test case to an array with space for nr_max test cases and for the last
 * element, which has no name. The format and its arguments give the new test case's
 * name.
 */
__attribute__((format(printf, 4, 5))) void add_row(struct row rows[],
						   size_t nr_max,
						   const struct row *row,
						   const char *format, ...);

struct group {
	const char *name;
	const struct row *rows;
};
/* All groups; the last has no name. */
extern const struct group groups[];

/* The test case that this process runs. */
extern const struct row *this_row;

/* Prints doc/differences.md. Return: the program's exit status. */
int print_differences(void);

/* How test cases make the system calls of kernel AIO: by libaio or by syscall(2) */

enum door { DOOR_LIBAIO, DOOR_SYSCALL };
extern enum door door;

long call_setup(unsigned int nr, aio_context_t *ctx);
long call_destroy(aio_context_t ctx);
long call_submit(aio_context_t ctx, long nr, struct iocb **iocbs);
long call_cancel(aio_context_t ctx, struct iocb *cb, struct io_event *event);
long call_getevents(aio_context_t ctx, long min_nr, long nr,
		    struct io_event *events, struct timespec *timeout);
long call_pgetevents(aio_context_t ctx, long min_nr, long nr,
		     struct io_event *events, struct timespec *timeout,
		     sigset_t *mask);

/*
 * Calls syscall(2), even if test cases otherwise use libaio. libaio's io_getevents
 * would read the ring in memory itself, without a system call.
 */
long raw_getevents(aio_context_t ctx, long min_nr, long nr,
		   struct io_event *events, struct timespec *timeout);

/* Functions that note (print) fields */

void note(const char *key, long value);
void note_text(const char *key, const char *text);
/* Prints a count as a number, or a negative errno by its name. */
void note_result(const char *key, long result);
/* Prints an event's res. Prints its res2, data and obj only if they are wrong. */
void note_event(const char *key, const struct io_event *event,
		const struct iocb *cb);

/*
 * Ends the test case because this machine cannot run it; compare.py then does not
 * compare it.
 */
_Noreturn void skip(const char *why);
/*
 * Ends the test case as failed, because a step that prepares the test failed. Nothing is
 * then known of the behaviour under test.
 */
_Noreturn void broken(const char *step);
#define REQUIRE(step) ((step) ? (void)0 : broken(#step))

/* Constants and preparatory steps that most test cases need */

#define KERNEL_ADDRESS ((void *)0xffff888000001000)
#define MS 1000000L

aio_context_t new_context(unsigned int nr);

struct iocb iocb_of(int opcode, int fd, const void *buf, size_t nbytes,
		    long long offset);
/* Return: whether data is the aio_data of an iocb that iocb_of() made. */
bool is_serial(uint64_t data);
/*
 * Declares that the request may succeed, or fail with EAGAIN. From now on its result is
 * printed as "tried" in both cases.
 */
void result_is_open(const struct iocb *cb);
#define RESULT_OPEN 999999999ll
/*
 * Return: the event's res, or RESULT_OPEN if the test case has called result_is_open()
 * for the request. A poll's res is reduced to the bits that the poll's mask requests, as
 * the kernel may report more bits (test case poll_reports_wake_up()).
 */
long long result_as_asked(const struct io_event *event);
/*
 * Declares that the poll may or may not report these bits. From now on they are left
 * out of the poll's result.
 */
void poll_bits_are_open(const struct iocb *cb, uint16_t bits);
#define PREAD_OF(...) iocb_of(IOCB_CMD_PREAD, __VA_ARGS__)
#define PWRITE_OF(...) iocb_of(IOCB_CMD_PWRITE, __VA_ARGS__)
#define POLL_OF(fd, mask) \
	iocb_of(IOCB_CMD_POLL, fd, (void *)(uintptr_t)(mask), 0, 0)

/* Submits one request. Return: what io_submit returns. */
long submit_one(aio_context_t ctx, struct iocb *cb);

/*
 * Submits one request. If the request is refused, prints its error (key=EINVAL).
 * Otherwise waits up to PATIENCE_MS for the event, and prints its result
 * (key=event:4096).
 * Return: the event's res, or a negative number if there is no event.
 */
long try_one(const char *key, aio_context_t ctx, struct iocb *cb);

/* A request for try_each(), which calls try_one() for each element of an array. */
struct request {
	const char *key;
	enum {
		PREAD = IOCB_CMD_PREAD,
		PWRITE = IOCB_CMD_PWRITE,
		PREADV = IOCB_CMD_PREADV,
		PWRITEV = IOCB_CMD_PWRITEV
	} opcode;
	const void *buf;
	size_t nbytes;
	long long offset;
};
void try_each(aio_context_t ctx, int fd, const struct request *requests);
#define TRY_EACH(ctx, fd, ...)                          \
	try_each(ctx, fd,                               \
		 (const struct request[]){ __VA_ARGS__, \
					   { NULL, PREAD, NULL, 0, 0 } })

/*
 * Waits up to PATIENCE_MS for nr events.
 * Return: how many events arrived.
 */
long reap(aio_context_t ctx, long nr, struct io_event *events);
/*
 * Consumes the events that have arrived, without waiting, and prints their number.
 */
void note_pending(const char *key, aio_context_t ctx);

/* Creates a file in the test case's own directory, and fills it with a pattern. */
int file_of(const char *name, size_t size, int flags);
/*
 * Creates a block device whose content is the file at the descriptor `backing`. The
 * kernel removes the device when the returned descriptor is closed.
 */
int loop_device_of(int backing);
unsigned char pattern_at(size_t offset);
/*
 * Return: whether the memory has the bytes that file_of() wrote at this offset of the
 * file.
 */
bool is_pattern(const void *buf, size_t nbytes, size_t offset);

/* Return: a new page-aligned mapping, followed by an inaccessible page. */
void *pages_of(size_t nbytes, int prot);

/*
 * Forks a helper process, which sends signals or data to this process and prints
 * nothing. The helper does not inherit the test case's output, and is killed when the
 * test case ends.
 */
pid_t fork_helper(void);
/*
 * Waits until the thread sleeps in any system call. So call this only if the thread can
 * sleep only in the call under test.
 */
void wait_asleep(pid_t task);
/* Waits until the process's first thread sleeps, then stops and continues the process. */
void stop_and_continue(pid_t pid);
/*
 * Return: whether all other threads of this process sleep. If they do, no thread is about
 * to post another event.
 */
bool others_sleep(void);
/* Runs fn in a child process. Return: what fn returned, as its exit status. */
int in_child(int (*fn)(void));
/*
 * Pins the thread to its CPU, for test cases that use the last free slot of a context.
 * The kernel gives each CPU several slots at once. If the thread moved to another CPU,
 * it could not use the slots that the first CPU has left.
 */
void stay_on_this_cpu(void);
void need_root(void);
/*
 * A field of a test case may need a kernel version. On an older kernel the test case
 * leaves the field out. Linux 6.9 has RWF_NOAPPEND, and refuses files without
 * read_iter. Linux 6.10 is the first to support RWF_NOWAIT for timerfds. Linux 6.18 has
 * RWF_NOSIGNAL, the last flag that test cases use.
 */
bool is_kernel_of_6_9(void);
bool is_kernel_of_6_10(void);
bool is_kernel_of_6_18(void);
/*
 * Ends the test case as skipped if `is_kernel` is false. `version` is the kernel
 * version that the test case needs.
 */
void need_kernel_of(bool is_kernel, const char *version);
/* From now on, counts each SIGPIPE in nr_sigpipe. */
void count_sigpipe(void);
extern volatile sig_atomic_t nr_sigpipe;
/*
 * Gives the test case its own mount namespace. So its mounts disappear when the test
 * case ends.
 */
void need_private_mounts(void);

#endif
