import Quire

/// Joins what is typed in a field into one step of undo, until nothing is typed for a second, or something else is done.
///
/// Without a group each turn of the main queue, and so each key, would be a step of its own. The group stays open over many
/// turns; the document can be saved meanwhile.
@MainActor
final class TypingGroup {
    /// The manager whose group is open.
    private var manager: UndoManager?
    private var name = ""
    private var pause: Task<Void, Never>?

    /// To be called before each change that typing makes.
    func type(_ name: String, _ manager: UndoManager?) {
        if self.manager !== manager || self.name != name {
            end()
            manager?.beginUndoGrouping()
            manager?.setActionName(name)
            (self.manager, self.name) = (manager, name)
        }
        pause?.cancel()
        pause = Task { [weak self] in
            try? await Task.sleep(for: .seconds(1))
            if !Task.isCancelled { self?.end() }
        }
    }

    /// To be called before everything else, which the group would contain otherwise.
    func end() {
        pause?.cancel()
        manager?.endUndoGrouping()
        manager = nil
    }
}
