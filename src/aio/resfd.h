/* SPDX-License-Identifier: MIT */
/*
 * IOCB_FLAG_RESFD: the eventfd to which each completion adds 1
 *
 * The word of such a request (sink.h) is a reference to the eventfd's open
 * file. If a thread with another descriptor table has submitted the request,
 * the word is the descriptor itself: such requests are complete when io_submit
 * returns. Pointers to files are even, so the lowest bit tells the two apart.
 */
#ifndef UAIO_AIO_RESFD_H
#define UAIO_AIO_RESFD_H

#include <stdint.h>

struct uaio_post;

/*
 * Make the word for the eventfd fd. It holds a reference until it is dropped.
 * Return: 0; -EBADF; -EINVAL if fd is no eventfd; -ENOMEM.
 */
int uaio_resfd_get(int fd, uint64_t *ret_word);
int uaio_resfd_get_parted(int fd, uint64_t *ret_word);

/* Drop the word of a request that was refused. */
void uaio_resfd_put(uint64_t word);

/* Signal the eventfds of a post's completions; drop the words of these. */
void uaio_resfd_signal(const struct uaio_post *post);
void uaio_resfd_drop(const struct uaio_post *post);

#endif /* UAIO_AIO_RESFD_H */
