/* SPDX-License-Identifier: MIT */
/*
 * No bug: main() waits for an eventfd that signals the end of the write. After
 * io_getevents() has returned the event, main() changes the buffer for the next write.
 *
 * expect: nothing
 */
#include <libaio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

static char block[4096];

int main(void)
{
	char path[] = "/tmp/aio-eventfd-XXXXXX";
	struct iocb request, *requests = &request;
	int file = mkstemp(path), ended = eventfd(0, 0);
	io_context_t context = NULL;
	struct io_event event;
	uint64_t nr;

	if (file < 0 || ended < 0 || unlink(path) || io_setup(4, &context))
		return 1;
	for (int i = 0; i < 20; i++) {
		memset(block, i, sizeof(block));
		io_prep_pwrite(&request, file, block, sizeof(block),
			       i * (long long)sizeof(block));
		io_set_eventfd(&request, ended);
		if (io_submit(context, 1, &requests) != 1 ||
		    read(ended, &nr, sizeof(nr)) != sizeof(nr) ||
		    io_getevents(context, 1, 1, &event, NULL) != 1 ||
		    event.res != sizeof(block))
			return 1;
	}
	return io_destroy(context) != 0;
}
