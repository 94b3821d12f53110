/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The interface's hardware as its control program (NCP) sees it. The model is crates/nic/src/device; its registers.rs
 * repeats these numbers, and a test compares the two.
 *
 * Memory map of the processor (rv32im, little endian, no interrupts, no privilege levels):
 *   SRAM       0x00000000, SRAM_BYTES: code, data, packet buffers; execution starts at 0
 *   registers  0x80000000, words only
 * Any other address, a misaligned access or an illegal instruction is a trap: the processor halts, and only the
 * watchdog of interval timer 1 tells the host.
 */
#ifndef SUREFOOT_NCP_DEVICE_H
#define SUREFOOT_NCP_DEVICE_H

#define SRAM_BYTES 0x20000
#define REGISTERS 0x80000000
/* One instruction takes this long in virtual time: a processor of 125 MHz. */
#define INSTRUCTION_NS 8

/* Clock and interval timers. A timer counts down microseconds and stays at zero, where it has set its bit in ISR. */
#define RTC 0x00 /* r: microseconds since reset */
#define IT0 0x04 /* rw: microseconds left; writing 0 stops it without an event */
#define IT1 0x08
#define IT2 0x0c

/* Interrupt status: bits are set by the hardware, cleared by writing a one. */
#define ISR 0x10
#define IMR 0x14 /* rw: a bit that is set here and in ISR interrupts the host */
#define WAIT 0x18 /* w: the processor stops until ISR has one of these bits */
#define HOST_INTERRUPT 0x1c /* w: a cause of HOST_INTERRUPT_*; interrupts the host */

#define ISR_IT0 0x0001
#define ISR_IT1 0x0002
#define ISR_IT2 0x0004
#define ISR_DMA 0x0010 /* the host DMA ended; DMA_STATUS says how */
#define ISR_SENT 0x0020 /* the packet left */
#define ISR_RECEIVED0 0x0040 /* a packet lies in receive buffer 0 */
#define ISR_RECEIVED1 0x0080
#define ISR_MAILBOX 0x0100 /* a mailbox became non-empty */
#define ISR_PING 0x0200 /* the host wrote PING a word that differs from the one before */

#define HOST_INTERRUPT_WATCHDOG 1 /* raised by the hardware when ISR_IT1 is set and allowed by IMR */
#define HOST_INTERRUPT_EVENTS 2 /* the control program posted an event for a port that sleeps */
#define HOST_INTERRUPT_FATAL 3 /* the control program found itself damaged */
#define HOST_INTERRUPT_TRAP 4 /* raised by the hardware when the processor halts in a trap, where it is set up to tell */
#define HOST_INTERRUPT_STATUS 5 /* raised by the hardware when another bit of ISR is set and allowed by IMR */

/* Host DMA: the six registers that the fault campaign calls "DMA registers", 192 bits. */
#define DMA_HOST 0x20 /* rw: bus address in the host */
#define DMA_LOCAL 0x24 /* rw: address in SRAM */
#define DMA_COUNT 0x28 /* rw: bytes, 1 to DMA_BYTES_MAX */
#define DMA_CONTROL 0x2c /* rw: DMA_TO_HOST or 0, and DMA_START */
#define DMA_STATUS 0x30 /* r: DMA_BUSY, DMA_FAULT */
#define DMA_SUM 0x34 /* r: CRC-32 of the bytes of the last DMA */
#define DMA_BYTES_MAX 4096
#define DMA_TO_HOST 1
#define DMA_START 2
#define DMA_BUSY 1
#define DMA_FAULT 2 /* the host's side refused the address, or the local range is not SRAM */

/*
 * Link. The engine appends a CRC-32 to what it sends and checks it on what it receives. The receive buffers are filled in
 * the order in which they were armed. Up to four packets wait for a buffer.
 */
#define SEND_POINTER 0x40 /* rw: address of the packet in SRAM */
#define SEND_BYTES 0x44 /* w: its length, a multiple of 4; starts the engine */
#define SEND_STATUS 0x48 /* r: LINK_BUSY */
#define RECEIVE_POINTER0 0x50 /* rw: where a packet of up to PACKET_BYTES_MAX may be put; writing arms buffer 0.
                                 Buffers are filled in the order in which they were armed. */
#define RECEIVE_POINTER1 0x54
#define RECEIVE_BYTES0 0x58 /* r: the length of what came, without the CRC */
#define RECEIVE_BYTES1 0x5c
#define RECEIVE_STATUS0 0x60 /* r: LINK_ARMED, LINK_DAMAGED */
#define RECEIVE_STATUS1 0x64
#define LINK_BUSY 1
#define LINK_ARMED 2
#define LINK_DAMAGED 4 /* the CRC of what came was wrong */
#define PACKET_HEADER_BYTES 64
#define PACKET_DATA_BYTES 4096
#define PACKET_BYTES_MAX (PACKET_HEADER_BYTES + PACKET_DATA_BYTES)

/* Mailboxes: one queue of 64-byte commands per port, filled by the host. */
#define MAILBOX_READY 0x70 /* r: a bit per port whose mailbox is not empty */
#define MAILBOX_POP 0x74 /* w: the port whose first command is taken away */
#define MAILBOX_WINDOW 0x100 /* r: 16 words of the first command of port 0; port p at + 64 p */
#define MAILBOX_COMMANDS 64 /* how many commands a mailbox holds */

/* The host's questions to a control program that it suspects. */
#define PING 0x78 /* r: what the host wrote */
#define PONG 0x7c /* w: what the host reads; the answer to PING is its complement */

#define NODE 0x80 /* r: this interface's number */
#define EPOCH 0x84 /* r: how often this interface was reset; engines of an older epoch do nothing (fenced) */

#define PORTS 8
#define NODES 8

#endif
