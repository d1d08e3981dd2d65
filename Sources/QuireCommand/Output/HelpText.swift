import ArgumentParser
import Foundation

/// The help of a command: the parser's, with examples that can be copied, and the options that unlock documents after the others.
enum HelpText {
    /// The heading of the examples, which are the end of a discussion.
    static let examplesHeading = "EXAMPLES:\n"
    /// The title of the options that unlock documents.
    static let keys = "Keys"

    /// The examples in a discussion, and the text before them.
    static func parts(of discussion: String) -> (text: String, examples: String?) {
        guard let heading = discussion.firstRange(of: examplesHeading) else {
            return (discussion, nil)
        }
        let text = discussion[..<heading.lowerBound].trimmingCharacters(in: .newlines)
        return (text, String(discussion[heading.upperBound...]))
    }

    /// A message of the parser as it is printed: help in the form of this type, anything else as it is.
    ///
    /// - Parameters:
    ///   - words: The command line.
    ///   - width: The width of lines, which the message has.
    static func printed(
        _ message: String, for words: [String], of root: any ParsableCommand.Type, width: Int
    ) -> String {
        let names = words.prefix { !$0.hasPrefix("-") }
        let command = CommandCompletion(words: Array(names), current: "", in: root).command
        guard root.helpMessage(for: command, columns: width) == message else { return message }
        var blocks = message.trimmingCharacters(in: .newlines).components(separatedBy: "\n\n")
        if let usage = blocks.firstIndex(where: { $0.hasPrefix("USAGE: ") }) {
            blocks[usage] = wrapped(usage: blocks[usage], to: width)
            let start = blocks.firstIndex { $0.hasPrefix(examplesHeading) }
            if let start, let examples = parts(of: command.configuration.discussion).examples {
                blocks.replaceSubrange(start..<usage, with: [examplesHeading + examples])
            }
        }
        let options = blocks.lastIndex { $0.hasPrefix("OPTIONS:\n") }
        if let options,
            let keys = blocks.firstIndex(where: { $0.hasPrefix(keys.uppercased() + ":\n") }),
            keys < options
        {
            blocks.insert(blocks.remove(at: keys), at: options)
        }
        return blocks.joined(separator: "\n\n") + "\n"
    }

    /// A usage line in lines of a width, which are broken outside of brackets.
    private static func wrapped(usage: String, to width: Int) -> String {
        var lines = [""]
        for part in parts(ofUsage: usage) {
            let last = lines[lines.count - 1]
            if last.isEmpty {
                lines[lines.count - 1] = part
            } else if last.count + 1 + part.count <= width {
                lines[lines.count - 1] += " " + part
            } else {
                lines.append(String(repeating: " ", count: 7) + part)
            }
        }
        return lines.joined(separator: "\n")
    }

    /// A usage line, divided at its spaces outside of brackets.
    private static func parts(ofUsage usage: String) -> [String] {
        var depth = 0
        return usage.split { character in
            if "[<".contains(character) { depth += 1 }
            if "]>".contains(character) { depth -= 1 }
            return character == " " && depth <= 0
        }.map(String.init)
    }
}
