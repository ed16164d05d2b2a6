#include "vswitch/fabric/verbs_hca.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "vswitch/base/unique_fd.h"
#include "vswitch/fabric/fake_verbs.h"
#include "vswitch/fabric/hca.h"
#include "vswitch/fabric/umad_transport.h"
#include "vswitch/wire/ib/sa_mad.h"

namespace eoib {
namespace {

using testing::HasSubstr;

TEST(OpenVerbsHca, RefusesANameWithoutDeviceAndPort) {
  for (const char* name :
       {"", "mlx5_0", "/1", "mlx5_0/", "mlx5_0/0", "mlx5_0/256", "mlx5_0/-1", "mlx5_0/one",
        "mlx5_0/1x", "mlx5_0/1?", "mlx5_0/1?gid=", "mlx5_0/1?gid=-1", "mlx5_0/1?gid=256",
        "mlx5_0?gid=1", "mlx5_0/1?gid=1?gid=2"}) {
    const absl::Status status = OpenVerbsHca(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(status.message(), HasSubstr("verbs:DEVICE/PORT"));
  }
}

// Without InfiniBand, libibverbs returns no list (ENOSYS) or one without this name.
TEST(OpenVerbsHca, AnUnknownDeviceIsNotFound) {
  const absl::Status status = OpenVerbsHca("nosuchdevice/1").status();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("InfiniBand device"));
}

TEST(LibibverbsTable, IsComplete) {
  const VerbsTable& table = LibibverbsTable();
  void* members[sizeof(VerbsTable) / sizeof(void*)];
  static_assert(sizeof(members) == sizeof(table));
  std::memcpy(members, &table, sizeof(table));
  for (void* member : members) EXPECT_NE(member, nullptr);
}

TEST(UmadTransport, OpenSaysWhichPort) {
  const absl::Status status =
      UmadTransport::Open("nosuchdevice", 1, [] { return SmAddress(); }).status();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr("open the MAD device of port nosuchdevice/1: "));
}

// ---- Simulated devices.

// The devices that libibverbs lists and opens. Their contexts are a FakeHca's.
class FakeDevices {
 public:
  FakeDevices() { instance_ = this; }
  ~FakeDevices() { instance_ = nullptr; }

  static const VerbsTable& Table() {
    static const VerbsTable kTable = [] {
      VerbsTable t = FakeHca().verbs();
      t.get_device_list = [](int* count) { return instance_->List(count); };
      t.free_device_list = [](ibv_device** list) { delete[] list; };
      t.get_device_name = [](ibv_device* device) { return static_cast<const char*>(device->name); };
      t.open_device = [](ibv_device* device) { return instance_->OpenDevice(device); };
      t.close_device = [](ibv_context*) {
        --instance_->open;
        return 0;
      };
      t.query_device = [](ibv_context*, ibv_device_attr* attr) {
        attr->phys_port_cnt = instance_->ports;
        return instance_->query_error;
      };
      return t;
    }();
    return kTable;
  }

  void Add(const std::string& name) {
    devices_.emplace_back();
    std::strncpy(devices_.back().name, name.c_str(), sizeof(devices_.back().name) - 1);
    std::strncpy(devices_.back().dev_name, "uverbs0", sizeof(devices_.back().dev_name));
  }
  ibv_device& device(size_t i) { return devices_[i]; }

  FakeHca hca;
  int list_error = 0;
  int open_error = 0;
  int query_error = 0;
  uint8_t ports = 2;
  int open = 0;  // contexts

 private:
  ibv_device** List(int* count) {
    errno = list_error;
    if (list_error != 0) return nullptr;
    auto** list = new ibv_device*[devices_.size() + 1]();
    for (size_t i = 0; i < devices_.size(); ++i) list[i] = &devices_[i];
    *count = static_cast<int>(devices_.size());
    return list;
  }
  ibv_context* OpenDevice(ibv_device* device) {
    errno = open_error;
    if (open_error != 0) return nullptr;
    ++open;
    hca.context()->device = device;
    return hca.context();
  }

  static FakeDevices* instance_;
  std::deque<ibv_device> devices_;
};
FakeDevices* FakeDevices::instance_ = nullptr;

// Never receives; records how to find the SM.
class DeafMads final : public MadTransport {
 public:
  explicit DeafMads(UmadTransport::FindSm find_sm) : find_sm_(std::move(find_sm)) {}
  absl::Status Send(const Mad&) override {
    const absl::StatusOr<SmAddress> sm = find_sm_();
    if (!sm.ok()) return sm.status();
    return absl::OutOfRangeError(
        absl::StrCat("SM at ", sm->lid.ToString(), " SL ", sm->sl.ToString()));
  }
  absl::Status Reply(const Mad&) override { return absl::OkStatus(); }
  bool ReceivesReports() const override { return true; }
  bool Receive(std::vector<uint8_t>*) override { return false; }
  int fd() const override { return event_.get(); }

 private:
  const UmadTransport::FindSm find_sm_;
  const UniqueFd event_{eventfd(0, EFD_CLOEXEC)};
};

class VerbsHcaTest : public testing::Test {
 protected:
  VerbsHcaTest() {
    devices_.Add("mlx5_0");
    devices_.Add("mlx5_1");
  }
  ~VerbsHcaTest() override { EXPECT_EQ(devices_.open, 0) << "every context is closed"; }
  absl::StatusOr<std::unique_ptr<Hca>> Open(absl::string_view name) {
    return OpenVerbsHca(
        name, {&FakeDevices::Table(),
               [this](const std::string& device, uint8_t port, UmadTransport::FindSm find_sm) {
                 asked_for_mads_ = absl::StrCat(device, "/", port);
                 return std::make_unique<DeafMads>(std::move(find_sm));
               }});
  }

  FakeDevices devices_;
  std::string asked_for_mads_;
};

TEST_F(VerbsHcaTest, OpensADeviceByName) {
  devices_.hca.port_attr.lid = 5;
  devices_.hca.port_attr.sm_lid = 7;
  devices_.hca.port_attr.sm_sl = 3;
  auto hca = Open("mlx5_1/2");
  ASSERT_TRUE(hca.ok()) << hca.status();
  EXPECT_EQ((*hca)->name(), "mlx5_1/2");
  EXPECT_EQ((*hca)->port(), 2);
  EXPECT_EQ(&(*hca)->verbs(), &FakeDevices::Table());
  EXPECT_EQ((*hca)->QueryPort()->lid, Lid(5));
  EXPECT_EQ(devices_.open, 1);
  ASSERT_NE((*hca)->mads(), nullptr);
  EXPECT_EQ(asked_for_mads_, "") << "ib_umad may be loaded later";
  EXPECT_EQ((*hca)->mads()->Send(Mad()).message(), "SM at 0x7 SL 3");
  EXPECT_EQ(asked_for_mads_, "mlx5_1/2");
  devices_.hca.FailNext("query_port", EIO);
  EXPECT_EQ((*hca)->mads()->Send(Mad()).message(), "query port mlx5_1/2: Input/output error");
}

TEST_F(VerbsHcaTest, AnUnknownDeviceListsThePresentOnes) {
  const absl::Status status = Open("mlx5_7/1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "open InfiniBand device mlx5_7: there is mlx5_0, mlx5_1");
}

TEST_F(VerbsHcaTest, SaysWhatIsMissing) {
  struct Row {
    const char* description;
    std::function<void(FakeDevices*)> fault;
    const char* name;
    absl::StatusCode code;
    std::vector<const char*> parts;  // of the message
  };
  const Row rows[] = {
      {"no kernel module at all",
       [](FakeDevices* d) { d->list_error = ENOSYS; },
       "mlx5_0/1",
       absl::StatusCode::kUnimplemented,
       {"list the InfiniBand devices: ", "modprobe ib_uverbs"}},
      {"no device node",
       [](FakeDevices* d) { d->open_error = ENOENT; },
       "mlx5_0/1",
       absl::StatusCode::kNotFound,
       {"open InfiniBand device mlx5_0: ", "/dev/infiniband/uverbs0", "modprobe ib_uverbs"}},
      {"no permission",
       [](FakeDevices* d) { d->open_error = EACCES; },
       "mlx5_0/1",
       absl::StatusCode::kPermissionDenied,
       {"open InfiniBand device mlx5_0: ", "may not open /dev/infiniband/uverbs0"}},
      {"no such port",
       [](FakeDevices*) {},
       "mlx5_0/3",
       absl::StatusCode::kNotFound,
       {"open HCA mlx5_0/3: device mlx5_0 has 2 ports"}},
      {"no such port of one",
       [](FakeDevices* d) { d->ports = 1; },
       "mlx5_0/2",
       absl::StatusCode::kNotFound,
       {"mlx5_0 has 1 port"}},
      {"the device does not answer",
       [](FakeDevices* d) { d->query_error = EIO; },
       "mlx5_0/1",
       absl::StatusCode::kUnknown,
       {"query InfiniBand device mlx5_0: Input/output error"}},
      {"the port does not answer",
       [](FakeDevices* d) { d->hca.FailNext("query_port", EIO); },
       "mlx5_0/1",
       absl::StatusCode::kUnknown,
       {"query port mlx5_0/1: Input/output error"}},
      {"iWARP",
       [](FakeDevices* d) {
         d->device(0).transport_type = IBV_TRANSPORT_IWARP;
         d->hca.port_attr.link_layer = IBV_LINK_LAYER_ETHERNET;
       },
       "mlx5_0/1",
       absl::StatusCode::kFailedPrecondition,
       {"open HCA mlx5_0/1: ", "neither an InfiniBand nor a RoCE port"}},
      {"a link layer of no name",
       [](FakeDevices* d) { d->hca.port_attr.link_layer = IBV_LINK_LAYER_UNSPECIFIED; },
       "mlx5_0/1",
       absl::StatusCode::kFailedPrecondition,
       {"neither an InfiniBand nor a RoCE port", "link layer 0"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.description);
    FakeDevices devices;
    devices.Add("mlx5_0");
    row.fault(&devices);
    const absl::Status status = Open(row.name).status();
    EXPECT_EQ(status.code(), row.code) << status;
    for (const char* part : row.parts) EXPECT_THAT(std::string(status.message()), HasSubstr(part));
    EXPECT_EQ(devices.open, 0);
  }
}

TEST_F(VerbsHcaTest, WithoutADeviceTheErrorAsksForTheDriver) {
  FakeDevices none;
  EXPECT_THAT(std::string(Open("mlx5_0/1").status().message()),
              HasSubstr("no InfiniBand device; is the driver"));
}

TEST_F(VerbsHcaTest, AnEthernetLinkLayerHasNoMads) {
  devices_.hca.port_attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  devices_.hca.port_attr.gid_tbl_len = 1;
  devices_.hca.gids[0].gid_type = IBV_GID_TYPE_ROCE_V2;
  devices_.hca.gids[0].gid.raw[0] = 0xfe;  // any address
  devices_.hca.gids[0].ndev_ifindex = if_nametoindex("lo");
  auto hca = Open("mlx5_0/1");
  ASSERT_TRUE(hca.ok()) << hca.status();
  EXPECT_EQ((*hca)->mads(), nullptr);
}

TEST_F(VerbsHcaTest, CapturesOnInfiniBand) {
  devices_.hca.port_attr.lid = 7;
  devices_.hca.pkeys = {0xffff};
  auto hca = Open("mlx5_0/1");
  ASSERT_TRUE(hca.ok()) << hca.status();
  EXPECT_THAT((*hca)->CaptureNote(), HasSubstr("rebuilt"));
  EXPECT_EQ((*hca)->StopCapture().status().code(), absl::StatusCode::kFailedPrecondition);
  const std::string path = absl::StrCat(testing::TempDir(), "/verbs_hca_test_", getpid(), ".erf");
  ASSERT_TRUE((*hca)->StartCapture(path).ok());
  unlink(path.c_str());
  EXPECT_TRUE((*hca)->rebuilt_capture()->on());
  ASSERT_TRUE((*hca)->Capture().has_value());
  EXPECT_EQ((*hca)->Capture()->path, path);
  EXPECT_TRUE((*hca)->StopCapture().ok());
  EXPECT_FALSE((*hca)->rebuilt_capture()->on());
}

TEST_F(VerbsHcaTest, OnEthernetACaptureIsRefusedInFavourOfTcpdump) {
  devices_.hca.port_attr.link_layer = IBV_LINK_LAYER_ETHERNET;
  devices_.hca.port_attr.gid_tbl_len = 1;
  devices_.hca.gids[0].gid_type = IBV_GID_TYPE_ROCE_V2;
  devices_.hca.gids[0].gid.raw[0] = 0xfe;
  devices_.hca.gids[0].ndev_ifindex = if_nametoindex("lo");
  auto hca = Open("mlx5_0/1");
  ASSERT_TRUE(hca.ok()) << hca.status();
  const absl::Status status = (*hca)->StartCapture("/dev/null");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tcpdump -i lo udp port 4791"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("tcpdump -i mlx5_0"));
  EXPECT_FALSE((*hca)->rebuilt_capture()->on());
}

}  // namespace
}  // namespace eoib
