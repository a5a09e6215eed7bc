/* SPDX-License-Identifier: MIT */
#include "proc/identity.h"

#include <stdlib.h>
#include <string.h>

#include "base/lock.h"
#include "base/newer.h"
#include "proc/process.h"

enum {
	/*
	 * How many identities the library remembers; a new one replaces the one that
	 * was recorded first, but never the process's. If a thread changes back to the
	 * attributes of a forgotten identity, the thread gets a new number.
	 */
	NR_KNOWN = 256,
};

uint32_t uaio_identities;

/* atomic: the numbers of the newest identity and of the newest domain */
static uint32_t last_identity, last_domain;

static struct {
	struct uaio_lock lock; /* rank IDENTITY */

	/* under lock */
	uint32_t nr_process_changes;
	/* known[1 + next] is replaced next */
	unsigned next;
	/* known[0] is the process's identity */
	struct known {
		bool is_known;
		uint32_t identity, domain;
		struct uaio_attributes attributes;
	} known[NR_KNOWN];
} table;

static void lock(void)
{
	uaio_lock(&table.lock, UAIO_RANK_IDENTITY);
}

static void unlock(void)
{
	uaio_unlock(&table.lock, UAIO_RANK_IDENTITY);
}

static void remember_locked(const struct uaio_attributes *attributes)
{
	struct known *known = &table.known[0];

	if (uaio_entry.identity != UAIO_IDENTITY_OF_PROCESS) {
		known = &table.known[1 + table.next];
		table.next = (table.next + 1) % (NR_KNOWN - 1);
	}
	*known = (struct known){
		.is_known = true,
		.identity = uaio_entry.identity,
		.domain = uaio_entry.domain,
		.attributes = *attributes,
	};
}

static bool is_mine(const struct known *known)
{
	return known->is_known && known->identity == uaio_entry.identity;
}

static void take_new_number(void)
{
	/* relaxed: no other data are published with the number of the new identity */
	uaio_entry.identity = add_relaxed(&last_identity, 1) + 1;
}

/*
 * Give the calling thread the number of a remembered identity with these attributes. If
 * there is none, give it a new number.
 */
static void take_number_locked(const struct uaio_attributes *attributes)
{
	for (unsigned i = 0; i < NR_KNOWN; i++) {
		const struct known *known = &table.known[i];

		if (!known->is_known || known->domain != uaio_entry.domain ||
		    !uaio_attributes_are_equal(&known->attributes, attributes))
			continue;
		uaio_entry.identity = known->identity;
		return;
	}
	take_new_number();
	remember_locked(attributes);
}

static uint32_t nr_process_changes(void)
{
	uint32_t nr;

	lock();
	nr = table.nr_process_changes;
	unlock();
	return nr;
}

/*
 * Give the calling thread the identity (a number) that belongs to its attributes.
 * Context: inside the library.
 */
static void compare(void)
{
	struct uaio_attributes attributes;
	uint32_t nr = nr_process_changes();
	bool is_whole = uaio_attributes_ask(&attributes);

	lock();
	/*
	 * If another thread changed the ids of all threads during the query, the
	 * attributes may be a mixture of old and new.
	 */
	if (is_whole && nr == table.nr_process_changes) {
		take_number_locked(&attributes);
		unlock();
		return;
	}
	unlock();
	take_new_number();
}

/*
 * Return: whether the library remembers the attributes of the calling thread's
 * identity.
 */
static bool is_known(uint32_t *ret_nr_process_changes)
{
	bool ret = false;

	lock();
	for (unsigned i = 0; i < NR_KNOWN && !ret; i++)
		ret = is_mine(&table.known[i]);
	*ret_nr_process_changes = table.nr_process_changes;
	unlock();
	return ret;
}

/*
 * Record the calling thread's attributes, unless those of its identity are recorded. A
 * thread that has or takes these attributes then gets this identity.
 */
static void note_mine(void)
{
	struct uaio_attributes attributes;
	uint32_t nr;

	if (is_known(&nr) || !uaio_attributes_ask(&attributes))
		return;
	lock();
	if (nr == table.nr_process_changes)
		remember_locked(&attributes);
	unlock();
}

void uaio_identity_note(void)
{
	/*
	 * If this thread is in a signal handler that interrupted the library,
	 * uaio_enter() fails: the handler must not wait for the library's locks.
	 */
	if (uaio_enter()) {
		note_mine();
		uaio_leave();
	}
}

bool uaio_identities_become_many(void)
{
	bool were_one = !load_relaxed(&uaio_identities);

	or_relaxed(&uaio_identities, UAIO_IDENTITIES_MANY);
	uaio_identity_note();
	return were_one;
}

void uaio_identities_become_unproved(void)
{
	or_relaxed(&uaio_identities,
		   UAIO_IDENTITIES_MANY | UAIO_IDENTITIES_UNPROVED);
}

bool (*uaio_identity_may_change)(bool is_beside_lost_threads);

static bool is_beside_lost_threads; /* for uaio_identity_may_change() */

/* Return: whether the program's code may change this thread's attributes unnoticed. */
static bool may_change(void)
{
	struct uaio_attributes attributes;

	if (!uaio_attributes_ask(&attributes) ||
	    !uaio_attributes_may_change(&attributes))
		return false;
	return uaio_identity_may_change(is_beside_lost_threads);
}

void uaio_identities_prove(void)
{
	/* relaxed: once set, the flag is never cleared */
	if (load_relaxed(&uaio_identities) & UAIO_IDENTITIES_UNPROVED ||
	    !uaio_identity_may_change)
		return;
	if (may_change()) {
		/*
		 * Record which attributes belong to this thread's identity, to notice
		 * later changes.
		 */
		note_mine();
		uaio_identities_become_unproved();
	}
}

void uaio_identities_forget(void)
{
	table.lock = (struct uaio_lock){ 0 };
	uaio_attributes_forget();
	is_beside_lost_threads |=
		!&__libc_single_threaded || !__libc_single_threaded;
	for (unsigned i = 0; i < NR_KNOWN; i++)
		table.known[i].is_known = false;
}

static void forget_all(void)
{
	lock();
	table.nr_process_changes++;
	for (unsigned i = 0; i < NR_KNOWN; i++)
		table.known[i].is_known = false;
	unlock();
}

void uaio_identity_changed(enum uaio_identity_change change)
{
	uaio_entry.is_sure = 1;
	/* relaxed: no other data are published with the domain's number */
	if (change == UAIO_CHANGED_DOMAIN)
		uaio_entry.domain = add_relaxed(&last_domain, 1) + 1;
	/*
	 * If this thread is in a signal handler that interrupted the library,
	 * uaio_enter() fails: the handler must not wait for the library's locks.
	 */
	if (!uaio_enter()) {
		take_new_number();
		return;
	}
	if (change == UAIO_CHANGED_PROCESS) {
		forget_all();
		note_mine();
	} else {
		compare();
	}
	uaio_leave();
}

void uaio_identity_check(void)
{
	struct uaio_attributes attributes;
	bool is_same = false;

	if (likely(uaio_entry.is_sure && !(load_relaxed(&uaio_identities) &
					   UAIO_IDENTITIES_UNPROVED)))
		return;
	uaio_entry.is_sure = 1;
	if (!uaio_attributes_ask(&attributes)) {
		take_new_number();
		return;
	}
	lock();
	for (unsigned i = 0; i < NR_KNOWN && !is_same; i++)
		is_same = is_mine(&table.known[i]) &&
			  uaio_attributes_are_equal(&table.known[i].attributes,
						    &attributes);
	if (!is_same)
		take_number_locked(&attributes);
	unlock();
}

/* How a new thread inherits the identity of its creator */

struct inheritance {
	uaio_thread_main_fn *main;
	void *arg;
	uint32_t identity, domain;
};

static void *begin(void *arg)
{
	struct inheritance own = *(struct inheritance *)arg;

	free(arg);
	uaio_entry.identity = own.identity;
	uaio_entry.domain = own.domain;
	uaio_entry.is_sure = 1;
	return own.main(own.arg);
}

uaio_thread_main_fn *uaio_identity_inherit(uaio_thread_main_fn *main,
					   void **arg)
{
	struct inheritance *own;

	/* A thread whose identity is not that of the process is sure of it. */
	if (likely(!uaio_identities_are_many() || !uaio_entry.is_sure))
		return main;
	own = malloc(sizeof(*own));
	if (!own)
		return NULL;
	*own = (struct inheritance){
		.main = main,
		.arg = *arg,
		.identity = uaio_entry.identity,
		.domain = uaio_entry.domain,
	};
	*arg = own;
	return begin;
}

void uaio_identity_disinherit(uaio_thread_main_fn *main, void *arg)
{
	if (main == begin)
		free(arg);
}
