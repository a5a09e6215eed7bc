/* SPDX-License-Identifier: MIT */
/*
 * Terminals, reopened for calls that do not block
 *
 * Terminals do not support RWF_NOWAIT. The library does not set O_NONBLOCK, a flag of
 * the open file, which other processes may share. So a read on the client's open file
 * may block for ever, if another reader consumes the input first. Input, output,
 * hang-up and job control belong to the terminal, and are the same for all its open
 * files. So the library opens the terminal again, through /proc, with O_NONBLOCK.
 *
 * The library does not reopen the following terminals. A worker executes their requests when
 * the terminal is ready.
 *   - Pseudoterminal masters: opening one would create another pseudoterminal.
 *   - Serial lines: opening one would raise its modem lines.
 *   - Terminals that cannot be opened again: they belong to another user or are exclusive
 *     (TIOCEXCL), /proc is not mounted, or no descriptor is left.
 *   - Terminals with a record lock: see locks.c.
 *   - Terminals whose name may now refer to another terminal: /dev/tty (in another session),
 *     /dev/tty0.
 *
 * Context: any thread, async-signal-safe.
 */
#ifndef UAIO_FILE_TERMINAL_H
#define UAIO_FILE_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_file;

/* Return: whether fd, a character device, is a terminal, but no pseudoterminal master. */
bool uaio_terminal_is(int fd);

/*
 * Reopen fd if it is a terminal that may be reopened. file_flags: the UAIO_FILE_F_* of fd.
 * Return: a descriptor that the library owns; -1 if fd was not reopened.
 */
int uaio_terminal_open(int fd, uint32_t file_flags);

/*
 * Return: whether fd is still the terminal for which `file` was made. The caller needs no
 * reference to `file`.
 */
bool uaio_terminal_is_still(const struct uaio_file *file, int fd);

/*
 * fd: the result of uaio_file_use().
 * Return: the descriptor for a call that must not block. If this is not fd, *ret_flags
 * becomes 0. The call then needs neither RWF_NOWAIT, because the descriptor is
 * O_NONBLOCK, nor a flag against SIGPIPE, which a write to a terminal never raises.
 */
int uaio_terminal_fd(const struct uaio_file *file, int fd, uint32_t *ret_flags);

/* Which thread may read a terminal that may have no input, and when. */
enum uaio_terminal_wait {
	/* any thread may read, at any time, on the reopened terminal */
	UAIO_TERMINAL_ANY,
	/* only a worker may read, when poll() reports input */
	UAIO_TERMINAL_READY,
	/* only a worker may read, at once: the read returns even without input */
	UAIO_TERMINAL_ENDS,
};

/*
 * Return: which thread may read fd, by the terminal's mode (termios(3)). ANY: in
 * canonical mode, or if VMIN is 1 and VTIME is 0. READY: VMIN or VTIME makes a read
 * wait for more bytes; a call with O_NONBLOCK would ignore both. ENDS: VMIN is 0.
 */
enum uaio_terminal_wait uaio_terminal_wait(int fd);

/*
 * Return: whether a read of `file`, on fd, returns even without input
 * (UAIO_TERMINAL_ENDS).
 */
bool uaio_terminal_read_ends(const struct uaio_file *file, int fd);

#endif /* UAIO_FILE_TERMINAL_H */
