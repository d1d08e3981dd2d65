import Crypto
import CryptoExtras
import Foundation
import QuireProtection
import Testing

/// That the primitives which stored data depends on give what their standards publish.
struct CryptographyVectorTests {
    // MARK: - RFC 3394, AES key wrap

    @Test func keyWrapIsThatOfRFC3394() throws {
        // 4.6: 256 bits of key data with a 256-bit key.
        let wrapping = SymmetricKey(
            data: bytes("000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F"))
        let key = bytes("00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F")
        let wrapped = bytes(
            "28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21")
        #expect(try AES.KeyWrap.wrap(SymmetricKey(data: key), using: wrapping) == wrapped)
        #expect(try data(AES.KeyWrap.unwrap(wrapped, using: wrapping)) == key)
        for index in wrapped.indices {
            var damaged = wrapped
            damaged[index] ^= 1
            #expect(throws: (any Error).self) { try AES.KeyWrap.unwrap(damaged, using: wrapping) }
        }
    }

    // MARK: - RFC 5869, HKDF-SHA256

    @Test(arguments: [
        HKDFVector(
            input: "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
            salt: "000102030405060708090a0b0c",
            info: "f0f1f2f3f4f5f6f7f8f9",
            output:
                "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
        ),
        HKDFVector(
            input: hex(0x00..<0x50), salt: hex(0x60..<0xB0), info: hex(0xB0..<0x100),
            output: "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c"
                + "59045a99cac7827271cb41c65e590e09da3275600c2f09b8367793a9aca3db71"
                + "cc30c58179ec3e87c14c01d5c1f3434f1d87"),
        HKDFVector(
            input: "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", salt: "", info: "",
            output:
                "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"
        ),
    ])
    func hkdfIsThatOfRFC5869(vector: HKDFVector) {
        let expected = bytes(vector.output)
        let derived = HKDF<SHA256>.deriveKey(
            inputKeyMaterial: SymmetricKey(data: bytes(vector.input)), salt: bytes(vector.salt),
            info: bytes(vector.info), outputByteCount: expected.count)
        #expect(data(derived) == expected)
    }

    struct HKDFVector {
        var input: String
        var salt: String
        var info: String
        var output: String
    }

    // MARK: - RFC 7748, X25519

    @Test(arguments: [
        // 5.2
        (
            "a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
            "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
            "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"
        ),
        (
            "4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
            "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
            "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"
        ),
        // 6.1, from each side
        (
            "77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a",
            "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f",
            "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
        ),
        (
            "5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb",
            "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a",
            "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
        ),
    ])
    func x25519IsThatOfRFC7748(secret: String, point: String, result: String) throws {
        let shared = try Curve25519.KeyAgreement.PrivateKey(rawRepresentation: bytes(secret))
            .sharedSecretFromKeyAgreement(with: .init(rawRepresentation: bytes(point)))
        #expect(shared.withUnsafeBytes { Data($0) } == bytes(result))
    }

    // MARK: - RFC 7914, scrypt

    @Test(arguments: [
        ScryptVector(
            password: "", salt: "", rounds: 16, blockSize: 1, parallelism: 1,
            output: "77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442"
                + "fcd0069ded0948f8326a753a0fc81f17e8d3e0fb2e0d3628cf35e20c38d18906"),
        ScryptVector(
            password: "password", salt: "NaCl", rounds: 1024, blockSize: 8, parallelism: 16,
            output: "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162"
                + "2eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640"),
        ScryptVector(
            password: "pleaseletmein", salt: "SodiumChloride", rounds: 16384, blockSize: 8,
            parallelism: 1,
            output: "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
                + "d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"),
    ])
    func scryptIsThatOfRFC7914(vector: ScryptVector) throws {
        let derived = try KDF.Scrypt.deriveKey(
            from: Data(vector.password.utf8), salt: Data(vector.salt.utf8), outputByteCount: 64,
            rounds: vector.rounds, blockSize: vector.blockSize, parallelism: vector.parallelism)
        #expect(data(derived) == bytes(vector.output))
    }

    struct ScryptVector {
        var password: String
        var salt: String
        var rounds: Int
        var blockSize: Int
        var parallelism: Int
        var output: String
    }

    // MARK: - AES-256-GCM

    /// Test cases 13 to 16 of *The Galois/Counter Mode of Operation*, which NIST took the mode from.
    static let gcmVectors = [
        GCMVector(
            key: String(repeating: "00", count: 32), nonce: String(repeating: "00", count: 12),
            plain: "", authenticated: "", sealed: "530f8afbc74536b9a963b4f1c4cb738b"),
        GCMVector(
            key: String(repeating: "00", count: 32), nonce: String(repeating: "00", count: 12),
            plain: String(repeating: "00", count: 16), authenticated: "",
            sealed: "cea7403d4d606b6e074ec5d3baf39d18" + "d0d1c8a799996bf0265b98b5d48ab919"),
        GCMVector(
            key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            nonce: "cafebabefacedbaddecaf888",
            plain: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
                + "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
            authenticated: "",
            sealed: "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
                + "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad"
                + "b094dac5d93471bdec1a502270e3cc6c"),
        GCMVector(
            key: "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            nonce: "cafebabefacedbaddecaf888",
            plain: "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
                + "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
            authenticated: "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            sealed: "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
                + "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
                + "76fc6ece0f4e1768cddf8853bb2d551b"),
    ]

    @Test(arguments: gcmVectors)
    func sealingIsAES256GCM(vector: GCMVector) throws {
        let key = SymmetricKey(data: bytes(vector.key))
        let plain = bytes(vector.plain)
        let sealed = bytes(vector.sealed)
        try withPointers(bytes(vector.nonce), bytes(vector.authenticated)) { nonce, authenticated in
            var buffer = Data(count: sealed.count)
            try buffer.withUnsafeMutableBytes { buffer in
                try plain.withUnsafeBytes { plain in
                    try AuthenticatedEncryption.seal(
                        plain, key: key, nonce: nonce, authenticating: authenticated, into: buffer)
                }
            }
            #expect(buffer == sealed)

            var opened = Data(count: plain.count)
            let isRight = try opened.withUnsafeMutableBytes { opened in
                try sealed.withUnsafeBytes { sealed in
                    try AuthenticatedEncryption.open(
                        sealed, key: key, nonce: nonce, authenticating: authenticated, into: opened)
                }
            }
            #expect(isRight)
            #expect(opened == plain)
        }
    }

    @Test func sealingAndOpeningWorkInPlace() throws {
        let vector = Self.gcmVectors[3]
        let key = SymmetricKey(data: bytes(vector.key))
        let plain = bytes(vector.plain)
        var buffer = plain + Data(count: 16)
        try withPointers(bytes(vector.nonce), bytes(vector.authenticated)) { nonce, authenticated in
            try buffer.withUnsafeMutableBytes { buffer in
                try AuthenticatedEncryption.seal(
                    UnsafeRawBufferPointer(rebasing: buffer[..<plain.count]), key: key,
                    nonce: nonce,
                    authenticating: authenticated, into: buffer)
            }
            #expect(buffer == bytes(vector.sealed))
            try buffer.withUnsafeMutableBytes { buffer in
                let isRight = try AuthenticatedEncryption.open(
                    UnsafeRawBufferPointer(buffer), key: key, nonce: nonce,
                    authenticating: authenticated,
                    into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<plain.count]))
                #expect(isRight)
            }
            #expect(buffer.prefix(plain.count) == plain)
        }
    }

    @Test func everyBitThatIsSealedOrAuthenticatedCounts() throws {
        let vector = Self.gcmVectors[3]
        let parts = [vector.key, vector.nonce, vector.authenticated, vector.sealed].map {
            bytes($0)
        }
        for (index, part) in parts.enumerated() {
            for bit in 0..<(part.count * 8) {
                var changed = parts
                changed[index][bit / 8] ^= 1 << (bit % 8)
                var opened = Data(repeating: 0x55, count: changed[3].count - 16)
                try withPointers(changed[1], changed[2]) { nonce, authenticated in
                    try opened.withUnsafeMutableBytes { opened in
                        try changed[3].withUnsafeBytes { sealed in
                            let isRight = try AuthenticatedEncryption.open(
                                sealed, key: SymmetricKey(data: changed[0]), nonce: nonce,
                                authenticating: authenticated, into: opened)
                            #expect(!isRight, "part \(index), bit \(bit)")
                        }
                    }
                }
                #expect(opened.allSatisfy { $0 == 0x55 })
            }
        }
    }

    struct GCMVector {
        var key: String
        var nonce: String
        var plain: String
        var authenticated: String
        var sealed: String
    }

    // MARK: -

    private func withPointers(
        _ first: Data, _ second: Data,
        _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) throws -> Void
    ) rethrows {
        try first.withUnsafeBytes { first in
            try second.withUnsafeBytes { second in try body(first, second) }
        }
    }

    private func data(_ key: SymmetricKey) -> Data { key.withUnsafeBytes { Data($0) } }

    private func bytes(_ hex: String) -> Data {
        let digits = Array(hex.utf8)
        return Data(
            stride(from: 0, to: digits.count, by: 2).map {
                UInt8(String(decoding: digits[$0...($0 + 1)], as: UTF8.self), radix: 16) ?? 0
            })
    }

    private static func hex(_ range: Range<Int>) -> String {
        range.map { String(format: "%02x", $0) }.joined()
    }
}
