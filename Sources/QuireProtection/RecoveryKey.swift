import Crypto
import Foundation
import QuireSystem

/// A random 256-bit key written as words, to be kept on paper.
///
/// The words are proquints (D. S. Wilkerson, *A Proposal for Proquints*, 2009): five letters each, alternating consonants and
/// vowels, 16 bits a word, the most significant first. They can be read aloud in most languages and need no list. Sixteen
/// words are the key; the seventeenth is the first 16 bits of the SHA-256 of the key, which distinguishes a typing error from
/// the key of another keybag.
package struct RecoveryKey: Sendable {
    private static let consonants = Array("bdfghjklmnprstvz".utf8)
    private static let vowels = Array("aiou".utf8)
    private static let keyCount = 32
    /// The number of words.
    package static let wordCount = keyCount / 2 + 1

    let secret: SecretMemory

    /// A new key.
    package init() throws { secret = try SecretMemory(randomCount: Self.keyCount) }

    /// A key from its words, in small or capital letters, with anything between them that is no letter.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if they cannot be the words of any key: they were not typed as they
    ///   were given.
    package init(words text: String) throws {
        let words = Self.words(in: text.lowercased())
        guard words.count == Self.wordCount else {
            throw Self.typingError(
                "has \(words.count) word\(words.count == 1 ? "" : "s"), not \(Self.wordCount)")
        }
        var check: UInt16 = 0
        secret = try SecretMemory(count: Self.keyCount) { bytes in
            for (index, word) in words.enumerated() {
                // The words themselves are omitted: errors are logged.
                guard let value = Self.value(of: word.utf8) else {
                    throw Self.typingError(
                        "is not valid: word \(index + 1) is not in the word list")
                }
                if index == Self.wordCount - 1 {
                    check = value
                } else {
                    bytes[2 * index] = UInt8(value >> 8)
                    bytes[2 * index + 1] = UInt8(value & 0xFF)
                }
            }
        }
        guard check == Self.checksum(of: secret) else {
            throw Self.typingError("contains a wrong letter, or its words are in the wrong order")
        }
    }

    /// The number of words in a text, whatever they are.
    package static func wordCount(in text: String) -> Int { words(in: text).count }

    private static func words(in text: String) -> [Substring] { text.split { !$0.isLetter } }

    /// The words, with a hyphen between each and the next.
    package var words: String {
        secret.withUnsafeBytes { bytes in
            var values = (0..<Self.keyCount / 2).map {
                UInt16(bytes[2 * $0]) << 8 | UInt16(bytes[2 * $0 + 1])
            }
            values.append(Self.checksum(of: secret))
            return values.map(Self.word).joined(separator: "-")
        }
    }

    private static func checksum(of secret: SecretMemory) -> UInt16 {
        secret.withUnsafeBytes { bytes in
            var digest = SHA256.hash(data: bytes).makeIterator()
            return UInt16(digest.next() ?? 0) << 8 | UInt16(digest.next() ?? 0)
        }
    }

    private static func word(_ value: UInt16) -> String {
        func letter(_ letters: [UInt8], _ shift: Int) -> UInt8 {
            letters[Int(value >> shift) & (letters.count - 1)]
        }
        return String(
            decoding: [
                letter(consonants, 12), letter(vowels, 10), letter(consonants, 6),
                letter(vowels, 4), letter(consonants, 0),
            ], as: UTF8.self)
    }

    private static func value(of word: Substring.UTF8View) -> UInt16? {
        guard word.count == 5 else { return nil }
        var value: UInt16 = 0
        for (place, letter) in word.enumerated() {
            let letters = place % 2 == 0 ? consonants : vowels
            guard let index = letters.firstIndex(of: letter) else { return nil }
            value = value << (place % 2 == 0 ? 4 : 2) | UInt16(index)
        }
        return value
    }

    private static func typingError(_ what: String) -> QuireError {
        QuireError(
            .invalidValue,
            "The recovery key \(what); compare it with the \(wordCount) five-letter words that were shown when it was created."
        )
    }
}
