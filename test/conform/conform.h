/* SPDX-License-Identifier: MIT */
/*
 * conform: one behaviour of the kernel per row
 *
 * A row makes calls as any client would, and notes what it sees as key=value
 * fields. When it is run plainly, the answers are the kernel's; under `uaio run
 * --` they are the library's; compare.py compares the two. A row states no
 * expectation: the kernel is the specification. So what a row notes must be the
 * same in every run: no addresses, no times, nothing that depends on a race.
 *
 * The calls are made by libaio's functions or by syscall(2), and return the
 * same either way: a count, or a negative errno.
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
 * How long a row waits for what has to come: no result depends on it, as a row
 * asks otherwise whether nothing comes.
 */
enum { PATIENCE_MS = 60000 };

/* A field that differs, as both note it: "key=value". */
struct pair {
	const char *kernel, *uaio;
};

/*
 * A difference that is meant: an entry of doc/differences.md. It holds as long
 * as a row shows it, with these fields and no others.
 */
struct difference {
	const char *title; /* what differs, as a sentence */
	const char *text;  /* why, and what a user should do; paragraphs */
	/*
	 * A setting of the library's, NAME=VALUE, that takes it away; and those,
	 * with blanks between them, of which it takes one; or NULL.
	 */
	const char *unless, *with;
};

/* What a row sees of a difference. */
struct showing {
	const struct difference *difference;
	const char *file_system;  /* only there; NULL: where rows usually run */
	const struct pair *pairs; /* end with a pair of NULLs */
};

struct row {
	const char *name; /* the behaviour, as a sentence */
	void (*run)(void);
	const struct showing *differs; /* NULL, or end with a difference NULL */
	const void *about, *on;        /* of one that was made: run's to know */
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
/* The rows of one file end with a row that has no name. */
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

/* To be called first: they fill in the groups whose rows are many. */
void make_matrix(void);
void make_streams(void);
void make_edges(void);
void make_polls(void);
void make_atonce(void);
void make_uring_matrix(void);
void make_posix(void);

/*
 * Add a row to the end of rows, which have room for nr_max and the one without
 * a name. Its name is as printf() would have it.
 */
__attribute__((format(printf, 4, 5))) void add_row(struct row rows[],
						   size_t nr_max,
						   const struct row *row,
						   const char *format, ...);

struct group {
	const char *name;
	const struct row *rows;
};
/* All of them; the last has no name. */
extern const struct group groups[];

/* The row being run. */
extern const struct row *this_row;

/* Prints doc/differences.md. Return: the program's exit status. */
int print_differences(void);

/*
 * The calls
 */

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
 * By syscall(2) whatever the door: libaio's io_getevents reads the handle
 * before the kernel may refuse it.
 */
long raw_getevents(aio_context_t ctx, long min_nr, long nr,
		   struct io_event *events, struct timespec *timeout);

/*
 * Notes
 */

void note(const char *key, long value);
void note_text(const char *key, const char *text);
/* A count as it is, a negative errno by its name. */
void note_result(const char *key, long result);
/* An event: its res, and what else is not as it should be. */
void note_event(const char *key, const struct io_event *event,
		const struct iocb *cb);

/* Ends the row, which is then not compared: this machine cannot run it. */
_Noreturn void skip(const char *why);
/* Ends the row, which then fails: a step that is no observation failed. */
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
/* Whether it is the aio_data of an iocb that iocb_of() made. */
bool is_serial(uint64_t data);
/* It may find that it would have to wait, and fail or not. */
void result_is_open(const struct iocb *cb);
#define RESULT_OPEN 999999999ll
/*
 * An event's res; of a poll only the bits asked for: the kernel may tell more,
 * see poll_reports_wake_up().
 */
long long result_as_asked(const struct io_event *event);
/* A poll may tell these bits or not, whoever answers it: they are left out. */
void poll_bits_are_open(const struct iocb *cb, uint16_t bits);
#define PREAD_OF(...) iocb_of(IOCB_CMD_PREAD, __VA_ARGS__)
#define PWRITE_OF(...) iocb_of(IOCB_CMD_PWRITE, __VA_ARGS__)
#define POLL_OF(fd, mask) \
	iocb_of(IOCB_CMD_POLL, fd, (void *)(uintptr_t)(mask), 0, 0)

/* Submits one request: what io_submit says. */
long submit_one(aio_context_t ctx, struct iocb *cb);

/*
 * Submits one request and notes the refusal (key=EINVAL) or what its event
 * carries (key=event:4096), waiting for it at most some seconds.
 * Return: the event's res, or what is negative where there was none.
 */
long try_one(const char *key, aio_context_t ctx, struct iocb *cb);

/* Requests on one descriptor, one after the other, each as by try_one(). */
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

/* Waits at most some seconds for up to nr events. Return: their number. */
long reap(aio_context_t ctx, long nr, struct io_event *events);
/* Takes what is there now and notes how many that were. */
void note_pending(const char *key, aio_context_t ctx);

/* A new file in the row's own directory, filled with a pattern. */
int file_of(const char *name, size_t size, int flags);
/* A block device of the file's bytes; it goes with its last descriptor. */
int loop_device_of(int backing);
unsigned char pattern_at(size_t offset);
/* Whether the memory holds what file_of() wrote at the offset. */
bool is_pattern(const void *buf, size_t nbytes, size_t offset);

/* Memory of its own mapping, page-aligned, followed by an unmapped page. */
void *pages_of(size_t nbytes, int prot);

/*
 * fork() for a process that pokes at this one and notes nothing: it must not
 * hold the row's output open, and ends with the row.
 */
pid_t fork_helper(void);
/*
 * Waits until the thread sleeps: for helpers of a thread which has but one call
 * ahead of it that can.
 */
void wait_asleep(pid_t task);
/*
 * Return: whether all other threads of this process sleep, so that what has not
 * come by now does not come by itself.
 */
bool others_sleep(void);
/* A child process that runs fn and exits with what it returns. */
int in_child(int (*fn)(void));
/*
 * Rows that fill a context to the last place: the kernel deals places out to
 * CPUs by the batch, and a row that moved would leave some behind.
 */
void stay_on_this_cpu(void);
void need_root(void);
/*
 * Whether the kernel knows RWF_NOAPPEND, and refuses files without read_iter; RWF_NOWAIT
 * of a timerfd, and of all that had it before; RWF_NOSIGNAL, and so all flags that rows
 * make requests with. Fields that assume what it does not know are left out.
 */
bool is_kernel_of_6_9(void);
bool is_kernel_of_6_10(void);
bool is_kernel_of_6_18(void);
/* Ends the row on a kernel that does not know that. */
void need_kernel_of(bool is_kernel, const char *version);
/* SIGPIPE is counted from here on. */
void count_sigpipe(void);
extern volatile sig_atomic_t nr_sigpipe;
/* A mount namespace of this row's own; mounts in it end with the row. */
void need_private_mounts(void);

#endif
