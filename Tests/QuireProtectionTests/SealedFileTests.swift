import Crypto
import Foundation
import QuireProtection
import QuireSystem
import Testing

/// What sealing a file and opening it gives, and that everything that is not what was sealed is an error that says so.
struct SealedFileTests {
    static let chunk = 65_536
    static let sealedChunk = 65_552
    static let headerSize = 144

    @Test(arguments: [0, 1, 65_535, 65_536, 65_537, 3 * 65_536, 200_001])
    func contentsComeBack(count: Int) throws {
        let file = try SealedFile(fileProtection: .complete)
        let contents = file.contents(count)
        let sealed = try file.seal(contents)
        #expect(Int64(sealed.count) == SealedFileWriter.sealedByteCount(of: Int64(count)))
        #expect(SealedFileHeader.isSealed(sealed))
        #expect(try file.open(sealed) == contents)
        #expect(try file.reader(of: sealed).count == Int64(count))
    }

    @Test func whatIsSealedDoesNotDependOnThePieces() throws {
        for count in [0, 1, 65_535, 65_536, 65_537, 3 * 65_536, 200_001] {
            let file = try SealedFile(fileProtection: .complete)
            let contents = file.contents(count)
            let expected = try file.seal(contents)
            for piece in [1, 7, 65_535, 65_536, 65_537, 131_073] where count / piece < 10_000 {
                #expect(try file.seal(contents, pieces: piece) == expected)
            }
        }
    }

    @Test(arguments: [
        FileProtection.complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication,
    ])
    func headerGivesTheWrappedKey(fileProtection: FileProtection) throws {
        let file = try SealedFile(fileProtection: fileProtection, epoch: 0x0102_0304)
        let header = try SealedFileHeader(parsing: try file.seal(Data()), path: "a")
        #expect(header.wrappedKey == file.wrappedKey)
        try header.verify(with: file.key)
    }

    @Test func readsAnywhere() throws {
        let file = try SealedFile(fileProtection: .complete)
        let contents = file.contents(200_001)
        let reader = try file.reader(of: try file.seal(contents))
        var random = SplitMix(seed: baseSeed)
        for _ in 0..<300 {
            let offset = Int.random(in: 0...contents.count + 10, using: &random)
            let count = [0, 1, 100, 65_536, 200_010].randomElement(using: &random) ?? 0
            let expected = contents.dropFirst(offset).prefix(count)
            #expect(try reader.read(count, at: Int64(offset)) == Data(expected))
        }
        #expect(try reader.read(10, at: .max) == Data())
    }

    @Test func oneReaderServesSeveralThreads() async throws {
        let file = try SealedFile(fileProtection: .complete)
        let contents = file.contents(200_001)
        let reader = try file.reader(of: try file.seal(contents))
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for task in 0..<4 {
                group.addTask {
                    try (0..<50).allSatisfy { index in
                        let offset = (index * 7919 + task * 50_021) % contents.count
                        return try reader.read(5000, at: Int64(offset))
                            == Data(contents.dropFirst(offset).prefix(5000))
                    }
                }
            }
            for try await isRight in group { #expect(isRight) }
        }
    }

    // MARK: - The format

    /// The digests of EncryptionFormat.md, which a Python program computed with `cryptography`, not with this library.
    @Test(arguments: [
        (0, KnownAnswers.empty), (65_536, KnownAnswers.oneChunk),
        (150_000, KnownAnswers.threeChunks),
    ])
    func formatIsPinned(count: Int, digest: String) throws {
        let file = try SealedFile(
            fileProtection: .completeUnlessOpen, epoch: 7,
            file: #require(UUID(uuidString: "00112233-4455-6677-8899-AABBCCDDEEFF")),
            secret: Data(0..<32), wrapped: Data((0..<72).map { 0x80 + $0 }))
        let contents = Data((0..<count).map { UInt8(truncatingIfNeeded: $0 * 31 + ($0 >> 8)) })
        let sealed = try file.seal(contents)
        #expect(SHA256.hash(data: sealed).hex == digest)
    }

    // MARK: - Damage

    @Test func flippedBitIsAnErrorAndNeverGarbage() throws {
        let file = try SealedFile(fileProtection: .complete)
        let contents = file.contents(150_000)
        let sealed = try file.seal(contents)
        var random = SplitMix(seed: baseSeed)
        for index in 0..<500 {
            // Half of them in the header and the ends of chunks, of which there are few.
            let bit =
                index % 2 == 0
                ? Int.random(in: 0..<sealed.count * 8, using: &random)
                : Int.random(in: 0..<Self.headerSize * 8, using: &random)
            var damaged = sealed
            damaged[bit / 8] ^= 1 << (bit % 8)
            expectInvalid("bit \(bit), seed \(baseSeed)") { try file.open(damaged) }
        }
    }

    @Test func everyByteOfTheHeaderCounts() throws {
        let file = try SealedFile(fileProtection: .completeUnlessOpen)
        let sealed = try file.seal(file.contents(10))
        for offset in 0..<Self.headerSize {
            for change: UInt8 in [1, 0x80, 0xFF] {
                var damaged = sealed
                damaged[offset] ^= change
                expectInvalid("byte \(offset)") { try file.open(damaged) }
            }
        }
    }

    @Test func cutFileIsFoundWhenItIsOpened() throws {
        let file = try SealedFile(fileProtection: .complete)
        for count in [0, 1, 65_536, 3 * 65_536, 150_000] {
            let sealed = try file.seal(file.contents(count))
            var lengths = [
                0, 1, 7, 8, 143, 144, 145, 159, 160, sealed.count - 1, sealed.count - 16,
            ]
            for border in stride(from: Self.headerSize, to: sealed.count, by: Self.sealedChunk) {
                lengths += [
                    border, border + 1, border + 15, border + 16, border + 17, border + 500,
                ]
            }
            for length in lengths where length >= 0 && length < sealed.count {
                expectInvalid("\(count) cut to \(length)") {
                    try file.reader(of: sealed.prefix(length))
                }
            }
        }
    }

    @Test func fileThatIsNotFinishedDoesNotOpen() throws {
        let file = try SealedFile(fileProtection: .complete)
        for count in [0, 10, 65_536, 65_537, 131_073] {
            var sealed = Data()
            let writer = try SealedFileWriter(key: file.key, wrappedKey: file.wrappedKey, path: "a")
            {
                sealed.append(contentsOf: $0)
            }
            try file.contents(count).withUnsafeBytes { try writer.append($0) }
            expectInvalid("\(count)") { try file.reader(of: sealed) }
        }
    }

    @Test func chunksHaveTheirPlaces() throws {
        let file = try SealedFile(fileProtection: .complete)
        let other = try SealedFile(fileProtection: .complete)
        for count in [3 * Self.chunk, 3 * Self.chunk - 5000] {
            let sealed = try file.seal(file.contents(count))
            let foreign = try other.seal(file.contents(count))
            let header = Data(sealed.prefix(Self.headerSize))
            let chunks = Self.chunks(of: sealed)
            let foreignChunks = Self.chunks(of: foreign)
            #expect(try file.open(Data(([header] + chunks).joined())).count == count)
            let damaged: [(String, [Data])] = [
                ("swapped", [header, chunks[1], chunks[0], chunks[2]]),
                ("last one in front", [header, chunks[2], chunks[0], chunks[1]]),
                ("doubled", [header, chunks[0], chunks[0], chunks[1], chunks[2]]),
                ("last one doubled", [header, chunks[0], chunks[1], chunks[2], chunks[2]]),
                ("first one missing", [header, chunks[1], chunks[2]]),
                ("one missing", [header, chunks[0], chunks[2]]),
                ("last one missing", [header, chunks[0], chunks[1]]),
                ("only the last one", [header, chunks[2]]),
                ("of another file", [header, chunks[0], foreignChunks[1], chunks[2]]),
                ("last one of another file", [header, chunks[0], chunks[1], foreignChunks[2]]),
                ("with the header of another", [Data(foreign.prefix(Self.headerSize))] + chunks),
                ("with a byte more", [sealed, Data([0])]),
                ("with 16 bytes more", [sealed, Data(count: 16)]),
                ("with another file behind it", [sealed, sealed]),
            ]
            for (what, parts) in damaged {
                expectInvalid("\(count): \(what)") { try file.open(Data(parts.joined())) }
            }
        }
    }

    @Test func emptyLastChunkIsNotAccepted() throws {
        // What a writer that sealed a full chunk too early would make: the tags are right, the format is not.
        let file = try SealedFile(fileProtection: .complete)
        let full = try file.seal(file.contents(Self.chunk + 1)).prefix(
            Self.headerSize + Self.sealedChunk)
        let none = UnsafeRawBufferPointer(start: nil, count: 0)
        var empty = Data(count: 16)
        try file.key.withDerivedKey("Quire sealed file chunks 1") { key in
            try Data([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]).withUnsafeBytes { nonce in
                try empty.withUnsafeMutableBytes { sealed in
                    try AuthenticatedEncryption.seal(
                        none, key: key, nonce: nonce, authenticating: none, into: sealed)
                }
            }
        }
        expectInvalid("empty last chunk") { try file.open(full + empty) }
    }

    @Test func readsWhatIsWholeAndSaysWhichChunkIsNot() throws {
        let file = try SealedFile(fileProtection: .complete)
        let contents = file.contents(3 * Self.chunk)
        var sealed = try file.seal(contents)
        sealed[Self.headerSize + Self.sealedChunk + 99] ^= 4
        let reader = try file.reader(of: sealed)
        #expect(try reader.read(100, at: 0) == contents.prefix(100))
        #expect(try reader.read(100, at: 131_072) == Data(contents[131_072..<131_172]))
        for (count, offset) in [(1, 65_536), (200, 65_500), (65_536, 65_536), (196_608, 0)] {
            let error = #expect(throws: QuireError.self) {
                try reader.read(count, at: Int64(offset))
            }
            #expect(
                error?.message
                    == "“a/b” is damaged: chunk 2 of 3 was changed; restore it from a backup.")
        }
    }

    // MARK: - Keys

    @Test func anotherKeyDoesNotOpenIt() throws {
        let file = try SealedFile(fileProtection: .complete)
        let sealed = try file.seal(file.contents(100))
        let other = FileKey(
            file: file.key.file, fileProtection: .complete,
            secret: try SecretMemory(randomCount: 32))
        let sentence =
            "“a/b” was not encrypted with this document's keys, or its header is damaged; restore it from a backup."
        let errors = [
            #expect(throws: QuireError.self) {
                try SealedFileReader.open(sealed, path: "a/b") { _ in other }
            },
            #expect(throws: QuireError.self) {
                try SealedFileReader.open(sealed, path: "a/b") { _ in
                    throw QuireError(.wrongKey, "The key does not unwrap.")
                }
            },
            #expect(throws: QuireError.self) {
                try SealedFileReader.open(sealed, path: "a/b") { _ in
                    throw CryptoKitError.authenticationFailure
                }
            },
        ]
        for error in errors {
            #expect(error?.code == .invalidFormat)
            #expect(error?.message == sentence)
            #expect(error?.subject.file == "a/b")
        }
    }

    @Test func fileThatIsNotSealedSaysSo() throws {
        let file = try SealedFile(fileProtection: .complete)
        for bytes in [
            Data(), Data([1]), Data("QUIRSEA".utf8), Data("SQLite format 3".utf8), Data(count: 500),
        ] {
            #expect(!SealedFileHeader.isSealed(bytes))
            let error = #expect(throws: QuireError.self) { try file.open(bytes) }
            #expect(error?.code == .invalidFormat)
            #expect(error?.message.contains("is not an encrypted file") == true)
        }
        var newer = try file.seal(Data())
        newer[9] = 2
        let error = #expect(throws: QuireError.self) { try file.open(newer) }
        #expect(
            error?.message.contains("format 2, but this version of Quire reads format 1") == true)
    }

    @Test func revokedKeyStopsReadingAndWriting() throws {
        let file = try SealedFile(fileProtection: .complete)
        let sealed = try file.seal(file.contents(150_000))
        let reader = try file.reader(of: sealed)
        _ = try reader.read(10, at: 0)
        let writer = try SealedFileWriter(key: file.key, wrappedKey: file.wrappedKey, path: "a/b") {
            _ in
        }
        file.key.revoke()
        let errors = [
            // In the chunk that is kept, in another one, and all of one.
            #expect(throws: QuireError.self) { try reader.read(10, at: 0) },
            #expect(throws: QuireError.self) { try reader.read(10, at: 70_000) },
            #expect(throws: QuireError.self) { try reader.read(65_536, at: 65_536) },
            #expect(throws: QuireError.self) { try file.reader(of: sealed) },
            #expect(throws: QuireError.self) { try file.seal(Data()) },
            #expect(throws: QuireError.self) { try writer.finish() },
        ]
        for error in errors {
            #expect(error?.code == .protectedDataUnavailable)
            #expect(error?.subject.file == "a/b")
        }
        #expect(throws: QuireError.self) { try writer.finish() }
    }

    @Test func writerThatFailedStaysFailed() throws {
        struct Full: Error {}
        let file = try SealedFile(fileProtection: .complete)
        var calls = 0
        let writer = try SealedFileWriter(key: file.key, wrappedKey: file.wrappedKey, path: "a/b") {
            _ in
            calls += 1
            if calls == 2 { throw Full() }
        }
        let contents = file.contents(70_000)
        #expect(throws: Full.self) { try contents.withUnsafeBytes { try writer.append($0) } }
        let error = #expect(throws: QuireError.self) { try writer.finish() }
        #expect(error?.code == .invalidState)
        #expect(calls == 2)

        let finished = try SealedFileWriter(key: file.key, wrappedKey: file.wrappedKey, path: "a/b")
        {
            _ in
        }
        try finished.finish()
        #expect(throws: QuireError.self) {
            try contents.withUnsafeBytes { try finished.append($0) }
        }
    }

    @Test func fileThatShrinksWhileItIsReadIsAnError() throws {
        let file = try SealedFile(fileProtection: .complete)
        let sealed = try file.seal(file.contents(150_000))
        let reader = try SealedFileReader(
            byteCount: Int64(sealed.count), path: "a/b",
            readBytes: { buffer, offset in
                // All but the header and the last chunk is shorter than it was.
                let end = offset == Self.headerSize ? Self.headerSize + 500 : sealed.count
                let part = sealed[Int(offset)..<min(end, Int(offset) + buffer.count)]
                part.withUnsafeBytes { buffer.copyMemory(from: $0) }
                return part.count
            }, unwrap: { _ in file.key })
        let error = #expect(throws: QuireError.self) { try reader.read(1, at: 0) }
        #expect(
            error?.message
                == "“a/b” is damaged: it ends inside chunk 1 of 3; restore it from a backup.")
    }

    // MARK: -

    private static func chunks(of sealed: Data) -> [Data] {
        stride(from: headerSize, to: sealed.count, by: sealedChunk).map {
            Data(sealed[$0..<min(sealed.count, $0 + sealedChunk)])
        }
    }

    private func expectInvalid(
        _ what: String, _ body: () throws -> some Any,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let error = #expect(throws: QuireError.self, "\(what)", sourceLocation: sourceLocation) {
            _ = try body()
        }
        #expect(error?.code == .invalidFormat, "\(what)", sourceLocation: sourceLocation)
        #expect(error?.subject.file == "a/b", "\(what)", sourceLocation: sourceLocation)
        #expect(
            error?.message.contains("backup") == true, "\(what)", sourceLocation: sourceLocation)
    }
}

private let baseSeed = ProcessInfo.processInfo.environment["QUIRE_SEED"].flatMap { UInt64($0) } ?? 1

private enum KnownAnswers {
    static let empty = "a40871b597e5c3ca0ad01630ae4935ec4508fd1ab16feb958968775cf4a6f35a"
    static let oneChunk = "d29d26505a4984290a9d52d016bf053a5446f2b388126580386b995cc78d2bc7"
    static let threeChunks = "2b6f6d59bfb38da6d1d56a080631ecd1418768129d63b46feb051ac1344fe4a0"
}

/// A key, as a keybag would make and wrap it, and what is done with it.
private struct SealedFile {
    let key: FileKey
    let wrappedKey: WrappedFileKey

    init(
        fileProtection: FileProtection, epoch: UInt32 = 1, file: UUID = UUID(),
        secret: Data? = nil, wrapped: Data? = nil
    ) throws {
        key = FileKey(
            file: file, fileProtection: fileProtection,
            secret: try secret.map { try SecretMemory(copying: $0) }
                ?? SecretMemory(randomCount: 32))
        let count = fileProtection == .completeUnlessOpen ? 72 : 40
        wrappedKey = WrappedFileKey(
            file: file, fileProtection: fileProtection, epoch: epoch,
            bytes: wrapped ?? Data((0..<count).map { _ in UInt8.random(in: 1...255) }))
    }

    func contents(_ count: Int) -> Data {
        var random = SplitMix(seed: UInt64(count))
        var bytes = Data(capacity: count + 8)
        while bytes.count < count {
            withUnsafeBytes(of: random.next()) { bytes.append(contentsOf: $0) }
        }
        return bytes.prefix(count)
    }

    func seal(_ contents: Data) throws -> Data {
        try SealedFileWriter.seal(contents, key: key, wrappedKey: wrappedKey, path: "a/b")
    }

    func seal(_ contents: Data, pieces: Int) throws -> Data {
        var sealed = Data()
        let writer = try SealedFileWriter(key: key, wrappedKey: wrappedKey, path: "a/b") {
            sealed.append(contentsOf: $0)
        }
        for offset in stride(from: 0, to: contents.count, by: pieces) {
            try contents.dropFirst(offset).prefix(pieces).withUnsafeBytes { try writer.append($0) }
        }
        try writer.finish()
        return sealed
    }

    func open(_ sealed: Data) throws -> Data {
        try SealedFileReader.open(sealed, path: "a/b") { _ in key }
    }

    func reader(of sealed: Data) throws -> SealedFileReader {
        try SealedFileReader(
            byteCount: Int64(sealed.count), path: "a/b",
            readBytes: { buffer, offset in
                let part = sealed.dropFirst(Int(offset)).prefix(buffer.count)
                part.withUnsafeBytes { buffer.copyMemory(from: $0) }
                return part.count
            }, unwrap: { _ in key })
    }
}

/// As `SeededRandom` of QuireTestSupport, which stands on more than what is tested here.
private struct SplitMix: RandomNumberGenerator {
    private var state: UInt64
    init(seed: UInt64) { state = seed }
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

extension Digest {
    fileprivate var hex: String { map { String(format: "%02x", $0) }.joined() }
}
