// SPDX-License-Identifier: Apache-2.0
// lidx heatmap: a score file as a picture, rows down, keys across.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "case_io.h"
#include "commands.h"
#include "counted.h"
#include "failure.h"
#include "npy.h"
#include "output_file.h"
#include "score_file.h"

// Both are single-file libraries whose code lives in the including file.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wshadow"
#define STB_IMAGE_WRITE_STATIC
#define STB_IMAGE_WRITE_IMPLEMENTATION
#include <stb/stb_image_write.h>
#include <stb/stb_easy_font.h>
#pragma GCC diagnostic pop

namespace lidx::command {

namespace {

struct Color {
    uint8_t r, g, b;
};
constexpr Color kBackground{255, 255, 255}, kInk{40, 40, 40}, kDead{225, 225, 225}, kNaN{255, 0, 200},
    kRule{120, 120, 120};

// Dark blue through green to yellow: lightness grows evenly, so the picture also reads in grey and with any colour
// vision.
constexpr Color kScale[] = {{68, 1, 84},    {71, 44, 122},  {59, 81, 139},  {44, 113, 142}, {33, 144, 141},
                            {39, 173, 129}, {92, 200, 99}, {170, 220, 50}, {253, 231, 37}};

Color scale_color(double unit) {
    const double at = std::clamp(unit, 0.0, 1.0) * (std::size(kScale) - 1);
    const auto low = std::min<size_t>(static_cast<size_t>(at), std::size(kScale) - 2);
    const double t = at - static_cast<double>(low);
    const auto mix = [t](uint8_t a, uint8_t b) { return static_cast<uint8_t>(std::lround(a + t * (b - a))); };
    return {mix(kScale[low].r, kScale[low + 1].r), mix(kScale[low].g, kScale[low + 1].g),
            mix(kScale[low].b, kScale[low + 1].b)};
}

class Picture {
  public:
    Picture(int width, int height)
        : width_(width), height_(height), pixels_(static_cast<size_t>(width) * height, kBackground) {}
    int width() const { return width_; }
    int height() const { return height_; }

    void fill(int x0, int y0, int x1, int y1, Color color) {
        for (int y = std::max(y0, 0); y < std::min(y1, height_); ++y)
            for (int x = std::max(x0, 0); x < std::min(x1, width_); ++x)
                pixels_[static_cast<size_t>(y) * width_ + x] = color;
    }
    void set(int x, int y, Color color) { fill(x, y, x + 1, y + 1, color); }
    // Top left corner at (x, y); letters are about 8 pixels high. stb_easy_font gives them as filled rectangles.
    void text(int x, int y, std::string words, Color color = kInk) {
        struct Vertex {
            float x, y, z;
            unsigned char color[4];
        };
        std::vector<Vertex> vertices(words.size() * 300 / sizeof(Vertex) + 64);
        const int quads = stb_easy_font_print(0, 0, words.data(), nullptr, vertices.data(),
                                              static_cast<int>(vertices.size() * sizeof(Vertex)));
        for (int quad = 0; quad < quads; ++quad) {
            const Vertex& low = vertices[4 * quad];
            const Vertex& high = vertices[4 * quad + 2];
            fill(x + static_cast<int>(low.x), y + static_cast<int>(low.y), x + static_cast<int>(high.x),
                 y + static_cast<int>(high.y), color);
        }
    }
    static int text_width(std::string words) { return stb_easy_font_width(words.data()); }

    void write(const std::filesystem::path& path) const {
        int size_bytes = 0;
        unsigned char* png = stbi_write_png_to_mem(&pixels_[0].r, width_ * 3, width_, height_, 3, &size_bytes);
        if (png == nullptr) throw Failure(kInternal, "PNG encoder: out of memory");
        const std::unique_ptr<unsigned char, decltype(&std::free)> owner(png, std::free);
        OutputFile file(path);
        file.write(png, static_cast<size_t>(size_bytes));
        file.close();
    }

  private:
    int width_, height_;
    std::vector<Color> pixels_;
};
static_assert(sizeof(Color) == 3, "rows of pixels are packed RGB");

// The range of colours, never empty: percentiles 1 and 99 of the finite scores, so that a few extremes do not flatten
// the rest. Doubles, for the range may exceed fp32's, and 1 added to one large score would not change a float.
std::pair<double, double> color_range(const std::vector<float>& scores) {
    std::vector<float> finite;
    const size_t step = std::max<size_t>(1, scores.size() / 1000000);
    for (size_t i = 0; i < scores.size(); i += step)
        if (std::isfinite(scores[i])) finite.push_back(scores[i]);
    if (finite.empty()) return {0, 1};
    std::sort(finite.begin(), finite.end());
    const double low = finite[finite.size() / 100], high = finite[finite.size() - 1 - finite.size() / 100];
    return {low, low < high ? high : low + std::fmax(1, std::fabs(low))};
}

// A pixel stands for a block of cells: NaN if any is, else the largest (the indexer keeps the largest), dead if all
// are.
Color block_color(const std::vector<float>& scores, int64_t longest, int64_t row0, int64_t row1, int64_t key0,
                  int64_t key1, double low, double high) {
    float best = -INFINITY;
    for (int64_t row = row0; row < row1; ++row)
        for (int64_t key = key0; key < key1; ++key) {
            const float score = scores[static_cast<size_t>(row * longest + key)];
            if (std::isnan(score)) return kNaN;
            best = std::max(best, score);
        }
    if (best == -INFINITY) return kDead;
    return scale_color((best - low) / (high - low));
}

// 1, 2 or 5 times a power of ten, so that about `ticks` of them cover `span`.
int64_t tick_step(int64_t span, int64_t ticks) {
    for (int64_t power = 1;; power *= 10)
        for (const int64_t digit : {1, 2, 5})
            if (span <= digit * power * ticks) return digit * power;
}

std::string number(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
}

constexpr int kMarginLeft = 64, kMarginTop = 40, kMarginRight = 96, kMarginBottom = 40;
constexpr int kPlotWidth = 1024, kMaxPlotHeight = 768, kMaxRowPixels = 48, kMinPlotHeight = 96;

struct Plot {
    const Case& c;
    const std::vector<float>& scores;   // [rows, longest]
    int64_t longest;
    int width, height;   // pixels of the cells
    double low, high;    // of the colours
};

void draw_cells(const Plot& p, Picture& picture) {
    const auto row_at = [&](int y) { return p.c.rows * y / p.height; };
    const auto key_at = [&](int x) { return p.longest * x / p.width; };
    for (int y = 0; y < p.height; ++y)
        for (int x = 0; x < p.width; ++x) {
            const int64_t row = row_at(y), key = key_at(x);
            picture.set(kMarginLeft + x, kMarginTop + y,
                        block_color(p.scores, p.longest, row, std::max(row + 1, row_at(y + 1)), key,
                                    std::max(key + 1, key_at(x + 1)), p.low, p.high));
        }
    // A line between requests, where rows are high enough to leave room for it.
    for (int32_t request = 1; request < p.c.batch && p.height / p.c.rows >= 4; ++request) {
        const int y = kMarginTop + static_cast<int>(p.c.cu_seqlens_q[request] * int64_t{p.height} / p.c.rows);
        picture.fill(kMarginLeft, y, kMarginLeft + p.width, y + 1, kRule);
    }
}

void draw_axes(const Plot& p, Picture& picture) {
    picture.text(kMarginLeft, 10,
                 "score[row, key]   " + counted(p.c.batch, "request") + ", " + counted(p.c.rows, "row") + ", " +
                     counted(p.c.heads, "head") + ", up to " + counted(p.longest, "key") + "; largest of each block");
    picture.text(kMarginLeft, 24, "grey: keys that the row does not see; magenta: NaN");
    const int bottom = kMarginTop + p.height;
    const int64_t key_step = tick_step(p.longest, 8);
    for (int64_t key = 0; key < p.longest; key += key_step) {
        const int x = kMarginLeft + static_cast<int>(key * p.width / p.longest);
        picture.fill(x, bottom, x + 1, bottom + 5, kInk);
        picture.text(x - Picture::text_width(std::to_string(key)) / 2, bottom + 8, std::to_string(key));
    }
    picture.text(kMarginLeft + p.width / 2 - 8, bottom + 22, "key");
    const int64_t row_step = tick_step(p.c.rows, std::max(1, p.height / 24));
    for (int64_t row = 0; row < p.c.rows; row += row_step) {
        const int y = kMarginTop + static_cast<int>((2 * row + 1) * p.height / (2 * p.c.rows));
        const std::string label = (row == 0 ? "row " : "") + std::to_string(row);
        picture.fill(kMarginLeft - 5, y, kMarginLeft, y + 1, kInk);
        picture.text(kMarginLeft - 8 - Picture::text_width(label), y - 4, label);
    }
}

void draw_legend(const Plot& p, Picture& picture) {
    const int x = picture.width() - kMarginRight + 20, height = std::max(p.height, kMinPlotHeight) - 4;
    for (int y = 0; y < height; ++y)
        picture.fill(x, kMarginTop + y, x + 14, kMarginTop + y + 1,
                     scale_color(1 - static_cast<double>(y) / (height - 1)));
    for (int tick = 0; tick <= 4; ++tick) {
        const int y = kMarginTop + (height - 1) * tick / 4;
        picture.fill(x + 14, y, x + 18, y + 1, kInk);
        picture.text(x + 21, y - 4, number(p.high - (p.high - p.low) * tick / 4));
    }
}

}  // namespace

int run_heatmap(const HeatmapOptions& options) {
    require_outputs({{"--out", options.out}}, options.in, {options.scores, sidecar_path(options.scores)});
    tool::require_ending({"--out", options.out}, ".png");
    const Case c = read_case(options.in);
    const int64_t longest = c.longest();
    const Npy<float> scores = read_npy<float>(options.scores, {c.rows, longest});
    if (scores.data.empty())
        bad_input(options.scores.string() + ": shape: " + shape_text(scores.shape) + " has no cell to draw");

    const auto width =
        static_cast<int>(std::min<int64_t>(kPlotWidth, longest * std::max<int64_t>(1, kPlotWidth / longest)));
    const auto height =
        static_cast<int>(std::clamp<int64_t>(c.rows * std::max<int64_t>(1, kMaxPlotHeight / c.rows),
                                             std::min<int64_t>(kMinPlotHeight, c.rows * kMaxRowPixels),
                                             std::min<int64_t>(kMaxPlotHeight, c.rows * kMaxRowPixels)));
    const auto [low, high] = color_range(scores.data);
    const Plot plot{c, scores.data, longest, width, height, low, high};
    Picture picture(kMarginLeft + std::max(width, 256) + kMarginRight,
                    kMarginTop + std::max(height, kMinPlotHeight) + kMarginBottom);
    draw_cells(plot, picture);
    draw_axes(plot, picture);
    draw_legend(plot, picture);
    picture.write(options.out);
    std::printf("%s: %d x %d pixels, colours from %.4g to %.4g\n", options.out.c_str(), picture.width(),
                picture.height(), low, high);
    return kDone;
}

}  // namespace lidx::command
