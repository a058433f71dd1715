#include "interposer/hooks/named_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/interposer/managed_fixture.h"

namespace superpipe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class NamedWordsTest : public testing::ManagedFixture {
 protected:
  static std::vector<std::uint64_t> of(const WordList& list) {
    return {list.words().begin(), list.words().end()};
  }
  template <typename Argument>
  static std::vector<std::uint64_t> named(const Argument& argument) {
    NamedWords words;
    words.add(argument);
    return of(words.words());
  }
};

TEST_F(NamedWordsTest, LeavesAddressesThatAreNotOurs) {
  EXPECT_THAT(named(CUdeviceptr{0}), IsEmpty());
  EXPECT_THAT(named(CUdeviceptr{0x1234}), IsEmpty());
  EXPECT_THAT(named(buffer_ + 8), ElementsAre(buffer_ + 8));
}

TEST_F(NamedWordsTest, ReadsBothEndsOfACopyByTheirMemoryType) {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcDevice = buffer_;  // not meant: the source is host memory
  copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  copy.dstDevice = other_;
  EXPECT_THAT(named(&copy), ElementsAre(other_));
}

TEST_F(NamedWordsTest, ReadsAKernelNodesParameters) {
  CUdeviceptr first = buffer_;
  CUdeviceptr second = 0;
  void* parameters[] = {&first, &second};
  CUDA_KERNEL_NODE_PARAMS_v2 node{};
  node.kern = reinterpret_cast<CUkernel>(testing::null_kernel(1));
  node.kernelParams = parameters;
  EXPECT_THAT(named(&node), ElementsAre(buffer_));
  CUgraphNodeParams generic{};
  generic.type = CU_GRAPH_NODE_TYPE_KERNEL;
  generic.kernel.func = testing::null_kernel(1);
  generic.kernel.kernelParams = parameters;
  EXPECT_THAT(named(&generic), ElementsAre(buffer_));
}

TEST_F(NamedWordsTest, ReadsEveryKindOfNodeThatNamesMemory) {
  CUgraphNodeParams memset{};
  memset.type = CU_GRAPH_NODE_TYPE_MEMSET;
  memset.memset.dst = buffer_;
  EXPECT_THAT(named(&memset), ElementsAre(buffer_));
  CUgraphNodeParams copy{};
  copy.type = CU_GRAPH_NODE_TYPE_MEMCPY;
  copy.memcpy.copyParams.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.memcpy.copyParams.srcDevice = other_;
  EXPECT_THAT(named(&copy), ElementsAre(other_));
  CUstreamBatchMemOpParams wait{};
  wait.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  wait.waitValue.address = buffer_;
  CUgraphNodeParams batch{};
  batch.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
  batch.memOp.paramArray = &wait;
  batch.memOp.count = 1;
  EXPECT_THAT(named(&batch), ElementsAre(buffer_));
  CUgraphNodeParams host{};
  host.type = CU_GRAPH_NODE_TYPE_HOST;
  EXPECT_THAT(named(&host), IsEmpty());
}

TEST_F(NamedWordsTest, ReadsLinearTexturesOnly) {
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_PITCH2D;
  resource.res.pitch2D.devPtr = buffer_;
  EXPECT_THAT(named(&resource), ElementsAre(buffer_));
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  EXPECT_THAT(named(&resource), IsEmpty());
}

TEST_F(NamedWordsTest, IgnoresNullDescriptors) {
  EXPECT_THAT(named(static_cast<const CUDA_RESOURCE_DESC*>(nullptr)), IsEmpty());
  EXPECT_THAT(named(static_cast<const CUgraphNodeParams*>(nullptr)), IsEmpty());
  EXPECT_THAT(named(static_cast<const CUDA_KERNEL_NODE_PARAMS_v1*>(nullptr)), IsEmpty());
}

TEST_F(NamedWordsTest, KeepsReadsAndWritesApart) {
  UsedWords used;
  CUdeviceptr sources[] = {buffer_, 0x1000};
  used.add_reads(sources, 2);
  used.add_writes(other_);
  EXPECT_THAT(of(used.reads()), ElementsAre(buffer_));
  EXPECT_THAT(of(used.writes()), ElementsAre(other_));
}

}  // namespace
}  // namespace superpipe
