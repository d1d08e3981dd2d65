/// The right side of `LIKE`: `?` matches one character, `*` any number of characters, and a backslash escapes these and
/// itself. SQL calls it as `QUIRE_LIKE(pattern, text, options)`.
///
/// A character is a Unicode scalar here. Matching is O(*n* · *m*) in text and pattern, whatever the pattern.
struct TextPattern: Sendable, Equatable {
    private enum Element: Equatable {
        case character(Unicode.Scalar)
        case anyCharacter
        case anyCharacters
    }

    private let elements: [Element]
    private let options: QueryComparison.Options

    /// Compiles a pattern.
    init(_ pattern: String, _ options: QueryComparison.Options) {
        self.options = options
        var elements: [Element] = []
        var literal = String.UnicodeScalarView()
        func endLiteral() {
            let folded = TextFolding.fold(String(literal), options)
            elements += folded.unicodeScalars.map { .character($0) }
            literal = String.UnicodeScalarView()
        }
        var isEscaped = false
        for scalar in pattern.unicodeScalars {
            if isEscaped {
                if !"?*\\".unicodeScalars.contains(scalar) { literal.append("\\") }
                literal.append(scalar)
                isEscaped = false
            } else if scalar == "\\" {
                isEscaped = true
            } else if scalar == "?" {
                endLiteral()
                elements.append(.anyCharacter)
            } else if scalar == "*" {
                endLiteral()
                if elements.last != .anyCharacters { elements.append(.anyCharacters) }
            } else {
                literal.append(scalar)
            }
        }
        if isEscaped { literal.append("\\") }
        endLiteral()
        self.elements = elements
    }

    /// Whether the whole text matches the pattern.
    func matches(_ text: String) -> Bool {
        let text = Array(TextFolding.fold(text, options).unicodeScalars)
        var position = 0
        var element = 0
        // Backtrack point if the part after the last `*` does not match: one character further.
        var retry: (position: Int, element: Int)?
        while position < text.count {
            if element < elements.count, elements[element] == .anyCharacters {
                retry = (position, element + 1)
                element += 1
            } else if element < elements.count, fits(text[position], elements[element]) {
                position += 1
                element += 1
            } else if let (start, next) = retry {
                retry = (start + 1, next)
                position = start + 1
                element = next
            } else {
                return false
            }
        }
        return elements[element...].allSatisfy { $0 == .anyCharacters }
    }

    private func fits(_ character: Unicode.Scalar, _ element: Element) -> Bool {
        switch element {
        case .character(let own): own == character
        case .anyCharacter: true
        case .anyCharacters: false
        }
    }

    /// The equivalent simpler comparison, if there is one: without `?`, and `*` only at the ends.
    var simpler: (operator: QueryComparison.Operator, text: String)? {
        let startsOpen = elements.first == .anyCharacters
        let endsOpen = elements.count > 1 && elements.last == .anyCharacters
        var text = String.UnicodeScalarView()
        for element in elements.dropFirst(startsOpen ? 1 : 0).dropLast(endsOpen ? 1 : 0) {
            guard case .character(let scalar) = element else { return nil }
            text.append(scalar)
        }
        switch (startsOpen, endsOpen) {
        case (false, false): return (.equal, String(text))
        case (false, true): return (.beginsWith, String(text))
        case (true, false): return (.endsWith, String(text))
        case (true, true): return (.contains, String(text))
        }
    }
}
