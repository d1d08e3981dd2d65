internal import Observation

/// Tells whether `withObservationTracking` is recording accesses on this thread.
///
/// The standard library does not say, but a registrar only looks at a key path if somebody records: it then puts
/// it into a set, which asks for its hash. So the probe has its registrar record an access by a key path that
/// notices being hashed. That costs 33 ns, where a registrar for each object read would cost 90 ns and its
/// memory.
///
/// What recorded it would be kept by the probe's registrar until it is called. Therefore the registrar is
/// replaced as soon as nobody records any more.
final class TrackingProbe {
    private final class Subject: Observable {
        subscript(observed witness: Witness) -> Void { () }
    }

    /// Part of a key path that notices when it is hashed.
    private final class Witness: Hashable {
        var wasHashed = false

        static func == (left: Witness, right: Witness) -> Bool { left === right }

        func hash(into hasher: inout Hasher) {
            wasHashed = true
            hasher.combine(ObjectIdentifier(self))
        }
    }

    private let subject = Subject()
    private let witness = Witness()
    private let keyPath: KeyPath<Subject, Void>
    private var registrar = ObservationRegistrar()
    private var wasRecorded = false

    init() {
        keyPath = \Subject[observed: witness]
        witness.wasHashed = false
    }

    /// Whether accesses are being recorded.
    func isTracking() -> Bool {
        registrar.access(subject, keyPath: keyPath)
        if witness.wasHashed {
            witness.wasHashed = false
            wasRecorded = true
            return true
        }
        release()
        return false
    }

    /// Lets go of what recorded it.
    func release() {
        guard wasRecorded else { return }
        wasRecorded = false
        // Freed last, because that may free objects, whose end may come back here.
        let old = registrar
        registrar = ObservationRegistrar()
        withExtendedLifetime(old) {}
    }
}
