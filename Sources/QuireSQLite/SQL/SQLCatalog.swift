/// What a real store says of itself: its tables with their columns, and Core Data's numbering of entities.
package struct SQLCatalog: Sendable {
    /// A row of `Z_PRIMARYKEY`.
    package struct Entity: Sendable {
        package let number: Int
        package let name: String
        package let superentityNumber: Int

        package init(number: Int, name: String, superentityNumber: Int) {
            self.number = number
            self.name = name
            self.superentityNumber = superentityNumber
        }
    }

    /// A table as it is.
    package struct Table: Sendable {
        let name: String
        let columns: [SQLColumn]
        /// The columns' names as they are, by their names in upper case.
        let columnNames: [String: String]

        package init(name: String, columns: [SQLColumn]) {
            self.name = name
            self.columns = columns
            columnNames = Dictionary(
                columns.map { ($0.name.uppercased(), $0.name) },
                uniquingKeysWith: { first, _ in first })
        }

        /// The column of a name, whatever its case.
        func column(_ name: String) -> String? { columnNames[name.uppercased()] }

        /// The only column that has a name followed by digits and is not among others.
        func suffixedColumn(_ base: String, without used: Set<String>) -> String? {
            let base = base.uppercased()
            let found = columnNames.filter { upper, name in
                !used.contains(name) && SQLCatalog.isSuffixed(upper, base: base)
            }
            return found.count == 1 ? found.first?.value : nil
        }
    }

    /// The entities by number, without those of the persistent history.
    let entities: [Entity]
    /// The tables by their names in upper case.
    let tables: [String: Table]
    /// The names of views, in upper case. Stores have none.
    let views: Set<String>

    /// The greatest number that is not reserved for the persistent history.
    package static let greatestEntityNumber = 15_999

    package init(entities: [Entity], tables: [Table], views: [String] = []) {
        self.views = Set(views.map { $0.uppercased() })
        self.entities = entities.filter {
            $0.number > 0 && $0.number <= Self.greatestEntityNumber
        }.sorted { $0.number < $1.number }
        self.tables = Dictionary(
            tables.map { ($0.name.uppercased(), $0) }, uniquingKeysWith: { first, _ in first })
    }

    /// The table of a name, whatever its case.
    func table(_ name: String) -> Table? { tables[name.uppercased()] }

    /// Whether a name is another followed by any number of digits.
    static func isSuffixed(_ name: String, base: String) -> Bool {
        name.hasPrefix(base)
            && name.utf8.dropFirst(base.utf8.count).allSatisfy { $0 >= 0x30 && $0 <= 0x39 }
    }
}
