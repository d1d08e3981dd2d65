import Foundation
import Quire
import QuireDocuments
import Testing

@testable import QuireCommand

@Suite struct CSVReaderTests {
    private func rows(_ bytes: some Sequence<UInt8>) throws -> [CSVReader.Row] {
        var reader = try CSVReader(ByteReader(Data(bytes)), file: "a.csv")
        var rows: [CSVReader.Row] = []
        while let row = try reader.next() { rows.append(row) }
        return rows
    }

    private func read(_ text: String) throws -> [[String]] {
        try rows(text.utf8).map { $0.fields.map(\.text) }
    }

    private func message(of text: String) throws -> String {
        let error = #expect(throws: QuireError.self) { try read(text) }
        return try #require(error).message
    }

    @Test func plainFieldsAreSplitAtCommas() throws {
        #expect(try read("a,b,c\n1,,3\n") == [["a", "b", "c"], ["1", "", "3"]])
    }

    @Test func lastLineNeedsNoLineEnd() throws {
        #expect(try read("a,b\r\n1,2") == [["a", "b"], ["1", "2"]])
    }

    @Test func quotedFieldsMayHoldCommasQuotesAndLineEnds() throws {
        #expect(try read("a\n\"x, \"\"y\"\"\nz\"\n") == [["a"], ["x, \"y\"\nz"]])
    }

    @Test func spacesBelongToTheField() throws {
        #expect(try read("a,b\n x , y\n") == [["a", "b"], [" x ", " y"]])
    }

    @Test func byteOrderMarkIsNoPartOfTheFirstField() throws {
        #expect(try read("\u{FEFF}a,b\n1,2\n") == [["a", "b"], ["1", "2"]])
    }

    @Test func emptyTextAndNoValueAreToldApart() throws {
        let rows = try rows("a,b\n,\"\"\n".utf8)
        #expect(rows[1].fields.map(\.isQuoted) == [false, true])
    }

    @Test func rowsKnowTheirLines() throws {
        let rows = try rows("a\n\"1\n2\"\n3\n".utf8)
        #expect(rows.map(\.line) == [1, 2, 4])
    }

    @Test func emptyLinesAtTheEndAreNoRows() throws {
        #expect(try read("a\n1\n\n\r\n") == [["a"], ["1"]])
        #expect(try read("") == [])
    }

    @Test func emptyLinesBeforeOthersAreRowsOfAnEmptyField() throws {
        let rows = try rows("a\n\n\r\n1\n".utf8)
        #expect(rows.map { $0.fields.map(\.text) } == [["a"], [""], [""], ["1"]])
        #expect(rows.map(\.line) == [1, 2, 3, 4])
    }

    /// Blocks end anywhere, also within a character, a line end and the byte order mark.
    @Test func aFileIsReadTheSameInBlocksOfAnySize() throws {
        let text = Array("\u{FEFF}a,é\r\n\"x\"\"\r\n\",😀\r\n\r\n".utf8)
        for size in 1...text.count {
            var rest = text[...]
            var reader = try CSVReader(
                ByteReader {
                    defer { rest = rest.dropFirst(size) }
                    return Array(rest.prefix(size))
                }, file: "a.csv")
            #expect(try reader.next()?.fields.map(\.text) == ["a", "é"], "blocks of \(size)")
            #expect(try reader.next()?.fields.map(\.text) == ["x\"\r\n", "😀"])
            #expect(try reader.next() == nil)
        }
    }

    /// Each used to be compared with all that come after it.
    @Test(.timeLimit(.minutes(1))) func manyEmptyLinesAreReadInLinearTime() throws {
        #expect(
            try rows("a\n".utf8 + Array(repeating: 10, count: 300_000) + "b".utf8).count == 300_002)
    }

    @Test func unequalRowsAreRefusedWithTheirLine() throws {
        #expect(
            try message(of: "a,b\n1,2\n3\n")
                == "a.csv, line 3: the row has 1 field, but the header has 2.")
    }

    @Test func missingClosingQuoteIsRefusedWhereTheFieldBegins() throws {
        #expect(
            try message(of: "a,b\n1,\"x\ny\nz")
                == "a.csv, line 2: field 2 has no closing quotation mark.")
    }

    @Test func textAfterClosingQuoteIsRefused() throws {
        #expect(
            try message(of: "a\n\"x\"y\n")
                == "a.csv, line 2: field 1 continues after its closing quotation mark.")
    }

    @Test func quoteInsidePlainFieldIsRefused() throws {
        #expect(
            try message(of: "a\nx\"y\n").hasPrefix("a.csv, line 2: field 1 has a quotation mark"))
    }

    @Test func invalidUTF8IsRefused() throws {
        let error = #expect(throws: QuireError.self) {
            try rows([0x61, 0x0A, 0xFF, 0x0A])
        }
        #expect(try #require(error).message == "a.csv, line 2: field 1 is not valid UTF-8.")
    }
}
