// PacketLoop: packets of 64 bytes that circulate between two ports, each driven by a dpdk-testpmd.
// One end puts a number of packets under way, and each end sends what it gets back with the MACs
// swapped. So nothing is sent that cannot be delivered, and no queue overflows.
#ifndef EOIB_TESTS_BENCH_PACKET_LOOP_H_
#define EOIB_TESTS_BENCH_PACKET_LOOP_H_

#include <string>

#include "tests/lab/lab.h"

namespace eoib::bench {

// A port of dpdk-testpmd on a host.
struct PacketEnd {
  lab::Host* host;
  std::string device;  // DPDK's arguments: "net_af_packet0,iface=v1"
  std::string mac;
};

// A guest's side of a vhost-user socket, with that MAC; and a network interface.
PacketEnd VirtioUser(lab::Host* host, const std::string& socket, const std::string& mac);
PacketEnd Interface(lab::Host* host, const std::string& interface);

// Lets `under_way` packets circulate. Returns the thousands per second that both ends receive
// together: the median of the generators' own figures for `seconds` seconds.
double CirculatePackets(const PacketEnd& one, const PacketEnd& two, int under_way, int seconds);

}  // namespace eoib::bench

#endif  // EOIB_TESTS_BENCH_PACKET_LOOP_H_
