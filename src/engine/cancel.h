/* SPDX-License-Identifier: MIT */
/* Cancelling: see cancel.c. */
#ifndef UAIO_ENGINE_CANCEL_H
#define UAIO_ENGINE_CANCEL_H

struct uaio_group;

/*
 * Complete, as cancelled, what waits for its file to be ready, and perhaps for
 * ever: the context goes away.
 */
void uaio_group_close(struct uaio_group *group);

#endif /* UAIO_ENGINE_CANCEL_H */
