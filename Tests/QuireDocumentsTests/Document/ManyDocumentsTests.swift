import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Many documents open at once, each edited and saving itself all the time.
@Suite @MainActor struct ManyDocumentsTests {
    private static let isLong = ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1"
    private static let documents = isLong ? 100 : 20
    /// In the long form for five minutes.
    private static let rounds = isLong ? 300 : 3
    private static let interval = isLong ? Duration.seconds(1) : .milliseconds(50)

    @Test func noEditIsLostAndNothingGrows() async throws {
        let folder = try TemporaryFolder()
        var open: [ManagedDocument] = []
        for number in 0..<Self.documents {
            let document = ManagedDocument(path: folder.path("\(number).quire"))
            document.autosavePolicy = AutosavePolicy(delay: Self.interval / 2)
            try await document.create(model: notesModel)
            open.append(document)
        }
        var measured: [ProcessUse] = []
        let clock = ContinuousClock()
        var next = clock.now
        for round in 0..<Self.rounds {
            for document in open { try document.addNote("\(round)") }
            next += Self.interval
            // The pace at which users edit, not a wait for anything.
            try await clock.sleep(until: next)
            for document in open { #expect(document.lastSaveError == nil) }
            measured.append(try ProcessUse())
        }
        let saved = open.filter { $0.fileModificationDate != nil }.count
        #expect(saved == Self.documents)
        for document in open { try await document.close() }
        let expected = (0..<Self.rounds).map(String.init).sorted()
        for number in 0..<Self.documents {
            #expect(
                try await ManagedDocument.titles(at: folder.path("\(number).quire")) == expected)
        }
        let early = try #require(measured.dropFirst(measured.count / 4).first)
        let late = try #require(measured.last)
        let most = measured.map(\.threads).max() ?? 0
        print(
            "\(Self.documents) documents, \(Self.rounds) rounds: \(most) threads at most; at a quarter and at the end "
                + "\(early.descriptors) and \(late.descriptors) descriptors, "
                + "\(early.residentBytes >> 20) and \(late.residentBytes >> 20) MB")
        // In the short form other suites run beside it.
        if Self.isLong {
            #expect(late.descriptors <= early.descriptors + 2 * Self.documents)
            #expect(most < 200)
            #expect(late.residentBytes < early.residentBytes * 2)
        }
    }
}

/// What this process uses.
private struct ProcessUse {
    var descriptors: Int
    var threads: Int
    var residentBytes: Int

    init() throws {
        descriptors = try FileSystem.names(in: "/proc/self/fd").count
        threads = try FileSystem.names(in: "/proc/self/task").count
        let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
        residentBytes = (Int(text.split(separator: " ").dropFirst().first ?? "0") ?? 0) * 4096
    }
}
