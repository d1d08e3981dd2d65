/// Reads the rows of a leaf, and what continues them in other pages.
struct RowReader {
    /// A row that was found.
    struct Row {
        let rowID: Int64
        var values: [DatabaseValue]

        /// Whether no value was in a page that is gone.
        var isWhole: Bool {
            values.allSatisfy { value in
                if case .lost = value { return false }
                return true
            }
        }
    }

    let pages: DatabasePages
    let encoding: DatabaseRecord.TextEncoding
    /// How many bytes may still be read from pages that continue rows. A damaged file may make many rows claim the same
    /// pages; reading all of it several times over is as far as that is believed.
    private var budget: Int

    init(_ pages: DatabasePages) {
        self.pages = pages
        let code =
            pages.hasMagic && pages.header.count >= 60
            ? pages.header.bigEndian32(at: 56) : 1
        encoding = DatabaseRecord.TextEncoding(rawValue: code) ?? .utf8
        budget = 64 << 20 &+ pages.byteCount.multipliedReportingOverflow(by: 4).partialValue
    }

    /// The rows of a leaf in the order of their keys.
    ///
    /// - Returns: The rows, and the number of those that make no sense; `nil` if the page is no leaf of a table.
    mutating func rows(ofLeaf number: Int) -> (rows: [Row], damaged: Int)? {
        guard let bytes = pages.page(number),
            let page = TreePage(bytes, number: number, usableSize: pages.usableSize),
            page.kind == .tableLeaf
        else { return nil }
        var rows: [Row] = []
        rows.reserveCapacity(page.cellCount)
        var damaged = 0
        for index in 0..<page.cellCount {
            guard let cell = page.cell(index, greatestSize: pages.byteCount),
                let values = DatabaseRecord.values(
                    of: record(of: cell), size: cell.size, encoding: encoding)
            else {
                damaged += 1
                continue
            }
            rows.append(Row(rowID: cell.rowID, values: values))
        }
        return (rows, damaged)
    }

    /// The bytes of a record, as many as there are.
    private mutating func record(of cell: TreePage.Cell) -> [UInt8] {
        var bytes = Array(cell.local)
        guard var next = cell.overflow else { return bytes }
        // Every page brings some, so this ends even if the chain is a circle.
        while bytes.count < cell.size, budget > 0, let page = pages.page(next) {
            let count = min(cell.size - bytes.count, pages.usableSize - 4)
            bytes += page[4..<4 + count]
            budget -= count
            next = Int(page.bigEndian32(at: 0))
        }
        return bytes
    }
}
