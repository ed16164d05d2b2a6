// UmadTransport: MADs of a real port, through libibumad (/dev/infiniband/umadN).
//
// What the kernel does with them matters here:
// - It delivers a response only while it waits for one: each Send asks it to wait longer than any caller does. When it gives
// up,
//   it returns the request, which Receive drops.
// - It refuses a second request of the same transaction ID while it waits for the first, and puts a number of its own into the
//   upper 32 bits. So each Send, a repetition too, gets a number in bits 24 to 31, and Receive takes off all above bit 23. This
//   departs from IBA 1.4 §13.4.6.4, by which a repetition has its request's transaction ID: to the SA ours are new requests,
//   and what SaClient asks may be asked twice.
#ifndef EOIB_VSWITCH_FABRIC_UMAD_TRANSPORT_H_
#define EOIB_VSWITCH_FABRIC_UMAD_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fdb/address.h"
#include "vswitch/fabric/mad_transport.h"

namespace eoib {

// Where the subnet manager, and with it the SA, is now.
struct SmAddress {
  Lid lid;  // not valid: there is none
  Sl sl;
};

class UmadTransport final : public MadTransport {
 public:
  // Asked before each Send, since the SM may move.
  using FindSm = std::function<absl::StatusOr<SmAddress>()>;

  static absl::StatusOr<std::unique_ptr<MadTransport>> Open(const std::string& device, uint8_t port, FindSm find_sm);
  ~UmadTransport() override;

  absl::Status Send(const Mad& mad) override;
  bool Receive(Mad* mad) override;
  int fd() const override;

  // The transaction ID on the wire of a request's `attempt`-th sending, and the request's in a response.
  static void SetAttempt(uint8_t attempt, Mad* mad);
  static void ClearAttempt(Mad* mad);

 private:
  UmadTransport(std::string name, int port_id, int agent, FindSm find_sm);

  const std::string name_;  // "mlx5_0/1"
  const int port_id_;       // libibumad's
  const int agent_;
  const FindSm find_sm_;
  uint8_t attempt_ = 0;
  std::vector<uint8_t> send_;  // umad header and MAD
  std::vector<uint8_t> receive_;
};

}  // namespace eoib

#endif  // EOIB_VSWITCH_FABRIC_UMAD_TRANSPORT_H_
