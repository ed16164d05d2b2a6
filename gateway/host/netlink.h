// Netlink: a socket of the kernel's rtnetlink(7), for queries, changes and events.
//
// libmnl does the layout of messages; callers know their meaning. One thread, in its network
// namespace.
#ifndef EOIB_GATEWAY_HOST_NETLINK_H_
#define EOIB_GATEWAY_HOST_NETLINK_H_

#include <libmnl/libmnl.h>

#include <array>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "vswitch/wire/ip/ip_address.h"

namespace eoib::endpoint {

// Builds a request: a message of `type` with a fixed header (Put), then attributes (mnl_attr_put).
class NetlinkRequest {
 public:
  NetlinkRequest(uint16_t type, uint16_t flags) : header_(mnl_nlmsg_put_header(buffer_.data())) {
    header_->nlmsg_type = type;
    header_->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
  }
  NetlinkRequest(const NetlinkRequest&) = delete;
  NetlinkRequest& operator=(const NetlinkRequest&) = delete;

  template <typename Header>
  Header* Put() {
    return static_cast<Header*>(mnl_nlmsg_put_extra_header(header_, sizeof(Header)));
  }
  nlmsghdr* message() { return header_; }

 private:
  alignas(nlmsghdr) std::array<char, 512> buffer_{};
  nlmsghdr* const header_;
};

class Netlink {
 public:
  using Visitor = absl::FunctionRef<void(const nlmsghdr* message)>;

  // `groups`: the RTMGRP_* whose events ReadEvents returns; 0 for a socket for Execute.
  static absl::StatusOr<std::unique_ptr<Netlink>> Open(uint32_t groups);
  ~Netlink();
  Netlink(const Netlink&) = delete;
  Netlink& operator=(const Netlink&) = delete;

  // Readable when events wait for ReadEvents.
  int fd() const { return mnl_socket_get_fd(socket_); }

  // Sends the request and blocks for the whole answer, which the kernel has at once. An error's
  // message begins with `what`; its code is kAlreadyExists for EEXIST, kNotFound for ESRCH,
  // EADDRNOTAVAIL, ENETUNREACH and EHOSTUNREACH, else kInternal. A dump that changed meanwhile is
  // requested again from the start: `visit` may see entries twice, and entries that are gone.
  absl::Status Execute(
      NetlinkRequest* request, absl::string_view what, Visitor visit = [](const nlmsghdr*) {});

  // Calls `visit` for all waiting events. False if the socket's buffer has overflowed and events
  // were lost.
  bool ReadEvents(Visitor visit);

 private:
  absl::StatusOr<bool> ExecuteOnce(NetlinkRequest* request, absl::string_view what, Visitor visit);

  explicit Netlink(mnl_socket* socket) : socket_(socket) {}

  mnl_socket* const socket_;
  uint32_t sequence_ = 0;
};

// An IP address, whose family is that of its size, in an attribute.
void PutAddress(uint16_t type, const IpAddr& address, nlmsghdr* message);
absl::optional<IpAddr> AddressOf(const void* bytes, size_t size);
inline absl::optional<IpAddr> AddressOf(const nlattr* attribute) {
  return AddressOf(mnl_attr_get_payload(attribute), mnl_attr_get_payload_len(attribute));
}

// Calls `visit` for each attribute after a header of `header_size` bytes.
void ForEachAttribute(const nlmsghdr* message, size_t header_size,
                      absl::FunctionRef<void(const nlattr* attribute)> visit);

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_HOST_NETLINK_H_
