/// Carries out an entity mapping in its own way.
open class EntityMigrationPolicy {
    /// Makes a policy.
    public init() {}
}
