// Software HCA: statuses of completions, and errors of verbs.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "vswitch/fabric/softhca/soft_hca_test_fixture.h"

namespace eoib::softhca {
namespace {

TEST_F(SoftHcaTest, SendErrorsStopTheSendQueueUntilItIsBroughtBack) {
  struct Row {
    const char* description;
    uint32_t length;
    uint32_t key_change;
    ibv_wc_status status;
  };
  constexpr Row kRows[] = {
      {"longer than the MTU", 4097, 0, IBV_WC_LOC_LEN_ERR},
      {"a key of no region", 10, 1, IBV_WC_LOC_PROT_ERR},
      {"beyond the region", 1u << 20, 0, IBV_WC_LOC_PROT_ERR},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.description);
    SoftNode a(Open("a")), b(Open("b"));
    ibv_ah* ah = a.MakeAh(b.Address());
    ibv_sge sge = {reinterpret_cast<uintptr_t>(a.send_area()), row.length,
                   a.mr()->lkey ^ row.key_change};
    ibv_send_wr request{}, *bad;
    request.opcode = IBV_WR_SEND;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.wr_id = 1;
    request.wr.ud = {ah, b.qpn().value(), 0x1234};
    ASSERT_EQ(ibv_post_send(a.qp(), &request, &bad), 0);
    EXPECT_EQ(a.PollSend().status, row.status) << "completes though it is not signaled";
    EXPECT_EQ(a.qp()->state, IBV_QPS_SQE);
    ASSERT_EQ(a.Send(b.Address(), "flushed"), 0);
    EXPECT_EQ(a.PollSend().status, IBV_WC_WR_FLUSH_ERR);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(a.verbs().modify_qp(a.qp(), &attr, IBV_QP_STATE), 0);
    ASSERT_EQ(a.Send(b.Address(), "again"), 0);
    EXPECT_EQ(b.Receive().payload, "again");
    a.verbs().destroy_ah(ah);
  }
}

TEST_F(SoftHcaTest, TheSendQueueIsFreedByPollingOnly) {
  SoftNode a(Open("a"), {.sends = 4}), b(Open("b"));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(a.Send(b.Address(), "x", 0), 0);
  ASSERT_EQ(a.Send(b.Address(), "x"), 0);
  EXPECT_EQ(a.Send(b.Address(), "x"), ENOMEM);
  EXPECT_EQ(a.PollSend().wr_id, 4u) << "the signaled one frees those before it";
  for (int i = 0; i < 4; ++i) EXPECT_EQ(a.Send(b.Address(), "x", 0), 0);
  EXPECT_EQ(a.Send(b.Address(), "x", 0), ENOMEM)
      << "unsignaled ones alone fill it for ever, as on hardware";
}

TEST_F(SoftHcaTest, ReceivesAreFlushedInError) {
  SoftNode a(Open("a"), {.receives = 3});
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(a.verbs().modify_qp(a.qp(), &attr, IBV_QP_STATE), 0);
  for (uint64_t i = 0; i < 3; ++i) {
    const absl::optional<Received> got = a.Poll();
    ASSERT_TRUE(got.has_value());
    EXPECT_EQ(got->wc.wr_id, i);
    EXPECT_EQ(got->wc.status, IBV_WC_WR_FLUSH_ERR);
  }
  ASSERT_EQ(a.Send(a.Address(), "x"), 0);
  EXPECT_EQ(a.PollSend().status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(SoftHcaTest, AReceiveIntoReadOnlyMemoryFails) {
  SoftNode a(Open("a")), b(Open("b"), {.post_receives = false});
  ibv_mr* mr = b.verbs().reg_mr(b.pd(), b.buffer(0), 4136, 0);
  ibv_sge sge = {reinterpret_cast<uintptr_t>(b.buffer(0)), 4136, mr->lkey};
  ibv_recv_wr receive{}, *bad;
  receive.sg_list = &sge;
  receive.num_sge = 1;
  ASSERT_EQ(ibv_post_recv(b.qp(), &receive, &bad), 0);
  ASSERT_EQ(a.Send(b.Address(), "x"), 0);
  EXPECT_EQ(b.Receive().wc.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(b.qp()->state, IBV_QPS_ERR);
  EXPECT_EQ(b.verbs().dereg_mr(mr), 0);
}

TEST_F(SoftHcaTest, VerbsRefuseInvalidArguments) {
  SoftNode a(Open("a"), {.receives = 2});
  const VerbsTable& verbs = a.verbs();
  ibv_qp_init_attr init{};
  init.send_cq = a.send_cq();
  init.recv_cq = a.receive_cq();
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  errno = 0;
  EXPECT_EQ(verbs.create_qp(a.pd(), &init), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  init.qp_type = IBV_QPT_UD;
  init.cap.max_send_sge = 1000;
  EXPECT_EQ(verbs.create_qp(a.pd(), &init), nullptr);
  EXPECT_EQ(errno, EINVAL);
  init.cap = {4, 4, 1, 1, 0};
  ibv_qp* qp = verbs.create_qp(a.pd(), &init);
  ASSERT_NE(qp, nullptr);
  EXPECT_GE(init.cap.max_inline_data, 256u);

  ibv_sge sge = {reinterpret_cast<uintptr_t>(a.buffer(0)), 64, a.mr()->lkey};
  ibv_recv_wr receive{}, *bad_receive;
  receive.sg_list = &sge;
  receive.num_sge = 1;
  EXPECT_EQ(ibv_post_recv(qp, &receive, &bad_receive), EINVAL) << "in RESET";
  EXPECT_EQ(bad_receive, &receive);
  EXPECT_EQ(a.Send(qp, a.Address(), "x"), EINVAL) << "before RTS";

  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  EXPECT_EQ(verbs.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), EINVAL) << "RESET to RTS";
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  EXPECT_EQ(verbs.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT), EINVAL)
      << "without P_Key index and Q_Key";
  attr.pkey_index = 99;
  EXPECT_EQ(
      verbs.modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_QKEY),
      EINVAL)
      << "no such index";
  EXPECT_EQ(a.PostReceive(0), ENOMEM) << "two are posted";
  EXPECT_EQ(verbs.dealloc_pd(a.pd()), EBUSY);
  EXPECT_EQ(verbs.destroy_cq(a.send_cq()), EBUSY);
  EXPECT_EQ(verbs.destroy_comp_channel(a.channel()), EBUSY);
  EXPECT_EQ(verbs.destroy_qp(qp), 0);

  ibv_gid unicast{};
  EXPECT_EQ(verbs.attach_mcast(a.qp(), &unicast, 0xc000), EINVAL);
  ibv_ah_attr ah{};
  ah.dlid = 1;
  EXPECT_EQ(verbs.create_ah(a.pd(), &ah), nullptr) << "port 0";
}

TEST_F(SoftHcaTest, ADestroyedQueuePairLeavesNoCompletions) {
  SoftNode a(Open("a")), b(Open("b"));
  ibv_qp* other = a.MakeQp();
  ASSERT_EQ(a.Send(other, b.Address(), "1"), 0);
  ASSERT_EQ(a.Send(b.Address(), "2"), 0);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  ASSERT_EQ(a.verbs().modify_qp(other, &attr, IBV_QP_STATE), 0);
  EXPECT_EQ(a.PollSend().qp_num, a.qpn().value());
  EXPECT_EQ(a.PollSend().wr_id, 0u);
}

TEST_F(SoftHcaTest, AReplyFindsItsWay) {
  SoftNode a(Open("a")), b(Open("b"));
  ASSERT_EQ(a.Send(b.GlobalAddress(), "ping"), 0);
  Received got = b.Receive();
  ibv_ah_attr attr;
  ASSERT_EQ(b.verbs().init_ah_from_wc(b.hca().context(), 1, &got.wc,
                                      reinterpret_cast<ibv_grh*>(b.buffer(got.wc.wr_id)), &attr),
            0);
  EXPECT_EQ(attr.dlid, a.config().lid.value());
  EXPECT_EQ(attr.is_global, 1);
  EXPECT_EQ(Gid::FromWire(attr.grh.dgid.raw), a.config().gid);
  got.wc.wc_flags = 0;
  ASSERT_EQ(b.verbs().init_ah_from_wc(b.hca().context(), 1, &got.wc, nullptr, &attr), 0);
  EXPECT_EQ(attr.is_global, 0);
}

}  // namespace
}  // namespace eoib::softhca
