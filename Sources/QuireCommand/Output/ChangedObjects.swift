import Quire

/// The answer of a verb that changes objects: `{"ids": […]}`, or a sentence.
@MainActor
struct ChangedObjects {
    /// What happened to them: "Inserted".
    let participle: String
    /// The identifiers, asked for after the save, which makes them permanent.
    let ids: @MainActor () -> [ManagedObjectID]

    /// The longest list of identifiers in a sentence.
    private static let shownCount = 10

    init(_ participle: String, _ ids: @escaping @MainActor () -> [ManagedObjectID]) {
        self.participle = participle
        self.ids = ids
    }

    /// Prints the answer.
    func print(_ output: Output) throws {
        let ids = ids()
        if output.json {
            let list = JSONValue.array(ids.map { .string($0.uriRepresentation) })
            try output.print(.object(["ids": list]), levels: 0)
            return
        }
        if ids.isEmpty {
            try output.print("\(participle) no objects.")
            return
        }
        let names = ids.prefix(Self.shownCount).map(\.shortDescription).joined(separator: ", ")
        let rest = ids.count > Self.shownCount ? " and \(ids.count - Self.shownCount) more" : ""
        let counted = ids.count == 1 ? "" : "\(ids.count) objects: "
        try output.print("\(participle) \(counted)\(names)\(rest).")
    }
}
