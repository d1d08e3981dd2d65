import Dispatch
import Quire

/// Has a document that is open for reading follow what another process saves.
///
/// The package is watched; whenever something was written to it, the store is asked whether anything was committed; if so
/// ``PersistentStoreCoordinator/remoteChangeNotification`` is posted, and the document shows it.
///
/// What a writer commits is to be seen only when its log has reached the disk, which nothing tells. So the store is asked
/// several times more, in ever longer intervals, over some seconds.
final class RemoteChanges: Sendable {
    private let watch: PackageWatch

    /// Follows a package until it is freed. `nil` if it cannot be watched.
    ///
    /// - Parameter changed: Called when something was saved, one call at a time.
    init?(
        ofPackageAt path: String, _ coordinator: PersistentStoreCoordinator,
        changed: @escaping @Sendable () -> Void
    ) {
        let look = RepeatedLook(RemoteChangeDetector(coordinator), changed)
        guard
            let watch = try? PackageWatch(
                path: path, queue: look.queue,
                handler: { event in if case .changed = event { look.begin() } })
        else { return nil }
        self.watch = watch
        // What was saved before it was watched.
        look.queue.async { look.begin() }
    }

    /// Ends following.
    func end() { watch.cancel() }

    private final class RepeatedLook: Sendable {
        let queue = DispatchQueue(
            label: "quire.remote-changes", qos: .utility, target: .global(qos: .utility))
        private let detector: RemoteChangeDetector
        private let changed: @Sendable () -> Void
        /// The intervals add up to some 13 seconds.
        private static let intervals = (0..<8).map { DispatchTimeInterval.milliseconds(50 << $0) }
        /// Counts the beginnings, so that only the last goes on.
        private let run = Lock(0)

        init(_ detector: RemoteChangeDetector, _ changed: @escaping @Sendable () -> Void) {
            self.detector = detector
            self.changed = changed
        }

        /// Something was written.
        func begin() {
            let run = run.withLock { run in
                run += 1
                return run
            }
            look(0, run)
        }

        private func look(_ number: Int, _ run: Int) {
            guard self.run.withLock({ $0 == run }) else { return }
            if detector.check() { return changed() }
            guard number < Self.intervals.count else { return }
            queue.asyncAfter(deadline: .now() + Self.intervals[number]) { [weak self] in
                self?.look(number + 1, run)
            }
        }
    }
}

extension ManagedDocument {
    /// Shows what another process has saved: objects are refreshed, and the additional content is that of the new save.
    func showRemoteChanges() async {
        try? await withOpenDocument { [self] open in
            guard open.package.isReadOnly else { return }
            let package = open.package
            let reading: ContentReader = { try self.readAdditionalContent(from: $0) }
            let loaded = try await FileQueue.shared.run {
                try LoadedContent(package, reading: reading)
            }
            await open.parent.perform { $0.refreshAllObjects() }
            open.context.refreshAllObjects()
            if loaded.generation != open.generation {
                open.generation = loaded.generation
                open.contentNames = loaded.names
                try load(fromContents: loaded.contents)
            }
            presentedItemDidChange()
        }
    }
}
