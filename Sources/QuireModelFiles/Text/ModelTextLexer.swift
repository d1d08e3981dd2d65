internal import QuireSystem

/// Splits the text form of a model into words, quoted texts and marks, one at a time.
struct ModelTextLexer {
    enum Token: Equatable {
        /// A name, a number or a keyword, without quotation marks.
        case word(String)
        case quoted(String)
        /// One of `, : = [ ] { }`.
        case mark(Unicode.Scalar)
        /// `->`, or `->>` to many objects.
        case arrow(isToMany: Bool)
        case lineEnd
        case end
    }

    /// The name of the text in errors.
    let name: String
    /// The current token.
    private(set) var token = Token.lineEnd
    /// The position of the current token, from 1.
    private(set) var line = 1
    private(set) var column = 0
    private let scalars: String.UnicodeScalarView
    private var index: String.UnicodeScalarView.Index
    /// The position after the current token.
    private var nextLine = 1
    private var nextColumn = 1

    /// Begins at the first token.
    init(_ text: String, name: String) throws {
        self.name = name
        scalars = text.unicodeScalars
        index = scalars.startIndex
        if scalars.first == "\u{FEFF}" { index = scalars.index(after: index) }
        try advance()
    }

    /// An error at the current token.
    func error(_ message: String) -> QuireError {
        QuireError(
            .invalidModel, "\(name), line \(line), column \(column): \(message)", file: name,
            position: line)
    }

    /// Moves to the next token. Spaces and comments are skipped.
    mutating func advance() throws {
        skipSpace()
        (line, column) = (nextLine, nextColumn)
        guard let scalar = take() else {
            token = .end
            return
        }
        switch scalar {
        case "\n", "\r":
            if scalar == "\r", peek == "\n" { _ = take() }
            nextLine += 1
            nextColumn = 1
            token = .lineEnd
        case "\"": token = .quoted(try escapedText())
        case "'": token = .quoted(try plainText())
        case ",", ":", "=", "[", "]", "{", "}": token = .mark(scalar)
        case "-" where peek == ">":
            _ = take()
            let isToMany = peek == ">"
            if isToMany { _ = take() }
            token = .arrow(isToMany: isToMany)
        case _ where Self.isPartOfWord(scalar): token = .word(word(from: scalar))
        default:
            throw error(
                "The character “\(TerminalText.line(String(scalar)))” is unexpected; put text in quotation marks."
            )
        }
    }

    // MARK: - Characters

    private var peek: Unicode.Scalar? { index < scalars.endIndex ? scalars[index] : nil }

    private mutating func take() -> Unicode.Scalar? {
        guard let scalar = peek else { return nil }
        index = scalars.index(after: index)
        nextColumn += 1
        return scalar
    }

    private mutating func skipSpace() {
        while let scalar = peek {
            if scalar == "#" {
                while let scalar = peek, scalar != "\n", scalar != "\r" { _ = take() }
            } else if scalar == " " || scalar == "\t" {
                _ = take()
            } else {
                return
            }
        }
    }

    private static func isPartOfWord(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.isXIDContinue || "_.@$+-".unicodeScalars.contains(scalar)
    }

    /// A word, in which colons may stand between digits, as in a time.
    private mutating func word(from first: Unicode.Scalar) -> String {
        var word = String.UnicodeScalarView([first])
        let isNumber = Self.isDigit(first) || first == "-"
        while let scalar = peek {
            if scalar == ":", isNumber, let last = word.last, Self.isDigit(last) {
                let next = scalars.index(after: index)
                guard next < scalars.endIndex, Self.isDigit(scalars[next]) else { break }
            } else if !Self.isPartOfWord(scalar) {
                break
            }
            word.append(scalar)
            _ = take()
        }
        return String(word)
    }

    private static func isDigit(_ scalar: Unicode.Scalar) -> Bool { ("0"..."9").contains(scalar) }

    /// The text up to the closing apostrophe, without escapes.
    private mutating func plainText() throws -> String {
        var text = String.UnicodeScalarView()
        while let scalar = peek, scalar != "\n", scalar != "\r" {
            _ = take()
            if scalar == "'" { return String(text) }
            text.append(scalar)
        }
        throw error("The text has no closing ' on its line.")
    }

    private mutating func escapedText() throws -> String {
        var text = String.UnicodeScalarView()
        while let scalar = peek, scalar != "\n", scalar != "\r" {
            _ = take()
            switch scalar {
            case "\"": return String(text)
            case "\\":
                (line, column) = (nextLine, nextColumn - 1)
                text.append(try escape())
            default: text.append(scalar)
            }
        }
        throw error("The text has no closing \" on its line.")
    }

    private mutating func escape() throws -> Unicode.Scalar {
        switch take() {
        case "\\": return "\\"
        case "\"": return "\""
        case "n": return "\n"
        case "r": return "\r"
        case "t": return "\t"
        case "u" where peek == "{":
            _ = take()
            var digits = ""
            while let scalar = peek, scalar.properties.isASCIIHexDigit, digits.count < 8 {
                digits.unicodeScalars.append(scalar)
                _ = take()
            }
            if take() == "}", let value = UInt32(digits, radix: 16),
                let scalar = Unicode.Scalar(value)
            {
                return scalar
            }
        default: break
        }
        throw error(
            "The escape is unknown; use \\\\, \\\", \\n, \\r, \\t or \\u{…}, or put the text in '…'."
        )
    }
}

// MARK: - Writing

extension ModelTextLexer {
    /// A text in quotation marks. Control characters and direction marks are escaped.
    static func quoted(_ text: String) -> String {
        let scalars = text.unicodeScalars
        if scalars.contains(where: { $0 == "\"" || $0 == "\\" }),
            !scalars.contains(where: { $0 == "'" || TerminalText.isObeyed($0) })
        {
            return "'\(text)'"
        }
        var result = "\""
        for scalar in scalars {
            switch scalar {
            case "\\", "\"": result += "\\\(scalar)"
            case "\n": result += "\\n"
            case "\r": result += "\\r"
            case "\t": result += "\\t"
            case _ where TerminalText.isObeyed(scalar):
                result += "\\u{\(String(scalar.value, radix: 16))}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }

    /// A name, in quotation marks unless it is a letter or underscore and then letters, digits and underscores.
    static func name(_ name: String) -> String { isName(name) ? name : quoted(name) }

    static func isName(_ text: String) -> Bool {
        guard let first = text.unicodeScalars.first, first == "_" || first.properties.isXIDStart
        else { return false }
        return text.unicodeScalars.allSatisfy { $0.properties.isXIDContinue }
    }

    /// A number, date or key path, in quotation marks unless it reads as one word.
    static func word(_ text: String) -> String {
        guard let lexer = try? ModelTextLexer(text, name: ""), lexer.token == .word(text),
            lexer.index == lexer.scalars.endIndex
        else { return quoted(text) }
        return text
    }
}
