import Foundation
import QuireSystem
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireModelFiles

/// Damaged model files give an error or a model, never a trap and never a wait.
@Suite struct ModelFuzzTests {
    private static let isLong = ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1"
    private static let seed = SeededRandom.baseSeed

    /// Reads damaged forms of a file: cut off, and with some bytes changed.
    private func damage(
        _ data: Data, rounds: Int, _ random: inout SeededRandom,
        read: (Data) throws -> ManagedObjectModel
    ) {
        for round in 0..<rounds {
            var damaged = data
            if round % 4 == 0 {
                damaged = data.prefix(Int.random(in: 0..<data.count, using: &random))
            } else {
                for _ in 0..<Int.random(in: 1...6, using: &random) {
                    // The table at the end decides where everything is.
                    let from = round % 4 == 1 ? max(0, data.count - 200) : 0
                    let place = Int.random(in: from..<data.count, using: &random)
                    damaged[place] = UInt8.random(in: 0...255, using: &random)
                }
            }
            do {
                let model = try read(damaged)
                // Whatever was read can be used.
                _ = model.entityVersionHashes()
                try? model.validate()
            } catch is QuireError {
            } catch {
                Issue.record("seed \(Self.seed): \(error)")
            }
        }
    }

    @Test(.corpus) func damagedArchivesNeverTrap() throws {
        var files = try Corpus.files { $0.hasSuffix(".mom") || $0.hasSuffix("/elements") }
            .map { (path: $0.path, data: try Data(contentsOf: $0)) }
        files += try Corpus.mappingModels().prefix(Self.isLong ? 18 : 2)
        try #require(!files.isEmpty)
        var random = SeededRandom(seed: Self.seed)
        for (path, data) in files {
            let rounds = Self.isLong ? 300 : max(4, 200_000 / data.count)
            damage(data, rounds: rounds, &random) {
                try ManagedObjectModel(archivedModel: $0, name: path)
            }
        }
    }

    @Test(.corpus) func damagedModelsOfStoresNeverTrap() throws {
        let caches = try Corpus.modelCaches()
        try #require(!caches.isEmpty)
        var random = SeededRandom(seed: Self.seed)
        for (path, data) in caches {
            damage(data, rounds: Self.isLong ? 300 : 8, &random) {
                try ManagedObjectModel(modelCache: $0, name: path)
            }
            let archive = try #require(RawDeflate.decompressed(data))
            damage(archive, rounds: Self.isLong ? 300 : 4, &random) {
                try ManagedObjectModel(compiledModel: $0, name: path)
            }
        }
    }

    @Test(.corpus) func damagedListsOfVersionsNeverTrap() throws {
        let lists = try Corpus.files { $0.hasSuffix("VersionInfo.plist") }
            .map { try Data(contentsOf: $0) }
        try #require(!lists.isEmpty)
        var random = SeededRandom(seed: Self.seed)
        for data in lists {
            damage(data, rounds: Self.isLong ? 1000 : 100, &random) {
                _ = try CompiledVersionList($0, name: "list")
                return ManagedObjectModel()
            }
        }
    }

    @Test func whatSharesItsPartsIsBounded() throws {
        // A predicate of a hundred levels, each with the level below twice.
        var writer = KeyedArchiveWriter()
        var predicate = writer.add(["NSTruePredicate", "NSPredicate", "NSObject"], [])
        for _ in 0..<100 {
            let parts = writer.add(array: [predicate, predicate])
            predicate = writer.add(
                ["NSCompoundPredicate", "NSPredicate", "NSObject"],
                [.init("NSCompoundPredicateType", .integer(1)), .init("NSSubpredicates", parts)])
        }
        let archive = try KeyedArchive(
            writer.data(top: [.init("root", predicate)]), name: "test")
        var unarchiver = PredicateUnarchiver(archive: archive)
        #expect(throws: QuireError.self) { try unarchiver.predicate(archive.top["root"]) }
        var list = writer.add(array: [])
        for _ in 0..<50 { list = writer.add(array: [list, list]) }
        let lists = try KeyedArchive(writer.data(top: [.init("root", list)]), name: "test")
        #expect(throws: QuireError.self) {
            var budget = 100_000
            _ = try lists.propertyList(lists.top["root"], budget: &budget)
        }
    }

    @Test func compressedDataIsBounded() throws {
        let bytes = Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0 / 7) })
        let compressed = try #require(RawDeflate.compressed(bytes))
        #expect(compressed.count < bytes.count / 4)
        #expect(RawDeflate.decompressed(compressed) == bytes)
        #expect(RawDeflate.decompressed(compressed.dropLast(10)) == nil)
        #expect(RawDeflate.decompressed(Data(repeating: 0xFF, count: 50)) == nil)
        #expect(RawDeflate.decompressed(Data()) == nil)
        #expect(RawDeflate.decompressed(compressed, limit: bytes.count - 1) == nil)
        #expect(RawDeflate.decompressed(compressed, limit: bytes.count) == bytes)
    }
}
