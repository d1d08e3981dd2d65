public import QuireModel
internal import QuireSystem

/// A mapping between two models that are known, made by hand.
public struct CustomMapping: Sendable {
    /// The model that it maps from.
    public var source: ManagedObjectModel
    /// The model that it maps to.
    public var destination: ManagedObjectModel
    /// The mapping.
    public var mapping: MappingModel

    /// Describes a mapping.
    public init(
        from source: ManagedObjectModel, to destination: ManagedObjectModel, mapping: MappingModel
    ) {
        self.source = source
        self.destination = destination
        self.mapping = mapping
    }
}

/// The models that a store passes through on its way to another one.
public struct MigrationPath: Sendable {
    /// A migration from one model to the next.
    public struct Step: Sendable {
        /// What the new model is called.
        public let name: String
        /// The old model.
        public let source: ManagedObjectModel
        /// The new model.
        public let destination: ManagedObjectModel
        /// How the objects become the new ones.
        public let mapping: MappingModel
        /// Whether the mapping was made by hand.
        public let isCustom: Bool
    }

    /// The steps, in their order; none if nothing is to be done.
    public let steps: [Step]

    /// Finds the shortest way: straight to the model if a mapping is given or can be inferred, else through as few
    /// versions as possible.
    ///
    /// - Parameters:
    ///   - source: The model of the store.
    ///   - name: The name of the version to come to.
    ///   - versions: The models there are, by name.
    ///   - mappings: Mappings made by hand. Where there is one between two models, it is taken.
    ///   - infers: Whether mappings are inferred.
    /// - Throws: ``QuireError`` with code `incompatibleModel`, saying why there is no straight way if there is none at
    ///   all, or `notFound` if there is no such version.
    public init(
        from source: ManagedObjectModel, to name: String,
        among versions: [String: ManagedObjectModel],
        mappings: [CustomMapping] = [], infers: Bool = true
    ) throws {
        guard let destination = versions[name] else {
            throw QuireError(
                .notFound,
                "There is no version “\(name)”; there are: \(versions.keys.sorted().joined(separator: ", "))."
            )
        }
        var failure: QuireError?
        func step(
            _ old: ManagedObjectModel, _ new: ManagedObjectModel, _ name: String
        ) -> Step? {
            let custom = mappings.first {
                $0.source.isSameVersion(as: old) && $0.destination.isSameVersion(as: new)
            }
            if let custom {
                return Step(
                    name: name, source: old, destination: new, mapping: custom.mapping,
                    isCustom: true)
            }
            guard infers else { return nil }
            do {
                return Step(
                    name: name, source: old, destination: new,
                    mapping: try .inferred(from: old, to: new), isCustom: false)
            } catch {
                // The first is that of the straight way.
                if failure == nil { failure = error as? QuireError }
                return nil
            }
        }
        if let straight = step(source, destination, name) {
            steps = [straight]
            return
        }
        var open: [[Step]] = [[]]
        var seen: Set<String> = []
        while !open.isEmpty {
            let path = open.removeFirst()
            let model = path.last?.destination ?? source
            if !path.isEmpty, let last = step(model, destination, name) {
                steps = path + [last]
                return
            }
            for (next, version) in versions.sorted(by: { $0.key < $1.key })
            where next != name && !seen.contains(next) && !version.isSameVersion(as: model) {
                guard let step = step(model, version, next) else { continue }
                seen.insert(next)
                open.append(path + [step])
            }
        }
        throw failure
            ?? QuireError(
                .incompatibleModel,
                "There is no mapping to “\(name)”; give one, or let it be inferred.")
    }
}

extension ManagedObjectModel {
    /// Whether a store that was made with one model opens with the other.
    func isSameVersion(as other: ManagedObjectModel) -> Bool {
        self == other || entityVersionHashes() == other.entityVersionHashes()
    }
}
