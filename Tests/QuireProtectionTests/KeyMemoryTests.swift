import Crypto
import Foundation
import QuireProtection
import Testing

/// That keys do not stay in memory: neither in blocks that were freed, nor on the stack.
///
/// They read all of the process's memory that is writable and private, for the key and for each half of it, as what was
/// freed may be used again in part.
struct KeyMemoryTests {
    private let none = UnsafeRawBufferPointer(start: nil, count: 0)

    // Pages, and contents for which a buffer is as large as the object that holds the key schedule.
    @Test(arguments: [4064, 590, 576, 564, 560, 0])
    func keyOfPagesIsGoneOnceItIsRevoked(size: Int) throws {
        for isOpening in [false, true] {
            let (key, needles) = try newKey()
            try key.withKey { try sealPages(of: size, isOpening: isOpening, with: $0) }
            key.revoke()
            for needle in needles { #expect(try needle.placesInMemory() == []) }
        }
    }

    @Test func keyThatDoesNotOpenAPageIsGoneOnceItIsRevoked() throws {
        let (key, needles) = try newKey()
        try key.withKey { key in
            var opened = [UInt8](repeating: 0, count: 4064)
            let sealed = [UInt8](repeating: 9, count: 4080)
            let isRight = try open(sealed, key, [UInt8](repeating: 1, count: 12), into: &opened)
            #expect(!isRight)
        }
        key.revoke()
        for needle in needles { #expect(try needle.placesInMemory() == []) }
    }

    @Test func keysOfAFileAreFoundWhileTheyCanBeUsedAndGoneOnceTheyAreRevoked() throws {
        let (key, needles) = try newKey()
        let derived = try ["Quire sealed file header 1", "Quire sealed file chunks 1"].map {
            try key.withDerivedKey($0) { key in key.withUnsafeBytes { MaskedBytes(of: $0) } }
        }
        let contents = Data(repeating: 3, count: 100_000)
        let sealed = try SealedFileWriter.seal(
            contents, key: key,
            wrappedKey: WrappedFileKey(
                file: key.file, fileProtection: key.fileProtection, epoch: 1, bytes: Data(count: 40)
            ),
            path: "a")
        let opened = try SealedFileReader.open(sealed, path: "a") { _ in key }
        #expect(opened == contents)
        for needle in needles + derived {
            #expect(
                try !needle.placesInMemory().isEmpty,
                "The search does not find a key that is there.")
        }
        key.revoke()
        for needle in needles + derived + derived.flatMap({ [$0.half(0), $0.half(1)] }) {
            #expect(try needle.placesInMemory() == [])
        }
    }

    @Test func tracesOfKeysAreWiped() throws {
        let (key, needles) = try newKey()
        try key.withKey { key in
            try wipingTraces {
                let other = SymmetricKey(size: .bits256)
                _ = try AES.KeyWrap.unwrap(AES.KeyWrap.wrap(key, using: other), using: other)
                _ = try AES.KeyWrap.unwrap(AES.KeyWrap.wrap(other, using: key), using: key)
                _ = HMAC<SHA256>.authenticationCode(for: Data(count: 100), using: key)
                _ = HKDF<SHA256>.deriveKey(
                    inputKeyMaterial: key, salt: Data(count: 16), info: Data(count: 20),
                    outputByteCount: 32)
                let secret = try key.withUnsafeBytes {
                    try Curve25519.KeyAgreement.PrivateKey(rawRepresentation: $0)
                }
                _ = try secret.sharedSecretFromKeyAgreement(
                    with: Curve25519.KeyAgreement.PrivateKey().publicKey)
            }
        }
        key.revoke()
        for needle in needles { #expect(try needle.placesInMemory() == []) }
    }

    /// A new key, of which the test keeps no other reference, and what to look for.
    private func newKey() throws -> (FileKey, [MaskedBytes]) {
        let secret = try SecretMemory(randomCount: 32)
        let whole = secret.withUnsafeBytes { MaskedBytes(of: $0) }
        let key = FileKey(file: UUID(), fileProtection: .complete, secret: secret)
        return (key, [whole, whole.half(0), whole.half(1)])
    }

    private func sealPages(of size: Int, isOpening: Bool, with key: SymmetricKey) throws {
        let page = [UInt8](repeating: 7, count: size)
        for number: UInt8 in 0..<200 {
            let nonce = [UInt8](repeating: number, count: 12)
            var sealed = [UInt8](repeating: 0, count: size + AuthenticatedEncryption.tagByteCount)
            try seal(page, key, nonce, into: &sealed)
            guard isOpening else { continue }
            var opened = [UInt8](repeating: 0, count: size)
            #expect(try open(sealed, key, nonce, into: &opened))
            #expect(opened == page)
        }
    }

    private func seal(
        _ page: [UInt8], _ key: SymmetricKey, _ nonce: [UInt8], into sealed: inout [UInt8]
    ) throws {
        try page.withUnsafeBytes { page in
            try nonce.withUnsafeBytes { nonce in
                try sealed.withUnsafeMutableBytes { sealed in
                    try AuthenticatedEncryption.seal(
                        page, key: key, nonce: nonce, authenticating: none, into: sealed)
                }
            }
        }
    }

    private func open(
        _ sealed: [UInt8], _ key: SymmetricKey, _ nonce: [UInt8], into page: inout [UInt8]
    ) throws -> Bool {
        try sealed.withUnsafeBytes { sealed in
            try nonce.withUnsafeBytes { nonce in
                try page.withUnsafeMutableBytes { page in
                    try AuthenticatedEncryption.open(
                        sealed, key: key, nonce: nonce, authenticating: none, into: page)
                }
            }
        }
    }
}
