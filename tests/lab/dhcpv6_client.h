// Dhcpv6Client: a minimal DHCPv6 client, because no client in Debian works on a TUN interface.
#ifndef EOIB_TESTS_LAB_DHCPV6_CLIENT_H_
#define EOIB_TESTS_LAB_DHCPV6_CLIENT_H_

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/lab/sockets.h"

namespace eoib::lab {

// Builds the messages of RFC 8415 §8 and §21 byte by byte. Works on an interface of any kind.
class Dhcpv6Client {
 public:
  Dhcpv6Client(Host* host, const std::string& interface) : socket_(UdpSocket(host, "::", 546)) {
    host->InNamespace(
        [&] { servers_ = absl::StrCat("ff02::1:2%", if_nametoindex(interface.c_str())); });
  }

  // Solicits and requests an address, and returns it; "" if the server gives none.
  std::string Lease() {
    const absl::optional<Bytes> advertise = Exchange(kSolicit, {}, kAdvertise);
    if (!advertise.has_value()) return "";
    const Bytes server = Option(*advertise, kServerId, 4);
    const absl::optional<Bytes> reply = Exchange(kRequest, server, kReply);
    if (!reply.has_value()) return "";
    // An IA_NA option has IAID, T1, T2 and then options; an IA Address option begins with the
    // address.
    const Bytes address = Option(Option(*reply, kIaNa, 4), kIaAddress, 4 + 12);
    char text[INET6_ADDRSTRLEN];
    return address.size() < 4 + 16 ? ""
                                   : inet_ntop(AF_INET6, address.data() + 4, text, sizeof(text));
  }

 private:
  enum Message : uint8_t { kSolicit = 1, kAdvertise = 2, kRequest = 3, kReply = 7 };
  enum OptionCode : uint8_t {
    kClientId = 1,
    kServerId = 2,
    kIaNa = 3,
    kIaAddress = 5,
    kElapsedTime = 8
  };

  // The first option `code` in the list that begins at `at`, including its code and length; empty
  // if there is none.
  static Bytes Option(const Bytes& message, OptionCode code, size_t at) {
    while (at + 4 <= message.size()) {
      const size_t end = at + 4 + (message[at + 2] << 8 | message[at + 3]);
      if (end > message.size()) break;
      if (message[at] == 0 && message[at + 1] == code)
        return Bytes(message.begin() + at, message.begin() + end);
      at = end;
    }
    return {};
  }

  absl::optional<Bytes> Exchange(Message type, const Bytes& server, Message expected) {
    Bytes message = {type, 'e', 'o', type};
    // DUID-LL, InfiniBand.
    const Bytes identity = {0, kClientId, 0, 12, 0, 3, 0, 32, 2, 0, 0, 0, 0, 0, 0, 1};
    const Bytes address = {0, kIaNa, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
    for (const Bytes& part : {identity, server, address, Bytes{0, kElapsedTime, 0, 2, 0, 0}}) {
      message.insert(message.end(), part.begin(), part.end());
    }
    absl::optional<Bytes> answer;
    const bool answered = EventuallyTrue(kPatience, [&] {
      SendUdp(socket_.get(), servers_, 547, message);
      answer = ReceiveUdp(socket_.get(), absl::Seconds(1));
      return answer.has_value() && answer->size() > 4 && (*answer)[0] == expected &&
             std::equal(answer->begin() + 1, answer->begin() + 4, message.begin() + 1);
    });
    return answered ? answer : absl::nullopt;
  }

  const UniqueFd socket_;
  std::string servers_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_LAB_DHCPV6_CLIENT_H_
