import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireAtomicStores

/// Files of stores that are written as a whole.
@Suite struct AtomicStoreTests {
    private func save(_ store: AtomicStore, _ name: String) throws {
        let entity = try store.layout.requireEntity(named: "Tag")
        let id = try store.reserveObjectIDs(for: entity, count: 1, durably: true)[0]
        var change = ObjectChange(
            objectID: id, entity: entity, version: 0, values: entity.defaultValues,
            changedSlots: SlotMask(first: entity.slots.count))
        let slot = try #require(entity.slot(named: "name"))
        change.values[slot] = .string(name)
        var changes = ChangeSet()
        changes.inserted = [change]
        try store.save(changes)
    }

    @Test func aFileThatOthersHaveReplacedIsNotSavedOver() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.xml")
        let one = try XMLStore.create(at: path, model: FixtureModels.library)
        let two = try XMLStore.open(at: path)
        try save(one, "a")
        let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        let error = #expect(throws: QuireError.self) { try save(two, "b") }
        #expect(error?.code == .mergeConflict)
        #expect(try Data(contentsOf: URL(fileURLWithPath: path)) == bytes)
        #expect(try two.count(matching: FetchSpecification("Tag")) == 0)
        try save(one, "c")
        #expect(try XMLStore.open(at: path).count(matching: FetchSpecification("Tag")) == 2)
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path) == ["a.xml"])
    }

    @Test func aSaveThatCannotBeWrittenChangesNothing() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.store")
        let store = try BinaryStore.create(at: path, model: FixtureModels.library)
        try save(store, "a")
        try FileManager.default.removeItem(atPath: path)
        #expect(throws: QuireError.self) { try save(store, "b") }
        #expect(try store.count(matching: FetchSpecification("Tag")) == 1)
        #expect(!FileManager.default.fileExists(atPath: path))
    }

    /// The file has been replaced when it turns out that its folder cannot be synchronized, so that the save has failed.
    @Test func aSaveWhoseFolderCannotBeSynchronizedCanBeRepeated() async {
        await #expect(processExitsWith: .success) {
            for type in [XMLStore.self, BinaryStore.self] as [AtomicStore.Type] {
                let folder = try TemporaryFolder()
                let path = folder.path("a.store")
                let coordinator = PersistentStoreCoordinator(
                    store: try type.create(at: path, model: FixtureModels.library))
                try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
                    let tag = try context.insertObject(entityName: "Tag")
                    tag["name"] = "a"
                    try context.save()
                    tag["name"] = "b"
                    let other = try context.insertObject(entityName: "Tag")
                    other["name"] = "c"
                    // The lock and the new file get a descriptor, the folder none.
                    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
                    var former = rlimit()
                    getrlimit(resource, &former)
                    let free = [dup(2), dup(2)]
                    for descriptor in free { close(descriptor) }
                    var limit = former
                    limit.rlim_cur = rlim_t((free.max() ?? 0) + 1)
                    setrlimit(resource, &limit)
                    let error = #expect(throws: QuireError.self) { try context.save() }
                    setrlimit(resource, &former)
                    #expect(error?.subject.file == folder.path)
                    #expect(context.hasChanges)
                    try context.save()
                    tag["name"] = "d"
                    try context.save()
                }
                try coordinator.close()
                let names = try type.open(at: path).rows(matching: FetchSpecification("Tag")).map {
                    try $0.value(at: $0.entity.slot(named: "name") ?? 0)
                }
                #expect(Set(names) == [.string("d"), .string("c")])
                #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).count == 1)
            }
        }
    }

    /// As above; and there is no room for the former content, which is larger, so that the new file stays.
    @Test func whatIsOnDiskIsTakenOverIfTheFormerContentCannotBePutBack() async {
        await #expect(processExitsWith: .success) {
            signal(SIGXFSZ, SIG_IGN)
            for type in [XMLStore.self, BinaryStore.self] as [AtomicStore.Type] {
                let folder = try TemporaryFolder()
                let path = folder.path("a.store")
                let store = try type.create(at: path, model: FixtureModels.library)
                let coordinator = PersistentStoreCoordinator(store: store)
                func names(_ store: AtomicStore) throws -> [AttributeValue] {
                    try store.rows(matching: FetchSpecification("Tag")).map {
                        try $0.value(at: $0.entity.slot(named: "name") ?? 0)
                    }
                }
                try QueueConfinedContext(coordinator: coordinator).performAndWait { context in
                    let tag = try context.insertObject(entityName: "Tag")
                    tag["name"] = String(repeating: "a", count: 1_000_000)
                    try context.save()
                    tag["name"] = "b"
                    // The lock and the new file get a descriptor, the folder none.
                    let files = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
                    let size = __rlimit_resource_t(RLIMIT_FSIZE.rawValue)
                    var (formerFiles, formerSize) = (rlimit(), rlimit())
                    getrlimit(files, &formerFiles)
                    getrlimit(size, &formerSize)
                    let free = [dup(2), dup(2)]
                    for descriptor in free { close(descriptor) }
                    var limit = formerFiles
                    limit.rlim_cur = rlim_t((free.max() ?? 0) + 1)
                    setrlimit(files, &limit)
                    limit = formerSize
                    limit.rlim_cur = 500_000
                    setrlimit(size, &limit)
                    let error = #expect(throws: QuireError.self) { try context.save() }
                    setrlimit(files, &formerFiles)
                    setrlimit(size, &formerSize)
                    #expect(error?.subject.file == folder.path)
                    #expect(context.hasChanges)
                    // Others see what this store sees.
                    #expect(try names(type.open(at: path)) == [.string("b")])
                    #expect(try names(store) == [.string("b")])
                    // What the context read is older now.
                    context.rollback()
                    context.refreshAllObjects()
                    #expect(tag["name", as: String.self] == "b")
                    tag["name"] = "c"
                    try context.save()
                }
                try coordinator.close()
                #expect(try names(type.open(at: path)) == [.string("c")])
                #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).count == 1)
            }
        }
    }

    @Test func anotherModelIsRefused() throws {
        let folder = try TemporaryFolder()
        let path = folder.path("a.xml")
        try XMLStore.create(at: path, model: FixtureModels.library).close()
        let error = #expect(throws: QuireError.self) {
            try XMLStore.open(at: path, model: FixtureModels.everyType)
        }
        #expect(error?.code == .incompatibleModel)
    }

    @Test func memoryIsGivenBack() throws {
        let store = try InMemoryStore(model: FixtureModels.library)
        try save(store, String(repeating: "x", count: 100_000))
        let id = try store.objectIDs(matching: FetchSpecification("Tag"))[0]
        for number in 0..<100 {
            let row = try #require(try store.row(for: id))
            let slot = try #require(row.entity.slot(named: "name"))
            var change = ObjectChange(
                objectID: id, entity: row.entity, version: row.version,
                values: ContiguousArray(repeating: .null, count: row.entity.slots.count),
                changedSlots: SlotMask())
            change.values[slot] = .string(String(repeating: "y", count: 100_000) + "\(number)")
            change.changedSlots.insert(slot)
            var changes = ChangeSet()
            changes.updated = [change]
            try store.save(changes)
        }
        #expect(try store.row(for: id)?.version == 101)
        #expect(try store.currentContents().deadByteCount < 2 << 20)
    }
}
