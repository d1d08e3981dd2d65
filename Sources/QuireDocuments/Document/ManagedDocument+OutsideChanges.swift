import Dispatch
import Logging
import Quire

// What others do to the package while it is open.

private let logger = Logger(label: "quire.document")

extension ManagedDocument {
    /// Begins to watch the package. Where that is not possible a save finds out what has become of it.
    func watchPackage() {
        packageWatch?.cancel()
        packageWatch = try? PackageWatch(path: path, queue: .main) { [weak self] event in
            MainActor.assumeIsolated { self?.packageDid(event) }
        }
    }

    func stopWatching() {
        packageWatch?.cancel()
        packageWatch = nil
    }

    private func packageDid(_ event: PackageEvent) {
        guard machine.isOpen, !isClosing else { return }
        switch event {
        case .moved(let place): follow(to: place)
        case .replaced: takeOverReplacement()
        case .deleted: packageIsGone()
        case .changed(let parts): if parts.contains(.store) { storeDidChange() }
        }
    }

    /// Somebody, the document itself perhaps, has written to the folder of the store.
    private func storeDidChange() {
        guard let package = openDocument?.package else { return }
        Task { [weak self] in
            let place = try? await FileQueue.shared.run { package.place() }
            // What is missing now may be about to come; a save finds out.
            guard place == .storeReplaced, let self, openDocument?.package === package else {
                return
            }
            takeOverReplacement()
        }
    }

    /// Goes on with the package at its new place, when the document's turn comes.
    private func follow(to place: String) {
        if place == path { return }
        Task { [weak self] in
            do {
                try await self?.withOpenDocument { open in
                    if let place = try await open.follow() { self?.didMove(to: place) }
                }
            } catch {
                // The next save tries again, and tells.
                logger.warning("“\(place)”, which was moved, could not be opened there: \(error)")
            }
        }
    }

    /// Closes the document whose package was deleted, or given up for another one. It is not made again.
    func packageIsGone() {
        Task { [weak self] in
            guard self?.openDocument != nil else { return }
            await self?.accommodatePresentedItemDeletion()
            // Saved elsewhere by the subclass, it is another document by now.
            guard let self, let package = openDocument?.package else { return }
            let isGone = (try? await FileQueue.shared.run { package.presentPath == nil }) ?? false
            if isGone { try? await close(discardingChanges: true) }
        }
    }
}
