import Foundation
internal import QuireModel
internal import QuireSystem

/// The property list in the head of an XML store.
enum XMLPropertyList {
    /// Reads the value whose element has just begun.
    static func read(_ name: String, _ parser: XMLStoreParser) throws -> PropertyListValue {
        switch name {
        case "string": return .string(try parser.textOfElement())
        case "integer":
            let text = try trimmed(parser)
            guard let number = Int64(text) else { throw parser.error("“\(text)” is no integer") }
            return .integer(number)
        case "real":
            let text = try trimmed(parser)
            guard let number = Double(text) else { throw parser.error("“\(text)” is no number") }
            return .real(number)
        case "true", "false":
            try parser.skipElement()
            return .boolean(name == "true")
        case "data":
            let text = try parser.textOfElement()
            guard let data = Data(base64Encoded: text, options: .ignoreUnknownCharacters) else {
                throw parser.error("there are bytes that are not in base64")
            }
            return .data(data)
        case "date":
            let text = try trimmed(parser)
            guard case .date(let date)? = try? AttributeValue(parsing: text, as: .date) else {
                throw parser.error("“\(text)” is no date")
            }
            return .date(date)
        case "array":
            var values: [PropertyListValue] = []
            try parser.forEachElement { values.append(try read($0, parser)) }
            return .array(values)
        case "dict":
            var values: [String: PropertyListValue] = [:]
            var key: String?
            try parser.forEachElement { name in
                if let known = key {
                    values[known] = try read(name, parser)
                    key = nil
                } else if name == "key" {
                    key = try parser.textOfElement()
                } else {
                    throw parser.error("there is a value without a key")
                }
            }
            if key != nil { throw parser.error("there is a key without a value") }
            return .dictionary(values)
        default: throw parser.error("“\(name)” is no kind of value in a property list")
        }
    }

    private static func trimmed(_ parser: XMLStoreParser) throws -> String {
        try parser.textOfElement().trimmingCharacters(in: .whitespacesAndNewlines)
    }

    // MARK: - Writing

    /// Writes a value as Foundation does, indented by so many steps.
    static func write(_ value: PropertyListValue, _ depth: Int, to text: inout XMLStoreText) {
        func line(_ content: String) {
            text.indent(depth)
            text.write(content)
            text.write("\n")
        }
        switch value {
        case .string(let string):
            text.indent(depth)
            text.write("<string>")
            text.writeEscapingXML(string)
            text.write("</string>\n")
        case .integer(let number): line("<integer>\(number)</integer>")
        case .real(let number): line("<real>\(number)</real>")
        case .boolean(let truth): line(truth ? "<true/>" : "<false/>")
        case .date(let date):
            line("<date>\(AttributeValue.date(date).text(as: .date) ?? "")</date>")
        case .data(let data):
            line("<data>")
            let encoded = Array(data.base64EncodedString().utf8)
            for start in stride(from: 0, to: encoded.count, by: 60) {
                text.write("\t\t")
                text.write(encoded[start..<min(start + 60, encoded.count)])
                text.write("\n")
            }
            text.write("\t\t</data>\n")
        case .array(let values):
            if values.isEmpty { return line("<array/>") }
            line("<array>")
            for value in values { write(value, depth + 1, to: &text) }
            line("</array>")
        case .dictionary(let values):
            if values.isEmpty { return line("<dict/>") }
            line("<dict>")
            for (key, value) in values.sorted(by: { $0.key < $1.key }) {
                text.indent(depth + 1)
                text.write("<key>")
                text.writeEscapingXML(key)
                text.write("</key>\n")
                write(value, depth + 1, to: &text)
            }
            line("</dict>")
        }
    }
}
