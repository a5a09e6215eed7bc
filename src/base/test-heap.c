/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "base/heap.h"

#include "base/check.h"
#include "base/list.h"

#include "unit.h"

enum { NR = 300 };

struct item {
	struct heap_node node;
	unsigned key;
	bool is_in;
};

static struct item items[NR];
static struct heap heap;
static uint32_t seed = 1;

static unsigned any(unsigned below)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % below;
}

static struct item *item_of(const struct heap_node *node)
{
	return container_of(node, struct item, node);
}

static bool is_before(const struct heap_node *a, const struct heap_node *b)
{
	return item_of(a)->key < item_of(b)->key;
}

static void add(struct item *item, unsigned key)
{
	item->key = key;
	item->is_in = true;
	heap_add(&heap, &item->node, is_before);
}

static void take_out(struct item *item)
{
	assert_true(item->is_in);
	item->is_in = false;
	heap_remove(&heap, &item->node, is_before);
}

/*
 * Check that no node is before its parent, and that prev of each node is right (heap.h,
 * I1 and I2).
 * Return: the number of nodes.
 */
static unsigned check(void)
{
	static struct heap_node *left[NR];
	unsigned nr = 0, nr_left = 0;

	if (!heap.root)
		return 0;
	assert_null(heap.root->prev);
	assert_null(heap.root->next);
	left[nr_left++] = heap.root;
	while (nr_left) {
		struct heap_node *parent = left[--nr_left];
		struct heap_node *before = parent;

		assert_true(item_of(parent)->is_in);
		nr++;
		for (struct heap_node *pos = parent->child; pos;
		     pos = pos->next) {
			assert_false(is_before(pos, parent));
			assert_ptr_equal(pos->prev, before);
			assert_true(nr_left < NR);
			left[nr_left++] = pos;
			before = pos;
		}
	}
	return nr;
}

static struct item *pop(void)
{
	struct heap_node *first = heap_first(&heap);

	if (!first)
		return NULL;
	take_out(item_of(first));
	return item_of(first);
}

static void nodes_leave_in_order(void **state)
{
	(void)state;
	heap_init(&heap);
	assert_null(heap_first(&heap));
	/*
	 * Add keys in ascending, descending and mixed order, one order in each round.
	 */
	for (unsigned way = 0; way < 3; way++) {
		for (unsigned i = 0; i < NR; i++) {
			add(&items[i], way == 0   ? i
				       : way == 1 ? NR - 1 - i
						  : i * 7 % NR);
			assert_int_equal(check(), i + 1);
		}
		for (unsigned i = 0; i < NR; i++) {
			assert_int_equal(pop()->key, i);
			assert_int_equal(check(), NR - 1 - i);
		}
		assert_null(pop());
	}
}

static void any_node_can_be_removed(void **state)
{
	(void)state;
	heap_init(&heap);
	for (unsigned i = 0; i < NR; i++)
		add(&items[i], i * 11 % NR);
	/*
	 * Before this pop(), all other nodes are children of the root; pop() gives the
	 * heap several levels.
	 */
	(void)pop();
	for (unsigned i = 0; i < NR; i += 2)
		if (items[i].is_in) {
			take_out(&items[i]);
			(void)check();
		}
	for (unsigned last = 0; heap_first(&heap);) {
		struct item *item = pop();

		assert_true(item->key >= last);
		last = item->key;
	}
	for (unsigned i = 0; i < NR; i++)
		assert_false(items[i].is_in);
}

static void what_comes_and_goes_keeps_the_order(void **state)
{
	unsigned nr = 0;

	(void)state;
	heap_init(&heap);
	for (unsigned i = 0; i < NR; i++)
		items[i].is_in = false;
	for (unsigned round = 0; round < unit_rounds(20000); round++) {
		struct item *item = &items[any(NR)];

		if (!item->is_in) {
			/* Use few keys, so that many are equal. */
			add(item, any(20));
			nr++;
		} else {
			take_out(item);
			nr--;
		}
		if (any(4) == 0 && heap_first(&heap)) {
			unsigned key = item_of(heap_first(&heap))->key;

			for (unsigned i = 0; i < NR; i++)
				assert_false(items[i].is_in &&
					     items[i].key < key);
			(void)pop();
			nr--;
		}
		if (round % 16 == 0)
			assert_int_equal(check(), nr);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(nodes_leave_in_order),
		UNIT_TEST(any_node_can_be_removed),
		UNIT_TEST(what_comes_and_goes_keeps_the_order),
	};

	return cmocka_run_group_tests(tests, unit_engine, NULL);
}
