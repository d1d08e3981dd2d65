internal import QuireModel

extension SQLSchema {
    /// The entity and properties that SQLite's message about a broken constraint means, such as
    /// `UNIQUE constraint failed: ZCAR.ZNUMBERPLATE`.
    func uniqueProperties(
        inMessage message: String
    ) -> (entity: String, properties: [String], table: String, columns: [String])? {
        guard let colon = message.firstIndex(of: ":") else { return nil }
        let fields = message[message.index(after: colon)...].split(separator: ",").map { part in
            part.drop { $0 == " " }.split(separator: ".", maxSplits: 1).map(String.init)
        }
        guard let first = fields.first, first.count == 2,
            let table = tables.first(where: { $0.name.uppercased() == first[0].uppercased() })
        else { return nil }
        let columns = fields.compactMap { $0.count == 2 ? $0[1].uppercased() : nil }
        // The entity that declares the constraint has all its columns; the topmost such one is meant.
        for number in layout.entity(number: table.rootNumber).subtree {
            let entity = layout.entity(number: number)
            var names: [String: String] = [:]
            for (slot, column) in zip(entity.slots, self.entity(number: number).columns) {
                if let column { names[column.name.uppercased()] = slot.name }
            }
            let properties = columns.compactMap { names[$0] }
            if properties.count == columns.count {
                return (entity.name, properties, table.name, columns)
            }
        }
        return nil
    }
}
