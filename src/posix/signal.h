/* SPDX-License-Identifier: MIT */
/* Signals that say that a request is complete: see notice.h. */
#ifndef UAIO_POSIX_SIGNAL_H
#define UAIO_POSIX_SIGNAL_H

#include <signal.h>

/* Called each time the engine starts. */
void uaio_posix_signals_init(void);

/* Send it to the process, from this thread or, where that would harm, another. */
void uaio_posix_signal(int signo, union sigval value);

#endif /* UAIO_POSIX_SIGNAL_H */
