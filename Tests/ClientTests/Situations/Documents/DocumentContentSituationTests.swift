import Foundation
import Quire
import QuireDocuments
import Testing

/// Large values, files beside the objects, drafts, versions and undo, one with another.
@MainActor @Suite struct DocumentContentSituationTests {
    private static let scan = Data(repeating: 9, count: 300_000)
    private static let other = Data((0..<300_000).map { UInt8(truncatingIfNeeded: $0 / 7) })

    // A large value is deleted, saved, and brought back by undo after the save: with external storage the file was gone, and the object came
    // back empty. (useyourloaf.com “Moving Core Data Files”, atomicbird.com “Backing up Core Data Stores” tell how such files are lost.)
    @Test(
        arguments: ["delete", "replace", "clear", "move", "twin"],
        ["save", "save as", "version", "move"])
    func undoAfterASaveBringsALargeValueBack(change: String, saving: String) async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            var sheet = try document.addSheet("scan", scan: Self.scan)
            try document.additionalContent.write(Data([1]), at: "a.txt")
            let twin = try document.addSheet("twin", scan: Self.scan)
            try await document.save()
            let before = try document.titles
            switch change {
            case "delete": document.managedObjectContext.delete(sheet)
            case "replace": sheet["scan"] = Self.other
            case "clear": sheet["scan"] = Data?.none
            case "twin":
                document.managedObjectContext.delete(sheet)
                twin["scan"] = Self.other
            default:
                try document.sheet("saved")?["scan"] = sheet["scan", as: Data.self]
                sheet["scan"] = Data?.none
            }
            switch saving {
            case "save": try await document.save()
            case "save as": try await document.save(as: folder.appendingPathComponent("B.quire"))
            case "version":
                _ = try await document.keepVersion()
                try document.addSheet("more")
                try await document.save()
                document.undoManager?.undo()
            default:
                try await document.move(to: folder.appendingPathComponent("B.quire"))
                try await document.save()
            }
            document.undoManager?.undo()
            sheet = try #require(try document.sheet("scan"))
            #expect(try document.titles == before)
            #expect(sheet["scan", as: Data.self] == Self.scan)
            try await document.save()
            document.undoManager?.redo()
            document.undoManager?.undo()
            try await document.close()
            let again = try await Folio.open(document.fileURL)
            #expect(try again.sheet("scan")?["scan", as: Data.self] == Self.scan)
            #expect(try again.sheet("twin")?["scan", as: Data.self] == Self.scan)
            #expect(try again.sheet("saved")?["scan", as: Data.self] == nil)
            #expect(try await again.check() == [])
            try await again.close()
        }
    }

    // An object with a large value is copied from one open document to another, and the first is closed, deleted or saved over before the second
    // is saved.
    // (atomicbird.com: “Backing up Core Data Stores”.)
    @Test(arguments: ["close", "delete", "replace", "discard"])
    func aLargeValueTakenFromAnotherDocumentStays(end: String) async throws {
        try await withProgramFolder { folder in
            let source = try await Folio.make(at: folder.appendingPathComponent("A.quire"))
            let sheet = try source.addSheet("scan", scan: Self.scan)
            try await source.save()
            try await source.close()
            try await source.open()
            let read = try #require(try source.sheet("scan"))
            let target = try await Folio.make(at: folder.appendingPathComponent("B.quire"))
            try target.addSheet("taken", scan: read["scan", as: Data.self])
            if let value = try read.externalData(forKey: "scan") {
                let streamed = try target.addSheet("streamed")
                var bytes = Data()
                for try await chunk in value.chunks() {
                    bytes.append(contentsOf: chunk)
                    if end == "close", source.isOpen { try await source.close() }
                }
                streamed["scan"] = bytes
            }
            switch end {
            case "close": if source.isOpen { try await source.close() }
            case "discard": try await source.close(discardingChanges: true)
            case "replace":
                read["scan"] = Self.other
                try await source.save()
                try await source.close()
            default: try FileManager.default.removeItem(at: source.fileURL)
            }
            _ = sheet
            try await target.save()
            try await target.close()
            try await target.open()
            #expect(try target.sheet("taken")?["scan", as: Data.self] == Self.scan)
            #expect(try target.sheet("streamed")?["scan", as: Data.self] == Self.scan)
            #expect(try await target.check() == [])
            try await target.close()
        }
    }

    // Work that cannot be saved because a field is missing is kept; then the document is renamed, copied, versioned, or saved elsewhere before
    // the field is filled in. (karelia/BSManagedDocument issue 32.)
    @Test(arguments: [
        "move", "version", "library rename", "nothing", "file system", "export", "restore",
        "revert",
    ])
    func invalidWorkSurvivesWhatHappensToTheDocument(event: String) async throws {
        try await withProgramFolder { folder in
            var url = folder.appendingPathComponent("A.quire")
            let moved = folder.appendingPathComponent("B.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            let version = try await document.keepVersion(named: "first")
            let long = String(repeating: "too long ", count: 8)
            let sheet = try document.addSheet(long, scan: Self.scan)
            let remark = try document.managedObjectContext.insertObject(entityName: "Remark")
            remark["text"] = "of the draft"
            remark["sheet"] = sheet
            try document.sheet("saved")?["code"] = "changed"
            try document.additionalContent.write(Data([1, 2]), at: "draft.bin")
            #expect(await errorCode { try await document.autosave() } == .validation)
            var survives = true
            switch event {
            case "move":
                try await document.move(to: moved)
                url = moved
            case "version":
                #expect(await errorCode { _ = try await document.keepVersion() } == .validation)
            case "library rename":
                // Refused, since it cannot be saved, or done with the draft.
                let code = await errorCode {
                    try await DocumentLibrary(folder: folder).rename(url.path, to: "B")
                }
                if code == nil { url = moved }
            case "file system":
                try FileManager.default.moveItem(at: url, to: moved)
                #expect(await errorCode { try await document.save() } == .validation)
                url = moved
            case "export":
                let archive = folder.appendingPathComponent("A.zip")
                #expect(await errorCode { try await document.export(to: archive) } == .validation)
                #expect(!FileManager.default.fileExists(atPath: archive.path))
            case "restore":
                #expect(await errorCode { try await document.restore(version.id) } == .validation)
            case "revert":
                try await document.revert()
                survives = false
            default: break
            }
            // A package that a file manager has moved is followed when the system reports it.
            if event != "file system" { #expect(document.path == url.path) }
            #expect(try document.titles.contains(long) == survives)
            if survives {
                #expect(await errorCode { try await document.close() } == .validation)
                #expect(document.isOpen)
            }
            // The process ends here: another one finds the draft. A crash is a copy of the folder as it is now.
            let crashed = folder.appendingPathComponent("Crashed.quire")
            try FileManager.default.copyItem(at: url, to: crashed)
            let again = try await Folio.open(crashed)
            #expect(again.hasUnsavedChanges == survives)
            #expect(try again.titles.contains(long) == survives)
            if survives {
                let found = try #require(try again.sheet(long))
                #expect(found["scan", as: Data.self] == Self.scan)
                #expect((found["notes"] as? Set<ManagedObject>)?.count == 1)
                #expect(try again.sheet("saved")?["code", as: String.self] == "changed")
                #expect(try again.additionalContent.data(at: "draft.bin") == Data([1, 2]))
                found["title"] = "short"
                try await again.save()
                #expect(!again.hasUnsavedChanges)
            }
            try await again.close()
            let last = try await Folio.open(crashed)
            #expect(!last.hasUnsavedChanges)
            #expect(try last.titles == (survives ? ["saved", "short"] : ["saved"]))
            #expect(try await last.check() == [])
            try await last.close()
            try await document.close(discardingChanges: true)
            #expect(try await Folio.savedTitles(at: url) == ["saved"])
        }
    }

    // The draft of a document is there, and somebody else saves the document meanwhile: the draft overwrote the newer objects, or was dropped.
    // (karelia/BSManagedDocument issue 32.)
    @Test func aDraftMeetsWhatWasSavedMeanwhile() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["one", "two", "three"])
            let long = String(repeating: "too long ", count: 8)
            try document.sheet("one")?["title"] = long
            try document.sheet("two")?["code"] = "draft"
            #expect(await errorCode { try await document.autosave() } == .validation)
            let crashed = folder.appendingPathComponent("Crashed.quire")
            try FileManager.default.copyItem(at: url, to: crashed)
            try await document.close(discardingChanges: true)
            // A program that knows nothing of drafts: a container.
            let container = try PersistentContainer(name: "A", managedObjectModel: Folio.model)
            container.persistentStoreDescriptions = [
                PersistentStoreDescription(
                    url: URL(fileURLWithPath: DocumentPackageLayout(path: crashed.path).store))
            ]
            try await container.loadPersistentStores()
            for sheet in try container.viewContext.fetch(FetchRequest<ManagedObject>("Sheet")) {
                switch sheet["title", as: String.self] {
                case "one": sheet["title"] = "uno"
                case "two": sheet["title"] = "due"
                default: container.viewContext.delete(sheet)
                }
            }
            try container.viewContext.save()
            try container.close()
            let again = try await Folio.open(crashed)
            guard case .restored = again.draftStatus else {
                Issue.record("\(again.draftStatus)")
                return
            }
            // Both sides of the second are there, and the third stays deleted.
            #expect(try again.sheet("due")?["code", as: String.self] == "draft")
            #expect(try again.sheet("three") == nil)
            let first = try #require(
                try again.sheets.first { $0["title", as: String.self] != "due" })
            #expect(["uno", long].contains(first["title", as: String.self] ?? ""))
            first["title"] = "short"
            try await again.save()
            try await again.close()
            #expect(try await Folio.savedTitles(at: crashed) == ["due", "short"])
        }
    }

    // Versions kept without changes, with equal names, while saving: each took the whole space, or the list had gaps. Their names are whatever
    // the user types. (avanzzzi/hypy issue 21, cbreak-black/ZetaWatch issue 25, lmenezes/cerebro issue 492.)
    @Test func versionsOfTheSameStateAndNameAreToldApart() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            let names = [
                "same", "same", "", " ", "a/b", "../x", String(repeating: "🏆", count: 300),
                "line\nline", "\0null",
            ]
            var kept: [DocumentVersion] = []
            for name in names {
                let code = await errorCode {
                    kept.append(try await document.keepVersion(named: name))
                }
                #expect(code == nil || code == .invalidValue, "\(name.prefix(20))")
            }
            #expect(Set(kept.map(\.id)).count == kept.count)
            let listed = try await document.versions()
            #expect(listed.count == kept.count)
            #expect(listed.reversed().map(\.name) == kept.map(\.name))
            for version in listed { #expect(version.isComplete) }
            try await document.move(to: folder.appendingPathComponent("B.quire"))
            for version in listed { try await document.restore(version.id) }
            #expect(try document.titles == ["saved"])
            try await document.deleteVersion(kept[0].id)
            #expect(await errorCode { try await document.restore(kept[0].id) } == .notFound)
            try await document.restore(kept[1].id)
            #expect(try await document.check() == [])
            try await document.close()
        }
    }

    // Restoring a version brings back the text, but not the pictures and attachments of that time. (schollz/cowyo issue 157,
    // BookStackApp/BookStack issue 545, django-wiki/django-wiki issue 669.)
    @Test func aRestoredVersionHasItsAttachmentsAndPictures() async throws {
        try await withProgramFolder { folder in
            let document = try await Folio.make(at: folder.appendingPathComponent("A.quire"))
            let sheet = try document.addSheet("scan", scan: Self.scan)
            for name in ["plan.txt", "Plan/plan.txt", "caf\u{e9}.txt", "cafe\u{301} 2.txt"] {
                try document.additionalContent.write(Data(name.utf8), at: name)
            }
            let version = try await document.keepVersion()
            let paths = document.additionalContent.paths
            sheet["scan"] = Self.other
            for name in paths { try document.additionalContent.remove(at: name) }
            try document.additionalContent.write(Data([1]), at: "new.txt")
            // A file where a folder was, and unsaved.
            try await document.save()
            try document.additionalContent.write(Data([2]), at: "Plan")
            try await document.restore(version.id)
            #expect(document.additionalContent.paths == paths)
            for name in paths {
                #expect(try document.additionalContent.data(at: name)?.isEmpty == false)
            }
            #expect(try document.sheet("scan")?["scan", as: Data.self] == Self.scan)
            // What was there before can be restored in turn.
            let newest = try #require(try await document.versions().first)
            try await document.restore(newest.id)
            #expect(document.additionalContent.paths == ["Plan", "new.txt"])
            #expect(try document.sheet("scan")?["scan", as: Data.self] == Self.other)
            try await document.close()
        }
    }
}
