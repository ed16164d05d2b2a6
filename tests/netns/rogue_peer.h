// RoguePeer: a peer in the VES that sends datagrams of the test's choice to one agent.
//
// It has a port on the subnet, the P_Key and the Q_Key: the most that an attacker inside the VES
// can have.
#ifndef EOIB_TESTS_NETNS_ROGUE_PEER_H_
#define EOIB_TESTS_NETNS_ROGUE_PEER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/lab/switch_test.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/softhca/open_hca.h"
#include "vswitch/fabric/ud_endpoint.h"

namespace eoib::lab {

template <typename T>
T Value(absl::StatusOr<T> value) {
  if (!value.ok()) Die(value.status().ToString());
  return *std::move(value);
}

// A datagram's payload: the encapsulation header and a frame.
inline std::vector<uint8_t> Encapsulated(uint32_t header, const std::vector<uint8_t>& frame) {
  std::vector<uint8_t> payload(4 + frame.size());
  for (size_t i = 0; i < 4; ++i) payload[i] = static_cast<uint8_t>(header >> (24 - 8 * i));
  std::copy(frame.begin(), frame.end(), payload.begin() + 4);
  return payload;
}

// One thread at a time.
class RoguePeer {
 public:
  static constexpr size_t kDatagram = 4096;

  // Opens the HCA port that an agent on host `name` would have.
  RoguePeer(Fabric* fabric, const std::string& name, Agent* victim)
      : hca_(OpenPortOf(fabric->DaemonCommand("eoibd", name))) {
    pd_ = hca_->verbs().alloc_pd(hca_->context());
    pool_ = Value(BufferPool::Create(hca_.get(), pd_, 256, kDatagram));
    handles_ = std::make_unique<AddressHandles>(hca_.get(), pd_);
    UdEndpoint::Options endpoint;
    endpoint.pkey_index = Value(hca_->FindPKey(PKey(0x8001))).index;
    endpoint.qkey = QKey(0x80008001);
    endpoint.receive_depth = 128;
    endpoint_ = Value(UdEndpoint::Create(hca_.get(), pd_, pool_.get(), handles_.get(), endpoint));

    const PathKey path = {Value(Gid::Parse(victim->Shown(", GID "))),
                          Value(Lid::Parse(victim->Lid())).value(), Sl(0)};
    ah_ = Value(handles_->Get(path, {}));
    qpn_ = Value(Qpn::Parse(victim->Shown(", QPN ")));
  }
  ~RoguePeer() {
    endpoint_.reset();
    handles_->Put(ah_);
    handles_.reset();
    pool_.reset();
    hca_->verbs().dealloc_pd(pd_);
  }

  PeerAddress address() const { return {Value(hca_->QueryPort()).gid, endpoint_->qpn()}; }

  // Sends one datagram; `payload` includes the encapsulation header.
  void Send(const std::vector<uint8_t>& payload) {
    const BufferId buffer = pool_->Allocate();
    if (buffer.IsNone()) Die("the rogue peer has no buffer");
    SendRequest request;
    request.buffer = buffer;
    request.payload = pool_->Grh(buffer);
    request.length = static_cast<uint32_t>(payload.size());
    request.ah = ah_;
    request.qpn = qpn_;
    std::copy(payload.begin(), payload.end(), pool_->Grh(buffer));
    DropReason result = DropReason::kNone;
    endpoint_->Send(absl::MakeConstSpan(&request, 1), absl::MakeSpan(&result, 1));
    if (result != DropReason::kNone)
      Die(absl::StrCat("the send of the rogue peer failed: ", InfoOf(result).label));
    size_t failed = 0;
    if (!EventuallyTrue(kPatience, [&] {
          endpoint_->ReapSends(&failed);
          return endpoint_->sends_in_flight() == 0;
        })) {
      Die("the send of the rogue peer does not complete");
    }
  }

  // The payloads that arrived since the last call. Before the first call none is received.
  std::vector<std::vector<uint8_t>> Take() {
    std::vector<Datagram> datagrams(64);
    datagrams.resize(endpoint_->Receive(absl::MakeSpan(datagrams)));
    std::vector<std::vector<uint8_t>> payloads;
    for (const Datagram& datagram : datagrams) {
      const uint8_t* const payload = pool_->Grh(datagram.buffer) + kGrhSize;
      if (datagram.ok) payloads.emplace_back(payload, payload + datagram.length);
      pool_->Free(datagram.buffer);
    }
    endpoint_->Refill();
    return payloads;
  }

 private:
  static std::unique_ptr<Hca> OpenPortOf(const Argv& command) {
    std::string port, socket;
    for (absl::string_view word : command) {
      if (absl::ConsumePrefix(&word, "--hca=")) port = std::string(word);
      if (absl::ConsumePrefix(&word, "--fabric=")) socket = std::string(word);
    }
    return Value(OpenHca(port, /*rundir=*/"", socket, /*keep_waiting=*/nullptr));
  }

  std::unique_ptr<Hca> hca_;
  ibv_pd* pd_ = nullptr;
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<AddressHandles> handles_;
  std::unique_ptr<UdEndpoint> endpoint_;
  AhIndex ah_;
  Qpn qpn_;
};

}  // namespace eoib::lab

#endif  // EOIB_TESTS_NETNS_ROGUE_PEER_H_
