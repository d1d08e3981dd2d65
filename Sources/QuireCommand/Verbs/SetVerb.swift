import ArgumentParser
import Quire

/// `quire set PATH ID… k=v…` and `quire set PATH [ENTITY] --where F k=v…`
struct SetVerb: DocumentVerb {
    static let name = "set"
    static let abstract = "Changes objects."
    static let discussion = """
        Specify objects by their identifiers, or by an entity and a condition. With a condition, the entity may be \
        omitted if only one has all the keys. Values are written as for insert. A number or a date may also be an \
        expression of the object's properties, k=price*1.1. To-many relationships accept +k=… and -k=… to add and \
        remove objects; k=… replaces them all.

        EXAMPLES:
          quire set Library.quire Book/p1 rating=4.5 isbn=
          quire set Library.quire Book/p1 author.name='Jane Austen' +tags.name=classics
          quire set Library.quire Book --where 'year < 1800' price=price*1.1 --dry-run
        """
    static let access = DocumentSession.Access.write

    @Argument(
        help: ArgumentHelp("Identifiers or an entity, and values.", valueName: "ID|ENTITY|k=v"))
    var words: [String] = []

    @OptionGroup var filter: FilterOption
    @OptionGroup var making: MakeOption
    @OptionGroup var trial: DryRunOption

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
            throw ValidationError("With --where, specify one entity and no identifiers.")
        }
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let assignments = try Assignment.all(words.filter(Assignment.isOne))
        let subjects = words.filter { !Assignment.isOne($0) }
        let context = trial.context(of: document)
        let changes = AssignedChanges(
            assignments, of: document, in: context, insertsRelated: making.isOn)
        let objects: [ManagedObject]
        if let predicate = try filter.predicate {
            let entity =
                try subjects.first.map { try document.layout.requireEntity(named: $0) }
                ?? onlyEntity(with: assignments.map(\.key), in: document.layout)
            objects = Array(try context.fetch(FetchRequest(entity.name, predicate: predicate)))
            // A wrong key is wrong even if it would have been set on no object.
            if objects.isEmpty { _ = try changes.changes(of: entity) }
        } else {
            objects = try document.objects(named: subjects, in: context)
        }
        try changes.apply(to: objects)
        return try trial.reply(context, of: document)
            ?? Reply {
                try ChangeReply("Changed", inserted: changes.inserted) { objects.map(\.objectID) }
                    .print($0)
            }
    }

    /// The entity whose objects have all the keys, if that is clear.
    private func onlyEntity(with keys: [String], in layout: ResolvedModel) throws -> ResolvedEntity
    {
        let entities = layout.entities.filter { entity in
            keys.allSatisfy { key in
                entity.properties[key] != nil
                    || entity.properties[String(key.prefix { $0 != "." })] != nil
            }
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
                sentence: "\(names) have \(listed); specify the entity before --where.",
                status: .usage)
        }
        return entity
    }
}
