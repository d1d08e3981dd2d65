import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire

/// Stores converted between all types hold the same, their identifiers aside.
@Suite struct ConversionTests {
    static let isTorture = ProcessInfo.processInfo.environment["QUIRE_TORTURE"] == "1"
    static let rounds = isTorture ? 500 : 40

    /// What a store holds, with objects called by their place among those of their entity instead of by their keys.
    static func lines(of store: any PersistentStore) throws -> [String] {
        var names: [String: String] = [:]
        for entity in store.layout.entities where !entity.isAbstract {
            var request = FetchSpecification(entity.name)
            request.includesSubentities = false
            let ids = try store.objectIDs(matching: request).sorted {
                $0.primaryKey < $1.primaryKey
            }
            for (place, id) in ids.enumerated() {
                names[id.shortDescription] = "\(entity.name)#\(place)"
            }
        }
        return try StoreDump.lines(of: store, versions: false) {
            names[$0.shortDescription] ?? "null"
        }
    }

    /// The first thing that two stores differ in; `nil` if nothing.
    static func difference(_ lines: [String], _ expected: [String]) -> String? {
        let (added, missing) = (Set(lines).subtracting(expected), Set(expected).subtracting(lines))
        if added.isEmpty && missing.isEmpty && lines.count == expected.count { return nil }
        return "is: \(added.min() ?? "-")\nwas: \(missing.min() ?? "-")"
    }

    @Test @MainActor func randomObjectsOfRandomModelsAreTheSameInEveryType() throws {
        for round in 0..<Self.rounds {
            let seed = SeededRandom.baseSeed &* 1_000_033 &+ UInt64(round)
            var maker = RandomModel(seed: seed)
            let stack = try TestStack(maker.model)
            try RandomMigrationTests.fill(stack, &maker)
            let expected = try Self.lines(of: stack.coordinator.store)
            try stack.coordinator.close()
            var path = stack.path
            let types: [StoreType] = [.xml, .binary, .sqlite, .binary, .xml, .sqlite]
            for (step, type) in types.enumerated() {
                let next = stack.folder.path("\(step).\(type.rawValue)")
                do {
                    try StoreFile(at: path).convert(to: next, type: type)
                } catch {
                    Issue.record("seed \(seed), step \(step) to \(type.rawValue): \(error)")
                    break
                }
                let store = try StoreFile(at: next).open()
                let storeDifference = try Self.difference(Self.lines(of: store), expected)
                #expect(storeDifference == nil, "seed \(seed), step \(step) to \(type.rawValue)")
                try store.close()
                path = next
            }
        }
    }

    // MARK: - Apple's stores

    /// The stores of the corpus, of all types.
    static let corpus: [String] = {
        let suffixes = [".sqlite", ".moody", ".paw", "/persistentStore"]
        return Corpus.files { path in
            (path.hasPrefix("stores/") || path.hasPrefix("packages/"))
                && suffixes.contains { path.hasSuffix($0) }
        }.map(\.path)
    }()

    @Test(.corpus) func everyTypeIsInTheCorpus() {
        #expect(Self.corpus.count >= 35)
        #expect(Self.corpus.count { $0.hasSuffix(".paw") } >= 3)
    }

    @Test(.corpus, arguments: corpus) func applesStoresAreTheSameInEveryType(_ original: String)
        throws
    {
        let folder = try TemporaryFolder()
        let name = URL(fileURLWithPath: original).lastPathComponent
        let path = folder.path(name)
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: original + suffix) {
            try FileManager.default.copyItem(atPath: original + suffix, toPath: path + suffix)
        }
        let source = try StoreFile(at: path)
        let store = try source.open()
        let expected = try Self.lines(of: store)
        let hashes = try store.metadata().entityVersionHashes
        try store.close()
        for type in [StoreType.sqlite, .xml, .binary] {
            let next = folder.path("new.\(type.rawValue)")
            try source.convert(to: next, type: type)
            let converted = try StoreFile(at: next).open()
            let convertedDifference = try Self.difference(Self.lines(of: converted), expected)
            #expect(convertedDifference == nil, "\(type.rawValue)")
            #expect(
                try StoreCheck.run(on: converted).problems.map(\.message) == [], "\(type.rawValue)")
            let metadata = try converted.metadata()
            if !hashes.isEmpty, Set(hashes.keys) == Set(metadata.entityVersionHashes.keys),
                converted.layout.model.knownVersionHashes != nil
            {
                #expect(metadata.entityVersionHashes == hashes, "\(type.rawValue)")
            }
            try converted.close()
            let back = folder.path("back-\(type.rawValue).sqlite")
            try StoreFile(at: next).convert(to: back, type: .sqlite)
            let again = try StoreFile(at: back).open()
            let againDifference = try Self.difference(Self.lines(of: again), expected)
            #expect(againDifference == nil, "\(type.rawValue) and back")
            try again.close()
        }
    }

    // MARK: - Failing

    @Test @MainActor func whatCannotBeConvertedLeavesNothing() throws {
        let stack = try TestStack()
        try stack.fill(books: 20)
        try stack.coordinator.close()
        let file = try StoreFile(at: stack.path)
        let taken = #expect(throws: QuireError.self) {
            try file.convert(to: stack.path, type: .xml)
        }
        #expect(taken?.code == .alreadyExists)
        let memory = #expect(throws: QuireError.self) {
            try file.convert(to: stack.folder.path("m"), type: .inMemory)
        }
        #expect(memory?.code == .unsupported)
        let cancelled = #expect(throws: QuireError.self) {
            try file.convert(to: stack.folder.path("c.xml"), type: .xml) { $0.cancel() }
        }
        #expect(cancelled?.code == .cancelled)
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: stack.folder.path) == [
                "test.sqlite"
            ])
    }

    @Test func whatIsNoStoreIsSaidToBeNone() throws {
        let folder = try TemporaryFolder()
        for text in ["", "no store at all", "<?xml version=\"1.0\"?><plist/>"] {
            try Data(text.utf8).write(to: folder.url.appendingPathComponent("x"))
            let error = #expect(throws: QuireError.self) { try StoreFile(at: folder.path("x")) }
            #expect(error?.code == .invalidFormat)
        }
        #expect(throws: QuireError.self) { try StoreFile(at: folder.path("missing")) }
        #expect(throws: QuireError.self) { try StoreFile(at: folder.path) }
    }

    // MARK: - Places

    @MainActor private func fill(_ coordinator: PersistentStoreCoordinator, _ title: String) throws
    {
        let context = ManagedObjectContext.mainQueue(coordinator: coordinator)
        let cover = try context.insertObject(entityName: "Cover")
        cover["image"] = Data(repeating: 7, count: 200_000)
        let song = try context.insertObject(entityName: "Song")
        song["title"] = title
        try context.save()
    }

    private func titles(_ store: any PersistentStore) throws -> [AttributeValue] {
        let slot = try store.layout.requireEntity(named: "Song").slot(named: "title") ?? 0
        return try store.rows(matching: FetchSpecification("Song")).map { try $0.value(at: slot) }
    }

    @Test(arguments: [StoreType.sqlite, .xml, .binary])
    @MainActor func aStoreIsMigratedToAnotherPlaceAndGoneOnWith(_ type: StoreType) throws {
        let stack = try TestStack()
        try fill(stack.coordinator, "Fidelio")
        let old = try #require(stack.coordinator.persistentStores.first)
        let path = stack.folder.path("moved")
        let new = try stack.coordinator.migratePersistentStore(
            old, to: PersistentStoreDescription(path: path, type: type))
        #expect(new.type == type && stack.coordinator.persistentStores.count == 1)
        try fill(stack.coordinator, "Leonore")
        #expect(try titles(new) == ["Fidelio", "Leonore"])
        let file = try StoreFile(at: stack.path)
        #expect(try titles(file.open()) == ["Fidelio"])
        #expect(try stack.mainContext().fetch(FetchRequest("Cover")).count == 2)
        #expect(
            try stack.mainContext().fetch(FetchRequest("Cover")).map {
                $0["image", as: AttributeValue.self]
            }
                == [AttributeValue](
                    repeating: .binary(Data(repeating: 7, count: 200_000)), count: 2))
    }

    @Test(arguments: [StoreType.sqlite, .xml])
    @MainActor func aStoreIsReplacedAndRemovedAsAWhole(_ type: StoreType) throws {
        let folder = try TemporaryFolder()
        let paths = ["a", "b"].map { folder.path($0) }
        for path in paths {
            let container = try PersistentContainer(
                managedObjectModel: FixtureModels.library,
                persistentStoreDescriptions: [PersistentStoreDescription(path: path, type: type)])
            try fill(container.persistentStoreCoordinator, path == paths[0] ? "old" : "new")
            try container.close()
        }
        let file = try StoreFile(at: paths[0])
        let other = try StoreFile(at: paths[1])
        if type == .sqlite {
            let open = try file.open(isReadOnly: false)
            let error = #expect(throws: QuireError.self) { try file.replace(with: other) }
            #expect(error?.code == .locked)
            #expect(throws: QuireError.self) { try file.destroy() }
            try open.close()
        }
        try file.replace(with: other)
        let replaced = try file.open()
        #expect(try titles(replaced) == ["new"])
        #expect(try StoreCheck.run(on: replaced).problems.map(\.message) == [])
        #expect(try replaced.identity.uuid == other.metadata().storeUUID)
        try replaced.close()
        try file.destroy()
        try other.destroy()
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == [])
    }

    @Test(arguments: [StoreType.sqlite, .xml, .binary])
    @MainActor func replaceThroughLinkReplacesItsTarget(type: StoreType) throws {
        let folder = try TemporaryFolder()
        try FileManager.default.createDirectory(
            atPath: folder.path("real"), withIntermediateDirectories: true)
        let (path, link) = (folder.path("real/a"), folder.path("link"))
        for (path, title) in [(path, "old"), (folder.path("b"), "new")] {
            let container = try PersistentContainer(
                managedObjectModel: FixtureModels.library,
                persistentStoreDescriptions: [PersistentStoreDescription(path: path, type: type)])
            try fill(container.persistentStoreCoordinator, title)
            try container.close()
        }
        try FileManager.default.createSymbolicLink(
            atPath: link, withDestinationPath: "real/a")
        try StoreFile(at: link).replace(with: StoreFile(at: folder.path("b")))
        #expect(
            try FileManager.default.attributesOfItem(atPath: link)[.type] as? FileAttributeType
                == .typeSymbolicLink)
        for path in [path, link] {
            let replaced = try StoreFile(at: path).open()
            #expect(try titles(replaced) == ["new"])
            try replaced.close()
        }
        try StoreFile(at: link).destroy()
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path("real")) == [])
    }
}
