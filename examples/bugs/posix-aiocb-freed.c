/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() frees the aiocb of a read that is in flight; the library writes the
 * read's result to the aiocb.
 * To mend it: free the aiocb after aio_return().
 *
 * expect: freed-in-flight
 */
#include <aio.h>
#include <stdlib.h>
#include <unistd.h>

static char buffer[4096];

int main(void)
{
	struct aiocb *request = calloc(1, sizeof(*request));
	int ends[2];

	if (!request || pipe(ends))
		return 1;
	request->aio_fildes = ends[0];
	request->aio_buf = buffer;
	request->aio_nbytes = sizeof(buffer);
	if (aio_read(request)) /* expect: submitted */
		return 1;
	free(request); /* expect: now */
	return 0;
}
