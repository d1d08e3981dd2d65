import Quire

/// Rows of texts in aligned columns.
struct TextTable {
    /// The side of a column's texts.
    enum Alignment { case left, right }

    /// The columns' names and sides.
    var columns: [(name: String, alignment: Alignment)]
    /// The rows, each with a text per column.
    var rows: [[String]] = []

    /// The longest text that is shown whole.
    static let maximumWidth = 48

    init(_ columns: [(name: String, alignment: Alignment)]) { self.columns = columns }

    /// The table, each line with its line end.
    var text: String {
        let widths = widths
        return ([columns.map(\.name)] + rows).map { line($0, widths) }.joined()
    }

    /// The lines of the table, without their ends.
    var lines: [String] {
        text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
    }

    /// The widths of the columns, as wide as the widest of their texts.
    fileprivate var widths: [Int] {
        var widths = columns.map { Self.shown($0.name).count }
        for row in rows {
            for (index, text) in row.enumerated() {
                widths[index] = max(widths[index], Self.shown(text).count)
            }
        }
        return widths
    }

    /// A row with its line end. A text that is wider than its column moves what comes after it.
    fileprivate func line(_ row: [String], _ widths: [Int]) -> String {
        var line = ""
        for (index, text) in row.enumerated() {
            let cell = Self.shown(text)
            let padding = String(repeating: " ", count: max(widths[index] - cell.count, 0))
            line += columns[index].alignment == .right ? padding + cell : cell + padding
            if index + 1 < row.count { line += "  " }
        }
        while line.last == " " { line.removeLast() }
        return line + "\n"
    }

    /// A text on one line that is not too long; a terminal must not obey what a document holds.
    static func shown(_ text: String) -> String {
        var line = ""
        var count = 0
        for character in text {
            if count == maximumWidth {
                line.removeLast()
                return TerminalText.line(line) + "…"
            }
            line.append(isControl(character) ? " " : character)
            count += 1
        }
        return TerminalText.line(line)
    }

    /// A text of any length on one line.
    static func line(_ text: String) -> String {
        String(text.map { isControl($0) ? " " : $0 })
    }

    /// Names with their descriptions beside them, which are read, not compared, and so printed whole.
    static func lines(_ described: [(name: String, description: String)]) -> [String] {
        let width = described.map(\.name.count).max() ?? 0
        return described.map { name, description in
            name + String(repeating: " ", count: width - name.count + 2) + description
        }
    }

    private static func isControl(_ character: Character) -> Bool {
        character.unicodeScalars.contains { $0.properties.generalCategory == .control }
    }
}

/// Prints a table of any length as its rows come: the columns are as wide as the first rows need.
struct TableOutput {
    private var table: TextTable
    private var widths: [Int]?
    private let output: Output

    /// The number of rows that decide about the widths.
    static let firstRowCount = 1000

    init(_ columns: [(name: String, alignment: TextTable.Alignment)], to output: Output) {
        table = TextTable(columns)
        self.output = output
    }

    /// Prints a row, or keeps it until the widths are known.
    mutating func add(_ row: [String]) throws {
        if let widths { return try output.print(raw: table.line(row, widths)) }
        table.rows.append(row)
        if table.rows.count == Self.firstRowCount { try settle() }
    }

    /// Prints what was kept. Call it after the last row.
    mutating func finish() throws {
        if widths == nil { try settle() }
    }

    private mutating func settle() throws {
        widths = table.widths
        try output.print(raw: table.text)
        table.rows = []
    }
}
