/* SPDX-License-Identifier: MIT */
/* Tested by test-reports.c; that doc/check.md has each of them, by test/run/check.py. */
#include "tool/check/check.h"

#include <string.h>

#define VALID                                                                \
	"aio(7), NOTES: the control block and the buffer stay valid until "  \
	"the "                                                               \
	"operation completes. io_uring_enter(2) and io_submit(2) transfer "  \
	"the "                                                               \
	"data between submission and completion; of IORING_OP_SEND_ZC, the " \
	"notification ends the use of the buffer."

static const struct uaio_check_kind kinds[] = {
	{
		"freed-in-flight",
		"Memory was freed while a request in flight used it.",
		"freed here",
		VALID,
		"Free the memory after the completion was taken. To end the "
		"request early, cancel it, and wait for its completion all the "
		"same.",
	},
	{
		"unmapped-in-flight",
		"Memory was unmapped, moved or mapped over while a request in "
		"flight used it.",
		"unmapped here",
		VALID,
		"Unmap the memory after the completion was taken.",
	},
	{
		"stack-in-flight",
		"A request in flight uses memory of a stack frame that has "
		"returned.",
		"found here, in a later call of the thread",
		VALID,
		"Wait for the completion before the function returns, or put "
		"the memory on the heap.",
	},
	{
		"overlap-in-flight",
		"Two requests in flight use the same memory, and at least one "
		"writes to it.",
		"found here",
		"aio_read(3) and aio_write(3), NOTES: nothing else accesses "
		"the buffer during the operation. io_uring_enter(2) executes "
		"requests that are not linked in any order, also at the same "
		"time.",
		"Give each request memory of its own, or submit the second "
		"after the first has completed.",
	},
	{
		"changed-in-flight",
		"The program changed memory that a request in flight was to "
		"write or send.",
		"found here, at the completion",
		"aio(7), NOTES: the buffer does not change while the operation "
		"is in progress. io_uring_enter(2) and io_submit(2) read it at "
		"some time before the completion.",
		"Fill the buffer before the request is submitted, and use "
		"another one until the completion was taken.",
	},
	{
		"provided-touched",
		"The program changed a provided buffer that belonged to the "
		"kernel.",
		"found here",
		"io_uring_register_buf_ring(3), DESCRIPTION, and "
		"IORING_OP_PROVIDE_BUFFERS in io_uring_enter(2): the kernel "
		"chooses one of the buffers when data is there. A buffer is "
		"the kernel's until a completion has its id.",
		"Touch a buffer only between the completion with its id and "
		"the call that provides it again.",
	},
	{
		"aiocb-in-flight",
		"An aiocb was submitted again while its request was in flight.",
		"submitted again here",
		"aio_read(3) and aio_write(3), NOTES: the result is undefined "
		"if two operations use one aiocb at the same time.",
		"Use an aiocb for each request, or wait until aio_error() is "
		"no longer EINPROGRESS.",
	},
	{
		"aio-return-twice",
		"aio_return() was called twice for one request.",
		"the second call",
		"aio_return(3), DESCRIPTION: it is called once for each "
		"request.",
		"Keep the result of the first call.",
	},
	{
		"aio-return-missing",
		"aio_return() was never called for a request that completed.",
		"found here",
		"aio_return(3), DESCRIPTION: it is called once for each "
		"request, when aio_error() is no longer EINPROGRESS.",
		"Call aio_return() for each request that completed, also for "
		"those that failed.",
	},
	{
		"ring-closed-in-flight",
		"A ring was closed while requests in flight used memory of the "
		"program.",
		"closed here",
		"io_uring_queue_exit(3), DESCRIPTION, unmaps the rings and "
		"closes the descriptor. Requests in flight may go on "
		"afterwards, and no completion tells of their end.",
		"Cancel the requests, and take their completions, before the "
		"ring is closed.",
	},
	{
		"unaddressable",
		"A request was submitted with memory that the program may not "
		"use.",
		"submitted here",
		"io_uring_enter(2), io_submit(2), aio(7): the memory of a "
		"request is that of the program for as many bytes as it says.",
		"Look at the checker's own report above for the memory; "
		"compare its size with that of the request.",
	},
	{
		"uninitialised",
		"A request writes or sends memory that was never initialised.",
		"submitted here",
		"write(2), send(2): the bytes of the buffer go to the file or "
		"the peer as they are.",
		"Initialise the memory, or write fewer bytes.",
	},
};

enum { NR_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

const struct uaio_check_kind *uaio_check_kind_at(unsigned i)
{
	return i < NR_KINDS ? &kinds[i] : NULL;
}

const struct uaio_check_kind *uaio_check_kind_find(const char *name)
{
	for (unsigned i = 0; i < NR_KINDS; i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}
