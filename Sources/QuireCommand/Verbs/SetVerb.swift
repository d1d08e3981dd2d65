import ArgumentParser
import Quire

/// `quire set PATH ID… k=v…` and `quire set PATH [ENTITY] --where F k=v…`
struct SetVerb: DocumentVerb {
    static let name = "set"
    static let abstract = "Changes objects."
    static let discussion = """
        Name objects by their identifiers, or an entity and a condition. With a condition the entity may be \
        left out if only one has the keys that are set. Values are written as for insert.

        EXAMPLES:
          quire set Library.quire Book/p1 rating=4.5 isbn=
          quire set Library.quire Book --where 'year < 1800' subjects=classics
        """
    static let access = DocumentSession.Access.write

    @Argument(
        help: ArgumentHelp("Identifiers or an entity, and values.", valueName: "ID|ENTITY|k=v"))
    var words: [String] = []

    @OptionGroup var filter: FilterOption

    func validate() throws {
        try Assignment.checkSpaces(words)
        _ = try Assignment.all(words.filter(Assignment.isOne))
        if !words.contains(where: Assignment.isOne) {
            throw ValidationError("Specify what to set: key=value.")
        }
        let subjects = words.filter { !Assignment.isOne($0) }
        if filter.format == nil && subjects.isEmpty {
            throw ValidationError("Specify the objects to change: their identifiers, or --where.")
        }
        if filter.format != nil && subjects.count > 1 {
            throw ValidationError("With --where, name one entity and no identifiers.")
        }
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let assignments = try Assignment.all(words.filter(Assignment.isOne))
        let subjects = words.filter { !Assignment.isOne($0) }
        let objects: [ManagedObject]
        if let predicate = try filter.predicate {
            let entity =
                try subjects.first.map { try document.layout.requireEntity(named: $0) }
                ?? onlyEntity(with: assignments.map(\.key), in: document.layout)
            objects = Array(
                try document.context.fetch(FetchRequest(entity.name, predicate: predicate)))
            // A wrong key is wrong even if it would have been set on no object.
            if objects.isEmpty {
                for assignment in assignments {
                    _ = try assignment.resolved(for: entity, in: document)
                }
            }
        } else {
            objects = try document.objects(named: subjects)
        }
        // Everything is checked before anything is changed; entities may differ from object to object.
        var changes: [String: [PropertyChange]] = [:]
        for entity in Dictionary(grouping: objects, by: \.resolvedEntity.name).values.map(
            \.[0].resolvedEntity)
        {
            changes[entity.name] = try assignments.map {
                try $0.resolved(for: entity, in: document)
            }
        }
        for object in objects {
            for change in changes[object.resolvedEntity.name] ?? [] { try change.apply(to: object) }
        }
        return Reply { try ChangeReply("Changed") { objects.map(\.objectID) }.print($0) }
    }

    /// The entity whose objects have all the keys, if that is clear.
    private func onlyEntity(with keys: [String], in layout: ResolvedModel) throws -> ResolvedEntity
    {
        let entities = layout.entities.filter { entity in
            keys.allSatisfy { entity.properties[$0] != nil }
        }
        let topmost = entities.filter { entity in
            !entities.contains { $0.number == entity.superentityNumber }
        }
        let listed = keys.joined(separator: ", ")
        guard let entity = topmost.first else {
            throw QuireError(.unknownKey, "No entity has \(listed).")
        }
        guard topmost.count == 1 else {
            let names = topmost.map(\.name).joined(separator: " and ")
            throw Failure(
                sentence: "\(names) have \(listed); name the entity before --where.",
                status: .usage)
        }
        return entity
    }
}
