// FabricConnection: the connection of one process to eoib-fabricd. It sends the subnet's calls to
// the port as messages.
#ifndef EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FABRIC_CONNECTION_H_
#define EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FABRIC_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/softhca/fabric_protocol.h"
#include "vswitch/fabric/softhca/subnet_link.h"

namespace eoib::softhca {

// The server's thread reads the socket and calls everything but PortSink; any thread that changes
// the subnet calls that. If a write fails, the socket is shut down, and the server's thread finds
// it dead.
class FabricConnection final : public PortSink {
 public:
  // Messages that may wait for a client that does not read.
  static constexpr size_t kQueue = 1024;
  static constexpr size_t kTableQueue = 128;  // if as many wait, a table is dropped

  // `epoll` watches the socket under the number `id`.
  FabricConnection(uint64_t id, int epoll, UniqueFd socket)
      : id_(id), epoll_(epoll), socket_(std::move(socket)) {}
  ~FabricConnection() override { link_.reset(); }  // before the socket and the queue

  uint64_t id() const { return id_; }
  int socket() const { return socket_.get(); }
  // Null before registration.
  SubnetLink* link() const { return registered_ ? link_.get() : nullptr; }
  bool registered() const { return registered_; }
  const std::string& name() const { return name_; }  // of its port; empty before registration
  PortUse use() const { return use_; }
  // True if it was shut down because the client does not read.
  bool was_stuck() const;

  absl::Status Register(std::unique_ptr<SubnetLink> link, const std::string& name,
                        const PortResources& resources, PortUse use);
  void Post(Packet packet);
  // Sends nothing from now on.
  void Mute();
  void Flush();

  void OnPortConfig(const PortConfig& config) override;
  void OnMad(Lid source, absl::Span<const uint8_t> mad) override;
  void OnRingOffered(uint64_t ring, const SourceIdentity& source, RingEnd end) override;
  void OnSourceChanged(uint64_t ring, const SourceIdentity& source) override;
  void OnRingClosed(uint64_t ring) override;
  void OnRingOpened(uint64_t request, uint64_t ring, std::shared_ptr<UniqueFd> doorbell) override;
  void OnRingRefused(uint64_t request) override;
  void OnGroup(Mlid mlid, const std::vector<Lid>& members) override;
  void OnFaults(const std::vector<FaultRule>& rules) override;

 private:
  void PostReport(Packet report, uint64_t tid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // After a write: shuts down a socket that failed, and polls for EPOLLOUT while messages wait.
  void Settle(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t id_;
  const int epoll_;
  const UniqueFd socket_;
  std::unique_ptr<SubnetLink> link_;
  bool registered_ = false;
  std::string name_;
  PortUse use_ = PortUse::kOwn;

  mutable absl::Mutex mutex_;
  PacketQueue queue_ ABSL_GUARDED_BY(mutex_){kQueue};
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stuck_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace eoib::softhca

#endif  // EOIB_VSWITCH_FABRIC_SOFTHCA_SUBNET_FABRIC_CONNECTION_H_
