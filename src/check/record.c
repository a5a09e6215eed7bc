/* SPDX-License-Identifier: MIT */
/*
 * Keeps the records of requests in flight (check.h, I1 and I2). Tested by test-check.c.
 */
#include "check/checkint.h"

#include <sys/mman.h>

#include "base/atomic.h"
#include "base/check.h"
#include "base/sys.h"
#include "op/op.h"
#include "check/check.h"
#include "check/checker.h"

enum {
	PARTS = 262144,
};

struct uaio_check_table uaio_checked;

void *uaio_check_map(size_t bytes)
{
	void *memory = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);

	return sys_is_map_error(memory) ? NULL : memory;
}

bool uaio_check_records_init(void)
{
	uaio_checked.lock = (struct uaio_lock){ 0 };
	if (!uaio_checked.records) {
		uaio_checked.records = uaio_check_map(
			UAIO_CHECK_RECORDS * sizeof(*uaio_checked.records));
		uaio_checked.parts =
			uaio_check_map(PARTS * sizeof(*uaio_checked.parts));
	}
	uaio_checked.nr_records = uaio_checked.nr_parts = 1;
	uaio_checked.free_record = uaio_checked.free_part = 0;
	uaio_checked.nr_requests = uaio_checked.nr_checked = 0;
	list_init(&uaio_checked.in_flight);
	list_init(&uaio_checked.making);
	store_relaxed(&uaio_checked.nr_stack_parts, 0);
	return uaio_checked.records && uaio_checked.parts;
}

struct uaio_check_record *uaio_check_record_new_locked(uint32_t *ret_number)
{
	uint32_t number = uaio_checked.free_record;

	if (number)
		uaio_checked.free_record = uaio_check_record(number)->next_free;
	else if (uaio_checked.nr_records < UAIO_CHECK_RECORDS)
		number = uaio_checked.nr_records++;
	*ret_number = number;
	return number ? uaio_check_record(number) : NULL;
}

uint32_t uaio_check_part_new_locked(void)
{
	uint32_t number = uaio_checked.free_part;

	if (number)
		uaio_checked.free_part = uaio_check_part(number)->next;
	else if (uaio_checked.nr_parts < PARTS)
		number = uaio_checked.nr_parts++;
	return number;
}

static void drop_parts_locked(struct uaio_check_record *record)
{
	while (record->parts) {
		uint32_t number = record->parts;
		struct uaio_check_part *part = uaio_check_part(number);

		record->parts = part->next;
		uaio_checker_give_back(part);
		if (!part->is_gone)
			uaio_check_index_remove(part);
		sub_relaxed(&uaio_checked.nr_stack_parts, part->is_on_stack);
		part->next = uaio_checked.free_part;
		uaio_checked.free_part = number;
	}
}

void uaio_check_record_drop_locked(uint32_t number)
{
	struct uaio_check_record *record = uaio_check_record(number);

	UAIO_CHECK(record->is_in_use);
	drop_parts_locked(record);
	list_remove(&record->in_flight);
	record->is_in_use = false;
	record->next_free = uaio_checked.free_record;
	uaio_checked.free_record = number;
}

struct uaio_check_report
uaio_check_report_of_locked(const struct uaio_check_record *record,
			    const struct uaio_check_part *part,
			    enum uaio_check_kind kind)
{
	return (struct uaio_check_report){
		.kind = kind,
		.record = *record,
		.part = *part,
		.other.op = UAIO_NR_OPS,
	};
}

void uaio_check_making_begin(struct uaio_check_making *making,
			     const struct uaio_check_report *report)
{
	making->thread = uaio_check_me();
	making->report = report;
	uaio_check_lock();
	list_add_tail(&uaio_checked.making, &making->link);
	uaio_check_unlock();
}

void uaio_check_making_end(struct uaio_check_making *making)
{
	uaio_check_lock();
	list_remove(&making->link);
	uaio_check_unlock();
}

bool uaio_check_making_mine(struct uaio_check_report *ret)
{
	bool is_mine = false;

	uaio_check_lock();
	list_for_each (pos, &uaio_checked.making) {
		const struct uaio_check_making *making =
			container_of(pos, struct uaio_check_making, link);

		if (making->thread == uaio_check_me()) {
			*ret = *making->report;
			is_mine = true;
		}
	}
	uaio_check_unlock();
	return is_mine;
}

void uaio_check_forget(void)
{
	for (uint32_t i = 1; i < uaio_checked.nr_parts; i++)
		uaio_checker_give_back(uaio_check_part(i));
}
