#include "tools/superpipe/planner/trade_off_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <vector>

#include "policy/budget.h"

namespace superpipe::cli {
namespace {

constexpr double kWidth = 720, kHeight = 440;
constexpr double kLeft = 80, kRight = 20, kTop = 50, kBottom = 60;
// Told apart also without colour vision (Okabe and Ito).
constexpr std::array kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};
constexpr int kTicks = 5;

struct Point {
  double memory;  // GiB
  double pass;    // ms
  std::optional<double> bound;
};

struct Line {
  std::string_view policy;
  std::vector<Point> points;  // by memory
};

std::vector<Line> lines_of(std::span<const Prediction> rows) {
  std::vector<Line> lines;
  for (const Prediction& row : rows) {
    if (!row.problem.empty() || row.question.k) continue;
    const std::string_view policy = name_of(row.question.policy);
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const Line& one) { return one.policy == policy; });
    if (line == lines.end()) line = lines.insert(lines.end(), Line{policy, {}});
    const double memory = static_cast<double>(row.question.gpu_mem.count()) / (1 << 30);
    line->points.push_back({memory, row.pass_ms, row.bound_ms});
  }
  for (Line& line : lines) {
    std::sort(line.points.begin(), line.points.end(),
              [](const Point& a, const Point& b) { return a.memory < b.memory; });
  }
  return lines;
}

// A round number near `value` / kTicks.
double step_for(double value) {
  const double rough = value / kTicks;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power) return factor * power;
  }
  return 10 * power;
}

/// Where values are on the picture.
struct Scale {
  double memory;  ///< the largest
  double pass;    ///< the largest

  [[nodiscard]] double x(double gib) const {
    return kLeft + gib / memory * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double ms) const {
    return kHeight - kBottom - ms / pass * (kHeight - kTop - kBottom);
  }
};

void draw_axes(std::ostringstream& svg, const Scale& scale) {
  svg << "<g stroke=\"#888\" stroke-width=\"0.5\" font-size=\"12\" fill=\"#444\">\n";
  for (double gib = 0; gib <= scale.memory; gib += step_for(scale.memory)) {
    svg << "<line x1=\"" << scale.x(gib) << "\" y1=\"" << scale.y(0) << "\" x2=\"" << scale.x(gib)
        << "\" y2=\"" << kTop
        << "\" stroke-opacity=\"0.3\"/><text stroke=\"none\" text-anchor=\"middle\" x=\""
        << scale.x(gib) << "\" y=\"" << scale.y(0) + 18 << "\">" << gib << "</text>\n";
  }
  for (double ms = 0; ms <= scale.pass; ms += step_for(scale.pass)) {
    svg << "<line x1=\"" << kLeft << "\" y1=\"" << scale.y(ms) << "\" x2=\"" << kWidth - kRight
        << "\" y2=\"" << scale.y(ms)
        << "\" stroke-opacity=\"0.3\"/><text stroke=\"none\" text-anchor=\"end\" x=\"" << kLeft - 8
        << "\" y=\"" << scale.y(ms) + 4 << "\">" << ms << "</text>\n";
  }
  svg << "<text stroke=\"none\" text-anchor=\"middle\" x=\"" << (kLeft + kWidth - kRight) / 2
      << "\" y=\"" << kHeight - 16 << "\">device memory (GiB)</text>\n"
      << "<text stroke=\"none\" text-anchor=\"middle\" transform=\"translate(20 "
      << (kTop + kHeight - kBottom) / 2
      << ") rotate(-90)\">time of a pass (ms), predicted</text>\n</g>\n";
}

void draw_path(std::ostringstream& svg, const std::vector<std::pair<double, double>>& points,
               const std::string& style) {
  if (points.empty()) return;
  svg << "<polyline fill=\"none\" " << style << " points=\"";
  for (const auto& [x, y] : points) svg << x << ',' << y << ' ';
  svg << "\"/>\n";
}

// Whether no other plan has as little memory and as short a pass.
bool is_unbeaten(const Point& point, const std::vector<Line>& lines) {
  for (const Line& line : lines) {
    for (const Point& other : line.points) {
      const bool is_better = other.memory < point.memory || other.pass < point.pass;
      if (is_better && other.memory <= point.memory && other.pass <= point.pass) return false;
    }
  }
  return true;
}

}  // namespace

std::string trade_off_svg(std::span<const Prediction> rows, double resident_ms) {
  const std::vector<Line> lines = lines_of(rows);
  Scale scale{1e-3, std::max(resident_ms, 1e-6)};
  for (const Line& line : lines) {
    for (const Point& point : line.points) {
      scale.memory = std::max(scale.memory, point.memory);
      scale.pass = std::max(scale.pass, point.pass * 1.05);
    }
  }
  std::ostringstream svg;
  svg << std::setprecision(6) << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 "
      << kWidth << ' ' << kHeight << "\" font-family=\"sans-serif\" role=\"img\">\n"
      << "<title>Time of a pass by device memory</title>\n<rect width=\"100%\" height=\"100%\" "
         "fill=\"white\"/>\n";
  draw_axes(svg, scale);
  draw_path(svg, {{kLeft, scale.y(resident_ms)}, {kWidth - kRight, scale.y(resident_ms)}},
            "stroke=\"#444\" stroke-dasharray=\"1 4\"");
  double legend = kLeft;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string colour = kColours[i % kColours.size()];
    std::vector<std::pair<double, double>> passes;
    std::vector<std::pair<double, double>> bounds;
    for (const Point& point : lines[i].points) {
      passes.emplace_back(scale.x(point.memory), scale.y(point.pass));
      if (i == 0 && point.bound) bounds.emplace_back(scale.x(point.memory), scale.y(*point.bound));
    }
    draw_path(svg, bounds, "stroke=\"#444\" stroke-dasharray=\"6 4\"");
    draw_path(svg, passes, "stroke-width=\"2\" stroke=\"" + colour + "\"");
    for (const Point& point : lines[i].points) {
      svg << "<circle cx=\"" << scale.x(point.memory) << "\" cy=\"" << scale.y(point.pass)
          << "\" r=\"3\" fill=\"" << colour << "\"/>\n";
      if (is_unbeaten(point, lines)) {
        svg << "<circle cx=\"" << scale.x(point.memory) << "\" cy=\"" << scale.y(point.pass)
            << "\" r=\"6\" fill=\"none\" stroke=\"" << colour << "\"/>\n";
      }
    }
    svg << "<rect x=\"" << legend << "\" y=\"20\" width=\"14\" height=\"4\" fill=\"" << colour
        << "\"/><text font-size=\"12\" x=\"" << legend + 18 << "\" y=\"26\">" << lines[i].policy
        << "</text>\n";
    legend += 40 + 7.5 * static_cast<double>(lines[i].policy.size());
  }
  svg << "<text font-size=\"11\" fill=\"#444\" x=\"" << kLeft
      << "\" y=\"42\">dashed: windowed bound; dotted: all on the device; ringed: beaten by "
         "none</text>\n"
      << "</svg>\n";
  return svg.str();
}

}  // namespace superpipe::cli
