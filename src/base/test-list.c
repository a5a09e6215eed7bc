/* SPDX-License-Identifier: MIT */
#undef NDEBUG
#include "base/list.h"

#include "unit.h"

struct item {
	struct list node;
	int number;
};

static struct item items[6];

static void fill(struct list *head, int first, int nr)
{
	list_init(head);
	for (int i = first; i < first + nr; i++) {
		items[i].number = i;
		list_add_tail(head, &items[i].node);
	}
}

static void assert_numbers(struct list *head, const int *numbers, int nr)
{
	int i = 0;

	list_for_each (pos, head) {
		assert_true(i < nr);
		assert_int_equal(container_of(pos, struct item, node)->number,
				 numbers[i++]);
		assert_ptr_equal(pos->next->prev, pos);
	}
	assert_int_equal(i, nr);
}

static void nodes_are_visited_in_the_order_of_the_list(void **state)
{
	struct list head;

	(void)state;
	fill(&head, 0, 3);
	assert_numbers(&head, (int[]){ 0, 1, 2 }, 3);
	items[5].number = 5;
	list_add_head(&head, &items[5].node);
	assert_numbers(&head, (int[]){ 5, 0, 1, 2 }, 4);
}

static void removing_twice_is_removing_once(void **state)
{
	struct list head;

	(void)state;
	fill(&head, 0, 3);
	list_remove(&items[1].node);
	assert_false(list_is_linked(&items[1].node));
	list_remove(&items[1].node);
	assert_numbers(&head, (int[]){ 0, 2 }, 2);
	assert_true(list_is_linked(&items[2].node));
}

static void a_visitor_may_remove_what_it_visits(void **state)
{
	struct list head;

	(void)state;
	fill(&head, 0, 5);
	list_for_each_safe (pos, &head)
		if (container_of(pos, struct item, node)->number % 2 == 0)
			list_remove(pos);
	assert_numbers(&head, (int[]){ 1, 3 }, 2);
}

static void pop_takes_the_oldest_until_there_is_none(void **state)
{
	struct list head;

	(void)state;
	fill(&head, 0, 2);
	assert_ptr_equal(list_pop(&head), &items[0].node);
	assert_ptr_equal(list_pop(&head), &items[1].node);
	assert_null(list_pop(&head));
	assert_true(list_is_empty(&head));
}

static void a_spliced_list_keeps_its_order_and_is_empty_after(void **state)
{
	struct list a, b;

	(void)state;
	fill(&a, 0, 2);
	fill(&b, 2, 3);
	list_splice_tail(&a, &b);
	assert_numbers(&a, (int[]){ 0, 1, 2, 3, 4 }, 5);
	assert_true(list_is_empty(&b));
	list_splice_tail(&a, &b);
	assert_numbers(&a, (int[]){ 0, 1, 2, 3, 4 }, 5);
	list_splice_tail(&b, &a);
	assert_numbers(&b, (int[]){ 0, 1, 2, 3, 4 }, 5);
	assert_true(list_is_empty(&a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UNIT_TEST(nodes_are_visited_in_the_order_of_the_list),
		UNIT_TEST(removing_twice_is_removing_once),
		UNIT_TEST(a_visitor_may_remove_what_it_visits),
		UNIT_TEST(pop_takes_the_oldest_until_there_is_none),
		UNIT_TEST(a_spliced_list_keeps_its_order_and_is_empty_after),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
