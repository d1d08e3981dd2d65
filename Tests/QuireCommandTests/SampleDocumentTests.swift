import Foundation
import QuireDocuments
import Testing

@testable import QuireCommand

/// The documents in SampleDocs are whole, and are what their sources and README.md say.
@Suite struct SampleDocumentTests {
    private let samples = Checkout.path + "/SampleDocs"

    /// Runs commands in a copy of the samples. Git does not keep the permissions of the key file.
    private func shell() throws -> CommandShell {
        let shell = try CommandShell()
        _ = try shell.output("cp -r \"$ROOT/SampleDocs/.\" . && chmod go-w Diary.key")
        return shell
    }

    @Test(arguments: [
        "Library.quire", "Notes.quire", "Diary.quire --key-file Diary.key", "Journal.quire",
        "Garden.quire", "Recipes.xml", "Contacts.sqlite",
    ])
    func sampleIsWhole(_ arguments: String) throws {
        let output = try shell().output("quire check \(arguments)")
        #expect(output.hasSuffix("all is well.\n"))
    }

    @Test func commandsOfTheReadmePrintWhatItShows() throws {
        let readme = try String(contentsOfFile: samples + "/README.md", encoding: .utf8)
        let block = try #require(readme.components(separatedBy: "```console\n").dropFirst().first)
            .components(separatedBy: "```")[0]
        let transcript = Transcript(block)
        #expect(transcript.steps.count == 8)
        let actual = try transcript.run(
            after: "cp -r \"$ROOT/SampleDocs/.\" . && chmod go-w Diary.key")
        #expect(actual.text == block)
    }

    @Test func diaryIsLockedWithoutItsKey() throws {
        let result = try shell().run("quire fetch Diary.quire Entry")
        #expect(result.code == 5)
        #expect(result.output.contains("is protected (complete) and locked"))
    }

    @Test func journalHasVersionsAndAHistory() throws {
        let shell = try shell()
        let versions = try shell.output("quire versions list Journal.quire")
        #expect(versions.contains("as it came") && versions.contains("first week"))
        #expect(try shell.output("quire log Journal.quire").contains("delete Entry/p1"))
        let restored =
            "quire versions restore Journal.quire 'as it came' && quire check Journal.quire"
        #expect(try shell.output(restored).hasSuffix("all is well.\n"))
        #expect(try shell.output("quire fetch Journal.quire Entry --count") == "1\n")
    }

    @Test func gardenMigratesToTheVersionBesideIt() throws {
        let output = try shell().output(
            """
            quire migrate Garden.quire --model Garden.xcdatamodeld && quire check Garden.quire \
              && quire fetch Garden.quire Plant --where 'note != nil AND bed.plantCount > 1' --columns name
            """)
        #expect(output.contains("Garden.quire was migrated to Garden 2."))
        #expect(output.contains("all is well.\n"))
        #expect(output.hasSuffix("Plant/p3  Woodruff\n"))
    }

    @Test func contactsHaveNoTablesOfQuire() throws {
        let store = try Data(contentsOf: URL(fileURLWithPath: samples + "/Contacts.sqlite"))
        #expect(store.range(of: Data("Z_MODELCACHE".utf8)) != nil)
        #expect(store.range(of: Data("QUIRE_".utf8)) == nil)
        let output = try shell().output("quire model diff Contacts.momd Contacts.sqlite")
        #expect(output == "The models are the same.\n")
    }

    @Test func archiveExtractsToADocument() throws {
        let output = try shell().output(
            "quire extract Inventory.tar.zst I.quire && quire check I.quire")
        #expect(output.hasSuffix("all is well.\n"))
    }

    @Test func samplesAreSmall() throws {
        let files = try #require(FileManager.default.enumerator(atPath: samples))
        var bytes = 0
        for case let name as String in files {
            let attributes = try FileManager.default.attributesOfItem(atPath: samples + "/" + name)
            if attributes[.type] as? FileAttributeType == .typeRegular {
                bytes += attributes[.size] as? Int ?? 0
            }
        }
        #expect(bytes < 1_500_000)
    }

    @Test func libraryHoldsTheBooksOfTheFile() throws {
        var reader = try CSVReader(
            ByteReader(Data(contentsOf: URL(fileURLWithPath: samples + "/library.csv"))),
            file: "library.csv")
        var rows: [CSVReader.Row] = []
        while let row = try reader.next() { rows.append(row) }
        let titles = try #require(rows.first?.fields.firstIndex { $0.text == "title" })
        let authors = try #require(rows.first?.fields.firstIndex { $0.text == "author.name" })
        struct Book: Decodable {
            var title: String
            var author: String?
            enum CodingKeys: String, CodingKey {
                case title
                case author = "author.name"
            }
        }
        let output = try shell().output(
            "quire fetch Library.quire Book --columns title,author.name --json")
        let books = try JSONDecoder().decode([Book].self, from: Data(output.utf8))
        #expect(books.count >= 250)
        #expect(books.map(\.title) == rows.dropFirst().map { $0.fields[titles].text })
        #expect(books.map(\.author) == rows.dropFirst().map { $0.fields[authors].text })
    }

    @Test func everyBookOfTheLibraryHasACoverOfItsOwn() throws {
        struct Book: Decodable { var cover: Data }
        let output = try shell().output("quire fetch Library.quire Book --columns cover --json")
        let covers = try JSONDecoder().decodeBase64([Book].self, from: output).map(\.cover)
        #expect(covers.allSatisfy { $0.starts(with: [0x89, 0x50, 0x4E, 0x47]) })
        #expect(Set(covers).count > 250)
    }

    @Test func notesHoldThePictures() throws {
        struct Attachment: Decodable {
            var name: String
            var data: Data
        }
        let output = try shell().output("quire fetch Notes.quire Attachment --sort name --json")
        let attachments = try JSONDecoder().decodeBase64([Attachment].self, from: output)
        let files = ["chessboard.png", "julia.png", "mandelbrot.png"]
        #expect(attachments.map(\.name) == ["Chessboard", "Julia set", "Mandelbrot set"])
        for (attachment, file) in zip(attachments, files) {
            let picture = try Data(contentsOf: URL(fileURLWithPath: samples + "/pictures/" + file))
            #expect(attachment.data == picture, "\(file)")
        }
    }
}

extension JSONDecoder {
    fileprivate func decodeBase64<Value: Decodable>(
        _ type: Value.Type, from text: String
    ) throws -> Value {
        dataDecodingStrategy = .base64
        return try decode(type, from: Data(text.utf8))
    }
}
