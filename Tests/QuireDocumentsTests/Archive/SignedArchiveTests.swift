import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

@Suite struct SignedArchiveTests {
    let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func write(_ data: Data, _ name: String) throws -> String {
        try data.write(to: URL(fileURLWithPath: folder.path(name)))
        return folder.path(name)
    }

    /// Verifies an archive whose signer must be in a list.
    @discardableResult
    private func verify(
        _ archive: HandmadeArchive, allowing signer: TestSigner?
    ) throws -> VerifiedArchive {
        let list = try signer.map {
            try write(Data("ada@example.org \($0.publicKeyText)\n".utf8), "allowed")
        }
        let inTar = try DocumentPackage.verify(
            archive: write(archive.tar, "a.tar"), allowedSigners: list)
        let inZip = try DocumentPackage.verify(
            archive: write(archive.zip(), "a.zip"), allowedSigners: list)
        #expect(inTar == inZip)
        return inZip
    }

    private func expectRefusal(
        _ archive: HandmadeArchive, allowing signer: TestSigner?, _ code: QuireError.Code,
        because reason: String, location: SourceLocation = #_sourceLocation
    ) {
        let error = failure { try verify(archive, allowing: signer) }
        #expect(error?.code == code, sourceLocation: location)
        #expect(
            error?.message.contains(reason) == true, "\(error?.message ?? "")",
            sourceLocation: location)
    }

    @Test(arguments: [false, true])
    func signedArchiveIsVerified(isHardware: Bool) throws {
        let signer = TestSigner(isHardware: isHardware)
        let archive = try HandmadeArchive.document.signed(by: signer)
        var expected = VerifiedArchive(
            files: 2, bytes: 3003,
            signer: ArchiveSigner(
                keyType: isHardware ? "sk-ssh-ed25519@openssh.com" : "ssh-ed25519",
                fingerprint: signer.fingerprint))
        #expect(try verify(archive, allowing: nil) == expected)
        expected.signer?.principals = "ada@example.org"
        #expect(try verify(archive, allowing: signer) == expected)
        expected.signer = nil
        #expect(try verify(HandmadeArchive.document.withManifest(), allowing: nil) == expected)
    }

    @Test func onlyAllowedSignersAreAccepted() throws {
        let signer = TestSigner()
        expectRefusal(
            try HandmadeArchive.document.withManifest(), allowing: signer, .untrustedSignature,
            because: "is not signed")
        expectRefusal(
            try HandmadeArchive.document.signed(by: TestSigner()), allowing: signer,
            .untrustedSignature, because: "does not list")
        expectRefusal(
            try HandmadeArchive.document.signed(by: TestSigner(key: signer.key, namespace: "file")),
            allowing: signer, .invalidFormat, because: "its namespace is “file”")
        let archive = try write(HandmadeArchive.document.signed(by: signer).tar, "a.tar")
        let missing = failure {
            _ = try DocumentPackage.verify(archive: archive, allowedSigners: folder.path("none"))
        }
        #expect(missing?.code == .notFound)
        let list = try write(Data("ada@example.org \(signer.publicKeyText)".utf8), "allowed")
        let other = failure {
            _ = try DocumentPackage.verify(
                archive: archive, allowedSigners: list, identity: "bob@example.org")
        }
        #expect(other?.code == .untrustedSignature)
        #expect(other?.message.contains("not for “bob@example.org”") == true)
    }

    @Test func changedArchivesAreRefused() throws {
        let signer = TestSigner()
        let signed = try HandmadeArchive.document.signed(by: signer)
        for allowing in [nil, signer] {
            func expect(
                _ reason: String, location: SourceLocation = #_sourceLocation,
                _ change: (inout HandmadeArchive) throws -> Void
            ) throws {
                var changed = signed
                try change(&changed)
                expectRefusal(
                    changed, allowing: allowing, .invalidFormat, because: reason,
                    location: location)
            }
            let signature = try #require(signed.entries.last)
            try expect("“AdditionalContent/1/a” does not match") {
                $0.entries[4].data = Data([1, 2, 4])
            }
            try expect("“AdditionalContent/1/a” is missing") { $0.entries.remove(at: 4) }
            try expect("does not list “AdditionalContent/1/b”") {
                $0.entries.insert(.init(path: "AdditionalContent/1/b"), at: 4)
            }
            // The manifest is changed with the file.
            try expect("was changed after it was signed: its signature does not match") {
                $0.entries.removeLast(2)
                $0.entries[4].data = Data([1, 2, 4])
                $0 = try $0.withManifest()
                $0.entries.append(signature)
            }
            try expect("its signature does not match") {
                $0.entries[5].data += Data(" ".utf8)
            }
            try expect("two signatures") { $0.entries.append(signature) }
            try expect("cannot be read") { $0.entries[6].data = Data() }
            try expect("larger than") { $0.entries[6].data = Data(count: 65_537) }
            try expect("but no manifest") { $0.entries.remove(at: 5) }
            try expect("cannot be verified: it has no manifest") {
                $0.entries.removeLast(2)
            }
            // What extraction would leave out.
            for entry in [
                HandmadeArchive.Entry(path: ".DS_Store"), .init(path: "__MACOSX/._a"),
                .init(path: "mimetype", data: Data("text/plain".utf8)),
                .init(path: "AdditionalContent/2", kind: .folder),
            ] {
                try expect("it also contains “\(entry.path)”") {
                    $0.entries.insert(entry, at: 0)
                }
            }
        }
        var beside = signed
        for index in beside.entries.indices {
            beside.entries[index].path = "a/N.quire/" + beside.entries[index].path
        }
        beside.entries.insert(.init(path: "a", kind: .folder), at: 0)
        beside.entries.insert(.init(path: "a/N.quire", kind: .folder), at: 0)
        beside.entries.insert(.init(path: "a/N.quire/META-INF", kind: .folder), at: 0)
        try verify(beside, allowing: signer)
        beside.entries.append(.init(path: "a/READ ME", data: Data([1])))
        expectRefusal(
            beside, allowing: signer, .invalidFormat, because: "it also contains “a/READ ME”")
    }

    @Test func flippedBytesNeverGiveAnotherResult() throws {
        let signer = TestSigner()
        let archive = try HandmadeArchive.document.signed(by: signer)
        let expected = try verify(archive, allowing: signer)
        let seed = SeededRandom.baseSeed
        var random = SeededRandom(seed: seed)
        for (name, data) in [("b.tar", archive.tar), ("b.zip", archive.zip())] {
            for _ in 0..<400 {
                var flipped = data
                let index = Int.random(in: 0..<data.count, using: &random)
                flipped[index] ^= .random(in: 1...255, using: &random)
                let path = try write(flipped, name)
                do {
                    let verified = try DocumentPackage.verify(
                        archive: path, allowedSigners: folder.path("allowed"))
                    // A date or a flag of no consequence may have been hit.
                    #expect(verified == expected, "seed \(seed), \(name), \(index)")
                } catch is QuireError {}
            }
        }
    }

    @Test func extractionAcceptsSignatureBesideManifestOnly() throws {
        let signed = try HandmadeArchive.document.signed(by: TestSigner())
        try ArchiveExtraction(
            archive: write(signed.tar, "a.tar"), destination: folder.path("copy")
        ).run()
        #expect(
            try FileSystem.names(in: folder.path("copy")).sorted()
                == ["AdditionalContent", "StoreContent"])
        var without = signed
        without.entries.remove(at: 5)
        let error = failure {
            try ArchiveExtraction(
                archive: write(without.tar, "b.tar"), destination: folder.path("copy2")
            ).run()
        }
        #expect(error?.code == .invalidFormat)
        #expect(error?.message.contains("the signature of a manifest, but no manifest") == true)
        #expect(!FileSystem.exists(folder.path("copy2")))
    }

    @Test func archiveInAPipeIsVerified() throws {
        let signer = TestSigner()
        let path = try write(HandmadeArchive.document.signed(by: signer).zip(), "a.zip")
        let file = try OpenFile.open(path, for: .reading)
        let verified = try DocumentPackage.verify(descriptor: file.descriptor, named: "input")
        #expect(verified.signer?.fingerprint == signer.fingerprint)
        let cut = try OpenFile.open(write(Data(count: 500), "cut"), for: .reading)
        let error = failure {
            _ = try DocumentPackage.verify(descriptor: cut.descriptor, named: "input")
        }
        #expect(error?.message.hasPrefix("“input” is not an archive") == true)
    }
}
