#include "tests/policy/exhaustive_schedule.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

namespace superpipe {
namespace {

using Pieces = std::uint32_t;  // a set of pieces, one bit each

constexpr int kUnreachable = std::numeric_limits<int>::max() / 4;

// The cost of a pass by the contents before it and after it.
using PassCosts = std::vector<std::vector<int>>;

struct PieceLaunch {
  int compute;
  Pieces needs;
};

struct PieceProgram {
  int pieces = 0;
  int capacity = 0;
  std::vector<PieceLaunch> launches;
  std::vector<Pieces> contents;  // that fit on the device

  PieceProgram(const SmallProgram& program, int fit) : capacity(device_pieces(program, fit)) {
    std::vector<Pieces> of_buffer;
    for (const int count : program.pieces) {
      of_buffer.push_back(((Pieces{1} << count) - 1) << pieces);
      pieces += count;
    }
    for (const SmallLaunch& launch : program.launches) {
      Pieces needs = 0;
      for (const BufferId id : launch.buffers) needs |= of_buffer[index_of(id)];
      launches.push_back({launch.compute, needs});
    }
    for (Pieces content = 0; content < Pieces{1} << pieces; ++content) {
      if (std::popcount(content) <= capacity) contents.push_back(content);
    }
  }
};

// A moment between two seconds.
struct Moment {
  std::size_t launch;  // that runs, or is the next one
  int left;            // seconds that it still runs; 0: it has not started
  Pieces content;
};

// Tries all schedules, second by second. A moment that was met before need not be followed again.
class TimeSearch {
 public:
  explicit TimeSearch(const PieceProgram& program) : program_(program) {
    for (const PieceLaunch& launch : program.launches) {
      most_left_ = std::max(most_left_, launch.compute);
    }
  }

  // By content, the first moment at which all launches have ended; kUnreachable if never.
  std::vector<int> ends(const std::vector<Pieces>& first_contents) {
    const std::size_t contents = std::size_t{1} << program_.pieces;
    std::vector<int> ends(contents, kUnreachable);
    met_.assign(
        (program_.launches.size() + 1) * (static_cast<std::size_t>(most_left_) + 1) * contents,
        false);
    now_.clear();
    for (const Pieces content : first_contents) meet({0, 0, content}, now_);
    for (int second = 0; !now_.empty(); ++second) {
      std::vector<Moment> next;
      for (std::size_t at = 0; at < now_.size(); ++at) {  // grows within the loop
        const Moment moment = now_[at];
        if (moment.left == 0) {
          if (moment.launch == program_.launches.size()) {
            ends[moment.content] = std::min(ends[moment.content], second);
            continue;
          }
          start(moment);
        }
        let_a_second_pass(moment, next);
      }
      now_ = std::move(next);
    }
    return ends;
  }

 private:
  void meet(const Moment& moment, std::vector<Moment>& where) {
    const std::size_t index = ((moment.launch * (static_cast<std::size_t>(most_left_) + 1) +
                                static_cast<std::size_t>(moment.left))
                               << program_.pieces) +
                              moment.content;
    if (met_[index]) return;
    met_[index] = true;
    where.push_back(moment);
  }

  // The launch may start now, and one without compute has ended by that.
  void start(const Moment& moment) {
    const PieceLaunch& launch = program_.launches[moment.launch];
    if ((launch.needs & ~moment.content) != 0) return;
    if (launch.compute == 0) {
      meet({moment.launch + 1, 0, moment.content}, now_);
    } else {
      meet({moment.launch, launch.compute, moment.content}, now_);
    }
  }

  void let_a_second_pass(const Moment& moment, std::vector<Moment>& next) {
    const bool runs = moment.left > 0;
    const Pieces held = runs ? program_.launches[moment.launch].needs : 0;
    const auto arrive = [&](Pieces content) {
      const bool ends = moment.left == 1;
      meet({moment.launch + (ends ? 1 : 0), runs ? moment.left - 1 : 0, content}, next);
    };
    arrive(moment.content);
    for (int at = 0; at < program_.pieces; ++at) {
      const Pieces fetched = Pieces{1} << at;
      if ((moment.content & fetched) != 0) continue;
      if (std::popcount(moment.content) < program_.capacity) {
        arrive(moment.content | fetched);
        continue;
      }
      for (int other = 0; other < program_.pieces; ++other) {
        const Pieces evicted = Pieces{1} << other;
        if ((moment.content & ~held & evicted) == 0) continue;
        arrive((moment.content & ~evicted) | fetched);
      }
    }
  }

  const PieceProgram& program_;
  int most_left_ = 0;
  std::vector<bool> met_;
  std::vector<Moment> now_;
};

// By content after all launches, the fewest fetches; `before`: the fewest by content before them.
std::vector<int> fetches(const PieceProgram& program, std::vector<int> before) {
  for (const PieceLaunch& launch : program.launches) {
    std::vector<int> after(before.size(), kUnreachable);
    for (const Pieces from : program.contents) {
      if (before[from] == kUnreachable) continue;
      for (const Pieces to : program.contents) {
        if ((launch.needs & ~to) != 0) continue;
        after[to] = std::min(after[to], before[from] + std::popcount(to & ~from));
      }
    }
    before = std::move(after);
  }
  return before;
}

// The least mean cost of a cycle.
double least_mean(const PassCosts& costs) {
  const std::size_t count = costs.size();
  // By number of passes and by content: the least cost from any content on.
  std::vector<std::vector<int>> least(count + 1, std::vector<int>(count, kUnreachable));
  least[0].assign(count, 0);
  for (std::size_t passes = 1; passes <= count; ++passes) {
    for (std::size_t from = 0; from < count; ++from) {
      for (std::size_t to = 0; to < count; ++to) {
        if (least[passes - 1][from] == kUnreachable || costs[from][to] == kUnreachable) continue;
        least[passes][to] = std::min(least[passes][to], least[passes - 1][from] + costs[from][to]);
      }
    }
  }
  double mean = kUnreachable;
  for (std::size_t at = 0; at < count; ++at) {
    if (least[count][at] == kUnreachable) continue;
    double worst = 0.0;
    for (std::size_t passes = 0; passes < count; ++passes) {
      if (least[passes][at] == kUnreachable) continue;
      worst = std::max(worst, static_cast<double>(least[count][at] - least[passes][at]) /
                                  static_cast<double>(count - passes));
    }
    mean = std::min(mean, worst);
  }
  return mean;
}

// The costs of a pass between the contents that fit; `run` gives those after one content.
template <typename Run>
PassCosts pass_costs(const PieceProgram& program, Run run) {
  PassCosts costs;
  for (const Pieces from : program.contents) {
    const std::vector<int> by_content = run(from);
    std::vector<int>& row = costs.emplace_back();
    for (const Pieces to : program.contents) row.push_back(by_content[to]);
  }
  return costs;
}

std::vector<int> only(const PieceProgram& program, Pieces content) {
  std::vector<int> costs(std::size_t{1} << program.pieces, kUnreachable);
  costs[content] = 0;
  return costs;
}

int least_of(const std::vector<int>& costs) {
  return *std::min_element(costs.begin(), costs.end());
}

}  // namespace

SmallSequence::SmallSequence(const SmallProgram& program) {
  for (const SmallLaunch& launch : program.launches) {
    launches_.push_back({Seconds{static_cast<double>(launch.compute)}, launch.buffers});
  }
  for (const int count : program.pieces) {
    buffer_bytes_.push_back(static_cast<std::uint64_t>(count) * kPiece);
  }
}

int device_pieces(const SmallProgram& program, int fit) {
  for (const SmallLaunch& launch : program.launches) {
    std::vector<BufferId> distinct = launch.buffers;
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    int needed = 0;
    for (const BufferId id : distinct) needed += program.pieces[index_of(id)];
    fit = std::max(fit, needed);
  }
  return fit;
}

int least_time(const SmallProgram& program, int fit) {
  const PieceProgram pieces(program, fit);
  return least_of(TimeSearch(pieces).ends(pieces.contents));
}

double least_time_per_pass(const SmallProgram& pass, int fit) {
  const PieceProgram pieces(pass, fit);
  TimeSearch search(pieces);
  return least_mean(pass_costs(pieces, [&](Pieces from) { return search.ends({from}); }));
}

int fewest_fetches(const SmallProgram& program, int fit) {
  const PieceProgram pieces(program, fit);
  return least_of(fetches(pieces, only(pieces, 0)));
}

double fewest_fetches_per_pass(const SmallProgram& pass, int fit) {
  const PieceProgram pieces(pass, fit);
  return least_mean(
      pass_costs(pieces, [&](Pieces from) { return fetches(pieces, only(pieces, from)); }));
}

}  // namespace superpipe
