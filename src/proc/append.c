/* SPDX-License-Identifier: MIT */
/* Tested by src/issue/test-fault.c. */
#include "proc/append.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/signals.h"
#include "base/sys.h"
#include "proc/ownfd.h"

bool uaio_append_exceeds(int fd, size_t len)
{
	struct rlimit limit;
	struct stat st;

	return sys_getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
	       limit.rlim_cur != RLIM_INFINITY && sys_fstat(fd, &st) == 0 &&
	       S_ISREG(st.st_mode) &&
	       (uint64_t)st.st_size + len > limit.rlim_cur;
}

int uaio_append(const char *path, const char *text, size_t len)
{
	int fd = uaio_ownfd_open_briefly(path, O_WRONLY | O_CREAT | O_APPEND);
	ssize_t written;

	if (fd < 0)
		return fd;
	written = uaio_append_exceeds(fd, len) ? -EFBIG
					       : uaio_write_text(fd, text, len);
	uaio_ownfd_close(fd);
	return written == (ssize_t)len ? 0
	       : written < 0           ? (int)written
				       : -ENOSPC;
}
