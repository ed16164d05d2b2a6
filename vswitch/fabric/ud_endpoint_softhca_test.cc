// UdEndpoint, AddressHandles, BufferPool and SaClient together, on the software HCA, where
// datagrams arrive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "vswitch/base/eventually_for_test.h"
#include "vswitch/fabric/rebuilt_capture.h"
#include "vswitch/fabric/sa_client.h"
#include "vswitch/fabric/softhca/soft_hca.h"
#include "vswitch/fabric/softhca/subnet/subnet.h"
#include "vswitch/fabric/ud_endpoint.h"
#include "vswitch/wire/ib/erf_for_test.h"
#include "vswitch/wire/ib/ib_headers_for_test.h"

namespace eoib {
namespace {

using State = BufferPool::State;
using testing::SizeIs;

constexpr PKey kPKey(0xffff);
constexpr QKey kQKey(0x8000'1234);
const Mgid kMgid(Gid::FromPrefixAndGuid(0xff12'e01b'ffff'ffff, Guid(0xffff'ffff'0000'0000)));

// A software HCA that captures its packets twice: from the cable to PATH.cable, and rebuilt to
// PATH.
class TwiceCapturedHca final : public Hca {
 public:
  explicit TwiceCapturedHca(std::unique_ptr<Hca> hca) : hca_(std::move(hca)) {}

  const VerbsTable& verbs() const override { return hca_->verbs(); }
  ibv_context* context() const override { return hca_->context(); }
  uint8_t port() const override { return hca_->port(); }
  int gid_index() const override { return hca_->gid_index(); }
  std::string name() const override { return hca_->name(); }
  MadTransport* mads() override { return hca_->mads(); }
  absl::Status StartCapture(const CaptureOptions& options) override {
    const std::string& path = options.path;
    absl::Status status = hca_->StartCapture(path + ".cable");
    status.Update(capture_.Start(*this, path));
    return status;
  }
  absl::StatusOr<CaptureReport> StopCapture() override {
    const absl::StatusOr<CaptureReport> cable = hca_->StopCapture();
    const absl::StatusOr<CaptureReport> rebuilt = capture_.Stop(*this);
    return cable.ok() ? rebuilt : cable;
  }
  absl::optional<CaptureReport> Capture() const override { return capture_.report(); }
  RebuiltCapture* rebuilt_capture() override { return &capture_; }

 private:
  const std::unique_ptr<Hca> hca_;
  RebuiltCapture capture_;
};

// The fabric objects of an agent, on one port.
class Node {
 public:
  Node(softhca::Subnet* subnet, const std::string& name)
      : hca_(std::make_unique<TwiceCapturedHca>(*softhca::OpenSoftHca(subnet->Connect(), name))) {
    EXPECT_TRUE(Eventually([this] { return hca_->QueryPort()->active; }));
    pd_ = hca_->verbs().alloc_pd(hca_->context());
    pool_ = *BufferPool::Create(hca_.get(), pd_, 200, 2044);
    handles_ = std::make_unique<AddressHandles>(hca_.get(), pd_);
    const UdEndpoint::Options options = {
        .pkey_index = hca_->FindPKey(kPKey)->index, .qkey = kQKey, .receive_depth = 64};
    endpoint_ = *UdEndpoint::Create(hca_.get(), pd_, pool_.get(), handles_.get(), options);
    endpoint_->Refill();
    sa_ = std::make_unique<SaClient>(hca_->mads(), &clock_, SaClient::Options());
  }
  ~Node() {
    sa_.reset();
    endpoint_.reset();
    EXPECT_EQ(pool_->count(State::kFree), pool_->size());
    handles_.reset();
    pool_.reset();
    EXPECT_EQ(hca_->verbs().dealloc_pd(pd_), 0);
  }

  Hca& hca() { return *hca_; }
  Gid gid() const { return hca_->QueryPort()->gid; }
  UdEndpoint& endpoint() { return *endpoint_; }
  BufferPool& pool() { return *pool_; }

  void JoinGroupMembership() {
    McMemberRecord record;
    record.mgid = kMgid;
    record.port_gid = gid();
    record.qkey = kQKey;
    record.pkey = kPKey;
    record.join_state = kFullMember;
    absl::StatusOr<McMemberRecord> answer = absl::UnknownError("none yet");
    bool answered = false;
    sa_->Join(record,
              mcm::kMgid | mcm::kPortGid | mcm::kJoinState | mcm::kQKey | mcm::kPKey |
                  mcm::kTrafficClass | mcm::kSl | mcm::kFlowLabel,
              [&](absl::StatusOr<McMemberRecord> got) {
                answer = std::move(got);
                answered = true;
              });
    ASSERT_TRUE(Eventually([&] {
      sa_->Run();
      return answered;
    }));
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->qkey, kQKey);
    const absl::Status attached = endpoint_->Attach(kMgid, answer->mlid);
    ASSERT_TRUE(attached.ok()) << attached;
    flood_ = *handles_->Get({kMgid.gid(), answer->mlid.value(), answer->sl}, {});
  }

  AhIndex flood() const { return flood_; }
  // A handle for the way back to a datagram's source.
  AhIndex Reverse(const Datagram& datagram) {
    return *handles_->Get({datagram.sgid, datagram.slid.value(), datagram.sl}, {});
  }

  void PutHandle(AhIndex ah) { handles_->Put(ah); }

  // Sends `text` and waits until the HCA has taken it.
  void Send(const std::string& text, AhIndex ah, Qpn qpn) {
    SendRequest request = {pool_->Allocate(), nullptr, static_cast<uint32_t>(text.size()), ah, qpn};
    ASSERT_FALSE(request.buffer.IsNone());
    uint8_t* payload = pool_->Frame(request.buffer) - 4;
    std::memcpy(payload, text.data(), text.size());
    request.payload = payload;
    DropReason result = DropReason::kCount;
    ASSERT_EQ(endpoint_->Send({&request, 1}, {&result, 1}), 1u);
    ASSERT_EQ(result, DropReason::kNone);
    size_t failed = 0;
    ASSERT_TRUE(Eventually([&] { return endpoint_->ReapSends(&failed) == 1; }));
    EXPECT_EQ(failed, 0u);
  }
  // Waits for the next datagram and returns its text; *datagram, if given, gets the rest.
  std::string Receive(Datagram* datagram = nullptr) {
    Datagram got;
    if (!Eventually([&] { return endpoint_->Receive({&got, 1}) == 1; })) return "nothing came";
    EXPECT_TRUE(got.ok);
    EXPECT_TRUE(got.has_grh);
    std::string text(reinterpret_cast<char*>(pool_->Frame(got.buffer) - 4), got.length);
    pool_->Free(got.buffer);
    endpoint_->Refill();
    if (datagram != nullptr) *datagram = got;
    return text;
  }

 private:
  MonotonicClock clock_;
  const std::unique_ptr<Hca> hca_;
  ibv_pd* pd_ = nullptr;
  std::unique_ptr<BufferPool> pool_;
  std::unique_ptr<AddressHandles> handles_;
  std::unique_ptr<UdEndpoint> endpoint_;
  std::unique_ptr<SaClient> sa_;
  AhIndex flood_ = AhIndex::None();
};

class UdEndpointSofthcaTest : public testing::Test {
 protected:
  UdEndpointSofthcaTest() {
    for (Node* node : {&a_, &b_, &c_}) node->JoinGroupMembership();
  }

  softhca::Subnet subnet_;
  Node a_{&subnet_, "a"};
  Node b_{&subnet_, "b"};
  Node c_{&subnet_, "c"};
};

TEST_F(UdEndpointSofthcaTest, AFloodReachesEveryMemberAndAnAnswerGoesBack) {
  a_.Send("who has 10.0.0.2", a_.flood(), Qpn(Qpn::kMulticast));
  Datagram at_b;
  for (Node* node : {&a_, &b_, &c_}) {  // the sender's own QP is attached too
    Datagram datagram;
    EXPECT_EQ(node->Receive(&datagram), "who has 10.0.0.2");
    EXPECT_EQ(datagram.dgid, kMgid.gid());
    EXPECT_EQ(datagram.source(), (PeerAddress{a_.gid(), a_.endpoint().qpn()}));
    if (node == &b_) at_b = datagram;
  }
  b_.Send("me", b_.Reverse(at_b), at_b.source_qpn);
  Datagram at_a;
  EXPECT_EQ(a_.Receive(&at_a), "me");
  EXPECT_EQ(at_a.dgid, a_.gid());
  EXPECT_EQ(at_a.source(), (PeerAddress{b_.gid(), b_.endpoint().qpn()}));
}

TEST_F(UdEndpointSofthcaTest, AnArrivalWakesASleepingWorker) {
  ASSERT_TRUE(b_.endpoint().Arm().ok());
  Datagram none;
  EXPECT_EQ(b_.endpoint().Receive({&none, 1}), 0u) << "nothing between the last poll and Arm";
  a_.Send("wake up", a_.flood(), Qpn(Qpn::kMulticast));
  pollfd fd = {b_.endpoint().event_fd(), POLLIN, 0};
  ASSERT_EQ(poll(&fd, 1, 10'000), 1);
  b_.endpoint().DrainEvents();
  EXPECT_EQ(b_.Receive(), "wake up");
}

TEST_F(UdEndpointSofthcaTest, ADatagramWithAnotherQKeyIsDropped) {
  ASSERT_TRUE(c_.endpoint().SetQKey(QKey(0x8000'9999)).ok());
  c_.Send("wrong Q_Key", c_.flood(), Qpn(Qpn::kMulticast));
  EXPECT_EQ(c_.Receive(), "wrong Q_Key") << "itself hears it";
  ASSERT_TRUE(c_.endpoint().SetQKey(kQKey).ok());
  c_.Send("right Q_Key", c_.flood(), Qpn(Qpn::kMulticast));
  EXPECT_EQ(a_.Receive(), "right Q_Key") << "the first it hears";
  EXPECT_EQ(b_.Receive(), "right Q_Key");
}

TEST_F(UdEndpointSofthcaTest, ManyDatagramsArriveInOrderAndAllBuffersReturn) {
  a_.Send("hello", a_.flood(), Qpn(Qpn::kMulticast));
  Datagram hello;
  EXPECT_EQ(b_.Receive(&hello), "hello");
  const AhIndex back = b_.Reverse(hello);
  EXPECT_EQ(a_.Receive(), "hello");
  for (int i = 0; i < 2000; ++i) {
    b_.Send(std::to_string(i), back, hello.source_qpn);
    ASSERT_EQ(a_.Receive(), std::to_string(i));
  }
  for (Node* node : {&a_, &b_}) {
    EXPECT_EQ(node->pool().count(State::kBatch), 0u);
    EXPECT_EQ(node->pool().count(State::kInFlight), 0u);
    EXPECT_EQ(node->pool().count(State::kPosted) + node->pool().count(State::kFree),
              node->pool().size());
  }
}

TEST_F(UdEndpointSofthcaTest, ADetachedQueuePairReceivesNothingFromTheGroup) {
  const softhca::Subnet::GroupStatus group = subnet_.Groups().at(0);
  ASSERT_TRUE(b_.endpoint().Detach(kMgid, group.record.mlid).ok());
  a_.Send("flood", a_.flood(), Qpn(Qpn::kMulticast));
  Datagram at_c;
  EXPECT_EQ(c_.Receive(&at_c), "flood");
  a_.Send("unicast", a_.Reverse([&] {
    Datagram from_b;
    from_b.sgid = b_.gid();
    for (const auto& port : subnet_.Ports()) {
      if (port.name == "b") from_b.slid = port.config.lid;
    }
    return from_b;
  }()),
          b_.endpoint().qpn());
  EXPECT_EQ(b_.Receive(), "unicast") << "the first it hears";
}

// The packets of a capture, without the note at its start.
std::vector<ErfRecord> PacketsOf(const std::string& path) {
  std::vector<ErfRecord> records = ReadErf(path);
  std::remove(path.c_str());
  if (!records.empty() && records.front().type == kErfTypeMeta) records.erase(records.begin());
  return records;
}

// Compares rebuilt packets with those on the cable.
TEST_F(UdEndpointSofthcaTest, RebuiltPacketsEqualThoseOfTheCableExceptForSequenceNumbers) {
  const std::string directory =
      absl::StrCat(testing::TempDir(), "/ud_endpoint_softhca_test_", getpid(), "_");
  Node* const nodes[] = {&a_, &b_, &c_};
  for (Node* node : nodes)
    ASSERT_TRUE(node->hca().StartCapture(directory + node->hca().name()).ok());
  for (const size_t length : {0, 1, 2, 3, 4, 2044}) {
    const std::string text(length, 'x');
    a_.Send(text, a_.flood(), Qpn(Qpn::kMulticast));
    Datagram datagram;
    EXPECT_EQ(b_.Receive(&datagram), text);
    EXPECT_EQ(c_.Receive(), text);
    EXPECT_EQ(a_.Receive(), text) << "its own";
    const AhIndex back = b_.Reverse(datagram);
    b_.Send(text, back, datagram.source_qpn);
    EXPECT_EQ(a_.Receive(), text);
    b_.PutHandle(back);
  }
  const size_t expected[] = {12, 12, 6};
  for (size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(nodes[i]->hca().name());
    const absl::StatusOr<CaptureReport> report = nodes[i]->hca().StopCapture();
    ASSERT_TRUE(report.ok()) << report.status();
    const std::string path = directory + nodes[i]->hca().name();
    const std::vector<ErfRecord> rebuilt = PacketsOf(path), cable = PacketsOf(path + ".cable");
    ASSERT_THAT(cable, SizeIs(expected[i]));
    ASSERT_THAT(rebuilt, SizeIs(expected[i]));
    for (size_t j = 0; j < cable.size(); ++j) {
      UdView on_cable, as_rebuilt;
      ASSERT_EQ(ParseUdPacket(cable[j].bytes, &on_cable), DropReason::kNone);
      ASSERT_EQ(ParseUdPacket(rebuilt[j].bytes, &as_rebuilt), DropReason::kNone);
      on_cable.packet.psn = 0;
      EXPECT_EQ(as_rebuilt.packet, on_cable.packet) << j;
      EXPECT_EQ(as_rebuilt.payload, on_cable.payload) << j;
    }
  }
}

}  // namespace
}  // namespace eoib
