import Foundation
import Quire
import QuireDocuments
import Testing

/// Documents in folders that are links, on other file systems, shared with others, or gone.
@MainActor @Suite struct DocumentPlaceSituationTests {
    private nonisolated static var manager: FileManager { .default }

    private nonisolated static func isLink(_ url: URL) throws -> Bool {
        try manager.attributesOfItem(atPath: url.path)[.type] as? FileAttributeType
            == .typeSymbolicLink
    }

    // A document that is a symbolic link to one in a synchronized folder: saving replaced the link by a file, and the original was never
    // written again. (sublimehq/sublime_text issue 249, quodlibet/quodlibet pull request 4548.)
    @Test func aDocumentThatIsALinkIsSavedWhereTheLinkLeads() async throws {
        try await withProgramFolder { folder in
            let real = folder.appendingPathComponent("Synchronized", isDirectory: true)
            try Self.manager.createDirectory(at: real, withIntermediateDirectories: true)
            let target = real.appendingPathComponent("Target.quire")
            try await Folio.make(at: target, titles: ["saved"]).close()
            let link = folder.appendingPathComponent("Link.quire")
            try Self.manager.createSymbolicLink(at: link, withDestinationURL: target)

            let document = try await Folio.open(link)
            try document.addSheet("through the link", scan: Data(repeating: 1, count: 200_000))
            try document.additionalContent.write(Data([1]), at: "a.txt")
            let version = try await document.keepVersion()
            try document.addSheet("dropped")
            try await document.restore(version.id)
            try document.addSheet("by its other name")
            try await document.save(to: target, for: .forOverwriting)
            #expect(!document.hasUnsavedChanges)
            // The same document by its other name is one that is open.
            let other = Folio(fileURL: target)
            #expect(await errorCode { try await other.open() } == .locked)
            try await document.close()
            #expect(try Self.isLink(link))
            #expect(
                try await Folio.savedTitles(at: target) == [
                    "by its other name", "saved", "through the link",
                ])
            #expect(
                try await Folio.savedTitles(at: link) == [
                    "by its other name", "saved", "through the link",
                ])

            // Another document is saved over the link.
            let second = try await Folio.make(
                at: folder.appendingPathComponent("Second.quire"), titles: ["second"])
            try await second.save(as: link, replacing: true)
            try await second.close()
            #expect(try Self.isLink(link))
            #expect(try await Folio.savedTitles(at: target) == ["second"])
        }
    }

    // Renaming or deleting by the link: the original went to the trash, or the link stayed and led nowhere.
    // (andreafrancia/trash-cli issue 322.)
    @Test(arguments: ["open", "closed"])
    func renamingALinkRenamesTheLink(state: String) async throws {
        try await withProgramFolder { folder in
            let target = folder.appendingPathComponent("Target.quire")
            try await Folio.make(at: target, titles: ["saved"]).close()
            let link = folder.appendingPathComponent("Link.quire")
            try Self.manager.createSymbolicLink(at: link, withDestinationURL: target)
            let new = folder.appendingPathComponent("New.quire")
            if state == "open" {
                let document = try await Folio.open(link)
                try document.addSheet("edited")
                try await document.move(to: new)
                try document.addSheet("later")
                try await document.close()
            } else {
                try await DocumentLibrary(folder: folder).rename(link.path, to: "New")
            }
            // Whatever was renamed, both names that are left lead to the document.
            let names = try Self.manager.contentsOfDirectory(atPath: folder.path).sorted()
            #expect(names.count == 2)
            #expect(names.contains("New.quire"))
            for name in names {
                let titles = try await Folio.savedTitles(at: folder.appendingPathComponent(name))
                #expect(
                    titles == (state == "open" ? ["edited", "later", "saved"] : ["saved"]),
                    "\(name)")
            }
        }
    }

    // A folder above is a link, and it is changed to lead elsewhere while the document is open, as deployments and mounts do: the save went
    // to the other folder's document. (atom/atom issue 11797.)
    @Test func aFolderAboveThatLeadsElsewhereMeanwhileGetsNothing() async throws {
        try await withProgramFolder { folder in
            let first = folder.appendingPathComponent("first")
            let second = folder.appendingPathComponent("second")
            for place in [first, second] {
                try Self.manager.createDirectory(at: place, withIntermediateDirectories: true)
                try await Folio.make(
                    at: place.appendingPathComponent("A.quire"), titles: [place.lastPathComponent]
                ).close()
            }
            let current = folder.appendingPathComponent("current")
            try Self.manager.createSymbolicLink(at: current, withDestinationURL: first)
            let document = try await Folio.open(current.appendingPathComponent("A.quire"))
            try document.addSheet("edited")
            try Self.manager.removeItem(at: current)
            try Self.manager.createSymbolicLink(at: current, withDestinationURL: second)
            // It is saved to the package that was opened, or not at all.
            let code = await errorCode { try await document.save() }
            #expect(
                try await Folio.savedTitles(at: second.appendingPathComponent("A.quire"))
                    == ["second"])
            let saved = try await Folio.savedTitles(at: first.appendingPathComponent("A.quire"))
            if code == nil {
                #expect(saved == ["edited", "first"])
            } else {
                #expect(saved == ["first"])
                #expect(try document.titles.contains("edited"))
            }
            // And the change can be saved elsewhere in any case.
            let rescue = folder.appendingPathComponent("Rescue.quire")
            if !document.isOpen { return }
            try await document.save(as: rescue)
            try await document.close()
            #expect(try await Folio.savedTitles(at: rescue) == ["edited", "first"])
        }
    }

    // An external drive is unplugged while the document is open with changes, and plugged in again: the save button stayed gray, or the work
    // could be saved nowhere. (performant-software/faircopy issue 141, elementary/code issue 1818.)
    @Test func aFolderThatVanishesAndComesBackLosesNothing() async throws {
        try await withProgramFolder { folder in
            let drive = folder.appendingPathComponent("drive")
            let away = folder.appendingPathComponent("away")
            try Self.manager.createDirectory(at: drive, withIntermediateDirectories: true)
            let url = drive.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            try document.addSheet("scan", scan: Data(repeating: 9, count: 250_000))
            try await document.save()
            try document.addSheet("edited")
            try document.additionalContent.write(Data([1]), at: "a.txt")
            try Self.manager.moveItem(at: drive, to: away)
            // Somewhere else it can be saved whole.
            let rescue = folder.appendingPathComponent("Rescue.quire")
            let copy = try await document.duplicate(to: rescue)
            #expect(try await Folio.savedTitles(at: copy.fileURL) == ["edited", "saved", "scan"])
            try Self.manager.moveItem(at: away, to: drive)
            try document.addSheet("later")
            try await document.save()
            #expect(!document.hasUnsavedChanges)
            #expect(document.fileURL.path == url.path)
            try await document.close()
            #expect(try await Folio.savedTitles(at: url) == ["edited", "later", "saved", "scan"])
        }
    }

    // A document that only its owner may enter, or that a group shares: after a save, a restored version or a replaced package others could
    // read it, or could not any more. (NousResearch/hermes-agent pull request 9279, jimprosser/obsidian-web-mcp pull request 67.) Its archive,
    // too: Osmantic/ODS issue 5387, TRC-Loop/Pelton pull request 85.
    @Test(arguments: [0o700, 0o2770, 0o750])
    func aDocumentKeepsItsPermissions(mode: Int) async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            try Self.manager.setAttributes([.posixPermissions: mode], ofItemAtPath: url.path)
            func folderMode(_ url: URL) throws -> Int {
                let attributes = try Self.manager.attributesOfItem(atPath: url.path)
                return try #require(attributes[.posixPermissions] as? NSNumber).intValue
            }
            try document.addSheet("scan", scan: Data(repeating: 1, count: 200_000))
            try document.additionalContent.write(Data([1]), at: "folder/a.txt")
            try await document.save()
            let version = try await document.keepVersion()
            try document.addSheet("more")
            try await document.restore(version.id)
            #expect(try folderMode(url) == mode)
            let copy = try await document.duplicate()
            #expect(try folderMode(copy.fileURL) & 0o777 == mode & 0o777)
            try await document.save(as: folder.appendingPathComponent("B.quire"))
            #expect(try folderMode(document.fileURL) & 0o777 == mode & 0o777)
            try await document.move(to: folder.appendingPathComponent("C.quire"))
            let archive = folder.appendingPathComponent("C.zip")
            try await document.export(to: archive)
            #expect(try folderMode(archive) & 0o007 == 0)
            try await document.close()
            try Self.manager.removeItem(at: url)
            try await document.open()
            try await document.save(as: url)
            #expect(try folderMode(url) & 0o777 == mode & 0o777)
            try await document.close()
        }
    }

    // Folders within folders, until a path is longer than SQLite can open (512 bytes): the document was moved there, and could not be opened
    // again. (shadowmoose/RedditDownloader issue 19.)
    @Test func aDocumentInAVeryDeepFolderIsRefusedOrSaved() async throws {
        try await withProgramFolder { folder in
            var deep = folder
            while deep.path.utf8.count < 700 {
                deep.appendPathComponent(String(repeating: "d", count: 90))
            }
            try Self.manager.createDirectory(at: deep, withIntermediateDirectories: true)
            let there = deep.appendingPathComponent("A.quire")
            let code = await errorCode {
                try await Folio.make(at: there, titles: ["made there"]).close()
            }
            if code != nil { #expect(!Self.manager.fileExists(atPath: there.path)) }
            let url = folder.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            try document.addSheet("edited")
            let other = deep.appendingPathComponent("B.quire")
            let moved = await errorCode { try await document.move(to: other) }
            #expect(document.isOpen)
            #expect(try document.titles == ["edited", "saved"])
            if moved != nil { #expect(document.path == url.path) }
            try await document.save()
            #expect(try await Folio.savedTitles(at: document.fileURL) == ["edited", "saved"])
            let copied = await errorCode {
                try await document.writeCopy(to: deep.appendingPathComponent("C.quire"))
            }
            #expect((copied == nil) == (code == nil))
            try await document.close()
            if moved != nil {
                let library = DocumentLibrary(folder: folder)
                #expect(
                    await errorCode { try await library.move(url.path, toFolder: deep.path) }
                        == moved)
                #expect(try await Folio.savedTitles(at: url) == ["edited", "saved"])
            }
        }
    }

    // Moving a document to another volume, by the document, by the library and by Save As with deletion. (godotengine/godot pull request
    // 97719, ayoisaiah/f2 issue 99.)
    @Test(.enabled(if: FileManager.default.isWritableFile(atPath: "/dev/shm")))
    func aDocumentIsTakenToAnotherVolumeWithAllItHas() async throws {
        try await withProgramFolder { folder in
            let volume = URL(fileURLWithPath: "/dev/shm/quire-situation-\(UUID().uuidString)")
            try Self.manager.createDirectory(at: volume, withIntermediateDirectories: true)
            defer { try? Self.manager.removeItem(at: volume) }
            let url = folder.appendingPathComponent("A.quire")
            let away = volume.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            let sheet = try document.addSheet("scan", scan: Data(repeating: 9, count: 250_000))
            try document.additionalContent.write(Data([1]), at: "folder/a.txt")
            try await document.save()
            sheet["title"] = "edited"
            #expect(await errorCode { try await document.move(to: away) } == .unsupported)
            #expect(document.hasUnsavedChanges)
            #expect(!Self.manager.fileExists(atPath: away.path))
            try await document.save(as: away)
            try Self.manager.removeItem(at: url)
            #expect(document.isOpen)
            document.undoManager?.undo()
            #expect(sheet["title", as: String.self] == "scan")
            document.managedObjectContext.delete(sheet)
            try await document.save()
            document.undoManager?.undo()
            try await document.save()
            try await document.close()
            let again = try await Folio.open(away)
            #expect(
                try again.sheet("scan")?["scan", as: Data.self]
                    == Data(repeating: 9, count: 250_000))
            #expect(try again.additionalContent.data(at: "folder/a.txt") == Data([1]))
            #expect(try await again.check() == [])
            try await again.close()
            // The file system's own move.
            let mover = Process()
            mover.executableURL = URL(fileURLWithPath: "/bin/mv")
            mover.arguments = [away.path, url.path]
            try mover.run()
            mover.waitUntilExit()
            #expect(try await Folio.savedTitles(at: url) == ["saved", "scan"])
        }
    }

    // The path of a document leads through `..`, has a slash at its end, or two in the middle: it was opened twice, or its name was empty.
    // (andreafrancia/trash-cli issue 322.)
    @Test(arguments: ["A.quire/", "./A.quire", "x/../A.quire", "/A.quire//", "A.quire/."])
    func aPathInAnyNotationIsTheSameDocument(path: String) async throws {
        try await withProgramFolder { folder in
            try Self.manager.createDirectory(
                at: folder.appendingPathComponent("x"), withIntermediateDirectories: true)
            let url = folder.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            let other = Folio(path: folder.path + "/" + path)
            #expect(other.localizedName == "A")
            #expect(other.fileType == "quire")
            #expect(await errorCode { try await other.open() } == .locked)
            #expect(await errorCode { try await other.create() } == .alreadyExists)
            try await document.writeCopy(to: folder.appendingPathComponent("B.quire"))
            #expect(
                await errorCode {
                    try await document.writeCopy(
                        to: URL(fileURLWithPath: folder.path + "/" + path), replacing: true)
                } != nil)
            try await document.save(
                to: URL(fileURLWithPath: folder.path + "/" + path), for: .forOverwriting)
            try await document.close()
            try await other.open()
            #expect(try other.titles == ["saved"])
            try await other.move(to: folder.appendingPathComponent("C.quire"))
            try await other.close()
            #expect(
                try await Folio.savedTitles(at: folder.appendingPathComponent("C.quire")) == [
                    "saved"
                ])
        }
    }

    // The file name in a URL has bytes that are not UTF-8 (%E9): the program opened or created something else.
    // (geany/geany issue 2748.)
    @Test func aURLWhoseNameIsNotUTF8IsRefusedOrFollowedExactly() async throws {
        try await withProgramFolder { folder in
            let url = try #require(URL(string: "file://\(folder.path)/caf%E9.quire"))
            let document = Folio(fileURL: url)
            let code = await errorCode { try await document.create() }
            let names = try Self.manager.contentsOfDirectory(atPath: folder.path)
            if code == nil {
                try await document.close()
                #expect(names.count == 1)
            } else {
                #expect(names == [])
            }
            #expect(Self.manager.fileExists(atPath: folder.path))
        }
    }
}
