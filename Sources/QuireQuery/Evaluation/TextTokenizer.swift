import Foundation

/// Splits texts into words as SQLite's FTS5 does with its tokenizer `unicode61 remove_diacritics 2`, so that a
/// full-text search finds the same in memory as in a store.
///
/// Words are runs of letters, digits and private characters, as Unicode 6.1 has them; what that version does not
/// know counts as a letter. Case is folded character by character, and letters of ASCII lose their diacritics.
enum TextTokenizer {
    /// The words of a text in its order, folded, in UTF-8: they are compared byte by byte.
    static func words(of text: String) -> [[UInt8]] {
        var words: [[UInt8]] = []
        var word: [UInt8] = []
        func end() {
            if word.isEmpty { return }
            words.append(word)
            word.removeAll(keepingCapacity: true)
        }
        for scalar in text.unicodeScalars {
            if scalar.isASCII {
                let byte = UInt8(truncatingIfNeeded: scalar.value)
                switch byte {
                case 0x30...0x39, 0x61...0x7A: word.append(byte)
                case 0x41...0x5A: word.append(byte | 0x20)
                default: end()
                }
            } else if isLetter(scalar) {
                word.append(
                    contentsOf: UTF8.encode(fold(scalar)) ?? UTF8.encodedReplacementCharacter)
            } else if word.isEmpty || !isDiacritic(scalar) {
                end()
            }
        }
        end()
        return words
    }

    // MARK: - Characters

    /// Whether the character is part of words.
    private static func isLetter(_ scalar: Unicode.Scalar) -> Bool {
        guard isKnown(scalar) else { return true }
        switch scalar.value {
        // Marks that are letters now, and the other way round.
        case 0x19B0...0x19C0, 0x19C8, 0x19C9, 0x1CF2, 0x1CF3: return false
        case 0x1885, 0x1886: return true
        default: break
        }
        switch scalar.properties.generalCategory {
        case .uppercaseLetter, .lowercaseLetter, .titlecaseLetter, .modifierLetter, .otherLetter,
            .decimalNumber, .letterNumber, .otherNumber, .privateUse:
            return true
        // U+FFFE and U+FFFF are no characters; what else was unassigned once is.
        case .unassigned: return scalar.value < 0xFFFE || scalar.value > 0xFFFF
        default: return false
        }
    }

    /// Whether Unicode 6.1 knows the character.
    private static func isKnown(_ scalar: Unicode.Scalar) -> Bool {
        guard let age = scalar.properties.age else { return false }
        return age.major < 6 || (age.major == 6 && age.minor <= 1)
    }

    /// Whether the character, without being part of a word, does not end one: the marks that Latin letters have.
    private static func isDiacritic(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x300...0x304, 0x306...0x30C, 0x30F, 0x311, 0x31B, 0x323...0x328, 0x32D, 0x32E, 0x330,
            0x331:
            true
        default: false
        }
    }

    /// The small letter without diacritics.
    private static func fold(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        guard isKnown(scalar) else { return scalar }
        switch scalar.value {
        case 0x130: return "i"
        case 0x131: return scalar
        // A letter with two marks, one above the other.
        case 0x1E0, 0x1E1: return "ǡ"
        default: break
        }
        let upper = single(scalar.properties.uppercaseMapping) ?? scalar
        let lower = single(upper.properties.lowercaseMapping) ?? scalar
        guard isKnown(lower) else { return scalar }
        let parts = String(lower).decomposedStringWithCanonicalMapping.unicodeScalars
        if let first = parts.first, parts.count > 1, first.isASCII, first.properties.isAlphabetic {
            return first
        }
        return lower
    }

    private static func single(_ text: String) -> Unicode.Scalar? {
        let scalars = text.unicodeScalars
        guard let first = scalars.first, scalars.count == 1 else { return nil }
        return first
    }
}
