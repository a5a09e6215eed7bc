/* SPDX-License-Identifier: MIT */
/* Tested by test-reports.c. */
#include "tool/check/check.h"

#include <stdlib.h>
#include <string.h>

/*
 * A place, where the program makes an error, is identified by this number of innermost
 * frames of each stack. With only one frame, all errors of a liburing program would be
 * at one place, because the innermost frame always is the function that submits.
 */
enum { FRAMES = 4 };

/* Add bytes to a hash: FNV-1a. */
static uint64_t add(uint64_t hash, const void *bytes, size_t nr)
{
	for (const unsigned char *at = bytes; nr--; at++)
		hash = (hash ^ *at) * 0x100000001b3;
	return hash;
}

/*
 * Hash the pc's offset in its module, because the pc itself differs between processes.
 */
static uint64_t add_frame(uint64_t hash, const struct uaio_check_frame *frame)
{
	if (!frame->module)
		return add(hash, &frame->pc, sizeof(frame->pc));
	hash = add(hash, frame->module, strlen(frame->module));
	return add(hash, &frame->offset, sizeof(frame->offset));
}

uint64_t uaio_check_place_of(const struct uaio_report *report)
{
	uint64_t hash =
		add(0xcbf29ce484222325, report->kind, strlen(report->kind) + 1);

	/*
	 * The stacks of static programs are unknown, so distinguish places by the
	 * operation, too.
	 */
	if (report->request.operation)
		hash = add(hash, report->request.operation,
			   strlen(report->request.operation));
	for (unsigned i = 0; i < UAIO_CHECK_NR_STACKS; i++) {
		hash = add(hash, &i, sizeof(i));
		for (unsigned nr = 0; nr < report->stacks[i].nr && nr < FRAMES;
		     nr++)
			hash = add_frame(hash, &report->stacks[i].frames[nr]);
	}
	return hash;
}

struct uaio_check_place *
uaio_check_places_find(const struct uaio_check_places *places, uint64_t hash)
{
	for (unsigned i = 0; i < places->nr; i++)
		if (places->all[i].hash == hash)
			return &places->all[i];
	return NULL;
}

bool uaio_check_places_add(struct uaio_check_places *places, uint64_t hash,
			   int verdict)
{
	if (!places->all)
		places->all = uaio_check_memory(
			calloc(UAIO_CHECK_PLACES_MAX, sizeof(*places->all)));
	if (places->nr == UAIO_CHECK_PLACES_MAX)
		return false;
	places->all[places->nr++] = (struct uaio_check_place){
		.hash = hash,
		.verdict = verdict,
	};
	return true;
}
