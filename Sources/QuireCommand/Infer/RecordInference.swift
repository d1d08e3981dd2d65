import Foundation
import Quire
import QuireDocuments

/// Infers a model from records: the rows of a CSV file, or the objects of a JSON file with the objects in them.
///
/// An object in a record becomes a related object of an entity of its own. Objects with an `id` that comes again with the same
/// content are one object. The texts of an array are related objects with the attribute `value`.
struct RecordInference {
    private let source: RereadableFile
    private let format: ImportRows.Format
    private let delimiter: UInt8?
    private let root: Record
    private var result = InferredImport()
    private var entityNames = UniqueNames()
    private var mappings: [String: [String: String]] = [:]

    /// Objects of the same kind.
    private final class Record {
        let name: String
        var members: [String: Member] = [:]
        /// The names of the members, in the order of their first appearance.
        var order: [String] = []
        var count = 0
        /// The hashes of whole objects by those of their identifiers; `nil` if one has none, or two contents.
        var contents: [Int: Int]? = [:]
        var isRepeated = false

        init(name: String) { self.name = name }
    }

    private final class Member {
        var type: InferredType
        /// The number of objects that have a value.
        var count = 0
        var record: Record?
        var isArray = false
        /// The values in arrays.
        var elements: InferredType
        var hasScalar = false
        var hasRepeats = false
        /// The line of the first value.
        var line = 0

        init(name: String, of entity: String) {
            type = InferredType(column: name, of: entity)
            elements = InferredType(column: "", of: "")
        }
    }

    /// - Parameters:
    ///   - format: One of the formats of files.
    ///   - entity: The name of the records' entity; `nil` for that of the file.
    /// - Throws: `QuireError` with code `invalidFormat`, or `unsupported` for what no model has.
    static func infer(
        from source: RereadableFile, _ format: ImportRows.Format, delimiter: UInt8?,
        entity: String?, progress: Progress? = nil
    ) throws -> InferredImport {
        let name = entity ?? InferredNames.entity(ModelSource.versionName(of: source.path))
        var inference = RecordInference(
            source: source, format: format, delimiter: delimiter, root: Record(name: name))
        try inference.read(progress)
        try inference.build()
        return inference.result
    }

    private init(
        source: RereadableFile, format: ImportRows.Format, delimiter: UInt8?, root: Record
    ) {
        self.source = source
        self.format = format
        self.delimiter = delimiter
        self.root = root
    }

    // MARK: - Reading

    private func read(_ progress: Progress?) throws {
        try source.requireNotUTF16()
        func add(_ node: JSONNode) throws {
            guard case .object(let members) = node.content else {
                throw error(node, "expected an object, but found \(node.kind)")
            }
            try self.add(members, node, to: root)
            progress?.completedUnitCount += 1
        }
        switch format {
        case .json: try JSONReader.forEachElement(of: source.bytes(), file: source.path, add)
        case .jsonl: try JSONReader.forEachValue(of: source.bytes(), file: source.path, add)
        case .csv, .tsv: try readTable(progress)
        }
    }

    private func readTable(_ progress: Progress?) throws {
        let delimiter = delimiter ?? UInt8(ascii: format == .tsv ? "\t" : ",")
        var reader = try CSVReader(source.bytes(), file: source.path, delimiter: delimiter)
        let members = try reader.header().fields.map {
            try member($0.text.trimmingCharacters(in: .whitespaces), of: root, line: 1)
        }
        while let row = try reader.next() {
            root.count += 1
            for (field, member) in zip(row.fields, members) {
                if field.text.isEmpty && !field.isQuoted { continue }
                member.type.add(text: field.text)
                member.count += 1
            }
            progress?.completedUnitCount += 1
        }
    }

    private func add(_ members: [JSONNode.Member], _ node: JSONNode, to record: Record) throws {
        record.count += 1
        if record !== root { addIdentity(of: members, to: record) }
        for entry in members {
            let member = try member(entry.name, of: record, line: entry.value.line)
            switch entry.value.content {
            case .null: continue
            case .object(let inner):
                try addObject(inner, entry.value, to: member, named: entry.name)
            case .array(let elements):
                member.isArray = true
                try addElements(elements, to: member, named: entry.name)
            default:
                member.type.add(entry.value)
                member.hasScalar = true
            }
            member.count += 1
            if (member.record != nil || member.isArray) && member.hasScalar
                || member.record != nil && member.elements.count > 0
            {
                throw error(
                    entry.value,
                    "“\(entry.name)” is \(entry.value.kind) here, but has another type in other objects; specify a model with --model"
                )
            }
        }
    }

    private func addObject(
        _ members: [JSONNode.Member], _ node: JSONNode, to member: Member, named name: String
    ) throws {
        let record = member.record ?? Record(name: InferredNames.entity(name))
        member.record = record
        try add(members, node, to: record)
    }

    private func addElements(
        _ elements: [JSONNode], to member: Member, named name: String
    ) throws {
        var texts: Set<String> = []
        for element in elements {
            switch element.content {
            case .object(let inner): try addObject(inner, element, to: member, named: name)
            case .null: continue
            case .array:
                throw error(element, "an array inside an array cannot be imported")
            case .string(let text):
                member.elements.add(element)
                if !texts.insert(text).inserted { member.hasRepeats = true }
            default:
                member.elements.add(element)
                member.hasRepeats = true
            }
        }
    }

    /// Notes the content of the object with an identifier.
    private func addIdentity(of members: [JSONNode.Member], to record: Record) {
        guard record.contents != nil, record.contents?.count ?? 0 < 1_000_000,
            let id = members.first(where: { $0.name == "id" })?.value, !id.isStructured
        else {
            record.contents = nil
            return
        }
        var (idHasher, hasher) = (Hasher(), Hasher())
        id.hash(into: &idHasher)
        for member in members.sorted(by: { $0.name < $1.name }) {
            hasher.combine(member.name)
            member.value.hash(into: &hasher)
        }
        let (key, content) = (idHasher.finalize(), hasher.finalize())
        if let known = record.contents?[key] {
            record.isRepeated = true
            if known != content { record.contents = nil }
        } else {
            record.contents?[key] = content
        }
    }

    private func member(_ name: String, of record: Record, line: Int) throws -> Member {
        if let member = record.members[name] { return member }
        if record.order.count >= InferredImport.maximumColumnCount {
            throw QuireError(
                .unsupported,
                "\(source.path), line \(line): more than \(InferredImport.maximumColumnCount) columns or members; specify a model with --model.",
                file: source.path, position: line)
        }
        let member = Member(name: name, of: record.name)
        member.line = line
        record.members[name] = member
        record.order.append(name)
        return member
    }

    private func error(_ node: JSONNode, _ sentence: String) -> QuireError {
        QuireError(
            .unsupported, "\(source.path), line \(node.line): \(sentence).", file: source.path,
            position: node.line)
    }

    // MARK: - Building

    private mutating func build() throws {
        let name = entityNames.add(root.name)
        try addEntity(root, name, relationships: [], of: "")
        result.passes = [
            InferredImport.Pass(
                entity: name, source: .file(source, format, delimiter: delimiter),
                mappings: mappings, ignored: ignored)
        ]
    }

    /// The columns that are not imported, by entity.
    private var ignored: [String: Set<String>] = [:]

    /// Adds the entity of a record, and those of the records in it.
    ///
    /// - Parameters:
    ///   - inverses: The relationships to the records that it is in.
    ///   - parent: The name of the entity that it is in.
    private mutating func addEntity(
        _ record: Record, _ name: String, relationships inverses: [RelationshipDescription],
        of parent: String
    ) throws {
        let index = result.model.entities.count
        if index == InferredImport.maximumEntityCount {
            throw QuireError(
                .unsupported,
                "“\(source.path)” contains too many kinds of objects; at most \(InferredImport.maximumEntityCount) can be imported.",
                file: source.path)
        }
        result.model.entities.append(EntityDescription(name: name))
        var names = UniqueNames()
        for inverse in inverses { _ = names.add(inverse.name) }
        var properties: [PropertyDescription] = []
        var constraints: [[String]] = []
        var identifier: String?
        for column in record.order {
            guard let member = record.members[column] else { continue }
            if column == "id", member.type.areObjectIdentifiers {
                ignored[name, default: []].insert(column)
                continue
            }
            if member.isArray && member.record == nil && member.elements.count == 0
                || member.record?.order.isEmpty == true
            {
                ignored[name, default: []].insert(column)
                result.notes.append("“\(column)” of \(name) has no values and is omitted.")
                continue
            }
            let property = names.add(InferredNames.property(column))
            if column == "id" { identifier = property }
            var target = property
            if let inner = member.record {
                properties.append(
                    .relationship(
                        try relationship(property, member, inner, in: name, record.count)))
            } else if member.isArray {
                let (relationship, isShared) = try valueRelationship(property, member, in: name)
                properties.append(.relationship(relationship))
                if isShared { target += ".value" }
            } else {
                var attribute = AttributeDescription(name: property, type: member.type.type)
                attribute.isOptional = record.count == 0 || member.count < record.count
                properties.append(.attribute(attribute))
                if member.count == record.count, member.type.isUnique {
                    constraints.append([property])
                }
            }
            if target != column { mappings[name, default: [:]][column] = target }
            if property != column, property.lowercased() != column.lowercased() {
                result.notes.append("“\(column)” of \(name) becomes \(property).")
            }
        }
        if Self.isShared(record), !inverses.isEmpty, let identifier { constraints = [[identifier]] }
        result.model.entities[index].properties =
            properties + inverses.map { .relationship($0) }
        result.model.entities[index].uniquenessConstraints = constraints
    }

    /// Whether objects with the same identifier are one object.
    private static func isShared(_ record: Record) -> Bool {
        record.isRepeated && record.contents != nil
    }

    /// The relationship to the objects in the objects of an entity, whose entity it adds.
    private mutating func relationship(
        _ property: String, _ member: Member, _ inner: Record, in entity: String, _ count: Int
    ) throws -> RelationshipDescription {
        let isShared = Self.isShared(inner)
        let destination = entityNames.add(inner.name)
        var relationship = try addRelationship(
            property, to: destination, isList: member.isArray, isShared: isShared, in: entity
        ) { inference, inverse in
            try inference.addEntity(inner, destination, relationships: [inverse], of: entity)
        }
        if !member.isArray { relationship.isOptional = member.count < count }
        return relationship
    }

    /// The relationship to objects with one value each, whose entity it adds.
    private mutating func valueRelationship(
        _ property: String, _ member: Member, in entity: String
    ) throws -> (RelationshipDescription, isShared: Bool) {
        let isShared = !member.hasRepeats
        let destination = entityNames.add(InferredNames.entity(property))
        if !isShared { mappings[destination, default: [:]][""] = "value" }
        let relationship = try addRelationship(
            property, to: destination, isList: true, isShared: isShared, in: entity
        ) { inference, inverse in
            var description = EntityDescription(name: destination)
            var value = AttributeDescription(name: "value", type: member.elements.type)
            value.isOptional = false
            description.properties = [.attribute(value), .relationship(inverse)]
            if isShared { description.uniquenessConstraints = [["value"]] }
            inference.result.model.entities.append(description)
        }
        return (relationship, isShared)
    }

    /// A relationship of an entity, and its inverse, with which a closure adds the other entity.
    private mutating func addRelationship(
        _ property: String, to destination: String, isList: Bool, isShared: Bool,
        in entity: String, _ add: (inout Self, RelationshipDescription) throws -> Void
    ) throws -> RelationshipDescription {
        let name = InferredNames.property(
            isShared ? InferredNames.plural(of: entity) : entity)
        var inverse = RelationshipDescription(
            name: name == "value" ? "owner" : name, destination: entity, inverse: property)
        inverse.isToMany = isShared
        var relationship = RelationshipDescription(
            name: property, destination: destination, inverse: inverse.name)
        relationship.isToMany = isList
        relationship.isOrdered = isList
        relationship.deleteRule = isShared ? .nullify : .cascade
        try add(&self, inverse)
        return relationship
    }
}

extension JSONNode {
    fileprivate var isStructured: Bool {
        switch content {
        case .null, .array, .object: true
        default: false
        }
    }

    fileprivate func hash(into hasher: inout Hasher) {
        switch content {
        case .null: hasher.combine(0)
        case .boolean(let truth): hasher.combine(truth)
        case .number(let text): hasher.combine(text)
        case .string(let text):
            hasher.combine(1)
            hasher.combine(text)
        case .array(let elements):
            hasher.combine(elements.count)
            for element in elements { element.hash(into: &hasher) }
        case .object(let members):
            hasher.combine(members.count)
            for member in members.sorted(by: { $0.name < $1.name }) {
                hasher.combine(member.name)
                member.value.hash(into: &hasher)
            }
        }
    }
}
