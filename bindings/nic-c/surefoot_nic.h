/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A port of a programmable interface, for C and C++. The life of a port is that of GM:
 *
 *   open      the port and its registered memory are the process's
 *   provide   receive buffers, by size class: one of class c holds 2^c bytes; c is 16 at most
 *   send      with a callback, which says whether the message arrived and gives the send token back
 *   receive   the next event; what the program does not know it hands to surefoot_nic_unknown
 *   close
 *
 * surefoot_nic_unknown runs the callbacks, and it brings the port back when the interface has failed: the program sees neither
 * the failure nor the recovery. Addresses are offsets into the port's registered memory. A handle is for one thread at a time, and
 * for the process that opened it: a child of it has no port (SUREFOOT_NIC_OPEN), so fork first and open then.
 *
 * Functions that return int return 0 or more when they did what they were asked, and SUREFOOT_NIC_* below zero when not:
 * nothing has changed then, and surefoot_nic_error says why.
 */
#ifndef SUREFOOT_NIC_H
#define SUREFOOT_NIC_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct surefoot_nic_port surefoot_nic_port;

#define SUREFOOT_NIC_ARGUMENT (-1) /* the call itself is wrong: a NULL, a closed handle, an address that is not the port's */
#define SUREFOOT_NIC_NO_TOKEN (-2) /* all tokens are in use: receive events, which bring them back */
#define SUREFOOT_NIC_OPEN (-3)     /* the port cannot be opened, or is not this program's any more */
#define SUREFOOT_NIC_INTERNAL (-4) /* a fault of this library; please report it */
#define SUREFOOT_NIC_ENDED (-5)    /* the run has ended, and no event is left: close the port */

/* What surefoot_nic_send's callback is told. */
#define SUREFOOT_NIC_ARRIVED 0
#define SUREFOOT_NIC_CLOSED 1      /* the target port is not open (any more), or another process has it now */
#define SUREFOOT_NIC_REFUSED 2     /* the target's memory is not where the message was to go */
#define SUREFOOT_NIC_BAD_ADDRESS 3 /* the memory that it lies in is not the port's */
#define SUREFOOT_NIC_TIMED_OUT 4   /* nobody answered */
#define SUREFOOT_NIC_GIVEN_UP 5    /* the interface failed again and again, and is not reloaded any more */
#define SUREFOOT_NIC_CHANGED 6     /* its memory was changed before it was sent; not told here, where the library keeps a copy and
                                      puts it back */

/* Kinds of events. */
#define SUREFOOT_NIC_NONE 0
#define SUREFOOT_NIC_RECEIVED 1       /* a message lies in a provided buffer, which is the program's again */
#define SUREFOOT_NIC_DIRECTED 2       /* a directed message was written into the port's memory */
#define SUREFOOT_NIC_ALARM 3          /* the alarm that was set */
#define SUREFOOT_NIC_BUFFER_REFUSED 4 /* a provided buffer cannot be used; it is the program's again */
#define SUREFOOT_NIC_MEMORY_SUSPECT 5 /* a failed interface may have written into the port's memory what it should not */
#define SUREFOOT_NIC_OTHER 6          /* for surefoot_nic_unknown */

struct surefoot_nic_event {
	uint32_t kind;
	uint32_t token;   /* of the buffer, or of the alarm */
	uint32_t address; /* where the message lies */
	uint32_t length;
	uint32_t from_node, from_port, priority;
	uint32_t number; /* of the message in its stream; 0 for a datagram */
};

typedef void surefoot_nic_callback(surefoot_nic_port *port, void *context, int outcome);

/*
 * Opens a port of a node's interface, with pages of 4 KiB of registered memory, 1024 at most. `run` is the directory of a `surefoot nic run
 * --serve` of the same user, in the same PID namespace; its nodes are 0 and 1, and the ports 1 to 6 are for programs. A port that was
 * closed a moment ago, or whose process has ended, is waited for, two seconds at most. After the call returns, messages to the port are
 * no longer refused as sent to a closed port.
 */
int surefoot_nic_open(const char *run, uint32_t node, uint32_t port, uint32_t pages, surefoot_nic_port **opened);
/*
 * Closes it. Callbacks that have not run do not run any more. A message that this port was given just before may not be acknowledged
 * yet, and its sender is told SUREFOOT_NIC_CLOSED then: agree on the end before.
 */
int surefoot_nic_close(surefoot_nic_port *port);

/* How many sends, and how many buffers, may be with the interface yet. */
int surefoot_nic_send_tokens(surefoot_nic_port *port);
int surefoot_nic_receive_tokens(surefoot_nic_port *port);

/* Copies into the port's registered memory, and out of it. */
int surefoot_nic_write(surefoot_nic_port *port, uint32_t address, const void *bytes, uint32_t length);
int surefoot_nic_read(surefoot_nic_port *port, uint32_t address, void *bytes, uint32_t length);

/*
 * Gives the interface a buffer for messages of a size class and a priority (0 low, 1 high); the token comes back with them. It may
 * overlap no other buffer and no message that is being sent.
 */
int surefoot_nic_provide(surefoot_nic_port *port, uint32_t token, uint32_t address, uint32_t size_class, uint32_t priority);

/* Sends. The message must not change before the callback has run; the callback may be NULL. */
int surefoot_nic_send(surefoot_nic_port *port, uint32_t address, uint32_t length, uint32_t size_class, uint32_t to_node,
		      uint32_t to_port, uint32_t priority, surefoot_nic_callback *callback, void *context);
/*
 * Sends into the memory of the other port, at an address there. Of messages of this port that overlap there each leaves when the one
 * before has arrived; other senders' are not waited for. One that goes beyond the other port's memory is refused; what of it lies
 * inside may have been written.
 */
int surefoot_nic_send_directed(surefoot_nic_port *port, uint32_t address, uint32_t length, uint32_t remote, uint32_t to_node,
			       uint32_t to_port, uint32_t priority, surefoot_nic_callback *callback, void *context);
/* Sends once, without an answer: at most one packet of 4096 bytes. SUREFOOT_NIC_ARRIVED says that it has left the interface. */
int surefoot_nic_send_datagram(surefoot_nic_port *port, uint32_t address, uint32_t length, uint32_t size_class,
			       uint32_t to_node, uint32_t to_port, uint32_t priority, surefoot_nic_callback *callback,
			       void *context);

/* Asks for an alarm after some microseconds. There is one at a time: a second one replaces the first. */
int surefoot_nic_alarm(surefoot_nic_port *port, uint32_t token, uint32_t after_us);

/* The next event, waited for this long at most: 1, or 0 and SUREFOOT_NIC_NONE when none came. SUREFOOT_NIC_ENDED when none will. */
int surefoot_nic_receive(surefoot_nic_port *port, struct surefoot_nic_event *event, uint64_t wait_ns);
/* Deals with SUREFOOT_NIC_OTHER; other events are left alone. */
int surefoot_nic_unknown(surefoot_nic_port *port, const struct surefoot_nic_event *event);

/* Why the last call of this thread failed. Stays until the next failure. */
const char *surefoot_nic_error(void);

#ifdef __cplusplus
}
#endif
#endif
