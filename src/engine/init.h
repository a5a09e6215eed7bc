/* SPDX-License-Identifier: MIT */
/* Start-up of the engine's parts: engine.c calls them. */
#ifndef UAIO_ENGINE_INIT_H
#define UAIO_ENGINE_INIT_H

/* ctx.c */
void uaio_ctxs_init(void);

#endif /* UAIO_ENGINE_INIT_H */
