import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

@Suite struct AllowedSignersTests {
    private let signer = TestSigner()

    private func principals(
        _ lines: String, identity: String? = nil, at date: Date = Date()
    ) throws -> String {
        let text = lines.replacing("KEY", with: signer.publicKeyText)
        return try AllowedSigners(Data(text.utf8), path: "list").principals(
            for: try #require(SSHPublicKey(signer.publicKey)), identity: identity, at: date,
            archive: "a.zip")
    }

    private func reason(_ lines: String, identity: String? = nil) -> String? {
        failure { _ = try principals(lines, identity: identity) }?.message
    }

    @Test func firstLineThatAcceptsTheKeyCounts() throws {
        let lines = "a namespaces=\"file\" KEY\nb,c KEY\nd KEY\n"
        #expect(try principals(lines) == "b,c")
        #expect(try principals(lines, identity: "d") == "d")
        #expect(try principals("\"b,c d\" KEY") == "b,c d")
    }

    @Test func refusalsSayWhy() throws {
        let key = signer.fingerprint
        let prefix = "“a.zip” is signed with the key \(key), which “list” does not "
        #expect(reason("") == prefix + "list.")
        #expect(
            reason("a ssh-ed25519 A\n\nb cert-authority KEY") == prefix
                + "list: line 3 is a certificate authority, and certificates are not supported; line 1 cannot be read."
        )
        #expect(
            reason("a KEY", identity: "b") == prefix
                + "accept: line 1 is for “a”, not for “b”.")
        #expect(
            reason("a namespaces=\"file\" KEY\nb valid-before=\"20010203\" KEY") == prefix
                + "accept: line 1 is for the namespaces “file”, not for “quire-archive”; line 2 was valid before 20010203 only."
        )
        #expect(
            reason("a valid-after=\"29990203Z\" KEY") == prefix
                + "accept: line 1 is valid after 29990203Z only.")
    }

    @Test func validityIsInclusive() throws {
        let start = Date(timeIntervalSince1970: 1_577_836_800)
        let lines = "a valid-after=\"20200101Z\",valid-before=\"20200101000001Z\" KEY"
        #expect(try principals(lines, at: start) == "a")
        #expect(try principals(lines, at: start + 1) == "a")
        for date in [start - 1, start + 2] {
            #expect(failure { _ = try principals(lines, at: date) }?.code == .untrustedSignature)
        }
    }

    @Test func randomListsNeverTrap() throws {
        let seed = SeededRandom.baseSeed
        var random = SeededRandom(seed: seed)
        let line = Array(
            "a,!b*?\t\"c d\" namespaces=\"x\\\"y\",valid-after=\"20200101Z\" \(signer.publicKeyText) e\n"
                .utf8)
        let key = try #require(SSHPublicKey(TestSigner().publicKey))
        for _ in 0..<2000 {
            var bytes = line + line
            for _ in 0..<Int.random(in: 1...10, using: &random) {
                let index = Int.random(in: 0..<bytes.count, using: &random)
                bytes[index] =
                    Bool.random(using: &random)
                    ? .random(in: 0...255, using: &random)
                    : line.randomElement(using: &random) ?? 0
            }
            let error = failure {
                _ = try AllowedSigners(Data(bytes), path: "list").principals(
                    for: key, identity: "a", at: Date(), archive: "a.zip")
            }
            #expect(error?.code == .untrustedSignature, "seed \(seed)")
        }
    }

    @Test func patternsTakeBoundedTime() {
        let text = [UInt8](repeating: UInt8(ascii: "a"), count: 200)
        let stars = Array(String(repeating: "*a", count: 100).utf8) + [UInt8(ascii: "b")]
        #expect(!PatternList.matches(text, stars))
        #expect(PatternList.matches(text, Array(String(repeating: "*a", count: 100).utf8)))
    }
}
