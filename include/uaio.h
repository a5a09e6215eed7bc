/* SPDX-License-Identifier: MIT */
/*
 * uaio: what a program may ask of the library it runs on
 *
 * Nothing here is needed to use kernel AIO through uaio. A program that wants
 * to know more finds these functions with dlsym(RTLD_DEFAULT, ...) and does
 * without where the library is not loaded.
 *
 * Experimental until 1.0: names and layouts may change.
 */
#ifndef UAIO_H
#define UAIO_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What has happened in this process since it started (or was forked). */
struct uaio_counters {
	uint64_t nr_contexts;   /* live now */
	uint64_t nr_setups;     /* io_setup calls that succeeded */
	uint64_t nr_requests;   /* completed */
	uint64_t nr_inline;     /* of them, inside io_submit */
	uint64_t nr_worker;     /* of them, any other way */
	uint64_t nr_wakeups;    /* threads woken in io_getevents */
	uint64_t nr_workers;    /* worker threads alive now */
	uint64_t table_bytes;   /* slots that map ids to contexts */
	uint64_t index_bytes;   /* index of ring addresses */
	uint64_t ring_bytes;    /* rings of live contexts */
	uint64_t context_bytes; /* one context, without its ring */
};

/*
 * Read the counters.
 *
 * Return: 0.
 * Thread-safety: any thread, not in signal handlers.
 */
int uaio_get_counters(struct uaio_counters *ret_counters);

#ifdef __cplusplus
}
#endif

#endif /* UAIO_H */
