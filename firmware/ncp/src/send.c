/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Onto the link: what streams have to say first, then the packets that were fetched, oldest first. */
#include "ncp.h"

/* Puts the stream among those with something to say. */
void say(struct stream *stream, u32 control, u32 status)
{
	if (control == CONTROL_NACK)
		stream->nack_status = (u8)status;
	if (!stream->control) {
		if (ncp.controls_end - ncp.controls_first == CONTROLS_WAITING) {
			/* The sender asks again by itself. */
			ncp.lost_controls++;
			return;
		}
		ncp.controls[ncp.controls_end++ % CONTROLS_WAITING] = (u32)(stream - ncp.streams);
	}
	stream->control |= (u8)control;
}

/* What a place in the table of streams means as HEADER_STREAM. */
static u32 addresses_of(u32 index)
{
	u32 from_node = index / (PORTS * PORTS * PRIORITIES);
	u32 from_port = index / (PORTS * PRIORITIES) % PORTS;
	return from_node << 24 | from_port << 16 | ncp.node << 8 | index / PRIORITIES % PORTS;
}

/* Answers a packet whose stream is not known here. One answer waits at most; who asks again gets the next. */
void refuse(const u32 *packet, u32 status)
{
	copy_words(ncp.refusal, packet, PACKET_HEADER_BYTES / 4);
	ncp.refusal[HEADER_KIND] = WIRE_MAGIC << 16 | WIRE_VERSION << 8 | PACKET_NACK;
	ncp.refusal[HEADER_ROUTE] = (packet[HEADER_STREAM] >> 24) << 24 | ncp.node << 16;
	ncp.refusal[HEADER_BYTES] = 0;
	ncp.refusal[HEADER_STATUS] = status;
}

static void leave(const u32 *packet, u32 bytes)
{
	*reg(SEND_POINTER) = (u32)packet;
	*reg(SEND_BYTES) = bytes;
}

/* What has arrived is said first: who hears a refusal gives up what was not acknowledged. */
static u32 send_refusal(void)
{
	if (!ncp.refusal[HEADER_KIND])
		return 0;
	copy_words(ncp.control_packet, ncp.refusal, PACKET_HEADER_BYTES / 4);
	ncp.refusal[HEADER_KIND] = 0;
	ncp.control_leaving = 1;
	leave(ncp.control_packet, PACKET_HEADER_BYTES);
	return 1;
}

static u32 send_control(void)
{
	if (ncp.controls_first == ncp.controls_end)
		return send_refusal();
	u32 index = ncp.controls[ncp.controls_first++ % CONTROLS_WAITING];
	struct stream *stream = &ncp.streams[index];
	u32 *packet = ncp.control_packet;
	/* What has arrived may have grown since the NACK was wanted, and is said with it. */
	u32 is_nack = stream->control & CONTROL_NACK;
	u32 to = index / (PORTS * PORTS * PRIORITIES);
	stream->control = 0;
	packet[HEADER_KIND] = WIRE_MAGIC << 16 | WIRE_VERSION << 8 | (is_nack ? PACKET_NACK : PACKET_ACK);
	packet[HEADER_ROUTE] = to << 24 | ncp.node << 16;
	packet[HEADER_STREAM] = addresses_of(index);
	packet[HEADER_SERVICE] = SERVICE_NORMAL | index % PRIORITIES << 8;
	packet[HEADER_GENERATION] = stream->generation;
	packet[HEADER_SEQUENCE] = is_nack ? stream->next : stream->arrived;
	packet[HEADER_OFFSET] = is_nack ? stream->offset : 0;
	packet[HEADER_BYTES] = 0;
	packet[HEADER_STATUS] = is_nack ? stream->nack_status : 0;
	packet[HEADER_PROOF] = stream->proof;
	ncp.control_leaving = 1;
	leave(packet, PACKET_HEADER_BYTES);
	return 1;
}

/* What was fetched of this message and has not left is not wanted any more. */
void forget_packets(struct send_token *token)
{
	for (u32 i = 0; i < 2; i++) {
		struct send_buffer *buffer = &ncp.send_buffers[i];
		if (buffer->token != token)
			continue;
		buffer->token = 0;
		if (buffer->state == BUFFER_READY)
			buffer->state = BUFFER_FREE;
	}
}

/* What comes back to this interface is held while it has no room: nothing else holds it, and the link would lose it. */
static u32 is_held(const struct send_buffer *buffer)
{
	return (buffer->packet[HEADER_STREAM] >> 8 & 0xff) == ncp.node &&
	       !((*reg(RECEIVE_STATUS0) | *reg(RECEIVE_STATUS1)) & LINK_ARMED);
}

u32 send(void)
{
	if (*reg(SEND_STATUS) & LINK_BUSY || ncp.leaving || ncp.control_leaving)
		return 0;
	if (send_control())
		return 1;
	struct send_buffer *first = 0;
	for (u32 i = 0; i < 2; i++) {
		struct send_buffer *buffer = &ncp.send_buffers[i];
		if (buffer->state == BUFFER_READY && (!first || (int)(buffer->order - first->order) < 0))
			first = buffer;
	}
	if (!first || is_held(first))
		return 0;
	first->state = BUFFER_LEAVING;
	ncp.leaving = first;
	leave(first->packet, PACKET_HEADER_BYTES + ((first->wanted + 3) & ~3u));
	return 1;
}

void send_ended(void)
{
	ncp.control_leaving = 0;
	if (ncp.leaving) {
		ncp.leaving->state = BUFFER_FREE;
		ncp.leaving->token = 0;
	}
	ncp.leaving = 0;
}
