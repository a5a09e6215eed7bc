/* SPDX-License-Identifier: MIT */
/*
 * conform: one behaviour of the kernel per row
 *
 * A row (test case) makes calls as any client would, and notes (prints) what it observes as
 * key=value fields. The kernel answers when conform runs alone, the library when it runs
 * under `uaio run --`; compare.py compares the fields. A row states no expectation: the
 * kernel is the specification. So a row must note the same in every run: no addresses, no
 * times, nothing that depends on a race.
 *
 * Rows call libaio's functions or syscall(2). Both return a count or a negative
 * errno.
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
 * How long rows wait for an event that must come. No result depends on this
 * time.
 */
enum { PATIENCE_MS = 60000 };

/*
 * A field whose value differs: as the kernel prints it, and as uaio prints it: "key=value".
 */
struct pair {
	const char *kernel, *uaio;
};

/*
 * An intended difference, an entry of doc/differences.md. At least one row must
 * show it, with exactly the fields that the row lists.
 */
struct difference {
	const char *title; /* the difference, as a sentence */
	/* paragraphs: why it exists, and what a user should do */
	const char *text;
	/*
	 * Settings of the library, NAME=VALUE. With the setting in `unless`, the library
	 * behaves as the kernel. Without one of the settings in `with` (separated by
	 * blanks), there is no difference. NULL: there is no such setting.
	 */
	const char *unless, *with;
};

/* How a row shows a difference: by the fields whose values differ. */
struct showing {
	const struct difference *difference;
	/* only on this file system; NULL: on the usual one */
	const char *file_system;
	const struct pair *pairs; /* ends with a pair of NULLs */
};

struct row {
	const char *name; /* the behaviour, as a sentence */
	void (*run)(void);
	/* NULL, or an array whose last difference is NULL */
	const struct showing *differs;
	/* arguments of run, if add_row() made the row */
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
/* The last row of each array has no name. */
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

/* Called first: each function fills in an array of generated rows. */
void make_matrix(void);
void make_streams(void);
void make_edges(void);
void make_polls(void);
void make_atonce(void);
void make_uring_matrix(void);
void make_posix(void);

/*
 * Appends a row to rows, an array of nr_max rows and a last one without a name. The format
 * and its arguments give the new row's name.
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

/* The row being run. */
extern const struct row *this_row;

/* Prints doc/differences.md. Return: the program's exit status. */
int print_differences(void);

/* System calls of kernel AIO */

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
 * Calls syscall(2), even if rows use libaio otherwise: libaio's io_getevents would read the
 * ring in memory itself.
 */
long raw_getevents(aio_context_t ctx, long min_nr, long nr,
		   struct io_event *events, struct timespec *timeout);

/* Noting fields */

void note(const char *key, long value);
void note_text(const char *key, const char *text);
/* Notes a count as a number, a negative errno by its name. */
void note_result(const char *key, long result);
/* Notes an event's res; its res2, data and obj only if they are wrong. */
void note_event(const char *key, const struct io_event *event,
		const struct iocb *cb);

/* Ends the row, because this machine cannot run it. The row is then not compared. */
_Noreturn void skip(const char *why);
/* Fails and ends this row: a preparatory step has failed, not the behaviour under test. */
_Noreturn void broken(const char *step);
#define REQUIRE(step) ((step) ? (void)0 : broken(#step))

/*
 * Steps that most rows need
 */

#define KERNEL_ADDRESS ((void *)0xffff888000001000)
#define MS 1000000L

aio_context_t new_context(unsigned int nr);

struct iocb iocb_of(int opcode, int fd, const void *buf, size_t nbytes,
		    long long offset);
/* Return: whether data is the aio_data of an iocb that iocb_of() made. */
bool is_serial(uint64_t data);
/*
 * The request may succeed, or fail with EAGAIN. In both cases its result is noted as
 * "tried".
 */
void result_is_open(const struct iocb *cb);
#define RESULT_OPEN 999999999ll
/*
 * Return: an event's res; of a poll only the bits that its mask requests,
 * because the kernel may report more (see poll_reports_wake_up()); or
 * RESULT_OPEN.
 */
long long result_as_asked(const struct io_event *event);
/* The poll may or may not report these bits, so leave them out of its result. */
void poll_bits_are_open(const struct iocb *cb, uint16_t bits);
#define PREAD_OF(...) iocb_of(IOCB_CMD_PREAD, __VA_ARGS__)
#define PWRITE_OF(...) iocb_of(IOCB_CMD_PWRITE, __VA_ARGS__)
#define POLL_OF(fd, mask) \
	iocb_of(IOCB_CMD_POLL, fd, (void *)(uintptr_t)(mask), 0, 0)

/* Submits one request. Return: what io_submit returns. */
long submit_one(aio_context_t ctx, struct iocb *cb);

/*
 * Submits one request. Notes its error if it is refused (key=EINVAL), else the
 * result in its event (key=event:4096), for which it waits up to PATIENCE_MS.
 * Return: the event's res, or a negative number if there is no event.
 */
long try_one(const char *key, aio_context_t ctx, struct iocb *cb);

/* A request for try_each(), which calls try_one() for each element in turn. */
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

/* Waits up to PATIENCE_MS for nr events. Return: how many it got. */
long reap(aio_context_t ctx, long nr, struct io_event *events);
/* Consumes the events that are there, without waiting, and notes how many there were. */
void note_pending(const char *key, aio_context_t ctx);

/* Creates a file in the row's own directory, filled with a pattern. */
int file_of(const char *name, size_t size, int flags);
/* Creates a block device with the file's bytes. Closing it removes it. */
int loop_device_of(int backing);
unsigned char pattern_at(size_t offset);
/* Return: whether the memory holds what file_of() wrote at the offset. */
bool is_pattern(const void *buf, size_t nbytes, size_t offset);

/* Return: a new page-aligned mapping, followed by an inaccessible page. */
void *pages_of(size_t nbytes, int prot);

/*
 * Forks a helper process that acts on this process and notes nothing. The
 * helper closes its copy of the row's output, and is killed when the row ends.
 */
pid_t fork_helper(void);
/*
 * Waits until the thread sleeps. The thread must have only one call before it in which it
 * can sleep.
 */
void wait_asleep(pid_t task);
/*
 * Return: whether all other threads of this process sleep. Then an event that is missing
 * now can not arrive any more by their work.
 */
bool others_sleep(void);
/* Runs fn in a child process. Return: what fn returned, as its exit status. */
int in_child(int (*fn)(void));
/*
 * For rows that use the last free slot of a context. The kernel hands out slots to CPUs in
 * batches: if a row moved to another CPU, some slots would stay unused.
 */
void stay_on_this_cpu(void);
void need_root(void);
/*
 * Kernel versions on which fields of rows depend. Linux 6.9 has RWF_NOAPPEND, and refuses
 * files without read_iter. Linux 6.10 supports RWF_NOWAIT for timerfds, and for all files
 * that had it before. Linux 6.18 has RWF_NOSIGNAL, the last flag that rows use. Rows leave
 * out fields that need a newer kernel.
 */
bool is_kernel_of_6_9(void);
bool is_kernel_of_6_10(void);
bool is_kernel_of_6_18(void);
/* If is_kernel is false, ends the row, because the row needs that kernel version. */
void need_kernel_of(bool is_kernel, const char *version);
/* From now on, counts each SIGPIPE in nr_sigpipe. */
void count_sigpipe(void);
extern volatile sig_atomic_t nr_sigpipe;
/* Gives the row its own mount namespace. Its mounts end with the row. */
void need_private_mounts(void);

#endif
