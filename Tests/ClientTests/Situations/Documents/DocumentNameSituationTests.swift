import Foundation
import Quire
import QuireDocuments
import Testing

/// Documents whose users name them as they like.
@MainActor @Suite struct DocumentNameSituationTests {
    /// Names that people gave their documents, and that other programs could not cope with.
    enum Name: String, CaseIterable, CustomTestStringConvertible {
        case composed = "Caf\u{e9}"
        case decomposed = "Cafe\u{301}"
        case hangul = "\u{1112}\u{1161}\u{11ab}\u{ae00}"
        case emoji = "👨‍👩‍👧‍👦 holiday 🏆"
        case trailingSpace = "Notes "
        case trailingDot = "Minutes of v1."
        case leadingSpace = "  Notes"
        case dots = "policy.v1...2"
        case percent = "100%25 %E9 done"
        case question = "What? #1 & [2] {3} *; $HOME `x`"
        case quotes = "“quoted” 'single' \"double\""
        case dash = "-rf"
        case number = "Notes 2"
        case rightToLeft = "\u{202e}abc מסמך"
        case long = "long"
        case longEmoji = "long emoji"
        case colon = "a:b|c<d>"
        case tilde = "~"

        /// The longest names have 255 bytes with their extension.
        var name: String {
            switch self {
            case .long: String(repeating: "x", count: 249)
            case .longEmoji: String(repeating: "🏆", count: 62) + "x"
            default: rawValue
            }
        }
        var testDescription: String { rawValue }
    }

    // Names with emoji, accents in either form, trailing spaces and dots, percent signs, or as long as the file system allows: titles
    // became names that could be opened but not saved, because the temporary file's name was too long (asamuzaK/withExEditorHost issue 3,
    // anomalyco/opencode issue 49142), or could not be put back from the trash (UbuntuBudgie/budgie-extras issue 421,
    // oscal-compass/compliance-trestle issue 2187).
    @Test(arguments: Name.allCases)
    func aDocumentOfAnyNameIsSavedCopiedMovedAndFound(name: Name) async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent(name.name + ".quire")
            func exactNames() throws -> [[UInt8]] {
                try FileManager.default.contentsOfDirectory(atPath: folder.path)
                    .map { Array($0.utf8) }
            }
            let document = try await Folio.make(at: url, titles: ["saved"])
            #expect(try exactNames() == [Array((name.name + ".quire").utf8)])
            #expect(Array(document.localizedName.utf8) == Array(name.name.utf8))
            try document.addSheet("scan", scan: Data(repeating: 3, count: 200_000))
            try document.additionalContent.write(Data("x".utf8), at: "\(name.name)/x.txt")
            try await document.save()
            let version = try await document.keepVersion(named: name.name)

            // A copy beside it, an archive, another name, and back.
            let copy = try await document.duplicate(
                to: folder.appendingPathComponent("Copy.quire"))
            try await copy.open()
            #expect(try copy.titles == ["saved", "scan"])
            try await copy.save(
                as: url.deletingLastPathComponent().appendingPathComponent("Other.quire"))
            try await copy.close()
            let archive = folder.appendingPathComponent("Archive.zip")
            try await document.export(to: archive)
            try await document.move(to: folder.appendingPathComponent("Moved.quire"))
            try await document.move(to: url)
            try document.addSheet("moved")
            try await document.restore(version.id)
            #expect(try document.titles == ["saved", "scan"])
            try document.addSheet("last")
            try await document.close()

            // Save As over it, and an archive extracted under the name.
            let other = try await Folio.open(folder.appendingPathComponent("Other.quire"))
            try other.addSheet("other")
            try await other.save(as: url, replacing: true)
            try await other.close()
            #expect(try await Folio.savedTitles(at: url) == ["other", "saved", "scan"])
            try FileManager.default.removeItem(at: url)
            try DocumentPackage.extract(archive, to: url)
            #expect(try await Folio.savedTitles(at: url) == ["saved", "scan"])

            // In a library.
            let library = DocumentLibrary(folder: folder)
            let entry = try #require(
                try await library.entries().first { Array($0.name.utf8) == Array(name.name.utf8) })
            let renamed = try await library.rename(entry.path, to: "Renamed")
            #expect(try await Folio.savedTitles(at: URL(fileURLWithPath: renamed)).count == 2)
            let item = try await library.trashed(renamed, as: url)
            #expect(
                Array((item as NSString).lastPathComponent.utf8)
                    == Array(url.lastPathComponent.utf8))
            #expect(try await Folio.savedTitles(at: url) == ["saved", "scan"])
        }
    }

    // Duplicates of documents with the longest names, by the document and by the library: ENAMETOOLONG instead of a copy.
    // (TehShrike/backup-bear-notes issue 13.)
    @Test(arguments: [Name.long, .longEmoji, .emoji, .number, .trailingSpace, .trailingDot])
    func aDocumentWithALongNameIsDuplicatedUnderAShorterOne(name: Name) async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent(name.name + ".quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            try document.addSheet("edited")
            let first = try await document.duplicate()
            let second = try await document.duplicate()
            #expect(first.fileURL != second.fileURL)
            #expect(try await Folio.savedTitles(at: first.fileURL) == ["edited", "saved"])
            #expect(try await Folio.savedTitles(at: second.fileURL) == ["edited", "saved"])
            try await document.close()
            let library = DocumentLibrary(folder: folder)
            let third = try await library.duplicate(url.path)
            #expect(try await Folio.savedTitles(at: URL(fileURLWithPath: third)).count == 2)
            let made = try await library.create(named: name.name, model: Folio.model)
            #expect(FileManager.default.fileExists(atPath: made))
            #expect(try await library.entries().count == 5)
        }
    }

    // A rename that changes only the case of a letter, or only the form of an accent: “already exists”.
    // (TeamAmaze/AmazeFileManager issue 3587, netdcy/FlowVision issue 63.)
    @Test(arguments: [
        ("notes", "Notes"), ("Caf\u{e9}", "Cafe\u{301}"), ("Cafe\u{301}", "Caf\u{e9}"), ("a", "a "),
    ])
    func aDocumentIsRenamedByCaseOrFormOnly(old: String, new: String) async throws {
        try await withProgramFolder { folder in
            func names() throws -> [[UInt8]] {
                try FileManager.default.contentsOfDirectory(atPath: folder.path).map {
                    Array($0.utf8)
                }
            }
            let oldURL = folder.appendingPathComponent(old + ".quire")
            let newURL = folder.appendingPathComponent(new + ".quire")
            let document = try await Folio.make(at: oldURL, titles: ["saved"])
            try document.addSheet("edited")
            try await document.move(to: newURL)
            #expect(try names() == [Array((new + ".quire").utf8)])
            #expect(Array(document.fileURL.lastPathComponent.utf8) == Array((new + ".quire").utf8))
            try await document.close()
            let library = DocumentLibrary(folder: folder)
            let back = try await library.rename(newURL.path, to: old)
            #expect(
                Array((back as NSString).lastPathComponent.utf8) == Array((old + ".quire").utf8))
            #expect(try names() == [Array((old + ".quire").utf8)])
            // While it is open in this process.
            let again = try await Folio.open(oldURL)
            try again.addSheet("again")
            try await library.rename(oldURL.path, to: new)
            #expect(try names() == [Array((new + ".quire").utf8)])
            #expect(Array(again.path.utf8) == Array(newURL.path.utf8))
            try again.addSheet("more")
            try await again.close()
            #expect(try names() == [Array((new + ".quire").utf8)])
            #expect(
                try await Folio.savedTitles(at: newURL) == ["again", "edited", "more", "saved"])
        }
    }

    // Two documents whose names differ only in the form of an accent, as a folder that was synchronized between a Mac and Linux has
    // them: the one was shown twice, or saving one changed the other. (basicmachines-co/basic-memory issue 1275,
    // doublecmd/doublecmd pull request 2747.)
    @Test func documentsWhoseNamesDifferInFormOnlyAreTwo() async throws {
        try await withProgramFolder { folder in
            let composed = folder.appendingPathComponent("Caf\u{e9}.quire")
            let decomposed = folder.appendingPathComponent("Cafe\u{301}.quire")
            let first = try await Folio.make(at: composed, titles: ["composed"])
            let second = try await Folio.make(at: decomposed, titles: ["decomposed"])
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder.path).count == 2)
            try first.addSheet("more")
            try second.addSheet("more")
            try await first.save()
            try await second.save()
            let entries = try await DocumentLibrary(folder: folder).entries()
            #expect(Set(entries.map { Array($0.path.utf8) }).count == 2)
            #expect(Set(entries.compactMap(\.uuid)).count == 2)
            // Moving one to the name of the other is refused, and changes nothing.
            #expect(await errorCode { try await first.move(to: decomposed) } == .alreadyExists)
            #expect(await errorCode { try await first.save(as: decomposed) } == .alreadyExists)
            #expect(
                await errorCode { try await first.save(as: decomposed, replacing: true) } == .locked
            )
            try await first.close()
            try await second.close()
            #expect(try await Folio.savedTitles(at: composed) == ["composed", "more"])
            #expect(try await Folio.savedTitles(at: decomposed) == ["decomposed", "more"])
            // A coordinated read of one does not ask for the other.
            let reopened = try await Folio.open(composed)
            try reopened.addSheet("unsaved")
            try await FileCoordinator().coordinate(readingItemAt: decomposed.path) { path in
                #expect(Array(path.utf8) == Array(decomposed.path.utf8))
            }
            #expect(reopened.hasUnsavedChanges)
            _ = try await DocumentLibrary(folder: folder).duplicate(decomposed.path)
            #expect(reopened.hasUnsavedChanges)
            try await reopened.close(discardingChanges: true)
        }
    }
}

extension DocumentLibrary {
    /// Deletes a document to the trash and puts it back under a name; its path.
    fileprivate func trashed(_ path: String, as url: URL) async throws -> String {
        let named = try await rename(path, to: url.deletingPathExtension().lastPathComponent)
        let item = try await trash(named)
        let found = Trash().items(besides: folder).first { $0.path == item.path }
        return try Trash().restore(found ?? item)
    }
}
