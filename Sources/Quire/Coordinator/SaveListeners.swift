/// Observes what is saved to a source. Called on any queue, so it only passes on.
protocol SaveListener: AnyObject, Sendable {
    /// The source has new values.
    ///
    /// - Parameters:
    ///   - isByRows: Whether only the objects are named whose rows were written, not those that relate to them.
    ///   - areKnown: Whether the listeners were told of these changes when the source got them, so that only what the
    ///     stores have derived from them can be new.
    func sourceDidSave(_ changes: ObjectIDChanges, isByRows: Bool, areKnown: Bool)
}

/// Those who want to know what is saved to a coordinator or a parent context. It does not retain them.
final class SaveListeners: Sendable {
    private struct Entry {
        weak var listener: (any SaveListener)?
    }

    private let entries = Lock<[Entry]>([])

    /// Whether nobody listens; then there is no need to find out what to tell.
    var isEmpty: Bool { entries.withLock(\.isEmpty) }

    func add(_ listener: any SaveListener) {
        entries.withLock { entries in
            entries.removeAll { $0.listener == nil }
            entries.append(Entry(listener: listener))
        }
    }

    func remove(_ listener: any SaveListener) {
        entries.withLock { $0.removeAll { $0.listener == nil || $0.listener === listener } }
    }

    /// Tells all but the one who saved.
    func tell(
        _ changes: ObjectIDChanges, isByRows: Bool = false, areKnown: Bool = false,
        except saver: (any SaveListener)?
    ) {
        let listeners = entries.withLock { $0.compactMap(\.listener) }
        for listener in listeners where listener !== saver {
            listener.sourceDidSave(changes, isByRows: isByRows, areKnown: areKnown)
        }
    }
}
