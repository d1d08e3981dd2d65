import Foundation
import QuireRescue
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireSQLite

/// The files: which values have one, what shares one, when one goes.
@Suite struct ExternalDataFilesTests {
    private typealias Fixture = ExternalDataFixture

    @Test @MainActor func theThresholdDecidesBetweenRowAndFile() throws {
        let fixture = try Fixture(threshold: 1000)
        let context = fixture.context()
        do {
            let cover = try fixture.cover(context)
            for (size, isFile) in [(1000, false), (1001, true), (5, false), (2000, true)] {
                let data = Fixture.bytes(size)
                cover["image"] = data
                try context.save()
                let (other, stored) = try fixture.stored()
                let value = try #require(try stored.externalData(forKey: "image"))
                #expect((value.url != nil) == isFile)
                #expect(try value.data() == data)
                withExtendedLifetime(other) {}
            }
            try cover.setExternalData(
                contentsOf: fixture.file(Fixture.bytes(1000)), forKey: "image")
            try context.save()
            let names = try fixture.files.count
            try cover.setExternalData(contentsOf: fixture.file(Fixture.bytes(999)), forKey: "image")
            try context.save()
            #expect(try fixture.files.count <= names)
        }
        context.reset()
        try fixture.coordinator.close()
        #expect(try fixture.files.isEmpty)
        let again = try fixture.reopened()
        let last: ManagedObjectContext = .mainQueue(coordinator: again)
        #expect(
            try last.fetch(FetchRequest("Cover"))[0]["image", as: Data.self] == Fixture.bytes(999))
        try again.close()
    }

    @Test func coreDatasThresholdIsTheUsualOne() {
        #expect(SQLiteStoreOptions().externalDataThreshold == ExternalDataTag.maximumInlineSize)
    }

    @Test @MainActor func sameBytesShareAFile() throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let bytes = Fixture.bytes(250_000)
        let covers = try (0..<3).map { _ in try fixture.cover(context) }
        covers[0]["image"] = bytes
        covers[1]["image"] = bytes
        try context.save()
        try covers[2].setExternalData(contentsOf: fixture.file(bytes), forKey: "image")
        try context.save()
        let folder = try fixture.store.externalData.folder
        let files = try fixture.files
        #expect(files.count == 3)
        let inodes = try files.map {
            try FileSystem.information(at: FileSystem.path(folder, $0))?.inode
        }
        #expect(Set(inodes).count == 1)
        // What shares its bytes here shares them in a copy.
        let copy = fixture.folder.path("copy.sqlite")
        try fixture.store.writeCopy(to: copy)
        let copied = ExternalDataFolder(storePath: copy).folder
        #expect(
            try Set(
                FileSystem.names(in: copied).map {
                    try FileSystem.information(at: FileSystem.path(copied, $0))?.inode
                }
            ).count == 1)
        context.delete(covers[0])
        covers[1]["image"] = nil
        try context.save()
        context.reset()
        try fixture.coordinator.close()
        #expect(try fixture.files.count == 1)
        let again = try fixture.reopened()
        #expect(try StoreCheck.run(on: again.store).problems.isEmpty)
        try again.close()
    }

    @Test @MainActor func aDamagedFileIsNotShared() throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let bytes = Fixture.bytes(250_000)
        let one = try fixture.cover(context)
        one["image"] = bytes
        try context.save()
        let file = try OpenFile.open(fixture.onlyFile, for: .updating)
        try file.write([1, 2, 3], at: 100_000)
        file.close()
        let two = try fixture.cover(context)
        two["image"] = bytes
        try context.save()
        let other = fixture.context()
        let stored = try #require(other.registeredOrFetched(two.objectID))
        #expect(try stored.externalData(forKey: "image")?.verify() == true)
    }

    @Test @MainActor func damageIsFoundAndNamed() async throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let cover = try fixture.cover(context)
        cover["image"] = Fixture.bytes(250_000)
        try context.save()
        let path = try fixture.onlyFile
        let file = try OpenFile.open(path, for: .updating)
        try file.write([1, 2, 3], at: 100_000)
        file.close()
        let (other, stored) = try fixture.stored()
        let data = try #require(try stored.externalData(forKey: "image"))
        func check(_ error: QuireError?) {
            #expect(error?.code == .invalidFormat)
            #expect(error?.subject.object == stored.objectID.uriRepresentation)
            #expect(error?.subject.property == "image")
            #expect(error?.subject.file == path)
        }
        check(#expect(throws: QuireError.self) { try data.verify() })
        check(
            await #expect(throws: QuireError.self) {
                for try await _ in data.chunks() {}
            })
        check(
            #expect(throws: QuireError.self) { try data.copy(to: fixture.folder.path("copy")) })
        #expect(!FileSystem.exists(fixture.folder.path("copy")))
        // Whole values are read as they are, unless that is asked for.
        #expect(try data.data().count == 250_000)
        try fixture.coordinator.close()
        let again = try fixture.reopened { $0.verifiesExternalData = true }
        let last: ManagedObjectContext = .mainQueue(coordinator: again)
        let object = try last.fetch(FetchRequest("Cover"))[0]
        #expect(throws: QuireError.self) { try object.attributeValue(forKey: "image") }
        try again.close()
        withExtendedLifetime(other) {}
    }

    @Test @MainActor func storesWithoutDigestsWork() async throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let cover = try fixture.cover(context)
        let bytes = Fixture.bytes(250_000)
        cover["image"] = bytes
        try context.save()
        try fixture.store.executeOnWriter("DROP TABLE QUIRE_EXTERNAL_DATA")
        let (other, stored) = try fixture.stored()
        let data = try #require(try stored.externalData(forKey: "image"))
        #expect(data.sha256 == nil)
        #expect(try !data.verify())
        var size = 0
        for try await chunk in data.chunks(ofSize: 7777) { size += chunk.count }
        #expect(size == bytes.count)
        let copy = try fixture.cover(other)
        try copy.setExternalData(data, forKey: "image")
        try other.save()
        #expect(try copy.externalData(forKey: "image")?.data() == bytes)
    }

    @Test @MainActor func filesOfNobodyGo() throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let cover = try fixture.cover(context)
        cover["image"] = Fixture.bytes(250_000)
        try context.save()
        do {
            let spooled = try fixture.cover(context)
            try spooled.setExternalData(
                contentsOf: fixture.file(Fixture.bytes(250_000, seed: 2)), forKey: "image")
        }
        let folder = try fixture.store.externalData.folder
        let orphan = FileSystem.path(folder, UUID().uuidString)
        let rest = FileSystem.temporarySibling(of: orphan, for: "new")
        for path in [orphan, rest] { try Data([1]).write(to: URL(fileURLWithPath: path)) }
        // Another process may be about to refer to them.
        try fixture.coordinator.close()
        #expect(try fixture.files.count == 4)
        let owner = try fixture.reopened { $0.isOnlyWriter = true }
        #expect(try StoreCheck.run(on: owner.store).problems.isEmpty)
        try owner.close()
        // The owner of a document decides about files that it has not written; see ``DocumentPackage``.
        #expect(FileSystem.exists(orphan) && !FileSystem.exists(rest))
        // A file that this process retains stays.
        #expect(try fixture.files.count == 3)
        context.reset()
        #expect(try fixture.files.count == 2)
    }

    @Test @MainActor func readersKeepWhatTheyRead() throws {
        let fixture = try Fixture()
        let context = fixture.context()
        let cover = try fixture.cover(context)
        let bytes = Fixture.bytes(250_000)
        cover["image"] = bytes
        try context.save()
        let reader = try fixture.reopened { $0.isReadOnly = true }
        let seeing: ManagedObjectContext = .mainQueue(coordinator: reader)
        let seen = try seeing.fetch(FetchRequest("Cover"))[0]
        #expect(seen["name", as: String.self] == nil)
        cover["image"] = nil
        try context.save()
        try fixture.coordinator.close()
        #expect(seen["image", as: Data.self] == bytes)
        seeing.reset()
        try reader.close()
        // Nothing refers to the file any more; it is removed after a day.
        let store = try #require(try fixture.reopened().store as? SQLiteStore)
        #expect(try store.unreferencedExternalFiles().count == 1)
        try store.close()
    }
}

extension ManagedObjectContext {
    fileprivate func registeredOrFetched(_ id: ManagedObjectID) -> ManagedObject? {
        try? existingObject(with: id)
    }
}
