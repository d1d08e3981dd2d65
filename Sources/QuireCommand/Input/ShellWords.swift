import Quire

/// Splits a line of a session into words as a shell does.
///
/// Spaces separate words; `'…'` takes everything as it is; `"…"` too, but `\` before `"` or `\` there, and
/// before anything outside quotation marks, takes the next character as it is; `#` at the start of a word
/// begins a comment. Nothing is expanded.
enum ShellWords {
    /// The words of a line.
    ///
    /// - Throws: `QuireError` with code `invalidValue` if a quotation mark is not closed.
    static func split(_ line: String) throws -> [String] {
        var words: [String] = []
        var word: String?
        var characters = line.makeIterator()
        while let character = characters.next() {
            switch character {
            case "#" where word == nil: return words
            case "\\":
                guard let next = characters.next() else { throw unfinished("a backslash") }
                word = (word ?? "") + String(next)
            case "'":
                word = (word ?? "") + (try quoted(by: "'", &characters))
            case "\"":
                word = (word ?? "") + (try quoted(by: "\"", &characters))
            case _ where character.isWhitespace:
                if let finished = word { words.append(finished) }
                word = nil
            default:
                word = (word ?? "") + String(character)
            }
        }
        if let word { words.append(word) }
        return words
    }

    private static func quoted(
        by mark: Character, _ characters: inout String.Iterator
    ) throws -> String {
        var text = ""
        while let character = characters.next() {
            if character == mark { return text }
            if mark == "\"", character == "\\" {
                guard let next = characters.next() else { break }
                if next != "\"", next != "\\" { text.append("\\") }
                text.append(next)
            } else {
                text.append(character)
            }
        }
        throw unfinished("a quotation mark (\(mark))")
    }

    private static func unfinished(_ what: String) -> QuireError {
        QuireError(.invalidValue, "The line ends after \(what) that opens something; close it.")
    }
}
