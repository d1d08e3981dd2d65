import Quire

/// A class for notes, with what `@Entity` and `@Attribute` write: by hand, so that measuring needs no compiler
/// plugin and what it is built from.
final class TypedNote: ManagedObject {
    var title: String? {
        get { attribute(PropertyOrdinals.title) }
        set { setAttribute(PropertyOrdinals.title, newValue) }
    }
    var rating: Int64? {
        get { attribute(PropertyOrdinals.rating) }
        set { setAttribute(PropertyOrdinals.rating, newValue) }
    }

    nonisolated override class var entityDeclaration: EntityDeclaration? {
        EntityDeclaration(
            "Note", of: TypedNote.self, inheriting: ManagedObject.self,
            properties: [
                .attribute("title", String.self, isOptional: true),
                .attribute("rating", Int64.self, isOptional: true),
            ])
    }

    nonisolated enum PropertyOrdinals {
        static var title: Int { ManagedObject.PropertyOrdinals.propertyCount + 0 }
        static var rating: Int { ManagedObject.PropertyOrdinals.propertyCount + 1 }
        static var propertyCount: Int { ManagedObject.PropertyOrdinals.propertyCount + 2 }
    }
}

extension GraphTask {
    /// Properties of typed objects, beside access by slot.
    static let typedAccess = [
        GraphTask(
            id: "T1", title: "read an integer of N typed objects", otherTitle: "by slot", must: 1.5
        ) { site, measured, other in
            try compare(site, other: other, measured) {
                $0.reduce(0) { $0 + ($1.integer(at: site.slots.rating) ?? 0) }
            } typed: {
                $0.reduce(0) { $0 + ($1.rating ?? 0) }
            }
        },
        GraphTask(
            id: "T2", title: "read a text of N typed objects", otherTitle: "by slot", must: 1.5
        ) { site, measured, other in
            try compare(site, other: other, measured) {
                $0.reduce(0) { $0 + Int64($1.string(at: site.slots.title)?.utf8.count ?? 0) }
            } typed: {
                $0.reduce(0) { $0 + Int64($1.title?.utf8.count ?? 0) }
            }
        },
        GraphTask(
            id: "T3", title: "set an integer of N typed objects", otherTitle: "by slot", must: 1.5
        ) { site, measured, other in
            try compare(site, other: other, measured) { notes in
                for note in notes { try note.setValue(.integer(1), at: site.slots.rating) }
                return 0
            } typed: { notes in
                for note in notes { note.rating = 1 }
                return 0
            }
        },
    ]

    private static func compare(
        _ site: GraphSite, other: Stopwatch, _ measured: Stopwatch,
        _ bySlot: ([TypedNote]) throws -> Int64, typed: ([TypedNote]) throws -> Int64
    ) throws {
        func time(_ stopwatch: Stopwatch, _ body: ([TypedNote]) throws -> Int64) throws -> Int64 {
            try site.withNotes(of: site.typedCoordinator) { _, notes in
                let notes = notes.compactMap { $0 as? TypedNote }
                guard notes.count == site.count else {
                    throw BenchmarkFailure("The notes are not of their class.")
                }
                stopwatch.start()
                let sum = try body(notes)
                stopwatch.stop()
                return sum
            }
        }
        if try time(other, bySlot) != time(measured, typed) {
            throw BenchmarkFailure("Typed properties have given other values.")
        }
    }
}
