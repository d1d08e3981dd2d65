public import Foundation
import QuireSystem

/// The requirements of every ``SyncTransport``, as checks that authors can run against their own transports.
///
/// ```swift
/// let failures = await SyncTransportConformance.check { place in
///     try FolderTransport(folder: "/tmp/\(place)", creates: true)
/// }
/// ```
public enum SyncTransportConformance {
    /// Opens a transport over a place, which is empty at first. Called again for the same place, it opens another transport over
    /// the existing files.
    public typealias Open = @Sendable (_ place: UUID) async throws -> any SyncTransport

    /// Runs all checks, each in a separate place.
    ///
    /// - Parameters:
    ///   - patience: The longest time until one transport sees files that another over the same place has created or removed.
    ///   - open: Opens transports.
    /// - Returns: The failures, as sentences that begin with the requirement; empty if the transport conforms.
    /// - Complexity: About a second, and 4 MiB of memory, on a local disk.
    public static func check(patience: Duration = .zero, _ open: @escaping Open) async -> [String] {
        await check(
            patience: patience, maximumNameLength: SyncFileName.maximumPartLength, open)
    }

    /// Runs all checks of a transport whose files have shorter names than its folders may have.
    ///
    /// - Parameter maximumNameLength: The greatest number of characters of a file's last part.
    static func check(
        patience: Duration = .zero, maximumNameLength: Int, _ open: @escaping Open
    ) async -> [String] {
        var failures: [String] = []
        for check in TransportCheck.all {
            let scene = TransportScene(
                open: open, patience: patience, maximumNameLength: maximumNameLength)
            do {
                try await check.body(scene)
            } catch {
                scene.fail("The check threw an error: \(error)")
            }
            failures += scene.failures.map { "\(check.name): \($0)" }
        }
        return failures
    }
}

/// A check.
private struct TransportCheck: Sendable {
    /// The fact.
    let name: String
    let body: @Sendable (TransportScene) async throws -> Void

    init(_ name: String, _ body: @escaping @Sendable (TransportScene) async throws -> Void) {
        self.name = name
        self.body = body
    }

    static let all = files + names + several
}

/// A place, and what does not hold there.
private final class TransportScene: Sendable {
    private let place = UUID()
    private let open: SyncTransportConformance.Open
    private let patience: Duration
    /// The greatest number of characters of a file's last part.
    let maximumNameLength: Int
    private let found = Lock<[String]>([])

    init(
        open: @escaping SyncTransportConformance.Open, patience: Duration, maximumNameLength: Int
    ) {
        self.open = open
        self.patience = patience
        self.maximumNameLength = maximumNameLength
    }

    var failures: [String] { found.withLock { $0 } }

    func fail(_ sentence: String) { found.withLock { $0.append(sentence) } }

    func expect(_ holds: Bool, _ sentence: String) {
        if !holds { fail(sentence) }
    }

    func expect<Value: Equatable>(_ value: Value, is expected: Value, _ what: String) {
        if value != expected { fail("\(what): \(value) instead of \(expected).") }
    }

    func transport() async throws -> any SyncTransport { try await open(place) }

    func name(_ path: String) throws -> SyncFileName {
        if let name = SyncFileName(path) { return name }
        throw QuireError(.invalidValue, "“\(path)” is not a file name.")
    }

    func listing(_ transport: any SyncTransport, _ folder: SyncFileName) async throws -> [String] {
        try await transport.fileNames(in: folder).sorted()
    }

    /// Waits as long as changes may need from one transport to another.
    func eventually(
        _ sentence: String, _ holds: () async throws -> Bool
    ) async throws {
        let clock = ContinuousClock()
        let end = clock.now + patience
        while try await !holds() {
            if clock.now >= end { return fail(sentence) }
            try await clock.sleep(for: .milliseconds(20))
        }
    }
}

// MARK: - Files

extension TransportCheck {
    private static let files = [
        TransportCheck("a created file exists and is complete") { scene in
            let transport = try await scene.transport()
            let file = try scene.name("log/a.seg")
            let bytes = Data((0..<1000).map { UInt8(truncatingIfNeeded: $0) })
            scene.expect(try await transport.create(file, bytes), "It was not created.")
            let read = try await transport.contents(of: file, maximumSize: 1 << 20)
            scene.expect(read, is: bytes, "Its bytes")
            // A slice does not begin at 0.
            let slice = try scene.name("log/b.seg")
            scene.expect(try await transport.create(slice, bytes[300..<400]), "Not created.")
            scene.expect(
                try await transport.contents(of: slice, maximumSize: 1 << 20),
                is: Data(bytes[300..<400]), "The bytes of the file created from a slice")
        },
        TransportCheck("empty and large files are complete") { scene in
            let transport = try await scene.transport()
            let (empty, large) = try (scene.name("empty"), scene.name("large"))
            scene.expect(try await transport.create(empty, Data()), "It was not created.")
            scene.expect(
                try await transport.contents(of: empty, maximumSize: 0), is: Data(), "Empty")
            var bytes = Data(count: 4 << 20)
            for index in stride(from: 0, to: bytes.count, by: 4093) {
                bytes[index] = UInt8(truncatingIfNeeded: index / 4093)
            }
            scene.expect(try await transport.create(large, bytes), "It was not created.")
            let read = try await transport.contents(of: large, maximumSize: bytes.count)
            scene.expect(read == bytes, "A file of 4 MiB was read with different bytes.")
        },
        TransportCheck("an existing file is not created again") { scene in
            let transport = try await scene.transport()
            let file = try scene.name("log/a.seg")
            scene.expect(try await transport.create(file, Data("old".utf8)), "Not created.")
            for text in ["new", "old", ""] {
                scene.expect(
                    try await !transport.create(file, Data(text.utf8)), "It was created twice.")
                scene.expect(
                    try await transport.contents(of: file, maximumSize: 100),
                    is: Data("old".utf8), "Its bytes")
            }
            scene.expect(
                try await scene.listing(transport, scene.name("log")), is: ["a.seg"], "The names")
        },
        TransportCheck("a file that is larger than the maximum throws an error") { scene in
            let transport = try await scene.transport()
            let file = try scene.name("a.seg")
            try await transport.create(file, Data(count: 1000))
            scene.expect(
                try await transport.contents(of: file, maximumSize: 1000)?.count, is: 1000,
                "The size of a file of the maximum size")
            for maximum in [0, 999] {
                do {
                    _ = try await transport.contents(of: file, maximumSize: maximum)
                    scene.fail("1000 bytes were read although the maximum is \(maximum).")
                } catch let error as QuireError {
                    scene.expect(error.code, is: .invalidFormat, "The error's code")
                }
            }
        },
        TransportCheck("a missing file is nil, and a missing folder has no names") { scene in
            let transport = try await scene.transport()
            for path in ["a", "log/a", "log/peer/a", "a/b/c/d"] {
                let name = try scene.name(path)
                scene.expect(
                    try await transport.contents(of: name, maximumSize: 100), is: nil, path)
                scene.expect(try await transport.fileNames(in: name), is: [], "Names in \(path)")
                try await transport.remove(name)
            }
            scene.expect(try await transport.fileNames(in: .top), is: [], "The names at the top")
        },
        TransportCheck("a removed file no longer exists, and its name can be used again") { scene in
            let transport = try await scene.transport()
            let (file, other) = try (scene.name("log/a.seg"), scene.name("log/b.seg"))
            try await transport.create(file, Data("old".utf8))
            try await transport.create(other, Data("other".utf8))
            try await transport.remove(file)
            try await transport.remove(file)
            scene.expect(
                try await transport.contents(of: file, maximumSize: 100), is: nil, "Removed")
            scene.expect(
                try await scene.listing(transport, scene.name("log")), is: ["b.seg"], "The names")
            scene.expect(try await transport.create(file, Data("new".utf8)), "Not created again.")
            scene.expect(
                try await transport.contents(of: file, maximumSize: 100), is: Data("new".utf8),
                "Its bytes")
        },
    ]

    // MARK: - Names

    private static let names = [
        TransportCheck("a listing contains the files of one folder") { scene in
            let transport = try await scene.transport()
            for path in ["a", "b", "x/c", "x/d", "x/y/e", "x/y/z/f", "xx/g"] {
                scene.expect(
                    try await transport.create(scene.name(path), Data(path.utf8)),
                    "\(path) was not created.")
            }
            scene.expect(try await scene.listing(transport, .top), is: ["a", "b"], "At the top")
            for (folder, files) in [
                "x": ["c", "d"], "x/y": ["e"], "x/y/z": ["f"], "xx": ["g"],
            ] {
                scene.expect(
                    try await scene.listing(transport, scene.name(folder)), is: files, folder)
            }
        },
        TransportCheck("all valid names can be used") { scene in
            let transport = try await scene.transport()
            let part = "0123456789-_.abcdefghijklmnopqrstuvwxyz"
            let long = String(repeating: "n", count: SyncFileName.maximumPartLength)
            let longFile = long.prefix(scene.maximumNameLength)
            for path in [
                part, "a..b", "0", "a-", "z_", "\(longFile)", "x\(part)/\(part)/\(part)/\(part)",
                "\(long.dropLast())/\(long)/\(long)/\(longFile)",
            ] {
                let name = try scene.name(path)
                scene.expect(
                    try await transport.create(name, Data(path.utf8)), "“\(path)” was not created.")
                scene.expect(
                    try await transport.contents(of: name, maximumSize: 1000),
                    is: Data(path.utf8), "“\(path)”")
                scene.expect(
                    try await transport.fileNames(in: name.folder).contains(name.lastPart),
                    "“\(path)” is not listed.")
            }
        },
    ]

    // MARK: - Several transports

    private static let several = [
        TransportCheck(
            "if several transports create one file, one succeeds and the file is complete"
        ) { scene in
            let transports = try await [scene.transport(), scene.transport()]
            for round in 0..<5 {
                let file = try scene.name("log/\(round).seg")
                let created = try await withThrowingTaskGroup(of: Int?.self) { group in
                    for writer in 0..<8 {
                        let transport = transports[writer % 2]
                        group.addTask {
                            let bytes = Data(repeating: UInt8(writer), count: 100_000)
                            return try await transport.create(file, bytes) ? writer : nil
                        }
                    }
                    return try await group.reduce(into: [Int]()) { created, writer in
                        if let writer { created.append(writer) }
                    }
                }
                scene.expect(created.count, is: 1, "The number of transports that created the file")
                guard let writer = created.first else { continue }
                let bytes = Data(repeating: UInt8(writer), count: 100_000)
                for transport in transports {
                    try await scene.eventually("The file does not have the bytes of its creator.") {
                        try await transport.contents(of: file, maximumSize: 100_000) == bytes
                    }
                }
            }
        },
        TransportCheck("transports over the same place see each other's files") { scene in
            let (one, two) = try await (scene.transport(), scene.transport())
            let file = try scene.name("log/a.seg")
            try await one.create(file, Data("one".utf8))
            try await scene.eventually("A file that another transport created is missing.") {
                try await two.contents(of: file, maximumSize: 100) == Data("one".utf8)
            }
            try await scene.eventually("A file that another transport created is not listed.") {
                try await two.fileNames(in: scene.name("log")) == ["a.seg"]
            }
            scene.expect(
                try await !two.create(file, Data("two".utf8)), "It was created again.")
            try await two.remove(file)
            try await scene.eventually("A file that another transport removed still exists.") {
                try await one.contents(of: file, maximumSize: 100) == nil
            }
            let three = try await scene.transport()
            scene.expect(
                try await three.fileNames(in: scene.name("log")), is: [], "The names at the end")
        },
        TransportCheck("a sequence of changes ends when its task is cancelled") { scene in
            let transport = try await scene.transport()
            let task = Task {
                for await _ in transport.changes {}
            }
            try await transport.create(scene.name("a"), Data())
            task.cancel()
            await task.value
        },
    ]
}
