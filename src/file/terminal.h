/* SPDX-License-Identifier: MIT */
/*
 * Terminals, opened anew for calls that do not block
 *
 * A terminal knows no RWF_NOWAIT, and O_NONBLOCK is a flag of the open file,
 * which others share: a call on the client's own open file may block for ever
 * when another reader was faster. But what is read and written belongs to the
 * terminal and not to the open file: lines, its end, hang-up and job control
 * are the same through any of them. So the engine opens the terminal once more,
 * by /proc, with O_NONBLOCK for itself.
 *
 * Left alone, and served by a worker when they are ready:
 *   - masters: to open one makes another pseudoterminal;
 *   - serial lines: to open one raises its modem lines;
 *   - what may not be opened again: another user's, or exclusive (TIOCEXCL), or
 *     without /proc, or with no descriptor left;
 *   - what leads elsewhere now: /dev/tty in another session, /dev/tty0.
 *
 * Context: any thread, async-signal-safe.
 */
#ifndef UAIO_FILE_TERMINAL_H
#define UAIO_FILE_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

struct uaio_file;

/* Return: whether fd, a character device, is one, and no master. */
bool uaio_terminal_is(int fd);

/*
 * Open fd anew if it is one and may be; the flags are UAIO_FILE_F_* of it.
 * Return: a number of the engine's own, or -1.
 */
int uaio_terminal_open(int fd, uint32_t file_flags);

/* Return: whether what file, borrowed, was opened anew for is what fd is. */
bool uaio_terminal_is_still(const struct uaio_file *file, int fd);

/*
 * fd is that of the file, in use (uaio_file_use()).
 * Return: the number to make a call on that is not to block, with these flags,
 * which are left as they are if it is fd. Nothing on a terminal sends SIGPIPE.
 */
int uaio_terminal_number(const struct uaio_file *file, int fd,
			 uint32_t *ret_flags);

/* When a read that would block is to be tried. */
enum uaio_terminal_wait {
	UAIO_TERMINAL_ANY,   /* at any time: a call that does not block tells */
	UAIO_TERMINAL_READY, /* only when poll() says so, and by a worker */
	UAIO_TERMINAL_ENDS,  /* at once, by a worker: it ends by itself */
};

/*
 * Without lines a read may have to wait for more bytes than one, or for a time
 * only (VMIN and VTIME of termios(3)), of which a call that does not block knows
 * nothing; and poll() says nothing of a time.
 */
enum uaio_terminal_wait uaio_terminal_wait(int fd);

/* Return: whether a read of file, on fd, ends by itself (UAIO_TERMINAL_ENDS). */
bool uaio_terminal_read_ends(const struct uaio_file *file, int fd);

#endif /* UAIO_FILE_TERMINAL_H */
