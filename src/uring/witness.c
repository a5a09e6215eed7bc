/* SPDX-License-Identifier: MIT */
#include "uring/witness.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "proc/ownfd.h"
#include "file/inspect.h"
#include "uring/memmap.h"

/* commands of fcntl(2) since Linux 3.15, which older headers lack */
enum { OFD_GETLK = 36, OFD_SETLK = 37 };

static int open_again(int fd, int flags, uint64_t dev, uint64_t ino)
{
	char path[UAIO_FD_PATH_BYTES];
	struct stat st;
	int again;

	uaio_fd_path(fd, path);
	again = uaio_ownfd_open_briefly(path, flags);
	if (again < 0)
		return again;
	/* Is `again` still the ring's file? Another thread may have reused fd. */
	if (sys_fstat(again, &st) == 0 && st.st_dev == dev && st.st_ino == ino)
		return again;
	uaio_ownfd_close(again);
	return -ESTALE;
}

int uaio_uring_witness_note(struct uaio_uring_mem *mem, int fd)
{
	struct stat st;

	if (sys_fstat(fd, &st) < 0)
		return -ENOMEM;
	mem->dev = st.st_dev;
	mem->ino = st.st_ino;
	return 0;
}

int uaio_uring_witness_lock(struct uaio_uring_mem *mem, int fd)
{
	const struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int ret = open_again(fd, O_RDWR, mem->dev, mem->ino), error;

	mem->is_locked = false;
	if (ret < 0)
		return ret;
	error = sys_fcntl(fd, OFD_SETLK, (long)&lock);
	mem->is_locked = error == 0;
	if (error == 0)
		return ret;
	uaio_ownfd_close(ret);
	return error;
}

int uaio_uring_witness_open(int fd, uint64_t dev, uint64_t ino)
{
	/* O_NONBLOCK: fd may be a FIFO now, and opening a FIFO would wait. */
	return open_again(fd, O_RDONLY | O_NONBLOCK | O_NOCTTY, dev, ino);
}

bool uaio_uring_witness_close(int witness)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	bool is_gone = sys_fcntl(witness, OFD_GETLK, (long)&lock) == 0 &&
		       lock.l_type == F_UNLCK;

	uaio_ownfd_close(witness);
	return is_gone;
}
