/* SPDX-License-Identifier: MIT */
/*
 * The bug: main() wipes a password from memory while an aio_write() of it is in
 * flight.
 * To mend it: wipe the memory after aio_error() has returned something else than
 * EINPROGRESS.
 *
 * expect: changed-in-flight
 */
#define _GNU_SOURCE 1
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static char password[] = "open sesame", drain[4096];
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
	int ends[2];

	if (pipe(ends) || fcntl(ends[1], F_SETPIPE_SZ, sizeof(drain)) < 0 ||
	    write(ends[1], drain, sizeof(drain)) != sizeof(drain)) /* full */
		return 1;
	request.aio_fildes = ends[1];
	request.aio_buf = password;
	request.aio_nbytes = sizeof(password);
	if (aio_write(&request)) /* expect: submitted */
		return 1;
	explicit_bzero(password, sizeof(password)); /* the bug */
	if (read(ends[0], drain, sizeof(drain)) < 0)
		return 1;
	return await(&request) < 0;
}
