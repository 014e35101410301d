#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <endian.h>
#include <string.h>

#include "../../../uroce/wire/packet.h"
#include "pcap_reader.h"

#define BTH_MASKED 4 /* the byte of the BTH that the ICRC does not cover */

static struct pcap vectors;

static int read_vectors(void **state)
{
	(void)state;
	return pcap_add_folder(&vectors, VECTORS_FOLDER) ? 0 : -1;
}

static int free_vectors(void **state)
{
	(void)state;
	pcap_free(&vectors);
	return 0;
}

static bool is_ipv4(const struct pcap_packet *packet)
{
	return packet->flow.source.any.sa_family == AF_INET;
}

static uint32_t icrc_of(const struct pcap_packet *packet, uint16_t ip_id)
{
	struct iovec part = { packet->data, packet->length - UR_ICRC_SIZE };

	return ur_icrc(&packet->flow, ip_id, &part, 1);
}

static uint32_t icrc_in(const struct pcap_packet *packet)
{
	uint32_t icrc;

	memcpy(&icrc, packet->data + packet->length - UR_ICRC_SIZE, sizeof(icrc));
	return le32toh(icrc);
}

static bool is_right(const struct pcap_packet *packet, bool any_id, uint16_t ip_id)
{
	return ur_icrc_check(&packet->flow, packet->data, packet->length, any_id, &ip_id);
}

static void flip(struct pcap_packet *packet, size_t bit)
{
	packet->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
}

static void test_the_icrc_of_every_packet_of_the_kernel_is_computed(void **state)
{
	size_t ipv6 = 0;

	(void)state;
	for (size_t i = 0; i < vectors.count; i++) {
		const struct pcap_packet *vector = &vectors.packets[i];

		assert_int_equal(icrc_of(vector, vector->ip_id), icrc_in(vector));
		ipv6 += !is_ipv4(vector);
	}
	assert_in_range(ipv6, 1, vectors.count - 1);
}

static void test_pieces_have_the_icrc_of_the_whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < vectors.count; i++) {
		const struct pcap_packet *vector = &vectors.packets[i];
		size_t covered = vector->length - UR_ICRC_SIZE;

		for (size_t cut = UR_BTH_SIZE; cut <= covered; cut += 1 + cut / 16) {
			struct iovec parts[] = { { vector->data, cut },
						 { NULL, 0 },
						 { vector->data + cut, (covered - cut) / 2 },
						 { vector->data + cut + (covered - cut) / 2,
						   covered - cut - (covered - cut) / 2 } };

			assert_int_equal(ur_icrc(&vector->flow, vector->ip_id, parts, 4),
					 icrc_in(vector));
		}
	}
}

static void test_the_identification_of_every_packet_of_the_kernel_is_found(void **state)
{
	(void)state;
	for (size_t i = 0; i < vectors.count; i++) {
		const struct pcap_packet *vector = &vectors.packets[i];
		uint16_t ip_id = 0;

		assert_true(
			ur_icrc_check(&vector->flow, vector->data, vector->length, true, &ip_id));
		assert_int_equal(ip_id, vector->ip_id);
	}
}

static void test_every_identification_is_found_from_every_guess(void **state)
{
	const struct pcap_packet *vector = &vectors.packets[0];

	(void)state;
	assert_true(is_ipv4(vector));
	for (unsigned guess = 0; guess <= UINT16_MAX; guess += 5) {
		uint16_t ip_id = (uint16_t)guess;

		assert_true(
			ur_icrc_check(&vector->flow, vector->data, vector->length, true, &ip_id));
		assert_int_equal(ip_id, vector->ip_id);
	}
}

static void test_an_expected_identification_is_accepted_whatever_it_is(void **state)
{
	(void)state;
	for (size_t i = 0; i < vectors.count; i++)
		assert_true(is_right(&vectors.packets[i], false, vectors.packets[i].ip_id));
}

/* Writes the ICRC that the packet has with another identification. */
static void set_identification(struct pcap_packet *packet, uint16_t ip_id)
{
	uint32_t icrc = htole32(icrc_of(packet, ip_id));

	memcpy(packet->data + packet->length - UR_ICRC_SIZE, &icrc, sizeof(icrc));
}

static void test_only_places_in_a_batch_are_accepted_in_place_of_the_expected_one(void **state)
{
	struct pcap_packet *vector = &vectors.packets[0];

	(void)state;
	assert_true(is_ipv4(vector));
	for (uint16_t sent = 0; sent < 2 * UR_MAX_BATCH; sent++) {
		for (uint16_t expected = 0; expected < 2 * UR_MAX_BATCH; expected++) {
			uint16_t ip_id = expected;
			bool accepted = sent < UR_MAX_BATCH || sent == expected;

			set_identification(vector, sent);
			assert_int_equal(ur_icrc_check(&vector->flow, vector->data, vector->length,
						       false, &ip_id),
					 accepted);
			assert_int_equal(ip_id, accepted ? sent : expected);
		}
	}
	set_identification(vector, vector->ip_id);
}

/* Whether a packet of that operation, size and family stands before it. */
static bool is_like_an_earlier_one(size_t index)
{
	const struct pcap_packet *vector = &vectors.packets[index];

	for (size_t i = 0; i < index; i++) {
		const struct pcap_packet *earlier = &vectors.packets[i];

		if (earlier->data[0] == vector->data[0] && earlier->length == vector->length &&
		    is_ipv4(earlier) == is_ipv4(vector))
			return true;
	}
	return false;
}

static void test_a_bit_that_flipped_is_noticed_wherever_it_is(void **state)
{
	(void)state;
	for (size_t i = 0; i < vectors.count; i++) {
		struct pcap_packet *vector = &vectors.packets[i];

		if (is_like_an_earlier_one(i))
			continue;
		for (size_t bit = 0; bit < 8 * vector->length; bit++) {
			flip(vector, bit);
			assert_int_equal(is_right(vector, false, vector->ip_id),
					 bit / 8 == BTH_MASKED);
			flip(vector, bit);
		}
	}
}

static void test_a_bit_that_flipped_is_not_explained_by_another_identification(void **state)
{
	(void)state;
	for (size_t i = 0; i < vectors.count; i++) {
		struct pcap_packet *vector = &vectors.packets[i];

		if (is_like_an_earlier_one(i))
			continue;
		for (size_t bit = 8 * (BTH_MASKED + 1); bit < 8 * vector->length; bit += 7) {
			flip(vector, bit);
			assert_false(is_right(vector, true, 0));
			flip(vector, bit);
		}
	}
}

static void assert_covered(struct pcap_packet *packet, void *field, size_t size)
{
	uint8_t *bytes = field;

	for (size_t bit = 0; bit < 8 * size; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_false(is_right(packet, false, packet->ip_id));
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static void test_addresses_and_ports_are_covered(void **state)
{
	(void)state;
	for (size_t i = 0; i < vectors.count; i++) {
		struct pcap_packet *vector = &vectors.packets[i];
		union ur_sockaddr *source = &vector->flow.source, *dest = &vector->flow.dest;

		if (is_like_an_earlier_one(i))
			continue;
		if (is_ipv4(vector)) {
			assert_covered(vector, &source->v4.sin_addr, sizeof(source->v4.sin_addr));
			assert_covered(vector, &dest->v4.sin_addr, sizeof(dest->v4.sin_addr));
			assert_covered(vector, &source->v4.sin_port, sizeof(source->v4.sin_port));
			assert_covered(vector, &dest->v4.sin_port, sizeof(dest->v4.sin_port));
		} else {
			assert_covered(vector, &source->v6.sin6_addr, sizeof(source->v6.sin6_addr));
			assert_covered(vector, &dest->v6.sin6_addr, sizeof(dest->v6.sin6_addr));
			assert_covered(vector, &source->v6.sin6_port, sizeof(source->v6.sin6_port));
			assert_covered(vector, &dest->v6.sin6_port, sizeof(dest->v6.sin6_port));
		}
	}
}

static void test_the_shortest_datagram_is_checked_too(void **state)
{
	uint8_t data[UR_BTH_SIZE + UR_ICRC_SIZE] = { UR_RC_SEND_ONLY };
	struct pcap_packet packet = { .data = data, .length = sizeof(data) };

	(void)state;
	packet.flow.source.v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(1) };
	packet.flow.dest.v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(2) };
	assert_false(is_right(&packet, true, 0));
	set_identification(&packet, 7);
	assert_true(is_right(&packet, false, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_icrc_of_every_packet_of_the_kernel_is_computed),
		cmocka_unit_test(test_pieces_have_the_icrc_of_the_whole),
		cmocka_unit_test(test_the_identification_of_every_packet_of_the_kernel_is_found),
		cmocka_unit_test(test_every_identification_is_found_from_every_guess),
		cmocka_unit_test(test_an_expected_identification_is_accepted_whatever_it_is),
		cmocka_unit_test(
			test_only_places_in_a_batch_are_accepted_in_place_of_the_expected_one),
		cmocka_unit_test(test_a_bit_that_flipped_is_noticed_wherever_it_is),
		cmocka_unit_test(
			test_a_bit_that_flipped_is_not_explained_by_another_identification),
		cmocka_unit_test(test_addresses_and_ports_are_covered),
		cmocka_unit_test(test_the_shortest_datagram_is_checked_too),
	};

	return cmocka_run_group_tests(tests, read_vectors, free_vectors);
}
