#include "vswitch/fabric/softhca/ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/types/optional.h"

namespace eoib::softhca {
namespace {

using Next = RingConsumer::Next;

constexpr uint64_t kCapacity = 64 * 1024;

bool Produce(RingProducer* producer, const std::string& payload, uint32_t psn = 0) {
  uint8_t* record = producer->Reserve(payload.size());
  if (record == nullptr) return false;
  RecordHeader header;
  header.length = static_cast<uint32_t>(payload.size());
  header.psn = psn;
  std::memcpy(record, &header, sizeof(header));
  std::memcpy(record + sizeof(header), payload.data(), payload.size());
  producer->Commit(payload.size());
  return true;
}

absl::optional<std::string> Consume(RingConsumer* consumer, RecordHeader* header) {
  const uint8_t* payload;
  if (consumer->Peek(header, &payload) != Next::kRecord) return absl::nullopt;
  std::string text(reinterpret_cast<const char*>(payload), header->length);
  consumer->Release();
  return text;
}

// Both kinds of memory; for shared memory also the mapping of a consumer in another process.
struct Pair {
  std::shared_ptr<RingMemory> produced;
  std::shared_ptr<RingMemory> consumed;
};
Pair MakePair(bool shared, uint64_t capacity = kCapacity) {
  if (!shared) {
    auto memory = RingMemory::CreateLocal(capacity);
    return {memory, memory};
  }
  auto memory = RingMemory::CreateShared(capacity).value();
  UniqueFd data, index;
  EXPECT_TRUE(memory->ReleaseFds(&data, &index));
  return {memory, RingMemory::Map(data.get(), index.get(), capacity).value()};
}

class RingTest : public testing::TestWithParam<bool> {
 protected:
  RingTest() : pair_(MakePair(GetParam())), producer_(pair_.produced), consumer_(pair_.consumed) {}
  RingIndex& index() { return *pair_.produced->index(); }

  Pair pair_;
  RingProducer producer_;
  RingConsumer consumer_;
  RecordHeader header_;
};
INSTANTIATE_TEST_SUITE_P(Memory, RingTest, testing::Values(false, true),
                         [](const auto& info) { return info.param ? "Shared" : "Local"; });

TEST_P(RingTest, NothingIsSeenBeforeItIsPublished) {
  ASSERT_TRUE(Produce(&producer_, "one", 7));
  EXPECT_EQ(Consume(&consumer_, &header_), absl::nullopt);
  producer_.Publish();
  EXPECT_EQ(Consume(&consumer_, &header_), "one");
  EXPECT_EQ(header_.psn, 7u);
  EXPECT_EQ(Consume(&consumer_, &header_), absl::nullopt);
}

TEST_P(RingTest, AFullRingRefusesUntilTheConsumerHasPublished) {
  const std::string payload(4096, 'x');
  size_t taken = 0;
  while (Produce(&producer_, payload)) ++taken;
  EXPECT_EQ(taken, kCapacity / RecordSize(4096));
  producer_.Publish();
  ASSERT_TRUE(Consume(&consumer_, &header_).has_value());
  EXPECT_FALSE(Produce(&producer_, payload)) << "freed only by Publish";
  consumer_.Publish();
  EXPECT_TRUE(Produce(&producer_, payload));
}

TEST_P(RingTest, RecordsOfAllLengthsComeOutAsTheyWentIn) {
  std::mt19937 random(1);
  std::deque<std::string> model;
  uint32_t produced = 0, consumed = 0;
  for (int turn = 0; turn < 20000; ++turn) {
    const std::string payload(random() % (kMaxRecordPayload + 1), static_cast<char>(turn));
    if (Produce(&producer_, payload, produced)) {
      model.push_back(payload);
      ++produced;
    }
    if (random() % 3 == 0) producer_.Publish();
    for (uint32_t i = random() % 3; i > 0; --i) {
      const absl::optional<std::string> got = Consume(&consumer_, &header_);
      if (!got.has_value()) break;
      ASSERT_FALSE(model.empty());
      ASSERT_EQ(*got, model.front());
      ASSERT_EQ(header_.psn, consumed++);
      model.pop_front();
    }
    if (random() % 3 == 0) consumer_.Publish();
  }
  EXPECT_GT(consumed, 5000u);
  EXPECT_FALSE(producer_.corrupt());
}

TEST_P(RingTest, TheDoorbellIsWantedOncePerArming) {
  ASSERT_TRUE(Produce(&producer_, "a"));
  EXPECT_FALSE(producer_.Publish()) << "no receiver sleeps";
  Consume(&consumer_, &header_);
  EXPECT_FALSE(consumer_.Arm()) << "the ring is empty";
  EXPECT_FALSE(producer_.Publish()) << "nothing new";
  ASSERT_TRUE(Produce(&producer_, "b"));
  EXPECT_TRUE(producer_.Publish());
  ASSERT_TRUE(Produce(&producer_, "c"));
  EXPECT_FALSE(producer_.Publish()) << "rung already";
  EXPECT_TRUE(consumer_.Arm()) << "b and c are there";
}

TEST_P(RingTest, WantedSpaceIsToldWhenHalfTheRingIsFree) {
  const std::string payload(4096, 'x');
  while (Produce(&producer_, payload)) {
  }
  producer_.Publish();
  producer_.WantSpace();
  size_t taken = 0;
  bool told = false;
  while (!told && Consume(&consumer_, &header_).has_value()) {
    ++taken;
    told = consumer_.Publish();
  }
  EXPECT_TRUE(told);
  EXPECT_EQ(taken, 8u) << "half of the records";
  Consume(&consumer_, &header_);
  EXPECT_FALSE(consumer_.Publish()) << "told once";
}

TEST_P(RingTest, ADrainedRingSaysSo) {
  EXPECT_TRUE(producer_.Drained());
  ASSERT_TRUE(Produce(&producer_, "a"));
  producer_.Publish();
  EXPECT_FALSE(producer_.Drained());
  Consume(&consumer_, &header_);
  consumer_.Publish();
  EXPECT_TRUE(producer_.Drained());
}

// A record as a hostile producer may write it.
struct Corruption {
  const char* description;
  std::function<void(RingMemory*)> corrupt;
};
void WriteHeader(RingMemory* memory, uint64_t at, uint8_t kind, uint32_t length) {
  RecordHeader header;
  header.kind = kind;
  header.length = length;
  std::memcpy(memory->data() + at, &header, sizeof(header));
}

TEST_P(RingTest, ACorruptRingIsReportedAndNeverRead) {
  const Corruption kCorruptions[] = {
      {"a head beyond the ring",
       [](RingMemory* memory) { memory->index()->head = kCapacity + 64; }},
      {"a head before the tail", [](RingMemory* memory) { memory->index()->head = ~uint64_t{63}; }},
      {"a head inside a record", [](RingMemory* memory) { memory->index()->head = 100; }},
      {"a record of an unknown kind",
       [](RingMemory* memory) {
         WriteHeader(memory, 0, 9, 0);
         memory->index()->head = 64;
       }},
      {"a record longer than what was published",
       [](RingMemory* memory) {
         WriteHeader(memory, 0, RecordHeader::kDatagram, 100);
         memory->index()->head = 128;
       }},
      {"a record longer than any",
       [](RingMemory* memory) {
         WriteHeader(memory, 0, RecordHeader::kDatagram, 0xffff'ffff);
         memory->index()->head = kCapacity;
       }},
      {"a skip at the beginning",
       [](RingMemory* memory) {
         WriteHeader(memory, 0, RecordHeader::kSkip, 0);
         memory->index()->head = kCapacity;
       }},
      {"a skip with nothing behind it",
       [](RingMemory* memory) {
         WriteHeader(memory, 0, RecordHeader::kDatagram, 0);
         WriteHeader(memory, 64, RecordHeader::kSkip, 0);
         memory->index()->head = kCapacity;
       }},
  };
  for (const Corruption& row : kCorruptions) {
    Pair pair = MakePair(GetParam());
    RingConsumer consumer(pair.consumed);
    row.corrupt(pair.produced.get());
    const uint8_t* payload;
    Next next;
    while ((next = consumer.Peek(&header_, &payload)) == Next::kRecord) consumer.Release();
    EXPECT_EQ(next, Next::kCorrupt) << row.description;
  }
}

// A correct producer skips only a rest that is too short for the record.
TEST_P(RingTest, ASkipOfMoreThanAnyRecordIsCorrupt) {
  Pair pair = MakePair(GetParam());
  RingConsumer consumer(pair.consumed);
  RingMemory* const memory = pair.produced.get();
  const uint8_t* payload;
  WriteHeader(memory, 0, RecordHeader::kDatagram, 0);
  memory->index()->head = 64;
  ASSERT_EQ(consumer.Peek(&header_, &payload), Next::kRecord);
  consumer.Release();
  WriteHeader(memory, 64, RecordHeader::kSkip, 0);
  memory->index()->head = kCapacity + 64;
  EXPECT_EQ(consumer.Peek(&header_, &payload), Next::kCorrupt);
}

TEST_P(RingTest, ARecordAcrossTheEndIsCorrupt) {
  const std::string payload(4096, 'x');
  while (Produce(&producer_, payload)) {
  }
  producer_.Publish();
  while (Consume(&consumer_, &header_).has_value()) {
  }
  // 15 records leave 3,136 bytes to the end: a skip record fits there, this record does not.
  WriteHeader(pair_.produced.get(), 15 * RecordSize(4096), RecordHeader::kDatagram, 4096);
  index().head = 16 * RecordSize(4096);
  const uint8_t* read;
  EXPECT_EQ(consumer_.Peek(&header_, &read), Next::kCorrupt);
}

TEST_P(RingTest, AConsumersNonsenseIsReported) {
  const uint64_t kTails[] = {64, ~uint64_t{0}};
  for (const uint64_t tail : kTails) {
    Pair pair = MakePair(GetParam());
    RingProducer producer(pair.produced);
    pair.produced->index()->tail = tail;  // nothing was published yet
    while (Produce(&producer, std::string(4096, 'x'))) {
    }
    EXPECT_TRUE(producer.corrupt()) << tail;
  }
}

TEST_P(RingTest, ATailThatGoesBackIsReported) {
  const std::string payload(4096, 'x');
  const auto fill = [&] {
    while (Produce(&producer_, payload)) {
    }
    producer_.Publish();
  };
  fill();
  while (Consume(&consumer_, &header_).has_value()) {
  }
  consumer_.Publish();
  fill();
  EXPECT_FALSE(producer_.corrupt());
  index().tail = 0;
  fill();
  EXPECT_TRUE(producer_.corrupt());
}

TEST_P(RingTest, ATailInsideARecordIsReported) {
  uint64_t produced = 0;
  for (const std::string payload(4096, 'x'); Produce(&producer_, payload); ++produced) {
  }
  producer_.Publish();
  // A header there would reach beyond what was published.
  index().tail = produced * RecordSize(4096) - 1;
  EXPECT_EQ(producer_.CountUntaken(), produced);
  EXPECT_FALSE(Produce(&producer_, std::string(4096, 'x')));
  EXPECT_TRUE(producer_.corrupt());
}

TEST_P(RingTest, TwoThreadsAgree) {
  constexpr uint32_t kRecords = 200'000;
  std::thread consumer([this] {
    RecordHeader header;
    for (uint32_t expected = 0; expected < kRecords;) {
      const absl::optional<std::string> got = Consume(&consumer_, &header);
      if (!got.has_value()) {
        consumer_.Publish();
        std::this_thread::yield();
        continue;
      }
      ASSERT_EQ(header.psn, expected);
      ASSERT_EQ(*got, std::string(expected % 300, static_cast<char>(expected)));
      ++expected;
    }
  });
  for (uint32_t i = 0; i < kRecords;) {
    if (Produce(&producer_, std::string(i % 300, static_cast<char>(i)), i)) {
      ++i;
      if (i % 16 != 0) continue;
    } else {
      std::this_thread::yield();
    }
    producer_.Publish();
  }
  producer_.Publish();
  consumer.join();
}

// ---- Memory files.

TEST(RingMemoryTest, AConsumerMapsOnlySealedFilesOfTheRightSize) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  struct Row {
    const char* description;
    off_t data_size, index_size;
    int data_seals, index_seals;
    uint64_t capacity;
    bool ok;
  };
  constexpr Row kRows[] = {
      {"as a producer makes them", kCapacity, 4096, kSeals, kSeals, kCapacity, true},
      {"data may shrink", kCapacity, 4096, F_SEAL_GROW | F_SEAL_SEAL, kSeals, kCapacity, false},
      {"index may shrink", kCapacity, 4096, kSeals, 0, kCapacity, false},
      {"data too small", kCapacity / 2, 4096, kSeals, kSeals, kCapacity, false},
      {"index too small", kCapacity, 0, kSeals, kSeals, kCapacity, false},
      {"no power of two", 3 * 64 * 1024, 4096, kSeals, kSeals, 3 * 64 * 1024, false},
      {"no capacity", 0, 4096, kSeals, kSeals, 0, false},
      {"the largest", 4 << 20, 4096, kSeals, kSeals, 4 << 20, true},
      {"larger than any of ours", 8 << 20, 4096, kSeals, kSeals, 8 << 20, false},
      {"larger than any ring", kCapacity, 4096, kSeals, kSeals, uint64_t{1} << 40, false},
  };
  for (const Row& row : kRows) {
    const UniqueFd data(memfd_create("data", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const UniqueFd index(memfd_create("index", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(data.get(), row.data_size), 0);
    ASSERT_EQ(ftruncate(index.get(), row.index_size), 0);
    fcntl(data.get(), F_ADD_SEALS, row.data_seals);
    fcntl(index.get(), F_ADD_SEALS, row.index_seals);
    EXPECT_EQ(RingMemory::Map(data.get(), index.get(), row.capacity).ok(), row.ok)
        << row.description;
  }
}

TEST(RingMemoryTest, NoFilesNoRing) {
  EXPECT_FALSE(RingMemory::Map(-1, -1, kCapacity).ok());
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(RingMemory::Map(null.get(), null.get(), kCapacity).ok());
}

TEST(RingMemoryTest, AProducersFilesCannotBeResized) {
  auto memory = RingMemory::CreateShared(kCapacity).value();
  UniqueFd data, index;
  ASSERT_TRUE(memory->ReleaseFds(&data, &index));
  for (const UniqueFd* fd : {&data, &index}) {
    EXPECT_NE(ftruncate(fd->get(), 0), 0);
    EXPECT_NE(ftruncate(fd->get(), 1 << 20), 0);
    EXPECT_NE(fcntl(fd->get(), F_ADD_SEALS, F_SEAL_WRITE), 0) << "nor sealed further";
  }
}

TEST(RingMemoryTest, OnlyTheProducerCanMapItsDataWritable) {
  auto memory = RingMemory::CreateShared(kCapacity).value();
  UniqueFd data, index;
  ASSERT_TRUE(memory->ReleaseFds(&data, &index));
  EXPECT_EQ(mmap(nullptr, kCapacity, PROT_READ | PROT_WRITE, MAP_SHARED, data.get(), 0),
            MAP_FAILED);
  void* readable = mmap(nullptr, kCapacity, PROT_READ, MAP_SHARED, data.get(), 0);
  ASSERT_NE(readable, MAP_FAILED);
  EXPECT_NE(mprotect(readable, kCapacity, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(write(data.get(), "x", 1), -1);
  munmap(readable, kCapacity);
}

// A consumer sees the producer's headers and payloads, with zeros between them, and nothing else of
// its memory.
TEST(RingMemoryTest, BytesThatWereNotSentAreZero) {
  Pair pair = MakePair(/*shared=*/true);
  RingProducer producer(pair.produced);
  ASSERT_TRUE(Produce(&producer, std::string(100, 'x')));
  ASSERT_TRUE(Produce(&producer, std::string(1, 'y')));
  producer.Publish();
  const uint8_t* data = pair.consumed->data();
  const size_t first = sizeof(RecordHeader), second = RecordSize(100) + sizeof(RecordHeader);
  for (size_t i = 0; i < kCapacity; ++i) {
    const bool is_header = i < first || (i >= RecordSize(100) && i < second);
    const uint8_t expected = i >= first && i < first + 100 ? 'x' : i == second ? 'y' : 0;
    if (!is_header) {
      ASSERT_EQ(data[i], expected) << i;
    }
  }
  RecordHeader expected;
  expected.length = 100;
  EXPECT_EQ(std::memcmp(data, &expected, sizeof(expected)), 0);
}

TEST_P(RingTest, AClosedRingEndsWhereItsHeadStood) {
  ASSERT_TRUE(Produce(&producer_, "before"));
  producer_.Publish();
  consumer_.Close();
  ASSERT_TRUE(Produce(&producer_, "after"));
  producer_.Publish();
  EXPECT_EQ(Consume(&consumer_, &header_), "before");
  EXPECT_EQ(Consume(&consumer_, &header_), absl::nullopt);
  EXPECT_FALSE(consumer_.HasData());
  EXPECT_FALSE(consumer_.Arm());
}

// The end that leaves last counts the records that were not taken.
TEST_P(RingTest, TheEndThatLeavesLastFindsWhatWasNotTaken) {
  const auto produce = [this](int records) {
    for (int i = 0; i < records; ++i) ASSERT_TRUE(Produce(&producer_, "record"));
    producer_.Publish();
  };
  produce(3);
  ASSERT_TRUE(Consume(&consumer_, &header_).has_value());
  EXPECT_EQ(producer_.CountUntaken(), 3u) << "it is not free before it is published";
  consumer_.Publish();
  EXPECT_EQ(producer_.CountUntaken(), 2u);
  EXPECT_FALSE(producer_.ConsumerHasLeft());
  if (GetParam()) {
    EXPECT_FALSE(consumer_.Leave());
    produce(1);
    EXPECT_TRUE(producer_.ConsumerHasLeft());
    EXPECT_TRUE(producer_.Leave());
    EXPECT_EQ(producer_.CountUntaken(), 3u);
  } else {
    consumer_.Close();
    produce(1);
    EXPECT_FALSE(producer_.Leave());
    EXPECT_TRUE(consumer_.Leave());
    EXPECT_EQ(consumer_.Discard(), 3u) << "also what came after it was closed";
  }
}

TEST_P(RingTest, AReleasedRingNeedsNoDoorbell) {
  EXPECT_FALSE(consumer_.Arm());
  EXPECT_FALSE(consumer_.Released());
  EXPECT_TRUE(producer_.Release()) << "the consumer sleeps";
  EXPECT_TRUE(consumer_.Released());
  EXPECT_TRUE(consumer_.Arm()) << "it is to be closed";
  consumer_.Close();
  EXPECT_FALSE(consumer_.Arm());
}

TEST(RingMemoryDeathTest, AConsumerCannotWriteData) {
  Pair pair = MakePair(/*shared=*/true);
  EXPECT_DEATH(*static_cast<volatile uint8_t*>(pair.consumed->data()) = 1, "");
}

}  // namespace
}  // namespace eoib::softhca
