import Foundation
import QuireProtection
import QuireSystem
import QuireTestSupport
import Testing

@testable import QuireSync

/// Files that a folder carries encrypted, under encrypted names.
@Suite struct EncryptedTransportTests {
    private let folder: TemporaryFolder
    private let carrier: FolderTransport
    private let cipher: SyncCipher
    private let transport: EncryptedTransport

    init() throws {
        folder = try TemporaryFolder()
        carrier = try FolderTransport(folder: folder.path("shared"), creates: true)
        cipher = try Self.makeCipher()
        transport = EncryptedTransport(carrier: carrier, cipher: cipher)
    }

    private static func makeCipher() throws -> SyncCipher {
        SyncCipher(container: SyncIdentifier(), secret: try SecretMemory(randomCount: 32))
    }

    private func name(_ path: String) throws -> SyncFileName {
        try #require(SyncFileName(path))
    }

    private func code(_ body: () async throws -> some Any) async -> QuireError.Code? {
        do {
            _ = try await body()
            return nil
        } catch {
            return (error as? QuireError)?.code
        }
    }

    @Test func encryptedFoldersConform() async throws {
        let failures = await SyncTransportConformance.check(
            maximumNameLength: SyncCipher.maximumNameLength
        ) { [folder, cipher] place in
            let carrier = try FolderTransport(folder: folder.path(place.uuidString), creates: true)
            return EncryptedTransport(carrier: carrier, cipher: cipher)
        }
        #expect(failures == [])
    }

    // MARK: - Names

    @Test func aNameHasOneEncryptedFormInItsFolderOfItsDocument() throws {
        let file = try name("log/a.seg")
        let encrypted = try cipher.encryptedFile(file)
        #expect(try cipher.encryptedFile(file) == encrypted)
        #expect(SyncFileName(encrypted.path) == encrypted)
        #expect(encrypted.folder == (try cipher.encryptedFolder(name("log"))))
        #expect(
            try cipher.name(ofEncrypted: encrypted.lastPart, in: name("log")) == "a.seg")
        // A part that has no place of its own: the folder is at the top.
        #expect(try cipher.encryptedFile(name("a/b/c/d")).path.split(separator: "/").count == 2)

        let other = try Self.makeCipher()
        let sameKey = SyncCipher(container: SyncIdentifier(), secret: cipher.secret)
        for (cipher, folder) in [(cipher, "base"), (other, "log"), (sameKey, "log")] {
            let found = try cipher.encryptedFile(name("\(folder)/a.seg"))
            #expect(found.lastPart != encrypted.lastPart)
            #expect(found.folder != encrypted.folder)
            #expect(try cipher.name(ofEncrypted: encrypted.lastPart, in: name(folder)) == nil)
        }
    }

    @Test func namesThatAreNotOfTheFolderAreNotListed() async throws {
        let (log, base) = try (name("log"), name("base"))
        try await transport.create(name("log/a.seg"), Data())
        try await transport.create(name("base/b.snap"), Data())
        let other = EncryptedTransport(carrier: carrier, cipher: try Self.makeCipher())
        try await other.create(name("log/c.seg"), Data())
        let place = try cipher.encryptedFolder(log)
        let strange = try [
            "a.seg", "container.json", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            cipher.encryptedFile(name("base/b.snap")).lastPart,
            other.cipher.encryptedFile(name("log/c.seg")).lastPart,
        ]
        for name in strange { try await carrier.create(#require(place.entry(name)), Data()) }
        let own = try cipher.encryptedFile(name("log/a.seg")).lastPart
        let digits = "abcdefghijklmnopqrstuvwxyz234567"
        // Each change of one character, the last one's unused bits included.
        for index in own.indices {
            for digit in digits where digit != own[index] {
                var changed = own
                changed.replaceSubrange(index...index, with: [digit])
                #expect(try cipher.name(ofEncrypted: changed, in: log) == nil)
            }
        }
        #expect(try await transport.fileNames(in: log) == ["a.seg"])
        #expect(try await transport.fileNames(in: base) == ["b.snap"])
        #expect(try await other.fileNames(in: log) == ["c.seg"])
    }

    @Test func namesOfSegmentsAndSnapshotsAreShortEnough() throws {
        let name = SyncSegmentName(
            peer: SyncIdentifier(), sequence: 1 << 61 - 1,
            part: SyncSnapshotPart(index: 99_999, count: SyncSnapshotPart.maximumCount),
            encoded: [UInt8](repeating: 0, count: 32))
        let file = try #require(SyncSnapshotPart.folder.entry(name.fileName))
        #expect(try SyncFileName(cipher.encryptedFile(file).path) != nil)
        let longest = String(repeating: "x", count: SyncCipher.maximumNameLength)
        #expect(
            try cipher.encryptedFile(self.name(longest)).lastPart.count
                <= SyncFileName.maximumPartLength)
        let error = #expect(throws: QuireError.self) {
            try cipher.encryptedFile(self.name(longest + "x"))
        }
        #expect(error?.code == .invalidValue)
    }

    @Test func base32IsThatOfTheStandard() {
        // RFC 4648, 10.
        for (plain, encoded) in [
            "": "", "f": "my", "fo": "mzxq", "foo": "mzxw6", "foob": "mzxw6yq",
            "fooba": "mzxw6ytb", "foobar": "mzxw6ytboi",
        ] {
            #expect(Base32.encode(Array(plain.utf8)) == encoded)
            #expect(Base32.decode(encoded) == Array(plain.utf8))
        }
        // Unused bits, lengths and characters that no bytes give.
        for text in ["mz", "m", "mzx", "mzxw6y", "MY", "m1", "my=", "m y", "é"] {
            #expect(Base32.decode(text) == nil)
        }
    }

    // MARK: - Contents

    @Test func contentsThatWereChangedAreNotRead() async throws {
        let file = try name("log/a.seg")
        let contents = Data("It is a truth".utf8)
        let sealed = try cipher.seal(contents, as: file)
        #expect(sealed.count == contents.count + SyncCipher.overhead)
        #expect(try cipher.seal(contents, as: file) != sealed)
        #expect(try cipher.open(sealed, as: file, from: file) == contents)
        for bit in 0..<(8 * sealed.count) {
            var changed = sealed
            changed[bit / 8] ^= 1 << (bit % 8)
            let error = #expect(throws: QuireError.self) {
                try cipher.open(changed, as: file, from: file)
            }
            #expect(error?.code == (bit < 8 ? .unsupported : .invalidFormat))
        }
        for count in 0..<sealed.count {
            let error = #expect(throws: QuireError.self) {
                try cipher.open(sealed.prefix(count), as: file, from: file)
            }
            #expect(error?.code == .invalidFormat)
        }
        // A slice does not begin at 0.
        let slice = (Data([1, 2, 3]) + sealed)[3...]
        #expect(try cipher.open(slice, as: file, from: file) == contents)
    }

    @Test func aFileInThePlaceOfAnotherIsNotRead() async throws {
        let (first, second) = try (name("log/a.seg"), name("log/b.seg"))
        try await transport.create(first, Data("first".utf8))
        try await transport.create(second, Data("second".utf8))
        let places = try (cipher.encryptedFile(first), cipher.encryptedFile(second))
        let bytes = try #require(try await carrier.contents(of: places.0, maximumSize: 1000))
        try await carrier.remove(places.1)
        try await carrier.create(places.1, bytes)
        #expect(
            await code { try await transport.contents(of: second, maximumSize: 100) }
                == .invalidFormat)
        // Of another document with the same key, and of one with another key.
        for other in try [
            SyncCipher(container: SyncIdentifier(), secret: cipher.secret), Self.makeCipher(),
        ] {
            try await carrier.remove(places.1)
            try await carrier.create(places.1, other.seal(Data("other".utf8), as: second))
            #expect(
                await code { try await transport.contents(of: second, maximumSize: 100) }
                    == .invalidFormat)
        }
        #expect(
            try await transport.contents(of: first, maximumSize: 5) == Data("first".utf8))
        #expect(
            try await transport.contents(of: first, maximumSize: .max) == Data("first".utf8))
        #expect(
            await code { try await transport.contents(of: first, maximumSize: 4) }
                == .invalidFormat)
    }
}
