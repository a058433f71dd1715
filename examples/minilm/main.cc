// superpipe-minilm: embeds sentences with all-MiniLM-L6-v2 and prints how similar they are.

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>

#include "examples/minilm/encoder.h"
#include "examples/minilm/tokenizer.h"
#include "examples/options.h"

namespace minilm {
namespace {

constexpr char kHelp[] =
    R"(usage: superpipe-minilm [OPTIONS] [SENTENCE...]

Embeds each SENTENCE (without any: each line of standard input, empty ones too) with
all-MiniLM-L6-v2 on the CUDA device and prints the cosine similarity of each two.

  --model DIR         folder with model.safetensors and vocab.txt; default: $SUPERPIPE_MINILM_DIR,
                      else .deps/minilm. scripts/fetch_minilm gets it
  --output FILE       write the embeddings: 384 little-endian float32 for each sentence
  --repeat N          embed N times, and fail unless all N results are identical; default 1
  --batch-tokens N    tokens computed at once, 256 to 8192; default 1024
  --tokens            print each sentence's token ids instead; needs no device
  --help

Exit codes: 0 done, 1 failed, 2 wrong command line.
)";

constexpr examples::OptionSpec kKnown[] = {{"--model", true},   {"--output", true},
                                           {"--repeat", true},  {"--batch-tokens", true},
                                           {"--tokens", false}, {"--help", false}};

std::string model_folder(const examples::Options& options) {
  const char* const variable = std::getenv("SUPERPIPE_MINILM_DIR");
  std::string folder =
      options.text("--model", variable != nullptr && *variable != '\0' ? variable : ".deps/minilm");
  for (const char* const name : {"/model.safetensors", "/vocab.txt"}) {
    struct stat status = {};
    if (stat((folder + name).c_str(), &status) != 0) {
      throw std::runtime_error("no model: '" + folder + name +
                               "' does not exist; scripts/fetch_minilm gets the model and prints "
                               "its folder, for --model");
    }
  }
  return folder;
}

std::vector<std::string> read_sentences(const examples::Options& options) {
  if (!options.positional().empty()) return options.positional();
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(std::cin, line)) lines.push_back(line);
  return lines;
}

/// The sentences in groups of at most `most_tokens` tokens, in order.
std::vector<std::vector<Sentence>> batches_of(const std::vector<Sentence>& sentences,
                                              std::size_t most_tokens) {
  std::vector<std::vector<Sentence>> batches;
  std::size_t tokens = most_tokens;
  for (const Sentence& sentence : sentences) {
    if (tokens + sentence.size() > most_tokens) {
      batches.emplace_back();
      tokens = 0;
    }
    batches.back().push_back(sentence);
    tokens += sentence.size();
  }
  return batches;
}

std::vector<float> embed(const Model& model, const std::vector<Sentence>& sentences,
                         std::size_t most_tokens, std::uint64_t repeat) {
  const auto batches = batches_of(sentences, most_tokens);
  std::size_t tokens_needed = 0;
  std::size_t sentences_needed = 0;
  for (const auto& batch : batches) {
    std::size_t tokens = 0;
    for (const Sentence& sentence : batch) tokens += sentence.size();
    tokens_needed = std::max(tokens_needed, tokens);
    sentences_needed = std::max(sentences_needed, batch.size());
  }
  Encoder encoder(model, tokens_needed, sentences_needed);
  std::vector<float> first;
  for (std::uint64_t pass = 1; pass <= repeat; ++pass) {
    std::vector<float> result;
    for (const auto& batch : batches) {
      const std::vector<float> part = encoder.encode(batch);
      result.insert(result.end(), part.begin(), part.end());
    }
    if (pass == 1) {
      first = std::move(result);
    } else if (std::memcmp(first.data(), result.data(), first.size() * sizeof(float)) != 0) {
      throw std::runtime_error("pass " + std::to_string(pass) + " differs from pass 1");
    }
  }
  return first;
}

void print_similarities(const std::vector<std::string>& texts, const std::vector<float>& rows) {
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::printf("%3zu  %s\n", i + 1, texts[i].c_str());
  }
  std::printf("\n   ");
  for (std::size_t i = 0; i < texts.size(); ++i) std::printf(" %7zu", i + 1);
  std::printf("\n");
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::printf("%3zu", i + 1);
    for (std::size_t j = 0; j < texts.size(); ++j) {
      double product = 0;
      for (std::size_t k = 0; k < kHidden; ++k) {
        product += static_cast<double>(rows[i * kHidden + k]) * rows[j * kHidden + k];
      }
      std::printf(" %7.4f", product);
    }
    std::printf("\n");
  }
}

void print_tokens(const std::vector<Sentence>& sentences) {
  for (const Sentence& sentence : sentences) {
    for (std::size_t i = 0; i < sentence.size(); ++i) {
      std::printf(i == 0 ? "%d" : " %d", sentence[i]);
    }
    std::printf("\n");
  }
}

int run(int argc, char** argv) {
  const examples::Options options(argc, argv, kKnown);
  if (options.has("--help")) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  const std::uint64_t repeat = options.count("--repeat", 1, 1, 1'000'000);
  const std::uint64_t batch_tokens = options.count("--batch-tokens", 1024, kMaxTokens, 8192);
  const std::string folder = model_folder(options);
  const Tokenizer tokenizer(folder + "/vocab.txt", kVocabulary);
  const std::vector<std::string> texts = read_sentences(options);
  if (texts.empty()) throw examples::UsageError("no sentences; see --help");
  std::vector<Sentence> sentences;
  sentences.reserve(texts.size());
  for (const std::string& text : texts) sentences.push_back(tokenizer.encode(text, kMaxTokens));
  if (options.has("--tokens")) {
    print_tokens(sentences);
    return 0;
  }
  const Model model(folder);
  const std::vector<float> rows = embed(model, sentences, batch_tokens, repeat);
  print_similarities(texts, rows);
  if (const std::string path = options.text("--output", ""); !path.empty()) {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(rows.data()),
               static_cast<std::streamsize>(rows.size() * sizeof(float)));
    file.close();
    if (!file) throw std::runtime_error("cannot write '" + path + "'");
  }
  return 0;
}

}  // namespace
}  // namespace minilm

int main(int argc, char** argv) {
  try {
    return minilm::run(argc, argv);
  } catch (const examples::UsageError& error) {
    std::fprintf(stderr, "superpipe-minilm: %s\n", error.what());
    return examples::kUsageExit;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "superpipe-minilm: %s\n", error.what());
    return examples::kFailureExit;
  }
}
