/* SPDX-License-Identifier: MIT */
/* Start-up of the engine's parts: engine.c calls them, from nothing. */
#ifndef UAIO_ENGINE_INIT_H
#define UAIO_ENGINE_INIT_H

#include <stdbool.h>

/* ctx.c */
void uaio_ctxs_init(void);

/*
 * Between the two the engine does not come up if it is not.
 * Return: 0 with whether it is; -EAGAIN in a child of vfork(): do not release.
 */
int uaio_engine_hold(bool *ret_is_up);
void uaio_engine_release(void);

/* For table.c. Return: whether threads may have tables of their own; one load. */
bool uaio_engine_has_many_tables(void);
/* They may from now on. Return: 0, or -EAGAIN if there can be no agent. */
int uaio_engine_part_tables(void);

/* Return: whether this is the process of the engine that is up, or would be. */
bool uaio_engine_is_of_process(void);

#endif /* UAIO_ENGINE_INIT_H */
