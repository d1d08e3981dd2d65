import Quire

extension DocumentSession {
    /// The object of an identifier: a URI, `Entity/pN`, or `Entity/tN` for one that is not saved.
    ///
    /// - Parameter context: The context to find it in, or `nil` for the document's.
    /// - Throws: `QuireError` with code `notFound` if there is no such object.
    func object(
        named text: String, in context: ManagedObjectContext? = nil
    ) throws -> ManagedObject {
        let context = context ?? self.context
        let key = text[(text.lastIndex(of: "/") ?? text.startIndex)...]
        if key.hasPrefix("/t"),
            let new = context.insertedObjects.first(where: {
                $0.objectID.isTemporaryID
                    && ($0.objectID.shortDescription == text
                        || $0.objectID.uriRepresentation == text)
            })
        {
            return new
        }
        let object = try context.existingObject(with: coordinator.objectID(for: text))
        guard !object.isDeleted else { throw context.notFound(object.objectID) }
        return object
    }

    /// The objects of identifiers, each once.
    ///
    /// - Throws: `QuireError` with code `notFound` if there is no such object.
    func objects(
        named identifiers: [String], in context: ManagedObjectContext? = nil
    ) throws -> [ManagedObject] {
        var known: Set<ManagedObjectID> = []
        return try identifiers.map { try object(named: $0, in: context) }
            .filter { known.insert($0.objectID).inserted }
    }

    /// The objects of a list of identifiers, separated by commas, for a relationship.
    ///
    /// - Parameter context: The context to find them in, or `nil` for the document's.
    /// - Throws: `QuireError` with code `notFound`, or `invalidValue` if one is of the wrong entity.
    func objects(
        named list: String, for relationship: ResolvedEntity.Relationship,
        in context: ManagedObjectContext? = nil
    ) throws -> [ManagedObject] {
        let destination = layout.destination(of: relationship)
        return try list.split(separator: ",").map { part in
            let object = try object(named: part.filter { !$0.isWhitespace }, in: context)
            guard destination.subtree.contains(object.resolvedEntity.number) else {
                throw QuireError(
                    .invalidValue,
                    "“\(relationship.name)” must be of entity \(destination.name); "
                        + "\(object.objectID.shortDescription) is of entity \(object.resolvedEntity.name).",
                    subject: .init(property: relationship.name))
            }
            return object
        }
    }

    /// Runs a body that changes objects in a child context, which is saved to the document's context: all changes are made, or
    /// none if the body throws or the changes are not valid.
    func changingTogether<Result>(
        _ body: (ManagedObjectContext) throws -> Result
    ) throws -> Result {
        let child = ManagedObjectContext.mainQueue(parent: context)
        let result = try body(child)
        try child.save()
        return result
    }

    /// - Throws: `Failure` in a session, which reads its commands from standard input.
    func requireStandardInput() throws {
        if isInteractive {
            throw Failure.usage("A session reads commands from standard input; specify a file.")
        }
    }

    /// Calls a closure with each object that was found, but for those that others have deleted since.
    ///
    /// - Throws: What the closure throws, or what reading an object hit that had no other way to tell.
    func forEach(
        of objects: FetchedObjects<ManagedObject>, _ body: (ManagedObject) throws -> Void
    ) throws {
        for object in objects {
            if object.isFault {
                do {
                    _ = try context.existingObject(with: object.objectID)
                } catch let error as QuireError where error.code == .notFound {
                    continue
                }
            }
            try body(object)
            if let error = context.takeFaultError() { throw error }
        }
    }
}

extension FetchRequest {
    /// Reads objects in batches, with the related objects that columns show, so that results of any size
    /// can be printed in little memory.
    mutating func readInBatches(for paths: [PropertyPath]) {
        self.fetchBatchSize = 128
        self.relationshipKeyPathsForPrefetching = Array(Set(paths.compactMap(\.relationshipPath)))
            .sorted()
    }
}
