/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What arrives: whether it is ours to read, and what acknowledgements say. */
#include "ncp.h"

void arm(u32 which)
{
	struct receive_buffer *buffer = &ncp.receive_buffers[which];
	buffer->state = ARRIVED_NOT;
	buffer->stream = 0;
	buffer->place = 0;
	buffer->order = ncp.arrivals++;
	*reg(which ? RECEIVE_POINTER1 : RECEIVE_POINTER0) = (u32)buffer->packet;
}

/* The stream of these addresses that ends here. Who calls has checked them. */
struct stream *stream_of(u32 addresses, u32 priority)
{
	u32 from_node = addresses >> 24, from_port = addresses >> 16 & 0xff, to_port = addresses & 0xff;
	return &ncp.streams[((from_node * PORTS + from_port) * PORTS + to_port) * PRIORITIES + priority];
}

/* Tells the sender that this stream is over, and gives back the buffer that it was filling. */
void end_stream(const struct receive_buffer *buffer, u32 status)
{
	struct stream *stream = buffer->stream;
	refuse(buffer->packet, status);
	if (buffer->place) {
		struct receive_token *token = &ncp.ports[buffer->port].receives[(buffer->place - 1) % RECEIVE_TOKENS];
		struct waiting_event *event = new_event(buffer->port, EVENT_REFUSED);
		token->state = 0;
		if (event) {
			event->words[1] = token->token;
			event->words[2] = STATUS_BAD_ADDRESS;
		}
	}
	if (!stream)
		return;
	if (stream->buffer == buffer->place)
		stream->buffer = 0;
	/* Only a newer generation is heard. */
	stream->next = 0;
}

static u32 addresses_are_possible(u32 addresses)
{
	return addresses >> 24 < NODES && (addresses >> 16 & 0xff) < PORTS && (addresses >> 8 & 0xff) < NODES &&
	       (addresses & 0xff) < PORTS;
}

/* An answer to a stream that begins here. */
static void recv_control(const u32 *packet)
{
	u32 addresses = packet[HEADER_STREAM], sequence = packet[HEADER_SEQUENCE], status = packet[HEADER_STATUS];
	if ((addresses >> 24) != ncp.node)
		return;
	struct port *port = &ncp.ports[addresses >> 16 & 0xff];
	/* Only what names a stream is looked at, so the rest is not even zeroed: that took 2.6 us of each answer. */
	struct send_token of;
	of.stream = addresses;
	of.service = packet[HEADER_SERVICE];
	of.generation = packet[HEADER_GENERATION];
	if ((packet[HEADER_KIND] & 0xff) == PACKET_ACK)
		end_sends(port, &of, sequence, packet[HEADER_PROOF], STATUS_OK);
	else if (status == NACK_AGAIN)
		send_again(port, &of, sequence, packet[HEADER_OFFSET], 0);
	else if (status == NACK_NO_BUFFER)
		send_again(port, &of, sequence, packet[HEADER_OFFSET], NO_BUFFER_RETRY_US);
	else if (status == NACK_CLOSED || status == NACK_REFUSED)
		end_sends(port, &of, sequence + SEND_TOKENS, 0,
			  status == NACK_CLOSED ? STATUS_CLOSED : STATUS_REFUSED);
}

/* To a port that was closed. What had arrived before is acknowledged all the same: its sender may not have heard of it. */
static void recv_closed(const u32 *packet)
{
	struct stream *stream = stream_of(packet[HEADER_STREAM], packet[HEADER_SERVICE] >> 8 & 1);
	u32 is_known = stream->arrived && stream->generation == packet[HEADER_GENERATION];
	if (is_known)
		say(stream, CONTROL_ACK, 0);
	if (!is_known || (int)(packet[HEADER_SEQUENCE] - stream->arrived) > 0)
		refuse(packet, NACK_CLOSED);
}

/* 1 when the packet goes on to the host. */
static u32 recv_message(struct receive_buffer *buffer, u32 bytes)
{
	const u32 *packet = buffer->packet;
	u32 addresses = packet[HEADER_STREAM], service = service_of(packet[HEADER_SERVICE]);
	u32 in_packet = packet[HEADER_BYTES];
	if (service == SERVICES || (addresses >> 8 & 0xff) != ncp.node || in_packet > bytes - PACKET_HEADER_BYTES ||
	    packet[HEADER_OFFSET] > MESSAGE_BYTES_MAX || packet[HEADER_MESSAGE_BYTES] > MESSAGE_BYTES_MAX ||
	    packet[HEADER_OFFSET] + in_packet > packet[HEADER_MESSAGE_BYTES])
		return 0;
	struct port *port = &ncp.ports[addresses & 0xff];
	if (port->state == PORT_SHUT)
		recv_closed(packet);
	if (port->state != PORT_OPEN || events_are_full())
		return 0;
	buffer->port = addresses & 0xff;
	buffer->written = 0;
	services[service].recv_data(buffer);
	return buffer->state == ARRIVED_WRITING;
}

void recv(u32 which)
{
	struct receive_buffer *buffer = &ncp.receive_buffers[which];
	u32 status = *reg(which ? RECEIVE_STATUS1 : RECEIVE_STATUS0);
	u32 bytes = *reg(which ? RECEIVE_BYTES1 : RECEIVE_BYTES0);
	u32 kind = buffer->packet[HEADER_KIND];
	if (status & LINK_DAMAGED || bytes < PACKET_HEADER_BYTES || kind >> 8 != (WIRE_MAGIC << 8 | WIRE_VERSION) ||
	    !addresses_are_possible(buffer->packet[HEADER_STREAM])) {
		arm(which);
		return;
	}
	kind &= 0xff;
	if (kind == PACKET_ACK || kind == PACKET_NACK)
		recv_control(buffer->packet);
	else if ((kind == PACKET_DATA || kind == PACKET_DATAGRAM) && recv_message(buffer, bytes))
		return;
	arm(which);
}
