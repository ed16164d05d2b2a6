// ServiceDiscovery: how the agents of a VES without a multicast group find each other. Each
// registers a ServiceRecord with the subnet administrator (IBA 1.4 §15.2.5.15), for a lease, and
// reads those of the others.
//
// A record only says where to ask: an agent counts once it has answered by the vPort protocol.
// README.md ("What happens when") has the record and the times.
//
// Control thread.
#ifndef EOIB_CONTROL_SUBNET_SERVICE_DISCOVERY_H_
#define EOIB_CONTROL_SUBNET_SERVICE_DISCOVERY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "vswitch/base/address.h"
#include "vswitch/base/agent_id.h"
#include "vswitch/base/backoff.h"
#include "vswitch/base/clock.h"
#include "vswitch/base/request_handle.h"
#include "vswitch/fabric/sa_client.h"
#include "vswitch/wire/ib/service_record.h"

namespace eoib {

// The service ID of a partition: locally administered (IBA 1.4 annex A3.2.3), "eoib" and the
// full-member P_Key.
uint64_t ServiceIdOf(PKey pkey);
// The record of an agent at `address`.
ServiceRecord ServiceRecordOf(PKey pkey, const AgentId& agent, const PeerAddress& address,
                              absl::Duration lease);
// The address in a record; nothing if it is not one of ours.
absl::optional<PeerAddress> AddressIn(const ServiceRecord& record);

class ServiceDiscovery {
 public:
  // The lease; a registration is renewed at half of it.
  static constexpr absl::Duration kLease = absl::Minutes(2);
  // The table is read at the start and then after these times, doubling, plus or minus half.
  static constexpr absl::Duration kFirstQuery = absl::Milliseconds(250);
  static constexpr absl::Duration kLastQuery = absl::Seconds(20);
  // An agent that does not answer is asked again after these times, doubling.
  static constexpr absl::Duration kFirstAsk = absl::Milliseconds(25);
  static constexpr absl::Duration kLastAsk = absl::Seconds(8);
  // So many agents are asked at a time.
  static constexpr size_t kAsksPerTurn = 16;
  static constexpr absl::Duration kTurn = absl::Milliseconds(20);
  static constexpr size_t kMaxListed = 4096;

  struct Options {
    std::string ves;  // its name, for the log
    PKey pkey;
    AgentId agent;
  };
  // The vPort protocol.
  struct Protocol {
    std::function<bool(const PeerAddress&)> knows;  // whether an agent is known at the address
    std::function<void(const PeerAddress&)> ask;    // asks for the agent there
    // Whether messages from there count. Others are neither asked nor kept.
    std::function<bool(const PeerAddress&)> is_listed = [](const PeerAddress&) { return true; };
  };
  // `random` gives 64 random bits. The pointers outlive the object.
  ServiceDiscovery(const Options& options, SaClient* sa, const Clock* clock,
                   std::function<uint64_t()> random, Protocol protocol);
  ServiceDiscovery(const ServiceDiscovery&) = delete;
  ServiceDiscovery& operator=(const ServiceDiscovery&) = delete;

  // Our address. Nothing: we cannot send, so nothing is registered or read.
  void SetAddress(const absl::optional<PeerAddress>& own);
  // The subnet manager may have forgotten us: registers again, and reads the table.
  void Refresh();
  // Deletes our record. Calls `done`, which may destroy this object, when the SA has answered or
  // given up.
  void Leave(std::function<void()> done);

  // Does what is due.
  void Run();
  absl::Time NextDeadline() const;

  // For the operator: the other agents in the last table; why we are not registered, or the table
  // was not read.
  size_t listed() const { return listed_.size(); }
  const std::string& trouble() const {
    return register_trouble_.empty() ? query_trouble_ : register_trouble_;
  }

 private:
  struct Listed {
    absl::Time ask_at;  // InfiniteFuture: known
    Backoff backoff{kFirstAsk, kLastAsk};
  };

  void Register();
  void Registered(const absl::Status& status);
  void Query();
  void TakeTable(const absl::StatusOr<std::vector<ServiceRecord>>& table);
  void Ask();
  void Fail(const absl::Status& status, std::string* trouble);

  const Options options_;
  SaClient* const sa_;
  const Clock* const clock_;
  const std::function<uint64_t()> random_;
  const Protocol protocol_;
  absl::optional<PeerAddress> own_;
  absl::optional<ServiceRecord> record_;  // the SA may have it
  RequestHandle registration_;
  Backoff register_backoff_{absl::Milliseconds(500), absl::Seconds(16)};
  absl::Time register_at_ = absl::InfiniteFuture();
  RequestHandle query_;
  Backoff query_pauses_{kFirstQuery, kLastQuery};
  absl::Time query_at_ = absl::InfiniteFuture();
  absl::flat_hash_map<PeerAddress, Listed> listed_;
  absl::Time may_ask_at_ = absl::InfinitePast();
  std::string register_trouble_, query_trouble_;
};

}  // namespace eoib

#endif  // EOIB_CONTROL_SUBNET_SERVICE_DISCOVERY_H_
