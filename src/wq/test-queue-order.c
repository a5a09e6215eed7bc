/* SPDX-License-Identifier: MIT */
/*
 * Writes to one file keep their order even if workers have private lists. The reason is
 * that only the first write of each file is in the queue: a later write is queued when
 * the write before it has returned.
 */
#undef NDEBUG
#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "options/config.h"
#include "aio/handle.h"
#include "unit.h"
#include "items.h"

enum { SIZE = UNIT_KEY_BYTES, FILES = 4, EACH = 32, CHAIN = 6 };

static enum uaio_wq_placement placement;
static unsigned nr_fixed;

static struct file {
	int fd;
	/* atomic: write calls to this file that are running */
	uint32_t nr_inside;
	/* atomic: the number of the block that follows the last block written */
	uint32_t next;
} files[FILES];
static unsigned nr_files;

static uint32_t
	/* atomic: writes that were out of order, or ran at the same time */
	nr_breaches;

static struct iocb iocbs[FILES][EACH];
static char buffers[FILES][EACH][SIZE];
static struct io_event events[FILES * EACH];
static uint64_t handle;

static struct file *file_of(int fd)
{
	for (unsigned i = 0; i < nr_files; i++)
		if (files[i].fd == fd)
			return &files[i];
	return NULL;
}

static bool watch_writes(long nr, const long args[6], long *ret_res)
{
	struct file *file = nr == SYS_pwrite64 || nr == SYS_pwritev2
				    ? file_of((int)args[0])
				    : NULL;
	uint32_t turn;

	if (!file)
		return false;
	if (add_seq_cst(&file->nr_inside, 1) != 0)
		add_seq_cst(&nr_breaches, 1);
	/*
	 * `turn` may be larger than `next`, because cancelled writes are not executed.
	 */
	turn = (uint32_t)(args[3] / SIZE);
	if (turn < load_seq_cst(&file->next))
		add_seq_cst(&nr_breaches, 1);
	store_seq_cst(&file->next, turn + 1);
	*ret_res = uaio_sys_raw(nr, args[0], args[1], args[2], args[3], args[4],
				args[5]);
	(void)sub_seq_cst(&file->nr_inside, 1);
	return true;
}

static void start(unsigned nr)
{
	const struct uaio_wq_tuning tuning = { placement, 64, true };

	assert_int_equal(unit_engine(NULL), 0);
	uaio_config.force_worker = true;
	uaio_wq_tune(&tuning);
	items_set_fixed(UAIO_BOUNDED, (int)nr_fixed, 8);
	handle = unit_context(FILES * EACH + 1);
	nr_files = nr;
	for (unsigned i = 0; i < nr; i++)
		files[i].fd = unit_numbered_file(true, 1);
	unit_hook(watch_writes);
}

static void submit_write(unsigned file, unsigned block)
{
	struct iocb *iocb = &iocbs[file][block];
	char *buffer = buffers[file][block];

	memset(buffer, (int)(1 + file * EACH + block), SIZE);
	*iocb = unit_iocb(IOCB_CMD_PWRITE, files[file].fd, buffer, SIZE,
			  block * SIZE);
	assert_int_equal(unit_submit(handle, iocb), 1);
}

static void await_writes(unsigned nr)
{
	assert_int_equal(unit_reap(handle, nr, events), nr);
	for (unsigned i = 0; i < nr; i++)
		assert_int_equal(events[i].res, SIZE);
}

static void for_each_way(int (*run)(void))
{
	for (nr_fixed = 0; nr_fixed < 4; nr_fixed++)
		for (placement = UAIO_PLACE_PUBLIC;
		     placement <= UAIO_PLACE_PACKED; placement++)
			assert_int_equal(unit_in_child(run), 0);
}

static int write_in_order(void)
{
	start(FILES);
	for (unsigned round = 0; round < unit_rounds(20); round++) {
		for (unsigned i = 0; i < FILES; i++)
			store_seq_cst(&files[i].next, 0);
		for (unsigned j = 0; j < EACH; j++)
			for (unsigned i = 0; i < FILES; i++)
				submit_write(i, j);
		await_writes(FILES * EACH);
		for (unsigned i = 0; i < FILES; i++)
			assert_int_equal(load_seq_cst(&files[i].next), EACH);
	}
	return load_seq_cst(&nr_breaches) ? 1 : 0;
}

static void
writes_of_a_file_are_executed_in_turn_and_never_together(void **state)
{
	(void)state;
	for_each_way(write_in_order);
}

/*
 * A gate stops the first write to one file. Meanwhile many writes to the other files
 * must run.
 */
static int write_beside(void)
{
	start(FILES);
	/*
	 * The gate stops writes to the last file. So exclude this file from the files
	 * whose order the test checks.
	 */
	nr_files--;
	unit_gate_close(files[FILES - 1].fd);
	for (unsigned j = 0; j < EACH; j++)
		submit_write(FILES - 1, j);
	unit_gate_await_key(0);
	for (unsigned j = 0; j < EACH; j++)
		for (unsigned i = 0; i < FILES - 1; i++)
			submit_write(i, j);
	await_writes((FILES - 1) * EACH);
	assert_int_equal(unit_gate_began(1), -1);
	unit_gate_open();
	await_writes(EACH);
	return load_seq_cst(&nr_breaches) ? 1 : 0;
}

static void writes_of_other_files_are_executed_meanwhile(void **state)
{
	(void)state;
	for_each_way(write_beside);
}

/*
 * Make all workers wait in read calls. So a whole chain of writes waits: the first
 * write waits in the queue, and each later write waits for the write before it.
 */
static void hold_workers(struct iocb *reads, unsigned nr, int fd)
{
	static char buffer[SIZE];

	unit_gate_close(fd);
	for (unsigned i = 0; i < nr; i++) {
		reads[i] = unit_iocb(IOCB_CMD_PREAD, fd, buffer, SIZE, 0);
		assert_int_equal(unit_submit(handle, &reads[i]), 1);
	}
	unit_gate_await(nr);
}

/*
 * Submit a chain of writes, and cancel writes `first` and `second`; if they are equal,
 * cancel only one.
 */
static void cancel_two(unsigned first, unsigned second)
{
	unsigned nr_cancelled = first == second ? 1 : 2;
	unsigned which[] = { first, second };

	store_seq_cst(&files[0].next, 0);
	for (unsigned j = 0; j < CHAIN; j++)
		submit_write(0, j);
	for (unsigned i = 0; i < nr_cancelled; i++) {
		uintptr_t obj = (uintptr_t)&iocbs[0][which[i]];

		assert_int_equal(uaio_ctx_cancel(handle, obj), -EINPROGRESS);
		assert_int_equal(uaio_ctx_cancel(handle, obj), -EINVAL);
		assert_int_equal(unit_reap(handle, 1, events), 1);
		assert_int_equal(events[0].obj, obj);
		assert_int_equal(events[0].res, -ECANCELED);
	}
	unit_gate_open();
}

static int cancel_in_chain(void)
{
	unsigned nr_workers = nr_fixed ? nr_fixed : 1;
	int slow = unit_numbered_file(true, 1);

	start(1);
	uaio_wq_limit_workers(UAIO_BOUNDED, (int)nr_workers);
	for (unsigned first = 0; first < CHAIN; first++)
		for (unsigned second = first; second < CHAIN; second++) {
			unsigned nr = CHAIN - (first == second ? 1 : 2);
			struct iocb reads[4];

			hold_workers(reads, nr_workers, slow);
			cancel_two(first, second);
			await_writes(nr + nr_workers);
		}
	return load_seq_cst(&nr_breaches) ? 1 : 0;
}

static void
what_is_left_of_a_chain_goes_on_when_some_are_cancelled(void **state)
{
	(void)state;
	for_each_way(cancel_in_chain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(
			writes_of_a_file_are_executed_in_turn_and_never_together),
		UNIT_TEST(writes_of_other_files_are_executed_meanwhile),
		UNIT_TEST(
			what_is_left_of_a_chain_goes_on_when_some_are_cancelled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
