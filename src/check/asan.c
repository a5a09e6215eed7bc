/* SPDX-License-Identifier: MIT */
/*
 * AddressSanitizer: poison the memory of requests in flight (checker.h). Tested by
 * test/run/checkers.py.
 */
#include "check/checker.h"

#include <dlfcn.h>
#include <string.h>

#include "base/check.h"
#include "check/checkint.h"

enum {
	GRANULE = 8,
	/* The value of the shadow byte that __asan_poison_memory_region() sets. */
	POISONED = 0xf7,
};

/*
 * Functions of AddressSanitizer, from <asan_interface.h>; NULL if the process runs
 * without AddressSanitizer.
 */
static struct {
	void *(*find)(void *at, size_t bytes);
	void (*report)(void *pc, void *bp, void *sp, void *at, int is_write,
		       size_t bytes, unsigned experiment);
	void *(*reported_at)(void);
	/* shadow memory: address of the shadow byte of address 0 */
	uintptr_t offset;
} asan;

static void *look_up(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static void on_report(const char *text)
{
	uintptr_t at = (uintptr_t)asan.reported_at();

	(void)text;
	if (at)
		uaio_check_reported(at);
}

void uaio_asan_init(void)
{
	void (*get_shadow)(size_t * scale, size_t * offset);
	void (*set_callback)(void (*)(const char *));
	size_t scale, offset;

	if (asan.find)
		return;
	*(void **)&get_shadow = look_up("__asan_get_shadow_mapping");
	*(void **)&set_callback = look_up("__asan_set_error_report_callback");
	*(void **)&asan.report = look_up("__asan_report_error");
	*(void **)&asan.reported_at = look_up("__asan_get_report_address");
	if (!get_shadow || !set_callback || !asan.report || !asan.reported_at)
		return;
	get_shadow(&scale, &offset);
	if ((size_t)1 << scale != GRANULE)
		return;
	asan.offset = offset;
	*(void **)&asan.find = look_up("__asan_region_is_poisoned");
	if (asan.find)
		set_callback(on_report);
}

bool uaio_asan_is_here(void)
{
	return asan.find;
}

uintptr_t uaio_asan_function(void)
{
	return (uintptr_t)asan.find;
}

uintptr_t uaio_asan_find(uintptr_t at, size_t bytes)
{
	return asan.find ? (uintptr_t)asan.find((void *)at, bytes) : 0;
}

static uint8_t *shadow_of(uintptr_t at)
{
	return (uint8_t *)(at / GRANULE + asan.offset);
}

static uintptr_t last_of(const struct uaio_check_part *part)
{
	return (part->at + part->bytes - 1) / GRANULE * GRANULE;
}

/*
 * Return: the shadow byte of the granule (8 bytes of memory) while a request uses the
 * bytes from address `at` to the granule's end.
 */
static uint8_t poisoned_from(uintptr_t at, uintptr_t granule)
{
	return at > granule ? (uint8_t)(at - granule) : POISONED;
}

/*
 * Marks functions that access the shadow memory. The sanitizer must not check these
 * functions.
 */
#define NO_ASAN __attribute__((no_sanitize_address))

/*
 * Return: whether the part (piece of a request's memory) contains the last byte of the
 * granule that the program may use. Only then may the granule be poisoned, because poison
 * covers all bytes up to the granule's end.
 */
static NO_ASAN bool ends_in(const struct uaio_check_part *part,
			    uintptr_t granule)
{
	uint8_t shadow = *shadow_of(granule);
	uintptr_t usable = granule + (shadow ? shadow : GRANULE);

	return shadow < GRANULE && usable > part->at &&
	       usable <= part->at + part->bytes;
}

/*
 * Eight shadow bytes, which one access reads or writes. This saves time: most granules
 * are in the middle of a part (piece of a request's memory), and so need equal bytes.
 */
typedef uint64_t __attribute__((may_alias, aligned(1))) eight;

enum { EIGHT = 8 * GRANULE };
static const uint64_t EIGHT_POISONED = UINT64_C(0xf7f7f7f7f7f7f7f7);

/*
 * Change the shadow of eight granules, which begin at `granule`, from `from` to `to`.
 * Change nothing unless all eight are in the part (piece of a request's memory) and
 * have the shadow `from`, and none is the part's last granule.
 * Return: whether the shadow was changed.
 */
static NO_ASAN bool turn_eight(const struct uaio_check_part *part,
			       uintptr_t granule, uintptr_t last, uint64_t from,
			       uint64_t to)
{
	eight *shadow = (eight *)shadow_of(granule);

	if (granule < part->at || last - granule < EIGHT || *shadow != from)
		return false;
	*shadow = to;
	return true;
}

NO_ASAN void uaio_asan_poison(struct uaio_check_part *part)
{
	uintptr_t first = part->at / GRANULE * GRANULE, last = last_of(part);

	if (!asan.find || !part->is_written)
		return;
	part->is_poisoned = true;
	part->last_shadow = *shadow_of(last);
	for (uintptr_t at = first; at <= last; at += GRANULE)
		if (turn_eight(part, at, last, 0, EIGHT_POISONED))
			at += EIGHT - GRANULE;
		else if (ends_in(part, at))
			*shadow_of(at) = poisoned_from(part->at, at);
}

NO_ASAN void uaio_asan_unpoison(struct uaio_check_part *part)
{
	uintptr_t first = part->at / GRANULE * GRANULE, last = last_of(part);

	if (!part->is_poisoned)
		return;
	for (uintptr_t at = first; at <= last; at += GRANULE)
		if (turn_eight(part, at, last, EIGHT_POISONED, 0))
			at += EIGHT - GRANULE;
		else if (*shadow_of(at) == poisoned_from(part->at, at))
			*shadow_of(at) = at == last ? part->last_shadow : 0;
	part->is_poisoned = false;
}

void uaio_asan_report(uintptr_t pc, uintptr_t at, size_t bytes, bool is_written)
{
	void *frame = __builtin_frame_address(0);

	asan.report((void *)pc, frame, frame, (void *)at, is_written, bytes, 0);
}
