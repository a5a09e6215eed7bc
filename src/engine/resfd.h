/* SPDX-License-Identifier: MIT */
/*
 * IOCB_FLAG_RESFD: the eventfd that a completion is counted in
 *
 * What the word of a request says (sink.h): a reference to the eventfd's open
 * file; or the number itself, of a thread with another descriptor table, whose
 * requests are complete when their call returns. Files are aligned, so the lowest
 * bit tells the two apart.
 */
#ifndef UAIO_ENGINE_RESFD_H
#define UAIO_ENGINE_RESFD_H

#include <stdint.h>

struct uaio_post;

/*
 * Return: 0, with the word, which keeps the eventfd until it is dropped, in
 * ret_word; -EBADF; -EINVAL if fd is no eventfd; -ENOMEM.
 */
int uaio_resfd_get(int fd, uint64_t *ret_word);
int uaio_resfd_get_parted(int fd, uint64_t *ret_word);

/* The request was refused. */
void uaio_resfd_put(uint64_t word);

/* Count up those of a post; let them go. */
void uaio_resfd_signal(const struct uaio_post *post);
void uaio_resfd_drop(const struct uaio_post *post);

#endif /* UAIO_ENGINE_RESFD_H */
