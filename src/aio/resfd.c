/* SPDX-License-Identifier: MIT */
/*
 * IOCB_FLAG_RESFD: the eventfd to which each completion adds 1
 *
 * The word of a request is a value that its completion carries (sink.h). With
 * IOCB_FLAG_RESFD, the word is a reference to the eventfd's open file. If a thread with
 * its own descriptor table submits the request, the word is the descriptor itself: the
 * request completes before io_submit returns. Pointers to files are even, so the lowest
 * bit of the word shows whether it is a pointer or a descriptor.
 */
#include <errno.h>

#include "file/file.h"
#include "req/sink.h"
#include "aio/iocb.h"

static const uint64_t IS_NUMBER = 1;

static int check(const struct uaio_file *file)
{
	if (uaio_file_has(file, UAIO_FILE_F_PATH))
		return -EBADF;
	return uaio_file_has(file, UAIO_FILE_F_EVENTFD) ? 0 : -EINVAL;
}

int uaio_resfd_get(int fd, uint64_t *ret_word)
{
	struct uaio_file *file;
	int ret = uaio_file_get(fd, &file);

	if (ret < 0)
		return ret;
	ret = check(file);
	if (ret < 0)
		uaio_file_put(file);
	else
		*ret_word = (uintptr_t)file;
	return ret;
}

int uaio_resfd_get_parted(int fd, uint64_t *ret_word)
{
	struct uaio_file *file;
	int ret = uaio_file_open_parted(fd, &file);

	if (ret < 0)
		return ret;
	ret = check(file);
	uaio_file_put(file);
	if (ret == 0)
		*ret_word = (uint64_t)fd << 1 | IS_NUMBER;
	return ret;
}

void uaio_resfd_put(uint64_t word)
{
	if (word && !(word & IS_NUMBER))
		uaio_file_put((struct uaio_file *)(uintptr_t)word);
}

__attribute__((noinline)) void uaio_resfd_signal(const struct uaio_post *post)
{
	unsigned count;

	/*
	 * If successive completions have the same eventfd, one write adds the number of
	 * these completions.
	 */
	for (unsigned i = 0; i < post->nr; i += count) {
		uint64_t word = post->completions[i].word;

		count = 1;
		while (i + count < post->nr &&
		       post->completions[i + count].word == word)
			count++;
		if (word & IS_NUMBER)
			uaio_eventfd_add((int)(word >> 1), count);
		else if (word)
			uaio_file_signal((struct uaio_file *)(uintptr_t)word,
					 count);
	}
}

void uaio_resfd_drop(const struct uaio_post *post)
{
	for (unsigned i = 0; i < post->nr; i++)
		uaio_resfd_put(post->completions[i].word);
}
