import Foundation
import Quire
import QuireDocuments
import Testing

/// A folder of documents, as the start window of a program shows it.
@MainActor @Suite struct LibrarySituationTests {
    final class Gallery: ManagedDocument {
        override var managedObjectModel: ManagedObjectModel? { Folio.model }
        var thumbnail = Data([0x89, 0x50])
        override func libraryMetadata() -> LibraryMetadata {
            var metadata = LibraryMetadata(title: "Gallery of \(localizedName)")
            metadata.thumbnail = thumbnail
            metadata.values = [
                "count":
                    "\((try? managedObjectContext.count(for: FetchRequest<ManagedObject>("Sheet"))) ?? -1)"
            ]
            return metadata
        }
    }

    // The list shows a document twice, or one of two, if their names differ only in the form of an accent; a removed one stays.
    // (basicmachines-co/basic-memory issue 1275.)
    @Test func aListTellsDocumentsApartWhoseNamesDifferInFormOnly() async throws {
        try await withProgramFolder { folder in
            let composed = folder.appendingPathComponent("Caf\u{e9}.quire")
            let decomposed = folder.appendingPathComponent("Cafe\u{301}.quire")
            try await Folio.make(at: composed, titles: ["composed"]).close()
            try await Folio.make(at: decomposed, titles: ["decomposed", "two"]).close()
            let library = DocumentLibrary(folder: folder)
            var changes = library.changes().makeAsyncIterator()
            guard case .all(let entries)? = await changes.next() else {
                Issue.record("The list does not begin with all documents.")
                return
            }
            #expect(entries.count == 2)
            #expect(Set(entries.map(\.objectCount)) == [1, 2])
            try FileManager.default.removeItem(at: decomposed)
            guard case .removed(let path)? = await changes.next() else {
                Issue.record("The removal is not reported.")
                return
            }
            #expect(Array(path.utf8) == Array(decomposed.path.utf8))
            try FileManager.default.moveItem(at: composed, to: decomposed)
            let next = await changes.next()
            guard case .moved(let from, let entry)? = next else {
                Issue.record("The renaming is reported as \(String(describing: next)).")
                return
            }
            #expect(Array(from.utf8) == Array(composed.path.utf8))
            #expect(Array(entry.path.utf8) == Array(decomposed.path.utf8))
        }
    }

    // The picture and the title in the list are those of the document before it was duplicated, saved or renamed.
    // (SimpleMobileTools/Simple-File-Manager issue 321, owncloud/core issue 31849.)
    @Test func aThumbnailFollowsItsDocument() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("A.quire")
            let document = Gallery(fileURL: url)
            document.autosavePolicy = .never
            try await document.create()
            try document.managedObjectContext.insertObject(entityName: "Sheet")["title"] = "a"
            try await document.close()
            let library = DocumentLibrary(folder: folder)
            func thumbnail(_ entry: DocumentLibrary.Entry) throws -> Data {
                try Data(contentsOf: URL(fileURLWithPath: #require(entry.thumbnailPath)))
            }
            var entry = try await library.entry(at: url.path)
            #expect(entry.title == "Gallery of A")
            #expect(try thumbnail(entry) == Data([0x89, 0x50]))
            #expect(entry.metadata.values["count"] == "1")
            // The title is written when the document is closed next.
            let renamed = try await library.rename(url.path, to: "B")
            let again = Gallery(fileURL: URL(fileURLWithPath: renamed))
            again.thumbnail = Data([1, 2, 3])
            try await again.open()
            try again.managedObjectContext.insertObject(entityName: "Sheet")["title"] = "b"
            try await again.close()
            entry = try await library.entry(at: renamed)
            #expect(entry.title == "Gallery of B")
            #expect(try thumbnail(entry) == Data([1, 2, 3]))
            let copy = try await library.duplicate(renamed)
            entry = try await library.entry(at: copy)
            #expect(try thumbnail(entry) == Data([1, 2, 3]))
            #expect(entry.metadata.values["count"] == "2")
            // A copy that the document makes of itself has one too, after it was opened and closed.
            try await again.open()
            let other = try await again.duplicate()
            try await again.close()
            try await other.open()
            try await other.close()
            entry = try await library.entry(at: other.path)
            #expect(entry.name == "B 3")
            #expect(entry.objectCount == 2)
            #expect(try await library.entries().count == 3)
        }
    }

    // A library in which several windows create, rename, duplicate and trash at once: two got one name, and one was lost.
    // (lainsce/quilter issues 118 and 192.)
    @Test func creatingAndDuplicatingAtOnceGivesEachItsName() async throws {
        try await withProgramFolder { folder in
            let library = DocumentLibrary(folder: folder)
            async let a = library.create(named: "Untitled", model: Folio.model)
            async let b = library.create(named: "Untitled", model: Folio.model)
            async let c = library.create(named: "Untitled", model: Folio.model)
            let made = try await [a, b, c]
            #expect(Set(made).count == 3)
            let source = made[0]
            let document = try await Folio.open(URL(fileURLWithPath: source))
            try document.addSheet("unsaved")
            async let d = library.duplicate(source)
            async let e = library.duplicate(source)
            async let f = document.duplicate()
            let copies = try await [d, e, f.path]
            #expect(Set(copies + made).count == 6)
            for copy in copies {
                #expect(try await Folio.savedTitles(at: URL(fileURLWithPath: copy)) == ["unsaved"])
            }
            // Two that want one name: one gets it.
            async let g = errorCode { try await library.rename(made[1], to: "Wanted") }
            async let h = errorCode { try await library.rename(made[2], to: "Wanted") }
            let codes = await [g, h]
            #expect(codes.filter { $0 == nil }.count == 1)
            #expect(codes.contains(.alreadyExists))
            #expect(try await library.entries().count == 6)
            try await document.close()
        }
    }

    // A folder with the extension of documents that is none, a file, a link that leads nowhere, a document within a document: the list failed as
    // a whole. (jellyfin/jellyfin issues 4934 and 9849, epoupon/lms issue 853.)
    @Test func whatIsNoDocumentDoesNotHideTheOthers() async throws {
        try await withProgramFolder { folder in
            let manager = FileManager.default
            try await Folio.make(at: folder.appendingPathComponent("A.quire"), titles: ["a"])
                .close()
            try Data("text".utf8).write(to: folder.appendingPathComponent("File.quire"))
            try manager.createDirectory(
                at: folder.appendingPathComponent("Empty.quire"), withIntermediateDirectories: true)
            try manager.createSymbolicLink(
                atPath: folder.appendingPathComponent("Nowhere.quire").path,
                withDestinationPath: "/nowhere/x.quire")
            try manager.createSymbolicLink(
                atPath: folder.appendingPathComponent("Loop.quire").path,
                withDestinationPath: "Loop.quire")
            try manager.createSymbolicLink(
                atPath: folder.appendingPathComponent("Linked.quire").path,
                withDestinationPath: "A.quire")
            // A document is not created in another one, but a file manager can move it there.
            let inner = folder.appendingPathComponent("A.quire/Inner.quire")
            #expect(await errorCode { _ = try await Folio.make(at: inner) } == .invalidValue)
            let outer = folder.appendingPathComponent("Inner.quire")
            try await Folio.make(at: outer, titles: ["inner"]).close()
            try manager.moveItem(at: outer, to: inner)
            for recursive in [false, true] {
                let entries = try await DocumentLibrary(folder: folder.path, isRecursive: recursive)
                    .entries()
                let good = entries.filter { $0.error == nil }.map(\.name).sorted()
                #expect(good.contains("A"))
                #expect(!good.contains("Inner"))
                #expect(Set(good).isSubset(of: ["A", "Linked"]))
            }
            // The document with the stranger in it is still one, and keeps it.
            let document = try await Folio.open(folder.appendingPathComponent("A.quire"))
            try document.addSheet("b")
            try await document.close()
            #expect(try await Folio.savedTitles(at: inner) == ["inner"])
        }
    }
}
