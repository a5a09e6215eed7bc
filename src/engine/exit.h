/* SPDX-License-Identifier: MIT */
/* What the end of the process has to wait for: see exit.c. */
#ifndef UAIO_ENGINE_EXIT_H
#define UAIO_ENGINE_EXIT_H

#include <stdbool.h>

/* From nothing. */
void uaio_exit_init(void);

/* A write or sync of a regular file was accepted, and is finished. */
void uaio_exit_hold(void);
void uaio_exit_release(void);

/* Return: whether the process is ending: what would have to wait is refused. */
bool uaio_exit_is_near(void);

#endif /* UAIO_ENGINE_EXIT_H */
