/* SPDX-License-Identifier: MIT */
/*
 * Limits how many threads the library can create
 *
 * A test that uses this header is linked with --wrap=pthread_create (meson.build).
 * Threads that the tests create themselves are not counted and never refused.
 */
#ifndef THREADS_H
#define THREADS_H

#include <stdint.h>

/* Set how many more threads the library can create; UINT32_MAX: any number. */
void unit_allow_threads(uint32_t nr);
/*
 * Return: how many threads the library could not create because of
 * unit_allow_threads().
 */
uint32_t unit_nr_refused_threads(void);
/*
 * Return: how many threads the library has created, including those that have ended.
 */
uint32_t unit_nr_started_threads(void);

#endif /* THREADS_H */
