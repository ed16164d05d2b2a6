#include "vswitch/fabric/softhca/subnet/fabric_server.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/file.h"
#include "vswitch/fabric/softhca/counters_page.h"
#include "vswitch/wire/ib/mad.h"

namespace eoib::softhca {
namespace {

// One for every connection and the listener.
constexpr int kEventsPerRun = FabricServer::kMaxConnections + 1;
constexpr int kMessagesPerTurn = 64;
constexpr uint64_t kListenerId = 0;

absl::Status SystemError(const std::string& what) {
  return absl::InternalError(absl::StrCat(what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<FabricServer>> FabricServer::Listen(const std::string& path,
                                                                   Subnet* subnet) {
  std::unique_ptr<FabricServer> server(new FabricServer(path, subnet));
  if (absl::Status status = server->Start(); !status.ok()) return status;
  return server;
}

FabricServer::FabricServer(std::string path, Subnet* subnet)
    : path_(std::move(path)), subnet_(subnet) {}

// Mute all clients first: rings outlive the server, so no client may be told that rings close while
// the registrations end.
FabricServer::~FabricServer() {
  for (auto& [id, client] : clients_) client->Mute();
  clients_.clear();
  if (listener_.valid()) unlink(path_.c_str());
}

absl::Status FabricServer::Start() {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return SystemError("watch " + path_);
  spare_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!spare_.valid()) return SystemError("open /dev/null");
  return Bind();
}

absl::Status FabricServer::Bind() {
  const absl::StatusOr<sockaddr_un> address = UnixAddress(path_);
  if (!address.ok()) return address.status();
  if (absl::Status status = RemoveStaleSocket(path_, SOCK_SEQPACKET); !status.ok()) return status;
  UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!listener.valid()) return SystemError("make a socket");
  // fchmod before bind: Linux creates the file with the socket's mode, so others can connect at no
  // moment.
  if (fchmod(listener.get(), 0600) != 0) return SystemError("set the mode of " + path_);
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    return SystemError("bind to " + path_);
  }
  listener_ = std::move(listener);
  if (listen(listener_.get(), kMaxOwners) != 0) return SystemError("listen on " + path_);
  // Edge-triggered, so that connections that cannot be accepted do not keep the thread awake.
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = kListenerId;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, listener_.get(), &event) != 0)
    return SystemError("watch " + path_);
  return absl::OkStatus();
}

absl::StatusOr<bool> FabricServer::RestoreSocket() {
  if (access(path_.c_str(), F_OK) == 0 || errno != ENOENT) return false;
  if (absl::Status status = Bind(); !status.ok()) return status;
  return true;
}

void FabricServer::Run() {
  std::array<epoll_event, kEventsPerRun> events;
  const int ready = epoll_wait(epoll_.get(), events.data(), kEventsPerRun, 0);
  for (int i = 0; i < ready; ++i) {
    if (events[i].data.u64 == kListenerId) {
      Accept();
    } else {
      Serve(events[i].data.u64, events[i].events);
    }
  }
}

void FabricServer::Accept() {
  for (;;) {
    UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      const bool more = errno == EINTR || errno == ECONNABORTED ||
                        ((errno == EMFILE || errno == ENFILE) && RefuseOne());
      if (more) continue;
      return;
    }
    ++counters_.accepted;
    if (clients_.size() >= kMaxConnections) {
      ++counters_.refused;
      continue;
    }
    const uint64_t id = next_id_++;
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0) continue;
    clients_[id] = std::make_unique<FabricConnection>(id, epoll_.get(), std::move(socket));
  }
}

// Accepts and closes one connection with the spare descriptor: otherwise it would wait for ever,
// but a refused client retries. Returns false if none is waiting.
bool FabricServer::RefuseOne() {
  if (!spare_.valid()) return false;
  spare_.reset();
  UniqueFd refused(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const bool waited = refused.valid();
  refused.reset();
  spare_.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!waited) return false;
  ++counters_.refused;
  last_error_ = "no descriptor was left for another connection";
  return true;
}

void FabricServer::Serve(uint64_t id, uint32_t events) {
  const auto found = clients_.find(id);
  if (found == clients_.end()) return;  // dropped by an event before this one
  FabricConnection* client = found->second.get();
  if ((events & EPOLLOUT) != 0) client->Flush();
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    absl::StatusOr<Packet> packet = ReceivePacket(client->socket());
    if (absl::IsUnavailable(packet.status())) return;
    const absl::Status status = packet.ok() ? Handle(client, *std::move(packet)) : packet.status();
    if (!status.ok()) return Drop(id, status);
  }
}

void FabricServer::Drop(uint64_t id, const absl::Status& why) {
  const auto client = clients_.find(id);
  const std::string before = std::exchange(last_error_, "");
  if (client->second->was_stuck()) {
    ++counters_.stuck;
    last_error_ = "a client did not read its messages";
  } else if (!absl::IsDataLoss(why)) {
    ++counters_.malformed;
    last_error_ = std::string(why.message());
  }
  ReportLeft(*client->second, last_error_);
  if (last_error_.empty()) last_error_ = before;
  // Remove the client from the map first: ending its registration notifies the other clients.
  const std::unique_ptr<FabricConnection> ended = std::move(client->second);
  clients_.erase(client);
}

// A dead process may come after its successor in this turn's events, and its port must be free for
// the successor.
void FabricServer::DropDead(uint64_t except) {
  for (auto next = clients_.begin(); next != clients_.end();) {
    const auto client = next++;
    pollfd state{client->second->socket(), 0, 0};
    if (client->first != except && poll(&state, 1, 0) > 0 && (state.revents & POLLHUP) != 0) {
      Drop(client->first, absl::DataLossError("the other end has closed the connection"));
    }
  }
}

void FabricServer::ReportRegistered(const FabricConnection& client) const {
  if (client.use() == PortUse::kManage)
    return observer_(absl::StrCat("port ", client.name(), ": a process manages it"));
  if (client.use() != PortUse::kOwn) return;
  const std::vector<Subnet::PortStatus> ports = subnet_->Ports();
  const auto port = std::find_if(ports.begin(), ports.end(),
                                 [&client](const auto& one) { return one.name == client.name(); });
  const std::string lid = port == ports.end() ? "none" : port->config.lid.ToString();
  observer_(absl::StrCat("port ", client.name(), ": registered, LID ", lid));
}

// `why`: the reason of a disconnection; empty if the process closed the connection.
void FabricServer::ReportLeft(const FabricConnection& client, const std::string& why) const {
  if (!client.registered()) {
    if (!why.empty()) observer_(absl::StrCat("disconnected a process without a port: ", why));
    return;
  }
  if (client.use() == PortUse::kQuery && why.empty()) return;
  const char* what =
      client.use() == PortUse::kOwn ? ": its process left" : ": a process that managed it left";
  observer_(absl::StrCat("port ", client.name(),
                         why.empty() ? what : ": its process was disconnected: ", why));
}

absl::Status FabricServer::CheckRoom(PortUse use) const {
  size_t owners = 0, guests = 0;
  for (const auto& [id, client] : clients_) {
    if (client->registered()) ++(client->use() == PortUse::kOwn ? owners : guests);
  }
  if (use == PortUse::kOwn && owners >= kMaxOwners) {
    return absl::ResourceExhaustedError(absl::StrCat(owners, " processes own ports already"));
  }
  if (use != PortUse::kOwn && guests >= kMaxGuests) {
    return absl::ResourceExhaustedError(
        absl::StrCat(guests, " processes manage or query ports already"));
  }
  return absl::OkStatus();
}

absl::Status FabricServer::Handle(FabricConnection* client, Packet packet) {
  const MessageType type = packet.type();
  if (type == MessageType::kRegister) return HandleRegister(client, std::move(packet));
  if (client->link() == nullptr)
    return absl::InvalidArgumentError("a message of a client that is not registered");
  if (type == MessageType::kOpenRing) return HandleOpenRing(client, std::move(packet));
  if (type == MessageType::kMad) {
    const absl::StatusOr<AddressedMad> request = DecodeMad(packet);
    if (!request.ok()) return request.status();
    if (request->lid.value() > Lid::kMax || request->mad.size() != kMadSize) {
      return absl::InvalidArgumentError(
          absl::StrCat("a MAD of ", request->mad.size(), " bytes to LID ", request->lid.value()));
    }
    Mad mad;
    std::copy(request->mad.begin(), request->mad.end(), mad.begin());
    return client->link()->SendMadTo(request->lid, mad);
  }
  if (type == MessageType::kCloseRing) {
    const absl::StatusOr<RingMessage> message = Decode<RingMessage>(packet);
    if (message.ok()) client->link()->CloseRing(message->ring);
    return message.status();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a message of unknown type ", static_cast<uint32_t>(type)));
}

// Reads an owner's descriptors, which remain the packet's.
absl::StatusOr<PortResources> FabricServer::ResourcesIn(const Packet& packet) {
  PortResources resources;
  if (packet.fds.empty()) return resources;
  resources.doorbell = packet.fds[0].get();
  if (!IsEventFd(resources.doorbell))
    return absl::InvalidArgumentError("a doorbell is not an eventfd");
  auto counters = CountersPage::Map(packet.fds[1].get());
  if (!counters.ok()) return counters.status();
  resources.counters = *std::move(counters);
  return resources;
}

absl::Status FabricServer::HandleRegister(FabricConnection* client, Packet packet) {
  // Check the version before the size, which may differ in another version.
  const uint32_t version = packet.version().value_or(kProtocolVersion);
  if (version != kProtocolVersion) {
    return Answer(client, absl::FailedPreconditionError(
                              absl::StrCat("register a port: eoib-fabricd speaks version ",
                                           kProtocolVersion, ", not ", version)));
  }
  const absl::StatusOr<RegisterMessage> message =
      Decode<RegisterMessage>(packet, packet.fds.size());
  if (!message.ok()) return message.status();
  const auto use = static_cast<PortUse>(message->use);
  const size_t fds = use == PortUse::kOwn && !packet.fds_lost ? kRegisterDescriptors : 0;
  if (message->use > static_cast<uint32_t>(PortUse::kQuery) || packet.fds.size() != fds) {
    return absl::InvalidArgumentError(absl::StrCat("a registration for use ", message->use,
                                                   " with ", packet.fds.size(), " descriptors"));
  }
  if (client->registered()) return absl::InvalidArgumentError("a client registers twice");
  const std::string name = TextOf(message->name, sizeof(message->name));
  const absl::StatusOr<PortResources> resources = ResourcesIn(packet);
  if (!resources.ok()) return resources.status();
  RegistrationRequest request;
  if (message->requested_lid <= Lid::kMax)
    request.lid = Lid(static_cast<uint16_t>(message->requested_lid));
  request.qpns = QpnRange{Qpn(message->requested_qpn), message->requested_qpns};

  DropDead(client->id());
  const absl::Status room =
      packet.fds_lost ? absl::ResourceExhaustedError(kNoDescriptor) : CheckRoom(use);
  if (!room.ok()) {
    ++counters_.refused;
    observer_(absl::StrCat("port ", name, ": refused: ", absl::string_view(room.message())));
    return Answer(client, absl::ResourceExhaustedError(absl::StrCat(
                              "register port ", name,
                              " with eoib-fabricd: ", absl::string_view(room.message()))));
  }
  const absl::Status status = client->Register(subnet_->Connect(request), name, *resources, use);
  if (status.ok()) {
    ReportRegistered(*client);
  } else if (use != PortUse::kQuery) {
    observer_(absl::StrCat("port ", name, ": refused: ", absl::string_view(status.message())));
  }
  return Answer(client, status);
}

// A refused client gets the reason and closes the connection.
absl::Status FabricServer::Answer(FabricConnection* client, const absl::Status& status) {
  RegisteredMessage answer;
  answer.code = static_cast<uint32_t>(status.code());
  PutText(absl::string_view(status.message()), answer.text, sizeof(answer.text));
  client->Post(Encode(answer));
  return absl::OkStatus();
}

absl::Status FabricServer::HandleOpenRing(FabricConnection* client, Packet packet) {
  const absl::StatusOr<OpenRingMessage> message =
      Decode<OpenRingMessage>(packet, packet.fds_lost ? 0 : kRingDescriptors);
  if (!message.ok()) return message.status();
  if (packet.fds_lost) {
    last_error_ = absl::StrCat("a ring was refused: ", kNoDescriptor);
    client->OnRingRefused(message->request);
    return absl::OkStatus();
  }
  RingEnd end = FromDescriptors(message->capacity, std::move(packet.fds));
  if (absl::Status status = CheckRingEnd(end); !status.ok()) return status;
  if (message->destination > Lid::kMax) {
    return absl::InvalidArgumentError(absl::StrCat("a ring to LID ", message->destination));
  }
  return client->link()->OpenRing(message->request,
                                  Lid(static_cast<uint16_t>(message->destination)), std::move(end));
}

}  // namespace eoib::softhca
