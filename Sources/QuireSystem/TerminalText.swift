/// Texts without what a terminal obeys: names in documents, archives and file systems may hold control characters, and marks
/// that change the direction of what follows. They are written as in JSON, `\u001b`.
package enum TerminalText {
    /// One line of text, in which line ends and tabs are escaped as well.
    package static func line(_ text: String) -> String { escaped(text, where: isObeyed) }

    /// Text whose line ends and tabs stay.
    package static func block(_ text: String) -> String {
        escaped(text) { $0 != "\n" && $0 != "\t" && isObeyed($0) }
    }

    /// Whether a terminal obeys a character instead of showing it: controls, line separators and direction marks.
    package static func isObeyed(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0..<0x20, 0x7F..<0xA0: true
        case 0x061C, 0x200E, 0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }

    private static func escaped(
        _ text: String, where isEscaped: (Unicode.Scalar) -> Bool
    ) -> String {
        guard text.unicodeScalars.contains(where: isEscaped) else { return text }
        var escaped = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            if isEscaped(scalar) {
                escaped.append(contentsOf: escape(scalar).unicodeScalars)
            } else {
                escaped.append(scalar)
            }
        }
        return String(escaped)
    }

    /// A character below U+10000 as JSON escapes it.
    package static func escape(_ scalar: Unicode.Scalar) -> String {
        let digits = String(scalar.value, radix: 16)
        return "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
    }
}
