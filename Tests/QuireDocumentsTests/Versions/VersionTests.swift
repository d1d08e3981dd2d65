import Foundation
import QuireTestSupport
import Testing

@testable import Quire
@testable import QuireDocuments
@testable import QuireSQLite

@Suite @MainActor struct VersionTests {
    let folder: TemporaryFolder
    let path: String
    let layout: DocumentPackageLayout

    init() throws {
        folder = try TemporaryFolder()
        path = folder.path("Notes.quire")
        layout = DocumentPackageLayout(path: path)
    }

    /// An open package with rows, external data and additional content.
    private func make() async throws -> DocumentPackage {
        try await ManagedDocument.make(
            at: path, notes: ["first": -1, "picture": 200_000],
            files: ["a": Data([1]), "deep/b": Data([2])])
        return try DocumentPackage.open(at: path)
    }

    /// What a version has.
    private func contents(
        of version: DocumentVersion, _ package: DocumentPackage
    ) throws -> PackageContents {
        let checkout = try package.checkOut(version.id)
        defer { checkout.close() }
        return try PackageContents(at: checkout.path)
    }

    private func size(ofFolder path: String) throws -> Int64 {
        try FileSystem.contentsOfTree(path).reduce(0) {
            $0 + ($1.information.kind == .regular ? $1.information.size : 0)
        }
    }

    // MARK: Keeping

    @Test func versionHasWhatTheLastSaveLeft() async throws {
        let package = try await make()
        let then = try PackageContents(package)
        let version = try package.keepVersion(named: "draft")
        try package.addNotes("later")
        #expect(try contents(of: version, package) == then)
        #expect(try package.versions() == [version])
        #expect(version.name == "draft" && version.reason == .requested && version.isComplete)
        #expect(version.size > 200_000)
        #expect(abs(version.date.timeIntervalSinceNow) < 60)
        #expect(try package.check() == [])
        #expect(try package.leftovers() == [])
        try package.close()
        #expect(try DocumentPackage.versions(at: path) == [version])
    }

    @Test func largeFilesAreSharedWithTheDocument() async throws {
        let package = try await make()
        let version = try package.keepVersion()
        let name = try #require(try FileSystem.names(in: layout.externalData).first)
        let live = try #require(
            try FileSystem.information(at: FileSystem.path(layout.externalData, name)))
        let kept = try #require(
            try FileSystem.information(at: layout.version(version.id) + "/ExternalData/" + name))
        #expect(live.isSameFile(as: kept))
        let file = try #require(
            try FileSystem.information(at: layout.version(version.id) + "/AdditionalContent/a"))
        #expect(file.linkCount == 2)
        try package.close()
    }

    @Test func versionCostsWhatChanged() async throws {
        let package = try DocumentPackage.create(at: path, model: notesModel)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: package.store))
        for number in 0..<8000 {
            let note = try context.insertObject(entityName: "Note")
            note["title"] = "note \(number)"
            note["code"] = String(repeating: "x", count: 60) + "\(number)"
        }
        try context.save()
        let first = try package.keepVersion()
        let same = try package.keepVersion()
        #expect(same.id != first.id)
        #expect(same.addedSize < 4000, "\(same.addedSize)")
        let notes = try context.fetch(FetchRequest("Note"))
        for number in stride(from: 0, to: notes.count, by: 800) {
            notes[number]["title"] = "changed"
        }
        try context.save()
        let before = try size(ofFolder: layout.versions)
        let second = try package.keepVersion()
        let added = try size(ofFolder: layout.versions) - before
        #expect(second.addedSize == added)
        // Ten pages, the nodes above them, the header, and the list of nodes.
        #expect(added < 30 * 4096, "\(added) of \(first.size)")
        #expect(first.addedSize > first.size / 2)
        try package.close()
    }

    @Test func unchangedDocumentNeedsNoOtherVersion() async throws {
        let package = try await make()
        let first = try package.keepVersion(onlyIfNew: true)
        #expect(try package.keepVersion(reason: .periodic, onlyIfNew: true) == first)
        try package.addNotes("later")
        let second = try package.keepVersion(reason: .periodic, onlyIfNew: true)
        #expect(second.id != first.id && second.reason == .periodic)
        #expect(try package.versions().map(\.id) == [second.id, first.id])
        try package.close()
    }

    @Test func cancellingLeavesNoVersion() async throws {
        let package = try await make()
        let progress = Progress(totalUnitCount: 1)
        progress.cancel()
        #expect(failure { try package.keepVersion(progress: progress) }?.code == .cancelled)
        #expect(try package.versions() == [])
        #expect(try FileSystem.names(in: layout.versions) == ["Blocks"])
        try package.keepVersion()
        try package.close()
    }

    @Test func progressCountsTheDatabase() async throws {
        let package = try await make()
        let progress = Progress(totalUnitCount: 1)
        try package.keepVersion(progress: progress)
        #expect(progress.totalUnitCount > 4096)
        #expect(progress.completedUnitCount == progress.totalUnitCount)
        try package.close()
    }

    @Test func readerKeepsNothingButLooks() async throws {
        let package = try await make()
        let version = try package.keepVersion()
        let reader = try DocumentPackage.open(at: path, readOnly: true)
        #expect(failure { try reader.keepVersion() }?.code == .readOnly)
        #expect(failure { try reader.deleteVersion(version.id) }?.code == .readOnly)
        #expect(failure { try reader.pruneVersions() }?.code == .readOnly)
        #expect(try reader.versions() == [version])
        let now = try PackageContents(package)
        #expect(try contents(of: version, reader) == now)
        try reader.close()
        try package.close()
    }

    @Test func savesGoOnWhileVersionsAreKept() async throws {
        let package = try await make()
        let keeping = Task.detached {
            try (0..<15).map { _ in try package.keepVersion() }
        }
        var states: [PackageContents] = [try PackageContents(package)]
        for number in 0..<15 {
            var changes = ChangeSet()
            let generation = try package.content.write(
                .init(files: [FileName("count"): .data(Data([UInt8(number)]))]),
                after: package.liveGeneration(), [:])
            changes.records = [
                AdditionalContentStore.recordKey: generation.map(String.init)
            ]
            try package.store.save(changes)
            package.tidy(generation: generation)
            states.append(try PackageContents(package))
            await Task.yield()
        }
        for version in try await keeping.value {
            let kept = try contents(of: version, package)
            #expect(states.contains(kept))
        }
        #expect(try package.check() == [])
        try package.close()
    }

    // MARK: Looking

    @Test func checkoutGoesWhenItIsClosed() async throws {
        let package = try await make()
        let version = try package.keepVersion()
        let before = try FileSystem.names(in: folder.path)
        let checkout = try package.checkOut(version.id)
        let old = ManagedDocument(path: checkout.path)
        try await old.open(readOnly: true)
        #expect(try old.titles() == ["first", "picture"])
        try await old.close()
        // The version may even be removed meanwhile.
        try package.deleteVersion(version.id)
        let now = try PackageContents(package)
        #expect(try PackageContents(at: checkout.path) == now)
        checkout.close()
        checkout.close()
        #expect(try FileSystem.names(in: folder.path) == before)
        try package.close()
    }

    @Test func unknownVersionIsNotFound() async throws {
        let package = try await make()
        for id in ["20200101T000000000Z-00000000", "../..", "", "Blocks"] {
            #expect(failure { _ = try package.checkOut(id) }?.code == .notFound)
            #expect(failure { try package.deleteVersion(id) }?.code == .notFound)
            #expect(
                failure { _ = try package.replaceContent(withVersion: id) }?.code == .notFound)
        }
        #expect(try package.versions() == [])
        try package.close()
    }

    // MARK: Restoring

    @Test func restoringBringsEverythingBack() async throws {
        var package = try await make()
        let then = try PackageContents(package)
        let version = try package.keepVersion()
        // Everything is changed: the picture and its file go, and so does the additional content.
        try package.close()
        let document = ManagedDocument(path: path)
        try await document.open()
        for note in try document.managedObjectContext.fetch(FetchRequest("Note")) {
            document.managedObjectContext.delete(note)
        }
        try document.addNote("new")
        try document.additionalContent.remove(at: "deep/b")
        try document.additionalContent.write(Data([7]), at: "a")
        try await document.close()
        package = try DocumentPackage.open(at: path)
        #expect(try FileSystem.names(in: layout.externalData) == [])
        let now = try PackageContents(package)
        let restored = try package.replaceContent(withVersion: version.id)
        try package.close()
        restored.removeReplacedContent()
        #expect(try PackageContents(restored) == then)
        #expect(try restored.check() == [])
        // What was there before is a version, and can be restored in turn.
        let kept = try #require(try restored.versions().first)
        #expect(kept.reason == .beforeRestoring)
        #expect(try contents(of: kept, restored) == now)
        let back = try restored.replaceContent(withVersion: kept.id)
        try restored.close()
        #expect(try PackageContents(back) == now)
        // The version restored is still the newest content but one: nothing new had to be kept of it.
        #expect(try back.versions().count == 3)
        try back.close()
        let reopened = try DocumentPackage.open(at: path)
        #expect(try PackageContents(reopened) == now)
        #expect(try reopened.check() == [])
        try reopened.close()
    }

    @Test func restoringAVersionWhoseFilesWereDroppedInTheSameSession() async throws {
        let document = ManagedDocument(path: path)
        try await document.create(model: notesModel)
        try document.addNote("picture", picture: Data(repeating: 5, count: 200_000))
        try await document.save()
        let then = try PackageContents(document.package)
        let version = try document.package.keepVersion()
        for note in try document.managedObjectContext.fetch(FetchRequest("Note")) {
            document.managedObjectContext.delete(note)
        }
        try await document.save()
        let package = document.package
        let restored = try package.replaceContent(withVersion: version.id)
        // Closing removes files that its saves have dropped, but not those that are needed again.
        try await document.close()
        #expect(try PackageContents(restored) == then)
        try restored.addNotes("later")
        try restored.close()
        #expect(try PackageContents(at: path).notes == ["later -1", "picture 200000"])
        let reopened = try DocumentPackage.open(at: path)
        #expect(try reopened.check() == [])
        try reopened.close()
    }

    @Test func restoringMigratesAVersionOfAnOlderModel() async throws {
        var package = try await make()
        let then = try PackageContents(package)
        let version = try package.keepVersion()
        try package.close()
        let wider = ManagedObjectModel {
            Entity("Note") {
                Attribute("title", .string).required().length(atMost: 40)
                Attribute("code", .string)
                Attribute("stars", .integer16)
                Attribute("picture", .binary).externalStorage()
                Unique("code")
            }
        }
        package = try DocumentPackage.open(
            at: path, model: wider, migrating: StoreMigrationOptions())
        #expect(
            failure {
                _ = try package.replaceContent(withVersion: version.id, keepingPresent: false)
            }?.code == .incompatibleModel)
        let restored = try package.replaceContent(
            withVersion: version.id, migrating: StoreMigrationOptions())
        try package.close()
        #expect(try PackageContents(restored) == then)
        #expect(try restored.check() == [])
        try restored.close()
    }

    // MARK: Damage

    @Test func damagedBlockIsNamedAndMendedByTheNextVersion() async throws {
        var package = try await make()
        let then = try PackageContents(package)
        let version = try package.keepVersion()
        try package.close()
        let pack = FileSystem.path(
            layout.versionBlocks, try #require(try FileSystem.names(in: layout.versionBlocks).first)
        )
        var bytes = Array(try FileSystem.contents(of: pack))
        bytes[5000] ^= 1
        try AtomicFileReplace.replace(pack, with: Data(bytes))
        package = try DocumentPackage.open(at: path)
        let problems = try package.check()
        #expect(problems.count == 1)
        #expect(problems.first?.severity == .warning)
        #expect(problems.first?.message.contains(version.id) == true)
        #expect(failure { _ = try package.checkOut(version.id) }?.code == .invalidFormat)
        #expect(
            failure {
                _ = try package.replaceContent(withVersion: version.id, keepingPresent: false)
            }?.code == .invalidFormat)
        #expect(try PackageContents(package) == then)
        try package.keepVersion()
        #expect(try package.check() == [])
        #expect(try contents(of: version, package) == then)
        try package.close()
    }

    @Test(arguments: 0..<6)
    func anyDamageIsNamedAndHarmsNobodyElse(_ kind: Int) async throws {
        let package = try await make()
        let good = try package.keepVersion(named: "good")
        try package.addNotes("more")
        let bad = try package.keepVersion(named: "bad")
        let then = try PackageContents(package)
        let folder = layout.version(bad.id)
        switch kind {
        case 0: try FileSystem.removeFile(folder + "/Manifest")
        case 1:
            var bytes = try FileSystem.contents(of: folder + "/Manifest")
            bytes[bytes.count - 3] ^= 1
            try AtomicFileReplace.replace(folder + "/Manifest", with: bytes)
        case 2: try FileSystem.removeFile(folder + "/AdditionalContent/deep/b")
        case 3:
            try AtomicFileReplace.replace(folder + "/AdditionalContent/a", with: Data([1, 2]))
        case 4: try FileSystem.removeTree(folder + "/ExternalData")
        default:
            let packs = try FileSystem.names(in: layout.versionBlocks)
            let last = FileSystem.path(layout.versionBlocks, try #require(packs.last))
            try AtomicFileReplace.replace(last, with: Data("QUIREBLK, not really".utf8))
        }
        #expect(!(try package.check().isEmpty))
        #expect(try package.check().allSatisfy { $0.severity == .warning })
        #expect(
            try package.check().contains {
                $0.message.contains(bad.id) || $0.path.contains(bad.id)
            })
        let listed = try package.versions()
        #expect(listed.map(\.id) == [bad.id, good.id])
        #expect(listed[0].problem != nil && listed[1].problem == nil)
        #expect(failure { _ = try package.checkOut(bad.id) } != nil)
        #expect(try contents(of: good, package).files == then.files)
        // It is not pruned, somebody may want to save of it what can be saved; but it may be deleted.
        var none = VersionRetention()
        none.maximumCount = 0
        none.keepsNamed = false
        #expect(try package.pruneVersions(none).map(\.id) == [good.id])
        try package.deleteVersion(bad.id)
        #expect(try package.versions() == [])
        try package.keepVersion()
        #expect(try package.check().allSatisfy { $0.path.hasPrefix(layout.versionBlocks) })
        try package.close()
    }

    @Test(
        arguments: [
            (16, 17), (16, 100), (16, 65_536), (17, 65_536), (0, 16), (.max, 1), (.max, 65_536),
            (1 << 63, 1), (16, 0), (16, .max), (15, 1), (16, 65_537),
        ] as [(UInt64, UInt64)])
    func blocksOutsideOfTheirFileAreRefused(_ offset: UInt64, _ length: UInt64) throws {
        let path = folder.path("00000001.blocks")
        func bytes(_ number: UInt64) -> [UInt8] {
            withUnsafeBytes(of: number.littleEndian) { Array($0) }
        }
        // One block is said to be there, and there is none.
        let index = [UInt8](repeating: 7, count: 32) + bytes(offset) + bytes(length)
        let digest = index.withUnsafeBytes { BlockDigest(of: $0) }
        let file = BlockPack.start + index + bytes(1) + digest.bytes + BlockPack.end
        try FileSystem.writeNewFile(Data(file), at: path)
        let error = failure { _ = try BlockPack(path, beneath: folder.path) }
        #expect(error?.code == .invalidFormat)
    }

    @Test func hostileManifestNamesNoFilesElsewhere() async throws {
        let package = try await make()
        let version = try package.keepVersion()
        let manifestPath = FileSystem.path(layout.version(version.id), "Manifest")
        let classKey = package.store.protection?.classKey
        let manifest = try VersionManifest(
            contentsOf: manifestPath, beneath: path, unsealing: classKey)
        for change in [
            { $0.content = ["../../../../etc/passwd": 1] },
            { $0.content = ["/etc/passwd": 1] },
            { $0.externalFiles = ["../../persistentStore": .init(size: 1)] },
            { $0.storeSize = -1 }, { $0.storeSize = .max }, { $0.nodes = Data([1, 2, 3]) },
            { $0.generation = -5 }, { $0.format = 99 },
        ] as [(inout VersionManifest) -> Void] {
            var hostile = manifest
            change(&hostile)
            try AtomicFileReplace.replace(
                manifestPath, with: hostile.data(sealedBy: classKey, path: manifestPath))
            let error = failure { _ = try package.checkOut(version.id) }
            #expect(error?.code == .invalidFormat || error?.code == .unsupported)
            #expect(try package.versions().first?.isComplete == false)
        }
        try package.close()
    }

    // MARK: Removing

    @Test func removingAVersionLeavesTheOthersWhole() async throws {
        let package = try await make()
        var kept: [(DocumentVersion, PackageContents)] = []
        for number in 0..<6 {
            try package.addNotes("note \(number)")
            kept.append((try package.keepVersion(), try PackageContents(package)))
        }
        for index in [0, 3, 4] { try package.deleteVersion(kept[index].0.id) }
        for index in [1, 2, 5] {
            #expect(try contents(of: kept[index].0, package) == kept[index].1)
        }
        #expect(try package.versions().map(\.id) == [5, 2, 1].map { kept[$0].0.id })
        #expect(try package.check() == [])
        for index in [1, 2, 5] { try package.deleteVersion(kept[index].0.id) }
        #expect(try FileSystem.names(in: layout.versionBlocks) == [])
        #expect(try FileSystem.names(in: layout.versions) == ["Blocks"])
        try package.close()
    }

    @Test func blocksOfMostlyUnneededFilesMoveTogether() async throws {
        let package = try DocumentPackage.create(at: path, model: notesModel)
        let context = ManagedObjectContext.mainQueue(
            coordinator: PersistentStoreCoordinator(store: package.store))
        func insert(_ count: Int) throws {
            for number in 0..<count {
                let note = try context.insertObject(entityName: "Note")
                note["title"] = "note"
                note["code"] = String(repeating: "y", count: 200) + "\(UUID()) \(number)"
            }
            try context.save()
        }
        try insert(3000)
        let first = try package.keepVersion()
        let notes = try context.fetch(FetchRequest("Note"))
        for note in notes.prefix(2600) { context.delete(note) }
        try context.save()
        try package.store.executeOnWriter("PRAGMA incremental_vacuum")
        let then = try PackageContents(package)
        let second = try package.keepVersion()
        let before = try size(ofFolder: layout.versions)
        try package.deleteVersion(first.id)
        #expect(try size(ofFolder: layout.versions) < before / 2)
        #expect(try contents(of: second, package) == then)
        #expect(try package.check() == [])
        try package.close()
    }

    @Test func versionThatIsBeingReadStays() async throws {
        let package = try await make()
        let version = try package.keepVersion()
        try package.versionStore.reading(version.id) { _, _ in
            #expect(failure { try package.deleteVersion(version.id) }?.code == .locked)
            var none = VersionRetention()
            none.maximumCount = 0
            let pruned = try package.pruneVersions(none)
            #expect(pruned == [])
        }
        try package.deleteVersion(version.id)
        try package.close()
    }

    // MARK: Other packages

    @Test(.inClear) func copiesAndArchivesAreWithoutVersions() async throws {
        let package = try await make()
        try package.keepVersion()
        let copy = folder.path("Copy.quire")
        try package.writeCopy(to: copy)
        #expect(try DocumentPackage.versions(at: copy) == [])
        #expect(!FileSystem.exists(DocumentPackageLayout(path: copy).versions))
        let archive = folder.path("Notes.zip")
        try package.export(to: archive)
        #expect(
            try DocumentPackage.manifest(ofArchive: archive).entries.allSatisfy {
                !$0.path.contains("Versions")
            })
        try package.close()
    }

    @Test func whatAKilledProcessLeftIsCollected() async throws {
        var package = try await make()
        let version = try package.keepVersion()
        try package.close()
        for target in [layout.version(version.id), layout.versionBlocks + "/00000002.blocks"] {
            let rubbish = FileSystem.temporarySibling(of: target, for: "new")
            try FileSystem.makeFolder(rubbish)
            try FileSystem.writeNewFile(Data([1]), at: rubbish + "/x")
        }
        package = try DocumentPackage.open(at: path)
        #expect(try FileSystem.names(in: layout.versions) == [version.id, "Blocks"])
        #expect(try FileSystem.names(in: layout.versionBlocks) == ["00000001.blocks"])
        #expect(try package.check() == [])
        try package.close()
    }
}
