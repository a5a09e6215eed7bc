/* SPDX-License-Identifier: MIT */
#include "op/args.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/check.h"
#include "base/uaddr.h"
#include "proc/endable.h"
#include "file/file.h"
#include "op/sleeper.h"

static_assert(UAIO_ARGS_BYTES_MAX >= sizeof(struct uaio_args) + 2 * PATH_MAX,
	      "two paths fit as well");

bool uaio_args_can_read(const void *memory, uint64_t bytes)
{
	return !bytes || (uaio_is_accessible((uintptr_t)memory, bytes) &&
			  uaio_can_read((uintptr_t)memory, bytes));
}

/*
 * Measure a string of at most max bytes, including its null byte. Before this function reads a
 * page, a system call checks that the page can be read. That check takes little time
 * compared with the request's own call.
 * Return: its length, including the terminating null byte; max + 1: the string is longer;
 * 0: the string cannot be read.
 */
static uint32_t measure(const char *text, uint32_t max)
{
	enum { PAGE = 4096 }; /* the smallest page size of any machine */
	uint32_t bytes = 0;

	while (bytes < max) {
		uint32_t part =
			PAGE - (uint32_t)((uintptr_t)(text + bytes) % PAGE);
		const char *end;

		if (part > max - bytes)
			part = max - bytes;
		if (!uaio_args_can_read(text + bytes, part))
			return 0;
		end = memchr(text + bytes, '\0', part);
		if (end)
			return (uint32_t)(end - text) + 1;
		bytes += part;
	}
	return max + 1;
}

int uaio_path_measure(const char *path, bool may_be_empty, uint32_t *ret_bytes)
{
	uint32_t bytes = measure(path, PATH_MAX);

	if (!bytes)
		return -EFAULT;
	if (bytes > PATH_MAX)
		return -ENAMETOOLONG;
	if (bytes == 1 && !may_be_empty)
		return -ENOENT;
	*ret_bytes = bytes;
	return 0;
}

int uaio_name_measure(const char *name, uint32_t *ret_bytes)
{
	uint32_t bytes = measure(name, UAIO_NAME_BYTES_MAX);

	if (!bytes)
		return -EFAULT;
	if (bytes == 1 || bytes > UAIO_NAME_BYTES_MAX)
		return -ERANGE;
	*ret_bytes = bytes;
	return 0;
}

size_t uaio_args_bytes(const struct uaio_sqe *sqe)
{
	const struct uaio_args *args = sqe->args;

	return args->copied_bytes
		       ? args->copied_bytes
		       : sizeof(*args) + args->in_bytes + args->address_bytes +
				 args->path_bytes + args->name_bytes;
}

/* Copy a string. Return: the end of the copy. */
static char *copy_text(char *to, const char *text, uint32_t bytes,
		       const char **ret_text)
{
	*ret_text = NULL;
	if (!bytes)
		return to;
	memcpy(to, text, bytes);
	/* the client may have overwritten the 0 (args.h, I1) */
	to[bytes - 1] = '\0';
	*ret_text = to;
	return to + bytes;
}

void uaio_args_copy(const struct uaio_args *args, void *ret_copy)
{
	struct uaio_args *copy = ret_copy;
	char *to = (char *)(copy + 1);

	*copy = *args;
	copy->in = args->in_bytes ? memcpy(to, args->in, args->in_bytes) : NULL;
	to += args->in_bytes;
	copy->address = args->address_bytes
				? memcpy(to, args->address, args->address_bytes)
				: NULL;
	to += args->address_bytes;
	to = copy_text(to, args->path, args->path_bytes, &copy->path);
	to = copy_text(to, args->name, args->name_bytes, &copy->name);
	copy->copied_bytes = (uint32_t)(to - (char *)ret_copy);
	if (copy->sleeper)
		uaio_sleeper_get(copy->sleeper);
	for (unsigned i = 0; i < UAIO_NR_ENDS; i++)
		/*
		 * Taking a reference cannot fail, as the caller has a reference to each
		 * file.
		 */
		if (copy->files[i])
			UAIO_CHECK(uaio_file_try_get(copy->files[i]));
}

int uaio_args_fix(struct uaio_args *copy, int out, struct uaio_queue *queue,
		  uaio_args_place_fn *find)
{
	const int fds[UAIO_NR_ENDS] = { copy->fd, out };

	for (unsigned i = 0; i < UAIO_NR_ENDS; i++) {
		int ret = 0;

		if (copy->files[i])
			continue;
		if (copy->is_place[i])
			copy->files[i] = find(queue, fds[i]);
		else
			ret = uaio_file_fix(fds[i], &copy->files[i]);
		if (!copy->files[i] && ret == 0)
			ret = -EBADF;
		if (ret < 0)
			return ret == -ENOMEM ? -EAGAIN : ret;
	}
	return 0;
}

void uaio_args_advance(struct uaio_sqe *sqe, uint64_t bytes)
{
	/*
	 * The vectors are the request's own copy, so this function may change them.
	 */
	struct iovec *iov = (struct iovec *)(uintptr_t)sqe->args->in;
	uint64_t nr = sqe->args->in_bytes / sizeof(*iov);

	sqe->len -= bytes;
	sqe->args->control_bytes = 0;
	for (uint64_t i = 0; i < nr && bytes; i++) {
		size_t part = iov[i].iov_len < bytes ? iov[i].iov_len : bytes;

		iov[i].iov_base = (char *)iov[i].iov_base + part;
		iov[i].iov_len -= part;
		bytes -= part;
	}
}

void uaio_args_release(struct uaio_args *copy)
{
	if (copy->sleeper)
		uaio_sleeper_let_go(copy->sleeper);
	for (unsigned i = 0; i < UAIO_NR_ENDS; i++)
		if (copy->files[i])
			uaio_file_put(copy->files[i]);
	if (copy->endable)
		uaio_endable_put(copy->endable);
}
