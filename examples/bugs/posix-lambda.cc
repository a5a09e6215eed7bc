/* SPDX-License-Identifier: MIT */
/*
 * The bug: start() returns a function that finishes the read, and deletes the
 * read's buffer as it returns, while the read is in flight.
 * To mend it: move the std::unique_ptr into the captures of that function.
 *
 * expect: freed-in-flight
 * alone: valgrind
 */
#include <aio.h>
#include <cerrno>
#include <functional>
#include <memory>
#include <unistd.h>

static aiocb request;

static std::function<ssize_t()> start(int fd)
{
	auto buffer = std::make_unique<char[]>(4096);

	request.aio_fildes = fd;
	request.aio_buf = buffer.get();
	request.aio_nbytes = 4096;
	if (aio_read(&request)) /* expect: submitted */
		return nullptr;
	return [] {
		while (aio_error(&request) == EINPROGRESS)
			usleep(1000);
		return aio_return(&request);
	};
} /* expect: now */

int main()
{
	int ends[2];

	if (pipe(ends))
		return 1;
	auto finish = start(ends[0]);
	if (!finish)
		return 1;
	close(ends[1]);
	return finish() < 0;
}
