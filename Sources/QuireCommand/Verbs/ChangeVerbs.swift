import ArgumentParser
import Quire

/// `quire insert PATH ENTITY k=v…`
struct InsertVerb: DocumentVerb {
    static let name = "insert"
    static let abstract = "Adds an object."
    static let discussion = """
        The type of the attribute determines how a value is read: dates in ISO 8601, bytes in base64. A \
        relationship accepts identifiers, Entity/pN,Entity/pM, or the value of an attribute of the related object, \
        author.name=Jane; that object must exist, unless --make inserts it. For a to-many relationship, repeat \
        k.name=… to specify several objects. k= leaves the key without a value; k=@FILE reads the value from a \
        file; k=@@x is the text “@x”.

        EXAMPLES:
          quire insert Library.quire Book title=Emma year=1815 author=Author/p1
          quire insert Library.quire Book title=Persuasion author.name='Jane Austen' --make
          quire insert Notes.quire Attachment name=cover data=@cover.png post=Post/p2
        """
    static let access = DocumentSession.Access.write

    @Argument(help: ArgumentHelp("The entity.", valueName: "ENTITY"))
    var entity: String

    @Argument(help: ArgumentHelp("Values.", valueName: "k=v"))
    var assignments: [String] = []

    @OptionGroup var making: MakeOption
    @OptionGroup var trial: DryRunOption

    func validate() throws {
        try Assignment.checkSpaces(assignments)
        _ = try Assignment.all(assignments)
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let assignments = try Assignment.all(assignments)
        let entity = try document.layout.requireConcreteEntity(named: entity)
        let context = trial.context(of: document)
        let changes = AssignedChanges(
            assignments, of: document, in: context, insertsRelated: making.isOn)
        let object = try changes.insertObject(of: entity)
        if let reply = try trial.reply(context, of: document) { return reply }
        // At once, so that later lines of a session can name it.
        try context.obtainPermanentIDs(for: [object] + changes.inserted)
        return Reply {
            try ChangeReply("Inserted", inserted: changes.inserted) { [object.objectID] }.print($0)
        }
    }
}

extension ResolvedModel {
    /// The entity of a name, of which there can be objects.
    ///
    /// - Throws: `QuireError` with code `unknownEntity`, or `invalidValue` if it is abstract.
    func requireConcreteEntity(named name: String) throws -> ResolvedEntity {
        let entity = try requireEntity(named: name)
        guard !entity.isAbstract else {
            let names = entity.subtree.map { self.entity(number: $0) }.filter { !$0.isAbstract }
                .map(\.name).joined(separator: ", ")
            throw QuireError(
                .invalidValue,
                "\(name) is abstract, so it has no objects of its own; specify one of its sub-entities: \(names).",
                entity: name)
        }
        return entity
    }
}

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
            throw Failure.usage("\(names) have \(listed); specify the entity before --where.")
        }
        return entity
    }
}

/// `quire delete PATH ID…` and `quire delete PATH ENTITY --where F`
struct DeleteVerb: DocumentVerb {
    static let name = "delete"
    static let abstract = "Deletes objects, following the delete rules of the model."
    static let discussion = """
        Specify objects by their identifiers, or by an entity and a condition; TRUEPREDICATE selects every \
        object.

        EXAMPLES:
          quire delete Library.quire Book/p7 Book/p8
          quire delete Library.quire Loan --where 'returnedAt != NULL' --dry-run
        """
    static let access = DocumentSession.Access.write

    @Argument(help: ArgumentHelp("Identifiers, or an entity with --where.", valueName: "ID|ENTITY"))
    var subjects: [String]

    @OptionGroup var filter: FilterOption
    @OptionGroup var trial: DryRunOption

    func validate() throws {
        if filter.format != nil && subjects.count != 1 {
            throw ValidationError("With --where, specify one entity and no identifiers.")
        }
        if filter.format == nil, let entity = subjects.first(where: { !$0.contains("/") }) {
            throw ValidationError(
                "“\(entity)” is not an identifier; to delete objects of an entity, add --where "
                    + "(TRUEPREDICATE for all).")
        }
    }

    @MainActor
    func run(on document: DocumentSession) async throws -> Reply {
        let context = trial.context(of: document)
        let objects: [ManagedObject]
        if let predicate = try filter.predicate {
            let entity = try document.layout.requireEntity(named: subjects[0])
            objects = Array(try context.fetch(FetchRequest(entity.name, predicate: predicate)))
        } else {
            objects = try document.objects(named: subjects, in: context)
        }
        let ids = objects.map(\.objectID)
        for object in objects { context.delete(object) }
        return try trial.reply(context, of: document)
            ?? Reply { try ChangeReply("Deleted") { ids }.print($0) }
    }
}

// MARK: - Dry runs

/// `--make`
struct MakeOption: ParsableArguments {
    @Flag(
        name: .customLong("make"),
        help: "Insert related objects that are specified by value and do not exist yet.")
    var isOn = false
}

/// `--dry-run` of a verb that changes objects: it changes them in a child context, which is never saved.
struct DryRunOption: ParsableArguments {
    @Flag(
        name: .customLong("dry-run"),
        help: "Print the changes, as diff does, without making them.")
    var isOn = false

    /// The context for the changes of a verb.
    @MainActor
    func context(of document: DocumentSession) -> ManagedObjectContext {
        isOn ? .mainQueue(parent: document.context) : document.context
    }

    /// Checks the changes of a dry run, and lists them; `nil` without `--dry-run`.
    ///
    /// - Throws: `QuireError` if a save would not be valid.
    @MainActor
    func reply(_ context: ManagedObjectContext, of document: DocumentSession) throws -> Reply? {
        if !isOn { return nil }
        let changes = try UnsavedChanges(of: context, in: document.layout)
        try changes.validate()
        return changes.reply(
            "Dry run: \(changes.counts.text.isEmpty ? "no changes" : changes.counts.text).")
    }
}

/// The unsaved changes of a context, as `diff` prints them.
@MainActor
struct UnsavedChanges {
    private let context: ManagedObjectContext
    private let differences: [ObjectDifference]

    /// - Throws: `QuireError` if a value cannot be read.
    init(of context: ManagedObjectContext, in layout: ResolvedModel) throws {
        self.context = context
        context.processPendingChanges()
        let unreadable = UnreadableValues()
        differences = try [
            (ObjectDifference.Kind.insert, context.insertedObjects),
            (.update, context.updatedObjects), (.delete, context.deletedObjects),
        ].flatMap { kind, objects in
            try objects.sorted {
                ($0.resolvedEntity.name, $0.objectID.primaryKey)
                    < ($1.resolvedEntity.name, $1.objectID.primaryKey)
            }.map { try ObjectDifference(kind, of: $0, in: layout, noting: unreadable) }
        }.filter { $0.kind != .update || !$0.changes.isEmpty }
        try unreadable.check()
    }

    /// The numbers of changed objects.
    var counts: ChangeCounts {
        differences.reduce(into: ChangeCounts()) { $0.add($1.kind) }
    }

    /// - Throws: `QuireError` if a save would not be valid.
    func validate() throws {
        for object in context.insertedObjects { try object.validateForInsert() }
        for object in context.updatedObjects { try object.validateForUpdate() }
        for object in context.deletedObjects { try object.validateForDelete() }
    }

    /// Prints the changes, and a sentence after them.
    func reply(_ sentence: String) -> Reply {
        Reply { output in
            if output.json {
                return try output.printResult(levels: 2, []) {
                    .object([
                        "changes": .array(
                            differences.map {
                                DifferenceListing.json($0, $0.objectID.entityName)
                            })
                    ])
                }
            }
            for difference in differences { try DifferenceListing.print(difference, to: output) }
            try output.print(sentence)
        }
    }
}

extension ObjectDifference {
    /// The unsaved changes of an object, but for those of to-many relationships that their to-one inverses show.
    @MainActor
    fileprivate init(
        _ kind: Kind, of object: ManagedObject, in layout: ResolvedModel,
        noting unreadable: UnreadableValues
    ) throws {
        self.init(kind: kind, objectID: object.objectID)
        if kind == .delete { return }
        let entity = object.resolvedEntity
        for (key, value) in object.changedValues().sorted(by: { $0.key < $1.key }) {
            let old = kind == .insert ? nil : try object.committedValues(forKeys: [key])[key]
            switch value {
            case .value(let new):
                let type = entity.slots.first { $0.name == key }?.attribute?.type ?? .objectID
                var before: ComparedValue?
                if case .value(let old)? = old {
                    before = ComparedValue(old, type, noting: unreadable)
                }
                changes.append(
                    (
                        key,
                        .value(old: before, new: ComparedValue(new, type, noting: unreadable))
                    ))
            case .objectIDs(let new):
                guard let relationship = entity.relationships.first(where: { $0.name == key }),
                    layout.inverse(of: relationship)?.isToMany != false
                else { continue }
                var before: [ManagedObjectID] = []
                if case .objectIDs(let old)? = old { before = old }
                let (left, right) = (Set(before), Set(new))
                let removed = before.filter { !right.contains($0) }
                let added = new.filter { !left.contains($0) }
                changes.append(
                    (
                        key,
                        relationship.description.isOrdered
                            ? .order(old: before, new: new, removed: removed, added: added)
                            : .members(removed: removed, added: added)
                    ))
            }
        }
    }
}
