/* SPDX-License-Identifier: MIT */
#include "file/terminal.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>

#include "base/sys.h"
#include "proc/ownfd.h"
#include "file/file.h"
#include "file/inspect.h"
#include "file/duplicate.h"

bool uaio_terminal_is(int fd)
{
	struct termios mode;
	unsigned unused;

	/*
	 * TIOCGPTN succeeds only on a pseudoterminal master, which does not count as a
	 * terminal.
	 */
	return sys_ioctl_terminal(fd, TCGETS, &mode) == 0 &&
	       sys_ioctl_terminal(fd, TIOCGPTN, &unused) < 0;
}

/*
 * Return: whether both descriptors refer to the same terminal; false if either
 * descriptor's terminal was hung up.
 */
static bool is_same(int fd, int other)
{
	unsigned device, other_device;

	return sys_ioctl_terminal(fd, TIOCGDEV, &device) == 0 &&
	       sys_ioctl_terminal(other, TIOCGDEV, &other_device) == 0 &&
	       device == other_device;
}

static int mode_of(uint32_t file_flags)
{
	if (!(file_flags & UAIO_FILE_F_WRITE))
		return O_RDONLY;
	return file_flags & UAIO_FILE_F_READ ? O_RDWR : O_WRONLY;
}

int uaio_terminal_open(int fd, uint32_t file_flags)
{
	char path[UAIO_FD_PATH_BYTES];
	unsigned unused;
	int reopened;

	/* TIOCMGET succeeds only on a serial line, which must not be reopened. */
	if (!(file_flags & UAIO_FILE_F_TERMINAL) ||
	    file_flags & UAIO_FILE_F_NONBLOCK ||
	    sys_ioctl_terminal(fd, TIOCMGET, &unused) == 0 ||
	    uaio_fd_is_locked(fd))
		return -1;
	uaio_fd_path(fd, path);
	reopened = uaio_ownfd_open(path,
				   mode_of(file_flags) | O_NONBLOCK | O_NOCTTY);
	if (reopened < 0)
		return -1;
	/*
	 * Compare the terminals after the open. If the terminal was hung up before the
	 * open, `reopened` may be another terminal. If it is hung up later, `reopened` is
	 * hung up, too. In both cases is_same() is false.
	 */
	if (is_same(fd, reopened))
		return reopened;
	if (!uaio_kept_keep(reopened))
		uaio_ownfd_close(reopened);
	return -1;
}

bool uaio_terminal_is_still(const struct uaio_file *file, int fd)
{
	/*
	 * relaxed: if the entry is reused meanwhile, the caller notices that
	 * (uaio_file_closed())
	 */
	int reopened = load_relaxed(&file->reopened);

	return reopened < 0 || is_same(fd, reopened);
}

int uaio_terminal_fd(const struct uaio_file *file, int fd, uint32_t *ret_flags)
{
	/* relaxed: `reopened` does not change while fd is in use (uaio_file_use()) */
	int reopened = load_relaxed(&file->reopened);

	if (reopened < 0 || fd < 0)
		return fd;
	*ret_flags = 0;
	return reopened;
}

enum uaio_terminal_wait uaio_terminal_wait(int fd)
{
	struct termios mode;

	if (sys_ioctl_terminal(fd, TCGETS, &mode) < 0 || mode.c_lflag & ICANON)
		return UAIO_TERMINAL_ANY;
	if (!mode.c_cc[VMIN])
		return UAIO_TERMINAL_ENDS;
	return mode.c_cc[VMIN] > 1 || mode.c_cc[VTIME] ? UAIO_TERMINAL_READY
						       : UAIO_TERMINAL_ANY;
}

bool uaio_terminal_read_ends(const struct uaio_file *file, int fd)
{
	return file->flags & UAIO_FILE_F_TERMINAL &&
	       uaio_terminal_wait(fd) == UAIO_TERMINAL_ENDS;
}
