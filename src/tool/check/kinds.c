/* SPDX-License-Identifier: MIT */
/* Tested by test-reports.c; that doc/check.md has each of them, by test/run/check.py. */
#include "tool/check/check.h"

#include <string.h>

#define VALID                                                                  \
	"The memory of a request stays valid until its completion (aio(7), "   \
	"NOTES). io_uring_enter(2) and io_submit(2) transfer the data at any " \
	"time until then; of IORING_OP_SEND_ZC, until the notification."

static const struct uaio_check_kind kinds[] = {
	{
		"freed-in-flight",
		"Memory was freed while a request in flight used it.",
		"freed here",
		NULL,
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
		NULL,
		VALID,
		"Unmap the memory after the completion was taken.",
	},
	{
		"stack-in-flight",
		"A request in flight uses memory of a stack frame that has "
		"returned.",
		"found here, in a later call of the thread",
		NULL,
		VALID,
		"Wait for the completion before the function returns, or put "
		"the memory on the heap.",
	},
	{
		"overlap-in-flight",
		"Two requests in flight use the same memory, and at least one "
		"writes to it.",
		"the request was submitted here",
		NULL,
		"Nothing else accesses the buffer during the operation "
		"(aio_read(3), NOTES). io_uring_enter(2) and io_submit(2) "
		"execute requests in any order, also at the same time.",
		"Give each request memory of its own, or submit the second "
		"after the first has completed.",
	},
	{
		"changed-in-flight",
		"The program changed memory that a request in flight was to "
		"write or send.",
		"found here, at the completion",
		NULL,
		"The buffer does not change while the operation is in progress "
		"(aio(7), NOTES). io_uring_enter(2) and io_submit(2) read it "
		"at any time until the completion.",
		"Fill the buffer before the request is submitted, and use "
		"another one until the completion was taken.",
	},
	{
		"aiocb-in-flight",
		"An aiocb was submitted again while its request was in flight.",
		"submitted again here",
		NULL,
		"Two operations do not use one aiocb at the same time "
		"(aio_read(3), NOTES).",
		"Use an aiocb for each request, or wait until aio_error() is "
		"no longer EINPROGRESS.",
	},
	{
		"aio-return-twice",
		"aio_return() was called twice for one request.",
		"the second call",
		NULL,
		"aio_return() is called once for each request (aio_return(3), "
		"DESCRIPTION).",
		"Keep the result of the first call.",
	},
	{
		"aio-return-missing",
		"An aiocb was submitted again without aio_return() of its last "
		"request.",
		"submitted again here",
		NULL,
		"aio_return() is called once for each request, when "
		"aio_error() is no longer EINPROGRESS (aio_return(3), "
		"DESCRIPTION).",
		"Call aio_return() for each request that completed, also for "
		"those that failed.",
	},
	{
		"ring-closed-in-flight",
		"A ring was closed while requests in flight used memory of the "
		"program.",
		"closed here",
		NULL,
		"The memory of a request stays valid until its completion, "
		"which nobody gets after io_uring_queue_exit(3): it unmaps "
		"the ring and closes it (DESCRIPTION), and requests in flight "
		"may go on.",
		"Cancel the requests, and take their completions, before the "
		"ring is closed.",
	},
	{
		"provided-freed",
		"A request has selected a provided buffer whose memory the "
		"program has given back.",
		"its memory ended here, or earlier in this thread",
		"the buffer was provided here",
		"The program frees a provided buffer once it has been "
		"consumed, and is no longer known to io_uring "
		"(io_uring_prep_provide_buffers(3), DESCRIPTION).",
		"Free the memory after a completion has given the buffer back, "
		"or after the buffers were removed "
		"(io_uring_prep_remove_buffers(3), "
		"io_uring_unregister_buf_ring(3)).",
	},
	{
		"unaddressable",
		"A request was submitted with memory that the program may not "
		"use.",
		"submitted here",
		NULL,
		"The program has all the memory that a request names "
		"(io_uring_enter(2), io_submit(2) and aio(7): addresses and "
		"lengths).",
		"Look at the checker's own report above for the memory; "
		"compare its size with that of the request.",
	},
	{
		"uninitialised",
		"A request writes or sends memory that was never initialised.",
		"submitted here",
		NULL,
		"All bytes of the buffer go to the file or the peer "
		"(write(2), send(2)).",
		"Initialise the memory, or write fewer bytes.",
	},
	{
		"touched-in-flight",
		"The program used memory that a request in flight writes to.",
		"used here",
		NULL,
		"The memory of a request is the kernel's until its completion "
		"(aio(7): the buffer must not be accessed meanwhile; it is so "
		"for io_submit(2) and io_uring_enter(2)).",
		"Look at the checker's own report above for the place; wait "
		"for the completion before the memory is used.",
	},
	{
		"race-in-flight",
		"The program used memory of a request, and neither its "
		"submission "
		"nor its completion orders the two.",
		"used here",
		NULL,
		"The memory of a request is the kernel's until its completion "
		"(aio(7): the buffer must not be accessed meanwhile; it is so "
		"for io_submit(2) and io_uring_enter(2)).",
		"Look at the checker's own report above for both places. Take "
		"the completion before the memory is used, and have threads "
		"hand it over by a lock or an atomic variable.",
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
