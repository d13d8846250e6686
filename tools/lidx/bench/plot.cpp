// SPDX-License-Identifier: Apache-2.0
// The results of lidx bench as a chart: a bar per candidate, as long as its share of the ceiling that binds.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "bench/results.h"

namespace lidx::command {

namespace {

// Pixels.
constexpr double kWordsInside = 260;   // a bar of this length bears its words
constexpr double kWidth = 1060, kMargin = 28, kBarsLeft = 236, kBarsWidth = 520;
constexpr double kBarHeight = 13, kBarStep = 15, kGroupGap = 9, kPanelGap = 30, kLegendTop = 92;
constexpr const char* kInk = "#1c2733";
constexpr const char* kFaint = "#6b7885";
constexpr const char* kGrid = "#e4e9ee";
constexpr const char* kAlarm = "#b4232a";
// Words stay readable on grid lines.
constexpr const char* kHalo = "stroke=\"#ffffff\" stroke-width=\"3\" paint-order=\"stroke\" stroke-linejoin=\"round\"";
// lidx's kernels by order of appearance, its scorer beside a score + top-k, rivals by order of the command line.
constexpr const char* kLidxColours[] = {"#0b7a75", "#3aa69f", "#14504d", "#7cc6c0"};
constexpr const char* kScorerColour = "#b5dcd9";
constexpr const char* kRivalColours[] = {"#c9761a", "#6d5bd0", "#c2477f", "#4a7fc1", "#8a6d3b"};

std::string escape(const std::string& text) {
    std::string escaped;
    for (const char c : text) switch (c) {
            case '&': escaped += "&amp;"; break;
            case '<': escaped += "&lt;"; break;
            case '>': escaped += "&gt;"; break;
            case '"': escaped += "&quot;"; break;
            default: escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
    return escaped;
}

template <class... Values>
std::string format(const char* pattern, Values... values) {
    std::string text(static_cast<size_t>(std::snprintf(nullptr, 0, pattern, values...)), '\0');
    std::snprintf(text.data(), text.size() + 1, pattern, values...);
    return text;
}

class Svg {
  public:
    void rectangle(double x, double y, double width, double height, const char* fill, const char* more = "") {
        body_ += format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" %s/>\n", x, y, width,
                        height, fill, more);
    }
    void line(double x0, double y0, double x1, double y1, const char* colour, const char* more = "") {
        body_ += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" %s/>\n", x0, y0, x1, y1,
                        colour, more);
    }
    // anchor: start, middle, end
    void text(double x, double y, const std::string& words, double size, const char* colour,
              const char* anchor = "start", const char* weight = "400", const char* halo = kHalo) {
        body_ += format("<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" fill=\"%s\" text-anchor=\"%s\" "
                        "font-weight=\"%s\" %s>%s</text>\n",
                        x, y, size, colour, anchor, weight, halo, escape(words).c_str());
    }
    std::string document(double height) const {
        return format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                      "viewBox=\"0 0 %.0f %.0f\" "
                      "font-family=\"Inter, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif\">\n",
                      kWidth, height, kWidth, height) +
               format("<rect width=\"%.0f\" height=\"%.0f\" fill=\"#ffffff\"/>\n", kWidth, height) + body_ +
               "</svg>\n";
    }

  private:
    std::string body_;
};

// Colours by name, in the order in which candidates first appear.
class Legend {
  public:
    explicit Legend(const Results& results) {
        size_t kernels = 0, rivals = 0;
        for (const WorkloadResult& result : results.workloads)
            for (const Row& row : result.rows) {
                const std::string name = name_of(row);
                if (colours_.count(name) != 0) continue;
                colours_[name] = row.role == Role::kScorer  ? kScorerColour
                                 : row.role == Role::kRival ? kRivalColours[rivals++ % std::size(kRivalColours)]
                                                            : kLidxColours[kernels++ % std::size(kLidxColours)];
                order_.push_back(name);
            }
    }
    const char* colour(const Row& row) const { return colours_.at(name_of(row)); }
    double draw(Svg& svg, double y) const {
        double x = kMargin;
        for (const std::string& name : order_) {
            const double width = 22 + 6.6 * static_cast<double>(name.size()) + 18;
            if (x + width > kWidth - kMargin && x > kMargin) x = kMargin, y += 20;
            svg.rectangle(x, y - 10, 13, 13, colours_.at(name), "rx=\"2\"");
            svg.text(x + 19, y + 1, name, 12, kInk);
            x += width;
        }
        return y;
    }

  private:
    // One kernel serves 64 heads and another 32: where only the best is timed, they are lidx.
    static std::string name_of(const Row& row) {
        if (row.role == Role::kRival) return row.candidate;
        if (row.role == Role::kScorer) return "lidx, scorer alone";
        return row.ratio ? "lidx " + row.candidate : "lidx";
    }
    std::map<std::string, const char*> colours_;
    std::vector<std::string> order_;
};

std::string time_text(double us) {
    if (us >= 10000) return format("%.1f ms", us / 1000);
    return format(us >= 1000 ? "%.0f µs" : "%.1f µs", us);
}

void draw_bar(Svg& svg, const WorkloadResult& result, const Row& row, const char* colour, double y, double scale) {
    const double middle = y + kBarHeight - 2.8;
    if (!row.failure.empty()) {
        svg.text(kBarsLeft + 5, middle, row.candidate + " failed: " + row.failure, 11, kAlarm);
        return;
    }
    const double percent = percent_of_ceiling(result, row), width = std::min(percent * scale, kBarsWidth);
    const bool wrong = row.agreement && !row.agreement->agrees && row.ratio;
    const char* dashed = "rx=\"1.5\" fill-opacity=\"0.35\" stroke=\"#b4232a\" stroke-dasharray=\"3 2\"";
    svg.rectangle(kBarsLeft, y, std::max(width, 1.0), kBarHeight, colour, wrong ? dashed : "rx=\"1.5\"");
    std::string words = time_text(row.us.median) + format(" · %.0f %%", percent);
    if (row.role == Role::kRival && row.ratio) words += format(" · %.2f× the time", *row.ratio);
    if (wrong) words += " · other results";
    if (width < kWordsInside) svg.text(kBarsLeft + width + 6, middle, words, 11, wrong ? kAlarm : kInk);
    else svg.text(kBarsLeft + width - 6, middle, words, 11,
                  wrong ? kAlarm : row.role == Role::kScorer ? kInk : "#ffffff", "end", "400", "");
}

}  // namespace

std::string svg_chart(const Results& r) {
    Svg svg;
    const Legend legend(r);
    double most = 100;
    for (const WorkloadResult& result : r.workloads)
        for (const Row& row : result.rows) most = std::max(most, percent_of_ceiling(result, row));
    most = std::min(std::ceil(most / 20) * 20, 200.0);
    const double scale = kBarsWidth / most;

    svg.text(kMargin, 38, "lidx bench: share of the ceiling that binds", 20, kInk, "start", "600");
    svg.text(kMargin, 58,
             format("%s · lidx %s · driver %d.%d · %s UTC · ", r.device.c_str(), r.lidx.c_str(),
                    r.driver_version / 1000, r.driver_version % 1000 / 10, r.date.c_str()) +
                 format("median of %d · L2 %s", r.runs, timing_text(r.timing)) +
                 (r.emulated ? " · an emulator's times mean nothing" : ""),
             12, kFaint);
    std::string ceilings = format("100 %% is the longer of reading the workload's bytes (read kernel, same run; large: "
                                  "%.2f TB/s) and its products",
                                  r.memory.read * 1e-12);
    if (r.tensor) ceilings += format(" (%.0f TFLOPS, ", r.tensor->flops_per_second * 1e-12) + r.tensor->source + ")";
    svg.text(kMargin, 74, ceilings, 12, kFaint);
    double y = legend.draw(svg, kLegendTop + 8) + 14;

    // Panels: a family each, its grid behind its bars.
    for (size_t first = 0; first < r.workloads.size();) {
        const std::string family = family_of(r.workloads[first].workload);
        size_t last = first;
        double height = 0;
        for (; last < r.workloads.size() && family_of(r.workloads[last].workload) == family; ++last)
            height += static_cast<double>(r.workloads[last].rows.size()) * kBarStep + kGroupGap;
        y += kPanelGap;
        svg.text(kMargin, y - 8, family, 14, kInk, "start", "600");
        for (double tick = 0; tick <= most; tick += 20) {
            const double x = kBarsLeft + tick * scale;
            svg.line(x, y, x, y + height, tick == 100 ? kInk : kGrid, tick == 100 ? "stroke-dasharray=\"4 3\"" : "");
            svg.text(x, y - 6, format("%.0f %%", tick), 10, kFaint, "middle");
        }
        svg.text(kWidth - kMargin, y - 6, "ceiling", 10, kFaint, "end");
        y += kGroupGap / 2;
        for (; first < last; ++first) {
            const WorkloadResult& result = r.workloads[first];
            const double bars = static_cast<double>(result.rows.size()) * kBarStep;
            svg.text(kBarsLeft - 10, y + bars / 2 + 3, result.workload.name, 11.5, kInk, "end");
            svg.text(kWidth - kMargin, y + bars / 2 + 3, result.ceiling.name + " " + time_text(result.ceiling.us), 10.5,
                     kFaint, "end");
            for (const Row& row : result.rows) {
                draw_bar(svg, result, row, legend.colour(row), y, scale);
                y += kBarStep;
            }
            y += kGroupGap;
        }
    }
    return svg.document(y + kMargin);
}

}  // namespace lidx::command
