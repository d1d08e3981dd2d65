/// The parts of a list on the command line, such as `author.name, count(title) AS n`: separated by commas, of which
/// those within brackets or quotation marks do not count.
struct ExpressionList {
    /// The parts, without spaces around them.
    let parts: [String]

    /// Splits a list.
    init(_ text: String) {
        var parts: [String] = []
        var part = ""
        var depth = 0
        var quote: Character?
        var isEscaped = false
        for character in text {
            if let open = quote {
                if !isEscaped, character == open { quote = nil }
                isEscaped = !isEscaped && character == "\\"
            } else {
                switch character {
                case "\"", "'": quote = character
                case "(", "{", "[": depth += 1
                case ")", "}", "]": depth -= 1
                case "," where depth <= 0:
                    parts.append(part)
                    part = ""
                    continue
                default: break
                }
            }
            part.append(character)
        }
        parts.append(part)
        self.parts = parts.map(Self.trimmed).filter { !$0.isEmpty }
    }

    static func trimmed(_ text: String) -> String {
        let start = text.drop { $0.isWhitespace }
        return String(start.reversed().drop { $0.isWhitespace }.reversed())
    }

    /// A part without `AS name` at its end, and that name.
    static func named(_ part: String) -> (expression: String, name: String?) {
        let pattern = /(?i)^(?<expression>.*\S)\s+AS\s+(?<name>[\p{L}_][\p{L}\p{N}_.]*)$/
        guard let match = part.wholeMatch(of: pattern.dotMatchesNewlines()) else {
            return (part, nil)
        }
        return (String(match.expression), String(match.name))
    }

    /// Whether a part is no more than a key path.
    static func isKeyPath(_ part: String) -> Bool {
        part.allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" || $0 == "." }
    }
}
