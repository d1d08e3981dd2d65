import Crypto
import Foundation
import QuireSystem
import Testing

@testable import QuireProtection

/// Published vectors, and what does not unwrap.
@Suite struct KeyWrappingTests {
    private static let keyEncryptionKey = SymmetricKey(data: Data(0..<32))

    /// RFC 3394, 4.3 and 4.6.
    @Test(arguments: [
        (
            "00112233445566778899AABBCCDDEEFF",
            "64E8C3F9CE0F5BA263E9777905818A2A93C8191E7D6E8AE7"
        ),
        (
            "00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F",
            "28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21"
        ),
    ]) func wrapsAndUnwrapsAsPublished(key: String, wrapped: String) throws {
        let secret = try SecretMemory(copying: Data(hex: key))
        #expect(
            try KeyWrapping.wrap(secret, by: Self.keyEncryptionKey) == Data(hex: wrapped))
        let unwrapped = try KeyWrapping.unwrap(Data(hex: wrapped), by: Self.keyEncryptionKey)
        #expect(unwrapped?.data == Data(hex: key))
    }

    @Test func oneChangedBitOfAWrappedKeyDoesNotUnwrap() throws {
        let wrapped = try KeyWrapping.wrap(
            SecretMemory(randomCount: 32), by: Self.keyEncryptionKey)
        for bit in 0..<(wrapped.count * 8) {
            var changed = wrapped
            changed[bit / 8] ^= 1 << (bit % 8)
            #expect(try KeyWrapping.unwrap(changed, by: Self.keyEncryptionKey) == nil)
        }
        #expect(try KeyWrapping.unwrap(wrapped.dropLast(8), by: Self.keyEncryptionKey) == nil)
        #expect(try KeyWrapping.unwrap(Data(), by: Self.keyEncryptionKey) == nil)
        #expect(try KeyWrapping.unwrap(Data(count: 400), by: Self.keyEncryptionKey) == nil)
    }

    @Test func agreedKeyUnwrapsForItsFileAndPairOnly() throws {
        let privateKey = try SecretMemory(randomCount: 32)
        let publicKey = try Curve25519.KeyAgreement.PrivateKey(
            rawRepresentation: privateKey.data
        ).publicKey.rawRepresentation
        let (secret, file) = (try SecretMemory(randomCount: 32), UUID())
        let wrapped = try KeyWrapping.wrap(secret, file: file, for: publicKey)
        #expect(
            try KeyWrapping.unwrap(wrapped, file: file, privateKey: privateKey)?.data
                == secret.data)
        #expect(try KeyWrapping.unwrap(wrapped, file: UUID(), privateKey: privateKey) == nil)
        let other = try SecretMemory(randomCount: 32)
        #expect(try KeyWrapping.unwrap(wrapped, file: file, privateKey: other) == nil)
        for byte in wrapped.indices {
            // The first bit of a coordinate is not part of it (RFC 7748, 5).
            var changed = wrapped
            changed[byte] ^= 1
            #expect(try KeyWrapping.unwrap(changed, file: file, privateKey: privateKey) == nil)
        }
    }

    /// RFC 5869, A.1.
    @Test func derivesAsPublished() {
        let key = KeyWrapping.derive(
            from: SymmetricKey(data: Data(repeating: 0x0B, count: 22)),
            salt: Data(0...0x0C), info: Data(0xF0...0xF9))
        #expect(
            key.withUnsafeBytes { Data($0) }
                == Data(hex: "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"))
    }

    /// RFC 7914, 12.
    @Test func scryptIsAsPublished() throws {
        let key = try ScryptCost(logarithmOfN: 10, r: 8, p: 16).derive(
            from: Array("password".utf8), salt: Data("NaCl".utf8), path: "")
        #expect(
            key.withUnsafeBytes { Data($0) }
                == Data(
                    hex: """
                        fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162
                        2eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640
                        """))
    }
}

@Suite struct RecoveryKeyTests {
    @Test func wordsAreReadAsTheyWereShown() throws {
        let key = try RecoveryKey()
        let words = key.words
        #expect(words.split(separator: "-").count == RecoveryKey.wordCount)
        #expect(try RecoveryKey(words: words).words == words)
        let typed = words.uppercased().replacingOccurrences(of: "-", with: " \n")
        #expect(try RecoveryKey(words: " \(typed). ").words == words)
    }

    /// The example of the proposal: 127.0.0.1.
    @Test func wordsAreProquints() throws {
        let key = Data([127, 0, 0, 1]) + Data(count: 28)
        let digest = Array(SHA256.hash(data: key).prefix(2))
        let number = Int(digest[0]) << 8 | Int(digest[1])
        let consonants = Array("bdfghjklmnprstvz")
        let vowels = Array("aiou")
        let check = String([
            consonants[number >> 12], vowels[number >> 10 & 3], consonants[number >> 6 & 15],
            vowels[number >> 4 & 3], consonants[number & 15],
        ])
        let words =
            (["lusab", "babad"] + Array(repeating: "babab", count: 14) + [check])
            .joined(separator: "-")
        let read = try RecoveryKey(words: words)
        #expect(read.secret.data == key)
        #expect(read.words == words)
    }

    @Test func typingErrorIsToldFromAWrongKey() throws {
        let words = try RecoveryKey().words.split(separator: "-").map(String.init)
        var missed = 0
        var random = TestRandom(state: 7)
        for _ in 0..<200 {
            var changed = words
            let place = Int.random(in: changed.indices, using: &random)
            var letters = Array(changed[place])
            let letter = letters.indices.randomElement(using: &random) ?? 0
            let replacement = "abcdefghijklmnopqrstuvwxyz".randomElement(using: &random) ?? "a"
            if letters[letter] == replacement { continue }
            letters[letter] = replacement
            changed[place] = String(letters)
            let found = code { _ = try RecoveryKey(words: changed.joined(separator: " ")) }
            if found == nil { missed += 1 } else { #expect(found == .invalidValue) }
        }
        #expect(missed == 0)
        for bad in ["", "lusab", words.dropLast().joined(separator: " ")] {
            #expect(code { _ = try RecoveryKey(words: bad) } == .invalidValue)
        }
        let swapped = [words[1], words[0]] + words[2...]
        #expect(
            code { _ = try RecoveryKey(words: swapped.joined(separator: "-")) } == .invalidValue)
    }
}
