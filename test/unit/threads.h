/* SPDX-License-Identifier: MIT */
/*
 * Threads that the library cannot create
 *
 * A test that uses this header is linked with --wrap=pthread_create
 * (meson.build), so the library creates its threads here. Threads of the tests
 * themselves are not counted, and never refused.
 */
#ifndef THREADS_H
#define THREADS_H

#include <stdint.h>

/* Sets how many more threads the library may create; UINT32_MAX: any number. */
void unit_allow_threads(uint32_t nr);
/* Return: how many threads the library was refused. */
uint32_t unit_nr_refused_threads(void);
/* Return: how many were created, including those that have ended. */
uint32_t unit_nr_started_threads(void);

#endif /* THREADS_H */
