import Foundation
import Quire
import QuireDocuments
import Testing

/// Documents that are one file, in each format.
@MainActor @Suite struct OneFileSituationTests {
    final class Cards: PersistentDocument {
        override var managedObjectModel: ManagedObjectModel? { Folio.model }

        override nonisolated func readObjects(
            from url: URL, type: String, into context: ManagedObjectContext
        ) throws {
            for line in try String(contentsOf: url, encoding: .utf8).split(separator: "\n") {
                try context.insertObject(entityName: "Sheet")["title"] = String(line)
            }
        }

        override nonisolated func writeObjects(
            of context: ManagedObjectContext, to url: URL, type: String
        ) throws {
            let titles = try context.fetch(FetchRequest<ManagedObject>("Sheet"))
                .compactMap { $0["title", as: String.self] }
            try Data(titles.sorted().joined(separator: "\n").utf8).write(to: url)
        }

        var titles: [String] {
            get throws {
                try managedObjectContext.fetch(FetchRequest<ManagedObject>("Sheet"))
                    .compactMap { $0["title", as: String.self] }.sorted()
            }
        }

        func add(_ title: String) throws {
            try managedObjectContext.insertObject(entityName: "Sheet")["title"] = title
        }
    }

    nonisolated static let formats = ["sqlite", "xml", "binary", "cards"]

    private func make(_ url: URL, _ titles: [String]) async throws -> Cards {
        let document = Cards(fileURL: url)
        document.autosavePolicy = .never
        try await document.create()
        for title in titles { try document.add(title) }
        try await document.save()
        return document
    }

    private func saved(_ url: URL) async throws -> [String] {
        let document = Cards(fileURL: url)
        try await document.open(readOnly: true)
        let titles = try document.titles
        try await document.close()
        return titles
    }

    // A text file edited through a symbolic link becomes a regular file (anthonyamaro15/nevi pull request 327), loses its permissions
    // (OCR-D/core pull request 608), or its write protection (wkentaro/labelme issue 2485).
    @Test(arguments: formats)
    func savingKeepsLinksAndPermissions(format: String) async throws {
        try await withProgramFolder { folder in
            let target = folder.appendingPathComponent("Target.\(format)")
            try await make(target, ["saved"]).close()
            try FileManager.default.setAttributes(
                [.posixPermissions: 0o640], ofItemAtPath: target.path)
            let first = folder.appendingPathComponent("First.\(format)")
            let second = folder.appendingPathComponent("Second.\(format)")
            try FileManager.default.createSymbolicLink(
                atPath: first.path, withDestinationPath: "Target.\(format)")
            try FileManager.default.createSymbolicLink(at: second, withDestinationURL: first)
            let document = Cards(fileURL: second)
            document.autosavePolicy = .never
            try await document.open()
            try document.add("through links")
            try await document.save()
            try document.add("more")
            try await document.save(as: second)
            try await document.close()
            let attributes = try FileManager.default.attributesOfItem(atPath: target.path)
            #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == 0o640)
            for link in [first, second] {
                let kind = try FileManager.default.attributesOfItem(atPath: link.path)[.type]
                #expect(kind as? FileAttributeType == .typeSymbolicLink)
            }
            #expect(try await saved(target) == ["more", "saved", "through links"])
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).count == 3)
        }
    }

    // The longest file names, and names in either form of accents, in every format. (asamuzaK/withExEditorHost issue 3.)
    @Test(arguments: formats, ["long", "Caf\u{e9}", "Cafe\u{301}", "x ", "🏆", ".hidden"])
    func aFileOfAnyNameIsSaved(format: String, name: String) async throws {
        try await withProgramFolder { folder in
            // SQLite opens only paths of up to 512 bytes, also while the file is built in a folder of its own.
            let room = format == "sqlite" ? 180 : 255 - format.utf8.count - 1
            let name = name == "long" ? String(repeating: "x", count: room) : name
            let url = folder.appendingPathComponent("\(name).\(format)")
            let document = try await make(url, ["saved"])
            try document.add("edited")
            try await document.writeCopy(to: folder.appendingPathComponent("Copy.\(format)"))
            try await document.save()
            try document.add("last")
            let moved = folder.appendingPathComponent("Moved.\(format)")
            try await document.save(as: moved)
            try document.add("other")
            try FileManager.default.removeItem(at: url)
            try await document.save(as: url)
            try await document.close()
            #expect(try await saved(url) == ["edited", "last", "other", "saved"])
            #expect(try await saved(moved) == ["edited", "last", "saved"])
            let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
            let expected = [url.lastPathComponent, "Copy.\(format)", "Moved.\(format)"]
            #expect(Set(names.map { Array($0.utf8) }) == Set(expected.map { Array($0.utf8) }))
        }
    }

    // Two documents of one program whose files differ only in the form of an accent.
    // (basicmachines-co/basic-memory issue 1275.)
    @Test(arguments: formats)
    func filesWhoseNamesDifferInFormOnlyAreTwo(format: String) async throws {
        try await withProgramFolder { folder in
            let composed = folder.appendingPathComponent("Caf\u{e9}.\(format)")
            let decomposed = folder.appendingPathComponent("Cafe\u{301}.\(format)")
            let first = try await make(composed, ["composed"])
            try first.add("more")
            try await first.save(as: decomposed)
            try first.add("yet more")
            try await first.save()
            try await first.close()
            #expect(try await saved(composed) == ["composed"])
            #expect(try await saved(decomposed) == ["composed", "more", "yet more"])
        }
    }

    // An untitled document that is closed, saved twice at once, or saved where it cannot be: the work is still there.
    // (ktraunmueller/Compositor issue 327.)
    @Test(arguments: formats)
    func anUntitledDocumentStaysUntilItHasAPlace(format: String) async throws {
        try await withProgramFolder { folder in
            let document = try Cards(model: Folio.model)
            try document.add("unsaved")
            #expect(await errorCode { try await document.close() } == .invalidState)
            #expect(document.isOpen)
            let missing = folder.appendingPathComponent("missing/A.\(format)")
            #expect(await errorCode { try await document.save(as: missing) } == .notFound)
            #expect(document.fileURL == nil)
            #expect(try document.titles == ["unsaved"])
            let first = folder.appendingPathComponent("A.\(format)")
            let second = folder.appendingPathComponent("B.\(format)")
            async let one: Void = document.save(as: first)
            async let two: Void = document.save(as: second)
            _ = try await (one, two)
            #expect(try document.titles == ["unsaved"])
            try document.add("later")
            let place = try #require(document.fileURL)
            try await document.close()
            #expect(try await saved(place) == ["later", "unsaved"])
            let other = place == first ? second : first
            #expect(try await saved(other) == ["unsaved"])
        }
    }

    // Another program writes the file while it is open with changes (ktraunmueller/Compositor issue 37), deletes it, or puts a folder there.
    @Test(arguments: formats, ["write", "delete", "folder", "folder above"])
    func aFileThatOthersChangedIsNotOverwritten(format: String, event: String) async throws {
        try await withProgramFolder { folder in
            let place = folder.appendingPathComponent("place")
            try FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
            let url = place.appendingPathComponent("A.\(format)")
            let document = try await make(url, ["saved"])
            let other = folder.appendingPathComponent("Other.\(format)")
            try await make(other, ["other"]).close()
            try document.add("edited")
            try FileManager.default.removeItem(at: event == "folder above" ? place : url)
            if event == "write" { try FileManager.default.moveItem(at: other, to: url) }
            if event == "folder" {
                try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
            }
            let code = await errorCode { try await document.save() }
            #expect(code != nil)
            #expect(document.isOpen)
            #expect(document.hasUnsavedChanges)
            #expect(try document.titles == ["edited", "saved"])
            if event == "write" { #expect(try await saved(url) == ["other"]) }
            // Closing does not drop it either, and it is saved elsewhere.
            #expect(await errorCode { try await document.close() } != nil)
            let rescue = folder.appendingPathComponent("Rescue.\(format)")
            try await document.save(as: rescue)
            #expect(!document.hasUnsavedChanges)
            try document.add("more")
            try await document.close()
            #expect(try await saved(rescue) == ["edited", "more", "saved"])
        }
    }
}
