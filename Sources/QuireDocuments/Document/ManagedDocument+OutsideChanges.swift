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
        case .replaced(let place?): follow(to: place)
        case .replaced(nil): takeOverReplacement()
        case .deleted: packageIsGone()
        case .changed: break
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
            await self?.accommodatePresentedItemDeletion()
            guard let self, machine.isOpen else { return }
            // Saved elsewhere by the subclass, it is another document by now.
            let package = package
            let isGone = (try? await FileQueue.shared.run { package.presentPath == nil }) ?? false
            if isGone { try? await close(discardingChanges: true) }
        }
    }
}
