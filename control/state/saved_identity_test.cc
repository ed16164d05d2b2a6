#include "control/state/saved_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "vswitch/base/temp_dir_for_test.h"

namespace eoib {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const char kThisMachine[] = "0123456789abcdef0123456789abcdef";
const char kOtherMachine[] = "fedcba9876543210fedcba9876543210";
const char kId[] = "2f1c4e0a-93b7-4d55-8e21-0c6f5ab1d3e9";

class AgentIdentityTest : public testing::Test {
 protected:
  AgentIdentityTest() { SetMachineId(kThisMachine); }

  std::string File() const { return state_->path() + "/agent.json"; }
  std::string Content() const {
    std::ifstream file(File());
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  void Write(const std::string& content) const { std::ofstream(File()) << content; }
  void SetMachineId(const std::string& id) const { std::ofstream(machine_id_path_) << id << "\n"; }

  // Starts the agent once; its log lines go to log_.
  AgentIdentity Load() {
    testing::internal::CaptureStderr();
    const AgentIdentity identity = LoadAgentIdentity(*state_, machine_id_path_);
    log_ = testing::internal::GetCapturedStderr();
    return identity;
  }

  const TempDir temporary_;
  const std::string machine_id_path_ = temporary_.path() + "/machine-id";
  const std::unique_ptr<StateDir> state_ = *StateDir::Open(temporary_.path() + "/state");
  std::string log_;
};

TEST_F(AgentIdentityTest, KeepsTheIdAndCountsTheStarts) {
  const AgentIdentity first = Load();
  EXPECT_THAT(log_, IsEmpty());
  EXPECT_FALSE(first.id.IsZero());
  EXPECT_EQ(first.incarnation, 1u);
  for (uint32_t start = 2; start < 5; ++start) {
    const AgentIdentity identity = Load();
    EXPECT_EQ(identity.id, first.id);
    EXPECT_EQ(identity.incarnation, start);
    EXPECT_THAT(log_, IsEmpty());
  }
}

TEST_F(AgentIdentityTest, ANewIdIsKept) {
  const AgentIdentity first = Load();
  const AgentIdentity second = RenewAgentIdentity(*state_, machine_id_path_);
  EXPECT_NE(second.id, first.id);
  EXPECT_EQ(second.incarnation, 1u);
  const AgentIdentity third = Load();
  EXPECT_EQ(third.id, second.id);
  EXPECT_EQ(third.incarnation, 2u);
  EXPECT_THAT(log_, IsEmpty());
  SetMachineId(kOtherMachine);
  EXPECT_NE(Load().id, second.id) << "it is bound to the machine";
}

TEST_F(AgentIdentityTest, AnotherDirectoryHasAnotherId) {
  const auto other = StateDir::Open(temporary_.path() + "/other");
  ASSERT_TRUE(other.ok());
  EXPECT_NE(LoadAgentIdentity(**other, machine_id_path_).id, Load().id);
}

TEST_F(AgentIdentityTest, TheIdHasAllRandomBits) {
  const auto identity = LoadAgentIdentity(*state_, machine_id_path_, [n = uint64_t{0}]() mutable {
    return n++ == 0 ? 0x1111'1111'1111'1111 : 0x2222'2222'2222'2222;
  });
  EXPECT_EQ(identity.id.ToString(), "11111111-1111-1111-2222-222222222222");
}

TEST_F(AgentIdentityTest, ACopyOfTheDiskHasANewId) {
  const AgentIdentity original = Load();
  SetMachineId(kOtherMachine);
  const AgentIdentity clone = Load();
  EXPECT_NE(clone.id, original.id);
  EXPECT_EQ(clone.incarnation, 1u);
  EXPECT_THAT(
      log_,
      HasSubstr(
          "agent.json: it was made on a machine with another machine-id; making a new agent id"));
  EXPECT_EQ(Load().id, clone.id);
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(AgentIdentityTest, TheMachineIdIsNotInTheFile) {
  Load();
  EXPECT_THAT(Content(), HasSubstr("\"machine\": \"$6$"));
  EXPECT_THAT(Content(), Not(HasSubstr(kThisMachine)));
  struct stat info;
  ASSERT_EQ(0, ::stat(File().c_str(), &info));
  EXPECT_EQ(0600u, info.st_mode & 07777);
}

TEST_F(AgentIdentityTest, WithoutAMachineIdTheIdIsKept) {
  const struct {
    const char* description;
    const char* content;
  } kRows[] = {{"first boot", "uninitialized"},
               {"empty", ""},
               {"too short", "0123"},
               {"not hexadecimal", "0123456789abcdef0123456789abcdeg"}};
  for (const auto& row : kRows) {
    ASSERT_TRUE(std::remove(File().c_str()) == 0 || errno == ENOENT);
    SetMachineId(row.content);
    const AgentIdentity first = Load();
    EXPECT_THAT(log_, HasSubstr("has no machine-id")) << row.description;
    EXPECT_EQ(Load().id, first.id) << row.description;
  }
  ASSERT_EQ(0, std::remove(machine_id_path_.c_str()));
  const AgentIdentity unbound = Load();
  SetMachineId(kThisMachine);
  EXPECT_EQ(Load().id, unbound.id) << "bound from now on";
  EXPECT_THAT(log_, IsEmpty());
  ASSERT_EQ(0, std::remove(machine_id_path_.c_str()));
  EXPECT_EQ(Load().id, unbound.id) << "still bound";
  SetMachineId(kOtherMachine);
  EXPECT_NE(Load().id, unbound.id);
}

TEST_F(AgentIdentityTest, AfterTheLastIncarnationComesANewId) {
  Write(absl::StrCat("{\"id\": \"", kId, "\", \"incarnation\": 4294967294}"));
  AgentIdentity identity = Load();
  EXPECT_EQ(identity.id.ToString(), kId);
  EXPECT_EQ(identity.incarnation, 4294967295u);
  EXPECT_THAT(log_, IsEmpty());
  identity = Load();
  EXPECT_NE(identity.id.ToString(), kId);
  EXPECT_EQ(identity.incarnation, 1u);
  EXPECT_THAT(log_, HasSubstr("all incarnations are used; making a new agent id"));
}

TEST_F(AgentIdentityTest, ADamagedFileGivesANewId) {
  const std::string id = absl::StrCat("\"id\": \"", kId, "\"");
  const struct {
    const char* description;
    std::string content;
  } kRows[] = {
      {"empty, as after a crash of a lesser program", ""},
      {"cut off", "{" + id},
      {"not an object", "[]"},
      {"no id", "{\"incarnation\": 1}"},
      {"an id of zeros", "{\"id\": \"00000000000000000000000000000000\", \"incarnation\": 1}"},
      {"an id that is no string", "{\"id\": 1, \"incarnation\": 1}"},
      {"no incarnation", "{" + id + "}"},
      {"a negative incarnation", "{" + id + ", \"incarnation\": -1}"},
      {"an incarnation of more than 32 bits", "{" + id + ", \"incarnation\": 4294967296}"},
      {"a hash that is no string", "{" + id + ", \"incarnation\": 1, \"machine\": 1}"},
  };
  for (const auto& row : kRows) {
    Write(row.content);
    const AgentIdentity identity = Load();
    EXPECT_NE(identity.id.ToString(), kId) << row.description;
    EXPECT_EQ(identity.incarnation, 1u) << row.description;
    EXPECT_THAT(
        log_,
        HasSubstr("agent.json: it has no agent id with an incarnation; making a new agent id"))
        << row.description;
    EXPECT_EQ(Load().id, identity.id) << row.description;
  }
  Write("{" + id + ", \"incarnation\": 1, \"machine\": \"garbage\"}");
  EXPECT_NE(Load().id.ToString(), kId);
}

// On a full disk. The number of this start is not on disk, so the next start would have the same.
TEST_F(AgentIdentityTest, WhatCannotBeKeptIsANewIdForOneRun) {
  const AgentIdentity kept = Load();
  const std::string before = Content();
  // A directory with the name of the temporary file makes the write fail even for root.
  ASSERT_EQ(0, ::mkdir((File() + ".new").c_str(), 0700));
  const AgentIdentity first = Load();
  EXPECT_THAT(
      log_,
      testing::AllOf(HasSubstr(absl::StrCat("keep the agent's identity: write ", File(), ".new: ")),
                     HasSubstr("other agents take this one for a new agent"),
                     HasSubstr(absl::StrCat("make room in ", state_->path()))));
  EXPECT_NE(first.id, kept.id);
  EXPECT_EQ(first.incarnation, 1u);
  EXPECT_NE(Load().id, first.id);
  EXPECT_EQ(Content(), before);
  ASSERT_EQ(0, ::rmdir((File() + ".new").c_str()));
  const AgentIdentity again = Load();
  EXPECT_EQ(again.id, kept.id);
  EXPECT_EQ(again.incarnation, kept.incarnation + 1);
}

}  // namespace
}  // namespace eoib
