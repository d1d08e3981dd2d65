internal import QuireModel
internal import QuireSystem

extension SQLiteConnection {
    /// The error of an index that cannot be made because objects have the same values where it demands that they be unique:
    /// it names the entity, the properties, and two of the objects.
    func duplicatesError(_ failure: SQLiteFailure, _ schema: SQLSchema) -> QuireError {
        guard let found = schema.uniqueProperties(inMessage: failure.message),
            let entity = schema.layout.entity(named: found.entity)
        else {
            return failure.error(path: path, schema: schema)
        }
        let names = found.properties.map { "“\($0)”" }
        let isSingle = names.count == 1
        var sentence =
            "“\(found.entity).\(found.properties[0])”"
            + names.dropFirst().map { " and \($0)" }.joined()
            + " must be unique\(isSingle ? "" : " together"), and "
        // What cannot be read is not worth another error.
        let example = try? duplicates(found.table, found.columns, schema)
        if let example, example.objects.count == 2 {
            let values = zip(found.properties, example.values).compactMap { name, value in
                Self.text(value, of: name, in: entity)
            }
            sentence += "\(example.objects[0]) and \(example.objects[1]) both have "
            sentence +=
                values.count == names.count
                ? values.joined(separator: " and ")
                : "the same \(isSingle ? "value" : "values")"
        } else {
            sentence += "several objects have the same \(isSingle ? "value" : "values")"
        }
        return QuireError(
            .constraintConflict,
            "\(sentence) in “\(path)”; change one of them, or the model's constraint.",
            subject: .init(
                entity: found.entity, property: found.properties[0], file: path),
            underlying: failure)
    }

    /// Two objects with the same values in some columns, and the values.
    private func duplicates(
        _ table: String, _ columns: [String], _ schema: SQLSchema
    ) throws -> (objects: [String], values: [String]) {
        let names = columns.map { "\(name: $0)" as SQLFragment }
        let isThere = names.map { "\($0) NOT NULL" as SQLFragment }.joined(by: " AND ")
        let isSame = names.map { "t.\($0) = s.\($0)" as SQLFragment }.joined(by: " AND ")
        let query: SQLFragment =
            """
            WITH f (k) AS (SELECT min(Z_PK) FROM \(name: table) WHERE \(isThere) \
            GROUP BY \(names.joined(by: ", ")) HAVING count(*) > 1 ORDER BY 1 LIMIT 1) \
            SELECT t.Z_PK, t.Z_ENT, \(names.map { "t.\($0)" as SQLFragment }.joined(by: ", ")) \
            FROM f JOIN \(name: table) s ON s.Z_PK = f.k JOIN \(name: table) t ON \(isSame) \
            ORDER BY t.Z_PK LIMIT 2
            """
        return try withStatement(query.sql) { statement in
            var objects: [String] = []
            var values: [String] = []
            while try statement.step() {
                let number = schema.modelNumber(ofStoreNumber: statement.integer(1))
                let entity = number.map { schema.layout.entity(number: $0).name } ?? "?"
                objects.append("\(entity)/p\(statement.integer(0))")
                values = columns.indices.map { statement.text(Int32($0) + 2) }
            }
            return (objects, values)
        }
    }

    /// A stored value as people write it; `nil` if what is stored is not that.
    private static func text(
        _ value: String, of property: String, in entity: EntityLayout
    ) -> String? {
        guard let slot = entity.slot(named: property) else { return nil }
        switch entity.slots[slot].attribute?.type {
        case .string:
            return value.count > 80 ? "“\(value.prefix(80))…”" : "“\(value)”"
        case .integer16, .integer32, .integer64, .double, .float, .decimal: return value
        default: return nil
        }
    }
}
