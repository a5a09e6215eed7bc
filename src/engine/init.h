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

#endif /* UAIO_ENGINE_INIT_H */
