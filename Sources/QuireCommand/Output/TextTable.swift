import Quire

/// Rows of texts in aligned columns.
struct TextTable {
    /// The side of a column's texts.
    enum Alignment { case left, right }

    /// A column; without a side, numbers are on the right.
    typealias Column = (name: String, alignment: Alignment?)

    /// The widths of columns, and whether texts are cut to them even where the line would fit.
    fileprivate struct Layout {
        var columns: [Column]
        var widths: [Int]
        var isNarrow = false
    }

    /// The columns' names and sides.
    let columns: [Column]
    /// The rows, each with a text per column.
    var rows: [[String]]
    /// Whether the first line has the names of the columns.
    var hasHeader = true
    /// The width of the terminal, or `nil` if lines may have any length.
    var maximumWidth = Output.terminalWidth

    /// The width to which texts are padded at most, so that a long one does not lengthen every line.
    static let maximumPadding = 200
    /// The width below which texts are not cut, however narrow the terminal is.
    static let minimumWidth = 4
    private static let gap = "  "

    init(_ columns: [Column], rows: [[String]] = []) {
        self.columns = columns
        self.rows = rows
    }

    /// The table, each line with its line end.
    var text: String { text(layout) }

    fileprivate func text(_ layout: Layout) -> String {
        let header = hasHeader ? [columns.map(\.name)] : []
        return (header + rows).map { line($0, layout) }.joined()
    }

    /// The lines of the table, without their ends.
    var lines: [String] {
        text.split(separator: "\n", omittingEmptySubsequences: false).dropLast().map(String.init)
    }

    /// Columns as wide as the widest of their texts, or, on a terminal that is too narrow, the widest ones less.
    fileprivate var layout: Layout {
        var widths = columns.map { hasHeader ? Self.width(Self.shown($0.name)) : 0 }
        for row in rows {
            for (index, text) in row.enumerated() {
                widths[index] = max(widths[index], Self.width(Self.shown(text)))
            }
        }
        var layout = Layout(columns: columns, widths: widths)
        for index in columns.indices where columns[index].alignment == nil {
            let texts = rows.lazy.map { $0[index] }.filter { !$0.isEmpty }
            let isNumeric = !texts.isEmpty && texts.allSatisfy(Self.isNumber)
            layout.columns[index].alignment = isNumeric ? .right : .left
        }
        if maximumWidth == nil {
            layout.widths = widths.map { min($0, Self.maximumPadding) }
        } else {
            layout.widths = fitted(widths)
            layout.isNarrow = layout.widths != widths
        }
        return layout
    }

    /// Widths with which a line fits the terminal: the narrow columns keep theirs, the wide ones share what is left.
    private func fitted(_ widths: [Int]) -> [Int] {
        guard let maximumWidth else { return widths }
        var room = maximumWidth - Self.gap.count * (widths.count - 1)
        if widths.reduce(0, +) <= room { return widths }
        var fitted = widths
        for (count, index) in widths.indices.sorted(by: { widths[$0] < widths[$1] }).enumerated() {
            fitted[index] = min(
                widths[index], max(room / (widths.count - count), Self.minimumWidth))
            room -= fitted[index]
        }
        return fitted
    }

    /// A row with its line end. A text that is wider than its column moves what comes after it, if the line still fits.
    fileprivate func line(_ row: [String], _ layout: Layout) -> String {
        var cells = row.map(Self.shown)
        var widths = cells.map(Self.width)
        let limits =
            layout.isNarrow ? layout.widths : fitted(zip(widths, layout.widths).map { max($0, $1) })
        for index in row.indices where widths[index] > limits[index] {
            cells[index] = Columns(cells[index]).cut(to: limits[index])
            widths[index] = Self.width(cells[index])
        }
        var line = ""
        for (index, cell) in cells.enumerated() {
            let padding = String(
                repeating: " ", count: max(layout.widths[index] - widths[index], 0))
            line += layout.columns[index].alignment == .right ? padding + cell : cell + padding
            if index + 1 < row.count { line += Self.gap }
        }
        while line.last == " " { line.removeLast() }
        return line + "\n"
    }

    private static func width(_ text: String) -> Int {
        let bytes = text.utf8
        return bytes.allSatisfy { $0 < 0x80 } ? bytes.count : Columns(text).count
    }

    private static func isNumber(_ text: String) -> Bool {
        text.utf8.allSatisfy { "0123456789+-.eE".utf8.contains($0) } && Double(text) != nil
    }

    /// A text on one line; a terminal must not obey what a document holds.
    static func shown(_ text: String) -> String { TerminalText.line(line(text)) }

    /// A text on one line.
    static func line(_ text: String) -> String {
        let isPlain = text.utf8.allSatisfy { $0 >= 0x20 && $0 < 0x7F }
        return isPlain ? text : String(text.map { isControl($0) ? " " : $0 })
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
struct TableOutput: RowWriter {
    private var table: TextTable
    private var layout: TextTable.Layout?
    private var keptSize = 0
    private let sentence: String?
    private let output: Output

    /// The number of rows that decide about the widths, and their size in bytes.
    static let firstRowCount = 1000
    static let firstRowsSize = 1 << 20

    init(
        _ columns: [TextTable.Column], ifEmpty sentence: String? = nil, isList: Bool = false,
        to output: Output
    ) {
        table = TextTable(columns)
        table.hasHeader = output.hasHeader && !isList
        table.maximumWidth = isList ? nil : output.width
        self.sentence = sentence
        self.output = output
    }

    mutating func add(_ texts: Texts, _ members: Members, _ fields: Fields) throws {
        try add(texts())
    }

    /// Prints a row, or keeps it until the widths are known.
    mutating func add(_ row: [String]) throws {
        if let layout { return try output.print(raw: table.line(row, layout)) }
        table.rows.append(row)
        keptSize += row.reduce(0) { $0 + $1.utf8.count }
        if table.rows.count == Self.firstRowCount || keptSize > Self.firstRowsSize { try settle() }
    }

    /// Prints what was kept.
    mutating func finish() throws {
        if layout != nil { return }
        if table.rows.isEmpty, let sentence { return try output.print(sentence) }
        try settle()
    }

    private mutating func settle() throws {
        let layout = table.layout
        self.layout = layout
        try output.print(raw: table.text(layout))
        table.rows = []
    }
}
