// Netlink: a routing socket of the kernel (rtnetlink(7)), to ask, to change things, and to hear of changes.
//
// libmnl knows how messages are laid out; what they mean is the callers' business. Of one thread, in whose network namespace it
// is.
#ifndef EOIB_GATEWAY_ENDPOINT_NETLINK_H_
#define EOIB_GATEWAY_ENDPOINT_NETLINK_H_

#include <libmnl/libmnl.h>

#include <array>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace eoib::endpoint {

// A request that is being put together: a message of `type` with a fixed header of `Header`, then attributes (mnl_attr_put).
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

  // `groups`: RTMGRP_* whose changes Hear tells; 0 for a socket to ask.
  static absl::StatusOr<std::unique_ptr<Netlink>> Open(uint32_t groups);
  ~Netlink();
  Netlink(const Netlink&) = delete;
  Netlink& operator=(const Netlink&) = delete;

  // Readable when there is something to hear.
  int fd() const { return mnl_socket_get_fd(socket_); }

  // Sends the request and waits for all of the answer, which the kernel has at once. The error's message begins with `what`;
  // its code is kAlreadyExists for EEXIST, kNotFound for ESRCH, EADDRNOTAVAIL and ENETUNREACH, else kInternal. A list that
  // changed while the kernel made it is asked for again from its start: `visit` may see things twice, and some that are gone.
  absl::Status Ask(NetlinkRequest* request, absl::string_view what, Visitor visit);
  absl::Status Ask(NetlinkRequest* request, absl::string_view what);

  // Tells all changes that have come. False if some were lost, because there were too many of them.
  bool Hear(Visitor visit);

 private:
  absl::StatusOr<bool> AskOnce(NetlinkRequest* request, absl::string_view what, Visitor visit);

  explicit Netlink(mnl_socket* socket) : socket_(socket) {}

  mnl_socket* const socket_;
  uint32_t sequence_ = 0;
};

// Calls `visit` for each attribute behind a header of `header_size`.
void ForEachAttribute(const nlmsghdr* message, size_t header_size, absl::FunctionRef<void(const nlattr* attribute)> visit);

}  // namespace eoib::endpoint

#endif  // EOIB_GATEWAY_ENDPOINT_NETLINK_H_
