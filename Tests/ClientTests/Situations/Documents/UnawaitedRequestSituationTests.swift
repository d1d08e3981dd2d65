import Foundation
import Quire
import QuireDocuments
import Testing

/// Requests that a program makes without waiting for one another, as buttons of a window do.
@MainActor @Suite struct UnawaitedRequestSituationTests {
    @MainActor private final class Answers {
        var list: [String] = []
        func add(_ name: String) -> @MainActor @Sendable (QuireError?) -> Void {
            { self.list.append(name + ($0.map { ": " + $0.code.rawValue } ?? "")) }
        }
    }

    // The window closes, and so does the application that quits, and the document is opened again in between: it stayed open, or was
    // reopened by the end of the first. (karelia/BSManagedDocument issue 32.)
    @Test func closingTwiceAndOpeningBetweenIsAnsweredInOrder() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            try document.addSheet("edited")
            let answers = Answers()
            document.close(completionHandler: answers.add("close"))
            document.close(completionHandler: answers.add("close"))
            document.open(completionHandler: answers.add("open"))
            document.open(completionHandler: answers.add("open"))
            document.save(completionHandler: answers.add("save"))
            await withCheckedContinuation { done in
                document.close { error in
                    answers.add("close")(error)
                    done.resume()
                }
            }
            #expect(answers.list.count == 6)
            #expect(answers.list.last == "close")
            #expect(answers.list.first == "close")
            #expect(!document.isOpen)
            #expect(try await Folio.savedTitles(at: url) == ["edited", "saved"])
        }
    }

    // “Duplicate” and then at once “Close” or “Revert”: the duplicate of an edited document lacked the edits, and the additional
    // content. (karelia/BSManagedDocument issue 45.)
    @Test(arguments: ["close", "revert", "discard", "delete", "move", "save as"])
    func aDuplicateHasWhatWasThereWhenItWasAskedFor(next: String) async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            try document.additionalContent.write(Data("saved".utf8), at: "note.txt")
            try await document.save()
            try document.addSheet("edited", scan: Data(repeating: 7, count: 300_000))
            try document.additionalContent.write(Data("edited".utf8), at: "note.txt")

            let made: ManagedDocument = try await withCheckedThrowingContinuation { continuation in
                document.duplicate { result in
                    continuation.resume(with: result.mapError { $0 as any Error })
                }
                _ = try? document.addSheet("later")
                switch next {
                case "close": document.close { _ in }
                case "revert": document.revert { _ in }
                case "discard": document.close(discardingChanges: true) { _ in }
                case "move": document.move(to: folder.appendingPathComponent("B.quire")) { _ in }
                case "save as":
                    document.save(
                        to: folder.appendingPathComponent("B.quire"), for: .forCreating
                    ) { _ in }
                default: try? FileManager.default.removeItem(at: url)
                }
            }
            let copy = try #require(made as? Folio)
            #expect(copy.fileURL.lastPathComponent == "A 2.quire")
            try await copy.open()
            #expect(try copy.titles == ["edited", "saved"])
            #expect(try copy.sheet("edited")?["scan", as: Data.self]?.count == 300_000)
            #expect(try copy.additionalContent.data(at: "note.txt") == Data("edited".utf8))
            try await copy.close()
            if document.isOpen { try await document.close(discardingChanges: true) }
        }
    }

    // “Save As” to one place and then, before that has ended, to another: the first was left half written, or the document showed the
    // first and saved to the second. (lainsce/quilter issue 192.)
    @Test func savingAsTwicePlacesMakesBothAndGoesOnWithTheSecond() async throws {
        try await withProgramFolder { folder in
            let document = try await Folio.make(
                at: folder.appendingPathComponent("A.quire"), titles: ["saved"])
            try document.addSheet("edited")
            async let first: Void = document.save(as: folder.appendingPathComponent("B.quire"))
            async let second: Void = document.save(as: folder.appendingPathComponent("C.quire"))
            _ = try await (first, second)
            #expect(
                document.fileURL.lastPathComponent == "C.quire"
                    || document.fileURL.lastPathComponent == "B.quire")
            try document.addSheet("later")
            try await document.close()
            let last = document.fileURL
            for name in ["A", "B", "C"] {
                let url = folder.appendingPathComponent("\(name).quire")
                let expected =
                    name == "A"
                    ? ["saved"]
                    : url.path == last.path ? ["edited", "later", "saved"] : ["edited", "saved"]
                #expect(try await Folio.savedTitles(at: url) == expected, "\(name)")
            }
        }
    }

    // Saving to a URL twice with handlers, and an edit between: the second save must have the edit. (lainsce/quilter issue 192.)
    @Test func savingToTwoURLsWithHandlersIsDoneInOrder() async throws {
        try await withProgramFolder { folder in
            let document = try await Folio.make(
                at: folder.appendingPathComponent("A.quire"), titles: ["saved"])
            let answers = Answers()
            try document.addSheet("one")
            document.save(
                to: folder.appendingPathComponent("B.quire"), for: .forCreating,
                completionHandler: answers.add("B"))
            try document.addSheet("two")
            document.save(
                to: folder.appendingPathComponent("C.quire"), for: .forCreating,
                completionHandler: answers.add("C"))
            document.save(
                to: folder.appendingPathComponent("B.quire"), for: .forCreating,
                completionHandler: answers.add("B again"))
            try await document.close()
            #expect(answers.list == ["B", "C", "B again: alreadyExists"])
            #expect(document.fileURL.lastPathComponent == "C.quire")
            #expect(
                try await Folio.savedTitles(at: folder.appendingPathComponent("C.quire"))
                    == ["one", "saved", "two"])
            let b = try await Folio.savedTitles(at: folder.appendingPathComponent("B.quire"))
            #expect(b.contains("one"))
            #expect(
                try await Folio.savedTitles(at: folder.appendingPathComponent("A.quire")) == [
                    "saved"
                ])
        }
    }

    // A rename in the sidebar while the editor saves and a version is kept: the save went to the old name. (atom/atom issue 1896,
    // Zettlr/Zettlr issue 2347.)
    @Test func renamingSavingAndKeepingVersionsAtOnceLosesNothing() async throws {
        try await withProgramFolder { folder in
            let url = folder.appendingPathComponent("A.quire")
            let document = try await Folio.make(at: url, titles: ["saved"])
            let answers = Answers()
            for number in 1...6 {
                try document.addSheet("edit \(number)")
                document.move(
                    to: folder.appendingPathComponent("Name \(number).quire"),
                    completionHandler: answers.add("move"))
                if number % 2 == 0 { document.autosave(completionHandler: answers.add("save")) }
            }
            async let version = document.keepVersion(named: "in between")
            try document.addSheet("last")
            _ = try await version
            try await document.close()
            #expect(answers.list.allSatisfy { !$0.contains(":") }, "\(answers.list)")
            #expect(document.fileURL.lastPathComponent == "Name 6.quire")
            let names = try FileManager.default.contentsOfDirectory(atPath: folder.path)
            #expect(names == ["Name 6.quire"])
            let titles = try await Folio.savedTitles(at: document.fileURL)
            #expect(titles == (1...6).map { "edit \($0)" } + ["last", "saved"])
        }
    }

    // A reverted document whose save was still running: either the save or the revert won, and the screen showed the other.
    // (karelia/BSManagedDocument issue 32.)
    @Test func revertingDuringASaveKeepsTheSaveAndDropsLaterEdits() async throws {
        try await withProgramFolder { folder in
            let document = try await Folio.make(
                at: folder.appendingPathComponent("A.quire"), titles: ["saved"])
            let answers = Answers()
            try document.addSheet("in the save", scan: Data(repeating: 1, count: 2_000_000))
            document.save(completionHandler: answers.add("save"))
            try document.addSheet("dropped")
            try document.additionalContent.write(Data([1]), at: "dropped.txt")
            document.revert(completionHandler: answers.add("revert"))
            document.autosave(completionHandler: answers.add("autosave"))
            async let version = document.keepVersion()
            _ = try await version
            #expect(answers.list == ["save", "revert", "autosave"])
            #expect(try document.titles == ["in the save", "saved"])
            #expect(document.additionalContent.paths == [])
            #expect(!document.hasUnsavedChanges)
            try await document.close()
            #expect(try await Folio.savedTitles(at: document.fileURL) == ["in the save", "saved"])
        }
    }

    // Restoring a version while edits and saves go on: the edits before it were lost, or they came back over the restored version.
    // (frappe/drive issue 557.)
    @Test func restoringBetweenSavesKeepsWhatWasThereAsAVersion() async throws {
        try await withProgramFolder { folder in
            let document = try await Folio.make(
                at: folder.appendingPathComponent("A.quire"), titles: ["old"])
            let version = try await document.keepVersion(named: "old")
            try document.addSheet("new")
            let answers = Answers()
            document.save(completionHandler: answers.add("save"))
            try document.addSheet("newer")
            async let restored: Void = document.restore(version.id)
            async let again: Void = document.restore(version.id)
            _ = try await (restored, again)
            #expect(try document.titles == ["old"])
            #expect(!document.hasUnsavedChanges)
            try document.addSheet("after")
            try await document.close()
            #expect(try await Folio.savedTitles(at: document.fileURL) == ["after", "old"])

            // What was there can be had back.
            let reopened = try await Folio.open(document.fileURL)
            var found = false
            for kept in try await reopened.versions() {
                let checkout = try await reopened.checkOut(kept.id)
                let titles = try await Folio.savedTitles(at: URL(fileURLWithPath: checkout.path))
                checkout.close()
                if titles == ["new", "newer", "old"] { found = true }
            }
            #expect(found)
            try await reopened.close()
        }
    }
}
