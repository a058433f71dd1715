#include "residency/transfer/digest_image.h"

namespace superpipe {
namespace {

alignas(8) constexpr unsigned char kFatBinary[] = {
#include "residency/generated/superpipe_digest.inc"
};
constexpr char kPtx[] = {
#include "residency/generated/superpipe_digest_ptx.inc"
};

}  // namespace

const void* digest_fat_binary() { return kFatBinary; }

const char* digest_ptx() { return kPtx; }

}  // namespace superpipe
