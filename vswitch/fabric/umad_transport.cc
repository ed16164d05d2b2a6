#include "vswitch/fabric/umad_transport.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/umad.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/error_advice.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib {
namespace {

constexpr uint32_t kSaQpn = 1;                    // the general services interface
constexpr uint32_t kWellKnownQKey = 0x8001'0000;  // IBA 1.4 §10.2.5: QP1's
constexpr int kKernelTimeoutMs = 30'000;          // longer than any wait of SaClient
constexpr size_t kTidOffset = 8;                  // IBA 1.4 §13.4.3: 64 bits, network order
constexpr size_t kAttemptByte = kTidOffset + 4;   // bits 31 to 24
constexpr size_t kMethodByte = 3;                 // IBA 1.4 §13.4.3
// The kernel acknowledges the segments of a table and joins them.
constexpr uint8_t kRmppVersion = 1;
constexpr size_t kBitsOfLong = 8 * sizeof(long);

// libibumad returns -EIO or -EPERM where a system call failed, and leaves the reason in errno.
int Reason(int result) {
  return (result == -EIO || result == -EPERM) && errno != 0 ? errno : -result;
}

// Registers for responses and, if `reports`, for reports.
int RegisterAgent(int port_id, bool reports) {
  constexpr size_t kReport = static_cast<size_t>(MadMethod::kReport);
  long methods[16 / sizeof(long)] = {};
  methods[kReport / kBitsOfLong] |= 1L << kReport % kBitsOfLong;
  errno = 0;
  return umad_register(port_id, static_cast<int>(MgmtClass::kSubnAdm), kSaClassVersion,
                       kRmppVersion, reports ? methods : nullptr);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MadTransport>> UmadTransport::Open(const std::string& device,
                                                                  uint8_t port, FindSm find_sm) {
  const std::string name = absl::StrCat(device, "/", port);
  umad_init();  // a no-op in this version; must come first in others
  errno = 0;
  const int port_id = umad_open_port(device.c_str(), port);
  if (port_id < 0) {
    return ErrnoWithAdvice(Reason(port_id), absl::StrCat("open the MAD device of port ", name),
                           DeviceNodeAdvice(Reason(port_id), "/dev/infiniband/umadN", "ib_umad"));
  }
  // Libibumad does not; a re-executed program must not inherit it.
  fcntl(umad_get_fd(port_id), F_SETFD, FD_CLOEXEC);
  int agent = RegisterAgent(port_id, /*reports=*/true);
  // Registration fails if another program receives the reports.
  const bool reports = agent >= 0;
  if (!reports) agent = RegisterAgent(port_id, /*reports=*/false);
  if (agent < 0) {
    const absl::Status status = absl::ErrnoToStatus(
        Reason(agent), absl::StrCat("register for SA management datagrams on port ", name));
    umad_close_port(port_id);
    return status;
  }
  return std::unique_ptr<MadTransport>(
      new UmadTransport(name, port_id, agent, reports, std::move(find_sm)));
}

UmadTransport::UmadTransport(std::string name, int port_id, int agent, bool receives_reports,
                             FindSm find_sm)
    : name_(std::move(name)),
      port_id_(port_id),
      agent_(agent),
      receives_reports_(receives_reports),
      find_sm_(std::move(find_sm)),
      send_(umad_size() + kMadSize),
      receive_(umad_size() + kMadSize) {}

UmadTransport::~UmadTransport() {
  umad_unregister(port_id_, agent_);
  umad_close_port(port_id_);
}

int UmadTransport::fd() const { return umad_get_fd(port_id_); }

// The kernel refuses a retry with the same transaction ID, so bits 24 to 31 number the attempts.
// Deliberately not IBA 1.4 §13.4.6.4.
absl::Status UmadTransport::Send(const Mad& mad) {
  Mad wire = mad;
  wire[kAttemptByte] = attempt_++;
  return SendToSm(wire, kKernelTimeoutMs);
}

absl::Status UmadTransport::Reply(const Mad& mad) { return SendToSm(mad, /*timeout_ms=*/0); }

absl::Status UmadTransport::SendToSm(const Mad& mad, int timeout_ms) {
  absl::StatusOr<SmAddress> sm = find_sm_();
  if (!sm.ok()) return sm.status();
  if (!sm->lid.IsValid())
    return absl::UnavailableError(
        absl::StrCat("ask the SA on port ", name_,
                     ": the port knows no subnet manager; is OpenSM "
                     "(or the switch's own) running on this subnet? \"sminfo\" asks it"));
  std::fill(send_.begin(), send_.end(), 0);
  umad_set_addr_net(send_.data(), htons(sm->lid.value()), htonl(kSaQpn), sm->sl.value(),
                    htonl(kWellKnownQKey));
  // The SA is in the default partition, by convention the table's first entry.
  umad_set_pkey(send_.data(), 0);
  std::memcpy(umad_get_mad(send_.data()), mad.data(), kMadSize);
  const int error = umad_send(port_id_, agent_, send_.data(), kMadSize, timeout_ms, /*retries=*/0);
  if (error == 0) return absl::OkStatus();
  NoteLoss(Reason(error));
  return absl::ErrnoToStatus(
      Reason(error), absl::StrCat("send a MAD to LID ", sm->lid.ToString(), " on port ", name_));
}

void UmadTransport::NoteLoss(int error) { lost_ |= error == EIO || error == ENODEV; }

// Returns whether the MAD in receive_ came from the subnet manager's present LID.
bool UmadTransport::IsFromSm() const {
  const absl::StatusOr<SmAddress> sm = find_sm_();
  const ib_mad_addr_t* from = umad_get_mad_addr(const_cast<uint8_t*>(receive_.data()));
  return sm.ok() && sm->lid.IsValid() && ntohs(from->lid) == sm->lid.value();
}

bool UmadTransport::Receive(std::vector<uint8_t>* mad) {
  for (;;) {
    int length = static_cast<int>(receive_.size() - umad_size());
    const int agent = umad_recv(port_id_, receive_.data(), &length, /*timeout_ms=*/0);
    if (agent == -ENOSPC && length > static_cast<int>(receive_.size() - umad_size())) {
      // A table: it stays first in the queue until it is read.
      receive_.resize(umad_size() + static_cast<size_t>(length));
      continue;
    }
    if (agent < 0) {
      NoteLoss(-agent);
      return false;
    }
    // Skip our own requests, which the kernel returns after its timeout.
    if (umad_status(receive_.data()) != 0 || length < static_cast<int>(kSaRecordOffset)) continue;
    const auto* bytes = static_cast<const uint8_t*>(umad_get_mad(receive_.data()));
    mad->assign(bytes, bytes + length);
    if ((*mad)[kMethodByte] == static_cast<uint8_t>(MadMethod::kReport) && !IsFromSm()) continue;
    return true;
  }
}

}  // namespace eoib
