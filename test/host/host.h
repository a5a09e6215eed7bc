/* SPDX-License-Identifier: MIT */
/*
 * host CASE: a program that forks, execs, exits, closes and so on with I/O in flight
 *
 * Each case is an ordinary program that uses the six system calls of kernel AIO, or,
 * with HOST_DOOR=posix, POSIX AIO (posix.h). Each case runs with the library. If the
 * kernel has the tested behaviour, the case also runs without the library and expects
 * the same results.
 *
 * With the library, workers execute all requests (UAIO_FORCE_WORKER). A case can keep
 * requests waiting in a file system that answers only when the case says so
 * (test/helpers/slowfs.h). Without the library, io_submit would block on such a file,
 * so the case then uses a plain file.
 *
 * A supervisor process runs the case in the current directory. It forks a process that
 * does the work. When that process has ended, the supervisor examines the files that the
 * process has left.
 */
#ifndef HOST_H
#define HOST_H

#include <linux/aio_abi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#include "slowfs.h"

/*
 * Check a condition. If it is false, print the source line and kill the calling
 * process.
 */
#define REQUIRE(condition)                                         \
	do {                                                       \
		if (!(condition))                                  \
			host_fail(__FILE__, __LINE__, #condition); \
	} while (0)

_Noreturn void host_fail(const char *file, int line, const char *condition);

/*
 * End the process with the status for a skipped test: this machine or user cannot run
 * the test.
 */
_Noreturn void host_skip(const char *why);

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

enum { BLOCK = 512 };

/* Return: whether the library executes this process's requests. */
bool host_is_uaio(void);

/*
 * Return: whether this program was built with a sanitizer, which makes it much slower.
 */
bool host_is_sanitized(void);

/*
 * Return: how many rounds to run: n, or fewer if rounds take long. They do with a
 * sanitizer, or if HOST_DIRECT or HOST_FEW_ROUNDS is in the environment.
 */
unsigned host_rounds(unsigned n);

/*
 * The six calls of kernel AIO. Each function returns a count or a negative errno.
 */

/* Return: whether the functions of this header use POSIX AIO (posix.h). */
bool host_is_posix(void);

long host_setup(unsigned nr, aio_context_t *ret_ctx);
aio_context_t host_context(unsigned nr);
long host_submit(aio_context_t ctx, struct iocb *iocb);
/* Submit all nr requests; fail if io_submit accepts fewer. */
void host_submit_all(aio_context_t ctx, long nr, struct iocb **list);
long host_reap(aio_context_t ctx, long nr, struct io_event *events);
long host_destroy(aio_context_t ctx);
struct iocb host_iocb(int opcode, int fd, const void *buf, size_t bytes,
		      long long offset);
struct iocb host_poll(int fd);
/*
 * Call this after a poll request has reported a byte: read the byte. With POSIX AIO do
 * nothing: POSIX AIO has no poll, so there the request itself was a read of the byte.
 */
void host_take_polled(int fd);

/*
 * Writes of numbered blocks: each block contains its number
 */

/*
 * Open a file for nr blocks; if path is NULL, a file without a name. If HOST_DIRECT is
 * in the environment, open with O_DIRECT and allocate the blocks. Writes then overwrite
 * blocks, so that the kernel's own AIO can execute them.
 */
int host_file(const char *path, unsigned nr);
/*
 * Submit nr writes, one for each block from number `first` on. Block i is written to
 * the offset of the i-th block of the file.
 */
void host_write_blocks(aio_context_t ctx, int fd, unsigned first, unsigned nr);
/* Check that the file begins with blocks 0 to nr - 1. */
void host_check_start(int fd, unsigned nr);
/* Check that the file consists of blocks 0 to nr - 1 and nothing else. */
void host_check_blocks(const char *path, unsigned nr);
void host_reap_blocks(aio_context_t ctx, unsigned nr);

/*
 * Starting processes, and waiting for them
 */

/* Memory that the supervisor shares with all its descendants. */
struct host_shared {
	uint32_t step;     /* atomic: the test's present step */
	uint32_t accepted; /* atomic: how many writes io_submit has accepted */
	uint32_t is_over;  /* atomic */
};
extern struct host_shared *shared;

/* Fork a process that calls act and exits with its return value. */
pid_t host_start(int (*act)(void *arg), void *arg);
/*
 * Wait until the process ends.
 * Return: its exit status; if a signal killed it, the negative number of the signal.
 */
int host_finish(pid_t pid);
int host_in_child(int (*act)(void *arg), void *arg);

/*
 * Set the step, a number in the shared memory. host_await_step() waits until the step is
 * at least this number.
 */
void host_step(unsigned step);
void host_await_step(unsigned step);
/* Return: the state letter of the process's main thread in /proc; X if it has ended. */
char host_state_of(pid_t pid);
/* Wait until the process's main thread sleeps or has ended. */
void host_await_sleep(pid_t pid);

/* End the process by returning `status` from main(). */
_Noreturn void host_return(int status);

/*
 * Functions that examine the library and the machine
 */

/*
 * Mount a slow file system at ./slow. Skip the test if that fails.
 * Return: the file system; NULL without the library.
 */
struct slowfs *host_slow(void);
/*
 * Like host_slow(), but also skip the test if close() of a file would wait for writes
 * that the file system holds.
 */
struct slowfs *host_slow_to_close(void);

/* Skip the test unless /proc shows in which system call a thread sleeps. */
void host_need_sleeps(void);

/*
 * Return: the lowest descriptor, not below `first`, whose link in /proc/self/fd
 * contains `word`; -1 if there is none. The library's descriptors are 512 and higher.
 */
int host_find_fd(int first, const char *word);

/*
 * Call `act`, if it is not NULL, for each thread of the library.
 * Return: how many threads the library has.
 */
unsigned host_for_engine_threads(void (*act)(pid_t tid));

/* The cases; each function is one CASE. */
void leaving_slow(void);
void leaving_behind_reads(void);
void leaving_in_segments(void);
void leaving_fast(void);
void leaving_terminals(void);
void leaving_late(void);
void leaving_by_pthread_exit(void);
void without_proc(void);
void exit_refuses_nobody(void);
void exec_fails(void);
void exec_fails_often(void);
void exec_loses_nothing(void);
void handler_exits(void);

void numbers_regular(void);
void numbers_polled(void);
void numbers_directory(void);
void numbers_login(void);
void numbers_of_threads(void);
void numbers_of_engine(void);
void numbers_of_engine_storm(void);
void numbers_being_opened(void);
void close_all_first(void);
void close_behind_reads(void);
void close_while_held(void);

void lingering_close(void);
void lingering_range(void);

void tables_of_threads(void);
void table_of_cloned(void);
void table_of_signalled(void);

void fork_storm(void);
void vfork_starts_at_once(void);
void vfork_numbers(void);
void vfork_makes_calls(void);
void spawn_starts_at_once(void);
void daemon_finishes(void);

void signal_storm(void);
void handlers_together(void);
void handler_jumps(void);

void jumps_anywhere(void);
void jumps_out_of_waits(void);
void jumps_out_of_first_calls(void);
void jumps_out_of_suspend(void);
void jumps_by_completions(void);
void jumps_out_of_setuid(void);
void cancelled_anywhere(void);
void handlers_as_set(void);
void sleeps_by_any_call(void);
void sleeps_for_a_time(void);
void sleeps_as_it_was(void);
void sleeps_once(void);
void sleeps_interrupted(void);
void sleeps_left(void);
void sleeps_left_for_good(void);
void sleeps_cancelled(void);
void sleeps_together(void);
void sleeps_without_memory(void);
void sleeps_destroyed(void);
void sleeps_in_children(void);
void bells_by_any_call(void);
void bells_replaced(void);
void bells_in_epolls(void);
void bells_together(void);
void errno_stays(void);
void dispositions_stay(void);
void threads_behave(void);
void ioprio_stays(void);
void ids_change(void);

void control_numbers(void);
void control_cancel(void);
void control_threads(void);

void limit_descriptors(void);
void limit_threads(void);
void share_of_descriptors(void);
void share_is_used_up(void);
void limit_memory(void);
void memory_locked(void);

void native_leaving(void);
void native_forking(void);
void native_numbers(void);
void native_numbers_of_engine(void);
void native_jumps(void);
void native_ring_alone(void);
void native_told(void);
void native_destroying(void);
void native_cancelling(void);
void native_order(void);
void native_edges(void);
void native_holes(void);
void native_closing(void);
void native_failing(void);
void native_vfork(void);
void native_daemon(void);
void native_without_descriptors(void);
void native_without_quota(void);
void native_refused_later(void);
void native_killed_later(void);
void native_ids_in_children(void);
void native_slow(void);

#endif /* HOST_H */
