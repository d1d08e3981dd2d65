import Quire

/// Splits a line of a session into words as a shell does.
///
/// Spaces separate words; `'…'` takes everything as it is; `"…"` too, but `\` before `"` or `\` there, and
/// before anything outside quotation marks, takes the next character as it is; `#` at the start of a word
/// begins a comment. Nothing is expanded.
struct ShellWords {
    /// The end of a text that does not end with a whole word.
    enum Continuation: Equatable {
        case none
        /// The last character is a backslash, which takes the next character as it is.
        case backslash
        /// A quotation mark is open.
        case quotation(Character)
    }

    /// The words.
    private(set) var words: [String] = []
    /// The beginning of the last word, if the text ends in one.
    private(set) var lastWordStart: String.Index?
    private(set) var continuation = Continuation.none

    /// The words of a line.
    ///
    /// - Throws: `QuireError` with code `invalidValue` if a quotation mark is not closed.
    static func split(_ line: String) throws -> [String] {
        let parsed = ShellWords(line)
        let problem: String
        switch parsed.continuation {
        case .none: return parsed.words
        case .backslash: problem = "The line ends with a backslash; remove it, or add a character."
        case .quotation(let mark): problem = "A quotation mark (\(mark)) is not closed; close it."
        }
        throw QuireError(.invalidValue, problem)
    }

    /// A word as a line has it, so that it is one word.
    static func quoted(_ word: String) -> String {
        let special: Set<Character> = [" ", "\t", "\"", "'", "\\", "#"]
        return String(word.flatMap { special.contains($0) ? ["\\", $0] : [$0] })
    }

    init(_ text: String) {
        // Appended to in place, so that a long word takes linear time.
        var word = ""
        var index = text.startIndex
        func next() -> Character? {
            guard index < text.endIndex else { return nil }
            defer { index = text.index(after: index) }
            return text[index]
        }
        while true {
            let start = index
            guard let character = next() else { break }
            if character.isWhitespace {
                if lastWordStart != nil { words.append(word) }
                word = ""
                lastWordStart = nil
                continue
            }
            if character == "#", lastWordStart == nil { return }
            lastWordStart = lastWordStart ?? start
            switch character {
            case "\\":
                if let next = next() { word.append(next) } else { continuation = .backslash }
            case "'", "\"":
                continuation = .quotation(character)
                while let inner = next() {
                    if inner == character {
                        continuation = .none
                        break
                    }
                    guard character == "\"", inner == "\\" else {
                        word.append(inner)
                        continue
                    }
                    guard let escaped = next() else { break }
                    if escaped != "\"", escaped != "\\" { word.append("\\") }
                    word.append(escaped)
                }
            default: word.append(character)
            }
        }
        if lastWordStart != nil { words.append(word) }
    }
}
