/* SPDX-License-Identifier: MIT */
/*
 * No bug: main() waits for a request and calls aio_return(), before it submits the same
 * aiocb again.
 *
 * expect: nothing
 */
#include <aio.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

static struct aiocb request;

static ssize_t await(struct aiocb *aiocb)
{
	const struct aiocb *list[] = { aiocb };

	while (aio_error(aiocb) == EINPROGRESS)
		aio_suspend(list, 1, NULL);
	return aio_return(aiocb);
}

int main(void)
{
	char line[64];
	int ends[2];

	if (pipe(ends))
		return 1;
	for (int i = 0; i < 3; i++) {
		memset(line, 'a' + i, sizeof(line));
		request.aio_buf = line;
		request.aio_nbytes = sizeof(line);
		request.aio_fildes = ends[1];
		if (aio_write(&request) || await(&request) != sizeof(line))
			return 1;
		request.aio_fildes = ends[0];
		if (aio_read(&request) || await(&request) != sizeof(line))
			return 1;
	}
	return 0;
}
