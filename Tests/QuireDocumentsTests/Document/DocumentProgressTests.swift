import Foundation
import Quire
import QuireTestSupport
import Testing

@testable import QuireDocuments

/// Requests that take long: they can be followed, and cancelled without a trace.
@Suite @MainActor struct DocumentProgressTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    private func url(_ name: String) -> URL { folder.url.appendingPathComponent(name) }

    private func make() async throws -> ManagedDocument {
        let document = ManagedDocument(fileURL: url("Notes.quire"))
        document.autosavePolicy = .never
        try await document.create(model: notesModel)
        for code in ["a", "b", "c"] {
            try document.addNote(code, code: code, picture: Data(repeating: 7, count: 200_000))
        }
        try document.additionalContent.write(Data(count: 100_000), at: "page")
        try await document.save()
        return document
    }

    private typealias Copying = @MainActor (ManagedDocument, Progress) async throws -> Void

    private func copying(_ name: String) -> Copying {
        let copy = url("Copy.quire")
        return switch name {
        case "save as": { try await $0.save(as: copy, progress: $1) }
        case "write copy": { try await $0.writeCopy(to: copy, progress: $1) }
        case "duplicate": { _ = try await $0.duplicate(to: copy, progress: $1) }
        default: { try await $0.revert(to: copy, progress: $1) }
        }
    }

    @Test(arguments: ["save as", "write copy", "duplicate"])
    func copiesCountTheBytes(_ name: String) async throws {
        let document = try await make()
        let progress = Progress(totalUnitCount: -1)
        try await copying(name)(document, progress)
        #expect(progress.totalUnitCount > 700_000)
        #expect(progress.fractionCompleted == 1)
        #expect(document.progress == nil)
        try await document.close()
    }

    @Test(arguments: ["save as", "write copy", "duplicate"])
    func cancelledCopiesLeaveNothing(_ name: String) async throws {
        let document = try await make()
        try document.addNote("unsaved")
        // At the start, and when the first file has been copied.
        for bytes in [0, 150_000] as [Int64] {
            let progress = CancellingProgress(after: bytes)
            let error = await failure { try await copying(name)(document, progress) }
            #expect(error?.code == .cancelled, "\(bytes)")
            #expect(try FileSystem.names(in: folder.url.path) == ["Notes.quire"])
            #expect(document.path == url("Notes.quire").path && document.hasUnsavedChanges)
        }
        try await document.close()
        #expect(
            try await ManagedDocument.titles(at: document.path) == ["a", "b", "c", "unsaved"])
    }

    @Test func cancelledRevertingLeavesTheDocumentAsItWas() async throws {
        let document = try await make()
        try await document.writeCopy(to: url("Copy.quire"))
        try document.addNote("kept")
        try await document.save()
        let cancelled = CancellingProgress(after: 0)
        let error = await failure { try await copying("revert")(document, cancelled) }
        #expect(error?.code == .cancelled)
        #expect(try document.titles() == ["a", "b", "c", "kept"])
        let progress = Progress(totalUnitCount: -1)
        try await document.revert(to: url("Copy.quire"), progress: progress)
        #expect(progress.fractionCompleted == 1)
        #expect(try document.titles() == ["a", "b", "c"])
        #expect(try await document.check().isEmpty)
        try await document.close()
    }

    @Test func theProgressOfTheRunningRequestIsTheDocuments() async throws {
        let document = try await make()
        let progress = ObservedProgress()
        let seen = LockedArray<Bool>()
        progress.observer = { [weak document] in
            seen.append(DispatchQueue.main.sync { document?.progress != nil })
        }
        try await document.writeCopy(to: url("Copy.quire"), progress: progress)
        #expect(!seen.values.isEmpty && seen.values.allSatisfy { $0 })
        try await document.close()
    }

    @Test(arguments: ["Notes.quire", "Notes.sqlite", "Notes.xml"])
    func migrationsCountTheirSteps(_ name: String) async throws {
        let newer = ManagedObjectModel {
            Entity("Note") {
                Attribute("title", .string).required().length(atMost: 40)
                Attribute("code", .string)
                Attribute("picture", .binary).externalStorage()
                Attribute("rating", .integer16).default(3)
                Unique("code")
            }
        }
        let isPackage = name.hasSuffix("quire")
        if isPackage {
            try await ManagedDocument.make(at: url(name).path)
        } else {
            let document = PersistentDocument(fileURL: url(name))
            try await document.create(model: notesModel)
            try document.managedObjectContext.insertObject(entityName: "Note")["title"] = "first"
            try await document.close()
        }
        func open(_ progress: Progress) async throws {
            var migration = StoreMigrationOptions()
            migration.progress = progress
            if isPackage {
                let document = ManagedDocument(fileURL: url(name))
                document.migrationOptions = migration
                try await document.open(model: newer)
                #expect(try document.titles() == ["first"])
                try await document.close()
            } else {
                let document = PersistentDocument(fileURL: url(name))
                document.migrationOptions = migration
                try await document.open(model: newer)
                #expect(
                    try document.managedObjectContext.count(for: FetchRequest("Note")) == 1)
                try await document.close()
            }
        }
        let cancelled = Progress(totalUnitCount: -1)
        cancelled.cancel()
        #expect(await failure { try await open(cancelled) }?.code == .cancelled)
        let progress = Progress(totalUnitCount: -1)
        try await open(progress)
        #expect(progress.totalUnitCount == 1 && progress.fractionCompleted == 1)
    }

    @Test(arguments: PeopleFormat.allCases)
    func documentsOfOneFileAreCancelledWithoutATrace(_ format: PeopleFormat) async throws {
        let file = url("People.\(format.rawValue)")
        let document = PeopleDocument(fileURL: file)
        try await document.create()
        try document.add("Ada", photo: Data(repeating: 7, count: 300_000))
        try await document.save()
        try document.add("Bob", photo: Data(repeating: 7, count: 300_000))
        let cancelled = Progress(totalUnitCount: -1)
        cancelled.cancel()
        let names = try FileSystem.names(in: folder.url.path)
        let requests: [@MainActor () async throws -> Void] = [
            { try await document.save(as: url("Copy.\(format.rawValue)"), progress: cancelled) },
            { try await document.save(as: url("Copy.sqlite"), progress: cancelled) },
            { try await document.writeCopy(to: url("Copy.xml"), progress: cancelled) },
            { try await document.export(to: url("People.zip"), progress: cancelled) },
        ]
        for request in requests {
            #expect(await failure(request)?.code == .cancelled)
            #expect(try FileSystem.names(in: folder.url.path) == names)
            #expect(document.fileURL == file && document.hasUnsavedChanges)
        }
        let progress = Progress(totalUnitCount: -1)
        try await document.save(as: url("Copy.\(format.rawValue)"), progress: progress)
        if format == .sqlite {
            #expect(progress.totalUnitCount > 300_000 && progress.fractionCompleted == 1)
        }
        #expect(document.progress == nil)
        try await document.close()
    }
}

/// A progress that calls a closure when it advances.
private final class ObservedProgress: Progress, @unchecked Sendable {
    // Unchecked because its superclass is; the closure is set before it is used.
    var observer: () -> Void = {}

    init() { super.init(parent: nil, userInfo: nil) }

    override var completedUnitCount: Int64 { didSet { observer() } }
}
