import Foundation
import Quire
import QuireDocuments
import Testing

/// A new version of a program opens the documents of the old one.
@MainActor @Suite struct DocumentMigrationSituationTests {
    private static let first = ManagedObjectModel {
        Entity("Page") {
            Attribute("title", .string).length(atMost: 8)
            Attribute("scan", .binary).externalStorage()
            Attribute("width", .integer16)
            Attribute("price", .integer32)
            Attribute("flag", .boolean)
            ToMany("notes", "Note", inverse: "page").deleteRule(.cascade).ordered()
        }
        Entity("Note") {
            Attribute("text", .string)
            ToOne("page", "Page", inverse: "notes")
        }
    }
    private static let second = ManagedObjectModel {
        Entity("Sheet") {
            Attribute("name", .string).length(atMost: 8).renamed(from: "title")
            Attribute("image", .binary).externalStorage().renamed(from: "scan")
            Attribute("size", .integer16).required().default(1)
            Attribute("width", .double)
            Attribute("price", .decimal)
            Attribute("flag", .integer16)
            ToMany("remarks", "Remark", inverse: "sheet").deleteRule(.cascade).ordered()
                .renamed(from: "notes")
        }.renamed(from: "Page")
        Entity("Remark") {
            Attribute("text", .string)
            ToOne("sheet", "Sheet", inverse: "remarks").renamed(from: "page")
        }.renamed(from: "Note")
    }
    /// Without the scans.
    private static let lossy = ManagedObjectModel {
        Entity("Page") {
            Attribute("title", .string).length(atMost: 8)
            ToMany("notes", "Note", inverse: "page").deleteRule(.cascade).ordered()
        }
        Entity("Note") {
            Attribute("text", .string)
            ToOne("page", "Page", inverse: "notes")
        }
    }
    private static let large = Data((0..<250_000).map { UInt8(truncatingIfNeeded: $0) })

    /// Runs a program to its end: a document that could not be closed is gone then, too.
    private func end(_ program: () async throws -> ManagedDocument) async rethrows {
        weak var document: ManagedDocument?
        document = try await program()
        while document != nil { await Task.yield() }
    }

    /// Makes a document with external data, additional content and a version, by the old program.
    @discardableResult
    private func makeFirst(at url: URL, draft: Bool = false) async throws -> ManagedDocument {
        let document = ManagedDocument(fileURL: url)
        document.autosavePolicy = .never
        try await document.create(model: Self.first)
        let page = try document.managedObjectContext.add("Page", ["title": "one"])
        page["scan"] = Self.large
        page["notes"] = try ["x", "y", "z"].map {
            try document.managedObjectContext.add("Note", ["text": $0])
        }
        try document.additionalContent.write(Data("cover".utf8), at: "art/cover.txt")
        try await document.save()
        try await document.keepVersion(named: "mine")
        page["title"] = "two"
        try await document.save()
        if draft {
            // A title that cannot be saved: the changes are kept as a draft, also when the program ends.
            page["title"] = "much too long"
            page["width"] = 5
            page["price"] = 7
            page["flag"] = true
            page["notes"] = Array((page["notes"] as? [ManagedObject] ?? []).reversed())
            let note = try document.managedObjectContext.add("Note", ["text": "unsaved"])
            try document.managedObjectContext.add(
                "Page", ["title": "new", "scan": Self.large, "notes": [note]])
            try document.additionalContent.write(Data("unsaved".utf8), at: "art/cover.txt")
            await #expect(throws: QuireError.self) { try await document.save() }
        }
        try? await document.close(discardingChanges: !draft)
        return document
    }

    // Custom migrations of document packages: the content beside the store was lost, the program complained that another one had
    // changed the file, or there was no way back.
    // karelia/BSManagedDocument#26, #42
    @Test func migratingADocumentKeepsItsContentDataAndVersions() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("Book.doc")
            try await makeFirst(at: url)
            let document = ManagedDocument(fileURL: url)
            await #expect(throws: QuireError.self) { try await document.open(model: Self.second) }
            #expect(!document.isOpen)
            document.migrationOptions = StoreMigrationOptions()
            try await document.open(model: Self.second)
            let context = document.managedObjectContext
            let sheet = try context.one("Sheet", "name == 'two'")
            #expect(sheet["image"] as? Data == Self.large)
            #expect(sheet["size"] as? Int == 1)
            #expect(try sheet.value(forKeyPath: "remarks.text") as? [String] == ["x", "y", "z"])
            #expect(
                try document.additionalContent.data(at: "art/cover.txt") == Data("cover".utf8))
            #expect(!document.hasUnsavedChanges)
            sheet["name"] = "three"
            try await document.save()
            #expect(try await document.check().isEmpty)

            let versions = try await document.versions()
            #expect(versions.compactMap(\.name).contains("mine"))
            #expect(versions.count == 2)
            // A version of the old model comes back into the new one.
            let mine = try #require(versions.first { $0.name == "mine" })
            try await document.restore(mine.id)
            let old = try document.managedObjectContext.one("Sheet", "name == 'one'")
            #expect(old["image"] as? Data == Self.large)
            #expect(old["size"] as? Int == 1)
            try await document.close()
        }
    }

    // As above, with unsaved changes of the old program that it had kept for the next start.
    // karelia/BSManagedDocument#42 (what is not in the store’s file yet, at a migration)
    @Test func aDraftOfTheOldProgramIsMigratedWithTheDocument() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("Book.doc")
            try await end { try await makeFirst(at: url, draft: true) }
            let document = ManagedDocument(fileURL: url)
            document.autosavePolicy = .never
            document.migrationOptions = StoreMigrationOptions()
            try await document.open(model: Self.second)
            guard case .restored(_, let omissions) = document.draftStatus else {
                Issue.record("\(document.draftStatus)")
                return
            }
            #expect(omissions.isEmpty)
            #expect(document.hasUnsavedChanges)
            let context = document.managedObjectContext
            let long = try context.one("Sheet", "name == 'much too long'")
            #expect(try long.value(forKeyPath: "remarks.text") as? [String] == ["z", "y", "x"])
            #expect(long["width"] as? Double == 5)
            #expect(long["price"] as? Decimal == 7)
            #expect(long["flag"] as? Int == 1)
            let new = try context.one("Sheet", "name == 'new'")
            #expect(new["image"] as? Data == Self.large)
            #expect(new["size"] as? Int == 1)
            #expect(try new.value(forKeyPath: "remarks.text") as? [String] == ["unsaved"])
            #expect(
                try document.additionalContent.data(at: "art/cover.txt") == Data("unsaved".utf8))
            long["name"] = "short"
            try await document.save()
            try await document.close()

            let again = ManagedDocument(fileURL: url)
            try await again.open()
            #expect(try again.managedObjectContext.count(for: FetchRequest("Sheet")) == 2)
            #expect(try again.managedObjectContext.count(for: FetchRequest("Remark")) == 4)
            #expect(try await again.check().isEmpty)
            try await again.close()
        }
    }

    // A new program version removes an attribute; the document has data in it, in saved objects or only in the draft.
    // magicalpanda/MagicalRecord#543 “Lightweight migration deleted existing data”
    @Test(arguments: [false, true])
    func dataWithoutPlaceIsRefusedOrReported(onlyUnsaved: Bool) async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("Book.doc")
            if onlyUnsaved {
                try await end {
                    let document = ManagedDocument(fileURL: url)
                    document.autosavePolicy = .never
                    try await document.create(model: Self.first)
                    try document.managedObjectContext.add(
                        "Page",
                        [
                            "title": "much too long", "scan": Self.large, "width": 1, "price": 1,
                            "flag": true,
                        ])
                    await #expect(throws: QuireError.self) { try await document.save() }
                    try? await document.close()
                    return document
                }
            } else {
                try await makeFirst(at: url)
            }
            let document = ManagedDocument(fileURL: url)
            document.autosavePolicy = .never
            document.migrationOptions = StoreMigrationOptions()
            if onlyUnsaved {
                // Reported rather than refused: what is left out is named.
                try await document.open(model: Self.lossy)
                guard case .restored(_, let omissions) = document.draftStatus else {
                    Issue.record("\(document.draftStatus)")
                    return
                }
                #expect(omissions.count == 4 && omissions.contains { $0.contains("scan") })
                try await document.close(discardingChanges: true)
                return
            }
            let error = await #expect(throws: QuireError.self) {
                try await document.open(model: Self.lossy)
            }
            #expect(error?.code == .removalDenied)
            #expect(error?.message.contains("Page.scan") == true)
            let again = ManagedDocument(fileURL: url)
            try await again.open()
            let page = try again.managedObjectContext.fetch(FetchRequest("Page")).first
            #expect(page?["scan"] as? Data == Self.large)
            try await again.close()
        }
    }

    // A document of a newer program, opened by the older one that lacks the newest version: it must say so and change nothing.
    // JohnEstropia/CoreStore#434 “model versions rollback”; OpenEmu/OpenEmu#2417
    @Test(arguments: [false, true])
    func anOlderProgramRefusesANewerDocument(migrates: Bool) async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("Book.doc")
            try await makeFirst(at: url)
            let newer = ManagedDocument(fileURL: url)
            newer.migrationOptions = StoreMigrationOptions()
            try await newer.open(model: Self.second)
            try newer.managedObjectContext.one("Sheet", "name == 'two'")["size"] = 2
            try await newer.close()
            let before = try contents(of: url)
            for isReadOnly in [true, false] {
                let older = ManagedDocument(fileURL: url)
                if migrates { older.migrationOptions = StoreMigrationOptions() }
                let error = await #expect(throws: QuireError.self) {
                    try await older.open(model: Self.first, readOnly: isReadOnly)
                }
                #expect(error?.subject.file?.contains("Book.doc") == true)
                #expect(try contents(of: url) == before)
            }
        }
    }

    // A migration to a version of the model with a stricter constraint fails at the end; the document must be as before, without
    // a version or copy left over.
    // kasianov-mikhail/scout#1191
    @Test func aFailedMigrationLeavesTheDocumentAsItWas() async throws {
        let unique = ManagedObjectModel {
            Entity("Page") {
                Attribute("title", .string).length(atMost: 8)
                Attribute("scan", .binary).externalStorage()
                Attribute("kind", .string).required().default("plain")
                ToMany("notes", "Note", inverse: "page").deleteRule(.cascade).ordered()
                Unique("kind")
            }
            Entity("Note") {
                Attribute("text", .string)
                ToOne("page", "Page", inverse: "notes")
            }
        }
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("Book.doc")
            try await makeFirst(at: url)
            let document = ManagedDocument(fileURL: url)
            try await document.open()
            try document.managedObjectContext.add("Page", ["title": "more"])
            try await document.save()
            try await document.close()
            let before = try contents(of: url).filter { !$0.key.hasPrefix("Versions") }
            for _ in 0..<2 {
                document.migrationOptions = StoreMigrationOptions()
                let error = await #expect(throws: QuireError.self) {
                    try await document.open(model: unique)
                }
                #expect(error?.code == .constraintConflict)
                #expect(
                    try contents(of: url).filter { !$0.key.hasPrefix("Versions") } == before)
            }
            // The version before the migration is kept once, however often it is tried.
            try await document.open()
            #expect(try await document.versions().count == 2)
            #expect(try await document.check().isEmpty)
            try await document.close()
        }
    }

    private func contents(of url: URL) throws -> [String: Data] {
        var result: [String: Data] = [:]
        for path in try FileManager.default.subpathsOfDirectory(atPath: url.path) {
            if let data = try? Data(contentsOf: url.appendingPathComponent(path)) {
                result[path] = data
            }
        }
        return result
    }
}
