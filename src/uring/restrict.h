/* SPDX-License-Identifier: MIT */
/*
 * What a ring may be used for, and for whom
 *
 * Restrictions: a ring that was made disabled can be given a list of what is allowed:
 * opcodes of submissions and of io_uring_register(), and flags of submissions. It
 * holds from when the ring is enabled, and for ever, also in a child of fork() that
 * takes the ring over.
 *
 * Personalities: a number stands for the credentials that a thread had when it asked
 * for the number. In the kernel a request is executed with those. Here it is executed
 * with those of the process, so a submission that names a personality is taken only if
 * the thread that submits has the same credentials, and refused otherwise.
 *
 *   I1  Users, groups and capabilities are compared, by a hash of them. All that a
 *       mistake could do is to execute a request as the thread could do it anyway.
 *
 * Context: the thread holds the ring, unless said otherwise.
 *
 * Tested by test-uring-restrict.c.
 */
#ifndef UAIO_URING_RESTRICT_H
#define UAIO_URING_RESTRICT_H

#include <stdbool.h>
#include <stdint.h>

struct io_uring_sqe;
struct uaio_uring;

struct uaio_uring_restrictions {
	bool is_registered;
	uint8_t sqe_flags_allowed; /* IOSQE_* */
	uint8_t sqe_flags_required;
	/* A bit for each opcode that is allowed. */
	uint64_t register_ops;
	uint64_t sqe_ops;
};

/* IORING_REGISTER_RESTRICTIONS, of a ring that is disabled. */
long uaio_uring_restrict(struct uaio_uring *ring, const void *arg, uint32_t nr);

/* Return: whether a submission to a restricted ring is allowed. */
bool uaio_uring_is_allowed(const struct uaio_uring *ring,
			   const struct io_uring_sqe *raw);

/* Return: whether this opcode of io_uring_register() is. Context: any. */
bool uaio_uring_may_register(const struct uaio_uring *ring, uint32_t opcode);

/* IORING_REGISTER_PERSONALITY, and the contrary. */
long uaio_uring_register_personality(struct uaio_uring *ring, const void *arg,
				     uint32_t nr);
long uaio_uring_unregister_personality(struct uaio_uring *ring, const void *arg,
				       uint32_t id);

/*
 * Return: 0: a submission may be made as this personality; -EINVAL: there is none;
 * -EACCES: this thread has other credentials.
 */
int uaio_uring_check_personality(const struct uaio_uring *ring, uint32_t id);

/* The ring is freed. */
void uaio_uring_forget_personalities(struct uaio_uring *ring);

#endif /* UAIO_URING_RESTRICT_H */
