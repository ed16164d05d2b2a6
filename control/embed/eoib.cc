// The C ABI of vswitch/eoib.h.
#include "vswitch/eoib.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "control/config/config.h"
#include "control/embed/burst_port.h"
#include "control/embed/embedded_switch.h"
#include "control/ves/ves.h"
#include "vswitch/base/daemon/wait_for_hca.h"
#include "vswitch/fabric/softhca/open_hca.h"

static_assert(EOIB_MOST_QUEUES == eoib::VesQueues::kMost);

struct eoib_port {
  std::unique_ptr<eoib::EmbeddedSwitch> embedded;
};

struct eoib_vport {
  eoib_port* port;
  std::string name;
  eoib::BurstPort* bursts;
};

namespace eoib {
namespace {

constexpr char kRunDirectory[] = "/run/eoib";
constexpr size_t kLongestName = 15;
constexpr absl::Duration kLongestOpen = absl::Seconds(1);  // the answer of a software subnet

// The caller's struct as this version knows it: missing members are zero.
template <typename Struct>
Struct Known(const Struct* given) {
  Struct known{};
  std::memcpy(&known, given, std::min(given->size, sizeof(known)));
  return known;
}

// The members of `value` that the caller's version knows.
template <typename Struct>
void Give(const Struct& value, Struct* out) {
  const size_t size = std::min(out->size, sizeof(value));
  std::memcpy(out, &value, size);
  out->size = size;
}

void Explain(absl::string_view message, char* error, size_t error_size) {
  if (error == nullptr || error_size == 0) return;
  const size_t size = std::min(message.size(), error_size - 1);
  std::memcpy(error, message.data(), size);
  error[size] = '\0';
}

int ErrnoOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return -EINVAL;
    case absl::StatusCode::kNotFound:
      return -ENOENT;
    case absl::StatusCode::kAlreadyExists:
      return -EEXIST;
    case absl::StatusCode::kResourceExhausted:
      return -ENOMEM;
    default:
      return -EIO;
  }
}

absl::Status CheckName(absl::string_view what, const char* name) {
  if (name != nullptr && *name != '\0' && std::strlen(name) <= kLongestName)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " has no name, or one of more than ", kLongestName, " characters"));
}

absl::StatusOr<std::unique_ptr<EmbeddedSwitch>> Open(const eoib_port_options& options) {
  if (options.hca == nullptr || *options.hca == '\0') {
    return absl::InvalidArgumentError(
        "no HCA port is given: verbs:DEVICE/PORT (see ibv_devices) or soft:PORTNAME");
  }
  EmbeddedSwitch::Options made;
  made.open_hca = [hca = std::string(options.hca),
                   fabric = std::string(options.fabric == nullptr ? "" : options.fabric)] {
    const auto keep_waiting = [](const std::string&, absl::Duration waited) {
      return waited < kLongestOpen;
    };
    return OpenHca(hca, kRunDirectory, fabric, keep_waiting, /*wait=*/absl::ZeroDuration());
  };
  made.statedir = options.statedir == nullptr ? "" : options.statedir;
  if (options.log != nullptr) {
    made.log = [log = options.log, aux = options.log_aux](int level, absl::string_view text) {
      log(aux, level, std::string(text).c_str());
    };
  }
  return EmbeddedSwitch::Open(std::move(made));
}

absl::StatusOr<std::unique_ptr<eoib_vport>> OpenVPort(eoib_port* port,
                                                      const eoib_vport_options& options) {
  if (absl::Status status = CheckName("the vPort", options.name); !status.ok()) return status;
  if (absl::Status status = CheckName("the VES", options.ves); !status.ok()) return status;
  const PKey pkey(options.pkey);
  if (!pkey.IsValid()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "P_Key ", pkey.ToString(), " is no partition; 0x8001 is one, as a full member"));
  }
  VPortConfig config;
  config.name = options.name;
  config.ves = options.ves;
  config.kind = &kEmbeddedVPort;
  config.vlan.mode = PortMode::kTrunk;
  config.pin_mac = options.mac != nullptr;
  BurstPort::Options bursts;
  if (options.mac != nullptr) bursts.mac = MacAddr::FromWire(options.mac);
  bursts.unfinished_checksums = (options.flags & EOIB_VPORT_UNFINISHED_CHECKSUMS) != 0;
  bursts.tcp_segments = (options.flags & EOIB_VPORT_TCP_SEGMENTS) != 0;
  bursts.udp_segments = (options.flags & EOIB_VPORT_UDP_SEGMENTS) != 0;
  bursts.queues = std::max<size_t>(options.queues, 1);
  if (bursts.queues > EOIB_MOST_QUEUES) {
    return absl::InvalidArgumentError(
        absl::StrCat("a vPort has at most ", EOIB_MOST_QUEUES, " queues, not ", options.queues));
  }
  const absl::StatusOr<BurstPort*> added = port->embedded->AddVPort(config, pkey, bursts);
  if (!added.ok()) return added.status();
  return std::make_unique<eoib_vport>(eoib_vport{port, config.name, *added});
}

// Runs `work`, which returns an int, unless the switch has failed.
template <typename Work>
int Guarded(const eoib_vport* vport, Work work) {
  int result = 0;
  return vport->port->embedded->Guard([&] { result = work(vport->bursts); }) ? result : -EIO;
}

}  // namespace
}  // namespace eoib

extern "C" {

eoib_port* eoib_port_open(const eoib_port_options* options, char* error,
                          size_t error_size) noexcept {
  // Abseil would end the program if it took an order of locks for a deadlock. Only this library has
  // Abseil's locks.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  try {
    auto opened = eoib::Open(eoib::Known(options));
    if (opened.ok()) return new eoib_port{*std::move(opened)};
    eoib::Explain(opened.status().message(), error, error_size);
    // kCancelled: the subnet did not answer in time.
    const bool may_help =
        eoib::WaitingMayHelp(opened.status()) || absl::IsCancelled(opened.status());
    errno = may_help ? EAGAIN : -eoib::ErrnoOf(opened.status());
  } catch (const std::exception& exception) {
    eoib::Explain(exception.what(), error, error_size);
    errno = ENOMEM;
  }
  return nullptr;
}

void eoib_port_close(eoib_port* port) noexcept {
  if (port == nullptr) return;
  eoib::EmbeddedSwitch::Close(std::move(port->embedded));
  delete port;
}

const char* eoib_port_failure(const eoib_port* port) noexcept { return port->embedded->failure(); }

int eoib_port_is_lost(const eoib_port* port) noexcept { return port->embedded->is_lost() ? 1 : 0; }

int eoib_command(eoib_port* port, int argc, const char* const argv[], char** answer) noexcept {
  *answer = nullptr;
  if (argc < 1) return -EINVAL;
  try {
    const absl::StatusOr<std::string> result = port->embedded->Command({argv, argv + argc});
    *answer = strdup((result.ok() ? *result : std::string(result.status().message())).c_str());
    return eoib::ErrnoOf(result.status());
  } catch (const std::exception&) {
    return -ENOMEM;
  }
}

void eoib_free(char* answer) noexcept { free(answer); }

eoib_vport* eoib_vport_open(eoib_port* port, const eoib_vport_options* options, char* error,
                            size_t error_size) noexcept {
  try {
    auto opened = eoib::OpenVPort(port, eoib::Known(options));
    if (opened.ok()) return opened->release();
    eoib::Explain(opened.status().message(), error, error_size);
  } catch (const std::exception& exception) {
    eoib::Explain(exception.what(), error, error_size);
  }
  return nullptr;
}

void eoib_vport_close(eoib_vport* vport) noexcept {
  if (vport == nullptr) return;
  try {
    vport->port->embedded->RemoveVPort(vport->name);
  } catch (const std::exception&) {  // no memory: the vPort goes with its HCA port
  }
  delete vport;
}

int eoib_vport_state(eoib_vport* vport, eoib_state* state) noexcept {
  return eoib::Guarded(vport, [state](eoib::BurstPort* port) {
    eoib::Give(port->State(), state);
    return 0;
  });
}

int eoib_vport_event_fd(const eoib_vport* vport) noexcept {
  return vport->bursts->state_event_fd();
}

int eoib_vport_stats(eoib_vport* vport, eoib_stats* stats) noexcept {
  return eoib::Guarded(vport, [stats](eoib::BurstPort* port) {
    eoib::Give(port->Stats(), stats);
    return 0;
  });
}

int eoib_vport_counters(eoib_vport* vport,
                        void (*visit)(void* aux, const char* name, uint64_t value),
                        void* aux) noexcept {
  return eoib::Guarded(vport, [visit, aux](eoib::BurstPort* port) {
    port->VisitCounters(
        [visit, aux](const char* name, uint64_t value) { visit(aux, name, value); });
    return 0;
  });
}

int eoib_vport_trace(eoib_vport* vport, const void* frame, size_t length, char** answer) noexcept {
  *answer = nullptr;
  try {
    const std::string hex = absl::BytesToHexString({static_cast<const char*>(frame), length});
    const char* const words[] = {"trace", vport->name.c_str(), "hex", hex.c_str()};
    return eoib_command(vport->port, std::size(words), words, answer);
  } catch (const std::exception&) {
    return -ENOMEM;
  }
}

int eoib_receive(eoib_vport* vport, unsigned queue, eoib_frame* frames, int count) noexcept {
  if (queue >= vport->bursts->queues()) return -EINVAL;
  return eoib::Guarded(vport, [queue, frames, count](eoib::BurstPort* port) {
    return static_cast<int>(
        port->ReceiveBurst({frames, static_cast<size_t>(std::max(count, 0))}, queue));
  });
}

int eoib_send(eoib_vport* vport, unsigned queue, const eoib_frame* frames, int count) noexcept {
  if (queue >= vport->bursts->queues()) return -EINVAL;
  return eoib::Guarded(vport, [queue, frames, count](eoib::BurstPort* port) {
    return static_cast<int>(
        port->SendBurst({frames, static_cast<size_t>(std::max(count, 0))}, queue));
  });
}

int eoib_vport_wait_fd(const eoib_vport* vport, unsigned queue) noexcept {
  return queue < vport->bursts->queues() ? vport->bursts->wait_fd(queue) : -EINVAL;
}

int eoib_vport_arm(eoib_vport* vport, unsigned queue) noexcept {
  if (queue >= vport->bursts->queues()) return -EINVAL;
  return eoib::Guarded(vport, [queue](eoib::BurstPort* port) { return port->Arm(queue) ? 1 : 0; });
}

}  // extern "C"
