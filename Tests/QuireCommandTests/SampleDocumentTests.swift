import Foundation
import QuireDocuments
import Testing

@testable import QuireCommand

/// The documents in SampleDocs are whole, and what their sources say.
@Suite struct SampleDocumentTests {
    private let samples = Checkout.path + "/SampleDocs"

    @Test(arguments: ["Library.quire", "Notes.quire"])
    func sampleIsWhole(_ name: String) throws {
        let output = try CommandShell().output("quire check \"$ROOT/SampleDocs/\(name)\"")
        #expect(output.hasSuffix("all is well.\n"))
    }

    @Test func libraryHoldsTheBooksOfTheFile() throws {
        var reader = try CSVReader(
            ByteReader(Data(contentsOf: URL(fileURLWithPath: samples + "/books.csv"))),
            file: "books.csv")
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
        let output = try CommandShell().output(
            "quire fetch \"$ROOT/SampleDocs/Library.quire\" Book --columns title,author.name --json"
        )
        let books = try JSONDecoder().decode([Book].self, from: Data(output.utf8))
        #expect(books.count >= 50)
        #expect(books.map(\.title) == rows.dropFirst().map { $0.fields[titles].text })
        #expect(books.map(\.author) == rows.dropFirst().map { $0.fields[authors].text })
    }

    @Test func notesHoldThePictures() throws {
        struct Attachment: Decodable {
            var name: String
            var data: Data
        }
        let output = try CommandShell().output(
            "quire fetch \"$ROOT/SampleDocs/Notes.quire\" Attachment --sort name --json")
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
