// SPDX-License-Identifier: Apache-2.0
// Values and lists as messages give them.
#pragma once
#include <concepts>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace tool {

// A text of somebody else's: up to 80 bytes, cut short between UTF-8 characters; `rest` says that there is more.
inline std::string shown(std::string_view text, std::string_view rest = "...") {
    constexpr size_t kMostBytes = 80;
    if (text.size() <= kMostBytes) return std::string(text);
    size_t end = kMostBytes - rest.size();
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
    return std::string(text.substr(0, end)).append(rest);
}

struct AsText {
    template <class Item>
    std::string operator()(const Item& item) const {
        if constexpr (std::integral<Item>) return std::to_string(item);
        else return std::string(item);
    }
};
// "80, 90, 100". text: from an item to its text.
template <class Items, class Text = AsText>
std::string joined(const Items& items, const char* between = ", ", const Text& text = {}) {
    std::string all;
    bool first = true;
    for (const auto& item : items) {
        if (!first) all += between;
        first = false;
        all += std::invoke(text, item);
    }
    return all;
}

}  // namespace tool
