/* SPDX-License-Identifier: MIT */
/*
 * host CASE: a program that forks, execs, exits, closes and so on, with I/O
 * under way
 *
 * Each case is an unmodified client of the six calls, through syscall(2), or, if it
 * is told so, of POSIX AIO (posix.h). It
 * runs on uaio and, if the kernel has the behaviour too, on the kernel, with
 * the same expectations. On uaio workers execute all requests
 * (UAIO_FORCE_WORKER), and files may lie on a file system that answers only
 * when it is told to (test/helpers/slowfs.h), so that a queued request stays
 * queued until the case says otherwise. The kernel would wait inside io_submit
 * for such a file; there the case takes the same steps on a plain file.
 *
 * The supervisor runs a case in the current folder. The case forks the process
 * that does the work, and then examines what that has left behind.
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

/* Ends the process, whichever it is, and says where. */
#define REQUIRE(condition)                                         \
	do {                                                       \
		if (!(condition))                                  \
			host_fail(__FILE__, __LINE__, #condition); \
	} while (0)

_Noreturn void host_fail(const char *file, int line, const char *condition);

/* Ends the process: this machine or user cannot. */
_Noreturn void host_skip(const char *why);

#define NR_ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

enum { BLOCK = 512 };

/* Return: whether uaio is in this process. */
bool host_is_uaio(void);

/* Return: whether this is a build in which much is slower. */
bool host_is_sanitized(void);

/* n, or less of it where everything is slower: HOST_DIRECT, HOST_FEW_ROUNDS. */
unsigned host_rounds(unsigned n);

/*
 * The six calls: a count, or a negative errno
 */

/* Return: whether they are made by POSIX AIO (posix.h). */
bool host_is_posix(void);

long host_setup(unsigned nr, aio_context_t *ret_ctx);
aio_context_t host_context(unsigned nr);
long host_submit(aio_context_t ctx, struct iocb *iocb);
/* All of them, which must succeed. */
void host_submit_all(aio_context_t ctx, long nr, struct iocb **list);
long host_reap(aio_context_t ctx, long nr, struct io_event *events);
long host_destroy(aio_context_t ctx);
struct iocb host_iocb(int opcode, int fd, const void *buf, size_t bytes,
		      long long offset);
struct iocb host_poll(int fd);
/* Take the byte that a poll has told of. */
void host_take_polled(int fd);

/*
 * Writes of numbered blocks
 */

/*
 * Open a file, or one without a name if that is NULL, for nr blocks. With HOST_DIRECT
 * in the environment it is opened with O_DIRECT, and its blocks are there: writes of
 * them are in place, so that the kernel's own AIO may have them.
 */
int host_file(const char *path, unsigned nr);
/* Submit nr writes, of block i at place i, from first on, and no more. */
void host_write_blocks(aio_context_t ctx, int fd, unsigned first, unsigned nr);
/* The file begins with nr such blocks. */
void host_check_start(int fd, unsigned nr);
/* The file has nr such blocks and nothing else. */
void host_check_blocks(const char *path, unsigned nr);
void host_reap_blocks(aio_context_t ctx, unsigned nr);

/*
 * Processes
 */

/* Shared by the supervisor and all that descend from it. */
struct host_shared {
	uint32_t step;     /* atomic: how far the process is */
	uint32_t accepted; /* atomic: writes that io_submit has returned for */
	uint32_t is_over;  /* atomic */
};
extern struct host_shared *shared;

/* Fork a process that does it; its exit status is what it returns. */
pid_t host_start(int (*act)(void *arg), void *arg);
/* Return: its exit status, or minus the signal. */
int host_finish(pid_t pid);
int host_in_child(int (*act)(void *arg), void *arg);

/* The step is reached; a minute without ends the process. */
void host_step(unsigned step);
void host_await_step(unsigned step);
/* Return: the state that /proc has of its main thread; X if there is none. */
char host_state_of(pid_t pid);
/* The main thread of the process sleeps, or is no more. */
void host_await_sleep(pid_t pid);

/* End a process by returning from main(), with this status. */
_Noreturn void host_return(int status);

/*
 * What is there
 */

/* A slow file system in ./slow; NULL on the kernel; else skips. */
struct slowfs *host_slow(void);
/* The same, for a case that closes files while their writes are held. */
struct slowfs *host_slow_to_close(void);

/* Skips unless /proc says in which call a thread sleeps. */
void host_need_sleeps(void);

/* Return: lowest number of ours, from first on, whose link has the word; -1. */
int host_find_fd(int first, const char *word);

/* Return: threads of the engine, after act was called for each, if not NULL. */
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
