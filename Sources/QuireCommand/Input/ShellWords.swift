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
        // Appended to in place, so that a long word takes linear time.
        var word = ""
        var isInWord = false
        var characters = line.makeIterator()
        while let character = characters.next() {
            if character.isWhitespace {
                if isInWord { words.append(word) }
                word = ""
                isInWord = false
                continue
            }
            if character == "#", !isInWord { return words }
            isInWord = true
            switch character {
            case "\\":
                guard let next = characters.next() else { throw unfinished("a backslash") }
                word.append(next)
            case "'", "\"": word += try quoted(by: character, &characters)
            default: word.append(character)
            }
        }
        if isInWord { words.append(word) }
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
