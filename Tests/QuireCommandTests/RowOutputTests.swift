import Foundation
import Quire
import Testing

@testable import QuireCommand

@Suite struct TextTableTests {
    private func lines(_ rows: [[String]], width: Int?) -> [String] {
        var table = TextTable([("id", .left), ("year", .right), ("title", .left)])
        table.rows = rows
        table.maximumWidth = width
        return table.lines
    }

    @Test func columnsAreAligned() {
        #expect(
            lines([["Book/p1", "1815", "Emma"], ["Book/p12", "8", ""]], width: nil)
                == ["id        year  title", "Book/p1   1815  Emma", "Book/p12     8"])
    }

    @Test func controlCharactersDoNotReachTheTerminal() {
        #expect(TextTable.shown("a\u{1B}[2Jb\nc") == "a [2Jb c")
    }

    @Test func longTextsAreNotCutWithoutATerminal() {
        let long = String(repeating: "x", count: 5000)
        #expect(lines([["p1", "1", long]], width: nil).last == "p1     1  \(long)")
        // They do not lengthen every line.
        let before = lines([[long, "1", "a"], ["p2", "2", "b"]], width: nil)
        #expect(before[1] == "\(long)     1  a")
        #expect(before[2].count < 300)
    }

    @Test func widestColumnsAreCutToTheTerminal() {
        let long = String(repeating: "x", count: 60)
        let rows = [["Book/p1", "1815", long], ["Book/p2", "8", "short"]]
        #expect(lines(rows, width: 75)[1] == "Book/p1  1815  \(long)")
        #expect(
            lines(rows, width: 30) == [
                "id       year  title", "Book/p1  1815  xxxxxxxxxxxxxx…", "Book/p2     8  short",
            ])
        let two = lines([[long, "1", long], ["a", "2", "b"]], width: 41)
        #expect(two[1].count == 41)
        #expect(two[1].filter { $0 == "…" }.count == 2)
        #expect(two[2].hasPrefix("a  "))
    }

    @Test func wideCharactersTakeTwoColumns() {
        let rows = [["本", "1", "日本語日本語日本語"], ["a", "2", "b"]]
        #expect(
            lines(rows, width: 20)
                == ["id  year  title", "本     1  日本語日…", "a      2  b"])
    }

    @Test func veryNarrowTerminalKeepsAFewCharacters() {
        let lines = lines([["Book/p1", "1815", "Emma Woodhouse"]], width: 3)
        #expect(lines[1] == "Boo…  1815  Emm…")
    }

    @Test(arguments: [("12", "12"), ("-1.5e3", "7"), ("", "7")])
    func numbersOfAColumnWithoutASideAreOnTheRight(_ first: String, _ second: String) {
        var table = TextTable([("number", nil), ("x", .left)])
        table.rows = [[first, "a"], [second, "b"]]
        #expect(table.lines[2] == String(repeating: " ", count: 6 - second.count) + second + "  b")
        table.rows.append(["a1", "c"])
        #expect(table.lines[2].hasPrefix(second))
    }
}

@Suite struct RowOutputTests {
    private func printed(
        _ format: RowFormat, _ value: JSONValue, text: String = "", width: Int? = nil
    ) throws -> String {
        var bytes: [UInt8] = []
        let output = Output(format, hasHeader: false, width: width) { bytes += $0 }
        var rows = RowOutput([("a", .left)], members: ["a"], to: output)
        try rows.add([text], .object(["a": value]))
        try rows.finish()
        try output.flush()
        return String(decoding: bytes, as: UTF8.self)
    }

    @Test(arguments: [
        (JSONValue.null, "\n", "\n"), (.string(""), "\"\"\n", "\"\"\n"),
        (.string("\u{1B}é\\\r\n"), "\"\u{1B}é\\\r\n\"\n", "\"\u{1B}é\\\r\n\"\n"),
        (.string("a,b"), "\"a,b\"\n", "a,b\n"), (.string("a\tb"), "a\tb\n", "\"a\tb\"\n"),
        (.array([]), "\n", "\n"), (.array([.integer(1), .string("b")]), "1;b\n", "1;b\n"),
        (.array([.null]), "[null]\n", "[null]\n"),
        (.object(["b": .boolean(true)]), "\"{\"\"b\"\": true}\"\n", "\"{\"\"b\"\": true}\"\n"),
        (.double(.infinity), "Infinity\n", "Infinity\n"), (.boolean(false), "false\n", "false\n"),
    ])
    func valuesAreWholeInCSVAndTSV(_ value: JSONValue, _ csv: String, _ tsv: String) throws {
        #expect(try printed(.csv, value) == csv)
        #expect(try printed(.tsv, value) == tsv)
    }

    @Test func markdownCellsStayOnTheirLine() throws {
        let line = try printed(.markdown, .null, text: "a|b\\|<b>\r\n\u{1B}[1m").split(
            separator: "\n"
        ).last
        #expect(line == "| a\\|b\\\\\\|&lt;b><br>\\u001b[1m |")
    }

    @Test func elementsOfCompositesAreColumns() throws {
        var bytes: [UInt8] = []
        let output = Output(.csv) { bytes += $0 }
        var rows = RowOutput([], members: ["p.x", "p.q.y", "p.z"], to: output)
        try rows.add(
            [], .object(["p": .object(["x": .integer(1), "q": .object(["y": .integer(2)])])]))
        try rows.finish()
        try output.flush()
        #expect(String(decoding: bytes, as: UTF8.self) == "p.x,p.q.y,p.z\n1,2,\n")
    }

    @Test func largeRowsAreNotKeptToDecideAboutWidths() throws {
        var size = 0
        let output = Output(.table) { size += $0.count }
        var table = TableOutput([("a", .left)], to: output)
        for _ in 0..<20 { try table.add([String(repeating: "x", count: 100_000)]) }
        #expect(size > 1_000_000)
    }

    @Test func wideRowAfterTheFirstOnesFitsTheTerminal() throws {
        var lines: [String] = []
        let output = Output(.table, width: 40) {
            lines += String(decoding: $0, as: UTF8.self).split(separator: "\n").map(String.init)
        }
        var table = TableOutput([("a", .right), ("b", .left)], to: output)
        for number in 0..<TableOutput.firstRowCount { try table.add(["\(number)", "x"]) }
        try table.add(["7", String(repeating: "y", count: 60)])
        try table.add(["8", "z"])
        try table.finish()
        try output.flush()
        #expect(lines.count == TableOutput.firstRowCount + 3)
        #expect(lines[1001] == "  7  " + String(repeating: "y", count: 34) + "…")
        #expect(lines[1002] == "  8  z")
    }

    /// On a terminal of 40 columns, which `script` makes.
    @Test func tablesFitTheTerminal() throws {
        let shell = try CommandShell()
        _ = try shell.output(
            "quire new L.quire --template Library && quire insert L.quire Book title=$(printf 'x%.0s' $(seq 1 90))"
        )
        let command = "quire fetch L.quire Book --columns title,year"
        let lines = try shell.output(
            "COLUMNS=40 script -qefc '\(command)' /dev/null < /dev/null | tr -d '\\r'"
        ).split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.last == "Book/p1  xxxxxxxxxxxxxxxxxxxxxxxx…")
        #expect(
            try shell.output("COLUMNS=40 \(command)").contains(String(repeating: "x", count: 90)))
        let hostile = try shell.output(
            "quire set L.quire Book/p1 title=$'\\e[2J' > out; script -qefc '\(command) --csv' /dev/null < /dev/null"
        )
        #expect(hostile.contains("\\u001b[2J"))
    }

    @Test func interruptedOutputLeavesTheOldFile() throws {
        let shell = try CommandShell()
        _ = try shell.output(
            "quire new L.quire --template Library && quire insert L.quire Book title=a && echo old > out.csv"
        )
        let result = try shell.run(
            "ulimit -f 0; quire fetch L.quire Book --csv -o out.csv --replace")
        #expect(result.code == 1, "\(result.output)")
        #expect(try shell.output("cat out.csv; ls -A") == "old\nL.quire\nout.csv\n")
    }
}

@Suite struct TextStyleTests {
    private func isUsed(_ environment: [String: String]) throws -> Bool {
        let pipe = Pipe()
        return TextStyle.isUsed(
            on: pipe.fileHandleForWriting.fileDescriptor, environment: environment)
    }

    @Test func pipesHaveStylesOnlyIfForced() throws {
        #expect(try !isUsed(["TERM": "xterm"]))
        #expect(try isUsed(["CLICOLOR_FORCE": "1"]))
        #expect(try !isUsed(["CLICOLOR_FORCE": "0"]))
        #expect(try !isUsed(["CLICOLOR_FORCE": "1", "NO_COLOR": "1"]))
    }

    @Test func linesHaveColoursOnATerminal() throws {
        let shell = try CommandShell()
        _ = try shell.output(
            """
            quire new L.quire --template Library; quire versions keep L.quire
            quire insert L.quire Author name=$'a\\e[2J'; quire delete L.quire Friend/p1
            """)
        let terminal = { (command: String) in
            "TERM=xterm script -qec '\(command)' /dev/null < /dev/null | tr -d '\\r' | tr '\\033' '^'"
        }
        let diff = try shell.output(terminal("quire diff L.quire"))
        #expect(diff.contains("^[1m+++ L.quire^[0m\n"), "\(diff)")
        #expect(diff.contains("^[32m+ Author/p1^[0m\n"), "\(diff)")
        #expect(diff.contains("^[31m- Friend/p1^[0m\n"), "\(diff)")
        #expect(diff.contains("\\u001b[2J"), "\(diff)")
        let log = try shell.output(terminal("quire log L.quire"))
        #expect(log.contains("^[32m   insert Author/p1^[0m\n"), "\(log)")
        let check = try shell.output(terminal("quire check L.quire"))
        #expect(check.hasPrefix("^[32mChecked"), "\(check)")
        let error = try shell.output(terminal("quire info none.quire"))
        #expect(error == "^[31mquire: The document “none.quire” does not exist.^[0m\n")
        #expect(try shell.output("quire diff L.quire").contains("\n+ Author/p1\n"))
        #expect(try !shell.output("NO_COLOR=1 " + terminal("quire diff L.quire")).contains("^["))
    }
}
