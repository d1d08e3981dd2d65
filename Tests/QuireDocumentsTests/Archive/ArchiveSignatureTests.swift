import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

@Suite struct ArchiveSignatureTests {
    private static let message = Data("{}\n".utf8)

    /// Made by ssh-keygen of OpenSSH 9.2.
    private static let armored = """
        -----BEGIN SSH SIGNATURE-----
        U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgubXOgjMEOrQdl6TrlLexeCjbyc
        /xvMCo0ZNTbPv3LsgAAAANcXVpcmUtYXJjaGl2ZQAAAAAAAAAGc2hhNTEyAAAAUwAAAAtz
        c2gtZWQyNTUxOQAAAEDdtukAtdkynanpuBF9EF9dY2gIjAyaReyiTLGQ7FbuH/Vl6PlPdH
        2ET89qkqQE99EECdKdxlqrgX8adU3xMmoK
        -----END SSH SIGNATURE-----

        """
    private static let publicKey =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILm1zoIzBDq0HZek65S3sXgo28nP8bzAqNGTU2z79y7I"
    private static let fingerprint = "SHA256:XGSQ6WJqMqxCoDuXTOpn7wl0NyVepmRBCGuJ8PcfnKU"

    private func verify(_ armored: Data, of message: Data = message) throws {
        try ArchiveSignature(armored: armored, archive: "a.zip").verify(.init(message))
    }

    private static var blob: Data {
        get throws {
            let lines = armored.split(separator: "\n").dropFirst().dropLast()
            return try #require(Data(base64Encoded: lines.joined()))
        }
    }

    @Test func signatureOfOpenSSHIsRight() throws {
        let signature = try ArchiveSignature(armored: Data(Self.armored.utf8), archive: "a.zip")
        try signature.verify(.init(Self.message))
        #expect(signature.key.fingerprint == Self.fingerprint)
        #expect(signature.key.type == "ssh-ed25519")
        let allowed = AllowedSigners(Data("ada@example.org \(Self.publicKey) c".utf8), path: "list")
        let principals = try allowed.principals(
            for: signature.key, identity: nil, at: Date(), archive: "a.zip")
        #expect(principals == "ada@example.org")
        try verify(Data(Self.armored.replacing("\n", with: "\r\n").utf8))
        try verify(Data(Self.armored.dropLast().utf8))
    }

    @Test(arguments: [false, true], ["sha256", "sha512"])
    func signatureIsRightForItsMessageOnly(isHardware: Bool, hash: String) throws {
        let signer = TestSigner(isHardware: isHardware, hash: hash)
        let armored = try signer.signature(of: Self.message)
        try verify(armored)
        for other in [Data(), Data("{}".utf8), Data("{} \n".utf8)] {
            let error = failure { try verify(armored, of: other) }
            #expect(error?.code == .invalidFormat)
            #expect(error?.message.contains("was changed after it was signed") == true)
        }
    }

    @Test(arguments: [false, true])
    func everyChangeOfTheSignatureIsRefused(isHardware: Bool) throws {
        let blob =
            isHardware
            ? try TestSigner(isHardware: true).blob(signing: Self.message) : try Self.blob
        try verify(TestSigner.armored(blob))
        for index in blob.indices {
            for change in [1, 0x80, 0xFF] as [UInt8] {
                var changed = blob
                changed[index] ^= change
                #expect(throws: QuireError.self, "\(change) at \(index)") {
                    try verify(TestSigner.armored(changed))
                }
            }
            #expect(throws: QuireError.self, "\(index) bytes") {
                try verify(TestSigner.armored(blob.prefix(index)))
            }
            // Lengths beyond all bounds among them.
            for number in [[0xFF, 0xFF, 0xFF, 0xFF], [0x7F, 0xFF, 0xFF, 0xFF], [0, 0, 0, 0]]
                as [[UInt8]]
            where index + 4 <= blob.count && Array(blob[index..<index + 4]) != number {
                var changed = blob
                changed.replaceSubrange(index..<index + 4, with: number)
                #expect(throws: QuireError.self) { try verify(TestSigner.armored(changed)) }
            }
        }
        #expect(throws: QuireError.self) { try verify(TestSigner.armored(blob + [0])) }
    }

    @Test func everyChangeOfTheArmourIsRefused() throws {
        let armored = Data(Self.armored.utf8)
        // The last byte is a line end, which may be missing.
        for index in armored.indices.dropLast() {
            var changed = armored
            changed[index] ^= 1
            #expect(throws: QuireError.self, "at \(index)") { try verify(changed) }
            #expect(throws: QuireError.self) { try verify(armored.prefix(index)) }
        }
        for data in [
            Data(), Data("\n".utf8), armored + armored, armored + Data("x".utf8),
            Data(" ".utf8) + armored, armored + Data(count: 64 << 10),
            Data("-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----".utf8),
            // Equal bytes to lenient decoders: bits without meaning, and a character that is not base64.
            Data(Self.armored.replacing("MmoK", with: "MmoK ").utf8),
        ] {
            #expect(failure { try verify(data) }?.code == .invalidFormat)
        }
    }

    @Test func randomBytesNeverTrap() throws {
        let seed = SeededRandom.baseSeed
        var random = SeededRandom(seed: seed)
        let blob = try Self.blob
        for _ in 0..<2000 {
            var changed = blob
            for _ in 0..<Int.random(in: 1...8, using: &random) {
                let index = Int.random(in: 0..<blob.count, using: &random)
                changed[index] = .random(in: 0...255, using: &random)
            }
            changed = changed.prefix(Int.random(in: 0...blob.count, using: &random))
            if changed == blob { continue }
            #expect(throws: QuireError.self, "seed \(seed)") {
                try verify(TestSigner.armored(changed))
            }
        }
    }

    @Test func signaturesForOtherPurposesAreRefused() throws {
        for namespace in ["file", "git", "quire-archive2", "quire-archiv", "Quire-archive"] {
            let armored = try TestSigner(namespace: namespace).signature(of: Self.message)
            let error = failure { try verify(armored) }
            #expect(error?.code == .invalidFormat)
            #expect(error?.message.contains("its namespace is “\(namespace)”") == true)
        }
    }

    @Test func unsupportedSignaturesNameTheProgramThatChecksThem() throws {
        for type in ["ssh-rsa", "ecdsa-sha2-nistp256", "ssh-ed25519-cert-v01@openssh.com"] {
            let armored = try TestSigner(type: type).signature(of: Self.message)
            let error = failure { try verify(armored) }
            #expect(error?.code == .unsupported)
            #expect(error?.message.contains("a key of type \(type)") == true)
            #expect(error?.message.contains("ssh-keygen -Y verify") == true)
        }
        let later = try TestSigner(version: 2).signature(of: Self.message)
        #expect(failure { try verify(later) }?.code == .unsupported)
        let old = try TestSigner(version: 0).signature(of: Self.message)
        #expect(failure { try verify(old) }?.code == .invalidFormat)
        let hash = try TestSigner(hash: "md5").signature(of: Self.message)
        #expect(failure { try verify(hash) }?.code == .unsupported)
    }
}
