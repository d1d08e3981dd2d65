import Quire

// An import looks everything up and checks it before it changes anything: the rows' values, the objects that they refer to, in the
// document, in the file or yet to be made, and the objects that they match.

extension ObjectImport {
    /// The match of a row; `nil` if it is inserted.
    func match(
        _ row: ImportRow, at index: Int, among known: inout [[AttributeValue]: ImportMatching.Owner]
    ) throws -> Match? {
        guard let matching else { return nil }
        let values = try matching.values(of: row)
        guard let owner = known[values] else {
            if !matching.insertsOthers { return .skipped }
            known[values] = .row(index, row.entity, place: row.place)
            return nil
        }
        switch matching.conflict {
        case .skip: return .skipped
        case .fail: throw matching.conflictError(row, values, owner)
        case .update: break
        }
        switch owner {
        case .several: throw matching.conflictError(row, values, owner)
        case .object(let id):
            return .updates(Target(row.entity, existing: id, place: row.place, values: [:]))
        case .row(let first, let entity, let place):
            let target =
                rowTargets[first] ?? Target(entity, existing: nil, place: place, values: [:])
            target.become(entity, of: (first, place))
            rowTargets[first] = target
            return .updates(target)
        }
    }

    func check(_ row: ImportRow) throws {
        for related in row.relationships {
            if case .rows(let rows) = related.objects {
                for nested in rows { try check(nested, in: related.relationship) }
                continue
            }
            do {
                switch related.objects {
                case .identifiers(let text):
                    // Checked here, so that applying it later cannot fail.
                    _ = try PropertyChange(
                        .set, related.relationship,
                        document.objects(named: text, for: related.relationship), of: row.entity)
                case .values(let objects):
                    for values in objects {
                        try check(values, of: related.relationship, place: row.place)
                    }
                case .rows: break
                }
            } catch {
                throw ImportRow.locate(error, row.place, column: related.column)
            }
        }
    }

    /// Checks an object in a row's object. One with a unique value is an object of the document, or is made once; any other is
    /// a new object.
    func check(
        _ row: ImportRow, in relationship: ResolvedEntity.Relationship
    ) throws {
        guard let key = try nestedKey(of: row) else {
            try check(row)
            try row.validate(in: document.layout.inverse(of: relationship))
            nestedCounts[row.entity.name, default: 0] += 1
            return
        }
        var values = try row.attributes.map { ($0.key, try row.coerce($0.value, for: $0.key)) }
            .sorted { $0.0 < $1.0 }
        values.removeAll { $0.0 == key.key }
        do {
            try check([(key.key, key.value)] + values, of: relationship, place: row.place)
        } catch {
            throw ImportRow.locate(error, row.place)
        }
        guard let target = targets[key], target.isNew, target.nested == nil,
            !row.relationships.isEmpty
        else { return }
        target.nested = row
        try check(row)
    }

    /// The key of an object in a row's object: the value of the attribute of a uniqueness constraint.
    func nestedKey(of row: ImportRow) throws -> TargetKey? {
        for constraint in row.entity.uniquenessConstraints where constraint.properties.count == 1 {
            let key = constraint.properties[0]
            let value = try row.value(of: key)
            if !value.isNull {
                return TargetKey(entity: row.entity.number, key: key, value: value)
            }
        }
        return nil
    }

    func key(
        _ values: [(key: String, value: AttributeValue)],
        of relationship: ResolvedEntity.Relationship
    ) -> TargetKey {
        TargetKey(
            entity: document.layout.destination(of: relationship).number, key: values[0].key,
            value: values[0].value)
    }

    func check(
        _ values: [(key: String, value: AttributeValue)],
        of relationship: ResolvedEntity.Relationship, place: String
    ) throws {
        let destination = document.layout.destination(of: relationship)
        let key = key(values, of: relationship)
        let target: Target
        if let known = targets[key] {
            target = known
        } else {
            target = try newTarget(key, in: destination, place: place)
            targets[key] = target
            order.append(target)
        }
        for (name, value) in values.dropFirst() where !value.isNull {
            let present =
                try target.values[name]
                ?? target.objectID.map { try document.context.existingObject(with: $0) }?
                .attributeValue(forKey: name) ?? .null
            guard present.isNull || present == value else {
                throw QuireError(
                    .invalidValue,
                    "“\(name)” of \(destination.name) “\(text(values[0].value))” is already "
                        + "\(text(present)), not \(text(value)).",
                    entity: destination.name, property: name)
            }
            if present.isNull { target.values[name] = value }
        }
    }

    private func newTarget(
        _ key: TargetKey, in destination: ResolvedEntity, place: String
    ) throws -> Target {
        let found = try document.objects(of: destination, with: [(key.key, key.value)])
        guard found.count < 2 else {
            throw QuireError(
                .invalidValue,
                "Several \(destination.name) objects have the \(key.key) “\(text(key.value))”; specify the identifier of one.",
                entity: destination.name, property: key.key)
        }
        if let object = found.first {
            return Target(destination, existing: object.objectID, place: place, values: [:])
        }
        _ = try document.layout.requireConcreteEntity(named: destination.name)
        return Target(
            destination, existing: nil, place: place, values: [key.key: key.value])
    }

    /// Checks an object that rows refer to, and that is neither in the document nor in the file.
    func checkCanBeMade(_ target: Target) throws {
        do {
            try ImportRow.validate(target.values, of: target.entity)
        } catch var error as QuireError {
            let value = targets.first { $0.value === target }.map {
                "the \($0.key.key) “\(text($0.key.value))”"
            }
            error.message =
                "No \(target.entity.name) in the document or the file has \(value ?? "this value"), and a new one would not be valid: \(error.message)"
            throw ImportRow.locate(error, target.place)
        }
    }

    // MARK: - References within the file

    /// Finds the rows that others of the file refer to, before or after them.
    func findTargets(in rows: ImportRows) throws {
        var keys: [(entity: ResolvedEntity, key: String)] = []
        for key in Set(targets.keys.map { TargetKey(entity: $0.entity, key: $0.key, value: .null) })
        {
            // Numbers begin at 1.
            let entity = document.layout.entities[key.entity - 1]
            if !entity.subtree.overlaps(rows.entity.subtree) { continue }
            keys.append((entity, key.key))
        }
        if keys.isEmpty { return }
        var index = 0
        try rows.forEach { row in
            defer { index += 1 }
            for (entity, key) in keys where entity.subtree.contains(row.entity.number) {
                let value = try row.value(of: key)
                if value.isNull { continue }
                let targetKey = TargetKey(entity: entity.number, key: key, value: value)
                guard let target = targets[targetKey] else { continue }
                if let match = matches[index] {
                    // Its object is there already, and may get the value by this row.
                    if target.isNew, target.row == nil, case .updates(let owner) = match {
                        targets[targetKey] = owner
                        order.removeAll { $0 === target }
                    }
                    continue
                }
                do {
                    targets[targetKey] = try resolve(target, key, value, as: row, at: index)
                } catch {
                    throw ImportRow.locate(error, row.place, column: key)
                }
            }
        }
    }

    /// The target that a row is.
    private func resolve(
        _ target: Target, _ key: String, _ value: AttributeValue, as row: ImportRow, at index: Int
    ) throws -> Target {
        guard target.isNew, target.row == nil else {
            let other =
                target.row.map { $0.place }
                ?? "\(target.objectID?.shortDescription ?? "") in the document"
            throw QuireError(
                .invalidValue,
                "The reference to the \(key) “\(text(value))” in \(target.place) is ambiguous: both this row and \(other) have it.",
                entity: row.entity.name, property: key)
        }
        for (name, value) in target.values {
            let present = try row.attributes[name].map { try row.coerce($0, for: name) } ?? .null
            guard present.isNull || present == value else {
                throw QuireError(
                    .invalidValue,
                    "“\(name)” is \(text(present)) here, but \(text(value)) in \(target.place).",
                    entity: row.entity.name, property: name)
            }
        }
        guard let same = rowTargets[index] else {
            target.become(row.entity, of: (index, row.place))
            rowTargets[index] = target
            return target
        }
        // Others refer to the row by another attribute, or as a sub-entity.
        for (name, value) in target.values {
            guard same.values[name] ?? value == value else {
                throw QuireError(
                    .invalidValue,
                    "“\(name)” is \(text(same.values[name] ?? .null)) in \(same.place), but \(text(value)) in \(target.place).",
                    entity: row.entity.name, property: name)
            }
            same.values[name] = value
        }
        order.removeAll { $0 === target }
        return same
    }

    private func text(_ value: AttributeValue) -> String {
        PrintedValue.attribute(value, .undefined).text
    }
}
