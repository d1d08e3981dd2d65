/// A JSON value to be written, always in the same bytes: names sorted, no optional escapes, numbers with the
/// fewest digits that read back as the same number.
///
/// `JSONSerialization` passes numbers through `NSNumber` and sorts names by locale on some systems; what this
/// command prints is a contract, so it is written here.
indirect enum JSONValue: Sendable, Equatable {
    case null
    case boolean(Bool)
    case integer(Int64)
    /// A number; infinities and NaN, which JSON cannot say, become texts.
    case double(Double)
    case string(String)
    case array([JSONValue])
    case object([String: JSONValue])

    /// A text, or null.
    init(_ string: String?) { self = string.map { .string($0) } ?? .null }

    /// The value as text.
    ///
    /// - Parameter levels: How many levels of arrays and objects are spread over lines, one element each; what
    ///   is deeper stays on one line.
    func text(levels: Int = 0) -> String {
        var text = ""
        write(to: &text, levels: levels, indentation: 0)
        return text
    }

    func write(to text: inout String, levels: Int, indentation: Int) {
        switch self {
        case .null: text += "null"
        case .boolean(let value): text += value ? "true" : "false"
        case .integer(let value): text += String(value)
        case .double(let value): Self.write(value, to: &text)
        case .string(let value): Self.write(value, to: &text)
        case .array(let elements):
            Self.write(
                elements, open: "[", close: "]", to: &text, levels: levels,
                indentation: indentation
            ) { element, text in
                element.write(to: &text, levels: levels - 1, indentation: indentation + 2)
            }
        case .object(let members):
            // Swift orders texts by their canonical form; equal canonical forms are the same key.
            Self.write(
                members.sorted { $0.key < $1.key }, open: "{", close: "}", to: &text,
                levels: levels, indentation: indentation
            ) { member, text in
                Self.write(member.key, to: &text)
                text += ": "
                member.value.write(to: &text, levels: levels - 1, indentation: indentation + 2)
            }
        }
    }

    private static func write<Element>(
        _ elements: [Element], open: String, close: String, to text: inout String, levels: Int,
        indentation: Int, element write: (Element, inout String) -> Void
    ) {
        text += open
        let spread = levels > 0 && !elements.isEmpty
        let lineEnd = "\n" + String(repeating: " ", count: indentation)
        for (offset, element) in elements.enumerated() {
            if spread {
                text += (offset == 0 ? "" : ",") + lineEnd + "  "
            } else if offset > 0 {
                text += ", "
            }
            write(element, &text)
        }
        if spread { text += lineEnd }
        text += close
    }

    private static func write(_ value: Double, to text: inout String) {
        switch value {
        case .infinity: text += "\"Infinity\""
        case -.infinity: text += "\"-Infinity\""
        case _ where value.isNaN: text += "\"NaN\""
        default: text += value.description
        }
    }

    /// Writes a text in quotation marks. Only what must be escaped is.
    static func write(_ value: String, to text: inout String) {
        text += "\""
        var plain = value.unicodeScalars.startIndex
        let scalars = value.unicodeScalars
        var index = plain
        while index < scalars.endIndex {
            if let escape = escape(for: scalars[index]) {
                text.unicodeScalars.append(contentsOf: scalars[plain..<index])
                text += escape
                plain = scalars.index(after: index)
            }
            index = scalars.index(after: index)
        }
        text.unicodeScalars.append(contentsOf: scalars[plain...])
        text += "\""
    }

    private static func escape(for scalar: Unicode.Scalar) -> String? {
        switch scalar {
        case "\"": return "\\\""
        case "\\": return "\\\\"
        case "\n": return "\\n"
        case "\r": return "\\r"
        case "\t": return "\\t"
        case "\u{8}": return "\\b"
        case "\u{C}": return "\\f"
        case _ where scalar.value < 0x20:
            let digits = String(scalar.value, radix: 16)
            return "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        default: return nil
        }
    }
}
