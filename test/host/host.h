/* SPDX-License-Identifier: MIT */
/*
 * host CASE: a program that forks, execs, exits, closes and so on, with I/O in flight
 *
 * Each case is an unmodified client of the six system calls of kernel AIO, or, with
 * HOST_DOOR=posix, of POSIX AIO (posix.h). Each case runs on the library, and also on
 * the kernel if the kernel has the behaviour, with the same expectations.
 *
 * On the library, workers execute all requests (UAIO_FORCE_WORKER). A case may keep
 * requests queued by a file system that answers only when the case says so
 * (test/helpers/slowfs.h). The kernel would block inside io_submit on such a file, so
 * there the case uses a plain file.
 *
 * A supervisor runs the case in the current directory. The case forks the process that
 * does the work, then examines what this process left behind.
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

/* Check a condition; if it is false, print its place and kill the calling process. */
#define REQUIRE(condition)                                         \
	do {                                                       \
		if (!(condition))                                  \
			host_fail(__FILE__, __LINE__, #condition); \
	} while (0)

_Noreturn void host_fail(const char *file, int line, const char *condition);

/* Skip the test: end the process, because this machine or user cannot run it. */
_Noreturn void host_skip(const char *why);

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

enum { BLOCK = 512 };

/* Return: whether the library serves this process. */
bool host_is_uaio(void);

/* Return: whether this is a sanitizer build, in which much is slower. */
bool host_is_sanitized(void);

/* Return: n, or fewer if rounds are slow (HOST_DIRECT, HOST_FEW_ROUNDS, sanitizers). */
unsigned host_rounds(unsigned n);

/*
 * The six calls of kernel AIO; each returns a count or a negative errno
 */

/* Return: whether the functions below use POSIX AIO (posix.h). */
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
 * Read the byte whose arrival a poll request reported. With POSIX AIO do nothing, because
 * there a read request replaces the poll.
 */
void host_take_polled(int fd);

/*
 * Writes of numbered blocks
 */

/*
 * Open a file for nr blocks; an unnamed one if path is NULL. With HOST_DIRECT in the
 * environment, open with O_DIRECT and allocate the blocks, so that writes overwrite and
 * kernel AIO may execute them.
 */
int host_file(const char *path, unsigned nr);
/* Submit nr writes: block i at index i, starting with block `first`. */
void host_write_blocks(aio_context_t ctx, int fd, unsigned first, unsigned nr);
/* Check that the file begins with blocks 0 to nr - 1. */
void host_check_start(int fd, unsigned nr);
/* Check that the file consists of blocks 0 to nr - 1 and nothing else. */
void host_check_blocks(const char *path, unsigned nr);
void host_reap_blocks(aio_context_t ctx, unsigned nr);

/*
 * Processes
 */

/* Memory that the supervisor shares with all its descendants. */
struct host_shared {
	uint32_t step;     /* atomic: the step that the test has reached */
	uint32_t accepted; /* atomic: writes that io_submit has returned for */
	uint32_t is_over;  /* atomic */
};
extern struct host_shared *shared;

/* Fork a process that calls act and exits with its return value. */
pid_t host_start(int (*act)(void *arg), void *arg);
/* Wait for the process. Return: its exit status, or minus the signal that killed it. */
int host_finish(pid_t pid);
int host_in_child(int (*act)(void *arg), void *arg);

/* Set the step in shared memory. */
void host_step(unsigned step);
void host_await_step(unsigned step);
/* Return: the state letter of the process's main thread in /proc; X if it has ended. */
char host_state_of(pid_t pid);
/* Wait until the process's main thread sleeps or has ended. */
void host_await_sleep(pid_t pid);

/* End the process by returning `status` from main(). */
_Noreturn void host_return(int status);

/*
 * Examining the library and the machine
 */

/* Return: a slow file system mounted at ./slow; NULL on the kernel. Skip on failure. */
struct slowfs *host_slow(void);
/* Like host_slow(), for cases that close files while their writes are held. */
struct slowfs *host_slow_to_close(void);

/* Skip unless /proc shows in which system call a thread sleeps. */
void host_need_sleeps(void);

/*
 * Return: the library's lowest descriptor >= first whose /proc link has the word; else
 * -1.
 */
int host_find_fd(int first, const char *word);

/* Return: how many threads the library has. Calls act, if not NULL, for each. */
unsigned host_for_engine_threads(void (*act)(pid_t tid));

/* the cases */
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

void fork_storm(void);
void vfork_starts_at_once(void);
void vfork_numbers(void);
void vfork_makes_calls(void);
void spawn_starts_at_once(void);
void daemon_finishes(void);

void signal_storm(void);
void handler_jumps(void);

void jumps_anywhere(void);
void jumps_out_of_waits(void);
void jumps_out_of_first_calls(void);
void jumps_out_of_suspend(void);
void jumps_out_of_setuid(void);
void cancelled_anywhere(void);
void handlers_as_set(void);
void sleeps_by_any_call(void);
void sleeps_for_a_time(void);
void sleeps_as_it_was(void);
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
