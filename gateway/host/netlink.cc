#include "gateway/host/netlink.h"

#include <fcntl.h>
#include <linux/rtnetlink.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/byte_order.h"

namespace eoib::endpoint {
namespace {

constexpr int kTries = 10;             // for a dump that changes each time
constexpr size_t kBufferSize = 32768;  // the kernel's largest piece of a dump

int Visit(const nlmsghdr* message, void* visitor) {
  (*static_cast<Netlink::Visitor*>(visitor))(message);
  return MNL_CB_OK;
}

absl::Status Failed(absl::string_view what, int error) {
  const std::string text = absl::StrCat(what, ": ", strerror(error));
  switch (error) {
    case EEXIST:
      return absl::AlreadyExistsError(text);
    case ESRCH:
    case EADDRNOTAVAIL:
    case ENETUNREACH:
    case EHOSTUNREACH:
      return absl::NotFoundError(text);
    default:
      return absl::InternalError(text);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Netlink>> Netlink::Open(uint32_t groups) {
  mnl_socket* const socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
  if (socket == nullptr) return Failed("open a netlink socket", errno);
  const bool listens = groups != 0;
  if (mnl_socket_bind(socket, groups, MNL_SOCKET_AUTOPID) != 0 ||
      (listens && fcntl(mnl_socket_get_fd(socket), F_SETFL, O_NONBLOCK) != 0)) {
    const absl::Status status = Failed("bind a netlink socket", errno);
    mnl_socket_close(socket);
    return status;
  }
  return std::unique_ptr<Netlink>(new Netlink(socket));
}

Netlink::~Netlink() { mnl_socket_close(socket_); }

absl::Status Netlink::Execute(NetlinkRequest* request, absl::string_view what, Visitor visit) {
  for (int tries = 0; tries < kTries; ++tries) {
    const absl::StatusOr<bool> whole = ExecuteOnce(request, what, visit);
    if (!whole.ok()) return whole.status();
    if (*whole) return absl::OkStatus();
  }
  return Failed(what, EINTR);
}

// False if the list changed during the dump.
absl::StatusOr<bool> Netlink::ExecuteOnce(NetlinkRequest* request, absl::string_view what,
                                          Visitor visit) {
  nlmsghdr* const message = request->message();
  message->nlmsg_seq = ++sequence_;
  // A dump ends with NLMSG_DONE; make other answers end with an acknowledgement.
  if ((message->nlmsg_flags & NLM_F_DUMP) != NLM_F_DUMP) message->nlmsg_flags |= NLM_F_ACK;
  if (mnl_socket_sendto(socket_, message, message->nlmsg_len) < 0) return Failed(what, errno);
  std::vector<char> buffer(kBufferSize);
  bool whole = true;
  for (;;) {
    const ssize_t size = mnl_socket_recvfrom(socket_, buffer.data(), buffer.size());
    if (size < 0) return Failed(what, errno);
    int left = static_cast<int>(size);
    for (const auto* each = reinterpret_cast<const nlmsghdr*>(buffer.data());
         mnl_nlmsg_ok(each, left); each = mnl_nlmsg_next(each, &left)) {
      // The rest of an earlier answer that was given up.
      if (each->nlmsg_seq != sequence_) continue;
      whole &= (each->nlmsg_flags & NLM_F_DUMP_INTR) == 0;
      if (each->nlmsg_type == NLMSG_DONE) return whole;
      if (each->nlmsg_type == NLMSG_ERROR) {
        const int error = static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(each))->error;
        if (error == 0) return whole;
        return Failed(what, -error);
      }
      if (each->nlmsg_type >= NLMSG_MIN_TYPE) visit(each);
    }
  }
}

bool Netlink::ReadEvents(Visitor visit) {
  std::vector<char> buffer(kBufferSize);
  bool complete = true;
  for (;;) {
    const ssize_t size = mnl_socket_recvfrom(socket_, buffer.data(), buffer.size());
    if (size < 0 && errno == ENOBUFS) {
      complete = false;
      continue;
    }
    if (size <= 0) return complete;
    mnl_cb_run(buffer.data(), static_cast<size_t>(size), 0, 0, Visit, &visit);
  }
}

void PutAddress(uint16_t type, const IpAddr& address, nlmsghdr* message) {
  if (address.is_ipv6())
    return mnl_attr_put(message, type, Ipv6Addr::kSize, address.ipv6().bytes().data());
  const be32 wire(address.ipv4().value());
  mnl_attr_put(message, type, sizeof(wire), &wire);
}

absl::optional<IpAddr> AddressOf(const void* bytes, size_t size) {
  if (size == Ipv4Addr::kSize) return IpAddr(Ipv4Addr(ReadWire<be32>(bytes).value()));
  if (size == Ipv6Addr::kSize) return IpAddr(Ipv6Addr::FromWire(bytes));
  return absl::nullopt;
}

void ForEachAttribute(const nlmsghdr* message, size_t header_size,
                      absl::FunctionRef<void(const nlattr* attribute)> visit) {
  const auto* attribute =
      static_cast<const nlattr*>(mnl_nlmsg_get_payload_offset(message, header_size));
  const char* const end = static_cast<const char*>(mnl_nlmsg_get_payload_tail(message));
  while (mnl_attr_ok(attribute, static_cast<int>(end - reinterpret_cast<const char*>(attribute)))) {
    visit(attribute);
    attribute = mnl_attr_next(attribute);
  }
}

}  // namespace eoib::endpoint
