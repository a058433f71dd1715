// A shared library that is no plugin: it exports nothing.
namespace {

[[maybe_unused]] constexpr int kNothing = 0;

}  // namespace
