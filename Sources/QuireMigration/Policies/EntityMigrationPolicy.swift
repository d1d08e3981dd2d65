public import QuireModel
internal import QuireSystem

/// Carries out an entity mapping in its own way: makes no new objects of an old one, or several, computes values, connects
/// objects.
///
/// Subclass it, override what is to be different, and register it with the manager under the name that the mapping has for
/// it. For each of its mappings these are called in this order: ``begin(_:session:)``,
/// ``createDestinationObjects(for:mapping:session:)`` for each old object, ``endInstanceCreation(_:session:)``; then, when
/// all objects of all mappings are made, ``createRelationships(for:mapping:session:)`` for each new object,
/// ``endRelationshipCreation(_:session:)``, ``performCustomValidation(_:session:)`` and ``end(_:session:)``.
///
/// ```swift
/// final class MakerPolicy: EntityMigrationPolicy {
///     override func createDestinationObjects(
///         for source: MigrationSource, mapping: EntityMapping, session: MigrationSession
///     ) throws {
///         let car = try session.makeObject(for: source, mapping: mapping)
///         guard case .string(let name) = try source["maker"] else { return }
///         let maker = try session.objects(of: "Maker").first { $0["name"] == .string(name) }
///             ?? session.makeObject(of: "Maker", values: ["name": .string(name)])
///         try car.setObjects([maker.objectID], for: "createdBy")
///     }
/// }
/// ```
///
/// The objects that policies make are kept in memory until all of them are complete. An error thrown by a policy ends the
/// migration, and nothing is changed.
open class EntityMigrationPolicy {
    /// Makes a policy.
    public init() {}

    /// Called before anything else.
    open func begin(_ mapping: EntityMapping, session: MigrationSession) throws {}

    /// Makes the new objects of an old one: as inherited, one with the values that the mapping says.
    open func createDestinationObjects(
        for source: MigrationSource, mapping: EntityMapping, session: MigrationSession
    ) throws {
        _ = try session.makeObject(for: source, mapping: mapping)
    }

    /// Called when the objects of a mapping are made.
    open func endInstanceCreation(_ mapping: EntityMapping, session: MigrationSession) throws {}

    /// Connects a new object with others: as inherited, as the mapping says. What has been set already stays.
    open func createRelationships(
        for object: MigrationObject, mapping: EntityMapping, session: MigrationSession
    ) throws {
        try session.connect(object, mapping: mapping)
    }

    /// Called when the objects of a mapping are connected.
    open func endRelationshipCreation(
        _ mapping: EntityMapping, session: MigrationSession
    ) throws {}

    /// Throws if something is not as it has to be.
    open func performCustomValidation(_ mapping: EntityMapping, session: MigrationSession) throws {}

    /// Called in the end.
    open func end(_ mapping: EntityMapping, session: MigrationSession) throws {}

    /// Computes what an expression of the mapping calls, `FUNCTION($entityPolicy, "name:", …)`.
    ///
    /// - Parameters:
    ///   - function: The function's name, with its colons.
    ///   - arguments: What it is called with; an old object is its identifier.
    ///   - source: The old object that a value is computed for.
    /// - Throws: As inherited, always: ``QuireError`` with code `unsupported`.
    open func value(
        of function: String, arguments: [AttributeValue], source: MigrationSource,
        session: MigrationSession
    ) throws -> AttributeValue {
        throw QuireError(
            .unsupported,
            "The mapping calls “\(function)”, which its policy \(Swift.type(of: self)) does not have; override value(of:arguments:source:session:)."
        )
    }
}
