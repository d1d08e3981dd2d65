public import Foundation

/// A model with one or more stores, their coordinator and contexts: the entry point.
///
/// ```swift
/// // Library.xcdatamodeld is a resource of the program; the store is ~/.local/share/PROGRAM/Library.sqlite.
/// let container = try PersistentContainer(name: "Library")
/// try await container.loadPersistentStores()
/// let book = try container.viewContext.insertObject(entityName: "Book")
/// book["title"] = "Emma"
/// try container.viewContext.save()
/// ```
///
/// Stores at other paths, of other types or with options are set as ``persistentStoreDescriptions`` before loading.
@MainActor
open class PersistentContainer {
    /// The given name, or the name of the first store's file without its extension; empty for a store in memory.
    public nonisolated let name: String
    /// The coordinator of the container's stores.
    public nonisolated let persistentStoreCoordinator: PersistentStoreCoordinator
    /// The context for the main queue. It saves to the store, and its objects are observable with Swift's Observation; see
    /// ``ManagedObjectContext/isObservable``.
    public let viewContext: ManagedObjectContext
    /// The stores to load: at first a SQLite store `NAME.sqlite` in ``defaultDirectoryURL()``, which is migrated if it was
    /// created with an older version of the model and no data would be lost.
    ///
    /// A change takes effect at the next loading; loaded stores stay open.
    public var persistentStoreDescriptions: [PersistentStoreDescription]

    /// The stores that are open or being opened.
    private var loads: [StoreLoad] = []
    /// The latest opening on another thread, which the next waits for: the order of stores is that of their descriptions.
    private var lastOpening: Task<QuireError?, Never>?

    /// Creates a container whose model is a resource of the program. Its stores are not loaded yet.
    ///
    /// - Parameters:
    ///   - name: The name of the model's file, and of the default store's.
    ///   - bundle: The bundle that contains the model, as for ``ManagedObjectModel/init(named:bundle:)``.
    /// - Throws: ``QuireError`` with code `notFound`, listing the searched places, `invalidModel`, or as
    ///   ``ManagedObjectModel/init(named:bundle:)``.
    public convenience init(name: String, bundle: Bundle = .main) throws {
        try self.init(
            name: name, managedObjectModel: ManagedObjectModel(named: name, bundle: bundle))
    }

    /// Creates a container for a model. Its stores are not loaded yet.
    ///
    /// - Parameters:
    ///   - name: The name of the default store's file.
    ///   - model: The model.
    /// - Throws: ``QuireError`` with code `invalidModel`.
    public init(name: String, managedObjectModel model: ManagedObjectModel) throws {
        self.name = name
        persistentStoreCoordinator = try PersistentStoreCoordinator(managedObjectModel: model)
        viewContext = .mainQueue(coordinator: persistentStoreCoordinator)
        viewContext.isObservable = true
        persistentStoreDescriptions = []
        var description = PersistentStoreDescription(
            url: type(of: self).defaultDirectoryURL().appendingPathComponent(name + ".sqlite"))
        description.migration = StoreMigrationOptions()
        persistentStoreDescriptions = [description]
    }

    /// Creates a container for an open store.
    public init(store: any PersistentStore) {
        name = Self.name(ofStoreAt: store.path)
        persistentStoreCoordinator = PersistentStoreCoordinator(store: store)
        viewContext = .mainQueue(coordinator: persistentStoreCoordinator)
        viewContext.isObservable = true
        persistentStoreDescriptions = []
    }

    /// Creates a container and opens its stores at once; creates those that do not exist.
    ///
    /// Opening reads little of a SQLite store, and all of an in-memory format's file. If one cannot be opened the others are
    /// closed again.
    ///
    /// - Throws: ``QuireError`` with code `invalidModel`, and the errors of
    ///   ``PersistentStoreCoordinator/addPersistentStore(_:)`` for a store.
    public convenience init(
        managedObjectModel model: ManagedObjectModel,
        persistentStoreDescriptions descriptions: [PersistentStoreDescription]
    ) throws {
        try self.init(
            name: Self.name(ofStoreAt: descriptions.first?.path), managedObjectModel: model)
        persistentStoreDescriptions = descriptions
        do {
            for load in makeLoads() {
                load.state = .open(
                    try persistentStoreCoordinator.addPersistentStore(load.description))
            }
        } catch {
            try? close()
            throw error
        }
    }

    /// Creates a container and opens the SQLite store at a path at once; creates it if it does not exist.
    ///
    /// ```swift
    /// let context = try PersistentContainer(path: "Library.sqlite", managedObjectModel: model).viewContext
    /// ```
    ///
    /// A store created with an older version of the model is migrated if no data would be lost.
    ///
    /// - Throws: As ``init(managedObjectModel:persistentStoreDescriptions:)``.
    public convenience init(path: String, managedObjectModel model: ManagedObjectModel) throws {
        var description = PersistentStoreDescription(path: path)
        description.migration = StoreMigrationOptions()
        try self.init(managedObjectModel: model, persistentStoreDescriptions: [description])
    }

    /// Creates a container and opens the SQLite store at a URL at once; see ``init(path:managedObjectModel:)``.
    ///
    /// - Throws: ``QuireError`` with code `invalidValue` if the URL is not a file URL, or as that initializer.
    public convenience init(url: URL, managedObjectModel model: ManagedObjectModel) throws {
        try self.init(path: FileSystem.path(of: url), managedObjectModel: model)
    }

    private nonisolated static func name(ofStoreAt path: String?) -> String {
        path.map { URL(fileURLWithPath: $0).deletingPathExtension().lastPathComponent } ?? ""
    }

    /// The folder of default stores: one named after the program in `$XDG_DATA_HOME`, or in `~/.local/share`. It is created
    /// when a store in it is loaded.
    open nonisolated class func defaultDirectoryURL() -> URL {
        URL(fileURLWithPath: FileSystem.userFolder(for: .data), isDirectory: true)
            .appendingPathComponent(ProcessInfo.processInfo.processName, isDirectory: true)
    }

    /// The model.
    public nonisolated var managedObjectModel: ManagedObjectModel {
        persistentStoreCoordinator.layout.model
    }

    /// The saves of contexts to the stores; see ``PersistentStoreCoordinator/saves``.
    public nonisolated var saves: AsyncStream<ObjectIDChanges> { persistentStoreCoordinator.saves }

    /// Creates a private-queue context that saves to the stores. A subclass may override it to configure contexts.
    open nonisolated func newBackgroundContext() -> QueueConfinedContext {
        QueueConfinedContext(coordinator: persistentStoreCoordinator)
    }

    /// Runs a closure in a ``newBackgroundContext()``. A closure that does not throw needs no `try`.
    ///
    /// ``viewContext`` merges its saves at the next turn of the main queue if it
    /// ``ManagedObjectContext/automaticallyMergesChangesFromParent``.
    public nonisolated func performBackgroundTask<Result, Failure>(
        _ body: sending @escaping (ManagedObjectContext) throws(Failure) -> sending Result
    ) async throws(Failure) -> sending Result {
        try await newBackgroundContext().perform(body)
    }

    /// Closes the stores. The container's contexts must not be used afterwards.
    public nonisolated func close() throws { try persistentStoreCoordinator.close() }
}

// MARK: - Loading stores

extension PersistentContainer {
    /// Opens the described stores that are not loaded yet, on other threads; creates those that do not exist.
    ///
    /// If one cannot be opened the others stay open, and another call tries it again.
    ///
    /// - Throws: ``QuireError``, as ``PersistentStoreCoordinator/addPersistentStore(_:)``, for the stores that could not be opened:
    ///   the only failure, or one error with all ``QuireError/failures``.
    public func loadPersistentStores() async throws {
        for load in makeLoads() { beginOpening(load) }
        var failures: [QuireError] = []
        for load in loads {
            if case .opening(let task) = load.state, let failure = await task.value {
                failures.append(failure)
            }
        }
        if !failures.isEmpty { throw QuireError.combining(failures) }
    }

    /// Opens the described stores that are not loaded yet, and calls a closure once for each; creates those that do not
    /// exist.
    ///
    /// ```swift
    /// container.loadPersistentStores { description, error in
    ///     if let error { print(description.path ?? "", error.message) }
    /// }
    /// ```
    ///
    /// Stores are open, or have failed, when it returns, except those that it
    /// ``PersistentStoreDescription/shouldAddStoreAsynchronously``: these are opened on another thread, and the closure is called
    /// on the main queue when they are. If one cannot be opened the others stay open, and another call tries it again.
    ///
    /// - Parameter completionHandler: Called with a store's description, and the error of
    ///   ``PersistentStoreCoordinator/addPersistentStore(_:)`` if it could not be opened.
    public func loadPersistentStores(
        completionHandler: @escaping @MainActor (PersistentStoreDescription, QuireError?) -> Void
    ) {
        for load in makeLoads() {
            if load.description.shouldAddStoreAsynchronously {
                let task = beginOpening(load)
                Task { completionHandler(load.description, await task.value) }
            } else {
                let failure = finish(load, Self.open(load.request(of: self)))
                completionHandler(load.description, failure)
            }
        }
    }

    /// Registers the described stores that are neither open nor being opened.
    private func makeLoads() -> [StoreLoad] {
        let stores = persistentStoreCoordinator.persistentStores
        loads.removeAll { load in
            if case .open(let store) = load.state {
                !stores.contains { $0 === store }
            } else {
                false
            }
        }
        var present = loads
        var new: [StoreLoad] = []
        for description in persistentStoreDescriptions {
            if let index = present.firstIndex(where: { $0.isLoad(of: description) }) {
                present.remove(at: index)
            } else {
                new.append(StoreLoad(description))
            }
        }
        loads += new
        return new
    }

    @discardableResult
    private func beginOpening(_ load: StoreLoad) -> Task<QuireError?, Never> {
        let request = load.request(of: self)
        let task = Task { [lastOpening] in
            _ = await lastOpening?.value
            return finish(load, await Task.detached { Self.open(request) }.value)
        }
        load.state = .opening(task)
        lastOpening = task
        return task
    }

    /// Records an opened store, or forgets one that has failed. Returns the failure.
    private func finish(
        _ load: StoreLoad, _ result: Result<any PersistentStore, QuireError>
    ) -> QuireError? {
        switch result {
        case .success(let store):
            load.state = .open(store)
            return nil
        case .failure(let error):
            loads.removeAll { $0 === load }
            return error
        }
    }

    private nonisolated static func open(
        _ request: StoreLoad.Request
    ) -> Result<any PersistentStore, QuireError> {
        do {
            let description = request.description
            if let path = description.path.map(FileSystem.absolute), !description.isReadOnly {
                let folder = FileSystem.folder(of: path)
                if folder == request.defaultDirectory {
                    try FileSystem.makeFolder(folder, withIntermediates: true)
                }
            }
            return .success(try request.coordinator.addPersistentStore(description))
        } catch let error as QuireError {
            return .failure(error)
        } catch {
            let store = request.description.path.map { " “\($0)”" } ?? ""
            return .failure(
                QuireError(
                    .storeUnavailable, "The store\(store) could not be opened: \(error).",
                    file: request.description.path, underlying: error))
        }
    }
}

/// A described store that is loaded, or being loaded.
@MainActor
private final class StoreLoad {
    enum State {
        case waiting
        case opening(Task<QuireError?, Never>)
        case open(any PersistentStore)
    }

    /// All that opening it takes.
    struct Request: Sendable {
        let description: PersistentStoreDescription
        let coordinator: PersistentStoreCoordinator
        let defaultDirectory: String
    }

    let description: PersistentStoreDescription
    var state = State.waiting

    init(_ description: PersistentStoreDescription) { self.description = description }

    func request(of container: PersistentContainer) -> Request {
        Request(
            description: description, coordinator: container.persistentStoreCoordinator,
            defaultDirectory: FileSystem.absolute(
                type(of: container).defaultDirectoryURL().path))
    }

    /// Whether a description is of the same store.
    func isLoad(of other: PersistentStoreDescription) -> Bool {
        description.type == other.type && description.configuration == other.configuration
            && description.path.map { FileName(FileSystem.absolute($0)) }
                == other.path.map { FileName(FileSystem.absolute($0)) }
    }
}
