/* SPDX-License-Identifier: MIT */
/*
 * Terminals, reopened for calls that do not block
 *
 * Terminals do not support RWF_NOWAIT, and O_NONBLOCK is a flag of the open
 * file, which is shared with others. So a call on the client's own open file
 * may block for ever if another reader is faster. But what is read and written
 * belongs to the terminal, not to the open file: lines, their end, hang-up and
 * job control are the same for all open files of a terminal. Therefore the
 * library opens the terminal once more, by /proc, with O_NONBLOCK, for itself.
 *
 * These are not reopened; a worker executes their requests when they are ready:
 *   - masters: opening one would create another pseudoterminal;
 *   - serial lines: opening one would raise its modem lines;
 *   - terminals that cannot be opened again: because they belong to another
 *     user or are exclusive (TIOCEXCL), because there is no /proc, or because
 *     no descriptor can be had;
 *   - terminals that are locked (fcntl): see locks.c;
 *   - names that lead to another terminal now: /dev/tty in another session,
 *     /dev/tty0.
 *
 * Context: any thread, async-signal-safe.
 */
#ifndef UAIO_FILE_TERMINAL_H
#define UAIO_FILE_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_file;

/* Return: whether fd, a character device, is a terminal and not a master. */
bool uaio_terminal_is(int fd);

/*
 * Reopen fd, if that is a terminal which may be reopened. file_flags:
 * UAIO_FILE_F_* of fd.
 * Return: a descriptor of the library's own, or -1.
 */
int uaio_terminal_open(int fd, uint32_t file_flags);

/*
 * Return: whether fd is still the terminal that file (no reference) was made
 * for.
 */
bool uaio_terminal_is_still(const struct uaio_file *file, int fd);

/*
 * fd is the file's descriptor, in use (uaio_file_use()).
 * Return: the descriptor on which to make a call that must not block. If that
 * is not fd, *ret_flags becomes 0: O_NONBLOCK makes RWF flags unnecessary, and
 * a terminal never sends SIGPIPE.
 */
int uaio_terminal_fd(const struct uaio_file *file, int fd, uint32_t *ret_flags);

/* When to try a read that would block. */
enum uaio_terminal_wait {
	UAIO_TERMINAL_ANY,   /* at any time, by a call that does not block */
	UAIO_TERMINAL_READY, /* only when poll() reports it, by a worker */
	UAIO_TERMINAL_ENDS,  /* at once, by a worker, for it ends by itself */
};

/*
 * If the terminal is not in canonical mode, a read may have to wait for more
 * than one byte, or only for a time (VMIN and VTIME of termios(3)). A call that
 * does not block ignores both, and poll() ignores the time.
 */
enum uaio_terminal_wait uaio_terminal_wait(int fd);

/* Return: whether a read of file, on fd, ends by itself (UAIO_TERMINAL_ENDS). */
bool uaio_terminal_read_ends(const struct uaio_file *file, int fd);

#endif /* UAIO_FILE_TERMINAL_H */
