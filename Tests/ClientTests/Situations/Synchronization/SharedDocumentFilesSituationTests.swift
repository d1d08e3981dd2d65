import Foundation
import Quire
import QuireDocuments
import QuireSync
import Testing

/// Open documents with files, on two machines.
@MainActor @Suite struct SharedDocumentFilesSituationTests {
    private static let model = ManagedObjectModel {
        Entity("Note") {
            Attribute("name", .string)
            Attribute("text", .string)
        }
    }

    /// A document that is open on one machine.
    @MainActor private final class Machine {
        let document: ManagedDocument
        let sync: SyncContainer

        init(_ document: ManagedDocument, shared: URL) throws {
            self.document = document
            sync = try SyncContainer(
                coordinator: document.persistentStoreCoordinator,
                transport: FolderTransport(folder: shared.path, creates: true))
        }

        func write(_ files: [String: String]) async throws {
            for (path, text) in files.sorted(by: { $0.key < $1.key }) {
                try document.additionalContent.write(Data(text.utf8), at: path)
            }
            try await document.save()
        }

        func files() throws -> [String: String] {
            var files: [String: String] = [:]
            for path in document.additionalContent.paths {
                let data = try document.additionalContent.data(at: path) ?? Data()
                files[path] = String(decoding: data, as: UTF8.self)
            }
            return files
        }

        func names() throws -> [String] {
            try document.managedObjectContext.fetch(FetchRequest<ManagedObject>("Note"))
                .compactMap { $0["name"] as? String }.sorted()
        }
    }

    private func open(_ path: URL, shared: URL, creates: Bool = false) async throws -> Machine {
        let document = ManagedDocument(path: path.path)
        document.autosavePolicy = .never
        if creates {
            try await document.create(model: Self.model)
        } else {
            try await document.open()
        }
        return try Machine(document, shared: shared)
    }

    private func settle(_ machines: [Machine]) async throws {
        for _ in 0..<8 { for machine in machines { try await machine.sync.synchronize() } }
    }

    private func withTwo(
        _ program: @MainActor (Machine, Machine, URL) async throws -> Void
    ) async throws {
        try await withProgramFolder { folder in
            let shared = folder.appendingPathComponent("Shared")
            let here = try await open(
                folder.appendingPathComponent("Here.quire"), shared: shared, creates: true)
            let there = try await open(
                folder.appendingPathComponent("There.quire"), shared: shared, creates: true)
            try await here.sync.create(named: "Notes")
            try await here.sync.synchronize()
            try await there.sync.join()
            try await settle([here, there])
            try await program(here, there, folder)
            for machine in [here, there] { try await machine.document.close() }
        }
    }

    /// One makes a file where the other makes a folder, or a file whose name differs in its letters only. Each keeps its own, is told
    /// so at each round, and gets the other's when one has been renamed. Syncthing issues 439 and 1787.
    @Test func aFileAndAFolderOfOneName() async throws {
        try await withTwo { here, there, _ in
            try await here.write(["notes": "file", "Photo.txt": "upper", "same": "here"])
            try await there.write([
                "notes/a.txt": "in folder", "photo.txt": "lower", "same": "there",
            ])
            try await settle([here, there])
            let (hereProblems, thereProblems) = (
                try await here.sync.synchronize().problems.map(\.fileName),
                try await there.sync.synchronize().problems.map(\.fileName)
            )
            #expect(hereProblems == ["notes/a.txt", "photo.txt"])
            #expect(thereProblems == ["Photo.txt", "notes"])
            #expect(try here.files() == ["notes": "file", "Photo.txt": "upper", "same": "there"])
            #expect(
                try there.files() == [
                    "notes/a.txt": "in folder", "photo.txt": "lower", "same": "there",
                ])
            for machine in [here, there] {
                #expect(
                    try await machine.sync.conflicts().map(\.lost) == [.binary(Data("here".utf8))])
            }

            try here.document.additionalContent.remove(at: "notes")
            try here.document.additionalContent.remove(at: "Photo.txt")
            try await here.write(["notes.txt": "file", "Photo 2.txt": "upper"])
            try await settle([here, there])
            let files = [
                "notes.txt": "file", "Photo 2.txt": "upper", "notes/a.txt": "in folder",
                "photo.txt": "lower", "same": "there",
            ]
            #expect(try here.files() == files)
            #expect(try there.files() == files)
            for machine in [here, there] {
                #expect(try await machine.sync.synchronize().problems.isEmpty)
                #expect(try await machine.sync.checkInvariants() == [])
            }
        }
    }

    /// After a conflict of a file its text is edited again, with both texts in it: nothing is listed any more, also where that was done.
    @Test func aLaterEditOfAFileSettlesItsConflict() async throws {
        try await withTwo { here, there, _ in
            try await here.write(["a.txt": "0"])
            try await settle([here, there])
            try await here.write(["a.txt": "1"])
            try await there.write(["a.txt": "2"])
            try await settle([here, there])
            #expect(try await here.sync.conflicts().count == 1)
            #expect(try await there.sync.conflicts().count == 1)
            try await here.write(["a.txt": "1 and 2"])
            try await settle([here, there])
            #expect(try there.files() == ["a.txt": "1 and 2"])
            #expect(try await here.sync.conflicts().isEmpty)
            #expect(try await there.sync.conflicts().isEmpty)
        }
    }

    /// The folder of a closed document is copied to a third machine, with changes that were not sent; all three edit.
    /// mentrena/SyncKit issue 17; laurent22/joplin issue 6392.
    @Test func aCopiedDocumentFolderIsSynchronizedFromBoth() async throws {
        try await withTwo { here, there, folder in
            let context = here.document.managedObjectContext
            try context.insertObject(entityName: "Note")["name"] = "unsent"
            try await here.write(["a.txt": "unsent"])
            try await here.document.close()
            let copy = folder.appendingPathComponent("Copy.quire")
            let original = folder.appendingPathComponent("Here.quire")
            try FileManager.default.copyItem(at: original, to: copy)
            let shared = folder.appendingPathComponent("Shared")
            let first = try await open(original, shared: shared)
            let second = try await open(copy, shared: shared)
            for (name, machine) in [("1", first), ("2", second)] {
                let context = machine.document.managedObjectContext
                try context.insertObject(entityName: "Note")["name"] = name
                try await machine.write(["\(name).txt": name])
            }
            try await settle([second, there, first])
            for machine in [first, second, there] {
                #expect(try machine.names() == ["1", "2", "unsent"])
                #expect(
                    try machine.files() == ["1.txt": "1", "2.txt": "2", "a.txt": "unsent"])
                #expect(try await machine.sync.conflicts().isEmpty)
            }
            for machine in [first, second] { try await machine.document.close() }
        }
    }
}
