public import Quire

/// What every store must do, as checks that whoever writes a store of their own can run against it.
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

    /// How one check came out.
    public struct Result: Sendable {
        /// What the check is about, a fact that should hold.
        public let name: String
        /// What does not hold, in sentences; empty if all is well.
        public let failures: [String]
        /// Why the check was left out; `nil` if it was not.
        public let omission: String?
    }

    /// How all checks came out.
    public struct Report: Sendable, CustomStringConvertible {
        /// The checks in the order they ran.
        public let results: [Result]

        /// Those that failed.
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

    private func run(_ check: StoreCheck) -> Result {
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

    static let checks =
        StoreCheck.values + StoreCheck.relationships + StoreCheck.requests + StoreCheck.saving
        + StoreCheck.conflicts + StoreCheck.files + StoreCheck.derived + StoreCheck.batches
}

/// A check.
struct StoreCheck: Sendable {
    /// The fact.
    let name: String
    /// What the store must be capable of.
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
