/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Between the host and the control program: commands through the mailboxes, events by DMA, and how the host's memory
 * is laid out. crates/nic/src/host/layout.rs repeats it, and a test compares the two.
 *
 * Bus addresses: the host's memory for one interface begins at HOST_BASE. Port p has its block at HOST_PORTS + p *
 * HOST_PORT_BYTES, in which the control program writes events only. Addresses in commands are *port addresses*: byte
 * offsets into what the port registered; the page table translates them, page by page, to bus addresses.
 */
#ifndef SUREFOOT_NCP_HOST_H
#define SUREFOOT_NCP_HOST_H

#define HOST_BASE 0x10000000
#define HOST_PORTS 0x10001000
#define HOST_PORT_BYTES 0x8000
#define HOST_ARENAS 0x10041000 /* the registered memory of all ports, page by page */
#define PAGE_BYTES 4096
#define PORT_PAGES 1024 /* entries of a port's page table: a bus page number, 0 for none */

/* Offsets in a port's block. */
#define PORT_EVENTS 0x0000
#define PORT_EVENT_COUNT 256 /* events of 64 bytes in the ring */
#define PORT_PAGE_TABLE 0x4000

/* Commands: 16 words. Word 0 is COMMAND_*; the others as named below. */
#define COMMAND_OPEN 1 /* [1] generation [2] events that were posted so far; [3] OPEN_VERIFIES;
                          the port receives nothing before COMMAND_START */
#define OPEN_VERIFIES 1 /* the library verifies each message: acknowledge what it accepted, not what was posted */
#define COMMAND_CLOSE 2
#define COMMAND_SEND 3
#define COMMAND_PROVIDE 4 /* [1] token [2] port address [3] size class [4] priority; from [PROVIDE_ACCEPT] on: a COMMAND_ACCEPT, or 0 */
#define PROVIDE_ACCEPT 5
#define COMMAND_CONSUMED 5 /* [1] events consumed in all: room in the event ring */
#define COMMAND_ALARM 6 /* [1] token [2] microseconds from now; 0 takes it back */
#define COMMAND_STREAM 7 /* restore: [1] stream (as HEADER_STREAM) [2] priority [3] generation [4] next number expected */
#define COMMAND_ACCEPT 8 /* [1] stream [2] priority [3] generation [4] number [5] proof: verified up to here, acknowledge */
#define COMMAND_REJECT 9 /* [1] stream [2] priority [3] generation [4] number: damaged, ask for it again */
#define COMMAND_FORGET_PAGES 10 /* forget translated pages of this port */
#define COMMAND_ROUTE 11 /* port 0 only: [1] node [2] route word, 0 for none */
#define COMMAND_START 12 /* the last one of an open or a restore: receive. On port 0 [1]: a bit per port that will be back */

/* COMMAND_SEND */
#define SEND_TOKEN 1
#define SEND_ADDRESS 2
#define SEND_LENGTH 3
#define SEND_TARGET 4 /* destination node (8 bits, bit 8), destination port (8 bits, bit 0) */
#define SEND_SERVICE 5 /* as HEADER_SERVICE */
#define SEND_SEQUENCE 6 /* FTGM: the number of the message in its stream */
#define SEND_CHECKSUM 7
#define SEND_REMOTE 8
#define SEND_FLAGS 9 /* of HEADER_ROUTE */
#define SEND_GENERATION 10

/* Events: 16 words in the ring, the last one written last: it is the event's number, counted from 1. */
#define EVENT_NUMBER 15
#define EVENT_SENT 1 /* [1] token of the last [2] status [3] stream [4] priority [5] number: arrived up to here [6] proof [7] generation */
#define EVENT_RECEIVED 2 /* [1] token of the buffer [2] length [3] stream [4] service word [5] number [6] checksum [7] generation */
#define EVENT_DIRECTED 3 /* as EVENT_RECEIVED, [8] the port address that was written; it is posted so that its order is known */
#define EVENT_ALARM 4 /* [1] token */
#define EVENT_FAULT_DETECTED 5 /* posted by the daemon, not by the control program */
#define EVENT_REFUSED 6 /* a command that cannot be: [1] token [2] status */

/* Statuses of sends and refusals. */
#define STATUS_OK 0
#define STATUS_CLOSED 1 /* the target port is not open */
#define STATUS_TOO_LONG 2
#define STATUS_NO_TOKEN 3
#define STATUS_BAD_ADDRESS 4
#define STATUS_BAD_TARGET 5
#define STATUS_REFUSED 6
#define STATUS_TIMED_OUT 7 /* sent SEND_TRIES_MAX times without an answer */

/* Limits. */
#define SEND_TRIES_MAX 4096
#define SEND_TOKENS 16 /* outstanding sends of a port */
#define RECEIVE_TOKENS 32 /* provided buffers of a port */
#define MESSAGE_BYTES_MAX 65536
#define SIZE_CLASS_MAX 16 /* a buffer of class c holds 2^c bytes */

#endif
