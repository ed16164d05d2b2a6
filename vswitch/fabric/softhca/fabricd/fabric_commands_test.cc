#include "vswitch/fabric/softhca/fabricd/fabric_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <functional>
#include <memory>
#include <string>

#include "vswitch/base/temp_dir_for_test.h"
#include "vswitch/fabric/softhca/recording_sink_for_test.h"
#include "vswitch/fabric/softhca/subnet/fake_ports_for_test.h"

namespace eoib::softhca {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class FabricCommandsTest : public ::testing::Test {
 protected:
  FabricCommandsTest() {
    auto server = FabricServer::Listen(directory_.path() + "/fabricd.sock", &subnet_);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    RegisterFabricCommands(&subnet_, server_.get(), nullptr, &registry_);
    link_ = subnet_.Connect();
    EXPECT_TRUE(link_->Register("h1", {doorbell_.get(), counters_}, PortUse::kOwn, &sink_).ok());
  }

  absl::StatusOr<std::string> Run(const std::string& method,
                                  const CommandRegistry::Arguments& arguments = {}) {
    return registry_.Run(method, arguments);
  }
  std::string Text(const std::string& method, const CommandRegistry::Arguments& arguments = {}) {
    const auto answer = Run(method, arguments);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *answer : "";
  }
  PortConfig config() const { return sink_.Get().configs.back(); }
  void Send(MadMethod method, SaAttribute attribute, uint64_t mask,
            const std::function<void(absl::Span<uint8_t>)>& encode) {
    SaHeader header;
    header.method = method;
    header.attribute = attribute;
    header.component_mask = mask;
    Mad mad;
    EncodeSaHeader(header, &mad);
    encode(SaRecord(&mad));
    ASSERT_TRUE(link_->SendMad(mad).ok());
    ASSERT_EQ(DecodeSaHeader(sink_.Get().mads.back())->status, 0);
  }

  TempDir directory_;
  Subnet subnet_;
  RecordingSink sink_;
  const UniqueFd doorbell_{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  const std::shared_ptr<CountersPage> counters_ = CountersPage::Create().value();
  std::unique_ptr<SubnetLink> link_;
  std::unique_ptr<FabricServer> server_;
  CommandRegistry registry_;
};

TEST_F(FabricCommandsTest, Show) {
  const std::string text = Text("show");
  EXPECT_THAT(text, AllOf(HasSubstr("h1 "), HasSubstr("lid 0x2"), HasSubstr("active"),
                          HasSubstr("pkeys 0xffff")));
  EXPECT_THAT(text, HasSubstr("SM present, lid 0x1: 0 MADs answered"));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("survive")), Not(HasSubstr("LimitNOFILE"))));
  SoftPortCounters counters;
  counters.ring_failures = 3;
  counters_->Store(counters);
  EXPECT_THAT(Text("show"), HasSubstr("memory 3: raise its process's LimitNOFILE"));
}

TEST_F(FabricCommandsTest, ShowTellsWhetherAProcessOwnsAPort) {
  link_->Unregister();
  EXPECT_THAT(Text("show"), HasSubstr(" no process "));
  RecordingSink sink;
  const auto manager = subnet_.Connect();
  ASSERT_TRUE(manager->Register("h1", {}, PortUse::kManage, &sink).ok());
  EXPECT_THAT(Text("show"), HasSubstr(" managed only "));
}

TEST_F(FabricCommandsTest, GroupsAndSubscriptions) {
  EXPECT_EQ(Text("groups"), "");
  EXPECT_EQ(Text("subscriptions"), "");
  McMemberRecord group;
  group.mgid = MakeMgid(1);
  group.port_gid = config().gid;
  group.pkey = PKey(0xffff);
  group.join_state = kFullMember | kSendOnlyNonMember;
  constexpr uint64_t kCreate = mcm::kMgid | mcm::kPortGid | mcm::kJoinState | mcm::kQKey |
                               mcm::kPKey | mcm::kTrafficClass | mcm::kSl | mcm::kFlowLabel;
  Send(MadMethod::kSet, SaAttribute::kMcMemberRecord, kCreate,
       [&](auto record) { EncodeMcMemberRecord(group, record); });
  EXPECT_THAT(Text("groups"), AllOf(HasSubstr(group.mgid.ToString()), HasSubstr("mlid 0xc001"),
                                    HasSubstr("\n  h1 lid 0x2 full send-only\n")));
  InformInfo info;
  info.trap = 66;
  Send(MadMethod::kSet, SaAttribute::kInformInfo, 0,
       [&](auto record) { EncodeInformInfo(info, record); });
  EXPECT_EQ(Text("subscriptions"),
            "h1: generic traps 66, types all, producers all, from all LIDs\n");
  EXPECT_EQ(Text("sm", {"restart"}), "ok\n");
  EXPECT_EQ(Text("groups"), "");
  EXPECT_EQ(Text("subscriptions"), "");
  EXPECT_EQ(config().reregistrations, 1u);
}

TEST_F(FabricCommandsTest, Services) {
  EXPECT_EQ(Text("services"), "");
  ServiceRecord record;
  record.id = 0x0265'6f69'6200'7fff;
  record.gid = config().gid;
  record.pkey = PKey(0xffff);
  record.lease = 60;
  record.name = "eoib\n";
  const uint64_t mask = service::kId | service::kGid | service::kPKey | service::kName;
  Send(MadMethod::kSet, SaAttribute::kServiceRecord, mask,
       [&](auto to) { EncodeServiceRecord(record, to); });
  EXPECT_EQ(Text("services"), "h1: 0x02656f6962007fff \"eoib\\n\" pkey 0xffff lease forever\n");
  Send(MadMethod::kSet, SaAttribute::kServiceRecord, mask | service::kLease,
       [&](auto to) { EncodeServiceRecord(record, to); });
  EXPECT_THAT(Text("services"), HasSubstr(" lease 60 s\n"));
  EXPECT_EQ(Text("sm", {"restart"}), "ok\n");
  EXPECT_EQ(Text("services"), "");
}

TEST_F(FabricCommandsTest, EventsOnDemand) {
  EXPECT_EQ(Text("link", {"h1", "down"}), "ok\n");
  EXPECT_FALSE(config().active);
  EXPECT_EQ(Text("link", {"h1", "up"}), "ok\n");
  EXPECT_TRUE(config().active);
  EXPECT_EQ(Text("lid", {"h1", "0x20"}), "ok\n");
  EXPECT_EQ(config().lid, Lid(0x20));
  EXPECT_EQ(Text("sm", {"move", "0x30"}), "ok\n");
  EXPECT_EQ(config().sm_lid, Lid(0x30));
  EXPECT_THAT(Text("show"), HasSubstr("SM present, lid 0x30"));
  EXPECT_EQ(Text("reregister", {"h1"}), "ok\n");
  EXPECT_EQ(Text("reregister", {"ALL"}), "ok\n");
  EXPECT_EQ(config().reregistrations, 2u);
  EXPECT_EQ(Text("sm", {"off"}), "ok\n");
  EXPECT_TRUE(subnet_.sm_absent());
  EXPECT_EQ(Text("sm", {"on"}), "ok\n");
  EXPECT_EQ(Text("partition/add", {"0x8001", "h1", "limited"}), "ok\n");
  EXPECT_EQ(config().pkeys.back(), PKey(0x0001));
  EXPECT_EQ(Text("partition/remove", {"0x8001", "h1"}), "ok\n");
  EXPECT_EQ(Text("partition/add", {"0x8001", "h7"}), "ok; no port h7 has registered yet\n");
}

TEST_F(FabricCommandsTest, MistypedArgumentsAreRefused) {
  const struct {
    const char* method;
    CommandRegistry::Arguments arguments;
    absl::StatusCode code;
  } kRows[] = {
      {"link", {"h1", "sideways"}, absl::StatusCode::kInvalidArgument},
      {"link", {"absent", "up"}, absl::StatusCode::kNotFound},
      {"lid", {"h1", "x"}, absl::StatusCode::kInvalidArgument},
      {"lid", {"h1", "1"}, absl::StatusCode::kAlreadyExists},
      {"sm", {"maybe"}, absl::StatusCode::kInvalidArgument},
      {"sm", {"move", "0xc000"}, absl::StatusCode::kInvalidArgument},
      {"sm", {"move", "2"}, absl::StatusCode::kAlreadyExists},
      {"reregister", {"absent"}, absl::StatusCode::kNotFound},
      {"partition/add", {"0x8001", "h1", "half"}, absl::StatusCode::kInvalidArgument},
      {"partition/remove", {"0x8001", "h1"}, absl::StatusCode::kNotFound},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(Run(row.method, row.arguments).status().code(), row.code)
        << row.method << " " << row.arguments[0];
  }
}

TEST_F(FabricCommandsTest, ShowTellsThatLidsAreNotKept) {
  auto lids = LidFile::Open(directory_.path());
  ASSERT_TRUE(lids.ok()) << lids.status();
  CommandRegistry registry;
  RegisterFabricCommands(&subnet_, server_.get(), lids->get(), &registry);
  EXPECT_THAT(*registry.Run("show", {}), Not(HasSubstr("survive")));
  ASSERT_EQ(mkdir((directory_.path() + "/lids.new").c_str(), 0700), 0);  // makes the write fail
  (*lids)->Keep("h1", KeptPort{Lid(2), Guid(1)});
  (*lids)->Save().IgnoreError();
  EXPECT_THAT(*registry.Run("show", {}), HasSubstr("LIDs will not survive a restart: write "));
}

}  // namespace
}  // namespace eoib::softhca
