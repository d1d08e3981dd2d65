import Foundation
import Quire
import Testing

@testable import QuireCommand

@Suite struct CSVReaderTests {
    private func read(_ text: String) throws -> [[String]] {
        try CSVReader.read(Data(text.utf8), file: "a.csv").map { $0.fields.map(\.text) }
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
        let rows = try CSVReader.read(Data("a,b\n,\"\"\n".utf8), file: "a.csv")
        #expect(rows[1].fields.map(\.isQuoted) == [false, true])
    }

    @Test func rowsKnowTheirLines() throws {
        let rows = try CSVReader.read(Data("a\n\"1\n2\"\n3\n".utf8), file: "a.csv")
        #expect(rows.map(\.line) == [1, 2, 4])
    }

    @Test func emptyLinesAtTheEndAreNoRows() throws {
        #expect(try read("a\n1\n\n\r\n") == [["a"], ["1"]])
        #expect(try read("") == [])
    }

    @Test func unequalRowsAreRefusedWithTheirLine() throws {
        #expect(
            try message(of: "a,b\n1,2\n3\n")
                == "a.csv, line 3: there is 1 field where the header has 2.")
    }

    @Test func missingClosingQuoteIsRefusedWhereTheFieldBegins() throws {
        #expect(
            try message(of: "a,b\n1,\"x\ny\nz")
                == "a.csv, line 2: field 2 has no closing quotation mark.")
    }

    @Test func textAfterClosingQuoteIsRefused() throws {
        #expect(
            try message(of: "a\n\"x\"y\n")
                == "a.csv, line 2: field 1 goes on after its closing quotation mark.")
    }

    @Test func quoteInsidePlainFieldIsRefused() throws {
        #expect(
            try message(of: "a\nx\"y\n").hasPrefix("a.csv, line 2: field 1 has a quotation mark"))
    }

    @Test func invalidUTF8IsRefused() throws {
        let error = #expect(throws: QuireError.self) {
            try CSVReader.read(Data([0x61, 0x0A, 0xFF, 0x0A]), file: "a.csv")
        }
        #expect(try #require(error).message == "a.csv, line 2: field 1 is not valid UTF-8.")
    }
}
