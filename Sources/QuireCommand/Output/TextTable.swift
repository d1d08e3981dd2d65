/// Rows of texts in aligned columns.
struct TextTable {
    /// The side of a column's texts.
    enum Alignment { case left, right }

    /// The columns' names and sides.
    var columns: [(name: String, alignment: Alignment)]
    /// The rows, each with a text per column.
    var rows: [[String]] = []

    /// The longest text that is shown whole.
    static let greatestWidth = 48

    init(_ columns: [(name: String, alignment: Alignment)]) { self.columns = columns }

    /// The table, each line with its line end.
    var text: String {
        let cells = ([columns.map(\.name)] + rows).map { $0.map(Self.shown) }
        var widths = columns.map { _ in 0 }
        for row in cells {
            for (index, cell) in row.enumerated() { widths[index] = max(widths[index], cell.count) }
        }
        return cells.map { row in
            var line = ""
            for (index, cell) in row.enumerated() {
                let padding = String(repeating: " ", count: widths[index] - cell.count)
                line += columns[index].alignment == .right ? padding + cell : cell + padding
                if index + 1 < row.count { line += "  " }
            }
            while line.last == " " { line.removeLast() }
            return line + "\n"
        }.joined()
    }

    /// A text on one line that is not too long; a terminal must not obey what a document holds.
    static func shown(_ text: String) -> String {
        var line = ""
        var count = 0
        for character in text {
            if count == greatestWidth {
                line.removeLast()
                return line + "…"
            }
            line.append(isControl(character) ? " " : character)
            count += 1
        }
        return line
    }

    private static func isControl(_ character: Character) -> Bool {
        character.unicodeScalars.contains { $0.properties.generalCategory == .control }
    }
}
