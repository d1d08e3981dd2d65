import Foundation
public import Quire
internal import QuireStore

/// The requirements of every store, as checks that authors of stores can run against theirs.
///
/// ```swift
/// let report = StoreConformance(
///     make: { model in try CardFile.create(at: newPath(), model: model) },
///     reopen: { store, isReadOnly in
///         var options = AtomicStoreOptions()
///         options.isReadOnly = isReadOnly
///         return try CardFile.open(at: store.path!, options: options)
///     }
/// ).run()
/// print(report)
/// ```
///
/// A check is left out if the store's ``PersistentStore/capabilities`` lack what it is about, and says so. Each has a store
/// of its own, which it closes. The checks are the same for the stores that come with Quire.
public struct StoreConformance: Sendable {
    /// Makes a new, empty store for the objects of a model.
    public typealias Make = @Sendable (ManagedObjectModel) throws -> any PersistentStore
    /// Opens the store again that another one was, which has been closed.
    public typealias Reopen =
        @Sendable (_ closed: any PersistentStore, _ isReadOnly: Bool) throws -> any PersistentStore

    /// The result of one check.
    public struct Result: Sendable {
        /// The requirement, a fact that should hold.
        public let name: String
        /// The failures, as sentences; empty if the check passed.
        public let failures: [String]
        /// Why the check was left out; `nil` if it was not.
        public let omission: String?
    }

    /// The results of all checks.
    public struct Report: Sendable, CustomStringConvertible {
        /// The checks in the order they ran.
        public let results: [Result]

        /// The checks that failed.
        public var failures: [Result] { results.filter { !$0.failures.isEmpty } }
        /// Whether none failed.
        public var isConforming: Bool { failures.isEmpty }

        /// A line for each check, with what does not hold below it.
        public var description: String {
            results.map { result in
                if let omission = result.omission { return "-    \(result.name): \(omission)" }
                if result.failures.isEmpty { return "ok   \(result.name)" }
                return (["FAIL \(result.name)"] + result.failures.map { "       " + $0 })
                    .joined(separator: "\n")
            }.joined(separator: "\n")
        }
    }

    let make: Make
    let reopen: Reopen?

    /// Prepares the checks.
    ///
    /// - Parameters:
    ///   - make: Makes a new, empty store for the objects of a model, at a place of its own.
    ///   - reopen: Opens a store again that has been closed. Without it nothing about files is checked.
    public init(make: @escaping Make, reopen: Reopen? = nil) {
        self.make = make
        self.reopen = reopen
    }

    /// The names of all checks.
    public static var names: [String] { checks.map(\.name) }

    /// Runs all checks, or those of some names.
    ///
    /// - Complexity: A few seconds, depending on how long the store takes to save.
    public func run(only names: Set<String>? = nil) -> Report {
        Report(
            results: Self.checks.filter { names?.contains($0.name) ?? true }.map { check in
                run(check)
            })
    }

    private func run(_ check: ConformanceCheck) -> Result {
        let scene = StoreScene(conformance: self)
        do {
            let store = try scene.open(check.model)
            let missing = check.needs.subtracting(store.capabilities)
            if !missing.isEmpty {
                try? scene.close()
                return Result(
                    name: check.name, failures: [], omission: "the store does not promise it")
            }
            if check.needs.contains(.reopening), reopen == nil {
                try? scene.close()
                return Result(
                    name: check.name, failures: [], omission: "there is no way to open it again")
            }
            try check.body(scene)
            try scene.close()
        } catch {
            scene.fail("It ended with an error: \(error)")
            try? scene.close()
        }
        return Result(name: check.name, failures: scene.failures, omission: nil)
    }

    static let checks: [ConformanceCheck] =
        ConformanceCheck.values + ConformanceCheck.relationships + ConformanceCheck.requests
        + ConformanceCheck.saving
        + ConformanceCheck.conflicts + ConformanceCheck.files + ConformanceCheck.derived
        + ConformanceCheck.batches
}

/// A check.
struct ConformanceCheck: Sendable {
    /// The fact.
    let name: String
    /// The capabilities that the check needs.
    var needs: StoreCapabilities = [.saving]
    /// The model of the store.
    var model = ConformanceModel.library
    let body: @Sendable (StoreScene) throws -> Void

    init(
        _ name: String, needs: StoreCapabilities = [.saving],
        model: ManagedObjectModel = ConformanceModel.library,
        _ body: @escaping @Sendable (StoreScene) throws -> Void
    ) {
        self.name = name
        self.needs = needs
        self.model = model
        self.body = body
    }
}

// MARK: - Files

extension ConformanceCheck {
    /// Opening, closing and metadata.
    static let files: [ConformanceCheck] = [
        ConformanceCheck("a store that is opened again is the same", needs: [.saving, .reopening]) {
            scene in
            try fill(scene)
            let uuid = scene.store.identity.uuid
            let before = try dump(scene)
            for _ in 0..<2 {
                try scene.reopen()
                scene.expect(scene.store.identity.uuid, is: uuid, "The UUID")
                scene.expect(try dump(scene), is: before, "What the store holds")
            }
        },
        ConformanceCheck("a closed store answers with errors") { scene in
            let id = try scene.insert("Tag", [["name": "a"]])[0]
            try scene.store.close()
            try scene.store.close()
            scene.expectError(.storeUnavailable, when: "a closed store is asked for rows") {
                _ = try scene.store.rows(matching: FetchSpecification("Tag"))
            }
            scene.expectError(.storeUnavailable, when: "a closed store is asked for a row") {
                _ = try scene.store.row(for: id)
            }
            var changes = ChangeSet()
            changes.deleted = [ObjectDeletion(objectID: id, version: nil)]
            scene.expectError(.storeUnavailable, when: "a closed store is to save") {
                try scene.store.save(changes)
            }
        },
        ConformanceCheck("a store for reading only refuses to save", needs: [.saving, .reopening]) {
            scene in
            try fill(scene)
            let before = try dump(scene)
            try scene.reopen(isReadOnly: true)
            scene.expect(scene.store.isReadOnly, "It does not say that it is read-only.")
            scene.expect(try dump(scene), is: before, "What the store holds")
            let id = try scene.store.rows(matching: FetchSpecification("Book"))[0].objectID
            var changes = ChangeSet()
            changes.deleted = [ObjectDeletion(objectID: id, version: nil)]
            scene.expectError(.readOnly, when: "it is to save") { try scene.store.save(changes) }
            scene.expectError(.readOnly, when: "identifiers are to be set aside") {
                _ = try scene.store.reserveObjectIDs(
                    for: scene.entity("Tag"), count: 1, durably: true)
            }
            scene.expect(try dump(scene), is: before, "What the store holds afterwards")
        },
        ConformanceCheck("metadata of applications is kept", needs: [.saving, .metadata]) { scene in
            let value: PropertyListValue = [
                "text": "a <&> b", "number": 7, "truth": true, "list": [1, "two", ["three": 3.5]],
                "data": .data(Data([0, 255])),
            ]
            try scene.store.setMetadata(value, forKey: "com.example.state")
            try scene.store.setMetadata("x", forKey: "gone")
            try scene.store.setMetadata(nil, forKey: "gone")
            scene.expectError(.invalidValue, when: "a key is the framework's") {
                try scene.store.setMetadata("x", forKey: "NSStoreType")
            }
            _ = try scene.insert("Tag", [["name": "a"]])
            try scene.checkAlsoReopened {
                let metadata = try scene.store.metadata()
                scene.expect(metadata["com.example.state"], is: value, "The value")
                scene.expect(metadata["gone"] == nil, "A removed value is there.")
                scene.expect(metadata.storeUUID, is: scene.store.identity.uuid, "The UUID")
                scene.expect(
                    Set(metadata.entityVersionHashes.keys),
                    is: Set(scene.store.layout.entities.map(\.name)), "The entities with hashes")
            }
        },
    ]

    /// All objects with their values and relationships, as text.
    static func dump(_ scene: StoreScene) throws -> [String] {
        var lines: [String] = []
        for entity in scene.store.layout.entities {
            for row in try scene.store.rows(matching: FetchSpecification(only: entity.name)) {
                var parts = [row.objectID.shortDescription]
                for slot in entity.slots where slot.isStored {
                    parts.append("\(slot.name)=\(try row.value(at: slot.index))")
                }
                for relationship in entity.relationships where relationship.isToMany {
                    let related = try scene.store.relatedRows(
                        of: row.objectID, through: relationship)
                    parts.append(
                        "\(relationship.name)=\(related.map(\.objectID.shortDescription))")
                }
                lines.append(parts.joined(separator: " "))
            }
        }
        return lines
    }
}
