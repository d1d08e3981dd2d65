import Quire

/// Checks a store against its model, through the store's own interface: what a context reads is what is
/// checked.
struct DocumentCheck {
    /// Something that is wrong.
    struct Problem {
        /// What sort of thing.
        enum Kind: String {
            /// The file itself is damaged.
            case integrity
            /// Counting objects and listing them give different numbers.
            case count
            /// A value cannot be read.
            case value
            /// A relationship leads to an object that is not there, or to one of the wrong entity.
            case reference
            /// A relationship and its inverse contradict each other.
            case inverse
        }

        var kind: Kind
        /// The object's URI.
        var object: String?
        /// A sentence.
        var message: String
    }

    /// What was found.
    struct Report {
        var objects = 0
        var values = 0
        var references = 0
        var externalFiles = 0
        var problems: [Problem] = []
    }

    private let store: any PersistentStore
    private let layout: ModelLayout
    private var report = Report()
    /// Every object, by entity number.
    private var objects: [Int: Set<ManagedObjectID>] = [:]
    /// Pairs of a one-to-one or many-to-many relationship, as they are seen from one side.
    private var pairs: [Int: [Int: Set<Pair>]] = [:]
    private let fileProblems: [String]

    private struct Pair: Hashable {
        var from: ManagedObjectID
        var to: ManagedObjectID
    }

    @MainActor
    init(_ document: DocumentSession) throws {
        store = document.store
        layout = document.store.layout
        report.externalFiles = try document.externalData().files
        fileProblems = try document.fileProblems()
    }

    /// Checks everything.
    ///
    /// - Throws: What reading the store throws where it makes going on pointless.
    func run() throws -> Report {
        var check = self
        for problem in fileProblems {
            check.report.problems.append(Problem(kind: .integrity, object: nil, message: problem))
        }
        let entities = layout.entities.filter { !$0.isAbstract }
        for entity in entities { try check.list(entity) }
        for entity in entities { try check.read(entity) }
        check.compareInverses()
        return check.report
    }

    private func request(_ entity: EntityLayout) -> FetchRequest {
        var request = FetchRequest(entity.name)
        request.includesSubentities = false
        return request
    }

    private mutating func list(_ entity: EntityLayout) throws {
        let rows = try store.rows(matching: request(entity))
        let ids = Set(rows.indices.map { rows[$0].objectID })
        let count = try store.count(matching: request(entity))
        if ids.count != count {
            report.problems.append(
                Problem(
                    kind: .count, object: nil,
                    message:
                        "\(entity.name) has \(count) objects by count but \(ids.count) by list."))
        }
        objects[entity.number] = ids
        report.objects += ids.count
    }

    private mutating func read(_ entity: EntityLayout) throws {
        let rows = try store.rows(matching: request(entity))
        for index in rows.indices {
            let row = rows[index]
            for slot in entity.slots where slot.isStored {
                do {
                    let value = try row.value(at: slot.index)
                    if slot.attribute != nil && !value.isNull { report.values += 1 }
                    if case .objectID(let target) = value, let index = slot.relationshipIndex {
                        follow(entity.relationships[index], from: row.objectID, to: target)
                    }
                } catch {
                    add(.value, row.objectID, "“\(slot.name)” cannot be read: \(error)")
                }
            }
            for index in entity.toManyRelationships
            where !entity.relationships[index].description.isTransient {
                let relationship = entity.relationships[index]
                let related = try store.relatedRows(of: row.objectID, through: relationship)
                for target in related.indices {
                    follow(relationship, from: row.objectID, to: related[target].objectID)
                }
            }
        }
    }

    private mutating func follow(
        _ relationship: EntityLayout.Relationship, from object: ManagedObjectID,
        to target: ManagedObjectID
    ) {
        report.references += 1
        let destination = layout.destination(of: relationship)
        guard let entity = layout.entity(named: target.entityName),
            destination.subtree.contains(entity.number)
        else {
            add(
                .reference, object,
                "“\(relationship.name)” leads to \(target.shortDescription), which is no "
                    + "\(destination.name)")
            return
        }
        guard objects[entity.number]?.contains(target) == true else {
            add(
                .reference, object,
                "“\(relationship.name)” leads to \(target.shortDescription), which is not there")
            return
        }
        guard relationship.inverseIndex != nil else { return }
        pairs[relationship.ownerNumber, default: [:]][relationship.index, default: []]
            .insert(Pair(from: object, to: target))
    }

    private mutating func compareInverses() {
        for (owner, relationships) in pairs.sorted(by: { $0.key < $1.key }) {
            for (index, forward) in relationships.sorted(by: { $0.key < $1.key }) {
                let relationship = layout.entity(number: owner).relationships[index]
                guard let inverse = layout.inverse(of: relationship) else { continue }
                let backward = pairs[inverse.ownerNumber]?[inverse.index] ?? []
                let missing = forward.filter {
                    !backward.contains(Pair(from: $0.to, to: $0.from))
                }
                for pair in missing.sorted(by: { PropertyPath.inOrder($0.from, $1.from) }) {
                    add(
                        .inverse, pair.from,
                        "“\(relationship.name)” leads to \(pair.to.shortDescription), whose "
                            + "“\(inverse.name)” does not lead back")
                }
            }
        }
    }

    private mutating func add(_ kind: Problem.Kind, _ object: ManagedObjectID, _ sentence: String) {
        report.problems.append(
            Problem(
                kind: kind, object: object.uriRepresentation,
                message: "\(object.shortDescription): \(sentence)"
                    + (sentence.hasSuffix(".") ? "" : ".")))
    }
}
