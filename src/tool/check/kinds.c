/* SPDX-License-Identifier: MIT */
/*
 * The kinds of errors that `uaio check` reports, and their texts. Tested by
 * test-reports.c. test/run/check.py compares the kinds with doc/check.md.
 */
#include "tool/check/check.h"

#include <string.h>

#define VALID                                                                 \
	"The memory of a request stays valid until its completion: its data " \
	"may be transferred at any time until then (aio(7), NOTES; "          \
	"io_submit(2); io_uring_enter(2), of IORING_OP_SEND_ZC until the "    \
	"notification)."

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
		false,
	},
	{
		"unmapped-in-flight",
		"Memory was unmapped, moved or mapped over while a request in "
		"flight used it.",
		"unmapped here",
		NULL,
		VALID,
		"Unmap the memory after the completion was taken.",
		false,
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
		false,
	},
	{
		"overlap-in-flight",
		"Two requests in flight use the same memory, and at least one "
		"writes to it.",
		"the request was submitted here",
		NULL,
		"Nothing else accesses the buffer during the operation "
		"(aio_read(3), NOTES). Requests are executed in any order, "
		"also at the same time (io_submit(2), io_uring_enter(2)).",
		"Give each request memory of its own, or submit the second "
		"after the first has completed.",
		false,
	},
	{
		"changed-in-flight",
		"The program changed memory that a request in flight was to "
		"write or send.",
		"found here, at the completion",
		NULL,
		"The buffer does not change while the operation is in progress "
		"(aio(7), NOTES). It may be read at any time until the "
		"completion (io_submit(2), io_uring_enter(2)).",
		"Fill the buffer before the request is submitted, and use "
		"another one until the completion was taken.",
		false,
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
		false,
	},
	{
		"aio-return-twice",
		"aio_return() was called twice for one request.",
		"the second call",
		NULL,
		"aio_return() is called once for each request (aio_return(3), "
		"DESCRIPTION).",
		"Keep the result of the first call.",
		false,
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
		false,
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
		false,
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
		false,
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
		false,
	},
	{
		"uninitialised",
		"A request writes or sends memory that was never initialised.",
		"submitted here",
		NULL,
		"All bytes of the buffer go to the file or the peer "
		"(write(2), send(2)).",
		"Initialise the memory, or write fewer bytes.",
		false,
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
		false,
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
		false,
	},
	/* Hints */
	{
		.name = "descriptor-closed-in-flight",
		.explanation = "A descriptor was closed while a request on it "
			       "was in flight.",
		.now = "closed here",
		.rule = "A request in flight keeps its file open, and close(2) "
			"does not cancel it (io_uring_enter(2)). The number "
			"may be another file's before the completion comes.",
		.help = "Take the completion before the descriptor is closed, "
			"or cancel the request.",
		.is_hint = true,
	},
	{
		.name = "buffers-unregistered-in-flight",
		.explanation = "Registered buffers were unregistered while a "
			       "request in flight used their memory.",
		.now = "unregistered here",
		.rule = "The memory of a request stays valid until its "
			"completion; io_uring_unregister_buffers(3) does not "
			"wait for the requests that use the buffers.",
		.help = "Take the completions before the buffers are "
			"unregistered.",
		.is_hint = true,
	},
	{
		.name = "file-ranges-overlap",
		.explanation = "Two requests in flight have bytes of one file "
			       "in common, and at least one writes them.",
		.now = "the request was submitted here",
		.rule = "Requests that are not linked are executed in any "
			"order "
			"(io_uring_enter(2), IOSQE_IO_LINK; io_submit(2)). "
			"What the file or the reader gets is not defined.",
		.help = "Link the two, or submit the second after the first "
			"has completed.",
		.is_hint = true,
	},
	{
		.name = "user-data-freed",
		.explanation = "Memory was freed to which the user_data of a "
			       "request in flight points.",
		.now = "freed here",
		.rule = "The completion carries user_data unchanged "
			"(io_uring_enter(2)). Whoever takes it may use the "
			"memory.",
		.help = "Free the memory after the completion was taken, or do "
			"not use user_data as an address.",
		.is_hint = true,
	},
	{
		.name = "sqe-not-submitted",
		.explanation = "A ring ended with submissions that were never "
			       "taken.",
		.now = "closed here",
		.rule = "The kernel takes submissions in io_uring_enter(2), or "
			"by its thread with IORING_SETUP_SQPOLL.",
		.help = "Call io_uring_submit(3), and look at how many it has "
			"submitted.",
		.is_hint = true,
	},
	{
		.name = "cq-overflow",
		.explanation = "Completions found no room in their ring.",
		.now = "put into the ring here",
		.rule = "What finds no room waits until a call of "
			"io_uring_enter(2) puts it into the ring (NOTES, "
			"IORING_FEAT_NODROP), and costs memory until then.",
		.help = "Make the ring larger (IORING_SETUP_CQSIZE), or take "
			"completions more often.",
		.is_hint = true,
	},
	{
		.name = "completion-not-seen",
		.explanation = "A ring ended with completions that the program "
			       "has not seen.",
		.now = "closed here",
		.rule = "Whether a request has failed, only its completion "
			"says (io_uring_enter(2)).",
		.help = "Take all completions, and look at their results.",
		.is_hint = true,
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
