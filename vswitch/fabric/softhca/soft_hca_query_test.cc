// Software HCA: queries, asynchronous events, captures.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "vswitch/fabric/softhca/soft_device.h"
#include "vswitch/fabric/softhca/soft_hca_test_fixture.h"
#include "vswitch/wire/ib/erf_for_test.h"
#include "vswitch/wire/ib/ib_headers_for_test.h"

namespace eoib::softhca {
namespace {

TEST_F(SoftHcaTest, QueriesShowWhatTheSubnetConfigured) {
  SoftNode a(Open("a"));
  const PortConfig config = a.config();
  const absl::StatusOr<HcaPortInfo> info = a.hca().QueryPort();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_TRUE(info->active);
  EXPECT_FALSE(info->ethernet_link_layer);
  EXPECT_EQ(info->lid, config.lid);
  EXPECT_EQ(info->gid, config.gid);
  EXPECT_EQ(info->mtu, 5);
  EXPECT_EQ(info->rate, config.rate);
  EXPECT_EQ(a.hca().FindPKey(PKey(0x8001))->index, 1);
  EXPECT_EQ(a.hca().FindPKey(PKey(0x8001))->pkey, PKey(0x0001)) << "a is a limited member";
  EXPECT_FALSE(a.hca().FindPKey(PKey(0x8002)).ok());
  EXPECT_EQ(a.hca().name(), "soft:a");

  // Through the inline verbs, which read the context.
  ibv_port_attr port;
  ASSERT_EQ(verbs_get_ctx_op(a.hca().context(), query_port)
                ->query_port(a.hca().context(), 1, &port, sizeof(port)),
            0);
  EXPECT_EQ(port.lid, config.lid.value());
  ibv_device_attr_ex device;
  ASSERT_EQ(verbs_get_ctx_op(a.hca().context(), query_device_ex)
                ->query_device_ex(a.hca().context(), nullptr, &device, sizeof(device)),
            0);
  EXPECT_EQ(be64toh(device.orig_attr.node_guid), config.node_guid.value());
  EXPECT_EQ(verbs_get_ctx_op(a.hca().context(), create_qp_ex), nullptr)
      << "a missing verb is null, which gives EOPNOTSUPP";

  ibv_qp_attr attr;
  ibv_qp_init_attr init;
  ASSERT_EQ(a.verbs().query_qp(a.qp(), &attr, IBV_QP_QKEY, &init), 0);
  EXPECT_EQ(attr.qkey, 0x1234u);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(init.cap.max_send_wr, 64u);
}

TEST_F(SoftHcaTest, APortHasOneOwner) {
  SoftNode a(Open("a"));
  const absl::StatusOr<std::unique_ptr<Hca>> second = OpenSoftHca(subnet_.Connect(), "a");
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists) << second.status();
}

TEST_F(SoftHcaTest, ASecondProcessMayQueryAPort) {
  SoftNode a(Open("a"));
  AddDevice("eoib7", "a", [this] { return subnet_.Connect(); });
  const VerbsTable& verbs = SoftVerbsTable();
  int count = 0;
  ibv_device** list = verbs.get_device_list(&count);
  ASSERT_GE(count, 1);
  EXPECT_EQ(list[count], nullptr);
  EXPECT_STREQ(verbs.get_device_name(list[count - 1]), "eoib7");
  ibv_context* context = verbs.open_device(list[count - 1]);
  verbs.free_device_list(list);
  ASSERT_NE(context, nullptr);
  ibv_port_attr port;
  ASSERT_EQ(verbs.query_port(context, 1, &port), 0);
  EXPECT_EQ(port.lid, a.config().lid.value());
  ibv_pd* pd = verbs.alloc_pd(context);
  ibv_cq* cq = verbs.create_cq(context, 4, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_UD;
  EXPECT_EQ(verbs.create_qp(pd, &init), nullptr);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(verbs.destroy_cq(cq), 0);
  EXPECT_EQ(verbs.dealloc_pd(pd), 0);
  EXPECT_EQ(verbs.close_device(context), 0);
}

TEST_F(SoftHcaTest, ChangesOfThePortAreEvents) {
  SoftNode a(Open("a"));
  ibv_context* context = a.hca().context();
  fcntl(context->async_fd, F_SETFL, O_NONBLOCK);
  ibv_async_event event;
  EXPECT_EQ(a.verbs().get_async_event(context, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  struct Row {
    const char* description;
    std::function<absl::Status()> change;
    ibv_event_type type;
  };
  const Row kRows[] = {
      {"link down", [&] { return subnet_.SetLink("a", false); }, IBV_EVENT_PORT_ERR},
      {"link up", [&] { return subnet_.SetLink("a", true); }, IBV_EVENT_PORT_ACTIVE},
      {"LID", [&] { return subnet_.SetLid("a", Lid(77)); }, IBV_EVENT_LID_CHANGE},
      {"P_Keys", [&] { return subnet_.RemoveFromPartition(PKey(0x8001), "a"); },
       IBV_EVENT_PKEY_CHANGE},
      {"SM", [&] { return subnet_.MoveSm(Lid(99)); }, IBV_EVENT_SM_CHANGE},
      {"reregister", [&] { return subnet_.Reregister("a"); }, IBV_EVENT_CLIENT_REREGISTER},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    ASSERT_TRUE(row.change().ok());
    ASSERT_TRUE(IsReadable(context->async_fd, 10'000));
    ASSERT_EQ(a.verbs().get_async_event(context, &event), 0);
    EXPECT_EQ(event.event_type, row.type);
    EXPECT_EQ(event.element.port_num, 1);
    a.verbs().ack_async_event(&event);
    EXPECT_FALSE(IsReadable(context->async_fd));
  }
}

TEST_F(SoftHcaTest, ACaptureHasThePacketsOfBothDirections) {
  SoftNode a(Open("a")), b(Open("b"));
  const std::string path = absl::StrCat(testing::TempDir(), "/soft_hca_test_", getpid(), ".erf");
  ASSERT_TRUE(a.hca().StartCapture(path).ok());
  ASSERT_EQ(a.Send(b.GlobalAddress(), "from a"), 0);
  ASSERT_EQ(b.Receive().payload, "from a");
  ASSERT_EQ(b.Send(a.GlobalAddress(), "to a"), 0);
  ASSERT_EQ(a.Receive().payload, "to a");
  ASSERT_EQ(a.Send(b.Address(), "no GRH"), 0);
  ASSERT_EQ(a.Send(a.GlobalAddress(), "loop"), 0);
  ASSERT_EQ(a.Receive().payload, "loop");
  const absl::StatusOr<CaptureReport> report = a.hca().StopCapture();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->packets, 4u);
  EXPECT_EQ(a.hca().StopCapture().status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_EQ(a.Send(b.GlobalAddress(), "after"), 0);

  const std::vector<ErfRecord> packets = ReadErf(path);
  std::remove(path.c_str());
  ASSERT_EQ(packets.size(), 4u) << "the loopback once, and nothing after the end";
  const SoftNode* const sources[] = {&a, &b, nullptr, &a};
  const char* const payloads[] = {"from a", "to a", "no GRH", "loop"};
  for (size_t i = 0; i < packets.size(); ++i) {
    SCOPED_TRACE(payloads[i]);
    UdView view;
    EXPECT_EQ(packets[i].interface, 0) << "as on the cable";
    const DropReason parsed = ParseUdPacket(packets[i].bytes, &view);
    if (sources[i] == nullptr) {
      EXPECT_EQ(parsed, DropReason::kNoGrh);
      EXPECT_EQ(packets[i].bytes.size(), 8 + 12 + 8 + 6 + 2 + 4 + 2u)
          << "LRH, BTH, DETH, payload, pad, ICRC, VCRC";
      continue;
    }
    ASSERT_EQ(parsed, DropReason::kNone) << "headers, lengths and CRCs are right";
    EXPECT_EQ(std::string(view.payload.begin(), view.payload.end()), payloads[i]);
    EXPECT_EQ(view.packet.slid, sources[i]->config().lid);
    EXPECT_EQ(view.packet.sgid, sources[i]->config().gid);
    EXPECT_EQ(view.packet.source_qpn, sources[i]->qpn());
    EXPECT_EQ(view.packet.pkey, PKey(0xffff));
    EXPECT_EQ(view.packet.qkey, QKey(0x1234));
  }
}

}  // namespace
}  // namespace eoib::softhca
