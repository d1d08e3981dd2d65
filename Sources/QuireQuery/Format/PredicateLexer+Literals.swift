extension PredicateLexer {
    // MARK: - Texts

    /// A text in quotation marks. `\n`, `\r`, `\t`, `\b`, `\f`, `\0`, `\uXXXX` and a backslash before a
    /// backslash or a quotation mark are escapes. A backslash before anything else stands for itself, so that
    /// regular expressions can be written as they are.
    mutating func quoted(by mark: Unicode.Scalar) throws -> String {
        let start = place
        advance()
        var text = String.UnicodeScalarView()
        while let character = peek() {
            advance()
            if character == mark { return String(text) }
            if character == "\\" {
                try appendEscape(to: &text)
            } else {
                text.append(character)
            }
        }
        throw failure(
            "expected \(mark) to end the text that begins at column \(start + 1)", at: place)
    }

    private mutating func appendEscape(to text: inout String.UnicodeScalarView) throws {
        guard let character = peek() else { return }
        advance()
        switch character {
        case "\\", "\"", "'": text.append(character)
        case "n": text.append("\n")
        case "r": text.append("\r")
        case "t": text.append("\t")
        case "b": text.append("\u{8}")
        case "f": text.append("\u{C}")
        case "0": text.append("\0")
        case "u": try appendUnicodeEscape(to: &text)
        default:
            text.append("\\")
            text.append(character)
        }
    }

    /// `XXXX`, or two of them that form a surrogate pair, as in JSON.
    private mutating func appendUnicodeEscape(to text: inout String.UnicodeScalarView) throws {
        let start = place - 2
        var units = [try hexadecimalUnit(of: start)]
        if UTF16.isLeadSurrogate(units[0]), peek() == "\\", peek(1) == "u" {
            advance(by: 2)
            units.append(try hexadecimalUnit(of: start))
        }
        guard let decoded = String(validating: units, as: UTF16.self) else {
            throw failure("expected a Unicode character in the escape", at: start)
        }
        text.append(contentsOf: decoded.unicodeScalars)
    }

    private mutating func hexadecimalUnit(of start: Int) throws -> UInt16 {
        let digits = (0..<4).compactMap { peek($0) }.map(String.init).joined()
        guard digits.utf8.count == 4, digits.allSatisfy(\.isHexDigit),
            let unit = UInt16(digits, radix: 16)
        else { throw failure("expected four hexadecimal digits in the escape", at: start) }
        advance(by: 4)
        return unit
    }

    // MARK: - Numbers

    /// Whether a digit follows the dot that stands here.
    var beginsNumber: Bool { peek(1)?.isASCIIDigit == true }

    /// An integer, `0x1F`, `0o17`, `0b11`, or a number with a fraction or an exponent, without a sign.
    mutating func number() throws -> PredicateToken.Kind {
        let start = place
        if let radix = radixPrefix() {
            advance(by: 2)
            let digits = place
            while let character = peek(), PredicateToken.isKeyPart(character) { advance() }
            guard let value = UInt64(text(from: digits), radix: radix) else {
                throw failure("expected an integer of at most 64 bits", at: start)
            }
            return .integer(value)
        }
        _ = skipDigits()
        var isInteger = true
        if peek() == ".", beginsNumber {
            isInteger = false
            advance()
            _ = skipDigits()
        }
        if peek() == "e" || peek() == "E" {
            isInteger = false
            advance()
            if peek() == "-" || peek() == "+" { advance() }
            guard skipDigits() else {
                throw failure("expected the digits of an exponent", at: place)
            }
        }
        if let character = peek(), PredicateToken.isKeyPart(character) || character == "." {
            throw failure("expected the end of the number", at: place)
        }
        let text = text(from: start)
        if !isInteger {
            guard let value = Double(text), value.isFinite else {
                throw failure("expected a number of at most 64 bits", at: start)
            }
            return .double(value)
        }
        guard let value = UInt64(text) else {
            throw failure("expected an integer of at most 64 bits", at: start)
        }
        return .integer(value)
    }

    private func radixPrefix() -> Int? {
        guard peek() == "0" else { return nil }
        switch peek(1) {
        case "x", "X": return 16
        case "o", "O": return 8
        case "b", "B": return 2
        default: return nil
        }
    }

    private mutating func skipDigits() -> Bool {
        let start = place
        while peek()?.isASCIIDigit == true { advance() }
        return place > start
    }
}

extension Unicode.Scalar {
    /// Whether it is one of 0 to 9.
    fileprivate var isASCIIDigit: Bool { ("0" as Unicode.Scalar)...("9" as Unicode.Scalar) ~= self }
}
