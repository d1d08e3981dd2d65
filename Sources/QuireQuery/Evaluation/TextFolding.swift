import Foundation

/// Makes texts equal that differ only in case or in diacritics. SQL calls it as `QUIRE_FOLD(text, options)`, so
/// that stores and memory agree.
///
/// - Case: every character by Unicode's simple case folding, so that ß and SS stay apart.
/// - Diacritics: canonical decomposition without the combining marks, then composed again. Marks that make
///   another letter of a letter in Indic and Japanese writing stay.
/// - `[l]`: canonically equivalent texts become the same by composition. `[n]` folds nothing.
package enum TextFolding {
    /// Folds a text.
    package static func fold(_ text: String, _ options: QueryComparison.Options) -> String {
        if options.isEmpty || options.contains(.normalized) { return text }
        var text = text
        var isASCII = true
        var hasUppercase = false
        text.withUTF8 { bytes in
            for byte in bytes {
                if byte >= 0x80 { isASCII = false }
                if byte &- 0x41 < 26 { hasUppercase = true }
            }
        }
        if isASCII {
            guard hasUppercase, options.contains(.caseInsensitive) else { return text }
            return foldASCII(text)
        }
        return foldUnicode(text, options)
    }

    private static func foldASCII(_ text: String) -> String {
        var text = text
        let count = text.utf8.count
        return text.withUTF8 { source in
            String(unsafeUninitializedCapacity: count) { target in
                for (index, byte) in source.enumerated() {
                    target.initializeElement(at: index, to: byte &- 0x41 < 26 ? byte | 0x20 : byte)
                }
                return count
            }
        }
    }

    // MARK: - Unicode

    /// Folds texts of Latin letters by table, others by the general rule.
    private static func foldUnicode(_ text: String, _ options: QueryComparison.Options) -> String {
        let table = latin[Int(options.rawValue & 3)]
        var result = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            guard scalar.value < latinEnd else { return foldSlowly(text, options) }
            result.append(table[Int(scalar.value)])
        }
        return String(result)
    }

    /// The first character that is no Latin letter: from here on, characters combine.
    private static let latinEnd: UInt32 = 0x300

    /// What each character below ``latinEnd`` becomes, by options. None of them combines with another, so a text
    /// of them folds character by character.
    private static let latin: [[Unicode.Scalar]] = (UInt8(0)..<4).map { bits in
        let options = QueryComparison.Options(rawValue: bits)
        return (0..<latinEnd).compactMap(Unicode.Scalar.init).map { scalar in
            let folded = foldSlowly(String(scalar), options).unicodeScalars
            return folded.count == 1 ? folded.first ?? scalar : scalar
        }
    }

    private static func foldSlowly(_ text: String, _ options: QueryComparison.Options) -> String {
        var result = String.UnicodeScalarView()
        let ignoresCase = options.contains(.caseInsensitive)
        let ignoresDiacritics = options.contains(.diacriticInsensitive)
        let source = ignoresDiacritics ? text.decomposedStringWithCanonicalMapping : text
        for scalar in source.unicodeScalars {
            if ignoresDiacritics, isDiacritic(scalar) { continue }
            result.append(ignoresCase ? foldCase(scalar) : scalar)
        }
        return ignoresDiacritics || options.contains(.localized)
            ? String(result).precomposedStringWithCanonicalMapping : String(result)
    }

    private static func isDiacritic(_ scalar: Unicode.Scalar) -> Bool {
        guard scalar.properties.generalCategory == .nonspacingMark else { return false }
        switch scalar.properties.canonicalCombiningClass.rawValue {
        // Not reordered; Han readings, nukta, kana voicing, virama: these are part of the letter.
        case 0, 6, 7, 8, 9: return false
        default: return true
        }
    }

    /// Simple case folding: the small letter of the capital, where both are single characters. So the final
    /// sigma is a sigma. The dotless i stays one, although its capital is I.
    private static func foldCase(_ scalar: Unicode.Scalar) -> Unicode.Scalar {
        if scalar == "ı" { return scalar }
        let upper = single(scalar.properties.uppercaseMapping) ?? scalar
        return single(upper.properties.lowercaseMapping) ?? scalar
    }

    private static func single(_ text: String) -> Unicode.Scalar? {
        let scalars = text.unicodeScalars
        guard let first = scalars.first, scalars.count == 1 else { return nil }
        return first
    }
}
