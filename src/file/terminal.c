/* SPDX-License-Identifier: MIT */
#include "file/terminal.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>

#include "base/sys.h"
#include "proc/ownfd.h"
#include "file/file.h"
#include "file/identity.h"

bool uaio_terminal_is(int fd)
{
	struct termios mode;
	unsigned unused;

	/* Only a master has a number to give. */
	return sys_ioctl_terminal(fd, TCGETS, &mode) == 0 &&
	       sys_ioctl_terminal(fd, TIOCGPTN, &unused) < 0;
}

/* One that was hung up says nothing any more. */
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
	int anew;

	/* With modem lines it is a serial one. */
	if (!(file_flags & UAIO_FILE_F_TERMINAL) ||
	    file_flags & UAIO_FILE_F_NONBLOCK ||
	    sys_ioctl_terminal(fd, TIOCMGET, &unused) == 0)
		return -1;
	uaio_fd_path(fd, path);
	anew = uaio_ownfd_open(path,
			       mode_of(file_flags) | O_NONBLOCK | O_NOCTTY);
	if (anew < 0)
		return -1;
	/*
	 * Asked afterwards: of a terminal that was hung up before, ours would
	 * be alive; one that is from now on takes ours with it.
	 */
	if (is_same(fd, anew))
		return anew;
	uaio_ownfd_close(anew);
	return -1;
}

bool uaio_terminal_is_still(const struct uaio_file *file, int fd)
{
	/* relaxed: it may become another's; the caller finds out */
	int anew = load_relaxed(&file->anew);

	return anew < 0 || is_same(fd, anew);
}

int uaio_terminal_number(const struct uaio_file *file, int fd,
			 uint32_t *ret_flags)
{
	/* relaxed: it stays for as long as fd is used */
	int anew = load_relaxed(&file->anew);

	if (anew < 0 || fd < 0)
		return fd;
	*ret_flags = 0;
	return anew;
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
