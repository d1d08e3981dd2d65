import ArgumentParser
import Quire

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
